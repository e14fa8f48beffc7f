"""Auto: several policies learn side by side, and the one that would have been cheapest on the last sampled rows decides.

Papers: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004, and "Optimization
of Continuous Queries with Shared Expensive Filters", PODS 2007, leave open which of their algorithms to run when.

The counter: for every sampled row, which knows what all filters say of it, the seconds each policy would have spent on it. That
is the sum over the filters it would have run there, each by its measured mean, plus the measured overhead of its way of running:
level by level, or by tree. A policy is charged before it learns from the row. Older rows count less.

A challenger takes over when it is cheaper than the incumbent by `MARGIN`, on `LEAST_ROWS` rows since the data last changed. So
two that are alike do not take turns. What lost and why: docs/decisions/0016-which-policy-decides.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eddyline.routing.in_order import InOrder
from eddyline.routing.learner import Learner
from eddyline.routing.policy import FilterSet, FloatVector, Group, Profile, Statistics

MARGIN = 0.03  # of the incumbent's cost
LEAST_ROWS = 50
HALF_LIFE_ROWS = 300  # of sampled rows
SCORED_ROWS = 64  # of a batch: the newest


@dataclass(frozen=True)
class Switch:
    """Another policy decides from now on; costs are seconds on a row, by the counter."""

    before: str
    after: str
    before_s: float
    after_s: float


class Competition:
    """Keeps the score."""

    def __init__(self, incumbent: str) -> None:
        self.incumbent = incumbent
        self._seconds: dict[str, float] = {}
        self._weight = 0.0
        self._n_rows = 0

    def score(
        self,
        candidates: Mapping[str, Learner],
        profile: Profile,
        statistics: Statistics,
        overhead_s: Mapping[str, float],
    ) -> Switch | None:
        """Charge everybody for sampled rows, before they learn from them."""
        n = min(len(profile), SCORED_ROWS)
        if not n:
            return None
        rows = Profile(profile.dropped[-n:], profile.known[-n:], profile.open[-n:])
        kept = 0.5 ** (n / HALF_LIFE_ROWS)
        for name, policy in candidates.items():
            spent = float(seconds_on(policy, rows, statistics).sum()) + n * overhead_s[name]
            self._seconds[name] = kept * self._seconds.get(name, 0.0) + spent
        self._weight = kept * self._weight + n
        self._n_rows += n
        return self._decided()

    def restart(self) -> None:
        """The data is no longer what it was: nobody has a score, the incumbent stays until others have earned one."""
        self._seconds, self._weight, self._n_rows = {}, 0.0, 0

    @property
    def cost_s(self) -> dict[str, float]:
        """Seconds on a row of each policy."""
        return (
            {name: seconds / self._weight for name, seconds in self._seconds.items()} if self._weight else {}
        )

    def _decided(self) -> Switch | None:
        if self._n_rows < LEAST_ROWS:
            return None
        costs = self.cost_s
        best = min(costs, key=lambda name: (costs[name], name != self.incumbent))
        mine = costs[self.incumbent]
        if costs[best] >= (1 - MARGIN) * mine:
            return None
        switch = Switch(self.incumbent, best, mine, costs[best])
        self.incumbent = best
        return switch


def seconds_on(policy: Learner, rows: Profile, statistics: Statistics) -> FloatVector:
    """What the filters that a policy would run on each row take."""
    return (
        _by_levels(policy, rows, statistics)
        if isinstance(policy, InOrder)
        else _by_groups(policy, rows, statistics)
    )


def _by_levels(policy: InOrder, rows: Profile, statistics: Statistics) -> FloatVector:
    filters, n = policy.filters, len(rows)
    words = _words(rows.open or (filters.start.open,) * n, len(filters.queries))
    members = _words(filters.members, len(filters.queries))
    cores = filters.cores or tuple(range(filters.n_filters))
    core_known: dict[int, np.ndarray] = {}
    seconds = np.zeros(n)
    for k in policy.order:
        needs = (words & members[k]).any(axis=1)
        if not needs.any():
            continue
        known = core_known.setdefault(cores[k], np.zeros(n, bool))
        seconds += np.where(needs, np.where(known, statistics.follow_cost_s[k], statistics.cost_s[k]), 0.0)
        known |= needs
        words[needs & rows.dropped[:, k]] &= ~members[k]
    return seconds


def _by_groups(policy: Learner, rows: Profile, statistics: Statistics) -> FloatVector:
    filters = policy.filters
    cores = filters.cores or tuple(range(filters.n_filters))
    cost_s, follow_s = statistics.cost_s.tolist(), statistics.follow_cost_s.tolist()
    seconds = np.zeros(len(rows))
    drops = [
        int.from_bytes(each.tobytes(), "little")
        for each in np.packbits(rows.dropped, axis=1, bitorder="little")
    ]
    for number, dropped in enumerate(drops):
        group = Group(0, 0, rows.open[number] if rows.open else filters.start.open)
        seen: set[int] = set()
        spent = 0.0
        while filters.needed(group):
            k = policy.next(group)
            spent += follow_s[k] if cores[k] in seen else cost_s[k]
            seen.add(cores[k])
            group = _after(filters, group, k, is_dropped=bool(dropped >> k & 1))
        seconds[number] = spent
    return seconds


def _after(filters: FilterSet, group: Group, k: int, *, is_dropped: bool) -> Group:
    bit = 1 << k
    if is_dropped:
        return Group(group.evaluated | bit, group.passed, group.open & ~filters.members[k])
    return Group(group.evaluated | bit, group.passed | bit, group.open)


def _words(sets: tuple[int, ...], n_classes: int) -> np.ndarray:
    n_words = max(1, -(-n_classes // 64))
    packed = b"".join(each.to_bytes(8 * n_words, "little") for each in sets)
    return np.frombuffer(packed, np.uint64).reshape(len(sets), n_words).copy()
