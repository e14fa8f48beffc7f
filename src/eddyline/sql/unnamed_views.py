"""Views without a name: queries in FROM and WITH that cannot become part of the query around them, such as sets.

Such a query is a relation of its own, whose rows the query around it reads (docs/decisions/0031-unnamed-views.md). The relation
is called by what the query does, so that equal ones are one relation, wherever they are written. Its constants are part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from eddyline.catalog import codec, view_relation
from eddyline.errors import Span
from eddyline.expressions import NeedsLiteral
from eddyline.model import (
    Column,
    Expression,
    Input,
    ProjectedColumn,
    Shape,
    Slot,
    Stream,
    UnnamedView,
    UserCall,
)
from eddyline.sql import syntax
from eddyline.sql.bound_query import BoundQuery, expressions_of
from eddyline.sql.sets import is_table

_DIGEST_BYTES = 12  # of the name; two queries that differ must not get the same

ShapeOf = Callable[[Sequence[BoundQuery]], Shape]  # the shape of a query without slots, given its branches


@dataclass(frozen=True, slots=True)
class UnnamedRelation:
    """A view without a name, and its columns and time as the query around it sees them."""

    view: UnnamedView
    stream: Stream

    def columns(self, number: str, span: Span) -> BoundQuery:
        """The query that selects all its columns, from an input with this number."""
        entry = Input(number, self.stream.name, span=span, view=self.view)
        projection = (ProjectedColumn(f.name, Column(f.type, f.name, number)) for f in self.stream.schema)
        return BoundQuery((entry,), (self.stream,), tuple(projection), None, ())


def unnamed_relation(
    branches: Sequence[BoundQuery], shape_of: ShapeOf, streams: Mapping[str, Stream], words: str
) -> UnnamedRelation:
    """The view that a bound query is; `streams` are those it reads, by name in lower case.

    Raises NeedsLiteral for its constants.
    """
    slots = {node.index for e in _expressions(branches) for node in e.walk() if isinstance(node, Slot)}
    if slots:
        raise NeedsLiteral(*sorted(slots))
    calls = (node for e in _expressions(branches) for node in e.walk() if isinstance(node, UserCall))
    functions = tuple(sorted({(call.function, call.version) for call in calls}))
    shape = shape_of([replace(branch, functions=functions) for branch in branches])
    meaning = codec.shape_meaning(_without_aliases(shape)).encode()
    digest = hashlib.blake2b(meaning, digest_size=_DIGEST_BYTES)
    name = f"subquery {digest.hexdigest()}"

    def input_of(stream: str) -> tuple[Stream, bool]:
        found = streams[stream.lower()]
        return found, is_table(found)

    named = with_key(shape, name)
    return UnnamedRelation(UnnamedView(named, words), view_relation(name, 0, named, input_of).stream)


def _without_aliases(shape: Shape) -> Shape:
    """The same without what inputs are called, where nothing else names them so: columns of a join do."""
    inputs = tuple(replace(entry, alias="") if shape.join is None else entry for entry in shape.inputs)
    return replace(shape, inputs=inputs, branches=tuple(map(_without_aliases, shape.branches)))


def with_key(shape: Shape, key: str) -> Shape:
    """The shape under a key, and its branches under keys of their own."""
    branches = (replace(each, key=f"{key}; branch {k}", branch=k) for k, each in enumerate(shape.branches, 1))
    return replace(shape, key=key, branches=tuple(branches))


def first_select(query: syntax.AnyQuery) -> Span:
    """Where a query begins."""
    while isinstance(query, syntax.UnionNode):
        query = query.branches[0]
    return query.span


def words_of(query: syntax.AnyQuery, text: str) -> str:
    """What users call a query inside another one: by the line in which it begins."""
    return f"the subquery at line {text.count(chr(10), 0, first_select(query).start) + 1}"


def _expressions(branches: Sequence[BoundQuery]) -> list[Expression]:
    return [e for branch in branches for e in expressions_of(branch)]
