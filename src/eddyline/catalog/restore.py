"""Going back: a new version whose queries are those of an earlier one.

Nothing is rewritten: the earlier version is read back, what differs from it now is dropped, replaced or registered, and all of
that is one new version. A query that was dropped since comes back under a new id, since ids are never used twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eddyline.catalog.catalog import Catalog
from eddyline.catalog.database import Database
from eddyline.catalog.members import equal_rows, identical_mask, is_same_shape, replace_many
from eddyline.catalog.stored_queries import StoredQuery, StoredTemplate
from eddyline.catalog.versions import VersionLog
from eddyline.errors import QueryStateError, SchemaError
from eddyline.model import Column, QueryState, Shape
from eddyline.types import type_name


@dataclass(slots=True)
class RestoreResult:
    """What going back took: ids of queries."""

    version: int
    added_ids: list[int] = field(default_factory=list)
    changed_ids: list[int] = field(default_factory=list)
    dropped_ids: list[int] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.added_ids or self.changed_ids or self.dropped_ids)


@dataclass(slots=True)
class _Members:
    """Members of a template: those to put back under the ids they have now, and those to register anew, by their old ids."""

    template: StoredTemplate
    old: list[int]
    now: list[int]
    removed_ids: list[int]


def restore_version(catalog: Catalog, version: int, now_us: int, *, dry_run: bool = False) -> RestoreResult:
    """Register the queries of `version` again, as one new version; nothing happens if they are registered already.

    With `dry_run` it is only found out what that would take; the ids of queries that would be registered anew are those they had.
    """
    database = _database(catalog, version)
    singles = {query.id: query for query in database.queries.at(version)}
    templates = list(database.queries.templates_at(version))
    others = _strangers(catalog, singles, templates)
    registrations = {i: catalog.queries.registration(i) for i in others}
    names = {(registrations[i].properties.owner, registrations[i].name(i)): i for i in others}
    differing: list[tuple[int, StoredQuery]] = []
    returning: list[StoredQuery] = []
    for query in singles.values():
        now = query.id
        if catalog.queries.state(now) is QueryState.DROPPED:
            now = names.pop((query.properties.owner, query.name or ""), 0)
        if not now:
            returning.append(query)
        elif catalog.queries.version_from(now) != query.version and not _is_unchanged(catalog, now, query):
            differing.append((now, query))
    members = [_members(catalog, template, names) for template in templates]
    todo = RestoreResult(catalog.version, dropped_ids=sorted(names.values()))
    todo.changed_ids = [now for now, _ in differing] + [i for m in members for i in m.now]
    todo.added_ids = [query.id for query in returning] + [i for m in members for i in m.removed_ids]
    if todo.is_empty or dry_run:
        return todo
    shapes = [query.shape for query in (*returning, *(q for _, q in differing))]
    shapes += [m.template.shape for m in members if m.now or m.removed_ids]
    _check_streams(catalog, shapes, database, version)
    with catalog.change(f"roll back to version {version}"):
        for stream in database.streams.at(version):
            if catalog.find_stream(stream.name) is None:
                catalog.declare(stream)
        for now, query in differing:  # first: they may read views that go
            is_paused = query.state is QueryState.PAUSED
            catalog.replace(
                now, query.text, query.shape, query.constants, query.properties, now_us, is_paused=is_paused
            )
        catalog.drop(todo.dropped_ids)
        todo.added_ids = [_register(catalog, query, now_us) for query in returning]
        for each in members:
            todo.added_ids += _put_back(catalog, each, now_us)
    todo.version = catalog.version
    return todo


def _database(catalog: Catalog, version: int) -> Database:
    database = catalog._database
    if database is None:
        raise QueryStateError(
            "an engine in memory keeps no earlier versions",
            hint="Open it with a home: eddyline.open('folder').",
        )
    oldest, newest = VersionLog(database).retained_versions().oldest, database.versions.last()
    if 0 < version < oldest:
        raise QueryStateError(
            f"version {version} is no longer kept",
            detail=f"Kept are {oldest} to {newest}.",
            hint="See them with eddyline versions. How long they are kept is set in [engine.retention].",
        )
    if not 0 < version <= newest:
        raise QueryStateError(
            f"there is no version {version} to go back to",
            detail=f"Kept are {oldest} to {newest}." if oldest else "There is no version yet.",
            hint="See them with eddyline versions.",
        )
    return database


def _strangers(
    catalog: Catalog, singles: dict[int, StoredQuery], templates: list[StoredTemplate]
) -> list[int]:
    """Queries of now that the earlier version did not have."""
    spans = [(t.first_id, t.first_id + t.n) for t in templates]
    first_known = {low for low, _ in spans}
    found = [
        query_id
        for query_id in catalog.queries.singles
        if query_id not in singles
        and catalog.queries.state(query_id) is not QueryState.DROPPED
        and not any(low <= query_id < high for low, high in spans)
    ]
    for template in catalog.queries.templates:
        if template.first_id not in first_known:
            ids = range(template.first_id, template.first_id + template.n)
            found += [
                i
                for i in ids
                if i not in catalog.queries.singles and catalog.queries.state(i) is not QueryState.DROPPED
            ]
    return sorted(found)


def _former_members(catalog: Catalog, template: StoredTemplate) -> list[int]:
    """Members of a template at the earlier version that are no longer plain members."""
    ended = set(template.ended_ids)
    ids = range(template.first_id, template.first_id + template.n)
    changed = [i for i in catalog.queries.fates if i in ids] + [
        i for i in catalog.queries.singles if i in ids
    ]
    return sorted({i for i in changed if i not in ended and not _is_plain(catalog, i, template)})


def _is_plain(catalog: Catalog, query_id: int, template: StoredTemplate) -> bool:
    fate = catalog.queries.fates.get(query_id)
    if query_id in catalog.queries.singles:
        return False
    return fate is None or (fate.state is QueryState.PAUSED and fate.version == template.version)


def _is_unchanged(catalog: Catalog, query_id: int, query: StoredQuery) -> bool:
    """Whether a query is registered now as it was then."""
    now = catalog.record(query_id)
    if (now.text, now.properties, now.state) != (query.text, query.properties, query.state):
        return False
    if not is_same_shape(now.shape, query.shape):
        return False
    slots = query.shape.slots
    then = [pa.array([value], slot.type) for value, slot in zip(query.constants, slots, strict=True)]
    current = [pa.array([value], slot.type) for value, slot in zip(now.constants, slots, strict=True)]
    return bool(equal_rows(then, np.array([0]), current, np.array([0])).all())


def _members(catalog: Catalog, template: StoredTemplate, names: dict[tuple[str, str], int]) -> _Members:
    """What of a template is not as it was. A query that has a member's name now, of those in `names`, takes its place."""
    found = _Members(template, [], [], [])
    state = QueryState.RUNNING if template.properties.is_enabled else QueryState.PAUSED
    for query_id in _former_members(catalog, template):
        now = query_id
        if catalog.queries.state(query_id) is QueryState.DROPPED:
            name = "" if template.names is None else template.names[query_id - template.first_id]
            now = names.pop((template.properties.owner, name), 0)
        if now:
            found.old.append(query_id)
            found.now.append(now)
        else:
            found.removed_ids.append(query_id)
    rows = _rows(template, found.old)
    text, shape, ids = template.text, template.shape, np.array(found.now, np.int64)
    same = identical_mask(catalog, ids, lambda other: other == text, shape, rows, template.properties)
    differs = [k for k, now in enumerate(found.now) if not same[k] or catalog.queries.state(now) is not state]
    found.old = [found.old[k] for k in differs]
    found.now = [found.now[k] for k in differs]
    return found


def _register(catalog: Catalog, query: StoredQuery, now_us: int) -> int:
    query_id = catalog.register(
        query.text, query.shape, query.constants, query.name, query.properties, now_us
    )
    catalog.set_paused(query_id, query.state is QueryState.PAUSED, now_us)
    return query_id


def _put_back(catalog: Catalog, members: _Members, now_us: int) -> list[int]:
    """Members as the template has them; returns the new ids of those that had been dropped."""
    template, properties = members.template, members.template.properties
    if members.now:
        ids = np.array(members.now, np.int64)
        rows = _rows(template, members.old)
        replace_many(catalog, ids, template.text, template.shape, rows, properties, now_us)
        for query_id in members.now:
            catalog.set_paused(query_id, not properties.is_enabled, now_us)
    removed_ids = members.removed_ids
    if not removed_ids:
        return []
    names = None if template.names is None else [template.names[i - template.first_id] for i in removed_ids]
    registration = catalog.register_many(
        template.text,
        template.shape,
        _rows(template, removed_ids),
        len(removed_ids),
        names,
        properties,
        now_us,
    )
    return list(range(registration.first_id, registration.first_id + registration.n))


def _rows(template: StoredTemplate, ids: list[int]) -> list[pa.Array]:
    at = pa.array(np.array(ids, np.int64) - template.first_id)
    return [column.take(at) for column in template.columns]


def _check_streams(catalog: Catalog, shapes: list[Shape], database: Database, version: int) -> None:
    """Refuse if a stream no longer has what an earlier query needs."""
    before = {stream.name.lower(): stream for stream in database.streams.at(version)}
    branches = [branch for each in shapes for branch in each.plain_shapes()]
    for shape, place in [(each, at) for each in branches for at in range(len(each.inputs))]:
        stream = shape.inputs[place].stream
        old, now = before.get(stream.lower()), catalog.find_stream(stream)
        if old is None or now is None:  # a view, which comes back as it was, or a stream that does
            continue
        for name in sorted(_columns(shape, place)):
            here = now.schema.field(name) if name in now.schema.names else None
            if here is None or here.type != old.schema.field(name).type:
                had = type_name(old.schema.field(name).type)
                has = "is gone" if here is None else f"is {type_name(here.type)}"
                raise SchemaError(
                    f"version {version} cannot come back: stream {now.name} has changed since",
                    detail=f"Column {name} was {had} and {has}.",
                    hint="Declare the stream as it was, or register the queries anew.",
                )


def _columns(shape: Shape, place: int) -> set[str]:
    """The columns of an input that a shape needs; marks of windows are none."""
    if shape.join is None:
        return set(shape.columns)
    keys = [key.side(place) for key in shape.join.signature.keys if place in (key.left, key.right)]
    found = {node.name for key in keys for node in key.walk() if isinstance(node, Column)}
    for joined in shape.columns:
        at, _, name = joined.partition(".")
        if int(at) == place and not name.startswith("#"):
            found.add(name)
    return found
