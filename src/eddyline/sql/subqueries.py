"""Queries inside a query: what an entry of FROM, or a query of WHERE, adds to the query around it.

A subquery without DISTINCT, UNION and groups is its inputs, a condition, and columns that are expressions over the inputs. So it
is merged: results are those of the same query written as one SELECT, and all that is built for joins serves it, too
(docs/decisions/0025-merged-subqueries.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from eddyline.errors import LimitError, ParseError, Span, UnsupportedError
from eddyline.expressions import call
from eddyline.model import Call, Column, Expression, Input, Literal, Slot, Stream, UserCall
from eddyline.sql import syntax
from eddyline.sql.bound_query import BoundQuery, expressions_of
from eddyline.sql.scope import ScopeSource

MAX_INPUTS = 8

# Calls that are NULL if an argument is, so that they are NULL where an outer join finds no match.
_STRICT = frozenset(("cast", "+", "-", "*", "negate", "field", "upper", "lower", "trim", "length"))
_COMPARISONS = frozenset(("=", "<", "<=", ">", ">=", "!="))


@dataclass(frozen=True, slots=True)
class FromEntry:
    """An entry of FROM, bound: a stream, or a query that becomes part of the one around it."""

    span: Span
    inputs: tuple[Input, ...]
    streams: tuple[Stream, ...]
    where: Expression | None
    source: ScopeSource
    bound: BoundQuery | None = None  # of a query
    unrepeatable: UserCall | None = None  # a call in it of a function that is not deterministic

    def with_names(self, names: Sequence[str]) -> FromEntry:
        """The same with other names for its columns: AS x(a, b)."""
        if not names:
            return self
        source, schema = self.source, self.source.schema
        if len(names) != len(schema):
            raise ParseError(
                f"{source.label} has {len(schema)} columns, and {len(names)} names are given",
                span=self.span,
                hint="Give a name to each column, in order.",
            )
        columns = source.columns or tuple(Column(f.type, f.name, source.input) for f in schema)
        renamed = pa.schema([f.with_name(name) for f, name in zip(schema, names, strict=True)])
        return replace(self, source=replace(source, schema=renamed, columns=columns))


def query_entry(span: Span, alias: str, names: Sequence[str], bound: BoundQuery) -> FromEntry:
    """The entry that a bound query is; `names` are those that WITH gives its columns."""
    schema = pa.schema([pa.field(p.name, p.expression.type) for p in bound.projection])
    columns = tuple(_as_column(p.expression) for p in bound.projection)
    source = ScopeSource(alias, alias or "the subquery", schema, columns=columns)
    unrepeatable = next(_unrepeatable_calls(expressions_of(bound)), None)
    entry = FromEntry(span, bound.inputs, bound.streams, bound.where, source, bound, unrepeatable)
    return entry.with_names(names)


def _as_column(e: Expression) -> Expression:
    """A constant as the column of a query: it has the type it has there, whatever it is compared with."""
    return Call(e.type, "cast", (e,), span=e.span) if isinstance(e, (Slot, Literal)) else e


def _unrepeatable_calls(expressions: Iterable[Expression]) -> Iterator[UserCall]:
    for e in expressions:
        if e.facts.has_user_calls:
            yield from (n for n in e.walk() if isinstance(n, UserCall) and not n.is_deterministic)


def all_of(parts: Sequence[Expression]) -> Expression | None:
    """The condition that all of these are; None: there is none."""
    return None if not parts else parts[0] if len(parts) == 1 else call("and", parts)


def conjuncts(node: syntax.Node | None) -> list[syntax.Node]:
    """The conditions that AND joins."""
    found: list[syntax.Node] = []
    waiting = [] if node is None else [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, syntax.Chain) and node.operator == "and":
            waiting.extend(reversed(node.operands))
        else:
            found.append(node)
    return found


def displayed_names(labels: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What inputs are called, no two alike: by their own alias if no other has it, else behind those of the queries around it."""
    own = Counter(label[-1].lower() for label in labels.values())
    names: dict[str, str] = {}
    given: set[str] = set()
    for number, label in labels.items():
        base = label[-1] if own[label[-1].lower()] == 1 or len(label) == 1 else "_".join(label)
        name, n = base, 2
        while name.lower() in given:
            name, n = f"{base}_{n}", n + 1
        given.add(name.lower())
        names[number] = name
    return names


# ------------------------------------------------------------------------------------------------ refusals


def refuse_too_many(inputs: Sequence[Input]) -> None:
    """Refuse a query that joins more inputs than there may be."""
    if len(inputs) > MAX_INPUTS:
        raise LimitError(
            f"a query joins at most {MAX_INPUTS} inputs, this one {len(inputs)}",
            span=inputs[MAX_INPUTS].span,
            hint="Leave some out, or join them in Spark and bring the rows with running.feed (docs/spark.md).",
        )


def refuse_several_inputs(written: str, entry: FromEntry) -> None:
    """Refuse a query that joins inputs where its rows are only asked for a match, or may be missing."""
    if len(entry.inputs) == 1:
        return
    what = written if written.isupper() else f"{written.upper()} JOIN"
    raise UnsupportedError(
        f"{what} takes a subquery over one stream, this one has {len(entry.inputs)}",
        span=entry.span,
        hint="Join one stream there; write JOIN where a match of the others is needed anyway.",
    )


def refuse_unrepeatable_calls(entries: Sequence[FromEntry], n_inputs: int) -> None:
    """Refuse functions that answer anew each time in a query that is joined: they would be asked for every combination."""
    for entry in entries:
        function = entry.unrepeatable
        if function is not None and len(entry.inputs) != n_inputs:
            raise UnsupportedError(
                f"{function.function} is not deterministic and cannot stand in a subquery that is joined",
                span=function.span,
                detail="It would be asked again for each row that its row meets.",
                hint="Write it in the outer SELECT or WHERE, or declare the function deterministic.",
            )


# ------------------------------------------------------------------------------------------------ outer joins


def guarded_columns(entry: FromEntry, on: Expression | None) -> tuple[Expression, ...] | None:
    """The columns of a query for rows that may find no match in it: NULL there.

    Most are by themselves. Any other is asked for only where something that ON compares is not NULL, which it is in every match.
    """
    columns = entry.source.columns
    if columns is None:
        return None
    guard = None
    own = entry.inputs[0].alias
    for part in condition_parts(on):
        if isinstance(part, Call) and part.function in _COMPARISONS:
            guard = guard or next((side for side in part.arguments if _is_of(side, own)), None)
    found: list[Expression] = []
    for at, column in enumerate(columns):
        if _is_null_alone(column):
            found.append(column)
        elif guard is None:
            raise UnsupportedError(
                f"column {entry.source.schema.names[at]} of {entry.source.label} would not be NULL where nothing matches",
                span=entry.span,
                detail="ON compares no column of the subquery that tells a match from none.",
                hint="Compute it in the outer SELECT, or add an equality to ON.",
            )
        else:
            is_match = call("is not null", [guard])
            found.append(call("case", [is_match, column, Literal(column.type, None)], span=column.span))
    return tuple(found)


def condition_parts(on: Expression | None) -> Iterator[Expression]:
    """The conditions that AND joins, bound."""
    waiting = [] if on is None else [on]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.function == "and":
            waiting.extend(reversed(part.arguments))
        else:
            yield part


def _is_of(e: Expression, alias: str) -> bool:
    """Whether it is NULL where the input has no row."""
    return _is_null_alone(e) and {n.input for n in e.walk() if isinstance(n, Column)} == {alias}


def _is_null_alone(e: Expression) -> bool:
    if isinstance(e, Column):
        return True
    return isinstance(e, Call) and e.function in _STRICT and any(map(_is_null_alone, e.arguments))
