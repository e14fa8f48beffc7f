"""What no strategy can do better than: lower bounds on the seconds a row costs, by linear programs.

Paper: Munagala, Srivastava, Widom, "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007: the linear
program behind GreedyVariant's guarantee, used there to measure the distance to the optimum.

    paper    here               meaning
    e_j      variable j         share of rows filter j is evaluated on
    s_j      pass_rate[j]       share of rows it lets through
    r_q      false_share        share of rows on which class q is false

LP: for each class the sum of (1 - s_j) e_j is at least r_q; a filter's result does not depend on the decision to evaluate it. LP+
adds what holds for every strategy: of each class at least one filter is evaluated, and a filter is evaluated wherever all others
of one of its classes are true.

Differs from the paper: LP+ is ours. With correlated filters LP is no bound, although the text says algorithms carry over; there a
second variable x_j, the share of rows on which filter j is evaluated and drops, is at most e_j and at most 1 - s_j, and the sum
of x_j is at least the share of sampled rows on which q is false. Rows on which a class is not open demand nothing for it, and of
the filters of one core one pays in full. A bound from sampled rows is as exact as the sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from eddyline.routing.linear_programs import Demand, least_cost
from eddyline.routing.policy import FilterSet, FloatVector, Profile, Statistics, bits

MOST_CLASSES = 2000  # in a program; leaving out others lowers the bound, and it stays one
MOST_STEPS = 20_000  # of conditioning on a filter, per filter bounded


# --------------------------------------------------------------------------------------------- from sampled rows


def lower_bound(
    filters: FilterSet, statistics: Statistics, sampled: Profile, *, is_strengthened: bool = True
) -> float:
    """Seconds per row below which no strategy can come on rows as those sampled, however filters are correlated.

    Rows on which a filter that an open class has is not known are left out. No rows: 0. `is_strengthened=False` leaves out the
    rows of LP+.
    """
    sample = _Sample(filters, sampled)
    if not sample.n_rows:
        return 0.0
    n = filters.n_filters
    demands: list[Demand] = []
    upper: FloatVector = np.ones(2 * n)  # of e, then of x
    lower: FloatVector = np.zeros(2 * n)
    for j in range(n):
        upper[n + j] = sample.share(sample.dropped[j])
        demands.append(Demand({j: 1.0, n + j: -1.0}, 0.0))
    for q in _largest(filters):
        open_on = sample.open_on[q]
        if not open_on or not filters.queries[q]:
            continue
        false_on = 0
        for j in filters.queries[q]:
            false_on |= sample.dropped[j]
        demands.append(Demand({n + j: 1.0 for j in filters.queries[q]}, sample.share(open_on & false_on)))
        if is_strengthened:
            demands.append(Demand(dict.fromkeys(filters.queries[q], 1.0), sample.share(open_on)))
    if is_strengthened:
        lower[:n] = [sample.share(sample.unavoidable(j)) for j in range(n)]
    cost_s, paid_once = _costs(filters, statistics)
    demands += [
        Demand({2 * n + at: 1.0, j: -1.0}, 0.0) for at, (_, core) in enumerate(paid_once) for j in core
    ]
    more = len(paid_once)
    solved = least_cost(
        np.concatenate([cost_s, np.zeros(n), [first_s for first_s, _ in paid_once]]),
        demands,
        lower=np.concatenate([lower, np.zeros(more)]),
        upper=np.concatenate([upper, np.ones(more)]),
    )
    return solved.cost


class _Sample:
    """Sampled rows as bitsets: where a filter drops, where a class is open."""

    def __init__(self, filters: FilterSet, sampled: Profile) -> None:
        everything = (1 << len(filters.queries)) - 1
        opened = sampled.open or (everything,) * len(sampled)
        wanted = {}
        for classes in set(opened):
            wanted[classes] = np.zeros(filters.n_filters, bool)
            for q in bits(classes):
                wanted[classes][list(filters.queries[q])] = True
        usable = [
            row for row, classes in enumerate(opened) if not (wanted[classes] & ~sampled.known[row]).any()
        ]
        self._filters = filters
        self.n_rows = len(usable)
        self.dropped = [0] * filters.n_filters
        self.open_on = [0] * len(filters.queries)
        for at, row in enumerate(usable):
            for j in np.flatnonzero(sampled.dropped[row] & wanted[opened[row]]):
                self.dropped[j] |= 1 << at
            for q in bits(opened[row]):
                self.open_on[q] |= 1 << at

    def share(self, rows: int) -> float:
        return rows.bit_count() / self.n_rows

    def unavoidable(self, filter_: int) -> int:
        """Rows on which all other filters of an open class of this one are true."""
        found = 0
        for q in bits(self._filters.members[filter_]):
            rows = self.open_on[q] & ~found
            for other in self._filters.queries[q]:
                if other != filter_:
                    rows &= ~self.dropped[other]
            found |= rows
        return found


def _costs(filters: FilterSet, statistics: Statistics) -> tuple[FloatVector, list[tuple[float, list[int]]]]:
    """What each filter costs at least, and for cores of several filters what the first of them costs more, at least."""
    cores: dict[int, list[int]] = {}
    for j, core in enumerate(filters.cores):
        cores.setdefault(core, []).append(j)
    cost_s = statistics.cost_s.copy()
    paid_once: list[tuple[float, list[int]]] = []
    for mates in cores.values():
        if len(mates) > 1:
            cost_s[mates] = np.minimum(statistics.cost_s, statistics.follow_cost_s)[mates]
            paid_once.append((float((statistics.cost_s - cost_s)[mates].min()), mates))
    return cost_s, paid_once


def _largest(filters: FilterSet) -> Sequence[int]:
    """The classes of most queries, as many as a program should have."""
    numbers = range(len(filters.queries))
    if len(numbers) <= MOST_CLASSES:
        return numbers
    weights = filters.weights or (1.0,) * len(numbers)
    return sorted(sorted(numbers, key=lambda q: -weights[q])[:MOST_CLASSES])


# --------------------------------------------------------------------------------------------- independent filters


def independent_bound(
    filters: FilterSet,
    pass_rate: Sequence[float],
    cost_s: Sequence[float] | FloatVector,
    *,
    is_strengthened: bool = True,
) -> float:
    """Seconds per row below which no strategy can come if filters are independent: LP+, or LP if not strengthened."""
    demands: list[Demand] = []
    lower = np.zeros(filters.n_filters)
    for q in _largest(filters):
        query = filters.queries[q]
        if query:
            true_share = math.prod(pass_rate[j] for j in query)
            demands.append(Demand({j: 1 - pass_rate[j] for j in query}, 1 - true_share))
            if is_strengthened:
                demands.append(Demand(dict.fromkeys(query, 1.0), 1.0))
    if is_strengthened:
        for j in range(filters.n_filters):
            others = {filters.filters_of[q] & ~(1 << j) for q in bits(filters.members[j])}
            lower[j] = min(1.0, chance_of_any(others, pass_rate))
    return least_cost(cost_s, demands, lower=lower).cost


def chance_of_any(sets: Iterable[int], pass_rate: Sequence[float]) -> float:
    """The chance that all filters of one of the sets pass, filters being independent.

    Exact while that is little work; otherwise that of sets without a common filter, which is at most as much.
    """
    alternatives = _minimal(sets)
    known: dict[frozenset[int], float] = {}

    def chance(of: frozenset[int]) -> float:
        if not of:
            return 0.0
        if 0 in of:
            return 1.0
        found = known.get(of)
        if found is None:
            if len(known) >= MOST_STEPS:
                raise _TooLong
            j = _commonest(of)
            passing = pass_rate[j]
            found = passing * chance(_minimal(s & ~(1 << j) for s in of))
            found += (1 - passing) * chance(frozenset(s for s in of if not s >> j & 1))
            known[of] = found
        return found

    try:
        return chance(alternatives)
    except _TooLong:
        return _chance_of_disjoint(alternatives, pass_rate)


class _TooLong(Exception):
    """Conditioning takes more steps than a bound is worth."""


def _minimal(sets: Iterable[int]) -> frozenset[int]:
    """Without sets that hold another one: where they are true, so is that one."""
    kept: list[int] = []
    for each in sorted(set(sets), key=int.bit_count):
        if not any(less & each == less for less in kept):
            kept.append(each)
    return frozenset(kept)


def _commonest(sets: Iterable[int]) -> int:
    count: dict[int, int] = {}
    for each in sets:
        for j in bits(each):
            count[j] = count.get(j, 0) + 1
    return min(count, key=lambda j: (-count[j], j))


def _chance_of_disjoint(sets: Iterable[int], pass_rate: Sequence[float]) -> float:
    likely = sorted((-math.prod(pass_rate[j] for j in bits(each)), each) for each in sets)
    used, none = 0, 1.0
    for negative, each in likely:
        if not used & each:
            used |= each
            none *= 1 + negative
    return 1 - none
