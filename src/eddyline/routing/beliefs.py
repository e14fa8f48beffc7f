"""What policies for shared filters believe of them: selectivities and costs, alone and given results.

Paper: Munagala, Srivastava, Widom, "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007, takes both
as known constants. Here they are learned: a sample of rows has all filters evaluated, also where they pass, and the last
thousand of these rows are kept.

    paper    here             meaning
    s_j      pass_rate[j]     share of rows filter j lets through; half of them before anything was seen
    c_j      cost_s[j]        mean seconds on one row

Believed is what was learned when a generation began. A generation ends when some filter passes or costs something else than it
did then, by more than a tenth and more than chance explains, when the sample has doubled, or after 64 calls; until then decisions
can be kept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from eddyline.routing.learner import Learner
from eddyline.routing.policy import (
    BoolMatrix,
    FilterSet,
    FloatVector,
    OrderChange,
    Profile,
    RowGroup,
    Statistics,
)

WINDOW_ROWS = 1000
MOVED = 0.1  # relative: from here on a selectivity or a cost is another one
STANDARD_ERRORS = 2.0  # a selectivity that moved by less may have stood still
CALLS_OF_A_GENERATION = 64
LEAST_RATE, MOST_RATE = 0.001, 0.999  # a sample cannot tell never from seldom


@dataclass(frozen=True)
class Beliefs:
    """What the decisions of one generation rest on. Sampled rows are numbers, sets of them are bits of a Python int."""

    generation: int
    pass_rate: tuple[float, ...]
    cost_s: tuple[float, ...]
    follow_cost_s: tuple[float, ...]
    n_rows: int
    passed_rows: tuple[int, ...]  # rows each filter lets through
    dropped_rows: tuple[int, ...]  # rows each filter drops; those it was not evaluated on are in neither

    def agreeing_rows(self, group: RowGroup) -> int:
        """The sampled rows on which every filter the group has run gave what it gave there."""
        rows = (1 << self.n_rows) - 1
        evaluated = group.evaluated_filters
        while evaluated and rows:
            lowest = evaluated & -evaluated
            evaluated ^= lowest
            rows &= (self.passed_rows if group.passed_filters & lowest else self.dropped_rows)[
                lowest.bit_length() - 1
            ]
        return rows

    def pass_rate_among(self, rows: int, filter_: int, smoothing: float) -> float:
        """The share that passes of some sampled rows; as many as `smoothing` count for what passes of all."""
        n_passed = (rows & self.passed_rows[filter_]).bit_count()
        n_known = n_passed + (rows & self.dropped_rows[filter_]).bit_count()
        if n_known == 0:
            return self.pass_rate[filter_]
        return (n_passed + smoothing * self.pass_rate[filter_]) / (n_known + smoothing)


class LearnedBeliefs:
    """Beliefs that follow what is sampled.

    `pass_rate` declares selectivities: they are believed as they are, whatever passes.
    """

    def __init__(
        self,
        filters: FilterSet,
        statistics: Statistics,
        *,
        window_rows: int = WINDOW_ROWS,
        pass_rate: Sequence[float] | None = None,
    ) -> None:
        assert pass_rate is None or len(pass_rate) == filters.n_filters, (pass_rate, filters.n_filters)
        self.window_rows = window_rows
        self._declared_pass_rate = None if pass_rate is None else np.asarray(pass_rate, np.float64)
        self._known_mask: BoolMatrix = np.zeros((0, filters.n_filters), bool)
        self._dropped_mask: BoolMatrix = self._known_mask
        self._calls = 0
        self.beliefs = self._current_beliefs(0, statistics)

    def learn(self, profile: Profile, statistics: Statistics) -> bool:
        """Take in sampled rows. True if a generation ended: `beliefs` are new then."""
        self._known_mask = np.concatenate([self._known_mask, profile.known_mask])[-self.window_rows :]
        self._dropped_mask = np.concatenate([self._dropped_mask, profile.dropped_mask])[-self.window_rows :]
        self._calls += 1
        has_grown = self.n_rows >= 2 * max(self.beliefs.n_rows, 1)
        if not has_grown and self._calls < CALLS_OF_A_GENERATION and not self._have_moved(statistics):
            return False
        self._renew(statistics)
        return True

    def inherit(self, before: LearnedBeliefs, same: Mapping[int, int], statistics: Statistics) -> None:
        """Take over the sampled rows of other filters; `same` has the old number of those that were there."""
        shape = (before.n_rows, self._known_mask.shape[1])
        self._known_mask, self._dropped_mask = np.zeros(shape, bool), np.zeros(shape, bool)
        for new, old in same.items():
            self._known_mask[:, new] = before._known_mask[:, old]
            self._dropped_mask[:, new] = before._dropped_mask[:, old]
        self._renew(statistics)

    def forget(self) -> None:
        """Lose the sampled rows. What is believed stays until new ones say otherwise."""
        self._known_mask = self._dropped_mask = self._known_mask[:0]

    def _renew(self, statistics: Statistics) -> None:
        self._calls = 0
        self.beliefs = self._current_beliefs(self.beliefs.generation + 1, statistics)

    @property
    def n_rows(self) -> int:
        return len(self._known_mask)

    def _have_moved(self, statistics: Statistics) -> bool:
        for now_s, then_s in (
            (statistics.cost_s, self.beliefs.cost_s),
            (statistics.follow_cost_s, self.beliefs.follow_cost_s),
        ):
            if (np.abs(now_s - then_s) > MOVED * np.asarray(then_s)).any():
                return True
        if self._declared_pass_rate is not None:
            return False
        now, then = self._pass_rate(), np.asarray(self.beliefs.pass_rate)
        by = np.abs(now - then)
        by_chance = STANDARD_ERRORS * np.sqrt(now * (1 - now) / np.maximum(self._known_mask.sum(axis=0), 1))
        return bool(((by > MOVED * np.minimum(then, 1 - then)) & (by > by_chance)).any())

    def _pass_rate(self) -> FloatVector:
        if self._declared_pass_rate is not None:
            return self._declared_pass_rate
        n_known = self._known_mask.sum(axis=0)
        rate: FloatVector = (n_known - self._dropped_mask.sum(axis=0) + 1) / (n_known + 2)
        return np.clip(rate, LEAST_RATE, MOST_RATE)

    def _current_beliefs(self, generation: int, statistics: Statistics) -> Beliefs:
        return Beliefs(
            generation,
            tuple(self._pass_rate().tolist()),
            tuple(statistics.cost_s.tolist()),
            tuple(statistics.follow_cost_s.tolist()),
            self.n_rows,
            _columns(self._known_mask & ~self._dropped_mask),
            _columns(self._dropped_mask),
        )

    def check(self) -> None:
        assert self.n_rows <= self.window_rows, (self.n_rows, self.window_rows)
        assert not (self._dropped_mask & ~self._known_mask).any(), (
            "a row was dropped by a filter that did not run on it"
        )
        assert self._calls < CALLS_OF_A_GENERATION, self._calls
        beliefs = self.beliefs
        for passed, dropped in zip(beliefs.passed_rows, beliefs.dropped_rows, strict=True):
            assert not passed & dropped, "a row both passes and is dropped"
            assert (passed | dropped).bit_length() <= beliefs.n_rows, beliefs.n_rows
        assert all(0 <= rate <= 1 for rate in beliefs.pass_rate), beliefs.pass_rate


class Believer(Learner):
    """A policy that decides by beliefs, and anew when they change."""

    def __init__(
        self,
        filters: FilterSet,
        *,
        start: Sequence[int] | None = None,
        statistics: Statistics,
        window_rows: int = WINDOW_ROWS,
        pass_rate: Sequence[float] | None = None,
    ) -> None:
        self.start = tuple(range(filters.n_filters) if start is None else start)
        assert sorted(self.start) == list(range(filters.n_filters)), (start, filters.n_filters)
        super().__init__(filters, start=self.start, statistics=statistics)
        self._beliefs_source = LearnedBeliefs(
            filters, statistics, window_rows=window_rows, pass_rate=pass_rate
        )

    @property
    def beliefs(self) -> Beliefs:
        return self._beliefs_source.beliefs

    @property
    def generation(self) -> int:
        """Counts up when decisions may change. Until then a group's decision stays."""
        return self.beliefs.generation

    def learn(self, profile: Profile, statistics: Statistics) -> list[OrderChange]:
        """Take in sampled rows; with a new generation decisions are made anew."""
        self.statistics = statistics
        return self._order_changes() if self._beliefs_source.learn(profile, statistics) else []

    @abstractmethod
    def _order_changes(self) -> list[OrderChange]:
        """Beliefs are new: forget what was decided on the old ones, and say what changed."""

    def forget(self) -> None:
        self._beliefs_source.forget()

    def settings(self) -> dict[str, Any]:
        """Without declared pass rates, which are of these filters alone."""
        return {"window_rows": self._beliefs_source.window_rows}

    def inherit(self, before: Self, same: Mapping[int, int]) -> None:
        """Sampled rows stay; of filters that came they know nothing."""
        self._beliefs_source.inherit(before._beliefs_source, same, self.statistics)
        self._order_changes()

    @property
    def current_order(self) -> tuple[int, ...]:
        return self.start

    def snapshot(self) -> dict[str, Any]:
        beliefs = self.beliefs
        return {
            **super().snapshot(),
            "pass_rate": list(beliefs.pass_rate),
            "cost_s": list(beliefs.cost_s),
            "generation": beliefs.generation,
            "sampled_rows": self._beliefs_source.n_rows,
        }

    def check(self) -> None:
        self._beliefs_source.check()


def _columns(rows: BoolMatrix) -> tuple[int, ...]:
    """Each column as the bitset of the rows that are true in it."""
    packed = np.packbits(rows.T, axis=1, bitorder="little")
    return tuple(int.from_bytes(column.tobytes(), "little") for column in packed)
