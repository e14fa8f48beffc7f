"""What the policies of this room have in common: a filter set, costs, and a successor when the filters change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from eddyline.routing.policy import FilterSet, OrderChange, Profile, RowGroup, Statistics


class Learner(ABC):
    """A policy over a filter set that another, over other filters, can take over from."""

    name: str
    samples_all = True  # wants to know every filter of a sampled row; else see `InOrder.filters_to_sample`

    def __init__(self, filters: FilterSet, *, start: Sequence[int], statistics: Statistics) -> None:
        self.filters = filters
        self.statistics = statistics

    @abstractmethod
    def next(self, group: RowGroup) -> int:
        """Which filter these rows run next."""

    @abstractmethod
    def learn(self, profile: Profile, statistics: Statistics) -> list[OrderChange]:
        """Take in the sampled rows of a batch, all of which were walked by this policy in its present state."""

    def forget(self) -> None:  # noqa: B027  # there may be nothing to forget
        """Lose the evidence and keep what was concluded from it: the data is no longer what it was."""

    def settings(self) -> dict[str, Any]:
        """The arguments it was made with, apart from filters, start and statistics."""
        return {}

    def anew(self, filters: FilterSet, *, start: Sequence[int], statistics: Statistics) -> Self:
        """A policy with the same settings and no evidence, for other filters."""
        return type(self)(filters, start=start, statistics=statistics, **self.settings())

    def inherit(self, before: Self, same: Mapping[int, int]) -> None:  # noqa: B027  # or nothing to inherit
        """Take over what evidence of another policy holds here; `same` has the old number of filters that were there."""

    @property
    def current_order(self) -> tuple[int, ...]:
        """An order of the filters worth keeping."""
        return tuple(range(self.filters.n_filters))

    def snapshot(self) -> dict[str, Any]:
        return {"policy": self.name}

    @abstractmethod
    def check(self) -> None: ...
