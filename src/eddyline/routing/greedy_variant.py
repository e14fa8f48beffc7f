"""Greedy in phases: the form of shared Greedy whose cost is proven to be within O(log² m log n) of the best.

Paper: Munagala, Srivastava, Widom, "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007:
GreedyVariant.

    paper          here               meaning
    r_q            false_chance       chance that a class turns out false
    Q_f, Q_t       likely_false, …    open classes that are false with a chance of at least d3; the others
    F_l            late               all unevaluated filters of Q_t
    F_h            early              filters that together make each class of Q_f false with some chance, cheapest first
    d1, d3         reach, likely      chance that F_h must reach for a class of Q_f; chance from which a class is in Q_f

A phase evaluates F_h in the order it was picked, then the rest of F_l; what is open after it begins the next one. d2 of the paper
is needed in its proof alone.

Differs from the paper: by default filters of a chunk are left out once no open class needs them, which is never dearer; line 9
subtracts, as its prose says, where a product is printed; classes count as often as there are queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eddyline.routing.beliefs import WINDOW_ROWS, Believer
from eddyline.routing.chunks import Chunks
from eddyline.routing.policy import FilterSet, OrderChange, RowGroup, Statistics, bits

REACH = 0.25  # d1
LIKELY = 0.5  # d3


@dataclass(frozen=True)
class Phase:
    """What one phase evaluates, and why."""

    false_chance: dict[int, float]  # by open class
    likely_true: tuple[int, ...]  # classes
    late: tuple[int, ...]
    early: tuple[int, ...]  # in the order picked

    @property
    def chunk(self) -> tuple[int, ...]:
        return (*self.early, *(filter_ for filter_ in self.late if filter_ not in self.early))


def phase(
    filters: FilterSet,
    group: RowGroup,
    pass_rate: Sequence[float],
    cost_s: Sequence[float],
    *,
    reach: float = REACH,
    likely: float = LIKELY,
) -> Phase:
    """The phase that begins at a group."""
    weights = filters.weights or (1.0,) * len(filters.queries)
    remaining_filters = {
        q: list(bits(filters.filters_of[q] & ~group.evaluated_filters)) for q in bits(group.open_classes)
    }
    remaining_filters = {q: waiting for q, waiting in remaining_filters.items() if waiting}
    false_chance = {
        q: 1 - math.prod(pass_rate[j] for j in waiting) for q, waiting in remaining_filters.items()
    }
    likely_true = tuple(q for q, chance in false_chance.items() if chance < likely)
    late = tuple(sorted({j for q in likely_true for j in remaining_filters[q]}))
    early: list[int] = []
    missing = {
        q: chance for q, chance in false_chance.items() if chance >= likely
    }  # rbar_q, while q is in Q_f
    reached = dict.fromkeys(missing, 0.0)  # sat_q
    while missing:
        gain: dict[int, float] = {}
        for q, still in missing.items():
            for j in remaining_filters[q]:
                if j not in early:
                    gain[j] = gain.get(j, 0.0) + weights[q] * min(still, 1 - pass_rate[j])
        best = min((cost_s[j] / gained, j) for j, gained in gain.items() if gained > 0)[1]
        early.append(best)
        for q in list(missing):
            if best in remaining_filters[q]:
                missing[q] -= 1 - pass_rate[best]  # line 9
                reached[q] += 1 - pass_rate[best]
                if reached[q] >= reach:
                    del missing[q]
    return Phase(false_chance, likely_true, late, tuple(early))


class GreedyVariant(Believer):
    """Chooses a phase at a time.

    `skips=False` is the algorithm as printed: whole chunks are evaluated, needed or not.
    """

    name = "greedy_variant"

    def __init__(
        self,
        filters: FilterSet,
        *,
        start: Sequence[int] | None = None,  # as every policy has it; a phase is picked by cost alone
        statistics: Statistics,
        window_rows: int = WINDOW_ROWS,
        skips: bool = True,
        reach: float = REACH,
        likely: float = LIKELY,
        pass_rate: Sequence[float] | None = None,
    ) -> None:
        assert 0 < reach < likely < 1, (reach, likely)
        super().__init__(
            filters, start=start, statistics=statistics, window_rows=window_rows, pass_rate=pass_rate
        )
        self._reach, self._likely = reach, likely
        self._chunks = Chunks(filters, self._planned_filters, skips=skips)

    def phase(self, group: RowGroup) -> Phase:
        """The phase that begins at a group, by what is believed now."""
        beliefs = self.beliefs
        return phase(
            self.filters, group, beliefs.pass_rate, beliefs.cost_s, reach=self._reach, likely=self._likely
        )

    def _planned_filters(self, group: RowGroup) -> tuple[int, ...]:
        return self.phase(group).chunk

    def choice(self, group: RowGroup) -> int | None:
        """Which filter these rows run next; None at the end of their way, which as printed is that of a phase."""
        return self._chunks.choice(group)

    def next(self, group: RowGroup) -> int:
        """Which filter these rows run next."""
        chosen = self.choice(group)
        assert chosen is not None, f"no open class of {group} needs a filter"
        return chosen

    def _order_changes(self) -> list[OrderChange]:
        """There is no one order whose change could be reported."""
        self._chunks.forget()
        return []

    def settings(self) -> dict[str, Any]:
        return {
            **super().settings(),
            "skips": self._chunks.skips,
            "reach": self._reach,
            "likely": self._likely,
        }

    def snapshot(self) -> dict[str, Any]:
        """The first phase, and what it rests on."""
        first = self.phase(self.filters.start)
        return {
            **super().snapshot(),
            "root": next(iter(first.chunk), None),
            "first_phase": {"early": list(first.early), "late": list(first.late)},
        }

    def check(self) -> None:
        super().check()
        self._chunks.check()
