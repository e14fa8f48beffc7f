"""Queries whose results are a set: SELECT DISTINCT, and semi joins of tables.

A result is there as long as something it occurs in is, so occurrences are counted (engine/multiplicities.py). That takes rows
that leave as well as appear, and conditions that say of a row that leaves what they said when it appeared.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline.errors import Span, TypeMismatchError, UnsupportedError
from eddyline.expressions import is_volatile
from eddyline.model import TABLE_VIEW, Column, Expression, Stream, UserCall
from eddyline.sql import syntax
from eddyline.sql.bound_query import BoundQuery, expressions_of
from eddyline.types import type_name


def is_table(stream: Stream) -> bool:
    """Whether the rows of a relation leave as well as appear."""
    return stream.is_keyed or stream.source == TABLE_VIEW


def distinct_span(query: syntax.AnyQuery) -> Span | None:
    """Where a query says DISTINCT, or UNION without ALL; None if it does not."""
    if not query.is_distinct or isinstance(query, syntax.UnionNode):
        return query.span if query.is_distinct else None
    return Span(query.span.start, query.projection[0].span.end)


def _written(query: syntax.AnyQuery) -> str:
    return "UNION" if isinstance(query, syntax.UnionNode) else "SELECT DISTINCT"


def _ways_over_streams(bound: BoundQuery) -> str:
    """What to write over a stream in place of DISTINCT, with the columns of the text."""
    columns = [p for p in bound.projection if any(isinstance(n, Column) for n in p.expression.walk())]
    if not columns:
        return ""
    names, first = ", ".join(column.name for column in columns), columns[0].name
    return (
        f" Or leave DISTINCT out and write GROUP BY {names} with keep = '30 days': each is a result once, as long as it has rows "
        f"(docs/aggregates.md). Or use an alert: with per = '{first}' and cooldown = '1 hour' it is sent once for each {first} "
        "(docs/alerts.md)."
    )


def refuse_distinct(bound: BoundQuery, query: syntax.AnyQuery) -> None:
    """Refuse a set where rows never leave, where values have no equality, or where they change by themselves.

    `query` is what is bound; of a union without DISTINCT around it, the parts may be sets.
    """
    if bound.distinct is None:
        return
    written = _written(query) if query.is_distinct else "SELECT DISTINCT"
    streams = [each for each in bound.streams if not is_table(each)]
    if streams:
        name = streams[0].name
        raise UnsupportedError(
            f"{written} is not supported over {name}, which has no key",
            span=bound.distinct,
            detail=f"Rows of {name} never leave, so every value would have to be kept for ever.",
            hint=f"Declare a key for {name}: DISTINCT is then over the latest row of each key.{_ways_over_streams(bound)}"
            if written != "UNION"
            else f"Write UNION ALL: every row of each part is a result. Or declare a key for {name}.",
        )
    windowed = [each.name for each in bound.streams if each.is_windowed]
    if windowed:
        raise UnsupportedError(
            f"{written} is not supported over {windowed[0]}, which has windows that change until they close",
            span=bound.distinct,
            detail="Each closed window would have to be remembered for ever.",
            hint="Leave DISTINCT out, or read a view without a window."
            if written != "UNION"
            else "Write UNION ALL: every row of each part is a result.",
        )
    for column in bound.projection:
        if _has_map(column.expression.type):
            raise TypeMismatchError(
                f"{written} does not take {column.name}, which is {type_name(column.expression.type)}",
                span=bound.distinct,
                detail="Maps have no equality.",
                hint="Select the keys or values that matter: map_keys(m), or m['a'].",
            )
    refuse_volatile(tuple(expressions_of(bound)), written)
    volatile = [each.name for each in bound.streams if each.is_volatile]
    if volatile:
        raise UnsupportedError(
            f"{written} does not take {volatile[0]}: it asks for now(), or calls a function that is not deterministic",
            span=bound.distinct,
            detail="Occurrences are counted: of a row that leaves, the view must say what it said when the row appeared.",
            hint="Compare with a constant or a column in the view.",
        )


def refuse_volatile(expressions: Sequence[Expression], where: str) -> None:
    """Refuse what may say something else of a row when it leaves than when it appeared."""
    for e in expressions:
        if not is_volatile(e):
            continue
        calls = (n for n in e.walk() if isinstance(n, UserCall) and not n.is_deterministic)
        call = next(calls, None)
        raise UnsupportedError(
            "now() and the like cannot stand in " + where
            if call is None
            else f"{call.function} is not deterministic and cannot stand in {where}",
            span=e.span if call is None else call.span,
            detail="Of a row that leaves, the query must say what it said when the row appeared.",
            hint="Compare with a constant or a column."
            if call is None
            else "Declare the function deterministic.",
        )


def _has_map(t: pa.DataType) -> bool:
    if pa.types.is_map(t):
        return True
    return any(_has_map(t.field(k).type) for k in range(t.num_fields))
