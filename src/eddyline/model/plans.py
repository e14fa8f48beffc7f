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
    """The active queries of one stream as of one version, and the bodies of views over it that other queries read."""

    stream: str
    version: int
    segments: tuple[Segment, ...]
    changes: PlanChanges = field(default_factory=PlanChanges)
    bodies: tuple[Segment, ...] = ()  # their ids are FIRST_BODY and above

    @property
    def n_queries(self) -> int:
        return sum(segment.n_live for segment in self.segments)

    @cached_property
    def with_bodies(self) -> StreamPlan:
        """Queries and bodies alike: what one predicate index holds."""
        if not self.bodies:
            return self
        return StreamPlan(self.stream, self.version, (*self.segments, *self.bodies), self.changes)

    @cached_property
    def by_shape(self) -> dict[Shape, list[Segment]]:
        """The segments of each shape."""
        found: dict[Shape, list[Segment]] = {}
        for segment in self.segments:
            found.setdefault(segment.shape, []).append(segment)
        return found

    @cached_property
    def counted_ids(self) -> npt.NDArray[np.int32]:
        """The queries and bodies whose results are counted, ascending."""
        counted = (s for s in (*self.segments, *self.bodies) if s.shape.is_counted)
        return np.sort(np.concatenate([np.empty(0, np.int32), *(s.ids[s.is_live] for s in counted)]))

    @cached_property
    def columns(self) -> frozenset[str]:
        """Columns of the stream that some query or body needs."""
        segments = (*self.segments, *self.bodies)
        return frozenset().union(*(segment.columns for segment in segments if segment.n_live))
