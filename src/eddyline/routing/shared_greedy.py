"""Shared Greedy: each group of rows runs the filter that resolves most queries per second, by what is known of it so far.

Paper: Munagala, Srivastava, Widom, "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007: the Greedy
strategy, for independent and for correlated filters.

    paper      here                   meaning
    F_j        filter                 one distinct expensive clause, evaluated once for all queries
    Q_i        class                  a distinct set of filters, with the number of queries that have it
    s_j        pass_rate              share of rows a filter lets through, given the results so far
    c_j        cost_s                 mean seconds on one row
    p_j        participation          open queries that have the filter
    pRank_j    rank                   cost_s / (participation (1 - pass_rate)): seconds per query resolved

A class of which one filter is left forces it: nothing else can resolve that class if the filter passes it, so it costs nothing to
run it now. Otherwise the least rank wins.

Differs from the paper: costs and pass rates are learned from sampled rows (`beliefs.py`); a pass rate given results counts the
sampled rows that agree with them, smoothed by the marginal; a filter whose core has run on these rows costs what it then takes; a
free filter has rank 0, one that drops nothing is last; on a tie the filter that is earlier in `start` wins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from eddyline.routing.beliefs import WINDOW_ROWS, Believer
from eddyline.routing.policy import FilterSet, OrderChange, RowGroup, Statistics, after

SMOOTHING = 10.0  # sampled rows that the marginal counts for against those that agree
MOST_DECISIONS = 1 << 15  # kept; then all are forgotten, and what is still met is decided anew
SHOWN_LEVELS = 4


class SharedGreedy(Believer):
    """Decides per group, and remembers what it decided until what it believes changes."""

    name = "shared_greedy"

    def __init__(
        self,
        filters: FilterSet,
        *,
        start: Sequence[int] | None = None,
        statistics: Statistics,
        window_rows: int = WINDOW_ROWS,
        smoothing: float = SMOOTHING,
        is_conditional: bool = True,
        pass_rate: Sequence[float] | None = None,
    ) -> None:
        super().__init__(
            filters, start=start, statistics=statistics, window_rows=window_rows, pass_rate=pass_rate
        )
        self._smoothing = smoothing
        self._is_conditional = is_conditional
        self._decisions: dict[RowGroup, int] = {}
        self._weights = _planes(filters)
        cores = _core_mates(filters)
        self._places = [(k, 1 << k, filters.members[k], cores[k]) for k in self.start if filters.members[k]]
        self._first_ranks = self._ranked_filters(filters.start)

    def __getstate__(self) -> dict[str, Any]:
        """Decisions can be made again wherever it is sent."""
        return {**self.__dict__, "_decisions": {}}

    # ------------------------------------------------------------------------------------- deciding

    def next(self, group: RowGroup) -> int:
        """Which filter these rows run next."""
        decided = self._decisions.get(group)
        if decided is None:
            decided = self.decide(group)
            if len(self._decisions) >= MOST_DECISIONS:
                self._decisions.clear()
            self._decisions[group] = decided
        return decided

    def decide(self, group: RowGroup) -> int:
        """What `next` answers, worked out anew."""
        waiting = self._needed_filters(group)
        assert waiting, f"no open class of {group} needs a filter"
        in_one = in_several = 0
        for _, here, _ in waiting:
            in_several |= in_one & here
            in_one |= here
        if last := in_one & ~in_several:  # classes with one filter left
            return next(k for k, here, _ in waiting if here & last)
        chosen, least = waiting[0][0], math.inf
        for k, rank in self._ranks(group, waiting):
            if rank < least:
                chosen, least = k, rank
        return chosen

    def _needed_filters(self, group: RowGroup) -> list[tuple[int, int, int]]:
        """What a group needs, in the order of `start`: filter, open classes that have it, evaluated filters of its core."""
        evaluated, still_open = group.evaluated_filters, group.open_classes
        return [
            (k, here, evaluated & mates)
            for k, bit, members, mates in self._places
            if not evaluated & bit and (here := members & still_open)
        ]

    def _ranks(self, group: RowGroup, needed: list[tuple[int, int, int]]) -> Iterator[tuple[int, float]]:
        """Seconds per query resolved, of each filter."""
        beliefs, smoothing = self.beliefs, self._smoothing
        rows = beliefs.agreeing_rows(group) if self._is_conditional and beliefs.n_rows else 0
        for k, here, mates in needed:
            cost_s = (beliefs.follow_cost_s if mates else beliefs.cost_s)[k]
            passing = beliefs.pass_rate_among(rows, k, smoothing) if rows else beliefs.pass_rate[k]
            resolved = self._participation(here) * (1 - passing)
            if cost_s <= 0:
                yield k, 0.0
            else:
                yield k, cost_s / resolved if resolved > 0 else math.inf

    def _participation(self, classes: int) -> float:
        return sum(weight * (classes & plane).bit_count() for weight, plane in self._weights)

    def rank_order(self, group: RowGroup) -> tuple[int, ...]:
        """What a group needs, by rank as of now: the fixed order for rows too few to be decided about again."""
        return tuple(k for k, _ in self._ranked_filters(group))

    def _ranked_filters(self, group: RowGroup) -> list[tuple[int, float]]:
        return sorted(self._ranks(group, self._needed_filters(group)), key=lambda ranked: ranked[1])

    def pass_rate(self, group: RowGroup, filter_: int) -> float:
        """The share of a group's rows that a filter is believed to let through."""
        beliefs = self.beliefs
        if not self._is_conditional:
            return beliefs.pass_rate[filter_]
        return beliefs.pass_rate_among(beliefs.agreeing_rows(group), filter_, self._smoothing)

    # ------------------------------------------------------------------------------------- learning

    def _order_changes(self) -> list[OrderChange]:
        """The change is one of the ranks for rows on which nothing has run; its ratios are queries resolved per second."""
        self._decisions.clear()
        before, self._first_ranks = self._first_ranks, self._ranked_filters(self.filters.start)
        old, new = (tuple(k for k, _ in ranks) for ranks in (before, self._first_ranks))
        at = next(
            (
                at
                for at, (displaced, entering) in enumerate(zip(old, new, strict=True))
                if displaced != entering
            ),
            None,
        )
        if at is None:
            return []
        entering, displaced, now = new[at], old[at], dict(self._first_ranks)
        return [
            OrderChange(
                old, new, at, entering, displaced, _per_second(now[entering]), _per_second(now[displaced])
            )
        ]

    def settings(self) -> dict[str, Any]:
        return {
            **super().settings(),
            "smoothing": self._smoothing,
            "is_conditional": self._is_conditional,
        }

    @property
    def current_order(self) -> tuple[int, ...]:
        """By rank for rows on which nothing has run; filters no class has are last."""
        ranked = self.rank_order(self.filters.start)
        return (*ranked, *(k for k in self.start if k not in ranked))

    # ------------------------------------------------------------------------------------- looking

    def snapshot(self) -> dict[str, Any]:
        """The first choice, the first levels of the tree, and what they rest on; shares and rates are of all rows."""
        tree = self._shown(self.filters.start, 1.0, SHOWN_LEVELS)
        return {
            **super().snapshot(),
            "root": None if tree is None else tree["filter"],
            "tree": tree,
            "decisions": len(self._decisions),
        }

    def _shown(self, group: RowGroup, share: float, levels: int) -> dict[str, Any] | None:
        if levels == 0 or not self.filters.needed_filters(group):
            return None
        filter_ = self.next(group)
        passing = self.pass_rate(group, filter_)
        return {
            "filter": filter_,
            "share": share,
            "yes": self._shown(after(self.filters, group, filter_, passes=True), share * passing, levels - 1),
            "no": self._shown(
                after(self.filters, group, filter_, passes=False), share * (1 - passing), levels - 1
            ),
        }

    def check(self) -> None:
        super().check()
        assert len(self._decisions) <= MOST_DECISIONS, len(self._decisions)
        for group, filter_ in self._decisions.items():
            assert self.filters.needed_filters(group) >> filter_ & 1, (
                f"{group} runs {filter_}, which it does not need"
            )
            assert not group.passed_filters & ~group.evaluated_filters, f"{group} passed what it has not run"


def _planes(filters: FilterSet) -> list[tuple[float, int]]:
    """Weights of classes as few sets of classes with a weight each, whose sums are the weights: a set is counted at once."""
    weights = filters.weights or (1.0,) * len(filters.queries)
    by_value: dict[float, int] = {}
    for number, weight in enumerate(weights):
        by_value[weight] = by_value.get(weight, 0) | 1 << number
    if not all(float(weight).is_integer() and weight >= 0 for weight in by_value):
        return list(by_value.items())
    digits = [
        (float(1 << digit), sum(classes for weight, classes in by_value.items() if int(weight) >> digit & 1))
        for digit in range(int(max(weights, default=0)).bit_length())
    ]
    return min((list(by_value.items()), digits), key=len)


def _core_mates(filters: FilterSet) -> list[int]:
    """For each filter the others of its core."""
    if not filters.cores:
        return [0] * filters.n_filters
    members: dict[int, int] = {}
    for k, core in enumerate(filters.cores):
        members[core] = members.get(core, 0) | 1 << k
    return [members[core] & ~(1 << k) for k, core in enumerate(filters.cores)]


def _per_second(rank: float) -> float:
    return 1 / rank if rank > 0 else math.inf
