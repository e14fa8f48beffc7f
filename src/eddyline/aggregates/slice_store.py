"""The slices of a class with their partial results, and windows combined from them.

The slices of a window are found from one of them, in the list of their key, and combined. Where windows have many slices, two
stacks go over all of them instead (closing.py): windows that touch are not combined anew each.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from eddyline.aggregates.call_states import CallStates
from eddyline.aggregates.changes import WindowPlaces
from eddyline.aggregates.closing import ClosingWindows, KeySlices
from eddyline.aggregates.entries import Entries
from eddyline.aggregates.rows import ClassRows, Ints
from eddyline.aggregates.slices import SliceOrder, windows_of
from eddyline.model import TimeWindow

FEW_SLICES = 16  # of a window: so many are combined for each window; above, two stacks serve all windows
_NONE: Ints = np.empty(0, np.int64)


class SliceStore:
    """Slices, those that the running round makes included."""

    def __init__(self, keys: pa.Schema, *, is_signed: bool) -> None:
        self.entries = Entries(keys, is_signed=is_signed)
        self.order = SliceOrder()
        self.new = _NONE  # slices that the running round makes
        # so far: slices that rows went into, and partial results that were merged
        self.n_updates = self.n_combines = 0

    # ------------------------------------------------------------------------------------------- rounds

    def feed(self, rows: ClassRows, starts: Ints, epochs: Ints) -> None:
        """Row k goes into the slice of its key that begins at starts[k]. Once in a round."""
        keys = self.entries.keys.number(rows.columns)
        slices = self.entries.number(keys, starts, epochs)
        self.entries.add(slices, rows)
        self.n_updates += len(slices)
        touched = self.entries.touched
        self.new = touched[~self.entries.is_committed(touched)]
        self.order.link(self.new, *self.entries.identity(self.new))

    def commit(self) -> None:
        """Keep what the round did."""
        gone = self.entries.gone
        self.order.unlink(gone)
        self.order.settle(np.setdiff1d(self.new, gone))
        if len(gone):
            is_gone = np.zeros(self.entries.states.n, dtype=bool)
            is_gone[gone] = True
            self.order.forget(is_gone)
        self.entries.commit()
        self.new = _NONE

    def rollback(self) -> None:
        """Forget it."""
        self.order.unlink(self.new)
        self.entries.rollback()
        self.new = _NONE

    def list_anew(self) -> None:
        """List all slices after they were changed between rounds."""
        self.order, live = SliceOrder(), self.entries.live
        self.order.link(live, *self.entries.identity(live))
        self.order.settle(live)

    # ------------------------------------------------------------------------------------------- slices by time

    def between(self, low_us: int, high_us: int, epoch: int) -> Ints:
        """Slices that begin from `low` to below `high` and that the queries of an epoch see."""
        start = self.order.start[self.new]
        new = self.new[(start >= low_us) & (start < high_us)]
        slices = np.append(self.order.between(low_us, high_us), new)
        return slices[self.order.epoch[slices] >= epoch]

    def by_key(self, slices: Ints, *, is_after: bool) -> KeySlices:
        """These slices in order of key, start and epoch, with their partial results."""
        order = self.order
        slices = slices[np.lexsort((order.epoch[slices], order.start[slices], order.key[slices]))]
        states = self.entries.gathered(slices, is_after=is_after)
        return KeySlices(order.key[slices], order.start[slices], states)

    # ------------------------------------------------------------------------------------------- windows

    def windows_at(self, slices: Ints, window: TimeWindow) -> tuple[Ints, WindowPlaces]:
        """The windows that hold these slices, each once by start and key, and a slice in each."""
        which, starts = windows_of(self.order.start[slices], window)
        slices = slices[which]
        keys = self.order.key[slices]
        order = np.lexsort((keys, starts))
        keys, starts, slices = keys[order], starts[order], slices[order]
        is_first = np.append(True, (keys[1:] != keys[:-1]) | (starts[1:] != starts[:-1]))[: len(keys)]
        starts = starts[is_first]
        return slices[is_first], WindowPlaces(keys[is_first], starts, starts + window.size_us)

    def combined(
        self, anchors: Ints, at: WindowPlaces, epoch: int, window: TimeWindow, times: Iterable[bool]
    ) -> list[CallStates]:
        """The partial results of windows, given a slice in each, before the round or with it: for each of the times."""
        windows, slices = self.order.within(anchors, at.start_us, at.end_us, epoch)
        slices, which = np.unique(slices, return_inverse=True)
        if len(which) > FEW_SLICES * len(at):
            return [self._stacked(self.by_key(slices, is_after=t), at, window) for t in times]
        found = []
        for is_after in times:
            states = self.entries.gathered(slices, is_after=is_after)
            combined = states.like(len(at))
            combined.merge(windows, states, which)
            self.n_combines += len(which) - len(at)
            found.append(combined)
        return found

    def _stacked(self, slices: KeySlices, at: WindowPlaces, window: TimeWindow) -> CallStates:
        """The same by two stacks, window after window. All slices of these windows are given."""
        combined, stacks = slices.states.like(len(at)), ClosingWindows(window, slices.states)
        for end_us in np.unique(at.end_us).tolist():
            closed = stacks.close(end_us, slices.between)
            mine = np.flatnonzero(at.end_us == end_us)
            combined.copy(mine, closed.states, np.searchsorted(closed.key, at.key[mine]))
        self.n_combines += stacks.n_combines
        return combined

    # ------------------------------------------------------------------------------------------- for explain and tests

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes + self.order.nbytes

    def check(self) -> None:
        """Assert the invariants, between rounds."""
        self.entries.check()
        live = self.entries.live
        self.order.check(live)
        listed = self.order.key[live], self.order.start[live], self.order.epoch[live]
        for one, other in zip(self.entries.identity(live), listed, strict=True):
            assert (one == other).all(), "a slice is listed as another"
        assert (self.entries.states.n_rows(live) > 0).all(), "a slice without rows"
