"""Rows, results and rounds a second over the last minute."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from eddyline.events import Event, RoundCommitted

SPAN_S = 60


class Rates:
    """Counts what rounds announce, second by second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._guard = threading.Lock()
        self._seconds: deque[tuple[int, list[int]]] = deque()  # second, [rounds, rows, results]

    def heard(self, event: Event) -> None:
        if not isinstance(event, RoundCommitted):
            return
        with self._guard:
            second = int(self._clock())
            if not self._seconds or self._seconds[-1][0] != second:
                self._seconds.append((second, [0, 0, 0]))
                self._forget(second)
            counts = self._seconds[-1][1]
            for at, n in enumerate((1, event.n_rows, event.n_results)):
                counts[at] += n

    def per_s(self) -> dict[str, float]:
        """By name: rounds, rows and results a second."""
        with self._guard:
            now = self._clock()
            self._forget(int(now))
            span_s = max(1.0, min(SPAN_S, now - self._began))
            totals = [sum(counts[at] for _, counts in self._seconds) for at in range(3)]
        return {
            name: round(n / span_s, 3) for name, n in zip(("rounds", "rows", "results"), totals, strict=True)
        }

    def _forget(self, second: int) -> None:
        while self._seconds and self._seconds[0][0] <= second - SPAN_S:
            self._seconds.popleft()
