"""The catalog: what is registered now, which version it is, and the plan of each stream.

All of it is in memory; with a database every change is also one transaction there, and a change that cannot be written has not
happened.
"""

from __future__ import annotations

import bisect
import gc
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog.alert_queries import AlertQueries
from eddyline.catalog.database import Database, StoredQuery, StoredTemplate
from eddyline.catalog.families import Family
from eddyline.catalog.queries import QueryRecord, Registration
from eddyline.catalog.streams import evolved
from eddyline.errors import QueryStateError, SchemaError, UnknownNameError, did_you_mean
from eddyline.model import (
    Changes,
    Properties,
    QueryState,
    Segment,
    Shape,
    Signature,
    Stream,
    StreamPlan,
    ascending,
)
from eddyline.time_properties import same_time

if TYPE_CHECKING:
    from eddyline.catalog.restore import Restored


CHANGES_KEPT = 20_000  # per stream, then the newer half; an index further behind is built anew
ALERT_SINKS = "alert sinks"  # a setting


@dataclass(slots=True)
class _Fate:
    """What became of a query since it was registered; most have none."""

    state: QueryState
    generation: int
    version: int
    since_us: int
    why: str = ""  # it is suspended


@contextmanager
def _no_collector() -> Iterator[None]:
    """While a million entries are made, and none is dropped, the collector would look at them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Catalog:
    """Streams, queries and versions. Every change, single or bulk, is one version."""

    def __init__(
        self,
        database: Database | None = None,
        clock: Callable[[], int] = lambda: 0,
        stamp_us: Callable[[], int] | None = None,
    ) -> None:
        """`stamp_us` says, within a transaction, what time it is as retention counts; `clock` if it is not given."""
        self._database = database
        self._clock = clock
        self._stamp_us = stamp_us
        self._depth = 0
        self.alerts = AlertQueries()
        self._clear()
        if database is not None:
            self.alerts.sinks = frozenset(json.loads(database.setting(ALERT_SINKS) or "[]"))
            self._load(database, database.version())

    def _clear(self) -> None:
        self.version = 0
        self._streams: dict[str, Stream] = {}
        self._families: dict[Shape, Family] = {}
        self._shapes_of: dict[str, dict[Shape, None]] = {}  # stream -> its shapes, in order of appearance
        self._signatures: dict[str, Signature] = {}  # of the joins that stand, by the stream of their rows
        self._plans: dict[str, StreamPlan] = {}
        self._changes: dict[str, Changes] = {}  # by stream
        self._unplanned = Changes()  # of queries that stand nowhere, which no plan shows
        self._singles: dict[int, Registration] = {}
        self._bulks: list[Registration] = []
        self._fates: dict[int, _Fate] = {}
        self._past: dict[int, list[tuple[int, int]]] = {}  # of queries with a fate: (version, generation)
        self._parked: dict[
            int, tuple[pa.Scalar, ...]
        ] = {}  # constants of paused queries, which are in no family
        self._names: dict[str, dict[str, int]] = {}  # owner -> name -> id
        self._interned: dict[Shape, Shape] = {}
        self._next_id = 1
        self.n_queries = 0

    @contextmanager
    def change(self, what: str = "") -> Iterator[int]:
        """All changes inside become one version, whose number it yields; `what` says it in words."""
        self._depth += 1
        try:
            if self._depth > 1:
                yield self.version
                return
            self.version += 1
            if self._database is None:
                yield self.version
                return
            with self._database.transaction():
                yield self.version
                self._database.set("last id", str(self._next_id - 1))
                at_us = self._clock()
                kept_us = at_us if self._stamp_us is None else self._stamp_us()
                self._database.add_version(self.version, at_us, what, kept_us)
        except BaseException:
            if self._depth == 1 and self._database is not None:  # back to what the disk has
                self._clear()
                self._load(self._database, self._database.version())
            raise
        finally:
            self._depth -= 1

    # ----------------------------------------------------------------------------------------- streams

    def stream(self, name: str) -> Stream:
        found = self._streams.get(name.lower())
        if found is None:
            raise UnknownNameError(
                f"there is no stream {name}",
                hint=did_you_mean(name, (s.name for s in self._streams.values()), noun="stream"),
            )
        return found

    def streams(self) -> list[Stream]:
        return list(self._streams.values())

    def find_stream(self, name: str) -> Stream | None:
        return self._streams.get(name.lower())

    def declare(self, stream: Stream) -> Stream:
        """Declare a stream, or change the schema of one that is there."""
        key = stream.name.lower()
        old = self._streams.get(key)
        if old is not None:
            stream = evolved(old, replace(stream, name=old.name), self._users(key))
            if stream == old:
                return old
        with self.change(f"declare stream {stream.name}") as version:
            if self._database is not None:
                self._database.put_stream(stream, version)
                if old is not None and not same_time(old, stream):
                    self._database.forget_times(stream.name)
            self._streams[key] = stream
            self._shapes_of.setdefault(key, {})
            self._plans.pop(key, None)
        return stream

    def drop_stream(self, name: str) -> None:
        stream = self.stream(name)
        users = sorted({name for name, _ in self._users(stream.name.lower())})
        if users:
            raise SchemaError(
                f"stream {stream.name} cannot be dropped while queries stand on it",
                detail=f"Used by {', '.join(users[:10])}{' and more' if len(users) > 10 else ''}.",
                hint="Drop these queries first.",
            )
        with self.change(f"drop stream {stream.name}") as version:
            if self._database is not None:
                self._database.drop_stream(stream.name, version)
            del self._streams[stream.name.lower()]
            self._shapes_of.pop(stream.name.lower(), None)
            self._plans.pop(stream.name.lower(), None)

    def _users(self, stream_key: str) -> Iterator[tuple[str, Shape]]:
        for query_id in self.ids():
            made = self._registration(query_id)
            if any(name.lower() == stream_key for name in made.shape.streams):
                yield made.name(query_id), made.shape

    # ----------------------------------------------------------------------------------------- queries

    def register(
        self,
        text: str,
        shape: Shape,
        constants: Sequence[Any],
        name: str | None,
        properties: Properties,
        now_us: int,
    ) -> int:
        with self.change(f"add query {name or ''}".rstrip()) as version:
            query_id = self._take_ids(1)
            made = Registration(query_id, 1, text, shape, properties, name, version, now_us)
            self._singles[query_id] = made
            self.alerts.note(made)
            self._name(name, properties.owner, query_id)
            self._family(shape).add(query_id, constants)
            self._touch(shape, [query_id])
            self.n_queries += 1
            self._write(made, constants, QueryState.RUNNING, 1)
            if not properties.is_enabled:
                self.set_paused(query_id, True, now_us)
        return query_id

    def register_many(
        self,
        text: str,
        shape: Shape,
        slots: Sequence[pa.Array],
        n: int,
        names: Sequence[str] | None,
        properties: Properties,
        now_us: int,
    ) -> Registration:
        """A template and a table of constants: n queries in one version, never looked at one by one."""
        with self.change(f"add {n} queries from a template") as version:
            first = self._take_ids(n)
            made = Registration(first, n, text, shape, properties, names, version, now_us)
            self._bulks.append(made)
            self.alerts.note(made)
            if names is not None:
                self._names.setdefault(properties.owner, {}).update(
                    zip(names, range(first, first + n), strict=True)
                )
            self.n_queries += n
            if properties.is_enabled:
                ids = np.arange(first, first + n, dtype=np.int32)
                self._family(shape).add_many(ids, slots)
                self._touch(shape, ids)
            else:
                for at, query_id in enumerate(range(first, first + n)):
                    self._parked[query_id] = tuple(column[at] for column in slots)
                    self._fates[query_id] = _Fate(QueryState.PAUSED, 1, version, now_us)
                self._note_unplanned(shape, range(first, first + n))
            if self._database is not None:
                known = None if names is None else list(names)
                columns = [pa.concat_arrays(c.chunks) if isinstance(c, pa.ChunkedArray) else c for c in slots]
                self._database.add_template(
                    StoredTemplate(first, n, text, shape, properties, known, columns, now_us, version, [])
                )
        return made

    def replace(
        self,
        query_id: int,
        text: str,
        shape: Shape,
        constants: Sequence[Any],
        properties: Properties,
        now_us: int,
        *,
        is_paused: bool | None = None,
    ) -> None:
        """Another text under the same id and name: the old one ends and the new one starts in one version.

        A query that is paused stays so, and one that runs goes on, unless `is_paused` says otherwise or `enabled` is another now.
        One that is suspended stands again: its new text may do without what was missing.
        """
        old = self._registration(query_id)
        generation = self._generation(query_id)
        if is_paused is None and properties.is_enabled != old.properties.is_enabled:
            is_paused = not properties.is_enabled
        elif is_paused is None:
            is_paused = self.state(query_id) is QueryState.PAUSED
        with self.change(f"replace query {old.name(query_id)}") as version:
            self._end_alert(query_id, version, "replaced")
            if self._parked.pop(query_id, None) is None:
                self._leave_family(query_id, old.shape)
            self._end(query_id, version)
            self._unname(query_id, old)
            name = None if old.names is None else old.name(query_id)
            made = Registration(query_id, 1, text, shape, properties, name, version, now_us)
            self._singles[query_id] = made
            self.alerts.note(made)
            self._write(made, constants, QueryState.RUNNING, generation + 1)
            self._name(name, properties.owner, query_id)
            self._family(shape).add(query_id, constants)
            self._touch(shape, [query_id])
            self._fates[query_id] = _Fate(QueryState.RUNNING, generation + 1, version, now_us)
            self._past.setdefault(query_id, []).append((version, generation + 1))
            self.set_paused(query_id, is_paused, now_us)

    def set_paused(self, query_id: int, is_paused: bool, now_us: int) -> None:
        """Pause, or resume: a new registration of the same text. One that is suspended can be resumed, too."""
        made = self._registration(query_id)
        state = QueryState.PAUSED if is_paused else QueryState.RUNNING
        if self.state(query_id) is state:
            return
        with self.change(f"{'pause' if is_paused else 'resume'} query {made.name(query_id)}") as version:
            if is_paused:
                self._stop(made.shape, [query_id], QueryState.PAUSED, version, now_us)
                return
            constants = [scalar.as_py() for scalar in self._parked.pop(query_id)]
            self._family(made.shape).add(query_id, constants)
            self._touch(made.shape, [query_id])
            generation = self._generation(query_id) + 1
            self._fates[query_id] = _Fate(QueryState.RUNNING, generation, version, now_us)
            self._past.setdefault(query_id, []).append((version, generation))
            self._rewrite(query_id, made, version, now_us)

    def drop(self, ids: Iterable[int]) -> int:
        """End queries; returns how many."""
        ids = list(dict.fromkeys(ids))
        by_shape: dict[Shape, list[int]] = {}
        for query_id in ids:
            by_shape.setdefault(self._registration(query_id).shape, []).append(query_id)
        if not ids:
            return 0
        with self.change(f"drop {len(ids)} quer{'y' if len(ids) == 1 else 'ies'}") as version:
            for query_id in ids:  # its past stays: a round that is under way may still have to know it
                self._end_alert(query_id, version, "dropped")
                self._unname(query_id, self._registration(query_id))
                self._end(query_id, version)
                if self._singles.pop(query_id, None) is None or self._bulk(query_id) is not None:
                    self._fates[query_id] = _Fate(QueryState.DROPPED, 0, version, 0)
                else:
                    self._fates.pop(query_id, None)
            for shape, members in by_shape.items():
                standing = [query_id for query_id in members if self._parked.pop(query_id, None) is None]
                if standing:
                    self._family(shape).remove(standing)
                    self._touch(shape, standing)
                if len(standing) < len(members):
                    self._note_unplanned(shape, members)
            self.n_queries -= len(ids)
        return len(ids)

    def interned(self, shape: Shape) -> Shape:
        """The shape under which queries like this one stand already, perhaps since before a restart; else the shape itself."""
        if self._database is None or shape in self._families:
            return shape
        known = self._interned.get(shape)
        if known is None:
            known = self._interned[shape] = self._database.known_shape(shape) or shape
        return known

    def find(self, name: str, owner: str = "") -> int | None:
        return self._names.get(owner, {}).get(name)

    def find_all(self, name: str) -> list[int]:
        """The queries of this name, whoever owns them."""
        return sorted(owned[name] for owned in self._names.values() if name in owned)

    def changed_since(self, version: int) -> npt.NDArray[np.int32] | None:
        """Queries that came, went or changed in later versions; None if that is no longer known."""
        found = [np.empty(0, np.int32)]
        for changes in (self._unplanned, *self._changes.values()):
            between = changes.between(version, self.version)
            if between is None:
                return None
            found += between.values()
        return ascending(np.concatenate(found))

    def names(self, owner: str = "") -> Iterable[str]:
        return self._names.get(owner, {})

    def state(self, query_id: int) -> QueryState:
        fate = self._fates.get(query_id)
        if fate is not None:
            return fate.state
        if query_id in self._singles or self._bulk(query_id) is not None:
            return QueryState.RUNNING
        return QueryState.DROPPED

    def n_by_state(self) -> dict[QueryState, int]:
        """How many queries there are in each state; those that do not run are looked at one by one."""
        found = dict.fromkeys((QueryState.RUNNING, QueryState.PAUSED, QueryState.SUSPENDED), 0)
        for query_id in self._parked:
            found[self.state(query_id)] += 1
        found[QueryState.RUNNING] = self.n_queries - sum(found.values())
        return found

    def record(self, query_id: int) -> QueryRecord:
        made = self._registration(query_id)
        fate = self._fates.get(query_id)
        return QueryRecord(
            id=query_id,
            name=made.name(query_id),
            text=made.text,
            shape=made.shape,
            properties=made.properties,
            state=self.state(query_id),
            generation=self._generation(query_id),
            version_from=fate.version if fate else made.version,
            registered_us=fate.since_us if fate else made.registered_us,
            constants=self._constants(query_id, made.shape),
            why=fate.why if fate else "",
        )

    def name_of(self, query_id: int) -> str:
        return self._registration(query_id).name(query_id)

    def registered(self, query_id: int) -> Registration:
        """How a query was registered, without its constants."""
        return self._registration(query_id)

    def owner_of(self, query_id: int) -> str:
        return self._registration(query_id).properties.owner

    def find_name(self, query_id: int) -> str | None:
        """The name of a query, or None if it was dropped."""
        return None if self.state(query_id) is QueryState.DROPPED else self.name_of(query_id)

    def generation(self, query_id: int, version: int) -> int:
        """Which generation of the query a round of `version` saw."""
        past = self._past.get(query_id, [])
        return next((generation for since, generation in reversed(past) if since <= version), 1)

    def generations(self, ids: npt.NDArray[np.int32], version: int) -> npt.NDArray[np.int32]:
        """The same of many queries."""
        if not self._past:
            return np.ones(len(ids), np.int32)
        distinct, places = np.unique(ids, return_inverse=True)
        return np.array([self.generation(i, version) for i in distinct.tolist()], np.int32)[places]

    def later_generations(self, stream: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Ids, ascending, and generations of the queries on a stream that are past their first, as of now."""
        plan = self.plan(stream)
        found = [i for i in sorted(self._past) if self.generation(i, self.version) != 1]
        ids = np.array(found, np.int32)
        standing = np.concatenate([np.empty(0, np.int32), *(segment.ids for segment in plan.segments)])
        ids = ids[np.isin(ids, standing)] if len(ids) else ids
        return ids, np.array([self.generation(i, self.version) for i in ids.tolist()], np.int32)

    def ids(self) -> Iterator[int]:
        """All registered queries, running or paused, in order of registration."""
        spans = sorted([(b.first_id, b.n) for b in self._bulks] + [(i, 1) for i in self._singles])
        last = 0
        for first, n in spans:
            for query_id in range(max(first, last + 1), first + n):
                last = query_id
                if self.state(query_id) is not QueryState.DROPPED:
                    yield query_id

    def spans(self) -> list[tuple[int, int]]:
        """The numbers of queries that were registered together: the first, and how many; also of those dropped since."""
        return [(made.first_id, made.n) for made in self._bulks]

    def records(self) -> Iterator[QueryRecord]:
        return (self.record(query_id) for query_id in self.ids())

    def restore(self, version: int, now_us: int, *, dry_run: bool = False) -> Restored:
        """Make the queries of an earlier version stand again, as one new version."""
        from eddyline.catalog.restore import restore  # it works on this class

        return restore(self, version, now_us, dry_run=dry_run)

    def forgot(self, templates: Iterable[int]) -> None:
        """The disk no longer has these templates, by their first ids, and shapes nobody uses.

        Members that still stand have rows of their own there, and so become queries of their own here.
        """
        gone = set(templates)
        for bulk in (bulk for bulk in self._bulks if bulk.first_id in gone):
            for query_id in range(bulk.first_id, bulk.first_id + bulk.n):
                if self.state(query_id) is QueryState.DROPPED:
                    self._fates.pop(query_id, None)
                elif query_id not in self._singles:
                    name = None if bulk.names is None else bulk.name(query_id)
                    fate = self._fates[query_id]
                    self._singles[query_id] = bulk._replace(
                        first_id=query_id, n=1, names=name, version=fate.version, registered_us=fate.since_us
                    )
        self._bulks = [bulk for bulk in self._bulks if bulk.first_id not in gone]
        self._interned.clear()  # what it leads to may be one of those shapes

    # ----------------------------------------------------------------------------------------- alerts

    def set_alert_sinks(self, names: Iterable[str]) -> None:
        """Which sinks take alerts: a query delivered to one of them is an alert query from the next round on."""
        sinks = frozenset(names)
        if sinks == self.alerts.sinks:
            return
        if self._database is not None:
            with self._database.transaction():
                self._database.set(ALERT_SINKS, json.dumps(sorted(sinks)))
        self.alerts.sinks = sinks
        for made in (*self._bulks, *self._singles.values()):
            if made.properties.deliver:
                self.alerts.note(made)

    def standing(self, query_id: int, generation: int) -> Registration | None:
        """How a query was registered, if it runs in this generation; None if it is another by now, paused, or gone."""
        if self.state(query_id) is not QueryState.RUNNING or self._generation(query_id) != generation:
            return None
        return self._registration(query_id)

    def _end_alert(self, query_id: int, version: int, reason: str) -> None:
        """An alert query that has run so far ends; whatever is open of it will resolve."""
        if self.alerts.any and (reason == "dropped" or self.state(query_id) is QueryState.RUNNING):
            made = self._registration(query_id)
            self.alerts.end(made, query_id, self._generation(query_id), version, reason)

    # ----------------------------------------------------------------------------------------- plans

    def plan(self, stream: str) -> StreamPlan:
        """What stands on the stream now; the same object until something changes there."""
        key = stream.lower()
        plan = self._plans.get(key)
        if plan is None:
            segments = [s for shape in self._shapes_of.get(key, {}) for s in self._families[shape].segments()]
            changes = self._changes.setdefault(key, Changes(self.version))
            joined = self._signatures.get(key)
            name = self.stream(stream).name if joined is None else joined.name
            plan = StreamPlan(name, self.version, tuple(segments), changes)
            self._plans[key] = plan
        return plan

    def signatures(self) -> tuple[Signature, ...]:
        """What the joins that stand now have in common, each once."""
        return tuple(self._signatures.values())

    def first_versions(self, segment: Segment) -> npt.NDArray[np.int64]:
        """The version from which on each query of a segment sees rows; 0 for those that no longer stand there."""
        found = segment.cache.get("first versions")
        if found is None:
            found = np.zeros(len(segment), np.int64)
            for at in np.flatnonzero(segment.is_live):
                query_id = int(segment.ids[at])
                fate = self._fates.get(query_id)
                found[at] = self._registration(query_id).version if fate is None else fate.version
            segment.cache["first versions"] = found
        known: npt.NDArray[np.int64] = found
        return known

    def families(self) -> Iterator[Family]:
        return iter(self._families.values())

    # ----------------------------------------------------------------------------------------- the disk

    def _write(
        self,
        made: Registration,
        constants: Sequence[Any],
        state: QueryState,
        generation: int,
        why: str = "",
    ) -> None:
        """A row for a query that stands by itself from this version on."""
        if self._database is not None:
            name = None if made.names is None else made.name(made.first_id)
            self._database.add_query(
                StoredQuery(
                    made.first_id,
                    generation,
                    name,
                    made.text,
                    made.shape,
                    made.properties,
                    constants,
                    state,
                    made.registered_us,
                    made.version,
                    why,
                )
            )

    def _rewrite(self, query_id: int, made: Registration, version: int, now_us: int) -> None:
        """What became of a query is on the disk a row of its own, from this version on."""
        if self._database is not None:
            self._end(query_id, version)
            name = None if made.names is None else made.name(query_id)
            again = Registration(query_id, 1, made.text, made.shape, made.properties, name, version, now_us)
            fate = self._fates[query_id]
            constants = self._constants(query_id, made.shape)
            self._write(again, constants, fate.state, fate.generation, fate.why)

    def _end(self, query_id: int, version: int) -> None:
        """What the disk says about a query ends with this version."""
        if self._database is not None:
            self._database.end_query(query_id, version)
            if self._bulk(query_id) is not None:
                self._database.end_members([query_id], version)

    def _load(self, database: Database, version: int) -> None:
        """What the disk has for a version."""
        self.alerts.lose_ends()
        self.version, self._next_id = version, database.next_id()
        for stream in database.streams(version):
            self._streams[stream.name.lower()] = stream
            self._shapes_of.setdefault(stream.name.lower(), {})
        with _no_collector():
            for template in database.templates(version):
                self._load_template(template)
            for query in database.queries(version):
                self._load_query(query)

    def _load_template(self, template: StoredTemplate) -> None:
        t = template
        self._bulks.append(
            Registration(t.first_id, t.n, t.text, t.shape, t.properties, t.names, t.version, t.registered_us)
        )
        self.alerts.note(self._bulks[-1])
        ids = np.arange(t.first_id, t.first_id + t.n, dtype=np.int32)
        stands = np.ones(t.n, dtype=bool)
        stands[np.array(t.ended, dtype=np.int64) - t.first_id] = False
        for query_id in t.ended:
            self._fates[query_id] = _Fate(QueryState.DROPPED, 0, t.version, 0)
        if t.names is not None:
            named = self._names.setdefault(t.properties.owner, {})
            named.update(
                (name, int(i)) for name, i, is_there in zip(t.names, ids, stands, strict=True) if is_there
            )
        self.n_queries += int(stands.sum())
        if t.properties.is_enabled:
            keep = pa.array(np.flatnonzero(stands))
            columns = t.columns if stands.all() else [column.take(keep) for column in t.columns]
            if stands.any():
                self._family(t.shape).add_many(ids[stands], columns)
            return
        for at in np.flatnonzero(stands):
            self._parked[int(ids[at])] = tuple(column[int(at)] for column in t.columns)
            self._fates[int(ids[at])] = _Fate(QueryState.PAUSED, 1, t.version, t.registered_us)

    def _load_query(self, query: StoredQuery) -> None:
        q = query
        self._singles[q.id] = Registration(
            q.id, 1, q.text, q.shape, q.properties, q.name, q.version, q.registered_us
        )
        self.alerts.note(self._singles[q.id])
        self._name(q.name, q.properties.owner, q.id)
        self._fates.pop(q.id, None)
        self.n_queries += 1
        if q.generation > 1 or q.state is not QueryState.RUNNING:
            self._fates[q.id] = _Fate(q.state, q.generation, q.version, q.registered_us, q.why)
            self._past[q.id] = [(q.version, q.generation)]
        if q.state is QueryState.RUNNING:
            self._family(q.shape).add(q.id, q.constants)
        else:
            self._parked[q.id] = tuple(
                pa.scalar(v, s.type) for v, s in zip(q.constants, q.shape.slots, strict=True)
            )

    # ----------------------------------------------------------------------------------------- inside

    def _unname(self, query_id: int, made: Registration) -> None:
        owned = self._names.get(made.properties.owner, {})
        if owned.get(made.name(query_id)) == query_id:
            del owned[made.name(query_id)]

    def _take_ids(self, n: int) -> int:
        first = self._next_id
        self._next_id += n
        return first

    def _name(self, name: str | None, owner: str, query_id: int) -> None:
        if name is not None:
            self._names.setdefault(owner, {})[name] = query_id

    def _family(self, shape: Shape) -> Family:
        family = self._families.get(shape)
        if family is None:
            family = self._families[shape] = Family(shape)
            self._shapes_of.setdefault(shape.stream.lower(), {})[shape] = None
            if shape.join is not None:
                self._signatures.setdefault(shape.stream.lower(), shape.join.signature)
        return family

    def _stop(
        self, shape: Shape, ids: Sequence[int], state: QueryState, version: int, now_us: int, why: str = ""
    ) -> None:
        """Queries of one shape stand no longer, but may again."""
        standing = [query_id for query_id in ids if query_id not in self._parked]
        for query_id in standing:
            self._end_alert(query_id, version, state.value)
            self._parked[query_id] = self._family(shape).constants(query_id)
        if standing:
            self._family(shape).remove(standing)
            self._touch(shape, standing)
        if len(standing) < len(ids):
            self._note_unplanned(shape, ids)
        for query_id in ids:
            self._fates[query_id] = _Fate(state, self._generation(query_id), version, now_us, why)
            self._rewrite(query_id, self._registration(query_id), version, now_us)

    def _leave_family(self, query_id: int, shape: Shape) -> None:
        self._family(shape).remove([query_id])
        self._touch(shape, [query_id])

    def _constants(self, query_id: int, shape: Shape) -> tuple[pa.Scalar, ...]:
        if query_id in self._parked:
            return self._parked[query_id]
        return self._family(shape).constants(query_id)

    def _touch(self, shape: Shape, ids: Sequence[int] | npt.NDArray[np.int32]) -> None:
        """The plan of the shape's stream is no longer current, because of these queries; a family without queries goes."""
        key = shape.stream.lower()
        self._plans.pop(key, None)
        changes = self._changes.get(key)
        if changes is None:
            self._changes[key] = Changes(self.version)
        else:
            if len(changes) >= CHANGES_KEPT:
                changes = self._changes[key] = changes.newest(CHANGES_KEPT // 2)
            changes.note(self.version, shape, np.asarray(ids, np.int32))
        if not len(self._families[shape]):
            del self._families[shape]
            self._shapes_of[key].pop(shape, None)
            if not self._shapes_of[key]:
                self._signatures.pop(key, None)

    def _note_unplanned(self, shape: Shape, ids: Sequence[int]) -> None:
        """Queries changed without standing before or after, so that no plan is another."""
        if len(self._unplanned) >= CHANGES_KEPT:
            self._unplanned = Changes(self.version)
        else:
            self._unplanned.note(self.version, shape, np.asarray(ids, np.int32))

    def _bulk(self, query_id: int) -> Registration | None:
        at = bisect.bisect_right(self._bulks, query_id, key=lambda made: made.first_id) - 1
        if at >= 0 and query_id < self._bulks[at].first_id + self._bulks[at].n:
            return self._bulks[at]
        return None

    def _registration(self, query_id: int) -> Registration:
        fate = self._fates.get(query_id)
        made = self._singles.get(query_id) or self._bulk(query_id)
        if made is None or (fate is not None and fate.state is QueryState.DROPPED):
            raise QueryStateError(
                f"query {query_id} was dropped"
                if 0 < query_id < self._next_id
                else f"there is no query {query_id}",
                hint="Register it again: a dropped query sees nothing of later rounds.",
            )
        return made

    def _generation(self, query_id: int) -> int:
        fate = self._fates.get(query_id)
        return fate.generation if fate else 1
