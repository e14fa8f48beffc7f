"""Entries in the order of the rounds that last brought them rows: a log whose lines a later round makes void.

A round appends a line for each entry it touches; the last line of an entry counts. Void lines are thrown out when they are more
than the others, so that the log is as long as there are entries.

Invariant: the times of lines do not fall, and an entry has one line that counts, or none if it was asked for and not removed.
"""

from __future__ import annotations

import numpy as np

from eddyline.aggregates.key_table import grown
from eddyline.aggregates.rows import Ints

LEAST_LINES = 1_024


class SeenTimes:
    """When entries were last seen."""

    def __init__(self) -> None:
        self._times: Ints = np.empty(LEAST_LINES, np.int64)
        self._entries: Ints = np.empty(LEAST_LINES, np.int64)
        self._begin = self._end = 0
        self._line: Ints = np.empty(0, np.int64)  # by entry, from 1 on: its line; 0: it has none
        self._seen: Ints = np.empty(0, np.int64)  # by entry
        self._n = 0  # lines that count

    def seen(self, entries: Ints) -> Ints:
        """When each of these was last seen; 0 if it never was."""
        self._reach(entries)
        return self._seen[entries]

    def due(self, limit_us: int) -> Ints:
        """Entries that count and were last seen then or before."""
        end = self._begin + int(np.searchsorted(self._times[self._begin : self._end], limit_us, side="right"))
        lines = np.arange(self._begin, end)
        entries = self._entries[lines]
        return entries[self._line[entries] == lines + 1]

    def see(self, entries: Ints, times_us: Ints) -> None:
        """These entries, each once, had rows at these times, which ascend and are not before the last one."""
        n = len(entries)
        if not n:
            return
        self._make_room(n)
        lines = np.arange(self._end, self._end + n)
        self._times[lines], self._entries[lines] = times_us, entries
        self._reach(entries)
        self._n += int((self._line[entries] == 0).sum())
        self._line[entries], self._seen[entries] = lines + 1, times_us
        self._end += n
        self._skip_void()

    def retire(self, entries: Ints) -> None:
        """Ask for these no more."""
        self._reach(entries)
        self._n -= int((self._line[entries] > 0).sum())
        self._line[entries] = 0
        self._skip_void()

    def first_us(self) -> int | None:
        """When the entry that waits longest was seen."""
        return int(self._times[self._begin]) if self._n else None

    def _reach(self, entries: Ints) -> None:
        top = int(entries.max(initial=-1)) + 1
        self._line, self._seen = grown(self._line, top), grown(self._seen, top)

    def _skip_void(self) -> None:
        """Let the log begin with a line that counts."""
        n = LEAST_LINES
        while self._begin < self._end:
            lines = np.arange(self._begin, min(self._end, self._begin + n))
            counts = self._line[self._entries[lines]] == lines + 1
            if counts.any():
                self._begin += int(np.argmax(counts))
                return
            self._begin, n = self._begin + len(lines), 2 * n

    def _make_room(self, n: int) -> None:
        """Room for so many lines: void ones go if they are most, else the log grows."""
        if self._end + n <= len(self._times):
            return
        lines = np.arange(self._begin, self._end)
        lines = lines[self._line[self._entries[lines]] == lines + 1]
        size = max(LEAST_LINES, 2 * (len(lines) + n))
        times, entries = np.empty(size, np.int64), np.empty(size, np.int64)
        times[: len(lines)], entries[: len(lines)] = self._times[lines], self._entries[lines]
        self._line[self._entries[lines]] = np.arange(1, len(lines) + 1)
        self._times, self._entries = times, entries
        self._begin, self._end = 0, len(lines)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self._times, self._entries, self._line, self._seen))

    def check(self) -> None:
        """Assert the invariant."""
        lines = np.arange(self._begin, self._end)
        assert (np.diff(self._times[lines]) >= 0).all(), "times of rounds fall"
        counts = self._line[self._entries[lines]] == lines + 1
        assert counts.sum() == self._n == (self._line > 0).sum(), f"{counts.sum()} lines count, not {self._n}"
        assert not len(lines) or counts[0], "the first line is void"
