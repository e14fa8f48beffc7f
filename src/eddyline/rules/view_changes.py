"""Replacing a view that other queries read: all of them become new generations with it, in one version, or nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eddyline.catalog import Catalog, QueryRecord, ReadableRelations, view_relation
from eddyline.errors import EddylineError, QueryStateError, SchemaError
from eddyline.model import Shape, Stream, ViewRelation
from eddyline.sql import Streams

# binds the text of a query again, given the relations it reads
Rebind = Callable[[QueryRecord, Streams], tuple[Shape, Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class ReaderChange:
    """A reader bound to a view as it is to become."""

    record: QueryRecord
    shape: Shape
    constants: Sequence[Any]


def refuse_cycle(catalog: Catalog, query_id: int, shape: Shape) -> None:
    """Refuse a text for a view that would read itself, directly or through others."""
    own = catalog.views.of_query(query_id).name
    path = _path_to(catalog, own, shape)
    if path:
        name = catalog.queries.name_of(query_id)
        raise QueryStateError(
            f"view {name} would read itself",
            detail=f"It would read {', which reads '.join(path)}.",
            hint="Give the new query another name, or read the streams below.",
        )


def _path_to(catalog: Catalog, own: str, shape: Shape) -> list[str]:
    """The views from a shape down to one, or nothing if it does not read it."""
    for name in shape.streams:
        if name.lower() == own:
            return [name]
        view = None if catalog.find_stream(name) is not None else catalog.views.find(name)
        for feed in () if view is None else view.feeds:
            below = _path_to(catalog, own, feed.shape)
            if below:
                return [name, *below]
    return []


def changed_readers(
    catalog: Catalog, query_id: int, shape: Shape, rebind: Rebind, *, without: Container[int] = ()
) -> list[ReaderChange]:
    """What becomes of the queries that read a view, those below others first; `without` are replaced themselves.

    Raises SchemaError if one could not read the view then.
    """
    refuse_cycle(catalog, query_id, shape)
    return rebound_readers(catalog, {query_id: shape}, rebind, without=without)


def rebound_readers(
    catalog: Catalog, changing: Mapping[int, Shape], rebind: Rebind, *, without: Container[int] = ()
) -> list[ReaderChange]:
    """The same of several views that change at once."""
    views: dict[int, ViewRelation] = {}
    for query_id, shape in changing.items():
        views[query_id] = _relation(catalog, query_id, shape, views)
    waiting = [
        each for each in catalog.views.with_readers(changing) if each not in views and each not in without
    ]
    changes: list[ReaderChange] = []
    while waiting:
        names = {catalog.views.of_query(each).name for each in waiting}
        ready = [each for each in waiting if not names & set(_reads(catalog, each))]
        for reader in ready:
            record = catalog.record(reader)
            changed = {view.name: view.stream for view in views.values()}
            try:
                found, constants = rebind(
                    record, ReadableRelations(catalog, record.properties.owner, changed)
                )
            except EddylineError as error:
                names_of = [catalog.queries.name_of(each) for each in changing]
                raise SchemaError(
                    f"view {', '.join(names_of[:3])} cannot change like this while queries read it",
                    detail=f"{record.name} could not: {error.problem}.",
                    hint=f"Replace or drop {record.name} first.",
                ) from None
            views[reader] = _relation(catalog, reader, found, views)
            changes.append(ReaderChange(record, found, constants))
        waiting = [each for each in waiting if each not in views]
    return changes


def _reads(catalog: Catalog, query_id: int) -> list[str]:
    return [name.lower() for name in catalog.queries.registration(query_id).shape.streams]


def _relation(
    catalog: Catalog, query_id: int, shape: Shape, changed: Mapping[int, ViewRelation]
) -> ViewRelation:
    """A view as it is to become, over views as they are to become."""
    by_name = {view.name: view for view in changed.values()}

    def input_of(name: str) -> tuple[Stream, bool]:
        view = by_name.get(name.lower())
        return catalog.views.input(name) if view is None else (view.stream, view.is_table)

    return view_relation(catalog.views.of_query(query_id).stream.name, query_id, shape, input_of)
