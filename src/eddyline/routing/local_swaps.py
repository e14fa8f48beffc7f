"""LocalSwaps: compare each filter with its neighbour only, and swap the two.

Paper: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: LocalSwaps.

    paper            here             meaning
    V[i, i]          own[i]           records dropped at position i
    V[i, i+1]        neighbour[i]     records the positions before i let through and the filter at i + 1 drops
    alpha            slack            how much worse a filter may be than the next one

May end where no neighbouring pair is wrong and the order still costs n/2 times greed's.

Differs from the paper: a swap at i makes rows i-1, i and i+1 begin anew, since they count pairs that no longer exist. A record
counts for a row if it was taken after that row last began. A row is judged once it holds `min_support` records; one swap at most
per batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.routing.a_greedy import SLACK, WINDOW_ROWS
from eddyline.routing.in_order import InOrder, swapped_order
from eddyline.routing.pipeline import Costs, ratio
from eddyline.routing.policy import FilterSet, OrderChange, Profile, Statistics
from eddyline.routing.sweep import IntVector, first_drops

MIN_SUPPORT = 50  # of a row: two neighbours

BoolVector = npt.NDArray[np.bool_]


def record_counts(
    dropped_at: IntVector, is_next: BoolVector, epochs: IntVector, began: IntVector
) -> tuple[list[int], list[int]]:
    """`own` and `neighbour` of records: where each was dropped, whether the next filter drops it too, the epoch it was taken in.

    `began` has the epoch in which each position last began anew.
    """
    n = len(began)
    is_fresh = epochs >= began[dropped_at]
    own = np.bincount(dropped_at[is_fresh], minlength=n)
    neighbour = np.bincount(dropped_at[is_fresh & is_next & (dropped_at < n - 1)], minlength=n)
    before = np.maximum(dropped_at - 1, 0)  # it passed that position and the next one dropped it
    is_counted = (dropped_at > 0) & (epochs >= began[before])
    neighbour = neighbour + np.bincount(before[is_counted], minlength=n)
    return own.tolist(), neighbour[: n - 1].tolist()


def first_violation(
    own: Sequence[int],
    neighbour: Sequence[int],
    order: Sequence[int],
    cost_s: Costs,
    slack: float,
    min_support: int = 0,
) -> int | None:
    """The first position whose filter is worse there than the next one would be."""
    for at, other in enumerate(neighbour):
        if own[at] + other >= min_support:
            other_ratio = ratio(other, cost_s[order[at + 1]])
            if ratio(own[at], cost_s[order[at]]) < slack * other_ratio:
                return at
    return None


class LocalSwaps(InOrder):
    """Swaps neighbours; a sampled row runs one filter more than it had to."""

    name = "local_swaps"
    samples_all = False

    def __init__(
        self,
        filters: FilterSet,
        *,
        start: Sequence[int],
        statistics: Statistics,
        window_rows: int = WINDOW_ROWS,
        slack: float = SLACK,
        min_support: int = MIN_SUPPORT,
    ) -> None:
        super().__init__(filters, start=start, statistics=statistics)
        assert 0 < slack <= 1, slack
        self.window_rows = window_rows
        self.slack = slack
        self.min_support = min_support
        self.epoch = 0  # swaps so far
        self._dropped_at: IntVector = np.empty(0, np.int64)
        self._is_next: BoolVector = np.empty(0, np.bool_)
        self._epochs: IntVector = np.empty(0, np.int64)  # epoch
        self._began: IntVector = np.zeros(filters.n_filters, np.int64)

    def learn(self, profile: Profile, statistics: Statistics) -> list[OrderChange]:
        self.statistics = statistics
        if self.filters.n_filters < 2:
            return []
        rows, dropped_at = first_drops(profile.dropped_mask, self.order)
        if len(rows):
            following = np.array([*self.order[1:], self.order[-1]])[dropped_at]
            is_next = profile.dropped_mask[rows, following] & (dropped_at < len(self.order) - 1)
            epochs = np.full(len(rows), self.epoch)
            self._dropped_at = np.concatenate([self._dropped_at, dropped_at])[-self.window_rows :]
            self._is_next = np.concatenate([self._is_next, is_next])[-self.window_rows :]
            self._epochs = np.concatenate([self._epochs, epochs])[-self.window_rows :]
        own, neighbour = self._record_counts()
        at = first_violation(
            own, neighbour, self.order, statistics.cost_s.tolist(), self.slack, self.min_support
        )
        return [] if at is None else [self._swap(at, own[at], neighbour[at])]

    def filters_to_sample(self, dropped_at: int) -> tuple[int, ...]:
        return self.order[dropped_at + 1 : dropped_at + 2]

    def forget(self) -> None:
        self._dropped_at, self._is_next, self._epochs = (
            self._dropped_at[:0],
            self._is_next[:0],
            self._epochs[:0],
        )

    def settings(self) -> dict[str, Any]:
        return {"window_rows": self.window_rows, "slack": self.slack, "min_support": self.min_support}

    def snapshot(self) -> dict[str, Any]:
        own, neighbour = self._record_counts()
        return {**super().snapshot(), "records": len(self._epochs), "own": own, "neighbour": neighbour}

    def check(self) -> None:
        super().check()
        n_records = len(self._epochs)
        assert len(self._dropped_at) == len(self._is_next) == n_records <= self.window_rows
        assert (np.diff(self._epochs) >= 0).all()
        assert (self._epochs <= self.epoch).all()
        assert (self._began <= self.epoch).all()

    def _record_counts(self) -> tuple[list[int], list[int]]:
        return record_counts(self._dropped_at, self._is_next, self._epochs, self._began)

    def _swap(self, at: int, own: int, neighbour: int) -> OrderChange:
        before, self.order = self.order, swapped_order(self.order, at, at + 1)
        n_alive = int(((self._dropped_at >= at) & (self._epochs >= self._began[at])).sum())
        self.epoch += 1
        self._began[max(0, at - 1) : at + 2] = self.epoch
        entering, displaced = self.order[at], before[at]
        cost_s = self.statistics.cost_s.tolist()
        return OrderChange(
            before,
            self.order,
            at,
            entering,
            displaced,
            ratio(neighbour / n_alive, cost_s[entering]),
            ratio(own / n_alive, cost_s[displaced]),
        )
