"""The rows of a SteM by the code of one key: few large segments, and a ring of the newest rows.

Rows are numbered as they come, and the oldest leave first. A ring of RING_PAIRS is sealed to a segment; segments are merged
while an older one is less than OLDER_LONGER times as long as the newer, so a million rows are in two or three. Pairs of rows
that have left are skipped by probes, and dropped when their segment is merged or most of the ring has left.

A segment could as well be sorted by key and searched by halving: that takes three to eleven times as long
(benchmarks/joins/probe.py).
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eddyline.joins.keys import Codes
from eddyline.kernels import (
    NO_PAIR,
    PADDING,
    SEGMENT_COLUMNS,
    add_up,
    count_buckets,
    find_pairs,
    find_some_pairs,
    link_pairs,
    pair_up,
    place_pairs,
    push_pairs,
    renumber_pairs,
    unlink_pairs,
)

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

RING_PAIRS = 32_768  # more take longer to probe, fewer longer to merge; 16,384 and 65,536 came out slower for a million rows
LEAST_PAIRS = 1_024  # room in a ring
OLDER_LONGER = 4  # times as long as the newer one an older segment is, or both are merged
MOST_GONE = 2  # times the pairs whose rows are present, and LEAST_PAIRS: when a ring is made anew
LEAST_THERE = 0.25  # of the rows of a segment, or it is made anew
LOOK_AGAIN = 1 / 16  # of all rows have left since `tidy` looked
_NONE = np.empty(0, dtype=bool)


class PresentRows(NamedTuple):
    """Which of all rows ever numbered are present: those from `first` on where `mask`, which begins at row `origin`, is set."""

    first: int
    mask: Mask = _NONE  # empty: all of them are
    origin: int = 0


@dataclass(frozen=True, slots=True)
class _Segment:
    """Pairs grouped by bucket. No row of it has a number below `low` or above `high`."""

    offsets: npt.NDArray[np.int32]
    pairs: Ints
    n_pairs: int
    shift: int
    low: int
    high: int

    def n_there(self, first: int) -> int:
        """About how many of its rows are present."""
        span = self.high + 1 - self.low
        return self.n_pairs * min(max(self.high + 1 - first, 0), span) // max(span, 1)

    @property
    def nbytes(self) -> int:
        return self.offsets.nbytes + self.pairs.nbytes


class KeyIndex:
    """Finds rows by codes. What is inserted is found at once."""

    def __init__(self, *, bucket_bits: int | None = None) -> None:
        self._bucket_bits = bucket_bits  # None: so many that a bucket has one pair or less on average
        self._segments: list[_Segment] = []  # the oldest first
        self._matches_per_probe = 1.0  # of the last probe
        self._next_tidy = 0  # when rows before this one have left, `tidy` looks for what is due
        self._start_ring(0)

    def _start_ring(self, n_pairs: int) -> None:
        room = max(LEAST_PAIRS, 1 << (n_pairs - 1).bit_length() if n_pairs else 0)
        self._ring = np.empty(2 * room, np.int64)
        self._behind = np.empty(room, np.int32)
        self._n_ring = 0
        self._ring_shift = self._shift(2 * room)
        self._heads = np.full(1 << (64 - self._ring_shift), NO_PAIR, np.int32)
        self._list_segments()

    def _list_segments(self) -> None:
        lines = [[s.offsets.ctypes.data, s.pairs.ctypes.data, s.shift] for s in self._segments]
        self._table = np.array(lines, np.int64).reshape(-1, SEGMENT_COLUMNS)

    def _shift(self, n_buckets: int) -> int:
        bits = (n_buckets - 1).bit_length() if self._bucket_bits is None else self._bucket_bits
        return 64 - max(bits, 1)

    # ------------------------------------------------------------------------------------------- in and out

    def insert(self, codes: Codes, row: int) -> None:
        """Rows numbered from `row` on have these codes. Those whose key is NULL are never found."""
        n = len(codes)
        if not n:
            return
        is_null = _NONE if codes.is_null is None else codes.is_null
        if n >= RING_PAIRS:
            pairs = np.empty(2 * n, np.int64)
            n = pair_up(codes.codes, is_null, row, pairs)
            if n:
                self._segments.append(
                    self._segment([(pairs, n)], PresentRows(row), row, row + len(codes) - 1, n)
                )
                self._list_segments()
            return
        if self._n_ring + n > len(self._behind):
            ring, n_ring = self._ring, self._n_ring
            self._start_ring(n_ring + n)
            self._extend_ring(ring, n_ring)
        self._n_ring = push_pairs(
            codes.codes, is_null, row, self._n_ring, self._ring, self._ring_shift, self._heads, self._behind
        )

    def _extend_ring(self, pairs: Ints, n_pairs: int) -> None:
        start = self._n_ring
        self._ring[2 * start : 2 * (start + n_pairs)] = pairs[: 2 * n_pairs]
        self._n_ring += n_pairs
        link_pairs(self._ring, start, self._n_ring, self._ring_shift, self._heads, self._behind)

    def undo(self, end: int) -> None:
        """Take out rows numbered from `end` on, which have to be what was inserted since the last `tidy`."""
        n = self._n_before(end)
        unlink_pairs(self._ring, n, self._n_ring, self._ring_shift, self._heads, self._behind)
        self._n_ring = n
        if self._segments and self._segments[-1].low >= end:
            self._segments = [segment for segment in self._segments if segment.low < end]
            self._list_segments()

    def renumber(self, first: int, numbers: Ints) -> None:
        """The row numbered first + k is row numbers[k] from now on, or has left if that is negative. Their order stays."""
        remaining_rows = numbers[numbers >= 0]
        n = len(remaining_rows)
        low, high = (int(remaining_rows[0]), int(remaining_rows[-1])) if n else (0, -1)
        self._next_tidy = 0
        for segment in self._segments:
            renumber_pairs(segment.pairs, segment.n_pairs, first, numbers)
        parts = [(segment.pairs, segment.n_pairs) for segment in self._segments]
        self._segments = [self._segment(parts, PresentRows(0), low, high, n)] if parts and n else []
        renumber_pairs(self._ring, self._n_ring, first, numbers)
        self._renew_ring(0)

    # ------------------------------------------------------------------------------------------- upkeep

    def tidy(self, present: PresentRows) -> None:
        """Seal and merge what is due, and forget rows that have left, where it pays."""
        if self._n_ring < RING_PAIRS and present.first < self._next_tidy:
            return
        n_gone = self._n_before(present.first)
        if n_gone > MOST_GONE * (self._n_ring - n_gone) + LEAST_PAIRS:
            self._renew_ring(present.first)
        n_segments = len(self._segments)
        self._segments = [segment for segment in self._segments if segment.high >= present.first]
        is_changed = len(self._segments) < n_segments
        if self._n_ring >= RING_PAIRS:
            low, high = max(int(self._ring[1]), present.first), int(self._ring[2 * self._n_ring - 1])
            self._segments.append(
                self._segment([(self._ring, self._n_ring)], present, low, high, self._n_ring)
            )
            self._start_ring(RING_PAIRS)
            is_changed = True
        for at, segment in enumerate(self._segments):
            if LEAST_THERE * segment.n_pairs > segment.n_there(present.first):
                self._segments[at] = self._merged([segment], present)
                is_changed = True
        while len(self._segments) > 1:
            older, newer = self._segments[-2:]
            if older.n_there(present.first) >= OLDER_LONGER * newer.n_there(present.first):
                break
            self._segments[-2:] = [self._merged([older, newer], present)]
            is_changed = True
        if is_changed:
            self._list_segments()
        self._next_tidy = present.first + max(LEAST_PAIRS, int(LOOK_AGAIN * self.n_pairs))

    def _n_before(self, row: int) -> int:
        """How many pairs of the ring have rows before this one."""
        n = self._n_ring
        if not n or self._ring[1] >= row:
            return 0
        return bisect.bisect_left(range(n), row, key=lambda k: self._ring[2 * k + 1])

    def _renew_ring(self, first: int) -> None:
        pairs = self._ring[: 2 * self._n_ring].reshape(-1, 2)
        pairs = pairs[pairs[:, 1] >= first]
        self._start_ring(len(pairs))
        self._extend_ring(pairs.ravel(), len(pairs))

    def _merged(self, segments: Sequence[_Segment], present: PresentRows) -> _Segment:
        low = max(min(segment.low for segment in segments), present.first)
        high = max(segment.high for segment in segments)
        n_about = sum(segment.n_there(present.first) for segment in segments)
        parts = [(segment.pairs, segment.n_pairs) for segment in segments]
        return self._segment(parts, present, low, high, n_about)

    def _segment(
        self, parts: Sequence[tuple[Ints, int]], present: PresentRows, low: int, high: int, n_about: int
    ) -> _Segment:
        """The pairs of all parts whose rows are present; `n_about` is an estimate of their number."""
        shift = self._shift(n_about)
        offsets = np.zeros((1 << (64 - shift)) + 2, np.int32)
        n = 0
        for pairs, n_pairs in parts:
            n += count_buckets(pairs, n_pairs, shift, present.first, present.mask, present.origin, offsets)
        add_up(offsets)
        placed = np.empty(2 * n + PADDING, np.int64)
        placed[2 * n :] = 0
        for pairs, n_pairs in parts:
            place_pairs(pairs, n_pairs, shift, present.first, present.mask, present.origin, offsets, placed)
        return _Segment(offsets, placed, n, shift, low, high)

    # ------------------------------------------------------------------------------------------- finding

    def find(self, codes: Codes, present: PresentRows) -> tuple[Ints, Ints]:
        """Pairs of a place in `codes`, ascending, and the number, less `present.first`, of a present row that has that code."""
        n = len(codes)
        is_null = _NONE if codes.is_null is None else codes.is_null
        room = int(1.25 * n * self._matches_per_probe) + 256
        probes, rows = np.empty(room, np.int64), np.empty(room, np.int64)
        n_found, at = 0, 0
        while True:
            n_found, at = find_pairs(
                codes.codes,
                is_null,
                at,
                self._table,
                self._ring,
                self._ring_shift,
                self._heads,
                self._behind,
                present.first,
                present.mask,
                present.origin,
                probes,
                rows,
                n_found,
            )
            if at == n:
                break
            probes, rows = _longer(probes, n_found), _longer(rows, n_found)
        if n:
            self._matches_per_probe = n_found / n
        return probes[:n_found], rows[:n_found]

    def find_some(
        self, codes: Codes, present: PresentRows, *, n_skipped: int, most: int
    ) -> tuple[Ints, Ints]:
        """Like `find`, for each code at most so many pairs behind those that are skipped, the newest first."""
        room = len(codes) * most
        probes, rows = np.empty(room, np.int64), np.empty(room, np.int64)
        n_found = find_some_pairs(
            codes.codes if codes.codes.flags.writeable else codes.codes.copy(),
            _NONE if codes.is_null is None else codes.is_null,
            n_skipped,
            most,
            self._table,
            self._ring,
            self._ring_shift,
            self._heads,
            self._behind,
            present.first,
            present.mask,
            present.origin,
            probes,
            rows,
        )
        return probes[:n_found], rows[:n_found]

    # ------------------------------------------------------------------------------------------- looking

    @property
    def n_segments(self) -> int:
        return len(self._segments)

    @property
    def n_pairs(self) -> int:
        """Pairs it has, also of rows that have left."""
        return self._n_ring + sum(segment.n_pairs for segment in self._segments)

    @property
    def nbytes(self) -> int:
        ring = self._ring.nbytes + self._behind.nbytes + self._heads.nbytes
        return ring + sum(segment.nbytes for segment in self._segments)

    def check(self) -> None:
        """Assert that buckets cover all pairs, and that rows of ring and segments are within their bounds."""
        for segment in self._segments:
            n_buckets = len(segment.offsets) - 2
            assert n_buckets == 1 << (64 - segment.shift), f"{n_buckets} buckets, shift {segment.shift}"
            assert segment.offsets[n_buckets] == segment.n_pairs, f"{segment.offsets[n_buckets]} pairs placed"
            assert (np.diff(segment.offsets) >= 0).all(), "buckets overlap"
            rows = segment.pairs[1 : 2 * segment.n_pairs : 2]
            assert not len(rows) or segment.low <= rows.min() <= rows.max() <= segment.high
        rows = self._ring[1 : 2 * self._n_ring : 2]
        assert (np.diff(rows) > 0).all(), "rows of the ring are not in order"
        assert len(self._table) == len(self._segments)


def _longer(array: Ints, n_kept: int) -> Ints:
    grown = np.empty(4 * len(array), np.int64)
    grown[:n_kept] = array[:n_kept]
    return grown
