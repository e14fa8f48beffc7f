"""Tickets: a lottery in which filters win chances by taking rows and lose them by giving rows back.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: the routing policy
of the eddy.

    paper            here             meaning
    tickets          tickets[k]       chances of filter k in the lottery, never below `floor`
    credit           gained           tickets for taking a row: queries it is asked for
    debit            lost             tickets for giving it back

    accounting       gained                                lost
    predicate        queries still open that need it       the same, if the row passes
    tuple            queries that need it                  the same, if the row is not done: some query is undecided after it

Differs from the paper: its sentence reads as `tuple`, its figures as `predicate`, which is the default. Tickets decay, by half in
a thousand sampled rows, so that a filter added late catches up. A filter's chance is divided by its cost. Only sampled
rows count, each walking on its own as in the paper; rows of one group go one way in a batch, drawn by seed, batch and group.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, Self

from eddyline.routing.learner import Learner
from eddyline.routing.policy import FilterSet, OrderChange, Profile, RowGroup, Statistics, bits
from eddyline.statistics import uniform_of

DECAY = 0.5  # of all tickets, in DECAY_ROWS sampled rows
DECAY_ROWS = 1000
FLOOR = 1.0

Accounting = Literal["predicate", "tuple"]


class Tickets(Learner):
    """Draws the next filter by lottery."""

    name = "tickets"

    def __init__(
        self,
        filters: FilterSet,
        *,
        start: Sequence[int],
        statistics: Statistics,
        accounting: Accounting = "predicate",
        decay: float = DECAY,
        floor: float = FLOOR,
        seed: int = 0,
    ) -> None:
        assert accounting in ("predicate", "tuple"), accounting
        assert 0 < decay <= 1, decay
        assert floor > 0, floor
        super().__init__(filters, start=start, statistics=statistics)
        self.accounting = accounting
        self.decay = decay
        self.floor = floor
        self.seed = seed
        self.tickets = [floor] * filters.n_filters
        self.n_batches = 0
        self.n_sampled_rows = 0  # sampled rows

    def next(self, group: RowGroup) -> int:
        return self._drawn_filter(group, uniform_of(self.seed, self.n_batches, *group))

    def learn(self, profile: Profile, statistics: Statistics) -> list[OrderChange]:
        self.statistics = statistics
        everything = self.filters.start.open_classes
        for row, dropped in enumerate(profile.dropped_mask):
            self.walk(dropped.tolist(), profile.open_classes[row] if profile.open_classes else everything)
        decay_factor = self.decay ** (len(profile) / DECAY_ROWS)
        self.tickets = [max(self.floor, decay_factor * held) for held in self.tickets]
        self.n_batches += 1
        return []

    def walk(self, dropped: Sequence[bool], still_open: int) -> int:
        """Let one row go by the lottery, and account for it; how many filters it ran."""
        group = RowGroup(0, 0, still_open)
        n_run = 0
        while self.filters.needed_filters(group):
            k = self._drawn_filter(group, uniform_of(self.seed, -1 - self.n_sampled_rows, n_run))
            passed = not dropped[k]
            members = self.filters.members[k]
            after = group.open_classes if passed else group.open_classes & ~members
            gained = self._weight(members if self.accounting == "tuple" else members & group.open_classes)
            group = RowGroup(group.evaluated_filters | 1 << k, group.passed_filters | int(passed) << k, after)
            is_back = passed if self.accounting == "predicate" else self.filters.needed_filters(group) != 0
            if not is_back:  # otherwise all that was gained is lost again
                self.tickets[k] += gained
            n_run += 1
        self.n_sampled_rows += 1
        return n_run

    def settings(self) -> dict[str, Any]:
        return {"accounting": self.accounting, "decay": self.decay, "floor": self.floor, "seed": self.seed}

    def inherit(self, before: Self, same: Mapping[int, int]) -> None:
        """Filters that were there before keep their tickets."""
        for new, old in same.items():
            self.tickets[new] = before.tickets[old]
        self.n_batches, self.n_sampled_rows = before.n_batches, before.n_sampled_rows

    def snapshot(self) -> dict[str, Any]:
        total = sum(self.tickets)
        return {
            **super().snapshot(),
            "tickets": list(self.tickets),
            "share": [held / total for held in self.tickets],
            "rows": self.n_sampled_rows,
        }

    def check(self) -> None:
        assert len(self.tickets) == self.filters.n_filters
        assert min(self.tickets, default=self.floor) >= self.floor, self.tickets

    def _drawn_filter(self, group: RowGroup, uniform: float) -> int:
        offered = list(bits(self.filters.needed_filters(group)))
        assert offered, f"no open class needs another filter: {group}"
        cost_s = self.statistics.cost_s
        chances = list(accumulate(self.tickets[k] / float(cost_s[k]) for k in offered))
        return offered[min(bisect_right(chances, uniform * chances[-1]), len(offered) - 1)]

    def _weight(self, classes: int) -> float:
        """How many queries these classes are."""
        weights = self.filters.weights
        return sum(weights[number] for number in bits(classes)) if weights else float(classes.bit_count())
