"""The result log in memory: the results of every query, all of them within a number of bytes, and the last ones beyond it.

A round appends its matches as they left the filters and counts them, nothing more. A query's results are looked up and projected
when they are read. When the log outgrows its bytes the oldest rounds go, but for what the rings promise: results
of queries that have no more than their ring holds are set apart, a round at a time, so that no round waits for all of it.

Bitmaps have half of the bytes, and the oldest go whole: most of their queries match often, and their newest results are in
newer bitmaps. The results of a query that no newer bitmap has become a list.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eddyline.batch import BitmapHits, ListHits, PartMatches, Positions, QueryIds
from eddyline.hit_matches import HitMatches
from eddyline.kernels import (
    HALF,
    MOST_EVER,
    ONE_HELD,
    ONE_NEW,
    add_by_id,
    count_ids,
    count_lanes,
    decode_rows,
    mark_within,
)
from eddyline.model import StreamPlan
from eddyline.storage import StoredPart

ENTRY_BYTES = 3_500  # of a few rows, besides the bytes in its arrays: measured by resident memory
SEGMENT_BYTES = 1_000  # the same of a segment of a narrowed plan
BITMAP_SHARE = 0.5  # of the byte limit
KEPT_SHARE = 0.5  # of what others may have, for results set apart
REWRITTEN_SHARE = 0.5  # of results: if no more than these stay, they are copied and the rest is freed
MANY_RESULTS = 4_096  # of an entry, from which on some are looked at first
JUDGED_BY = 1_024
OFTEN_EACH = (
    16  # results for each counter there is, from which on it pays to remember how many each query has
)
SMALL_BATCH_BYTES = 1 << 16
RARE_LANES, RARE_RESULTS = 64, 16_384  # of a bitmap that goes, up to which they are kept
FORGOTTEN = -(1 << 62)  # instead of how many results a query had earlier
MORE_THAN_A_RING = 1 << 30
SCANS_BEFORE_SORT = 200  # sorting ids takes as long as looking through them so many times

Matches: TypeAlias = HitMatches | PartMatches | StoredPart


@dataclass(slots=True)
class ResultEntry:
    """Matches of one round; `number` orders entries."""

    number: int
    round_number: int
    version: int
    matches: Matches
    nbytes: int
    is_rewritten: bool = False
    # results per lane of a bitmap; per query id of others, if there are many more of them than of queries
    counts: npt.NDArray[Any] | None = field(default=None, repr=False)
    _n_scans: int = field(default=0, repr=False)
    _order: Positions | None = field(default=None, repr=False)
    _sorted_ids: QueryIds | None = field(default=None, repr=False)

    def pairs_of(self, query_id: int) -> Positions:
        """Pairs of one query, in order of arrival; of hits, the rows that satisfy it."""
        matches = self.matches
        if isinstance(matches, HitMatches):
            if isinstance(matches.hits, BitmapHits):
                return matches.hits.rows_of(query_id)
            places = self._places(query_id)
            return np.searchsorted(matches.hits.offsets, places, side="right") - 1
        pairs = self._places(query_id)
        return pairs[np.argsort(matches.arrivals[pairs], kind="stable")]

    def arrivals(self, pairs: Positions) -> Positions:
        """The numbers of results that `pairs_of` gives."""
        matches = self.matches
        return (matches.batch.arrival if isinstance(matches, HitMatches) else matches.arrivals)[pairs]

    def part(self, query_id: int, pairs: Positions) -> tuple[PartMatches | StoredPart, Positions]:
        """Matches that can be projected, and which of them are these pairs of a query."""
        if isinstance(self.matches, HitMatches):
            return self.matches.part_of(query_id, pairs), np.arange(len(pairs))
        return self.matches, pairs

    def queries(self) -> QueryIds:
        """The queries that have results here; one may come several times."""
        matches = self.matches
        if not isinstance(matches, HitMatches):
            return matches.query_ids
        if isinstance(matches.hits, BitmapHits) and self.counts is not None:
            return matches.hits.ids[self.counts > 0]
        return matches.hits.ids

    def counts_by_query(self) -> tuple[QueryIds, npt.NDArray[np.int64]]:
        """The same queries, and how many results each has at that place."""
        ids = self.queries()
        if isinstance(self.matches, HitMatches) and isinstance(self.matches.hits, BitmapHits):
            assert self.counts is not None, "a bitmap is counted by lanes"
            return ids, self.counts[self.counts > 0].astype(np.int64)
        return ids, np.ones(len(ids), np.int64)

    def _places(self, query_id: int) -> Positions:
        """The positions of a query among the ids of the pairs, ascending. The ids are sorted once that pays."""
        if self._order is None or self._sorted_ids is None:
            matches = self.matches
            ids = matches.hits.ids if isinstance(matches, HitMatches) else matches.query_ids
            self._n_scans += 1
            if self._n_scans <= SCANS_BEFORE_SORT:
                return np.flatnonzero(ids == query_id)
            self._order = np.argsort(ids, kind="stable")
            self._sorted_ids = ids[self._order]
        query = np.int32(query_id)  # another type would copy all ids
        low, high = (np.searchsorted(self._sorted_ids, query, side=side) for side in ("left", "right"))
        return self._order[low:high]


class _Shelf:
    """Entries, oldest first, and their bytes. Entries of one round share their batch: it counts once."""

    def __init__(self) -> None:
        self.entries: deque[ResultEntry] = deque()
        self.nbytes = 0
        self._batch_holders: dict[
            int, tuple[int, int]
        ] = {}  # id of a batch -> entries that hold it, its bytes

    def push(self, entry: ResultEntry) -> None:
        self.entries.append(entry)
        self.nbytes += entry.nbytes
        if not isinstance(entry.matches, StoredPart):
            batch = entry.matches.batch
            n_holders, nbytes = self._batch_holders.get(id(batch), (0, 0))
            if n_holders == 0:
                nbytes = batch.nbytes
                self.nbytes += nbytes
            self._batch_holders[id(batch)] = n_holders + 1, nbytes

    def insert(self, entry: ResultEntry) -> None:
        """Put an entry where its number belongs."""
        later = []
        while self.entries and self.entries[-1].number > entry.number:
            later.append(self.entries.pop())
        self.push(entry)
        self.entries.extend(reversed(later))

    def pop_oldest(self) -> ResultEntry:
        entry = self.entries.popleft()
        self.nbytes -= entry.nbytes
        if not isinstance(entry.matches, StoredPart):
            batch = entry.matches.batch
            n_holders, nbytes = self._batch_holders.pop(id(batch))
            if n_holders == 1:
                self.nbytes -= nbytes
            else:
                self._batch_holders[id(batch)] = n_holders - 1, nbytes
        return entry


class ResultLog:
    """Results by query: all of them up to `max_bytes`, and above that the last `per_query` of each, as far as they fit.

    Entries from `_whole_from` on have lost nothing. Of older ones a query's last `per_query` results can be read.
    """

    def __init__(self, per_query: int, max_bytes: int) -> None:
        self.per_query = per_query
        self.max_bytes = max_bytes
        self._fresh = _Shelf()  # lists, parts and what came from the outbox, as they came
        self._retained = _Shelf()  # what stayed of older ones
        self._bitmaps = _Shelf()
        self._next_entry = 0
        # results of each query: outside of bitmaps, held and ever (kernels/counts.py); in bitmaps; and those counted nowhere else
        self._in_lists = np.zeros(1024, np.int64)
        self._in_bitmaps = np.zeros(1024, np.int64)
        self._earlier = np.zeros(1024, np.int64)
        self._n_counted = 0  # in the high half of _in_lists, which must not overflow
        self._plans: dict[str, StreamPlan] = {}  # the last of each stream
        self._whole_from = 0
        self._last_round_cut = 0  # the newest round of which results have left
        self.n_dropped = 0

    @property
    def nbytes(self) -> int:
        return self._fresh.nbytes + self._retained.nbytes + self._bitmaps.nbytes

    @property
    def end(self) -> int:
        """The number of the entry to come: where a new reader starts."""
        return self._next_entry

    def append(self, round_number: int, version: int, matches: Matches) -> int:
        """Take a round's matches; returns how many results left to make room."""
        nbytes = matches.nbytes + ENTRY_BYTES
        if isinstance(matches, HitMatches):
            nbytes += self._adopt(matches.plan)
        counts = self._count(matches)
        nbytes += 0 if counts is None else counts.nbytes
        entry = ResultEntry(self._next_entry, round_number, version, matches, nbytes, counts=counts)
        self._next_entry += 1
        is_bitmap = isinstance(matches, HitMatches) and isinstance(matches.hits, BitmapHits)
        (self._bitmaps if is_bitmap else self._fresh).push(entry)
        dropped = self._drop_bitmaps(round_number) if is_bitmap else 0
        dropped += self._make_room()
        self.n_dropped += dropped
        return dropped

    def n_produced_by(self, query_id: int) -> int:
        """How many results the query has had."""
        if query_id >= len(self._earlier):
            return 0
        ever = int(self._in_lists[query_id]) >> 32
        return max(0, ever + int(self._in_bitmaps[query_id]) + int(self._earlier[query_id]))

    def n_retained_of(self, query_id: int) -> int:
        """How many of them can still be read."""
        return sum(len(pairs) for _, pairs in self._readable(query_id))

    def n_dropped_of(self, query_id: int) -> int:
        return self.n_produced_by(query_id) - self.n_retained_of(query_id)

    def read(
        self, query_id: int, *, since: int = 0, newest: int | None = None
    ) -> Iterator[tuple[ResultEntry, PartMatches | StoredPart, Positions]]:
        """Results of a query from entry `since` on, rounds oldest first, at most the `newest` ones.

        They come as matches that can be projected, and which of them are meant.
        """
        found: list[tuple[ResultEntry, Positions]] = []
        readable = self._readable(query_id, since)
        for _, of_round in itertools.groupby(readable, key=lambda item: item[0].round_number):
            pieces = list(of_round)
            if newest is not None:
                numbers = [entry.arrivals(pairs) for entry, pairs in pieces]
                kept = newest_pairs(numbers, newest)
                pieces = [(entry, pairs[k]) for (entry, pairs), k in zip(pieces, kept, strict=True)]
                newest -= sum(map(len, kept))
            found += [(entry, pairs) for entry, pairs in pieces if len(pairs)]
            if newest == 0:
                break
        for entry, pairs in reversed(found):
            yield entry, *entry.part(query_id, pairs)

    def is_whole(self, since: int) -> bool:
        """Whether no result from entry `since` on has left the log."""
        return since >= self._whole_from

    def has_lost(self, query_id: int, from_round: int) -> bool:
        """Whether results of the query may have left the log that rounds from this one on brought."""
        return from_round <= self._last_round_cut and self.n_dropped_of(query_id) > 0

    def begin_later(self, last_missing: int) -> None:
        """Start with the results of rounds after this one: those of earlier ones are not in the log."""
        self._next_entry += 1
        self._note_cut(self._next_entry - 1, last_missing)

    def count_earlier(self, query_ids: npt.NDArray[Any], n: npt.NDArray[Any] | int) -> None:
        """Count results that queries had before what the log holds: so many for each of these."""
        if len(query_ids):
            self._grow(int(query_ids.max()))
            np.add.at(self._earlier, query_ids, n)

    def newest_first(self) -> Iterator[ResultEntry]:
        """What is held, entry by entry."""
        return self._newest_first()

    def entries_since(self, number: int) -> list[ResultEntry]:
        """Entries that are held and came since `end` was this number, oldest first."""
        return list(takewhile(lambda entry: entry.number >= number, self._newest_first()))[::-1]

    def produced_by(self, query_ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """How many results each of these queries has had."""
        known = query_ids < len(self._earlier)
        ids = query_ids[known]
        n = np.zeros(len(query_ids), np.int64)
        n[known] = np.maximum(0, (self._in_lists[ids] >> 32) + self._in_bitmaps[ids] + self._earlier[ids])
        return n

    def produced_counts(self) -> npt.NDArray[np.int64]:
        """The same of all queries, by number."""
        return self.produced_by(np.arange(len(self._earlier)))

    def produced_before(self, round_number: int) -> npt.NDArray[np.int64]:
        """The same without the results of this round and later ones."""
        n = self.produced_counts()
        for entry in takewhile(lambda entry: entry.round_number >= round_number, self._newest_first()):
            np.subtract.at(n, *entry.counts_by_query())
        return n

    def most_produced(self, most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The queries with most results, and how many each has had, the most first."""
        n = self.produced_counts()
        places = np.argpartition(n, -most)[-most:] if most < len(n) else np.arange(len(n))
        places = places[n[places] > 0]
        order = places[np.argsort(-n[places], kind="stable")]
        return order, n[order]

    def forget(self, query_id: int) -> None:
        """A dropped query's results go when it is their turn; its counter ends now."""
        if query_id < len(self._earlier):
            self._earlier[query_id] = FORGOTTEN
            self._in_lists[query_id] += MORE_THAN_A_RING

    def forget_stream(self, name: str) -> None:
        """Let go of the plan of a stream that was dropped."""
        self._plans.pop(name.lower(), None)

    # ----------------------------------------------------------------------------------------- inside

    def _readable(self, query_id: int, since: int = 0) -> Iterator[tuple[ResultEntry, Positions]]:
        """What can be read of a query from entry `since` on, newest first: a run without gaps."""
        n_found = 0
        for entry in self._newest_first():
            if entry.number < since:
                return
            pairs = entry.pairs_of(query_id)
            if entry.number < self._whole_from:
                pairs = pairs[max(0, len(pairs) - max(0, self.per_query - n_found)) :]
                if n_found >= self.per_query:
                    return
            n_found += len(pairs)
            if len(pairs):
                yield entry, pairs

    def _note_cut(self, number: int, round_number: int) -> None:
        """Results of an entry have left."""
        self._whole_from = max(self._whole_from, number + 1)
        self._last_round_cut = max(self._last_round_cut, round_number)

    @property
    def _room(self) -> int:
        """Bytes for all but bitmaps."""
        return self.max_bytes - min(self._bitmaps.nbytes, int(self.max_bytes * BITMAP_SHARE))

    def _newest_first(self) -> Iterator[ResultEntry]:
        shelves = [
            reversed(shelf.entries) for shelf in (self._fresh, self._retained, self._bitmaps) if shelf.entries
        ]
        return heapq.merge(*shelves, key=lambda entry: entry.number, reverse=True)

    def _count(self, matches: Matches) -> npt.NDArray[Any] | None:
        """Count the results of each query; returns what an entry remembers of that."""
        if not isinstance(matches, HitMatches):
            ids = _ids(matches)
            self._grow(int(ids.max()))
            return self._count_new(ids)
        hits = matches.hits
        if not isinstance(hits, BitmapHits):
            return self._count_new(hits.ids)
        by_lane = np.zeros(len(hits.ids), np.int64)
        count_lanes(hits.words, by_lane)
        add_by_id(hits.ids, by_lane, self._in_bitmaps)
        return by_lane.astype(np.int32)

    def _count_new(self, ids: QueryIds) -> npt.NDArray[np.int64] | None:
        self._n_counted += len(ids)
        if self._n_counted > MOST_EVER:  # make room in the high half
            self._earlier += self._in_lists >> 32
            self._in_lists &= HALF
            self._n_counted = len(ids)
        if len(ids) < OFTEN_EACH * len(self._in_lists):
            count_ids(ids, self._in_lists, ONE_NEW)
            return None
        by_id = np.zeros(len(self._in_lists), np.int64)
        count_ids(ids, by_id, 1)
        self._in_lists += by_id * ONE_NEW
        return by_id

    def _adopt(self, plan: StreamPlan) -> int:
        """Make counters for the queries of a plan; returns the bytes that only it holds: masks of segments that changed."""
        previous = self._plans.get(plan.stream.lower())
        if plan is previous:
            return 0
        self._plans[plan.stream.lower()] = plan
        self._grow(max((int(segment.ids[-1]) for segment in plan.segments if len(segment)), default=0))
        known = set() if previous is None else {id(segment) for segment in previous.segments}
        return sum(segment.is_live.nbytes for segment in plan.segments if id(segment) not in known)

    def _grow(self, highest: int) -> None:
        """Counters for ids up to the highest."""
        size = len(self._earlier)
        if highest >= size:
            size = max(highest + 1, 2 * size)
            self._in_lists = _longer(self._in_lists, size)
            self._in_bitmaps, self._earlier = _longer(self._in_bitmaps, size), _longer(self._earlier, size)

    def _drop_bitmaps(self, newest_round: int) -> int:
        """The oldest bitmaps go while they are too many; those of the newest round stay. Returns how many results went.

        What a query had in one that goes, if no newer one has any of it, becomes a list: the last results of a query that seldom
        matches are not washed away by others.
        """
        dropped = 0
        while (
            self._bitmaps.nbytes > self.max_bytes * BITMAP_SHARE
            and self._bitmaps.entries[0].round_number < newest_round
        ):
            entry = self._bitmaps.pop_oldest()
            self._note_cut(entry.number, entry.round_number)
            dropped += len(entry.matches)
            rare = self._rare(entry)
            if rare is not None:
                self._retained.insert(rare)
                count_ids(_ids(rare.matches), self._in_lists, ONE_HELD)
                dropped -= len(rare.matches)
        return dropped

    def _rare(self, entry: ResultEntry) -> ResultEntry | None:
        """The results of queries that no newer bitmap has any of, if they are not too many."""
        matches, by_lane = entry.matches, entry.counts
        assert isinstance(matches, HitMatches)
        assert by_lane is not None
        hits = matches.hits
        assert isinstance(hits, BitmapHits)
        n_results = by_lane.astype(np.int64)
        add_by_id(hits.ids, -n_results, self._in_bitmaps)
        add_by_id(hits.ids, n_results, self._earlier)
        is_rare = (by_lane > 0) & (self._in_bitmaps[hits.ids] == 0) & (self._earlier[hits.ids] >= 0)
        n_rare = np.count_nonzero(is_rare)
        if not n_rare or n_rare > RARE_LANES or by_lane[is_rare].sum() > RARE_RESULTS:
            return None
        mask = np.packbits(is_rare, bitorder="little").view(np.uint64)
        columns = np.flatnonzero(mask)
        words = np.zeros((len(hits.words), len(columns)), np.uint64)
        rows = np.flatnonzero(hits.counts)
        words[rows] = hits.words[np.ix_(rows, columns)] & mask[columns]
        offsets = np.zeros(len(words) + 1, np.int64)
        np.cumsum(np.bitwise_count(words).sum(axis=1, dtype=np.int64), out=offsets[1:])
        ids = np.empty(int(offsets[-1]), np.int32)
        decode_rows(words, hits.ids.reshape(-1, 64)[columns].reshape(-1), ids)
        found = HitMatches(matches.batch, matches.plan, ListHits(offsets, ids))
        smaller = found.narrow_copy(np.arange(len(ids)))
        nbytes = smaller.nbytes + _plan_bytes(smaller) + ENTRY_BYTES
        return ResultEntry(
            entry.number, entry.round_number, entry.version, smaller, nbytes, is_rewritten=True
        )

    def _make_room(self) -> int:
        """While fresh entries have more than their share, take the oldest, but never the newest, and set apart what stays of it.

        What was set apart goes whole, oldest first, when it outgrows its share. Returns how many results went.
        """
        dropped = 0
        while self._fresh.nbytes > self._room * (1 - KEPT_SHARE) and len(self._fresh.entries) > 1:
            entry = self._fresh.pop_oldest()
            self._note_cut(entry.number, entry.round_number)
            dropped += len(entry.matches)
            stays = self._without_surplus(entry)
            if stays is not None:
                dropped -= len(stays.matches)
                self._retained.insert(stays)
            while self._retained.nbytes > self._room * KEPT_SHARE:
                oldest = self._retained.pop_oldest()
                dropped += len(oldest.matches)
                count_ids(_ids(oldest.matches), self._in_lists, -ONE_HELD)
        return dropped

    def _without_surplus(self, entry: ResultEntry) -> ResultEntry | None:
        """What stays of the oldest entry: results of queries that have no more than their ring holds."""
        if self._are_all_surplus(entry):
            return None
        matches = entry.matches
        order = None if isinstance(matches, HitMatches) else np.argsort(matches.arrivals, kind="stable")
        ids = (
            _ids(matches) if order is None else _ids(matches)[order]
        )  # rows of a list are in order of arrival
        is_compact = entry.is_rewritten or _fills_its_batch(matches) or self._holds_little(matches)
        if is_compact and self._seems_within(ids):
            return entry
        is_kept = np.empty(len(ids), dtype=bool)
        n_kept = mark_within(ids, self.per_query, self._in_lists, is_kept)
        if n_kept == 0:
            return None
        if n_kept > REWRITTEN_SHARE * len(ids) and is_compact:
            count_ids(ids[~is_kept], self._in_lists, ONE_HELD)  # copying would free little, so they stay too
            return entry
        smaller = matches.narrow_copy(np.flatnonzero(is_kept) if order is None else np.sort(order[is_kept]))
        return ResultEntry(
            entry.number,
            entry.round_number,
            entry.version,
            smaller,
            smaller.nbytes + _plan_bytes(smaller) + ENTRY_BYTES,
            is_rewritten=True,
        )

    def _are_all_surplus(self, entry: ResultEntry) -> bool:
        """Whether all its results go, which is seen at once where few queries have many; then they are no longer counted."""
        by_id = entry.counts
        if by_id is None:
            return False
        counts = self._in_lists[: len(by_id)]
        if bool((((counts & HALF) - by_id < self.per_query) & (by_id > 0)).any()):
            return False
        counts -= by_id
        return True

    def _holds_little(self, matches: Matches) -> bool:
        """Whether it keeps no plan alive but the active one, and a small batch."""
        if not isinstance(matches, HitMatches) or matches.batch.nbytes > SMALL_BATCH_BYTES:
            return False
        return self._plans.get(matches.plan.stream.lower()) is matches.plan

    def _seems_within(self, ids: QueryIds) -> bool:
        """Whether most of many results would stay, judged by some of them."""
        if len(ids) < MANY_RESULTS:
            return False
        some = ids[:: len(ids) // JUDGED_BY]
        return float(np.mean((self._in_lists[some] & HALF) > self.per_query)) < 1 - REWRITTEN_SHARE


def _longer(counts: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    more = np.zeros(size, counts.dtype)  # memory that is not written to is not there yet
    more[: len(counts)] = counts
    return more


def _ids(matches: Matches) -> QueryIds:
    """The query of each pair of anything but a bitmap."""
    if isinstance(matches, HitMatches):
        assert isinstance(matches.hits, ListHits)
        return matches.hits.ids
    # arrays of the outbox are read-only, for which kernels would be compiled once more
    return np.require(matches.query_ids, requirements="W")


def _fills_its_batch(matches: Matches) -> bool:
    """Whether a copy of only the rows it needs would be hardly smaller."""
    if isinstance(matches, StoredPart) or matches.nbytes > matches.batch.nbytes:
        return True
    if (
        isinstance(matches, HitMatches)
        and isinstance(matches.hits, ListHits)
        and len(matches) >= MANY_RESULTS
    ):
        return int(np.count_nonzero(matches.hits.counts)) > REWRITTEN_SHARE * len(matches.batch)
    return False


def _plan_bytes(matches: Matches) -> int:
    """Bytes of constants that a narrowed entry has to itself."""
    if isinstance(matches, StoredPart):
        return 0
    segments = matches.plan.segments if isinstance(matches, HitMatches) else (matches.segment,)
    return sum(segment.nbytes + SEGMENT_BYTES for segment in segments)


def newest_pairs(numbers: Sequence[Positions], n: int) -> list[Positions]:
    """Which of the results of one round are its newest `n`: in each of its pieces, given by the numbers of their results."""
    total = sum(map(len, numbers))
    if n >= total:
        return [np.arange(len(each)) for each in numbers]
    if n == 0:
        return [np.empty(0, np.int64) for _ in numbers]
    oldest = np.partition(np.concatenate(numbers), total - n)[total - n]  # that is still among them
    return [np.flatnonzero(each >= oldest) for each in numbers]
