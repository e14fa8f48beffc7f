"""UNION ALL: a query of several parts is bound once for each way to choose one part of every union in it.

A row of a union is a row of one of its parts. So a query over unions is the union of the queries that read one part of each: its
*branches*, all of them plain (docs/decisions/0028-unions-are-branches.md). Parts have the columns of the first, in types that
hold the values of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from eddyline import types
from eddyline.errors import LimitError, Span, TypeMismatchError, UnsupportedError
from eddyline.expressions import cast, common_type
from eddyline.model import ProjectedColumn
from eddyline.sql import syntax
from eddyline.sql.bound_query import BoundQuery

MOST_BRANCHES = 64

_NAMED = "Register the union as a view, and read that view here."
_JOINED = "Write JOIN: each match is a result."
_NO_MATCH = "Which rows find no match is known only of all parts together.", _NAMED
_ONE_RESULT = "A row that matches in several parts is one result.", _JOINED
# how an input is joined, and why a query with a union there is not the union of what it is over each part
_NOT_DIVIDED = {
    "left": _NO_MATCH,
    "right": _NO_MATCH,
    "left anti": _NO_MATCH,
    "left semi": _ONE_RESULT,
    "asof": ("The latest row is known only of all parts together.", _JOINED),
}


@dataclass(frozen=True, slots=True)
class UnionColumn:
    """A column of a union: the name that the first part gives it, and the type that holds the values of all parts."""

    name: str
    type: pa.DataType


class Choices:
    """Which part of each union is bound now. One binding of the text after the other takes all combinations, in order."""

    def __init__(self) -> None:
        self.n_met = 0  # unions that binding has come to, so far
        self.parts: list[
            tuple[int, Span]
        ] = []  # taken for this combination: numbers from 1, and where they stand
        self._choices: list[list[int]] = []  # of each union met: the part taken, and how many it has
        self._next = 0
        self._is_silent = False

    def take(self, node: syntax.UnionNode) -> int:
        """The part to bind of the union that binding has come to."""
        self.n_met += 1
        if self._is_silent:
            return 0
        if self._next == len(self._choices):
            self._choices.append([0, len(node.branches)])
        self._next += 1
        at = self._choices[self._next - 1][0]
        self.parts.append((at + 1, _first_select(node.branches[at]).span))
        return at

    def advance(self) -> bool:
        """Go on to the next combination; False if there is none."""
        self._next = 0
        self.parts = []
        while self._choices and self._choices[-1][0] + 1 == self._choices[-1][1]:
            self._choices.pop()
        if self._choices:
            self._choices[-1][0] += 1
        return bool(self._choices)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Binding only to look: the first part of every union, and nothing is chosen."""
        before, self._is_silent = self._is_silent, True
        try:
            yield
        finally:
            self._is_silent = before


def union_columns(
    node: syntax.UnionNode, parts: Sequence[BoundQuery], *, is_inner: bool
) -> tuple[UnionColumn, ...]:
    """The columns of a union of these parts; one that is itself part of a union may have columns without a type."""
    first = parts[0].projection
    for at, part in enumerate(parts[1:], 1):
        if len(part.projection) != len(first):
            raise TypeMismatchError(
                f"the parts of {union_words(node)} have {_columns(len(first))} and {_columns(len(part.projection))}",
                span=_projection_span(node.branches[at]),
                hint="Select as many columns in each part; NULL can stand for one that a part does not have.",
            )
    found = []
    for place, column in enumerate(first):
        own_types = [part.projection[place].expression.type for part in parts]
        common = common_type(own_types)
        if common is None:
            at, other = next(
                (k, t) for k, t in enumerate(own_types) if common_type(own_types[: k + 1]) is None
            )
            before = common_type(own_types[:at]) or own_types[0]
            raise TypeMismatchError(
                f"column {column.name} is {types.type_name(before)} in one part of {union_words(node)} and"
                f" {types.type_name(other)} in another",
                span=parts[at].projection[place].expression.span or _projection_span(node.branches[at]),
                hint=f"Convert it: CAST(… AS {types.type_name(before)}).",
            )
        if common == types.NULL and not is_inner:
            raise TypeMismatchError(
                f"column {column.name} has no type",
                span=column.expression.span or node.span,
                hint="Write CAST(NULL AS STRING) or another type in one of the parts.",
            )
        found.append(UnionColumn(column.name, common))
    return tuple(found)


def union_words(node: syntax.AnyQuery) -> str:
    """How a union is written; of a query that reads one, the plain form."""
    return "UNION" if isinstance(node, syntax.UnionNode) and node.is_distinct else "UNION ALL"


def as_part(bound: BoundQuery, columns: Sequence[UnionColumn]) -> BoundQuery:
    """A part of a union with the names and types of the union."""
    return replace(
        bound,
        projection=tuple(
            ProjectedColumn(column.name, cast(own.expression, column.type, span=own.expression.span))
            for own, column in zip(bound.projection, columns, strict=True)
        ),
    )


def _columns(n: int) -> str:
    return f"{n} column{'' if n == 1 else 's'}"


def _first_select(part: syntax.AnyQuery) -> syntax.QueryNode:
    while isinstance(part, syntax.UnionNode):
        part = part.branches[0]
    return part


def _projection_span(part: syntax.AnyQuery) -> Span:
    projection = _first_select(part).projection
    return projection[0].span.to(projection[-1].span)


# ------------------------------------------------------------------------------------------------ refusals


def refuse_too_many(n_branches: int, span: Span) -> None:
    """Refuse a text that is the union of more queries than it may be."""
    if n_branches > MOST_BRANCHES:
        raise LimitError(
            f"the query is a union of more than {MOST_BRANCHES} queries",
            span=span,
            detail="A query that joins unions is a union of all combinations of their parts.",
            hint="Register a union as a view and join that, or divide the query.",
        )


def refuse_undivided(nodes: Sequence[syntax.InputNode], unions: Mapping[int, Span]) -> None:
    """Refuse unions where the query around them is not the union of what it is over each part; `unions` by entry of FROM."""
    for place, node in enumerate(nodes):
        if node.join not in _NOT_DIVIDED:
            continue
        sides = range(place) if node.join == "right" else (place,)
        for side in sides:
            if side in unions:
                which, (detail, hint) = "left" if node.join == "right" else "right", _NOT_DIVIDED[node.join]
                raise UnsupportedError(
                    f"UNION ALL is not supported on the {which} side of {node.join.upper()} JOIN",
                    span=unions[side],
                    detail=detail,
                    hint=hint,
                )


def refuse_in_where(union: str, written: str, span: Span) -> None:
    """Refuse a union in a query of WHERE."""
    detail, hint = _NO_MATCH if written == "NOT EXISTS" else _ONE_RESULT
    raise UnsupportedError(f"{union} is not supported in {written}", span=span, detail=detail, hint=hint)
