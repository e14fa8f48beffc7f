"""Hits with all that is needed to look up their result rows: matches that were not read yet.

The predicate index says which rows satisfy which queries and no more. Most results are never read one by one, so hits are kept
as they are, with the batch and the plan of their round; `PartMatches` are made of them, for one query or for all, when result
rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.batch import (
    BitmapHits,
    ListHits,
    PartMatches,
    Positions,
    QueryIds,
    TupleBatch,
    narrowed_segment,
    projected_columns,
)
from eddyline.model import Segment, StreamPlan

Hits = ListHits | BitmapHits
MOST_PLACES = 1 << 26  # of arrays by id; ids of bodies and branches lie further from those of queries


@dataclass(frozen=True, slots=True)
class HitMatches:
    """Pairs of row and query of one batch; `plan` is what the round saw, and says what the queries are."""

    batch: TupleBatch
    plan: StreamPlan
    hits: Hits

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def nbytes(self) -> int:
        """What it holds besides batch and plan, which others hold as well."""
        return self.hits.nbytes

    def part_of(self, query_id: int, rows: Positions) -> PartMatches:
        """The matches of one query, which are at these rows, ready to be projected."""
        segment, position = _place_of(self.plan, query_id)
        return PartMatches(self.batch, segment, rows, np.full(len(rows), position))

    def narrow_copy(self, pairs: Positions) -> HitMatches:
        """These pairs of a list alone, ascending, with copies of just the rows, columns and constants they need."""
        assert isinstance(self.hits, ListHits), f"{type(self.hits).__name__} has no list of pairs"
        ids = self.hits.ids[pairs]
        offsets = np.searchsorted(pairs, self.hits.offsets)
        rows = np.flatnonzero(np.diff(offsets))
        found = _segments_of(self.plan, distinct_ids(ids))
        segments = tuple(narrowed_segment(segment, positions) for segment, _, positions in found)
        return HitMatches(
            self.batch.narrow_copy(rows, projected_columns(segment.shape for segment in segments)),
            StreamPlan(self.plan.stream, self.plan.version, segments),
            ListHits(np.append(offsets[rows], len(ids)), ids),
        )


def parts_by_segment(batch: TupleBatch, plan: StreamPlan, hits: ListHits) -> Iterator[PartMatches]:
    """All hits ready to be projected, by segment, in the order of their rows."""
    if not len(hits):
        return
    distinct = distinct_ids(hits.ids)
    found = list(_segments_of(plan, distinct))
    ids, distinct = _near_zero(hits.ids, distinct)
    position_of = np.empty(int(distinct[-1]) + 1, np.int64)  # by id; what lies between the ids is never read
    for _, mine, positions in found:
        position_of[distinct[mine]] = positions
    if len(found) == 1:
        yield PartMatches(batch, found[0][0], hits.rows, position_of[ids])
        return
    segment_of = np.empty(len(position_of), np.min_scalar_type(len(found)))  # small numbers sort faster
    for number, (_, mine, _) in enumerate(found):
        segment_of[distinct[mine]] = number
    segment_of_pair = segment_of[ids]
    order = np.argsort(segment_of_pair, kind="stable")
    ends = np.cumsum(np.bincount(segment_of_pair, minlength=len(found)))
    rows = hits.rows
    for (segment, _, _), end, n in zip(found, ends, np.diff(ends, prepend=0), strict=True):
        pairs = order[end - n : end]
        yield PartMatches(batch, segment, rows[pairs], position_of[ids[pairs]])


def distinct_ids(ids: QueryIds) -> QueryIds:
    """Each id once, ascending."""
    if not len(ids):
        return np.empty(0, np.int32)
    first, last = int(ids.min()), int(ids.max())
    if last - first >= MOST_PLACES:
        return np.unique(ids)
    is_there = np.zeros(last + 1 - first, dtype=bool)
    is_there[ids - np.int32(first)] = True
    return (np.flatnonzero(is_there) + first).astype(np.int32)


def _near_zero(ids: QueryIds, distinct: QueryIds) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The ids, and the distinct ones, as numbers that an array has places for."""
    first, last = distinct[0], distinct[-1]
    if int(last) - int(first) < MOST_PLACES:
        return ids - first, distinct - first
    return np.searchsorted(distinct, ids), np.arange(len(distinct))


def _place_of(plan: StreamPlan, query_id: int) -> tuple[Segment, int]:
    """The position of a query."""
    for segment in plan.segments:
        if len(segment) and segment.ids[0] <= query_id <= segment.ids[-1]:
            position = segment.position(query_id)
            if position is not None and segment.is_live[position]:
                return segment, position
    raise AssertionError(f"query {query_id} is not active on {plan.stream} in version {plan.version}")


def _segments_of(plan: StreamPlan, ids: QueryIds) -> Iterator[tuple[Segment, Positions, Positions]]:
    """For each segment with any of these distinct ascending ids: the segment, which of the ids, and their positions in it."""
    segments = [segment for segment in plan.segments if len(segment)]
    lows = np.searchsorted(ids, np.array([segment.ids[0] for segment in segments], np.int32))
    highs = np.searchsorted(ids, np.array([segment.ids[-1] for segment in segments], np.int32), side="right")
    n_found = 0
    for number in np.flatnonzero(lows < highs):
        segment, low = segments[number], lows[number]
        mine = ids[low : highs[number]]
        if len(mine) <= len(segment):
            positions = np.searchsorted(segment.ids, mine)
            is_active = (segment.ids[positions] == mine) & segment.is_live[positions]
            places, positions = np.flatnonzero(is_active), positions[is_active]
        else:
            places = np.minimum(np.searchsorted(mine, segment.ids), len(mine) - 1)
            positions = np.flatnonzero((mine[places] == segment.ids) & segment.is_live)
            places = places[positions]
        n_found += len(places)
        if len(places):
            yield segment, places + low, positions
    assert n_found == len(ids), f"{len(ids)} queries of {plan.stream} matched, {n_found} are in its plan"
