"""Auto: several policies learn side by side, and the one that would have been cheapest on the last sampled rows decides.

Papers: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004, and "Optimization
of Continuous Queries with Shared Expensive Filters", PODS 2007, leave open which of their algorithms to run when.

The counter: for sampled rows, which know what all filters say of them, the seconds each policy would have spent on them. That is
the sum over the filters it would have run there, each by its measured mean, plus the measured overhead of its way of running:
level by level, or by tree. A policy is charged before it learns from the row. Older rows count less.

A challenger takes over when it is cheaper than the incumbent by `MARGIN` and by more than chance explains, on `LEAST_ROWS` rows
since the data last changed. So two that are alike do not take turns. What lost and why:
docs/decisions/0016-which-policy-decides.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eddyline.routing.in_order import InOrder
from eddyline.routing.learner import Learner
from eddyline.routing.policy import FloatVector, Profile, RowGroup, Statistics, bits

MARGIN = 0.03  # of the incumbent's cost
DEVIATIONS = 2.0  # of the mean difference: less may be chance
LEAST_ROWS = 50
HALF_LIFE_ROWS = 100  # of sampled rows
KEPT_ROWS = 4 * HALF_LIFE_ROWS


@dataclass(frozen=True)
class Switch:
    """Another policy decides from now on; costs are seconds on a row, by the counter."""

    before: str
    after: str
    before_s: float
    after_s: float


class Competition:
    """The cost of each candidate policy on the last rows, and whether another should decide."""

    def __init__(self, incumbent: str) -> None:
        self.incumbent = incumbent
        self._seconds: dict[str, FloatVector] = {}  # of the last rows, the newest last

    def score(
        self,
        candidates: Mapping[str, Learner],
        profile: Profile,
        statistics: Statistics,
        overhead_s: Mapping[str, float],
        *,
        most: int = KEPT_ROWS,
    ) -> Switch | None:
        """Charge every policy for sampled rows, before they learn from them: for the newest ones, `most` of them at most."""
        n = min(len(profile), most)
        if not n:
            return None
        rows = profile.part(len(profile) - n, len(profile))
        for name, policy in candidates.items():
            spent = seconds_on(policy, rows, statistics) + overhead_s[name]
            before = self._seconds.get(name, np.zeros(0))
            self._seconds[name] = np.concatenate([before, spent])[-KEPT_ROWS:]
        return self._decision()

    def restart(self) -> None:
        """The data changed: no policy has a score, the incumbent stays until others have earned one."""
        self._seconds = {}

    @property
    def cost_s(self) -> dict[str, float]:
        """Seconds on a row of each policy."""
        return {name: float(self._weights() @ seconds) for name, seconds in self._seconds.items()}

    def _weights(self) -> FloatVector:
        """What each row counts; all together 1."""
        n = max(map(len, self._seconds.values()), default=0)
        weights = 0.5 ** (np.arange(n, 0, -1) / HALF_LIFE_ROWS)
        return weights / weights.sum()

    def _decision(self) -> Switch | None:
        mine = self._seconds[self.incumbent]
        if len(mine) < LEAST_ROWS:
            return None
        costs, weights = self.cost_s, self._weights()
        best = min(costs, key=lambda name: (costs[name], name != self.incumbent))
        saved = mine - self._seconds[best]
        mean = float(weights @ saved)
        deviation = math.sqrt(float(weights**2 @ (saved - mean) ** 2))
        if mean <= max(MARGIN * costs[self.incumbent], DEVIATIONS * deviation):
            return None
        switch = Switch(self.incumbent, best, costs[self.incumbent], costs[best])
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
    words = _words(rows.open_classes or (filters.start.open_classes,) * n, len(filters.queries))
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
        words[needs & rows.dropped_mask[:, k]] &= ~members[k]
    return seconds


def _by_groups(policy: Learner, rows: Profile, statistics: Statistics) -> FloatVector:
    filters = policy.filters
    cores = filters.cores or tuple(range(filters.n_filters))
    cost_s, follow_s = statistics.cost_s.tolist(), statistics.follow_cost_s.tolist()
    seconds = np.zeros(len(rows))
    drops = [
        int.from_bytes(each.tobytes(), "little")
        for each in np.packbits(rows.dropped_mask, axis=1, bitorder="little")
    ]
    for number, dropped in enumerate(drops):
        still_open = rows.open_classes[number] if rows.open_classes else filters.start.open_classes
        remaining_filters = {
            q: filters.filters_of[q] for q in bits(still_open)
        }  # filters of open classes that have not run
        evaluated, passed, spent = 0, 0, 0.0
        evaluated_cores: set[int] = set()
        while still_open:
            k = policy.next(RowGroup(evaluated, passed, still_open))
            spent += follow_s[k] if cores[k] in evaluated_cores else cost_s[k]
            evaluated_cores.add(cores[k])
            bit = 1 << k
            evaluated |= bit
            if dropped & bit:
                still_open &= ~filters.members[k]
                continue
            passed |= bit
            for q in bits(filters.members[k] & still_open):
                remaining_filters[q] &= ~bit
                if not remaining_filters[q]:
                    still_open &= ~(1 << q)
        seconds[number] = spent
    return seconds


def _words(sets: tuple[int, ...], n_classes: int) -> np.ndarray:
    n_words = max(1, -(-n_classes // 64))
    packed = b"".join(each.to_bytes(8 * n_words, "little") for each in sets)
    return np.frombuffer(packed, np.uint64).reshape(len(sets), n_words).copy()
