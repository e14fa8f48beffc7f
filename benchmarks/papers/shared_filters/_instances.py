"""Instances of shared filters, and rows walking through strategies over them.

Costs are in the paper's units, not in seconds: only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.papers.shared_filters._decision_trees import (
    Choice,
    expected_cost_s,
    independently,
    while_needed,
)
from eddyline.routing.fixed_greedy import ranked_filters
from eddyline.routing.policy import FilterSet, Policy, RowGroup, Statistics, after
from tests.oracles import shared_filters as oracle

BoolMatrix = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Instance:
    """Queries over filters of known rates and costs."""

    queries: list[list[int]]
    pass_rate: list[float]
    cost: list[float]

    @cached_property
    def filters(self) -> FilterSet:
        return FilterSet(tuple(frozenset(query) for query in self.queries), len(self.cost))

    @property
    def known(self) -> dict[str, Any]:
        """What a policy is told that need not learn."""
        cost = np.array(self.cost)
        return {"statistics": Statistics(cost, cost), "pass_rate": self.pass_rate}

    @property
    def mu(self) -> int:
        return max(members.bit_count() for members in self.filters.members)

    @property
    def optimum(self) -> float:
        return oracle.optimal_cost(self.queries, self.pass_rate, self.cost)

    def rows(self, n: int, rng: np.random.Generator) -> BoolMatrix:
        """Random rows: which filters each passes."""
        return rng.random((n, len(self.cost))) < np.array(self.pass_rate)

    def expected(self, policy: Policy) -> float:
        """The exact cost of a policy; for few filters only."""
        choice = while_needed(self.filters, policy.next)
        return expected_cost_s(self.filters, choice, independently(self.pass_rate), self.cost)

    def alone(self) -> tuple[float, float]:
        """Cost and filter calls of a row if each query runs by itself, by rank, and shares nothing."""
        cost = calls = 0.0
        for query in self.queries:
            reached = 1.0
            for filter_ in ranked_filters(query, self.pass_rate, self.cost):
                cost += reached * self.cost[filter_]
                calls += reached
                reached *= self.pass_rate[filter_]
        return cost, calls


def small(n: int, seed: int) -> list[Instance]:
    """Random instances an optimum can be found for: 4 to 8 filters, 2 to 10 queries of 2 to 4 of them."""
    rng = np.random.default_rng(seed)
    return [random_instance(rng, int(rng.integers(4, 9)), int(rng.integers(2, 11)), (2, 4)) for _ in range(n)]


def smaller(n: int, seed: int) -> list[Instance]:
    """The same with 3 to 6 filters and 2 to 7 queries of 1 to 4, at most as many as there are."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        n_filters = int(rng.integers(3, 7))
        made.append(random_instance(rng, n_filters, int(rng.integers(2, 8)), (1, min(4, n_filters))))
    return made


def random_instance(
    rng: np.random.Generator, n_filters: int, n_queries: int, in_query: tuple[int, int]
) -> Instance:
    """Pass rates 0.05 to 0.95, costs 1 to 20."""
    sizes = rng.integers(in_query[0], in_query[1] + 1, n_queries)
    queries = [sorted(rng.choice(n_filters, size, replace=False).tolist()) for size in sizes]
    pass_rate = rng.uniform(0.05, 0.95, n_filters).tolist()
    return Instance(queries, pass_rate, rng.uniform(1, 20, n_filters).tolist())


def gap(n: int) -> Instance:
    """Where adaptive strategies win by a factor of n/e: free filters 0..n-1, dear ones n..2n-1 that pass nothing."""
    return Instance(*oracle.gap_instance(n))


# --------------------------------------------------------------------------------------------- walking


def calls_by_filter(filters: FilterSet, choice: Choice, passes: BoolMatrix) -> npt.NDArray[np.int64]:
    """How often each filter runs as rows walk; those with the same results so far walk together."""
    calls = np.zeros(filters.n_filters, np.int64)
    waiting = {filters.start: np.arange(len(passes))}
    while waiting:
        group, rows = waiting.popitem()
        filter_ = choice(group)
        if filter_ is None:
            continue
        calls[filter_] += len(rows)
        does_pass = passes[rows, filter_]
        for result in (True, False):
            part = rows[does_pass == result]
            if len(part):
                waiting[after(filters, group, filter_, passes=result)] = part
    return calls


def calls_in_order(filters: FilterSet, order: Sequence[int], passes: BoolMatrix) -> npt.NDArray[np.int64]:
    """The same for a fixed order, level by level: a bitset of open classes for each row."""
    n_words = -(-len(filters.queries) // 64)
    position = {filter_: at for at, filter_ in enumerate(order)}
    ends = [0] * filters.n_filters  # classes of which a filter is the last in the order
    for number, query in enumerate(filters.queries):
        if query:
            ends[max(query, key=position.__getitem__)] |= 1 << number
    everything = sum(ends)
    calls = np.zeros(filters.n_filters, np.int64)
    for first in range(0, len(passes), 10_000):
        some = passes[first : first + 10_000]
        still_open = np.tile(_words(everything, n_words), (len(some), 1))
        for filter_ in order:
            members = _words(filters.members[filter_], n_words)
            touched = np.flatnonzero(members)
            runs = (still_open[:, touched] & members[touched]).any(axis=1)
            calls[filter_] += int(runs.sum())
            still_open[runs & ~some[:, filter_]] &= ~members
            still_open[runs & some[:, filter_]] &= ~_words(ends[filter_], n_words)
    return calls


def _words(of: int, n_words: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(of.to_bytes(8 * n_words, "little"), np.uint64)


def one_row(filters: FilterSet, choice: Choice, passes: Sequence[bool]) -> list[int]:
    """The filters that run on a row, in their order."""
    group: RowGroup = filters.start
    ran: list[int] = []
    while (filter_ := choice(group)) is not None:
        ran.append(filter_)
        group = after(filters, group, filter_, passes=passes[filter_])
    return ran
