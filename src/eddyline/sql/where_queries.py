"""Queries in WHERE: EXISTS, NOT EXISTS, IN and NOT IN, which are semi and anti joins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eddyline.errors import Span, TypeMismatchError, UnsupportedError
from eddyline.expressions import call
from eddyline.model import Call, Column, Expression, Stream
from eddyline.sql import syntax
from eddyline.sql.bind import Binder
from eddyline.sql.bound_query import BoundQuery
from eddyline.sql.sets import is_table
from eddyline.sql.subqueries import conjuncts


def match_test(node: syntax.Node) -> tuple[syntax.Exists | syntax.InQuery, str, str]:
    """What a condition that is a query tests, how its input is joined, and how it was written."""
    is_negated = isinstance(node, syntax.Unary)
    test = node.operand if isinstance(node, syntax.Unary) else node
    assert isinstance(test, (syntax.Exists, syntax.InQuery)), test
    if isinstance(test, syntax.InQuery):
        return (
            (test, "left anti", "NOT IN (SELECT …)") if is_negated else (test, "left semi", "IN (SELECT …)")
        )
    return (test, "left anti", "NOT EXISTS") if is_negated else (test, "left semi", "EXISTS")


def membership(
    node: syntax.InQuery, bound: BoundQuery, binder: Binder
) -> tuple[Expression, Expression, Expression]:
    """value = column, for IN (query); and its two sides."""
    if len(bound.projection) > 1:
        raise TypeMismatchError(
            f"IN takes a query with one column, this one has {len(bound.projection)}",
            span=node.query.span,
            hint="Select the column that the value is compared with.",
        )
    binder.clause = "WHERE"
    value, column = binder.bind(node.value), bound.projection[0].expression
    return binder.equality(value, column, node.span), value, column


def not_excluded(
    equality: Expression,
    sides: Sequence[Expression],
    streams: Mapping[str, Stream],
    conditions: Iterable[Expression],
) -> Expression:
    """What a row of the query must not be, for NOT IN to be true: equal to the value, or NULL, or any row if the value is NULL.

    `streams` are those of the inputs, by their names. A side that is never NULL is not asked: a key, or what one of the
    `conditions` around says is not NULL.
    """
    known = {
        part.arguments[0] for part in conditions if isinstance(part, Call) and part.function == "is not null"
    }
    nullable = [side for side in sides if side not in known and not _is_key(side, streams)]
    return call("or", [equality, *(call("is null", [side]) for side in nullable)]) if nullable else equality


def _is_key(e: Expression, streams: Mapping[str, Stream]) -> bool:
    return isinstance(e, Column) and e.name in streams[e.input].key


def refuse_not_in_stream(stream: Stream, span: Span) -> None:
    """Refuse NOT IN over rows that only come."""
    if not is_table(stream):
        raise UnsupportedError(
            f"NOT IN (SELECT …) takes a query over a table; {stream.name} has no key",
            span=span,
            detail="One row with NULL in the column, and NOT IN is not true for any row that it is compared with.",
            hint=f"Declare a key for {stream.name}."
            " Or write NOT EXISTS (SELECT 1 FROM b WHERE b.y = a.x), which leaves NULL out.",
        )


def split_where(where: syntax.Node | None) -> tuple[syntax.Node | None, list[syntax.Node]]:
    """The conditions of WHERE without queries, and those that are queries."""
    parts = conjuncts(where)
    nested = [part for part in parts if _is_nested(part)]
    if where is None or not nested:
        return where, []
    plain = tuple(part for part in parts if not _is_nested(part))
    if len(plain) <= 1:
        return (plain[0] if plain else None), nested
    return syntax.Chain("and", plain, span=where.span), nested


def _is_nested(node: syntax.Node) -> bool:
    is_negation = isinstance(node, syntax.Unary) and node.operator == "not"
    tested = node.operand if is_negation and isinstance(node, syntax.Unary) else node
    return isinstance(tested, (syntax.Exists, syntax.InQuery))
