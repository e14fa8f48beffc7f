"""Registered queries in memory: how each was registered, and what became of it since.

A template of a million queries is one registration; a member has an entry of its own only once something became of it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog.queries import Registration
from eddyline.errors import QueryStateError
from eddyline.model import QueryState, Segment, StreamPlan


@dataclass(slots=True)
class QueryFate:
    """What became of a query since it was registered; most have none."""

    state: QueryState
    generation: int
    version: int
    since_us: int
    why: str = ""  # it is suspended


class RegisteredQueries:
    """Registrations, states and generations of queries, by id."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.singles: dict[int, Registration] = {}
        self.templates: list[Registration] = []  # first ids ascending
        self.fates: dict[int, QueryFate] = {}
        self.parked: dict[
            int, tuple[pa.Scalar, ...]
        ] = {}  # constants of queries that do not run: no family has them
        self._past: dict[int, list[tuple[int, int]]] = {}  # of queries with a fate: (version, generation)
        self.next_id = 1
        self.n_queries = 0  # running or not, without those dropped

    def take_ids(self, n: int) -> int:
        """The first of so many new ids."""
        first = self.next_id
        self.next_id += n
        return first

    # ----------------------------------------------------------------------------------------- registrations

    def registration(self, query_id: int) -> Registration:
        """How a query was registered, without its constants. Raises QueryStateError if there is no such query."""
        fate = self.fates.get(query_id)
        registration = self.singles.get(query_id) or self.template_of(query_id)
        if registration is None or (fate is not None and fate.state is QueryState.DROPPED):
            raise QueryStateError(
                f"query {query_id} was dropped"
                if 0 < query_id < self.next_id
                else f"there is no query {query_id}",
                hint="Register it again: a dropped query sees nothing of later rounds.",
            )
        return registration

    def template_of(self, query_id: int) -> Registration | None:
        """The template a query was registered with, or None."""
        at = bisect.bisect_right(self.templates, query_id, key=lambda template: template.first_id) - 1
        if at >= 0 and query_id < self.templates[at].first_id + self.templates[at].n:
            return self.templates[at]
        return None

    def name_of(self, query_id: int) -> str:
        return self.registration(query_id).name(query_id)

    def owner_of(self, query_id: int) -> str:
        return self.registration(query_id).properties.owner

    def find_name(self, query_id: int) -> str | None:
        """The name of a query, or None if it was dropped."""
        return None if self.state(query_id) is QueryState.DROPPED else self.name_of(query_id)

    def ids(self) -> Iterator[int]:
        """All registered queries, running or paused, in order of registration."""
        spans = sorted([(b.first_id, b.n) for b in self.templates] + [(i, 1) for i in self.singles])
        last = 0
        for first, n in spans:
            for query_id in range(max(first, last + 1), first + n):
                last = query_id
                if self.state(query_id) is not QueryState.DROPPED:
                    yield query_id

    def spans(self) -> list[tuple[int, int]]:
        """The numbers of queries that were registered together: the first, and how many; also of those dropped since."""
        return [(template.first_id, template.n) for template in self.templates]

    def forget_templates(self, first_ids: Iterable[int]) -> None:
        """The disk no longer has these templates.

        Members that are still registered have rows of their own there, and so become queries of their own here.
        """
        forgotten_ids = set(first_ids)
        for template in (template for template in self.templates if template.first_id in forgotten_ids):
            for query_id in range(template.first_id, template.first_id + template.n):
                if self.state(query_id) is QueryState.DROPPED:
                    self.fates.pop(query_id, None)
                elif query_id not in self.singles:
                    name = None if template.names is None else template.name(query_id)
                    fate = self.fates[query_id]
                    self.singles[query_id] = template._replace(
                        first_id=query_id, n=1, names=name, version=fate.version, registered_us=fate.since_us
                    )
        self.templates = [template for template in self.templates if template.first_id not in forgotten_ids]

    # ----------------------------------------------------------------------------------------- states

    def state(self, query_id: int) -> QueryState:
        fate = self.fates.get(query_id)
        if fate is not None:
            return fate.state
        if query_id in self.singles or self.template_of(query_id) is not None:
            return QueryState.RUNNING
        return QueryState.DROPPED

    def n_by_state(self) -> dict[QueryState, int]:
        """How many queries there are in each state; those that do not run are looked at one by one."""
        found = dict.fromkeys((QueryState.RUNNING, QueryState.PAUSED, QueryState.SUSPENDED), 0)
        for query_id in self.parked:
            found[self.state(query_id)] += 1
        found[QueryState.RUNNING] = self.n_queries - sum(found.values())
        return found

    def running_registration(self, query_id: int, generation: int) -> Registration | None:
        """How a query was registered, if it runs in this generation; None if it is another by now, paused, or gone."""
        if self.state(query_id) is not QueryState.RUNNING or self.generation(query_id) != generation:
            return None
        return self.registration(query_id)

    def drop(self, query_id: int, version: int) -> None:
        """End a query. Its past generations stay: a round that is under way may still have to know them."""
        if self.singles.pop(query_id, None) is None or self.template_of(query_id) is not None:
            self.fates[query_id] = QueryFate(QueryState.DROPPED, 0, version, 0)
        else:
            self.fates.pop(query_id, None)

    # ----------------------------------------------------------------------------------------- generations

    def generation(self, query_id: int) -> int:
        """The current one: how often the query was replaced or resumed, and one more."""
        fate = self.fates.get(query_id)
        return fate.generation if fate else 1

    def begin_generation(self, query_id: int, generation: int, version: int, now_us: int) -> None:
        """From this version on the query runs in another generation."""
        self.fates[query_id] = QueryFate(QueryState.RUNNING, generation, version, now_us)
        self._past.setdefault(query_id, []).append((version, generation))

    def restore_fate(self, query_id: int, fate: QueryFate) -> None:
        """What the disk says became of a query; of its generations it knows the last."""
        self.fates[query_id] = fate
        self._past[query_id] = [(fate.version, fate.generation)]

    def generation_at(self, query_id: int, version: int) -> int:
        """Which generation of the query a round of `version` saw."""
        past = self._past.get(query_id, [])
        return next((generation for since, generation in reversed(past) if since <= version), 1)

    def generations_at(self, ids: npt.NDArray[np.int32], version: int) -> npt.NDArray[np.int32]:
        """The same of many queries."""
        if not self._past:
            return np.ones(len(ids), np.int32)
        distinct, places = np.unique(ids, return_inverse=True)
        return np.array([self.generation_at(i, version) for i in distinct.tolist()], np.int32)[places]

    def later_generations(
        self, plan: StreamPlan, version: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Ids, ascending, and generations of the queries of a plan of which a round of `version` saw one after the first."""
        past = [each for each in sorted(self._past) if self.generation_at(each, version) != 1]
        segments = (*plan.segments, *plan.branches) if past else ()
        active_ids = np.concatenate([np.empty(0, np.int32), *(segment.query_ids for segment in segments)])
        ids = np.intersect1d(np.array(past, np.int32), active_ids)
        return ids, self.generations_at(ids, version)

    def version_from(self, query_id: int) -> int:
        """The version from which on a query is registered as it is now."""
        fate = self.fates.get(query_id)
        return self.registration(query_id).version if fate is None else fate.version

    def first_versions(self, segment: Segment) -> npt.NDArray[np.int64]:
        """The version from which on each query of a segment sees rows; 0 for those that are no longer active there."""
        found = segment.cache.get("first versions")
        if found is None:
            found = np.zeros(len(segment), np.int64)
            for at in np.flatnonzero(segment.is_live):
                found[at] = self.version_from(int(segment.query_ids[at]))
            segment.cache["first versions"] = found
        known: npt.NDArray[np.int64] = found
        return known
