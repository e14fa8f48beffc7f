"""Slices: the stretches between the edges of all windows of a class, so that a row goes into one partial result however many
windows hold it.

Source: general stream slicing, in which all queries share slices and windows are combined from them. A window (size, slide,
offset) has edges at offset + k * slide and at offset + size + k * slide. A slice begins at the last edge of any window; as no
edge lies inside it, its start says which windows hold it. Windows that come later have edges of their own from their epoch on
and read no older slices, so none is ever divided.

Here slices are numbered entries, listed by key in order of time, and in one order of time for what closes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from eddyline.aggregates.key_table import grown
from eddyline.aggregates.rows import Ints, Mask
from eddyline.kernels import NOTHING, link_slices, slices_within, unlink_slices
from eddyline.model import TimeWindow

NEVER = 1 << 62  # later than every time, as NO_TIME is earlier


def slice_starts(time_us: Ints, edges: Iterable[tuple[int, int]]) -> Ints:
    """Where the slice of each row begins, given the slides and offsets that edges lie at."""
    return np.max([time_us - (time_us - offset) % slide for slide, offset in edges], axis=0)


def last_starts(time_us: Ints, window: TimeWindow) -> Ints:
    """The start of the last window that holds each time."""
    return time_us - (time_us - window.offset_us) % window.slide_us


def windows_of(time_us: Ints, window: TimeWindow) -> tuple[Ints, Ints]:
    """All windows that hold these times: which time, and the start of the window."""
    last = last_starts(time_us, window)
    n_of_each = (window.size_us - (time_us - last) - 1) // window.slide_us + 1
    which = np.repeat(np.arange(len(time_us)), n_of_each)
    back = np.arange(len(which)) - np.repeat(np.cumsum(n_of_each) - n_of_each, n_of_each)
    return which, last[which] - back * window.slide_us


class SliceOrder:
    """Slices by key and by time.

    Invariants: the list of a key has its slices by start and epoch; the run has all slices of committed rounds by start.
    """

    def __init__(self) -> None:
        self.key, self.start, self.epoch, self._older, self._newer = (np.empty(0, np.int64) for _ in range(5))
        self._newest: Ints = np.empty(0, np.int64)  # by key
        self._n_keys = 0
        self._run: Ints = np.empty(0, np.int64)  # slices by start
        self._run_starts: Ints = np.empty(0, np.int64)
        self._unsorted: list[Ints] = []  # slices that are not in the run yet
        self._first_unsorted = NEVER  # where the first of them begins

    # ------------------------------------------------------------------------------------------- by key

    def link(self, slices: Ints, keys: Ints, starts: Ints, epochs: Ints) -> None:
        """List new slices by key. They are in the order of time once `settle` says so."""
        if not len(slices):
            return
        self._reach(int(slices.max()) + 1, int(keys.max()) + 1)
        self.key[slices], self.start[slices], self.epoch[slices] = keys, starts, epochs
        order = np.lexsort((epochs, starts))
        link_slices(slices[order], self.key, self.start, self.epoch, self._newest, self._older, self._newer)

    def _reach(self, n_slices: int, n_keys: int) -> None:
        if n_slices > len(self.key):
            columns = (self.key, self.start, self.epoch, self._older, self._newer)
            self.key, self.start, self.epoch, self._older, self._newer = (grown(c, n_slices) for c in columns)
        if n_keys > self._n_keys:
            self._newest = grown(self._newest, n_keys)
            self._newest[self._n_keys :] = NOTHING
            self._n_keys = len(self._newest)

    def unlink(self, slices: Ints) -> None:
        """Take slices out of the lists of keys."""
        unlink_slices(slices, self.key, self._newest, self._older, self._newer)

    def within(self, anchors: Ints, low_us: Ints, high_us: Ints, epoch: int) -> tuple[Ints, Ints]:
        """The slices of windows from `low` to below `high`, in order of time: which window, and the slice.

        A window is that of a key; its anchor is any slice in it. Slices of epochs before this one are left out.
        """
        room = 2 * len(anchors)
        while True:
            windows, found = np.empty(room, np.int64), np.empty(room, np.int64)
            lists = self.start, self.epoch, self._older, self._newer
            n = slices_within(anchors, low_us, high_us, epoch, *lists, windows, found)
            if n <= room:
                return windows[:n], found[:n]
            room = n

    # ------------------------------------------------------------------------------------------- by time

    def settle(self, slices: Ints) -> None:
        """These slices are committed."""
        if len(slices):
            self._unsorted.append(slices)
            self._first_unsorted = min(self._first_unsorted, int(self.start[slices].min()))

    def begins_before(self, time_us: int) -> bool:
        """Whether a committed slice begins before a time. It does not put slices in order."""
        return self._first_unsorted < time_us or bool((self._run_starts[:1] < time_us).any())

    def between(self, low_us: int, high_us: int) -> Ints:
        """Committed slices that begin from `low` to below `high`, by start."""
        self._sort()
        first, end = np.searchsorted(self._run_starts, [low_us, high_us])
        return self._run[first:end]

    def forget(self, is_gone: Mask) -> None:
        """Take slices, given by a mask, out of the order of time."""
        self._sort()
        self._set_run(self._run[~is_gone[self._run]])

    def _sort(self) -> None:
        if self._unsorted:
            slices, self._unsorted = np.concatenate([self._run, *self._unsorted]), []
            self._first_unsorted = NEVER
            self._set_run(slices[np.argsort(self.start[slices], kind="stable")])

    def _set_run(self, slices: Ints) -> None:
        self._run, self._run_starts = slices, self.start[slices]

    @property
    def nbytes(self) -> int:
        return 5 * self.key.nbytes + self._newest.nbytes + 2 * self._run.nbytes

    def check(self, slices: Ints) -> None:
        """Assert the invariants: these are all there are."""
        self._sort()
        assert sorted(self._run) == sorted(slices), "the order of time has other slices"
        assert (np.diff(self.start[self._run]) >= 0).all(), "the order of time is none"
        n_listed = 0
        for key in range(self._n_keys):
            at, places = int(self._newest[key]), []
            while at != NOTHING:
                assert self.key[at] == key, f"slice {at} is in the list of key {key}"
                places.append((self.start[at], self.epoch[at]))
                at = int(self._older[at])
            assert places == sorted(set(places), reverse=True), f"the list of key {key} is not in order"
            n_listed += len(places)
        assert n_listed == len(slices), f"{n_listed} slices are listed, not {len(slices)}"
