"""The synthetic filters of the paper: groups of correlated ones, independent between groups.

In a group each filter copies a hidden bit of the row with probability `copied`, and else draws its own; then each passes a
share s of the rows and any two agree on 80 % of them. Which rows pass a set of filters can be counted exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from eddyline.routing.policy import BoolMatrix

AGREEING = 0.8


@dataclass(frozen=True)
class Filters:
    """Filters by group, each with the share of rows it passes."""

    group_of: tuple[int, ...]
    pass_rate: tuple[float, ...]  # by group

    @classmethod
    def alike(cls, n: int, in_a_group: int, pass_rate: float = 0.5) -> Filters:
        """The paper's default: all pass the same share."""
        group_of = tuple(k // in_a_group for k in range(n))
        return cls(group_of, (pass_rate,) * (group_of[-1] + 1))

    def with_rates(self, pass_rate: Sequence[float]) -> Filters:
        return Filters(self.group_of, tuple(pass_rate))

    @property
    def n(self) -> int:
        return len(self.group_of)

    def drops(self, n_rows: int, rng: np.random.Generator) -> BoolMatrix:
        """Which filters drop each of some random rows."""
        dropped = np.empty((n_rows, self.n), bool)
        for group, rate in enumerate(self.pass_rate):
            hidden = rng.random(n_rows) < rate
            for k in (k for k in range(self.n) if self.group_of[k] == group):
                own = rng.random(n_rows) < rate
                dropped[:, k] = ~np.where(rng.random(n_rows) < copied(rate), hidden, own)
        return dropped

    def passing(self, filters: Sequence[int]) -> float:
        """The exact share of rows that some filters all pass."""
        members = Counter(self.group_of[k] for k in filters)
        return math.prod(all_pass(self.pass_rate[group], n) for group, n in members.items())

    def cost(self, order: Sequence[int], costs: Sequence[float] | None = None) -> float:
        """The exact mean cost of a row that walks this order."""
        price = costs or [1.0] * self.n
        return sum(self.passing(order[:place]) * price[k] for place, k in enumerate(order))

    def dropped_at(self, order: Sequence[int]) -> list[float]:
        """The exact share of rows dropped at each position of an order."""
        reached = [self.passing(order[:place]) for place in range(self.n + 1)]
        return [before - after for before, after in pairwise(reached)]

    def best_order(self, costs: Sequence[float] | None = None) -> tuple[int, ...]:
        """Of all orders: the best order of a set ends with one filter and begins with the best order of the others."""
        price = costs or [1.0] * self.n
        best: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {frozenset(): (0.0, ())}
        for size in range(self.n):
            reached = {those: self.passing(tuple(those)) for those in best if len(those) == size}
            for those, share in reached.items():
                cost, order = best[those]
                for k in set(range(self.n)) - those:
                    found = cost + share * price[k], (*order, k)
                    best[those | {k}] = min(best.get(those | {k}, found), found)
        return best[frozenset(range(self.n))][1]

    def greedy_order(self, costs: Sequence[float] | None = None) -> tuple[int, ...]:
        """Greed on the exact shares; of equal filters the one with the lowest number."""
        price = costs or [1.0] * self.n
        order: tuple[int, ...] = ()
        while len(order) < self.n:
            reached = self.passing(order)
            waiting = [k for k in range(self.n) if k not in order]
            worth = [round((1 - self.passing((*order, k)) / reached) / price[k], 12) for k in waiting]
            order = (*order, waiting[worth.index(max(worth))])
        return order

    def by_group(self) -> tuple[int, ...]:
        """The worst order among filters that are equally selective: each group whole before the next."""
        return tuple(sorted(range(self.n), key=lambda k: (self.group_of[k], k)))


def copied(pass_rate: float) -> float:
    """How likely a filter copies the hidden bit, so that two of a group agree on 80 % of the rows."""
    by_chance = pass_rate**2 + (1 - pass_rate) ** 2
    return math.sqrt(max(0.0, (AGREEING - by_chance) / (1 - by_chance)))


@cache
def all_pass(pass_rate: float, n: int) -> float:
    """The share of rows that n filters of a group all pass."""
    if n == 0:
        return 1.0
    own = (1 - copied(pass_rate)) * pass_rate
    return pass_rate * (copied(pass_rate) + own) ** n + (1 - pass_rate) * own**n
