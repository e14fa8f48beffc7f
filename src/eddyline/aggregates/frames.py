"""Frames of the rows of a round, as the queries of one epoch see them, and what is in them.

Where rows come in order of time and epochs never fall, a frame is a run of places of a ring, from its low place to the row
itself. Rows of rings in which they do not are *apart*: rows that come later in the round, and rows that queries of this epoch do
not see, are switched off for them (kernels/over_frames.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np

from eddyline.aggregates.over_lanes import Floats, Lane
from eddyline.aggregates.rings import Rings, TouchedRings
from eddyline.aggregates.rows import Ints, Mask
from eddyline.kernels import (
    ARRIVAL,
    COUNT,
    EPOCH,
    NOTHING,
    build_nodes,
    distinct_between,
    epoch_starts,
    find_specials,
    places_back,
    prefix_totals,
    range_starts,
    sums_between,
    winners_between,
)
from eddyline.model import OverFrame

_NO_SPECIALS = np.empty(0, np.int64)


class EpochFrames:
    """Frames of the rows of a round that the queries of an epoch see; a context, in which rows are switched off.

    `rows` are their places among the rows of the round, which are sorted by ring, then arrival.
    """

    def __init__(self, rings: Rings, touched: TouchedRings, epoch: int, *, is_oldest: bool) -> None:
        self._rings, self._touched, self._epoch = rings, touched, epoch
        sees = rings.ints[touched.places, EPOCH] >= epoch
        self.rows = np.flatnonzero(sees)
        self.places = touched.places[self.rows]
        self._which = touched.ring_of_row[self.rows]
        self.ring = touched.rings[self._which]
        ends = touched.at + touched.n
        is_apart = touched.is_disordered if is_oldest else touched.is_disordered | touched.is_mixed
        first_seen = touched.at.copy()
        if not is_oldest:
            epoch_starts(rings.ints, touched.at, ends, epoch, first_seen)
            first_seen[touched.is_mixed] = touched.at[touched.is_mixed]
        self._starts, self._ends = touched.at[self._which], ends[self._which]
        self._first = first_seen[self._which]  # pinned rows included
        self._live = np.maximum(self._first, self._starts + rings.n_pinned[self.ring])
        self._find_specials(np.flatnonzero(is_apart), ends, is_oldest)

    def _find_specials(self, apart: Ints, ends: Ints, is_oldest: bool) -> None:
        rings, touched = self._rings, self._touched
        self._apart_starts, self._apart_ends = touched.at[apart], ends[apart]
        index = np.full(len(touched.rings), NOTHING)
        index[apart] = np.arange(len(apart))
        self._ring_index = index[self._which]
        self._spans, self._specials, self._n_hidden = np.zeros(len(apart) + 1, np.int64), _NO_SPECIALS, 0
        if not len(apart):
            return
        firsts = np.minimum.reduceat(touched.places, touched.run[:-1])[apart]
        if not is_oldest:
            firsts = np.where(touched.is_mixed[apart], self._apart_starts, firsts)
        first_arrival = int(rings.ints[touched.places, ARRIVAL].min())
        given = (firsts, self._apart_ends, rings.ints, first_arrival, self._epoch, rings.is_off, self._spans)
        self._specials = np.empty(find_specials(*given, _NO_SPECIALS), np.int64)
        self._n_hidden = find_specials(*given, self._specials)

    @property
    def n_apart(self) -> int:
        """How many rows are in rings with specials."""
        return int(np.count_nonzero(self._ring_index != NOTHING))

    def __enter__(self) -> Self:
        if self._n_hidden:
            self._build_nodes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._n_hidden:
            self._rings.is_off[self._specials] = False
            self._build_nodes()

    def _build_nodes(self) -> None:
        rings, starts = self._rings, self._apart_starts
        build_nodes(
            starts, self._apart_ends, starts, rings.ints, rings.floats, rings.is_off, rings.layout.sums, rings.layout.winners
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------- places

    def lows(self, frames: Sequence[OverFrame], *, has_pinned: bool = False) -> Ints:
        """The first place of each row's frame, by frame; an unbounded one begins with the pinned rows, or behind them."""
        found = np.empty((len(frames), len(self.rows)), np.int64)
        for index, frame in enumerate(frames):
            if frame.preceding is None:
                found[index] = self._first if has_pinned else self._live
            elif frame.unit == "range":
                range_starts(self._rings.time, self._live, self.places, frame.preceding, found[index])
        counted = [at for at, f in enumerate(frames) if f.unit == "rows" and f.preceding is not None]
        if counted:
            back = self.back([frames[at].preceding or 0 for at in counted])
            found[counted] = np.where(back == NOTHING, self._live, back)
        return found

    def back(self, n_back: Sequence[int]) -> Ints:
        """The place of the row so many before each row, or NOTHING, by number."""
        found = np.empty((len(n_back), len(self.rows)), np.int64)
        rings = self._rings
        places_back(
            np.array(n_back, np.int64), self.places, self._live, self._ring_index, self._specials, self._spans,
            rings.is_off, rings.ints, COUNT, self._tree, found,
        )  # fmt: skip
        return found

    @property
    def _tree(self) -> Ints:
        return np.zeros(len(self._specials), np.int64)

    # ------------------------------------------------------------------------------------------- what is in frames

    def totals(self, lane: Lane, lows: Ints) -> Ints:
        """Sums of a prefix column modulo 2**64."""
        found, rings = np.empty_like(lows), self._rings
        prefix_totals(
            rings.layout.ints[lane], lows, self.places, self._ring_index, self._specials, self._spans,
            rings.is_off, rings.ints, self._tree, found,
        )  # fmt: skip
        return found

    def sums(self, lane: Lane, lows: Ints) -> tuple[Floats, Floats]:
        """Sums of doubles, and what rounding took from them."""
        high, low, rings = np.empty(lows.shape), np.empty(lows.shape), self._rings
        column = np.array([rings.layout.floats[lane], lane.part], np.int64)
        sums_between(
            column, lows, self.places, self._ring_index, self._starts, self._ends, rings.floats, rings.is_off, high, low
        )  # fmt: skip
        return high, low

    def winners(self, lane: Lane, lows: Ints) -> Ints:
        """Places of the rows that win, or NOTHING."""
        found, rings = np.empty_like(lows), self._rings
        winner = rings.layout.winners[rings.layout.winner_lanes.index(lane)]
        winners_between(
            winner, lows, self.places, self._ring_index, self._starts, self._ends, rings.ints, rings.is_off, found
        )  # fmt: skip
        return found

    def n_distinct(self, number: Lane, count: Lane, lows: Ints, n_numbers: int) -> Ints:
        """How many distinct numbers rows have that are counted."""
        found, rings = np.empty_like(lows), self._rings
        distinct_between(
            rings.layout.ints[number], rings.layout.ints[count], lows, self.places, self._ring_index,
            rings.ints, rings.is_off, np.zeros(n_numbers, np.int64), found,
        )  # fmt: skip
        return found

    def taken(self, lane: Lane, places: Ints) -> Ints:
        """What a column has at places; anything at NOTHING."""
        return self._rings.ints[places, self._rings.layout.ints[lane]]

    def is_counted(self, lane: Lane, places: Ints) -> Mask:
        """Whether the rows at places are counted in a column; False at NOTHING."""
        column = self._rings.layout.ints[lane]
        ints = self._rings.ints
        return (places != NOTHING) & (ints[places, column] != ints[places - 1, column])
