"""What filters cost a row, and what walking costs besides: as measured, or as functions declare it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eddyline.routing.options import DECLARED
from eddyline.routing.policy import Statistics
from eddyline.routing.walk_records import WalkRecord, priced_record
from eddyline.statistics import LEAST_COST_S, MeasuredCosts

OVERHEAD_S = (1e-7, 5e-7)  # on a row: level by level, and by tree, until it was measured


class FilterCosts:
    """The costs of the filters of one router. With declared ones no clock is asked."""

    def __init__(self, cost_mode: str) -> None:
        self.is_declared = cost_mode == DECLARED
        self.row_s: float | None = None  # what filters take on a row, by the last batch
        self._declared_s: list[float] = []
        self._first, self._follow = MeasuredCosts(0), MeasuredCosts(0)
        self._overheads = MeasuredCosts(2, declared_s=OVERHEAD_S)

    def widen(self, declared_s: Sequence[float]) -> None:
        """More filters came, behind those there are; `declared_s` is what is said of them."""
        self._declared_s += declared_s
        self._first = self._first.widened(self._declared_s)
        self._follow = self._follow.widened([LEAST_COST_S] * len(self._declared_s))

    def keep(self, stay: Sequence[int]) -> None:
        """Forget all filters but these."""
        self._declared_s = [self._declared_s[k] for k in stay]
        self._first, self._follow = self._first.narrowed(stay), self._follow.narrowed(stay)

    def priced(self, record: WalkRecord) -> WalkRecord:
        """The record of a batch with the seconds that count."""
        return priced_record(record, OVERHEAD_S[record.is_tree]) if self.is_declared else record

    def add(self, record: WalkRecord) -> None:
        """Take in what a batch took."""
        self._overheads.add(int(record.is_tree), record.n_rows, record.overhead_s)
        first_rows, first_s = (
            record.asked_rows - record.follow_rows,
            record.seconds - record.follow_seconds,
        )
        for k in range(len(self._declared_s)):
            self._first.add(k, int(first_rows[k]), float(first_s[k]), n_calls=int(record.n_calls[k]))
            self._follow.add(k, int(record.follow_rows[k]), float(record.follow_seconds[k]))

    def statistics(self) -> Statistics:
        declared_s = np.maximum(np.array(self._declared_s), LEAST_COST_S)
        cost_s = declared_s if self.is_declared else self._first.cost_s
        return Statistics(cost_s, np.minimum(self._follow.cost_s, cost_s))

    def statistics_after(self, record: WalkRecord) -> Statistics:
        """The same, once a batch was taken in."""
        statistics = self.statistics()
        self.row_s = float(record.asked_rows @ statistics.cost_s) / max(1, record.n_rows)
        return statistics

    def overhead_s(self, *, is_tree: bool) -> float:
        """Seconds of a row besides those of filters."""
        return OVERHEAD_S[is_tree] if self.is_declared else float(self._overheads.cost_s[int(is_tree)])
