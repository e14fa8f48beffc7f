"""Sweep: watch one filter at a time against those before it, for one more evaluation per sampled row.

Paper: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: Sweep.

    paper            here             meaning
    j                examined         the position that this stage looks at, 1 .. n-1
    V[i, i]          own[i]           records dropped at position i, i <= j
    V[i, j]          rival[i]         records the positions before i let through and the filter at j drops
    alpha            slack            how much worse a filter may be than the examined one

Invariant after a clean rotation on unchanging data: the Greedy Invariant.

Differs from the paper: a violation at i moves the examined filter to i, the others follow in their order; whatever ended a stage,
the next one looks at the next position with counters at zero; nothing is judged before `min_fill` records, or on fewer than
`min_support` of them. Records of a batch beyond the end of a stage are left out: they were taken for a filter no longer examined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.routing.a_greedy import MIN_SUPPORT, SLACK
from eddyline.routing.in_order import InOrder, moved_order
from eddyline.routing.pipeline import Costs, ratio
from eddyline.routing.policy import BoolMatrix, FilterSet, OrderChange, Profile, Statistics

STAGE_ROWS = 500  # the paper's
MIN_FILL = 200  # 500 is the paper's slow and steady Sweep; at 50 it never settles

IntVector = npt.NDArray[np.int64]


def first_drops(dropped: BoolMatrix, order: Sequence[int]) -> tuple[IntVector, IntVector]:
    """The rows that something dropped, and the position of the order that did."""
    in_order = dropped[:, list(order)]
    rows = np.flatnonzero(in_order.any(axis=1))
    return rows, in_order[rows].argmax(axis=1)


def record_counts(
    dropped_at: IntVector, is_rival: npt.NDArray[np.bool_], position: int
) -> tuple[list[int], list[int]]:
    """What records add to `own` and `rival`: the position each was dropped at, and whether the examined filter drops it."""
    near = dropped_at <= position
    own = np.bincount(dropped_at[near], minlength=position + 1)
    at = np.bincount(dropped_at[near & is_rival], minlength=position + 1)
    rival = at[::-1].cumsum()[::-1]  # a record counts for every position up to where it was dropped
    return own.tolist(), rival.tolist()


def first_violation(
    own: Sequence[int],
    rival: Sequence[int],
    order: Sequence[int],
    cost_s: Costs,
    slack: float,
    min_support: int = 0,
) -> int | None:
    """The first position whose filter is worse there than the examined one would be."""
    examined = len(own) - 1
    for at in range(examined):
        rival_ratio = ratio(rival[at], cost_s[order[examined]])
        if rival[at] >= min_support and ratio(own[at], cost_s[order[at]]) < slack * rival_ratio:
            return at
    return None


class Sweep(InOrder):
    """Examines the positions in turn; a sampled row runs at most one filter more than it had to."""

    name = "sweep"
    samples_all = False

    def __init__(
        self,
        filters: FilterSet,
        *,
        start: Sequence[int],
        statistics: Statistics,
        stage_rows: int = STAGE_ROWS,
        slack: float = SLACK,
        min_fill: int = MIN_FILL,
        min_support: int = MIN_SUPPORT,
    ) -> None:
        super().__init__(filters, start=start, statistics=statistics)
        assert 0 < slack <= 1, slack
        self.stage_rows = stage_rows
        self.slack = slack
        self.min_fill = min(min_fill, stage_rows)
        self.min_support = min_support
        self.examined_position = 0  # position; from 1 on as soon as there are two filters
        self.own: list[int] = []
        self.rival: list[int] = []
        self.n_records = 0
        self._begin(1)

    def learn(self, profile: Profile, statistics: Statistics) -> list[OrderChange]:
        self.statistics = statistics
        if self.filters.n_filters < 2:
            return []
        rows, dropped_at = first_drops(profile.dropped_mask, self.order)
        room = self.stage_rows - self.n_records
        rows, dropped_at = rows[:room], dropped_at[:room]
        own, rival = record_counts(
            dropped_at, profile.dropped_mask[rows, self.order[self.examined_position]], self.examined_position
        )
        self.own = [a + b for a, b in zip(self.own, own, strict=True)]
        self.rival = [a + b for a, b in zip(self.rival, rival, strict=True)]
        self.n_records += len(rows)
        at = None
        if len(rows) and self.n_records >= self.min_fill:
            cost_s = statistics.cost_s.tolist()
            at = first_violation(self.own, self.rival, self.order, cost_s, self.slack, self.min_support)
        changes = [] if at is None else [self._move(at)]
        if changes or self.n_records >= self.stage_rows:
            self._begin(self.examined_position + 1)
        return changes

    def filters_to_sample(self, dropped_at: int) -> tuple[int, ...]:
        return (
            (self.order[self.examined_position],)
            if dropped_at < self.examined_position < len(self.order)
            else ()
        )

    def forget(self) -> None:
        self._begin(self.examined_position)

    def settings(self) -> dict[str, Any]:
        return {
            "stage_rows": self.stage_rows,
            "slack": self.slack,
            "min_fill": self.min_fill,
            "min_support": self.min_support,
        }

    def snapshot(self) -> dict[str, Any]:
        return {
            **super().snapshot(),
            "examined": self.examined_position,
            "records": self.n_records,
            "own": self.own,
            "rival": self.rival,
        }

    def check(self) -> None:
        super().check()
        assert len(self.own) == len(self.rival) == self.examined_position + 1, (
            self.own,
            self.rival,
            self.examined_position,
        )
        assert self.own[-1] == self.rival[-1], "what the examined filter drops at its place is its own"
        assert sum(self.own) <= self.n_records < self.stage_rows, (self.own, self.n_records)

    def _begin(self, position: int) -> None:
        self.examined_position = position if position < self.filters.n_filters else 1
        self.own = [0] * (self.examined_position + 1)
        self.rival = [0] * (self.examined_position + 1)
        self.n_records = 0

    def _move(self, at: int) -> OrderChange:
        before, self.order = self.order, moved_order(self.order, self.examined_position, at)
        entering, displaced = self.order[at], before[at]
        n_alive = self.n_records - sum(self.own[:at])  # records that got to the position
        cost_s = self.statistics.cost_s.tolist()
        return OrderChange(
            before,
            self.order,
            at,
            entering,
            displaced,
            ratio(self.rival[at] / n_alive, cost_s[entering]),
            ratio(self.own[at] / n_alive, cost_s[displaced]),
        )
