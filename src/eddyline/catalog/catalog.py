"""The catalog: what is registered now, which version it is, and the plan of each stream.

All of it is in memory; with a database every change is also one transaction there, and a change that cannot be written has not
happened. `Catalog` makes the changes; what they change is in its parts:

    queries   registrations, states and generations, by id
    names     which query has a name, by owner
    plans     the running queries of each stream, and its plan
    views     the named queries that other queries read
    relations what a query may be registered on: streams and views
    alerts    which queries are alert queries
    rows      what is written about queries, if there is a database
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.catalog import codec
from eddyline.catalog.aged_shapes import aged, has_age, without_age
from eddyline.catalog.alert_queries import AlertQueries
from eddyline.catalog.database import Database
from eddyline.catalog.loading import QueryLoader
from eddyline.catalog.queries import QueryRecord, Registration
from eddyline.catalog.query_names import QueryNames
from eddyline.catalog.query_rows import QueryRows
from eddyline.catalog.registered_queries import QueryFate, RegisteredQueries
from eddyline.catalog.relations import Relations
from eddyline.catalog.stored_queries import StoredTemplate
from eddyline.catalog.stream_plans import StreamPlans
from eddyline.catalog.streams import evolved_stream
from eddyline.catalog.views import Views
from eddyline.errors import SchemaError, UnknownNameError, did_you_mean
from eddyline.model import Properties, QueryState, Shape, Stream, StreamPlan
from eddyline.time_properties import same_time

ALERT_SINKS, LAST_ID = "alert sinks", "last id"  # settings


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
        self.names = QueryNames()
        self.queries = RegisteredQueries()
        self.plans = StreamPlans()
        self.views = Views(self.queries, self.names, self.plans, self.find_stream, self._constants)
        self.relations = Relations(self.stream, self.find_stream, self.views)
        self.rows = QueryRows(database, self.queries)
        self._clear()
        if database is not None:
            self.alerts.sinks = frozenset(json.loads(database.setting(ALERT_SINKS) or "[]"))
            self._load(database, database.versions.last())

    def _clear(self) -> None:
        self.version = 0
        self._streams: dict[str, Stream] = {}
        self._interned: dict[Shape, Shape] = {}
        # shapes of the last version that brought any, by what they mean
        self._aged: tuple[int, dict[str, Shape]] = 0, {}
        for part in (self.names, self.queries, self.plans, self.views):
            part.clear()

    def _load(self, database: Database, version: int) -> None:
        """What the disk has for a version."""
        self.alerts.lose_ends()
        self.version = version
        self.queries.next_id = max(database.queries.last_id(), database.number(LAST_ID)) + 1
        for stream in database.streams.at(version):
            self._streams[stream.name.lower()] = stream
            self.plans.add_stream(stream.name.lower())
        QueryLoader(self.queries, self.names, self.plans, self.alerts).load(database.queries, version)
        self.views.follow(version, is_loaded=True)

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
                self.views.follow(self.version)
                return
            with self._database.transaction():
                yield self.version
                self.views.follow(self.version)
                self._database.set(LAST_ID, str(self.queries.next_id - 1))
                at_us = self._clock()
                kept_us = at_us if self._stamp_us is None else self._stamp_us()
                self._database.versions.add(self.version, at_us, what, kept_us)
        except BaseException:
            if self._depth == 1 and self._database is not None:  # back to what the disk has
                self._clear()
                self._load(self._database, self._database.versions.last())
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
        if old is None and self.views.relation(key) is not None:
            raise SchemaError(
                f"{stream.name} is a view that queries read",
                hint="Give the stream another name, or drop the view and its readers first.",
            )
        if old is not None:
            stream = evolved_stream(old, replace(stream, name=old.name), self._users(key))
            if stream == old:
                return old
        with self.change(f"declare stream {stream.name}") as version:
            if self._database is not None:
                self._database.streams.store(stream, version)
                if old is not None and not same_time(old, stream):
                    self._database.streams.forget_times(stream.name)
            self._streams[key] = stream
            self.plans.add_stream(key)
        return stream

    def drop_stream(self, name: str) -> None:
        stream = self.stream(name)
        users = sorted({name for name, _ in self._users(stream.name.lower())})
        if users:
            raise SchemaError(
                f"stream {stream.name} cannot be dropped while queries read it",
                detail=f"Used by {', '.join(users[:10])}{' and more' if len(users) > 10 else ''}.",
                hint="Drop these queries first.",
            )
        with self.change(f"drop stream {stream.name}") as version:
            if self._database is not None:
                self._database.streams.drop(stream.name, version)
            del self._streams[stream.name.lower()]
            self.plans.drop_stream(stream.name.lower())

    def _users(self, stream_key: str) -> Iterator[tuple[str, Shape]]:
        for query_id in self.queries.ids():
            registration = self.queries.registration(query_id)
            for branch in registration.shape.plain_shapes():
                if any(entry.stream.lower() == stream_key for entry in branch.inputs):
                    yield registration.name(query_id), branch

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
            shape = self.aged(shape, version)
            query_id = self.queries.take_ids(1)
            registration = Registration(query_id, 1, text, shape, properties, name, version, now_us)
            self.queries.singles[query_id] = registration
            self.alerts.note(registration)
            self.names.add(name, properties.owner, query_id)
            self.plans.family(shape).add(query_id, constants)
            self.plans.touch(shape, [query_id], version)
            self.queries.n_queries += 1
            self.rows.write(registration, constants, QueryState.RUNNING, 1)
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
            shape = self.aged(shape, version)
            first = self.queries.take_ids(n)
            registration = Registration(first, n, text, shape, properties, names, version, now_us)
            self.queries.templates.append(registration)
            self.alerts.note(registration)
            if names is not None:
                self.names.add_many(properties.owner, zip(names, range(first, first + n), strict=True))
            self.queries.n_queries += n
            if properties.is_enabled:
                ids = np.arange(first, first + n, dtype=np.int32)
                self.plans.family(shape).add_many(ids, slots)
                self.plans.touch(shape, ids, version)
            else:
                for at, query_id in enumerate(range(first, first + n)):
                    self.queries.parked[query_id] = tuple(column[at] for column in slots)
                    self.queries.fates[query_id] = QueryFate(QueryState.PAUSED, 1, version, now_us)
                self.plans.note_unplanned(shape, range(first, first + n), version)
            if self._database is not None:
                known = None if names is None else list(names)
                columns = [pa.concat_arrays(c.chunks) if isinstance(c, pa.ChunkedArray) else c for c in slots]
                self._database.queries.add_template(
                    StoredTemplate(first, n, text, shape, properties, known, columns, now_us, version, [])
                )
        return registration

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
        One that is suspended is active again: its new text may do without what was missing.
        """
        old = self.queries.registration(query_id)
        generation = self.queries.generation(query_id)
        if is_paused is None and properties.is_enabled != old.properties.is_enabled:
            is_paused = not properties.is_enabled
        elif is_paused is None:
            is_paused = self.queries.state(query_id) is QueryState.PAUSED
        with self.change(f"replace query {old.name(query_id)}") as version:
            shape = self.aged(shape, version)
            self.end_alert(query_id, version, "replaced")
            if self.queries.parked.pop(query_id, None) is None:
                self.plans.family(old.shape).remove([query_id])
                self.plans.touch(old.shape, [query_id], version)
            self.rows.end(query_id, version)
            self.names.remove(query_id, old)
            name = None if old.names is None else old.name(query_id)
            registration = Registration(query_id, 1, text, shape, properties, name, version, now_us)
            self.queries.singles[query_id] = registration
            self.alerts.note(registration)
            self.rows.write(registration, constants, QueryState.RUNNING, generation + 1)
            self.names.add(name, properties.owner, query_id)
            self.plans.family(shape).add(query_id, constants)
            self.plans.touch(shape, [query_id], version)
            self.queries.begin_generation(query_id, generation + 1, version, now_us)
            self.set_paused(query_id, is_paused, now_us)

    def set_paused(self, query_id: int, is_paused: bool, now_us: int) -> None:
        """Pause, or resume: a new generation of the same text. One that is suspended can be resumed, too.

        Aggregates of aggregates are registered anew when they are resumed; if they are read, that is the Registrar's (rules/).
        """
        registration = self.queries.registration(query_id)
        state = QueryState.PAUSED if is_paused else QueryState.RUNNING
        if self.queries.state(query_id) is state:
            return
        with self.change(
            f"{'pause' if is_paused else 'resume'} query {registration.name(query_id)}"
        ) as version:
            if is_paused:
                self.stop(registration.shape, [query_id], QueryState.PAUSED, version, now_us)
                return
            if has_age(registration.shape):
                values = [scalar.as_py() for scalar in self.queries.parked[query_id]]
                shape, stated = registration.shape, registration.properties
                self.replace(query_id, registration.text, shape, values, stated, now_us, is_paused=False)
                return
            constants = self.queries.parked.pop(query_id)
            self.plans.family(registration.shape).add(query_id, [scalar.as_py() for scalar in constants])
            self.plans.touch(registration.shape, [query_id], version)
            self.queries.begin_generation(query_id, self.queries.generation(query_id) + 1, version, now_us)
            self.rows.rewrite(query_id, constants, version, now_us)

    def stop(
        self, shape: Shape, ids: Sequence[int], state: QueryState, version: int, now_us: int, why: str = ""
    ) -> None:
        """Queries of one shape become inactive, but may be active again."""
        active_ids = [query_id for query_id in ids if query_id not in self.queries.parked]
        for query_id in active_ids:
            self.end_alert(query_id, version, state.value)
            self.queries.parked[query_id] = self.plans.family(shape).constants(query_id)
        if active_ids:
            self.plans.family(shape).remove(active_ids)
            self.plans.touch(shape, active_ids, version)
        if len(active_ids) < len(ids):
            self.plans.note_unplanned(shape, ids, version)
        for query_id in ids:
            self.queries.fates[query_id] = QueryFate(
                state, self.queries.generation(query_id), version, now_us, why
            )
            self.rows.rewrite(query_id, self.queries.parked[query_id], version, now_us)

    def drop(self, ids: Iterable[int]) -> int:
        """End queries; returns how many. Refused for a view that others read, unless they end with it."""
        ids = list(dict.fromkeys(ids))
        self.views.refuse_dropping(ids)
        by_shape: dict[Shape, list[int]] = {}
        for query_id in ids:
            by_shape.setdefault(self.queries.registration(query_id).shape, []).append(query_id)
        if not ids:
            return 0
        with self.change(f"drop {len(ids)} quer{'y' if len(ids) == 1 else 'ies'}") as version:
            for query_id in ids:
                self.end_alert(query_id, version, "dropped")
                self.names.remove(query_id, self.queries.registration(query_id))
                self.rows.end(query_id, version)
                self.queries.drop(query_id, version)
            for shape, members in by_shape.items():
                active_ids = [
                    query_id for query_id in members if self.queries.parked.pop(query_id, None) is None
                ]
                if active_ids:
                    self.plans.family(shape).remove(active_ids)
                    self.plans.touch(shape, active_ids, version)
                if len(active_ids) < len(members):
                    self.plans.note_unplanned(shape, members, version)
            self.queries.n_queries -= len(ids)
        return len(ids)

    def aged(self, shape: Shape, version: int) -> Shape:
        """The shape as queries that come in this version have it; the same object for all of them."""
        if not has_age(shape):
            return shape
        if version != self._aged[0]:
            self._aged = version, {}
        plain = without_age(shape)
        known = self._aged[1].setdefault(codec.shape_meaning(plain), aged(plain, version))
        return self.interned_shape(known)

    def interned_shape(self, shape: Shape) -> Shape:
        """The shape that queries like this one have already, perhaps since before a restart; else the shape itself."""
        if self._database is None or shape in self.plans.families:
            return shape
        known = self._interned.get(shape)
        if known is None:
            known = self._interned[shape] = self._database.shapes.find_alike(shape) or shape
        return known

    def record(self, query_id: int) -> QueryRecord:
        registration = self.queries.registration(query_id)
        fate = self.queries.fates.get(query_id)
        return QueryRecord(
            id=query_id,
            name=registration.name(query_id),
            text=registration.text,
            shape=registration.shape,
            properties=registration.properties,
            state=self.queries.state(query_id),
            generation=self.queries.generation(query_id),
            version_from=fate.version if fate else registration.version,
            registered_us=fate.since_us if fate else registration.registered_us,
            constants=self._constants(query_id, registration.shape),
            why=fate.why if fate else "",
        )

    def _constants(self, query_id: int, shape: Shape) -> tuple[pa.Scalar, ...]:
        if query_id in self.queries.parked:
            return self.queries.parked[query_id]
        return self.plans.family(shape).constants(query_id)

    def records(self) -> Iterator[QueryRecord]:
        return (self.record(query_id) for query_id in self.queries.ids())

    def forget_templates(self, first_ids: Iterable[int]) -> None:
        """The disk no longer has these templates, nor shapes that no query has."""
        self.queries.forget_templates(first_ids)
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
        for registration in (*self.queries.templates, *self.queries.singles.values()):
            if registration.properties.deliver:
                self.alerts.note(registration)

    def end_alert(self, query_id: int, version: int, reason: str) -> None:
        """An alert query that has run so far ends; whatever is open of it will resolve."""
        if self.alerts.any and (reason == "dropped" or self.queries.state(query_id) is QueryState.RUNNING):
            registration = self.queries.registration(query_id)
            self.alerts.end(registration, query_id, self.queries.generation(query_id), version, reason)

    # ----------------------------------------------------------------------------------------- plans

    def plan(self, stream: str) -> StreamPlan:
        """The queries that are active on the stream now; the same object until something changes there."""
        key = stream.lower()
        plan = self.plans.find(key)
        if plan is None:
            name = self.plans.derived_name(key) or self.relations.get(stream).name
            plan = self.plans.build(key, name, self.version)
        return plan
