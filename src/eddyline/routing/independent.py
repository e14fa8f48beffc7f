"""Independent: sort filters by what each drops per second of all rows, as if none knew of another.

Paper: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: the variant that
assumes independence.

    paper            here                  meaning
    d(k | 0)         drops[k]              sampled dropped rows that filter k drops, the first row of A-Greedy's matrix view
    t_k              cost_s[k]             mean seconds of filter k on one row
    alpha            slack                 how much worse a filter may be than a later one

The best order where filters are independent. Where they are not it may cost n times what greed's does: filters that drop the same
rows all stand in front.

Differs from the paper: thresholds `min_fill` and `min_support` as in A-Greedy; the sort is stable.
"""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.routing.a_greedy import AGreedy
from eddyline.routing.pipeline import Costs, ratio
from eddyline.routing.policy import OrderChange


def first_violation(
    drops: Sequence[int], order: Sequence[int], cost_s: Costs, slack: float, min_support: int = 0
) -> int | None:
    """The first position whose filter is worse than a later one; `drops` by filter."""
    best = 0.0  # of those standing later, among those that enough rows speak for
    found = None
    for at in reversed(range(len(order))):
        k = order[at]
        own = ratio(drops[k], cost_s[k])
        if own < slack * best:
            found = at
        if drops[k] >= min_support:
            best = max(best, own)
    return found


def sorted_order(drops: Sequence[int], order: Sequence[int], cost_s: Costs) -> tuple[int, ...]:
    """The order with the largest ratio first; equal ones keep their order."""
    return tuple(sorted(order, key=lambda k: -ratio(drops[k], cost_s[k])))


class Independent(AGreedy):
    """Takes the same sample as A-Greedy and looks only at how often each filter drops."""

    name = "independent"

    def _drops(self) -> list[int]:
        return [column.bit_count() for column in self.window.columns]

    def _violation(self) -> int | None:
        cost_s = self.statistics.cost_s.tolist()
        return first_violation(self._drops(), self.order, cost_s, self.slack, self.min_support)

    def _reoptimize(self) -> list[OrderChange]:
        n_rows = len(self.window)
        if n_rows < max(1, self.min_fill) or self._violation() is None:
            return []
        drops, cost_s = self._drops(), self.statistics.cost_s.tolist()
        before, self.order = self.order, sorted_order(drops, self.order, cost_s)
        at = next(place for place, k in enumerate(before) if k != self.order[place])
        entering, displaced = self.order[at], before[at]
        entering_ratio, displaced_ratio = (ratio(drops[k] / n_rows, cost_s[k]) for k in (entering, displaced))
        return [OrderChange(before, self.order, at, entering, displaced, entering_ratio, displaced_ratio)]
