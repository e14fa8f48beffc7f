"""Runs of places in growing arrays, with lengths that are powers of two. What is given back is used again.

A run that was taken in a round which is rolled back is free again.
"""

from __future__ import annotations

import numpy as np

from eddyline.aggregates.rows import Ints

_NONE = np.empty(0, np.int64)


class Rooms:
    """Which places are in use. Place 0 never is."""

    def __init__(self) -> None:
        self.end = 1  # behind the last place that was ever in use
        self._committed_end = 1
        self._free: dict[int, Ints] = {}  # first places of free runs, by the exponent of their length
        self._n_taken: dict[int, int] = {}  # of these, from their end, since the last commit

    def take(self, exponents: Ints) -> Ints:
        """The first places of runs of these lengths."""
        begins = np.empty(len(exponents), np.int64)
        for exponent in np.unique(exponents).tolist():
            which = np.flatnonzero(exponents == exponent)
            free, n_taken = self._free.get(exponent, _NONE), self._n_taken.get(exponent, 0)
            n = min(len(which), len(free) - n_taken)
            behind = len(free) - n_taken
            begins[which[:n]] = free[behind - n : behind]
            self._n_taken[exponent] = n_taken + n
            begins[which[n:]] = self.end + (np.arange(len(which) - n) << exponent)
            self.end += (len(which) - n) << exponent
        return begins

    def give_back(self, begins: Ints, exponents: Ints) -> None:
        """Runs that are not in use any more, after a commit."""
        for exponent in np.unique(exponents).tolist():
            runs = begins[exponents == exponent]
            self._free[exponent] = np.concatenate([self._free.get(exponent, _NONE), runs])

    def commit(self) -> None:
        for exponent, n in self._n_taken.items():
            free = self._free.get(exponent, _NONE)
            self._free[exponent] = free[: len(free) - n]
        self._n_taken, self._committed_end = {}, self.end

    def rollback(self) -> None:
        self._n_taken, self.end = {}, self._committed_end

    def free_runs(self) -> tuple[Ints, Ints]:
        """First places of free runs, and where they end."""
        runs = [(begins, begins + (1 << exponent)) for exponent, begins in self._free.items()]
        return np.concatenate([_NONE, *(b for b, _ in runs)]), np.concatenate([_NONE, *(e for _, e in runs)])
