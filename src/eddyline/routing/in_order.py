"""What policies with one order for all rows have in common: they run the first filter of the order that is still needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eddyline.routing.learner import Learner
from eddyline.routing.policy import FilterSet, RowGroup, Statistics


class InOrder(Learner):
    """An order over the filters of a set, which `learn` may change."""

    def __init__(self, filters: FilterSet, *, start: Sequence[int], statistics: Statistics) -> None:
        super().__init__(filters, start=start, statistics=statistics)
        self.order = tuple(start)
        self._check_order()

    def next(self, group: RowGroup) -> int:
        members, evaluated, still_open = self.filters.members, group.evaluated_filters, group.open_classes
        for k in self.order:
            if members[k] & still_open and not evaluated >> k & 1:
                return k
        raise AssertionError(f"no open class needs another filter: {group}")

    def filters_to_sample(self, dropped_at: int) -> tuple[int, ...]:
        """Which filters a sampled row should run beyond the position at which it was dropped; others may stay unknown."""
        return ()

    @property
    def current_order(self) -> tuple[int, ...]:
        return self.order

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "order": list(self.order)}

    def check(self) -> None:
        self._check_order()

    def _check_order(self) -> None:
        expected = list(range(self.filters.n_filters))
        assert sorted(self.order) == expected, f"{self.order} is not an order of {len(expected)} filters"


def moved_order(order: Sequence[int], source: int, target: int) -> tuple[int, ...]:
    """The order with the filter at `source` put before the filter at `target`."""
    changed = list(order)
    changed.insert(target, changed.pop(source))
    return tuple(changed)


def swapped_order(order: Sequence[int], a: int, b: int) -> tuple[int, ...]:
    """The order with two positions exchanged."""
    changed = list(order)
    changed[a], changed[b] = changed[b], changed[a]
    return tuple(changed)
