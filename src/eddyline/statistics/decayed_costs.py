"""What a filter costs per row, by what its last calls took; older ones count less and less.

A call has a price of its own, so a short one says little about a row. Calls of `LONG_ROWS` or more are taken as they are. A
filter that has had only shorter ones lately is judged by how their time grows with their rows: elapsed = u + v * rows, and v is
the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEAST_COST_S = 1e-9  # measured times are not below: a cost of zero would make every drop infinitely good
LONG_ROWS = 256
LATEST = 0.1  # how much a call counts against all before it
STALE = 0.1  # of all weight: long calls that count less are too old to stand for the short ones since
SPREAD = 0.25  # of the mean: rows must differ by so much for a line through them to mean something
UNKNOWN_S = 1e-6  # of a filter that has not run


@dataclass(slots=True)
class _Calls:
    """Decayed sums over the calls of one filter."""

    weight: float = 0.0
    rows: float = 0.0
    seconds: float = 0.0
    rows_rows: float = 0.0
    rows_seconds: float = 0.0

    def add(self, n_rows: int, elapsed_s: float) -> None:
        self.weight += 1
        self.rows += n_rows
        self.seconds += elapsed_s
        self.rows_rows += n_rows * n_rows
        self.rows_seconds += n_rows * elapsed_s

    def fade(self, share: float) -> None:
        self.weight *= share
        self.rows *= share
        self.seconds *= share
        self.rows_rows *= share
        self.rows_seconds *= share

    @property
    def per_row(self) -> float:
        return self.seconds / self.rows

    @property
    def slope(self) -> float | None:
        """Seconds that one more row takes; None if the calls were too alike to tell."""
        mean_rows = self.rows / self.weight
        variance = self.rows_rows / self.weight - mean_rows**2
        if variance < (SPREAD * mean_rows) ** 2:
            return None
        covariance = self.rows_seconds / self.weight - mean_rows * self.seconds / self.weight
        return covariance / variance if covariance > 0 else None


class DecayedCosts:
    """Mean seconds per row of each filter."""

    def __init__(self, n_filters: int, *, unknown_s: float | Sequence[float] = UNKNOWN_S) -> None:
        """`unknown_s` is what a filter costs that has not run: the same for all, or one for each."""
        self._long = [_Calls() for _ in range(n_filters)]
        self._short = [_Calls() for _ in range(n_filters)]
        self._unknown_s = [unknown_s] * n_filters if isinstance(unknown_s, float) else list(unknown_s)
        assert len(self._unknown_s) == n_filters, (unknown_s, n_filters)

    def widened(self, unknown_s: Sequence[float]) -> DecayedCosts:
        """The same of these filters, and more behind them that have not run."""
        wider = DecayedCosts(len(unknown_s), unknown_s=unknown_s)
        wider._long[: len(self._long)] = self._long
        wider._short[: len(self._short)] = self._short
        return wider

    def narrowed(self, share: Sequence[int]) -> DecayedCosts:
        """The same of some of these filters."""
        narrower = DecayedCosts(len(share), unknown_s=[self._unknown_s[k] for k in share])
        narrower._long = [self._long[k] for k in share]
        narrower._short = [self._short[k] for k in share]
        return narrower

    def add(self, k: int, n_rows: int, elapsed_s: float) -> None:
        """Filter `k` took so long on so many rows of the main path."""
        if n_rows <= 0:
            return
        for calls in (self._long[k], self._short[k]):
            calls.fade(1 - LATEST)
        (self._long if n_rows >= LONG_ROWS else self._short)[k].add(n_rows, elapsed_s)

    def restart(self, k: int) -> None:
        """What the filter took before says nothing about now."""
        self._long[k], self._short[k] = _Calls(), _Calls()

    @property
    def cost_s(self) -> npt.NDArray[np.float64]:
        return np.array([max(LEAST_COST_S, self._of(k)) for k in range(len(self._long))])

    def _of(self, k: int) -> float:
        long, short = self._long[k], self._short[k]
        if long.weight + short.weight == 0:
            return self._unknown_s[k]
        if long.weight > STALE * short.weight:
            return long.per_row
        slope = short.slope
        return short.per_row if slope is None else slope
