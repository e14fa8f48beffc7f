"""The paper's stream and queries, as filters that rows enter one by one.

Stream S has five attributes a to e, uniform on [0, 100): any number in it, or only whole ones as in the paper. A query asks that
some attributes be above constants; queries that ask the same of an attribute share its filter. Rows go one at a time, as in the
paper: the next row may go another way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np

from eddyline.routing import FilterSet, Profile, Statistics, Tickets
from eddyline.routing.learner import Learner
from eddyline.routing.policy import BoolMatrix, RowGroup, bits

ATTRIBUTES = "abcde"
UNIT = 1e-6  # what any filter takes on a row
TUPLES_PER_S = 1000


@dataclass(frozen=True)
class Queries:
    """Queries over filters `attribute > above`, one filter each attribute."""

    above: tuple[int, ...]
    queries: tuple[frozenset[int], ...]

    @classmethod
    def nested(cls, *above: int) -> Queries:
        """The k-th query has the first k filters."""
        return cls(above, tuple(frozenset(range(1 + k)) for k in range(len(above))))

    @classmethod
    def apart(cls, *above: int) -> Queries:
        """Each query has a filter of its own."""
        return cls(above, tuple(frozenset([k]) for k in range(len(above))))

    def first(self, n: int) -> FilterSet:
        """The first n queries, and the filters they have: the k-th query brings the k-th filter."""
        return FilterSet(self.queries[:n], n)

    @property
    def filters(self) -> FilterSet:
        return self.first(len(self.queries))

    def pass_rates(self, *, whole: bool = False) -> tuple[float, ...]:
        return tuple((99 - limit if whole else 100 - limit) / 100 for limit in self.above)

    def drops(self, n_rows: int, rng: np.random.Generator, *, whole: bool = False) -> BoolMatrix:
        """Which rows each filter drops."""
        values = rng.random((n_rows, len(self.above))) * 100
        dropped: BoolMatrix = (np.floor(values) if whole else values) <= np.array(self.above)
        return dropped


def statistics_of(filters: FilterSet) -> Statistics:
    return Statistics.of_costs([UNIT] * filters.n_filters)


def policy_of(kind: type[Learner], filters: FilterSet, **settings: Any) -> Learner:
    return kind(filters, start=range(filters.n_filters), statistics=statistics_of(filters), **settings)


# --------------------------------------------------------------------------------------------- rows one by one


def after(filters: FilterSet, group: RowGroup, k: int, *, is_dropped: bool) -> RowGroup:
    """What is left of a row once a filter has seen it."""
    still_open = group.open_classes & ~filters.members[k] if is_dropped else group.open_classes
    evaluated = group.evaluated_filters | 1 << k
    passed = group.passed_filters | int(not is_dropped) << k
    for number in bits(still_open):
        if not filters.filters_of[number] & ~passed:
            still_open &= ~(1 << number)  # delivered
    return RowGroup(evaluated, passed, still_open)


def entered_one_by_one(policy: Learner, filters: FilterSet, dropped: BoolMatrix) -> float:
    """Filters a row enters on average, if the policy is asked for each row anew."""
    nothing = Profile(np.zeros((0, filters.n_filters), bool), np.zeros((0, filters.n_filters), bool))
    statistics = statistics_of(filters)
    n = 0
    for row in dropped.tolist():
        group = filters.start
        while group.open_classes:
            k = policy.next(group)
            group = after(filters, group, k, is_dropped=row[k])
            n += 1
        policy.learn(nothing, statistics)
    return n / len(dropped)


def entered_at_random(filters: FilterSet, dropped: BoolMatrix, rng: np.random.Generator) -> float:
    """The same if a row enters filters at random, needed or not, until no query is open."""
    n = 0
    for row in dropped.tolist():
        group = filters.start
        for k in rng.permutation(filters.n_filters).tolist():
            group = after(filters, group, k, is_dropped=row[k])
            n += 1
            if not group.open_classes:
                break
    return n / len(dropped)


class CountedTickets(Tickets):
    """Tickets that count how many filters rows entered; every row draws for itself and changes the tickets for the next."""

    n_entered = 0

    def walk(self, dropped: Sequence[bool], still_open: int) -> int:
        n = super().walk(dropped, still_open)
        self.n_entered += n
        return n

    def take(self, dropped: BoolMatrix) -> float:
        """Let rows go, tickets decaying once a thousand; filters entered by each on average."""
        before = self.n_entered
        for first in range(0, len(dropped), TUPLES_PER_S):
            rows = dropped[first : first + TUPLES_PER_S]
            self.learn(Profile(rows, np.ones_like(rows)), self.statistics)
        return (self.n_entered - before) / len(dropped)


# --------------------------------------------------------------------------------------------- exactly

Choice = Callable[[RowGroup], Sequence[int]]  # the filters that may be next, each as likely


def expected(filters: FilterSet, pass_rates: Sequence[float], choice: Choice) -> float:
    """Filters a row enters on average, over all rows and choices."""

    def below(group: RowGroup) -> float:
        if not group.open_classes:
            return 0.0
        offered = choice(group)
        total = 0.0
        for k, is_dropped in product(offered, (False, True)):
            chance = 1 - pass_rates[k] if is_dropped else pass_rates[k]
            total += chance * (1 + below(after(filters, group, k, is_dropped=is_dropped)))
        return total / len(offered)

    return below(filters.start)


def in_order(filters: FilterSet, order: Sequence[int] | None = None) -> Choice:
    """The first of an order that is needed; a to e if none is given."""
    order = range(filters.n_filters) if order is None else order
    return lambda group: [next(k for k in order if filters.needed_filters(group) >> k & 1)]


def best_fixed(filters: FilterSet, pass_rates: Sequence[float]) -> float:
    """Filters a row enters by the best of all orders."""
    orders = permutations(range(filters.n_filters))
    return min(expected(filters, pass_rates, in_order(filters, order)) for order in orders)


def any_needed(filters: FilterSet) -> Choice:
    return lambda group: list(bits(filters.needed_filters(group)))


def any_filter(filters: FilterSet) -> Choice:
    return lambda group: [k for k in range(filters.n_filters) if not group.evaluated_filters >> k & 1]
