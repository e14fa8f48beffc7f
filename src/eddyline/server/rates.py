"""Rows, results and rounds a second over the last minute."""

from __future__ import annotations

import time
from collections.abc import Callable

from eddyline.events import Event, RoundCommitted
from eddyline.runtime import RateMeter


class Rates:
    """Counts what rounds announce, second by second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._rounds, self._rows, self._results = (RateMeter(clock) for _ in range(3))

    def observe(self, event: Event) -> None:
        if isinstance(event, RoundCommitted):
            self._rounds.add(1)
            self._rows.add(event.n_rows)
            self._results.add(event.n_results)

    def per_s(self) -> dict[str, float]:
        """By name: rounds, rows and results a second."""
        return {
            "rounds": self._rounds.per_s(),
            "rows": self._rows.per_s(),
            "results": self._results.per_s(),
        }
