"""What no strategy can do better than: lower bounds on the seconds a row costs, by linear programs.

Paper: Munagala, Srivastava, Widom, "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007: the linear
program behind GreedyVariant's guarantee, used there to measure the distance to the optimum.

    paper    here               meaning
    e_j      variable j         share of rows filter j is evaluated on
    s_j      pass_rate[j]       share of rows it lets through
    r_q      false_share        share of rows on which class q is false

LP, for independent filters: for each class the sum of (1 - s_j) e_j is at least r_q; a filter's result does not depend on the
decision to evaluate it. LP+ adds what holds for every strategy: of each class at least one filter is evaluated, and a filter is
evaluated wherever all others of one of its classes are true. `benchmarks/papers/shared_filters/_independent_bound.py` has both.

Differs from the paper: LP+ is ours. With correlated filters LP is no bound, although the text says algorithms carry over; there a
second variable x_j, the share of rows on which filter j is evaluated and drops, is at most e_j and at most 1 - s_j, and the sum
of x_j is at least the share of sampled rows on which q is false. Rows on which a class is not open demand nothing for it, and of
the filters of one core one pays in full. A bound from sampled rows is as exact as the sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eddyline.routing.linear_programs import Demand, least_cost
from eddyline.routing.policy import FilterSet, FloatVector, Profile, Statistics, bits

MOST_CLASSES = 2000  # in a program; leaving out others lowers the bound, and it stays one


def lower_bound(
    filters: FilterSet, statistics: Statistics, profile: Profile, *, is_strengthened: bool = True
) -> float:
    """Seconds per row below which no strategy can come on rows as those sampled, however filters are correlated.

    Rows on which a filter that an open class has is not known are left out. No rows: 0. `is_strengthened=False` leaves out the
    rows of LP+.
    """
    sample = _Sample(filters, profile)
    if not sample.n_rows:
        return 0.0
    n = filters.n_filters
    demands: list[Demand] = []
    upper: FloatVector = np.ones(2 * n)  # of e, then of x
    lower: FloatVector = np.zeros(2 * n)
    for j in range(n):
        upper[n + j] = sample.share(sample.dropped_rows[j])
        demands.append(Demand({j: 1.0, n + j: -1.0}, 0.0))
    for q in largest_classes(filters):
        open_on = sample.open_on[q]
        if not open_on or not filters.queries[q]:
            continue
        false_on = 0
        for j in filters.queries[q]:
            false_on |= sample.dropped_rows[j]
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

    def __init__(self, filters: FilterSet, profile: Profile) -> None:
        everything = (1 << len(filters.queries)) - 1
        opened = profile.open_classes or (everything,) * len(profile)
        needed_masks = {}
        for classes in set(opened):
            needed_masks[classes] = np.zeros(filters.n_filters, bool)
            for q in bits(classes):
                needed_masks[classes][list(filters.queries[q])] = True
        usable = [
            row
            for row, classes in enumerate(opened)
            if not (needed_masks[classes] & ~profile.known_mask[row]).any()
        ]
        self._filters = filters
        self.n_rows = len(usable)
        self.dropped_rows = [0] * filters.n_filters
        self.open_on = [0] * len(filters.queries)
        for at, row in enumerate(usable):
            for j in np.flatnonzero(profile.dropped_mask[row] & needed_masks[opened[row]]):
                self.dropped_rows[j] |= 1 << at
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
                    rows &= ~self.dropped_rows[other]
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


def largest_classes(filters: FilterSet) -> Sequence[int]:
    """The classes of most queries, as many as a program should have."""
    numbers = range(len(filters.queries))
    if len(numbers) <= MOST_CLASSES:
        return numbers
    weights = filters.weights or (1.0,) * len(numbers)
    return sorted(sorted(numbers, key=lambda q: -weights[q])[:MOST_CLASSES])
