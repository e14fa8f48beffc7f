"""A query with names and types resolved, before normalising; and the same with other constants or names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from eddyline.errors import Span
from eddyline.model import (
    Aggregating,
    Call,
    Column,
    Expression,
    Input,
    ProjectedColumn,
    Slot,
    Stream,
    UserCall,
)


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query with names and types resolved. Columns name the input they are of by its alias."""

    inputs: tuple[Input, ...]
    streams: tuple[Stream, ...]
    projection: tuple[ProjectedColumn, ...]
    where: Expression | None
    functions: tuple[tuple[str, str], ...]
    distinct: Span | None = None  # where SELECT DISTINCT was written
    is_one_set: bool = False  # it is one of several branches, and equal rows of all of them are one result
    parts: tuple[
        tuple[int, Span], ...
    ] = ()  # the part of each union that it reads: its number from 1, and its SELECT
    aggregating: Aggregating | None = None  # its only input is the class of rows of this aggregation


def slots_in(bound: BoundQuery) -> set[int]:
    """The slots a bound query uses."""
    return {node.index for e in expressions_of(bound) for node in e.walk() if isinstance(node, Slot)}


def expressions_of(bound: BoundQuery) -> Iterator[Expression]:
    """All expressions of a query."""
    for e in (bound.where, *(i.on for i in bound.inputs)):
        if e is not None:
            yield e
    yield from (p.expression for p in bound.projection)


def with_slots(bound: BoundQuery, renumbered: Mapping[int, int]) -> BoundQuery:
    """The same query with its slots renumbered."""
    if all(old == new for old, new in renumbered.items()):
        return bound
    return _with_leaves(bound, lambda e: replace(e, index=renumbered[e.index]) if isinstance(e, Slot) else e)


def with_aliases(bound: BoundQuery, aliases: Mapping[str, str]) -> BoundQuery:
    """The same query with other names for its inputs."""
    renamed = _with_leaves(
        bound, lambda e: replace(e, input=aliases[e.input]) if isinstance(e, Column) else e
    )
    return replace(renamed, inputs=tuple(replace(each, alias=aliases[each.alias]) for each in renamed.inputs))


def _with_leaves(bound: BoundQuery, leaf: Callable[[Expression], Expression]) -> BoundQuery:
    done: dict[int, Expression] = {}  # by identity: what queries inside others compute may be here many times

    def new(e: Expression) -> Expression:
        found = done.get(id(e))
        if found is None:
            found = done[id(e)] = fresh(e)
        return found

    def fresh(e: Expression) -> Expression:
        if isinstance(e, (Call, UserCall)):
            return replace(e, arguments=tuple(map(new, e.arguments)))
        return leaf(e)

    def optional(e: Expression | None) -> Expression | None:
        return None if e is None else new(e)

    return replace(
        bound,
        inputs=tuple(replace(i, on=optional(i.on)) for i in bound.inputs),
        projection=tuple(replace(p, expression=new(p.expression)) for p in bound.projection),
        where=optional(bound.where),
    )
