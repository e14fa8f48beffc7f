"""Windows of one size and slide that close in order, each combined from few partial results.

Source: a queue made of two stacks. What comes in is added to one running result; what stands before has a result for each
place from which on it may be asked for. Here both belong to blocks of time that all keys share, so that the work is done for
all keys at once: a block is the fewest slides that are as long as a window, and begins where a window does.

    |------ block ------|------ block ------|      suffixes of the block before, one for each slice
             [------ window ------)                prefix of the block that the window ends in
             ^ suffix   |  prefix ^

A slice is combined once into the prefix and once into a suffix, and a window is a suffix and a prefix: 3 combinations per slice
at most. Slices are closed when they come here; nothing is stored, as all of it can be made again from slices that are there.

Invariant: the prefix has the slices from the beginning of its block to `upto`, the suffixes those of the block before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eddyline.aggregates.call_states import CallStates
from eddyline.aggregates.key_table import merged
from eddyline.aggregates.rows import Ints
from eddyline.model import TimeWindow


@dataclass(frozen=True, slots=True)
class KeySlices:
    """Slices in order of key, start and epoch, with their partial results."""

    key: Ints
    start_us: Ints
    states: CallStates

    def __len__(self) -> int:
        return len(self.key)

    def between(self, low_us: int, high_us: int) -> KeySlices:
        """Those that begin from `low` to below `high`."""
        there = np.flatnonzero((self.start_us >= low_us) & (self.start_us < high_us))
        states = self.states.like(len(there))
        states.copy(np.arange(len(there)), self.states, there)
        return KeySlices(self.key[there], self.start_us[there], states)


Fetch = Callable[[int, int], KeySlices]  # the slices that begin from one time to below another


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """A window that closes: the keys that have rows in it, and its partial results."""

    end_us: int
    key: Ints
    states: CallStates


class ClosingWindows:
    """The windows of one specification, as the queries of one epoch see them."""

    def __init__(self, window: TimeWindow, empty: CallStates) -> None:
        self.window = window
        self.n_combines = self.nbytes = 0  # so far; as of the last window
        self._block_us = -(-window.size_us // window.slide_us) * window.slide_us
        self._empty = empty
        self._flip(KeySlices(np.empty(0, np.int64), np.empty(0, np.int64), empty.like(0)), None)

    def close(self, end_us: int, fetch: Fetch) -> ClosedWindow:
        """The window that ends there, later than the one before. Slices before its end are closed."""
        start_us, offset_us = end_us - self.window.size_us, self.window.offset_us
        block_start = offset_us + (end_us - 1 - offset_us) // self._block_us * self._block_us
        if block_start != self._block_start:
            self._flip(fetch(start_us, block_start), block_start)
        self._extend_prefix(fetch(self._upto_us, end_us), end_us)
        self.nbytes = self._prefix.nbytes + self._suffixes.nbytes
        return self._combined(start_us, end_us)

    # ------------------------------------------------------------------------------------------- the block before

    def _flip(self, slices: KeySlices, block_start: int | None) -> None:
        """Begin a block: suffixes of these slices, and an empty prefix."""
        self._block_start = block_start
        self._upto_us = block_start if block_start is not None else 0
        n = len(slices)
        is_last = np.append(slices.key[1:] != slices.key[:-1], True)[:n]
        self._ends = np.flatnonzero(is_last) + 1  # by key of the block before: behind its last slice
        self._at = np.append(0, self._ends[:-1])[
            : len(self._ends)
        ]  # and the first that a window may still hold
        self._suffix_key = slices.key[self._ends - 1]
        self._suffix_start = slices.start_us
        self._suffixes = self._suffixes_of(slices)
        self._prefix_key: Ints = np.empty(0, np.int64)  # ascending
        self._prefix_place: Ints = np.empty(0, np.int64)
        self._prefix = self._empty.like(0)

    def _suffixes_of(self, slices: KeySlices) -> CallStates:
        """For each slice the slices of its key from it on, combined: the last of all keys first, then those before."""
        suffixes = self._empty.like(len(slices))
        lengths = self._ends - self._at
        newer, was_long = self._empty.like(0), np.zeros(0, dtype=bool)
        for rank in range(1, int(lengths.max(initial=0)) + 1):
            is_long = lengths >= rank
            places = (self._ends - rank)[is_long]
            states = self._empty.like(len(places))
            states.copy(np.arange(len(places)), slices.states, places)
            if rank > 1:
                states.merge(np.arange(len(places)), newer, np.flatnonzero(is_long[was_long]))
                self.n_combines += len(places)
            suffixes.copy(places, states, np.arange(len(places)))
            newer, was_long = states, is_long
        return suffixes

    # ------------------------------------------------------------------------------------------- the block of the end

    def _extend_prefix(self, slices: KeySlices, upto_us: int) -> None:
        self._upto_us = upto_us
        all_keys = merged(self._prefix_key, slices.key)
        new = all_keys[~np.isin(all_keys, self._prefix_key, assume_unique=True, kind="sort")]
        if len(new):
            places = np.arange(self._prefix.n, self._prefix.n + len(new))
            self._prefix.resize(self._prefix.n + len(new))
            at = np.searchsorted(self._prefix_key, new)
            self._prefix_key = all_keys
            self._prefix_place = np.insert(self._prefix_place, at, places)
        into = self._prefix_place[np.searchsorted(self._prefix_key, slices.key)]
        self._prefix.merge(into, slices.states, np.arange(len(slices)))
        self.n_combines += len(slices) - len(new)

    # ------------------------------------------------------------------------------------------- both

    def _combined(self, start_us: int, end_us: int) -> ClosedWindow:
        while True:
            inside = np.flatnonzero(self._at < self._ends)
            behind = inside[self._suffix_start[self._at[inside]] < start_us]
            if not len(behind):
                break
            self._at[behind] += 1
        older = self._suffix_key[inside]
        keys = merged(older, self._prefix_key)
        states = self._empty.like(len(keys))
        states.copy(np.searchsorted(keys, older), self._suffixes, self._at[inside])
        states.merge(np.searchsorted(keys, self._prefix_key), self._prefix, self._prefix_place)
        self.n_combines += len(older) + len(self._prefix_key) - len(keys)
        return ClosedWindow(end_us, keys, states)
