"""A few adaptive decisions: phases that shrink every open query, then one fixed order.

Paper: Munagala, Srivastava, Widom, "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007, states that
k - 2 adaptive decisions suffice for O(k²) times the best where no query has more than k filters, and omits the proof. The
construction is ours; its cost is within 2 + 3 + … + k times the best: 2 for k = 2, 5 for k = 3.

    paper    here          meaning
    kappa    k             most unevaluated filters of an open class
    e_j      values[j]     share of rows filter j is evaluated on, in a linear program that no strategy can beat

While k > 2, a phase solves the hitting set (the values of each class sum up to 1) and evaluates every filter of at least 1/k:
each class loses one or more. What is left has pairs and single filters; there a filter runs on at least the rows on which a
partner passes, the cover is what reaches 1/2, and the order is the cover first, then the rest, each only where it is needed.

A program is solved for each group at which a phase begins: about two milliseconds each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eddyline.routing.beliefs import WINDOW_ROWS, Believer
from eddyline.routing.chunks import Chunks
from eddyline.routing.fixed_greedy import ranked_filters
from eddyline.routing.linear_programs import Demand, least_cost
from eddyline.routing.policy import FilterSet, OrderChange, RowGroup, Statistics, bits

SOLVED_TO = 1e-7  # what a solver leaves of a value that should be 1/2 is still one half


class PhasedPolicy(Believer):
    """Plans a phase at a time by linear programs."""

    name = "phased"

    def __init__(
        self,
        filters: FilterSet,
        *,
        start: Sequence[int] | None = None,  # as every policy has it; what a phase evaluates is by cost alone
        statistics: Statistics,
        window_rows: int = WINDOW_ROWS,
        pass_rate: Sequence[float] | None = None,
    ) -> None:
        super().__init__(
            filters, start=start, statistics=statistics, window_rows=window_rows, pass_rate=pass_rate
        )
        self._chunks = Chunks(filters, self.planned_filters)

    def planned_filters(self, group: RowGroup) -> tuple[int, ...]:
        """What is evaluated from a group on, until the next decision."""
        remaining_filters = {
            self.filters.filters_of[q] & ~group.evaluated_filters for q in bits(group.open_classes)
        } - {0}
        most = max(waiting.bit_count() for waiting in remaining_filters)
        classes = [tuple(bits(waiting)) for waiting in sorted(remaining_filters)]
        return self._last_order(classes) if most <= 2 else self._hitting_set(classes, most)

    def _hitting_set(self, classes: list[tuple[int, ...]], most: int) -> tuple[int, ...]:
        beliefs = self.beliefs
        demands = [Demand(dict.fromkeys(waiting, 1.0), 1.0) for waiting in classes]
        values = least_cost(beliefs.cost_s, demands).values
        hitting_filters = {j for waiting in classes for j in waiting if values[j] >= 1 / most - SOLVED_TO}
        return ranked_filters(sorted(hitting_filters), beliefs.pass_rate, beliefs.cost_s)

    def _last_order(self, classes: list[tuple[int, ...]]) -> tuple[int, ...]:
        beliefs = self.beliefs
        no_partner = [1.0] * self.filters.n_filters  # chance that no partner of the filter passes
        for waiting in classes:
            for filter_ in waiting:
                for partner in waiting:
                    if partner != filter_:
                        no_partner[filter_] *= 1 - beliefs.pass_rate[partner]
        demands = [Demand(dict.fromkeys(waiting, 1.0), 1.0) for waiting in classes]
        values = least_cost(beliefs.cost_s, demands, lower=[1 - chance for chance in no_partner]).values
        needed_filters = {filter_ for waiting in classes for filter_ in waiting}
        cover = {filter_ for filter_ in needed_filters if values[filter_] >= 1 / 2 - SOLVED_TO}
        return (
            *ranked_filters(sorted(cover), beliefs.pass_rate, beliefs.cost_s),
            *ranked_filters(sorted(needed_filters - cover), beliefs.pass_rate, beliefs.cost_s),
        )

    def choice(self, group: RowGroup) -> int | None:
        """Which filter these rows run next; None at the end of their way."""
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

    def snapshot(self) -> dict[str, Any]:
        """The first phase, and what it rests on."""
        start = self.filters.start
        first = self.planned_filters(start) if self.filters.needed_filters(start) else ()
        return {
            **super().snapshot(),
            "root": first[0] if first else None,
            "first_phase": list(first),
        }

    def check(self) -> None:
        super().check()
        self._chunks.check()
