"""Plans: the queries that are active on a stream as of one catalog version, in columns, and what changed between versions."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.expressions import UserCall
from eddyline.model.shapes import Shape

FIRST_BODY = 1 << 30  # ids of bodies of views begin here, those of queries stay below
FIRST_BRANCH = FIRST_BODY + (1 << 29)  # and those of the further branches of unions here


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Some queries of one shape: ids ascending, and one column of constants per slot."""

    shape: Shape
    ids: npt.NDArray[np.int32]
    slots: tuple[pa.Array, ...]
    is_live: npt.NDArray[np.bool_]
    cache: dict[str, Any] = field(
        default_factory=dict
    )  # what stages derive from ids and slots; never from is_live
    queries: npt.NDArray[np.int32] | None = (
        None  # of a branch of unions: the query that each of the ids is of
    )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_live(self) -> int:
        return int(self.is_live.sum())

    @property
    def columns(self) -> frozenset[str]:
        """Columns its queries need."""
        if "columns" not in self.cache:
            self.cache["columns"] = self.shape.columns
        found: frozenset[str] = self.cache["columns"]
        return found

    @property
    def query_ids(self) -> npt.NDArray[np.int32]:
        """The queries: whose ids these are, or whose branches."""
        return self.ids if self.queries is None else self.queries

    @property
    def under_queries(self) -> Segment:
        """Of a branch: the same under the ids of its queries, which need not ascend."""
        if "under queries" not in self.cache:
            self.cache["under queries"] = Segment(self.shape, self.query_ids, self.slots, self.is_live)
        found: Segment = self.cache["under queries"]
        return found

    @property
    def set_ids(self) -> npt.NDArray[np.int32]:
        """Under which ids results are counted: their own; of a union that is one set, those of its first branch."""
        if not self.shape.is_one_set:
            return self.ids
        # the bodies of a view have ids that follow each other, in the order of the branches
        return self.ids - np.int32(self.shape.branch) if self.queries is None else self.queries

    @property
    def recorded_calls(self) -> tuple[UserCall, ...]:
        """Those of its shape."""
        if "recorded calls" not in self.cache:
            self.cache["recorded calls"] = self.shape.recorded_calls
        found: tuple[UserCall, ...] = self.cache["recorded calls"]
        return found

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes + self.is_live.nbytes + sum(s.nbytes for s in self.slots))

    def position(self, query_id: int) -> int | None:
        """The position of a query in the columns, live or not, or None."""
        at = int(np.searchsorted(self.ids, np.int32(query_id)))  # another type would copy all ids
        return at if at < len(self.ids) and self.ids[at] == query_id else None


def ascending(ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The distinct ids in order; np.unique takes twenty times as long for many."""
    ids = np.sort(ids)
    is_first = np.ones(len(ids), dtype=bool)
    is_first[1:] = ids[1:] != ids[:-1]
    return ids if is_first.all() else ids[is_first]


class PlanChanges:
    """Which queries of a stream came, went or were replaced, by version: what an index reads to follow. It only grows."""

    def __init__(self, since: int = 0) -> None:
        self.since = since  # versions up to here are not distinguished
        self._versions: list[int] = []
        self._changed_queries: list[tuple[Shape, npt.NDArray[np.int32]]] = []

    def __len__(self) -> int:
        return len(self._versions)

    def note(self, version: int, shape: Shape, ids: npt.NDArray[np.int32]) -> None:
        """These queries came to the shape, or left it."""
        self._versions.append(version)
        self._changed_queries.append((shape, ids))

    def newest(self, n: int) -> PlanChanges:
        """A copy without all but so many."""
        changes = PlanChanges(self._versions[-n - 1] if n < len(self) else self.since)
        changes._versions, changes._changed_queries = self._versions[-n:], self._changed_queries[-n:]
        return changes

    def between(self, after: int, until: int) -> dict[Shape, npt.NDArray[np.int32]] | None:
        """Queries, by shape, that changed in versions later than `after`, up to `until`; None if that is no longer known."""
        if after < self.since:
            return None
        low, high = bisect.bisect_right(self._versions, after), bisect.bisect_right(self._versions, until)
        by_shape: dict[Shape, list[npt.NDArray[np.int32]]] = {}
        for shape, ids in self._changed_queries[low:high]:
            by_shape.setdefault(shape, []).append(ids)
        return {shape: ascending(np.concatenate(ids)) for shape, ids in by_shape.items()}


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """The active queries of one stream as of one version, and the bodies of views over it that other queries read.

    A union is a query on the stream of its first branch; its other branches are apart, on theirs.
    """

    stream: str
    version: int
    segments: tuple[Segment, ...]
    changes: PlanChanges = field(default_factory=PlanChanges)
    bodies: tuple[Segment, ...] = ()  # their ids are FIRST_BODY and above
    branches: tuple[Segment, ...] = ()  # of unions, all but the first of each: from FIRST_BRANCH on

    @property
    def n_queries(self) -> int:
        """How many queries have it as their stream, or as that of one of their branches."""
        if not self.branches:
            return sum(segment.n_live for segment in self.segments)
        live = [segment.query_ids[segment.is_live] for segment in (*self.segments, *self.branches)]
        return len(ascending(np.concatenate(live)))

    @cached_property
    def with_bodies(self) -> StreamPlan:
        """Queries, branches and bodies alike: what one predicate index holds."""
        if not self.bodies and not self.branches:
            return self
        segments = (*self.segments, *self.branches, *self.bodies)
        return StreamPlan(self.stream, self.version, segments, self.changes)

    @cached_property
    def with_branches(self) -> StreamPlan:
        """Queries and branches alike, without bodies."""
        return StreamPlan(self.stream, self.version, (*self.segments, *self.branches), self.changes)

    @cached_property
    def _queries_of_branches(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The ids of branches, ascending, and the query of each."""
        nothing = np.empty(0, np.int32)
        branches = [each for each in (*self.segments, *self.branches) if each.queries is not None]
        ids = np.concatenate([nothing, *(segment.ids for segment in branches)])
        queries = np.concatenate([nothing, *(segment.query_ids for segment in branches)])
        order = np.argsort(ids, kind="stable")
        return ids[order], queries[order]

    def queries_of(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """These ids, with those of queries in place of those of their branches."""
        is_branch = ids >= FIRST_BRANCH
        if not is_branch.any():
            return ids
        known, queries = self._queries_of_branches
        found = ids.copy()
        found[is_branch] = queries[np.searchsorted(known, ids[is_branch])]
        return found

    @cached_property
    def by_shape(self) -> dict[Shape, list[Segment]]:
        """The segments of each shape."""
        found: dict[Shape, list[Segment]] = {}
        for segment in self.segments:
            found.setdefault(segment.shape, []).append(segment)
        return found

    @cached_property
    def counted_ids(self) -> npt.NDArray[np.int32]:
        """The queries, branches and bodies whose results are counted, ascending."""
        counted = (s for s in self.with_bodies.segments if s.shape.is_counted)
        return np.sort(np.concatenate([np.empty(0, np.int32), *(s.ids[s.is_live] for s in counted)]))

    @cached_property
    def counted_sets(self) -> dict[int, int]:
        """Of those that are branches of a union that is one set: under which id they are counted."""
        unions = [s for s in self.with_bodies.segments if s.shape.is_one_set]
        pairs = (zip(s.ids[s.is_live].tolist(), s.set_ids[s.is_live].tolist(), strict=True) for s in unions)
        return {own: of for each in pairs for own, of in each}

    @cached_property
    def distinct_ids(self) -> npt.NDArray[np.int32]:
        """Those of them that are counted by the values of their results."""
        distinct = (s for s in self.with_bodies.segments if s.shape.is_distinct)
        return np.concatenate([np.empty(0, np.int32), *(s.ids[s.is_live] for s in distinct)])

    @cached_property
    def columns(self) -> frozenset[str]:
        """Columns of the stream that some query or body needs."""
        segments = self.with_bodies.segments
        return frozenset().union(*(segment.columns for segment in segments if segment.n_live))
