"""The last sampled rows with the answers of all filters, and what they say: how often each passes, and what it costs.

Enters: profiles, batch by batch, and what filters took on the main path. Leaves: rows as arrays, selectivities, costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eddyline.statistics.decayed import DecayedCosts

WINDOW_ROWS = 1000
LEAST_SELECTIVITY = 0.001  # a thousand rows cannot tell less from never

BoolMatrix = npt.NDArray[np.bool_]


class ProfiledRows(NamedTuple):
    """Sampled rows, the oldest first."""

    dropped: BoolMatrix  # [rows, filters]
    known: BoolMatrix  # [rows, filters]; dropped is False where not known
    open: tuple[int, ...]  # classes that were open on each row, as bits


class ProfileWindow:
    """First in, first out; `costs` has what the filters took."""

    def __init__(self, n_filters: int, *, most: int = WINDOW_ROWS, costs: DecayedCosts | None = None) -> None:
        self.most = most
        self.costs = DecayedCosts(n_filters) if costs is None else costs
        self.n_seen = 0  # rows ever appended
        self._dropped = np.zeros((0, n_filters), bool)
        self._known = np.zeros((0, n_filters), bool)
        self._open: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._open)

    def append(self, dropped: BoolMatrix, known: BoolMatrix, still_open: Sequence[int]) -> None:
        """Take in the sampled rows of a batch, in order of arrival."""
        assert dropped.shape == known.shape == (len(still_open), self._dropped.shape[1]), dropped.shape
        self.n_seen += len(dropped)
        self._dropped = np.concatenate([self._dropped, dropped & known])[-self.most :]
        self._known = np.concatenate([self._known, known])[-self.most :]
        self._open = (*self._open, *still_open)[-self.most :]

    def rows(self) -> ProfiledRows:
        return ProfiledRows(self._dropped, self._known, self._open)

    def forget(self, *, but_last: int = 0) -> None:
        """Lose all rows but the last few: the data is no longer what it was."""
        first = max(0, len(self) - but_last)
        self._dropped, self._known = self._dropped[first:], self._known[first:]
        self._open = self._open[first:]

    @property
    def n_dropped(self) -> int:
        """Rows that some filter dropped."""
        return int(self._dropped.any(axis=1).sum())

    def selectivities(self) -> npt.NDArray[np.float64]:
        """The share of rows each filter passes, of those on which it is known; one half where nothing is."""
        n_known = self._known.sum(axis=0)
        n_passed = n_known - self._dropped.sum(axis=0)
        return np.clip((n_passed + 1) / (n_known + 2), LEAST_SELECTIVITY, 1 - LEAST_SELECTIVITY)

    def check(self) -> None:
        assert len(self._dropped) == len(self._known) == len(self._open) <= self.most
        assert not (self._dropped & ~self._known).any(), "a row is dropped by a filter that did not run on it"
