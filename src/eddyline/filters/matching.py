"""What leaves the filters: matching pairs as the index gave them or by segment, and the pairs no decided condition settles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import BitmapHits, ListHits, PartMatches, Positions, QueryIds, TupleBatch
from eddyline.expressions import Failure
from eddyline.filters.large_arrays import large_array
from eddyline.hit_matches import HitMatches, Hits, distinct_ids, parts_by_segment
from eddyline.kernels import copy_rows_at, count_lanes, decode_rows, decode_rows_at
from eddyline.model import StreamPlan


@dataclass(frozen=True, slots=True)
class DeadPairs:
    """(row, query) pairs in error: `failures[k]` says why pair k could not be decided."""

    rows: Positions
    query_ids: npt.NDArray[np.int32]
    failures: tuple[Failure, ...]


def no_dead_pairs() -> DeadPairs:
    return DeadPairs(np.empty(0, np.int64), np.empty(0, np.int32), ())


@dataclass(frozen=True, slots=True)
class FilterOutput:
    """All matches of one batch under the plan its round saw.

    `hits` are pairs of row and query as the index gave them; `parts` those that had to be looked at one by one, because the query
    computes what it shows or has a residual condition. A query is in one of the two. Nothing is decoded, grouped or projected
    until they are read.
    """

    batch: TupleBatch
    plan: StreamPlan
    hits: tuple[Hits, ...] = ()
    parts: tuple[PartMatches, ...] = ()
    dead_pairs: DeadPairs = field(default_factory=no_dead_pairs)

    @property
    def n_matches(self) -> int:
        return sum(map(len, self.hits)) + sum(map(len, self.parts))

    @property
    def nbytes(self) -> int:
        """With its rows; the plan belongs to the catalog."""
        return self.batch.nbytes + sum(each.nbytes for each in (*self.hits, *self.parts))

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where the pairs of each row begin in `pairs`; one more at the end."""
        n_rows = len(self.batch)
        offsets = np.zeros(n_rows + 1, np.int64)
        for hits in self.hits:
            offsets[1:] += hits.counts
        for part in self.parts:
            offsets[1:] += np.bincount(part.rows, minlength=n_rows)
        return np.cumsum(offsets, out=offsets)

    def pairs(self) -> tuple[npt.NDArray[np.int64], QueryIds]:
        """Row i matched the queries `ids[offsets[i]:offsets[i + 1]]`, in no particular order."""
        lists = [*self.hits, *(_by_row(part) for part in self.parts)]
        one = merged_hits(len(self.batch), lists)
        return one.offsets, one.ids

    def query_ids(self) -> QueryIds:
        """The queries that matched something, ascending."""
        found = [_ids_in(hits) for hits in self.hits] + [part.query_ids for part in self.parts]
        return distinct_ids(np.concatenate(found)) if found else np.empty(0, np.int32)

    def all_matches(self) -> Iterator[HitMatches | PartMatches]:
        """All matches, not looked up yet."""
        for hits in self.hits:
            if len(hits):
                yield HitMatches(self.batch, self.plan, hits)
        yield from self.parts

    def late_parts(self) -> Iterator[PartMatches]:
        """The hits by segment, ready to be projected."""
        yield from parts_by_segment(self.batch, self.plan, merged_hits(len(self.batch), self.hits))

    def all_parts(self) -> list[PartMatches]:
        """All matches by segment, in the order of the plan, ready to be projected; branches of unions come last."""
        places = {id(segment): place for place, segment in enumerate(self.plan.segments)}
        parts = [*self.late_parts(), *self.parts]
        return sorted(parts, key=lambda part: places.get(id(part.segment), len(places)))

    def parts_of(self, query_id: int) -> list[PartMatches]:
        """The matches of one query, rows ascending, ready to be projected: those of each branch of a union apart."""
        found: list[PartMatches] = []
        for hits in self.hits:
            rows = hits.rows_of(query_id)
            if len(rows):
                found.append(HitMatches(self.batch, self.plan, hits).part_of(query_id, rows))
        for part in self.parts:
            pairs = np.flatnonzero(part.query_ids == query_id)
            if len(pairs):
                found.append(part.take(pairs))
        by_segment: dict[int, list[PartMatches]] = {}
        for part in found:
            by_segment.setdefault(id(part.segment), []).append(part)
        return [_joined_parts(parts) for parts in by_segment.values()]

    def only(self, query_ids: Sequence[int]) -> FilterOutput:
        """The matches of these queries alone, as small as they are."""
        wanted_mask = np.zeros(max(query_ids, default=0) + 2, dtype=bool)
        wanted_mask[list(query_ids)] = True
        hits = tuple(_only(each, wanted_mask) for each in self.hits)
        parts = tuple(part.take(np.flatnonzero(_is_in(part.query_ids, wanted_mask))) for part in self.parts)
        return FilterOutput(
            self.batch, self.plan, tuple(h for h in hits if len(h)), tuple(p for p in parts if len(p))
        )


def merged_hits(n_rows: int, lists: Sequence[Hits]) -> ListHits:
    """Hits of the same rows as one list."""
    lists = [hits for hits in lists if len(hits)]
    if len(lists) == 1 and isinstance(lists[0], ListHits):
        return lists[0]
    offsets = np.zeros(n_rows + 1, np.int64)
    for hits in lists:
        offsets += hits.offsets if isinstance(hits, ListHits) else _offsets(hits.counts)
    ids = large_array(int(offsets[-1]), np.int32)
    if len(lists) == 1 and isinstance(lists[0], BitmapHits):
        decode_rows(lists[0].words, lists[0].ids, ids)
        return ListHits(offsets, ids)
    starts = offsets[:-1].copy()
    for hits in lists:
        if isinstance(hits, BitmapHits):
            decode_rows_at(hits.words, hits.counts, hits.ids, starts, ids)
            starts += hits.counts
        else:
            copy_rows_at(hits.offsets, hits.ids, starts, ids)
    return ListHits(offsets, ids)


def _offsets(counts: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _by_row(part: PartMatches) -> ListHits:
    """The pairs of a part in the order of their rows."""
    rows, ids = part.rows, part.query_ids
    if (rows[1:] < rows[:-1]).any():
        ids = ids[np.argsort(rows, kind="stable")]
    offsets = np.zeros(len(part.batch) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(part.batch)), out=offsets[1:])
    return ListHits(offsets, ids)


def _ids_in(hits: Hits) -> QueryIds:
    """Queries with a hit, some maybe more than once."""
    if isinstance(hits, ListHits):
        return hits.ids
    by_lane = np.zeros(len(hits.ids), np.int64)
    count_lanes(hits.words, by_lane)
    return hits.ids[by_lane > 0]


def _is_in(ids: QueryIds, wanted_mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which ids are in the mask; its last place is used for all ids above."""
    return np.take(wanted_mask, ids, mode="clip")


def _only(hits: Hits, wanted_mask: npt.NDArray[np.bool_]) -> ListHits:
    if isinstance(hits, ListHits):
        pairs = np.flatnonzero(_is_in(hits.ids, wanted_mask))
        return ListHits(np.searchsorted(pairs, hits.offsets), hits.ids[pairs])
    lanes = np.flatnonzero(_is_in(hits.ids, wanted_mask))
    bits = hits.words[:, lanes // 64] >> (lanes % 64).astype(np.uint64) & np.uint64(1)
    rows, columns = np.nonzero(bits)
    return ListHits(np.searchsorted(rows, np.arange(len(bits) + 1)), hits.ids[lanes[columns]])


def _joined_parts(parts: Sequence[PartMatches]) -> PartMatches:
    """Parts of one query, rows ascending."""
    first = parts[0]
    if len(parts) > 1:
        rows = np.concatenate([part.rows for part in parts])
        positions = np.concatenate([part.positions for part in parts])
        computed = {
            e: pa.concat_arrays([part.computed_values[e] for part in parts]) for e in first.computed_values
        }
        first = PartMatches(first.batch, first.segment, rows, positions, computed)
    rows = first.rows
    return first.take(np.argsort(rows, kind="stable")) if (rows[1:] < rows[:-1]).any() else first
