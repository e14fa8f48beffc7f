"""Any needed filter, each as likely: what a policy that learns has to beat.

The choice is a number made of the seed, the batch and the group, so it can be made again; rows of one group go one way in a
batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eddyline.routing.learner import Learner
from eddyline.routing.policy import FilterSet, OrderChange, Profile, RowGroup, Statistics, bits
from eddyline.statistics import uniform_of


class RandomChoice(Learner):
    """Learns nothing but that another batch has begun."""

    name = "random"

    def __init__(
        self, filters: FilterSet, *, start: Sequence[int], statistics: Statistics, seed: int = 0
    ) -> None:
        super().__init__(filters, start=start, statistics=statistics)
        self.seed = seed
        self.n_batches = 0

    def next(self, group: RowGroup) -> int:
        offered = list(bits(self.filters.needed_filters(group)))
        assert offered, f"no open class needs another filter: {group}"
        return offered[int(uniform_of(self.seed, self.n_batches, *group) * len(offered))]

    def learn(self, profile: Profile, statistics: Statistics) -> list[OrderChange]:
        self.n_batches += 1
        return []

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "seed": self.seed, "batches": self.n_batches}

    def settings(self) -> dict[str, Any]:
        return {"seed": self.seed}

    def check(self) -> None:
        assert self.n_batches >= 0, self.n_batches
