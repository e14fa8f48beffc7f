"""A-Greedy: keep the order greed would pick on a sample of what was dropped lately.

Paper: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: A-Greedy, its
profiler and reoptimizer, the matrix view and its correction.

    paper            here                     meaning
    profile window   DroppedRows.columns      which filters drop each sampled row that was dropped
    W                window_rows              rows the window holds
    f                order                    the filter at each position
    V[i, j]          drops_from(i)[j - i]     rows dropped by the filter at j, of those the positions before i let through
    a_k              cost_s[k]                mean seconds of filter k on one row
    alpha            slack                    how much worse a filter may be than a later one before it is a violation

Invariant, on the window: no position i has a later j with V[i,i] / a < slack * V[i,j] / a, unless too few rows say so.

Differs from the paper: the window is judged once per batch and V made anew, which costs less than keeping it while more than
a row in n of the window is new. Corrections are repeated until no position is violated, since one correction may leave another
violation behind. Row i of V is not scanned again. Nothing is judged on fewer than `min_fill` rows, or on a violation that fewer
than `min_support` rows show: both would shuffle filters on chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from eddyline.routing.dropped_rows import DroppedRows
from eddyline.routing.in_order import InOrder, swapped_order
from eddyline.routing.pipeline import Costs, ratio
from eddyline.routing.policy import FilterSet, OrderChange, Profile, Statistics

WINDOW_ROWS = 1000  # the paper's
SLACK = 0.9  # the paper's alpha
MIN_FILL = 100
MIN_SUPPORT = 10


# --------------------------------------------------------------------------------------------- the matrix view


def drops_from(columns: Sequence[int], order: Sequence[int], at: int, alive: int) -> list[int]:
    """Row `at` of V: how many of the rows alive there each filter from that position on drops."""
    return [(alive & columns[k]).bit_count() for k in order[at:]]


def alive_at(columns: Sequence[int], order: Sequence[int], at: int, rows: int) -> int:
    """Which rows the positions before `at` let through."""
    for k in order[:at]:
        rows ^= rows & columns[k]
    return rows


def matrix_view(columns: Sequence[int], order: Sequence[int], rows: int) -> list[list[int]]:
    """V, row i from its diagonal on."""
    view = []
    for at, k in enumerate(order):
        view.append(drops_from(columns, order, at, rows))
        rows ^= rows & columns[k]
    return view


# --------------------------------------------------------------------------------------------- violations


def first_violation(
    columns: Sequence[int], rows: int, order: Sequence[int], cost_s: Costs, slack: float, min_support: int
) -> int | None:
    """The first position whose filter is worse than a later one would be there."""
    for at in range(len(order) - 1):
        own, *later = drops_from(columns, order, at, rows)
        own_ratio = ratio(own, cost_s[order[at]])
        for drops, k in zip(later, order[at + 1 :], strict=True):
            if drops >= min_support and own_ratio < slack * ratio(drops, cost_s[k]):
                return at
        rows ^= rows & columns[order[at]]
        if rows.bit_count() < max(1, min_support):
            return None  # whatever is left is too little to violate anything
    return None


def corrected_order(
    columns: Sequence[int], rows: int, order: Sequence[int], cost_s: Costs, at: int
) -> tuple[int, ...]:
    """The order with the violation at `at` mended; no position before it may be violated.

    Greed picks again from `at` on. It may stop where no swap reached farther: beyond, the same filters stand before each position
    as did before.
    """
    changed = list(order)
    alive = alive_at(columns, order, at, rows)
    last = place = at
    while place <= last:
        drops = drops_from(columns, changed, place, alive)
        ratios = [ratio(n, cost_s[k]) for n, k in zip(drops, changed[place:], strict=True)]
        best = place + ratios.index(max(ratios))
        last = max(last, best)
        changed = list(swapped_order(changed, place, best))
        alive ^= alive & columns[changed[place]]
        place += 1
    return tuple(changed)


def reoptimized_order(
    columns: Sequence[int], rows: int, order: Sequence[int], cost_s: Costs, slack: float, min_support: int = 0
) -> tuple[tuple[int, ...], list[OrderChange]]:
    """The order with every violation mended, and what was done for it."""
    changed, changes = tuple(order), []
    while (at := first_violation(columns, rows, changed, cost_s, slack, min_support)) is not None:
        after = corrected_order(columns, rows, changed, cost_s, at)
        changes.append(_change(columns, rows, cost_s, changed, after, at))
        changed = after
        assert len(changes) <= len(order), f"corrections do not end: {changes}"
    return changed, changes


def _change(
    columns: Sequence[int],
    rows: int,
    cost_s: Costs,
    before: tuple[int, ...],
    after: tuple[int, ...],
    at: int,
) -> OrderChange:
    alive = alive_at(columns, before, at, rows)
    n_alive = alive.bit_count()
    entering, displaced = after[at], before[at]
    entering_ratio, displaced_ratio = (
        ratio((alive & columns[k]).bit_count() / n_alive, cost_s[k]) for k in (entering, displaced)
    )
    return OrderChange(before, after, at, entering, displaced, entering_ratio, displaced_ratio)


# --------------------------------------------------------------------------------------------- the policy


class AGreedy(InOrder):
    """Follows what greed would pick on the last dropped rows that were sampled."""

    name = "a_greedy"

    def __init__(
        self,
        filters: FilterSet,
        *,
        start: Sequence[int],
        statistics: Statistics,
        window_rows: int = WINDOW_ROWS,
        slack: float = SLACK,
        min_fill: int = MIN_FILL,
        min_support: int = MIN_SUPPORT,
    ) -> None:
        super().__init__(filters, start=start, statistics=statistics)
        assert 0 < slack <= 1, slack
        self.window = DroppedRows(filters.n_filters, window_rows)
        self.slack = slack
        self.min_fill = min_fill
        self.min_support = min_support

    def learn(self, profile: Profile, statistics: Statistics) -> list[OrderChange]:
        self.statistics = statistics
        self.window.append(profile.dropped_mask)
        return self._reoptimize()

    def filters_to_sample(self, dropped_at: int) -> tuple[int, ...]:
        return self.order[dropped_at + 1 :]

    def forget(self) -> None:
        self.window.clear()

    def settings(self) -> dict[str, Any]:
        return {
            "window_rows": self.window.most,
            "slack": self.slack,
            "min_fill": self.min_fill,
            "min_support": self.min_support,
        }

    def inherit(self, before: Self, same: Mapping[int, int]) -> None:
        """Rows stay while every filter has its bit in them: filters went, none came."""
        if len(same) == self.filters.n_filters:
            columns = [before.window.columns[same[k]] for k in range(self.filters.n_filters)]
            self.window.take(columns, len(before.window))
            self._reoptimize()

    def snapshot(self) -> dict[str, Any]:
        view = matrix_view(self.window.columns, self.order, self.window.all)
        reached = [len(self.window)]
        for row in view:
            reached.append(reached[-1] - row[0])
        rates = [row[0] / n if n else 0.0 for row, n in zip(view, reached, strict=False)]
        cost_s = self.statistics.cost_s.tolist()
        return {
            **super().snapshot(),
            "rows": len(self.window),
            "view": view,
            "drop_rate": rates,
            "drops_per_s": [ratio(rate, cost_s[k]) for rate, k in zip(rates, self.order, strict=True)],
        }

    def check(self) -> None:
        super().check()
        self.window.check()
        if len(self.window) >= self.min_fill:
            violated = self._violation()
            assert violated is None, f"position {violated} of {self.order} is violated"

    def _violation(self) -> int | None:
        columns, rows, cost_s = self.window.columns, self.window.all, self.statistics.cost_s.tolist()
        return first_violation(columns, rows, self.order, cost_s, self.slack, self.min_support)

    def _reoptimize(self) -> list[OrderChange]:
        if len(self.window) < max(1, self.min_fill):
            return []
        columns, rows, cost_s = self.window.columns, self.window.all, self.statistics.cost_s.tolist()
        self.order, changes = reoptimized_order(
            columns, rows, self.order, cost_s, self.slack, self.min_support
        )
        return changes
