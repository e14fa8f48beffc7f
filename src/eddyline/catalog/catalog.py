"""The catalog in memory: what is registered now, which version it is, and the plan of each stream."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.catalog.families import Family
from eddyline.catalog.queries import QueryRecord, Registration
from eddyline.catalog.streams import evolved
from eddyline.errors import QueryStateError, SchemaError, UnknownNameError, did_you_mean
from eddyline.model import Properties, QueryState, Shape, Stream, StreamPlan


@dataclass(slots=True)
class _Fate:
    """What became of a query since it was registered; most have none."""

    state: QueryState
    generation: int
    version: int
    since_us: int


class Catalog:
    """Streams, queries and versions. Every change, single or bulk, is one version."""

    def __init__(self) -> None:
        self.version = 0
        self._depth = 0
        self._streams: dict[str, Stream] = {}
        self._families: dict[Shape, Family] = {}
        self._shapes_of: dict[str, dict[Shape, None]] = {}  # stream -> its shapes, in order of appearance
        self._plans: dict[str, StreamPlan] = {}
        self._singles: dict[int, Registration] = {}
        self._bulks: list[Registration] = []
        self._fates: dict[int, _Fate] = {}
        self._past: dict[int, list[tuple[int, int]]] = {}  # of queries with a fate: (version, generation)
        self._parked: dict[
            int, tuple[pa.Scalar, ...]
        ] = {}  # constants of paused queries, which stand in no family
        self._names: dict[str, dict[str, int]] = {}  # owner -> name -> id
        self._next_id = 1
        self.n_queries = 0

    @contextmanager
    def change(self) -> Iterator[int]:
        """All changes inside become one version, whose number it yields."""
        self._depth += 1
        if self._depth == 1:
            self.version += 1
        try:
            yield self.version
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
        with self.change():
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
        with self.change():
            del self._streams[stream.name.lower()]
            self._shapes_of.pop(stream.name.lower(), None)
            self._plans.pop(stream.name.lower(), None)

    def _users(self, stream_key: str) -> Iterator[tuple[str, Shape]]:
        shapes = self._shapes_of.get(stream_key, {})
        if not shapes:
            return
        for record in self.records():
            if record.shape in shapes:
                yield record.name, record.shape

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
        with self.change() as version:
            query_id = self._take_ids(1)
            self._singles[query_id] = Registration(
                query_id, 1, text, shape, properties, name, version, now_us
            )
            self._name(name, properties.owner, query_id)
            self._family(shape).add(query_id, constants)
            self._touch(shape)
            self.n_queries += 1
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
        with self.change() as version:
            first = self._take_ids(n)
            made = Registration(first, n, text, shape, properties, names, version, now_us)
            self._bulks.append(made)
            if names is not None:
                self._names.setdefault(properties.owner, {}).update(
                    zip(names, range(first, first + n), strict=True)
                )
            self._family(shape).add_many(np.arange(first, first + n, dtype=np.int32), slots)
            self._touch(shape)
            self.n_queries += n
        return made

    def replace(
        self,
        query_id: int,
        text: str,
        shape: Shape,
        constants: Sequence[Any],
        properties: Properties,
        now_us: int,
    ) -> None:
        """Another text under the same id and name: the old one ends and the new one starts in one version."""
        old = self._registration(query_id)
        generation = self._generation(query_id)
        with self.change() as version:
            if self._parked.pop(query_id, None) is None:
                self._leave_family(query_id, old.shape)
            self._singles[query_id] = Registration(
                query_id, 1, text, shape, properties, old.name(query_id), version, now_us
            )
            self._name(old.name(query_id), properties.owner, query_id)
            self._family(shape).add(query_id, constants)
            self._touch(shape)
            self._fates[query_id] = _Fate(QueryState.RUNNING, generation + 1, version, now_us)
            self._past.setdefault(query_id, []).append((version, generation + 1))
            if not properties.is_enabled:
                self.set_paused(query_id, True, now_us)

    def set_paused(self, query_id: int, is_paused: bool, now_us: int) -> None:
        """Pause, or resume: a new registration of the same text."""
        made = self._registration(query_id)
        state = QueryState.PAUSED if is_paused else QueryState.RUNNING
        if self.state(query_id) is state:
            return
        with self.change() as version:
            if is_paused:
                self._parked[query_id] = self._constants(query_id, made.shape)
                self._leave_family(query_id, made.shape)
            else:
                constants = [scalar.as_py() for scalar in self._parked.pop(query_id)]
                self._family(made.shape).add(query_id, constants)
                self._touch(made.shape)
            generation = self._generation(query_id) + (0 if is_paused else 1)
            self._fates[query_id] = _Fate(state, generation, version, now_us)
            if not is_paused:
                self._past.setdefault(query_id, []).append((version, generation))

    def drop(self, ids: Iterable[int]) -> int:
        """End queries; returns how many."""
        ids = list(dict.fromkeys(ids))
        by_shape: dict[Shape, list[int]] = {}
        for query_id in ids:
            by_shape.setdefault(self._registration(query_id).shape, []).append(query_id)
        if not ids:
            return 0
        with self.change() as version:
            for query_id in ids:
                self._past.pop(query_id, None)
                made = self._registration(query_id)
                owned = self._names.get(made.properties.owner, {})
                if owned.get(made.name(query_id)) == query_id:
                    del owned[made.name(query_id)]
                if self._singles.pop(query_id, None) is None or self._bulk(query_id) is not None:
                    self._fates[query_id] = _Fate(QueryState.DROPPED, 0, version, 0)
                else:
                    self._fates.pop(query_id, None)
            for shape, members in by_shape.items():
                standing = [query_id for query_id in members if self._parked.pop(query_id, None) is None]
                if standing:
                    self._family(shape).remove(standing)
                    self._touch(shape)
            self.n_queries -= len(ids)
        return len(ids)

    def find(self, name: str, owner: str = "") -> int | None:
        return self._names.get(owner, {}).get(name)

    def names(self, owner: str = "") -> Iterable[str]:
        return self._names.get(owner, {})

    def state(self, query_id: int) -> QueryState:
        fate = self._fates.get(query_id)
        if fate is not None:
            return fate.state
        if query_id in self._singles or self._bulk(query_id) is not None:
            return QueryState.RUNNING
        return QueryState.DROPPED

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
        )

    def name_of(self, query_id: int) -> str:
        return self._registration(query_id).name(query_id)

    def generation(self, query_id: int, version: int) -> int:
        """Which generation of the query a round of `version` saw."""
        past = self._past.get(query_id, [])
        return next((generation for since, generation in reversed(past) if since <= version), 1)

    def ids(self) -> Iterator[int]:
        """All registered queries, running or paused, in order of registration."""
        spans = sorted([(b.first_id, b.n) for b in self._bulks] + [(i, 1) for i in self._singles])
        last = 0
        for first, n in spans:
            for query_id in range(max(first, last + 1), first + n):
                last = query_id
                if self.state(query_id) is not QueryState.DROPPED:
                    yield query_id

    def records(self) -> Iterator[QueryRecord]:
        return (self.record(query_id) for query_id in self.ids())

    # ----------------------------------------------------------------------------------------- plans

    def plan(self, stream: str) -> StreamPlan:
        """What stands on the stream now; the same object until something changes there."""
        key = stream.lower()
        plan = self._plans.get(key)
        if plan is None:
            segments = [s for shape in self._shapes_of.get(key, {}) for s in self._families[shape].segments()]
            plan = StreamPlan(self.stream(stream).name, self.version, tuple(segments))
            self._plans[key] = plan
        return plan

    def families(self) -> Iterator[Family]:
        return iter(self._families.values())

    # ----------------------------------------------------------------------------------------- inside

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
        return family

    def _leave_family(self, query_id: int, shape: Shape) -> None:
        self._family(shape).remove([query_id])
        self._touch(shape)

    def _constants(self, query_id: int, shape: Shape) -> tuple[pa.Scalar, ...]:
        if query_id in self._parked:
            return self._parked[query_id]
        return self._family(shape).constants(query_id)

    def _touch(self, shape: Shape) -> None:
        """The plan of the shape's stream is no longer current; a family without queries goes."""
        key = shape.stream.lower()
        self._plans.pop(key, None)
        if not len(self._families[shape]):
            del self._families[shape]
            self._shapes_of[key].pop(shape, None)

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
