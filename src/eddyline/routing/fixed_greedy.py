"""FixedGreedy: one query after another, each by rank, reusing what earlier queries evaluated.

Paper: Munagala, Srivastava, Widom, "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007:
FixedGreedy, within mu times the best, mu being the most queries that share a filter.

    paper           here               meaning
    rank            cost / (1 - s)     seconds per row dropped; increasing inside a query
    the sequence    slots              (class, filter): runs while its own class is open and the filter has not run

Differs from the paper: by the printed definition of a fixed strategy a filter would run while any class needs it, and that breaks
the bound: with Q1 = {A, F}, Q2 = {F, G}, A and G cheap and nearly always false, F dear, the order A, F, G runs F on nearly every
row because Q2 is still open when its turn comes. A slot looks at its own class alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eddyline.routing.beliefs import WINDOW_ROWS, Beliefs, Believer
from eddyline.routing.policy import FilterSet, OrderChange, RowGroup, Statistics, bits


def ranked_filters(
    filters: Sequence[int], pass_rate: Sequence[float], cost_s: Sequence[float]
) -> tuple[int, ...]:
    """Filters by seconds per row dropped: the best order of one conjunction. Free ones first, those that drop nothing last."""

    def rank(filter_: int) -> float:
        if cost_s[filter_] <= 0:
            return 0.0
        return cost_s[filter_] / (1 - pass_rate[filter_]) if pass_rate[filter_] < 1 else math.inf

    return tuple(sorted(filters, key=lambda filter_: (rank(filter_), filter_)))


class FixedGreedy(Believer):
    """Takes the classes as they are numbered; the first open one decides."""

    name = "fixed_greedy"

    def __init__(
        self,
        filters: FilterSet,
        *,
        start: Sequence[int] | None = None,  # as every policy has it; a class is ranked by cost alone
        statistics: Statistics,
        window_rows: int = WINDOW_ROWS,
        pass_rate: Sequence[float] | None = None,
    ) -> None:
        super().__init__(
            filters, start=start, statistics=statistics, window_rows=window_rows, pass_rate=pass_rate
        )
        self._orders = _orders(filters, self.beliefs)

    @property
    def slots(self) -> list[tuple[int, int]]:
        """(class, filter) in the order of their turns."""
        return [(number, filter_) for number, order in enumerate(self._orders) for filter_ in order]

    def next(self, group: RowGroup) -> int:
        """Which filter these rows run next."""
        for number in bits(group.open_classes):
            for filter_ in self._orders[number]:
                if not group.evaluated_filters >> filter_ & 1:
                    return filter_
        raise AssertionError(f"no open class of {group} needs a filter")

    def _order_changes(self) -> list[OrderChange]:
        """There is no one order whose change could be reported."""
        self._orders = _orders(self.filters, self.beliefs)
        return []

    def snapshot(self) -> dict[str, Any]:
        """The order of the first class, and what it rests on."""
        first = next((order for order in self._orders if order), ())
        return {
            **super().snapshot(),
            "root": first[0] if first else None,
            "first_class": list(first),
        }

    def check(self) -> None:
        super().check()
        for query, order in zip(self.filters.queries, self._orders, strict=True):
            assert sorted(order) == sorted(query), (order, query)


def _orders(filters: FilterSet, beliefs: Beliefs) -> tuple[tuple[int, ...], ...]:
    return tuple(
        ranked_filters(sorted(query), beliefs.pass_rate, beliefs.cost_s) for query in filters.queries
    )
