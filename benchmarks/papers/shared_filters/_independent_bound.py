"""What no strategy can do better than if filters are independent: the linear program of the paper, and a stronger one.

Paper: Munagala, Srivastava, Widom, "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007: the linear
program behind GreedyVariant's guarantee. `eddyline.routing.lower_bounds` has the bound for correlated filters, and the symbols.

LP: for each class the sum of (1 - s_j) e_j is at least r_q, which is 1 minus the product of its filters' s_j. LP+ (ours) adds
that of each class at least one filter is evaluated, and a filter wherever all others of one of its classes are true.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from eddyline.routing.linear_programs import Demand, least_cost
from eddyline.routing.lower_bounds import largest_classes
from eddyline.routing.policy import FilterSet, FloatVector, bits

MOST_STEPS = 20_000  # of conditioning on a filter, per filter bounded


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
    for q in largest_classes(filters):
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
