"""Going back: a new version whose queries are those of an earlier one.

Nothing is rewritten: the earlier version is read back, what differs from it now is dropped, replaced or registered, and all of
that is one new version. A query that was dropped since comes back under a new id, since ids are never used twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eddyline.catalog.catalog import Catalog
from eddyline.catalog.database import Database, StoredQuery, StoredTemplate
from eddyline.catalog.members import equal_rows, is_same_shape, replace_many
from eddyline.errors import QueryStateError, SchemaError
from eddyline.model import QueryState, Shape
from eddyline.types import type_name


@dataclass(slots=True)
class Restored:
    """What going back took: ids of queries."""

    version: int
    added: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.changed or self.dropped)


def restore(catalog: Catalog, version: int, now_us: int, *, dry_run: bool = False) -> Restored:
    """Make the queries of `version` stand again, as one new version; nothing happens if they do already.

    With `dry_run` it is only found out what that would take; the ids of queries that would be registered anew are those they had.
    """
    database = _database(catalog, version)
    singles = {query.id: query for query in database.queries(version)}
    templates = list(database.templates(version))
    todo = Restored(catalog.version)
    todo.dropped = _strangers(catalog, singles, templates)
    returning = [q for q in singles.values() if catalog.state(q.id) is QueryState.DROPPED]
    differing = [
        q
        for q in singles.values()
        if catalog.state(q.id) is not QueryState.DROPPED and _since(catalog, q.id) != q.version
    ]
    members = [(template, _left(catalog, template)) for template in templates]
    for _, left in members:
        gone = [i for i in left if catalog.state(i) is QueryState.DROPPED]
        todo.added += gone
        todo.changed += sorted(set(left) - set(gone))
    todo.added += [q.id for q in returning]
    todo.changed += [q.id for q in differing]
    if todo.is_empty or dry_run:
        return todo
    _check_streams(
        catalog,
        [q.shape for q in (*returning, *differing)] + [t.shape for t, left in members if left],
        database,
        version,
    )
    todo.added = []
    with catalog.change(f"roll back to version {version}"):
        for stream in database.streams(version):
            if catalog.find_stream(stream.name) is None:
                catalog.declare(stream)
        catalog.drop(todo.dropped)
        for query in differing:
            _put_back(catalog, query, now_us)
        for template, left in members:
            todo.added += _put_back_members(catalog, template, left, now_us)
        for query in returning:
            query_id = catalog.register(
                query.text, query.shape, query.constants, query.name, query.properties, now_us
            )
            catalog.set_paused(query_id, query.state is QueryState.PAUSED, now_us)
            todo.added.append(query_id)
    todo.version = catalog.version
    return todo


def _database(catalog: Catalog, version: int) -> Database:
    database = catalog._database
    if database is None:
        raise QueryStateError(
            "an engine in memory keeps no earlier versions",
            hint="Open it with a home: eddyline.open('folder').",
        )
    kept = [number for number, _, _ in database.versions(1_000_000)]
    if version not in kept:
        known = f"Kept are {min(kept)} to {max(kept)}." if kept else "There is no version yet."
        raise QueryStateError(
            f"there is no version {version} to go back to",
            detail=known,
            hint="See them with eddyline versions.",
        )
    return database


def _since(catalog: Catalog, query_id: int) -> int:
    """The version from which a query stands as it does now."""
    fate = catalog._fates.get(query_id)
    return fate.version if fate is not None else catalog._registration(query_id).version


def _strangers(
    catalog: Catalog, singles: dict[int, StoredQuery], templates: list[StoredTemplate]
) -> list[int]:
    """Queries of now that the earlier version did not have."""
    spans = [(t.first_id, t.first_id + t.n) for t in templates]
    first_known = {low for low, _ in spans}
    found = [
        query_id
        for query_id in catalog._singles
        if query_id not in singles
        and catalog.state(query_id) is not QueryState.DROPPED
        and not any(low <= query_id < high for low, high in spans)
    ]
    for bulk in catalog._bulks:
        if bulk.first_id not in first_known:
            ids = range(bulk.first_id, bulk.first_id + bulk.n)
            found += [
                i for i in ids if i not in catalog._singles and catalog.state(i) is not QueryState.DROPPED
            ]
    return sorted(found)


def _left(catalog: Catalog, template: StoredTemplate) -> list[int]:
    """Members of a template at the earlier version that are no longer plain members."""
    ended = set(template.ended)
    ids = range(template.first_id, template.first_id + template.n)
    changed = [i for i in catalog._fates if i in ids] + [i for i in catalog._singles if i in ids]
    return sorted({i for i in changed if i not in ended and not _is_plain(catalog, i, template)})


def _is_plain(catalog: Catalog, query_id: int, template: StoredTemplate) -> bool:
    fate = catalog._fates.get(query_id)
    if query_id in catalog._singles:
        return False
    return fate is None or (fate.state is QueryState.PAUSED and fate.version == template.version)


def _put_back(catalog: Catalog, query: StoredQuery, now_us: int) -> None:
    now = catalog.record(query.id)
    stored = [
        pa.array([value], slot.type) for value, slot in zip(query.constants, query.shape.slots, strict=True)
    ]
    same = (
        now.text == query.text
        and now.properties == query.properties
        and is_same_shape(now.shape, query.shape)
    )
    if same:
        current = [pa.array([c], s.type) for c, s in zip(now.constants, now.shape.slots, strict=True)]
        same = bool(equal_rows(stored, np.array([0]), current, np.array([0])).all())
    if not same:
        catalog.replace(query.id, query.text, query.shape, query.constants, query.properties, now_us)
    catalog.set_paused(query.id, query.state is QueryState.PAUSED, now_us)


def _put_back_members(catalog: Catalog, template: StoredTemplate, left: list[int], now_us: int) -> list[int]:
    """Members as the template has them; returns the new ids of those that had been dropped."""
    gone = [i for i in left if catalog.state(i) is QueryState.DROPPED]
    other = [i for i in left if catalog.state(i) is not QueryState.DROPPED]
    if other:
        replace_many(
            catalog,
            np.array(other, np.int64),
            template.text,
            template.shape,
            _rows(template, other),
            template.properties,
            now_us,
        )
        for query_id in other:
            catalog.set_paused(query_id, not template.properties.is_enabled, now_us)
    if not gone:
        return []
    names = None if template.names is None else [template.names[i - template.first_id] for i in gone]
    made = catalog.register_many(
        template.text, template.shape, _rows(template, gone), len(gone), names, template.properties, now_us
    )
    return list(range(made.first_id, made.first_id + made.n))


def _rows(template: StoredTemplate, ids: list[int]) -> list[pa.Array]:
    at = pa.array(np.array(ids, np.int64) - template.first_id)
    return [column.take(at) for column in template.columns]


def _check_streams(catalog: Catalog, shapes: list[Shape], database: Database, version: int) -> None:
    """Refuse if a stream no longer has what an earlier query needs."""
    before = {stream.name.lower(): stream for stream in database.streams(version)}
    for shape in shapes:
        old, now = before[shape.stream.lower()], catalog.find_stream(shape.stream)
        if now is None:
            continue
        for name in sorted(shape.columns):
            here = now.schema.field(name) if name in now.schema.names else None
            if here is None or here.type != old.schema.field(name).type:
                had = type_name(old.schema.field(name).type)
                has = "is gone" if here is None else f"is {type_name(here.type)}"
                raise SchemaError(
                    f"version {version} cannot come back: stream {now.name} has changed since",
                    detail=f"Column {name} was {had} and {has}.",
                    hint="Declare the stream as it was, or register the queries anew.",
                )
