"""The last sampled rows with the answers of all filters, and what they say: how often each passes.

Enters: profiles, batch by batch. Leaves: rows as arrays, selectivities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

WINDOW_ROWS = 1000
LEAST_SELECTIVITY = 0.001  # a thousand rows cannot tell less from never

BoolMatrix = npt.NDArray[np.bool_]


class ProfiledRows(NamedTuple):
    """Sampled rows, the oldest first."""

    dropped_mask: BoolMatrix  # [rows, filters]
    known_mask: BoolMatrix  # [rows, filters]; dropped is False where not known
    open_classes: tuple[int, ...]  # classes that were open on each row, as bits


class ProfileWindow:
    """First in, first out."""

    def __init__(self, n_filters: int, *, most: int = WINDOW_ROWS) -> None:
        self.most = most
        self.n_appended = 0  # rows ever appended
        self._dropped_mask = np.zeros((0, n_filters), bool)
        self._known_mask = np.zeros((0, n_filters), bool)
        self._open_classes: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._open_classes)

    def append(self, dropped: BoolMatrix, known: BoolMatrix, still_open: Sequence[int]) -> None:
        """Take in the sampled rows of a batch, in order of arrival."""
        assert dropped.shape == known.shape == (len(still_open), self._dropped_mask.shape[1]), dropped.shape
        self.n_appended += len(dropped)
        self._dropped_mask = np.concatenate([self._dropped_mask, dropped & known])[-self.most :]
        self._known_mask = np.concatenate([self._known_mask, known])[-self.most :]
        self._open_classes = (*self._open_classes, *still_open)[-self.most :]

    def rows(self) -> ProfiledRows:
        return ProfiledRows(self._dropped_mask, self._known_mask, self._open_classes)

    def forget(self, *, but_last: int = 0) -> None:
        """Lose all rows but the last few: the data is no longer what it was."""
        first = max(0, len(self) - but_last)
        self._dropped_mask, self._known_mask = self._dropped_mask[first:], self._known_mask[first:]
        self._open_classes = self._open_classes[first:]

    @property
    def n_dropped(self) -> int:
        """Rows that some filter dropped."""
        return int(self._dropped_mask.any(axis=1).sum())

    def selectivities(self) -> npt.NDArray[np.float64]:
        """The share of rows each filter passes, of those on which it is known; one half where nothing is."""
        n_known = self._known_mask.sum(axis=0)
        n_passed = n_known - self._dropped_mask.sum(axis=0)
        return np.clip((n_passed + 1) / (n_known + 2), LEAST_SELECTIVITY, 1 - LEAST_SELECTIVITY)

    def check(self) -> None:
        assert len(self._dropped_mask) == len(self._known_mask) == len(self._open_classes) <= self.most
        assert not (self._dropped_mask & ~self._known_mask).any(), (
            "a row is dropped by a filter that did not run on it"
        )
