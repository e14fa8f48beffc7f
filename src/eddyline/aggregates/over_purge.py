"""Which rows of rings no frame can hold any more, and what of them stays.

RANGE d          rows with time < watermark - the longest d
ROWS n, lag k    of the rows below the watermark, all but the newest max(n, k) of a partition
unbounded        rows below the watermark: their sums are folded, and those that win are pinned
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.aggregates.folds import Folds
from eddyline.aggregates.over_lanes import Lane, condition_of, number_lane, winner_lane
from eddyline.aggregates.over_values import frame_of
from eddyline.aggregates.rings import Rings, places_of
from eddyline.aggregates.rows import Ints
from eddyline.kernels import ARRIVAL, NOTHING, pin_distinct, pin_winners, purge_cuts
from eddyline.model import AggregateCall

FEW_ROWS = 1_024  # so many are gone over whenever the watermark has moved
PARTS = 8  # of the longest frame, or of the rows: what may be there too long


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge did: arrival numbers of the rows that left, and the rings that others were folded into or pinned in."""

    gone: Ints
    rings: Ints


class Purge:
    """When rows are due to leave, and how they do."""

    def __init__(self, calls: Iterable[AggregateCall], last_us: int | None = None) -> None:
        self.last_us = last_us  # the watermark of the last purge
        self._n_after = 0  # rows that stayed then
        self._reach_us, self._n_behind = 0, 0
        self._winners: dict[Lane, None] = {}
        self._distinct: dict[tuple[Lane, Lane], None] = {}  # numbers, and which rows count
        for call in calls:
            self._add(call)

    def _add(self, call: AggregateCall) -> None:
        frame = frame_of(call)
        if call.function == "lag":
            self._n_behind = max(self._n_behind, call.n_back)
        elif frame.preceding is None:
            if call.is_distinct:
                self._distinct[number_lane(call), Lane("count", (), condition_of(call))] = None
            elif call.function in ("min", "max", "min_by", "max_by", "first", "last"):
                self._winners[winner_lane(call)] = None
        elif frame.unit == "range":
            self._reach_us = max(self._reach_us, frame.preceding)
        else:
            self._n_behind = max(self._n_behind, frame.preceding)

    def is_due(self, watermark_us: int, n_rows: int) -> bool:
        """Whether going over all rings pays."""
        if self.last_us is None or n_rows <= FEW_ROWS:
            return self.last_us is None or watermark_us > self.last_us
        moved_us = watermark_us - self.last_us
        is_long_ago = 0 < self._reach_us <= moved_us
        has_more = n_rows - self._n_after >= n_rows // PARTS
        return moved_us > self._reach_us // PARTS and (has_more or is_long_ago)

    def run(
        self,
        watermark_us: int,
        rings: Rings,
        folds: Folds | None,
        epochs: Sequence[int],
        n_numbers: dict[Lane, int],
    ) -> Purged:
        """Let rows go."""
        cuts = np.zeros(len(rings.n), np.int64)
        seen = np.array(epochs, np.int64)
        purge_cuts(
            rings.at, rings.n, rings.n_pinned, rings.time, rings.ints, watermark_us - self._reach_us, watermark_us,
            self._n_behind, seen, cuts,
        )  # fmt: skip
        cut = np.flatnonzero(cuts)
        starts = rings.at[cut]
        lives = starts + rings.n_pinned[cut]
        ends = lives + cuts[cut]
        if folds is not None:
            folds.fold(rings, cut, lives, cuts[cut])
        is_pinned = np.zeros(len(rings.time), dtype=bool)
        layout = rings.layout
        for lane in self._winners:
            winner = layout.winners[layout.winner_lanes.index(lane)]
            pin_winners(starts, ends, rings.ints, seen, winner, is_pinned)
        for number, count in self._distinct:
            newest = np.full(n_numbers[number], NOTHING)
            pin_distinct(starts, ends, rings.ints, layout.ints[number], layout.ints[count], newest, is_pinned)
        places = places_of(starts, ends - starts)
        gone = rings.ints[places[~is_pinned[places]], ARRIVAL]
        rings.drop_first(cuts, is_pinned)
        self.last_us, self._n_after = watermark_us, rings.n_rows
        return Purged(gone, cut)
