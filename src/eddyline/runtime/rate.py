"""How many a second, over the last minute."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

SPAN_S = 60


class RateMeter:
    """Counts second by second. Safe from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._guard = threading.Lock()
        self._seconds: deque[list[int]] = deque()  # second, count

    def add(self, n: int) -> None:
        with self._guard:
            second = int(self._clock())
            if not self._seconds or self._seconds[-1][0] != second:
                self._seconds.append([second, 0])
                self._forget(second)
            self._seconds[-1][1] += n

    def per_s(self) -> float:
        with self._guard:
            now = self._clock()
            self._forget(int(now))
            span_s = max(1.0, min(SPAN_S, now - self._began))
            return round(sum(n for _, n in self._seconds) / span_s, 3)

    def _forget(self, second: int) -> None:
        while self._seconds and self._seconds[0][0] <= second - SPAN_S:
            self._seconds.popleft()
