"""How much one caller may ask for: sizes, times and rates."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

BODY_BYTES = 8 << 20
LARGE_BODY_BYTES = 64 << 20  # rows, bulk registration, rule files
SQL_CHARACTERS = 100_000
HEADER_BYTES = 64 << 10
HEADER_S = 10.0  # from the first byte of a request to the end of its headers
BODY_QUIET_S = 10.0  # without a byte of a body that was promised
BODY_BYTES_PER_S = 64 << 10  # a body may take the quiet time, and what its bytes take at this pace
KEEP_ALIVE_S = 30
MOST_ROWS = 1_000_000  # of results in one answer of Arrow batches
MOST_STREAMS = 4_000  # of events
MOST_CONNECTIONS = 6_000
OPEN_FILES = 16_384  # a connection is one, and the engine has some
MOST_PROOFS = 4  # at once: each keeps a thread and Spark busy for seconds
MOST_TRIALS = 2  # at once: each keeps a processor busy for up to two seconds
MOST_NEWEST = 1_000  # results, letters, rounds in one answer
MOST_PER_PAGE = 500
REMEMBERED = 10_000  # callers whose rate is known

_LARGE = (("POST", "/rows"), ("POST", "/queries/bulk"), ("POST", "/rules/plan"), ("POST", "/rules/apply"))


def body_limit(method: str, path: str) -> int:
    """How many bytes the body of a request may have."""
    is_large = any(method == large_method and path.endswith(end) for large_method, end in _LARGE)
    return LARGE_BODY_BYTES if is_large else BODY_BYTES


def body_time_s(nbytes: int) -> float:
    """How long the first bytes of a body may take."""
    return BODY_QUIET_S + nbytes / BODY_BYTES_PER_S


class Buckets:
    """A bucket of `burst` requests for every caller, filled with `per_s` a second."""

    def __init__(self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_s = per_s
        self.burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when

    def wait_s(self, caller: str) -> float:
        """Take one request; 0 if there was one left, else how many seconds until there is."""
        now = self._clock()
        allowance, at = self._levels.pop(caller, (float(self.burst), now))
        allowance = min(float(self.burst), allowance + (now - at) * self.per_s)
        wait_s = 0.0 if allowance >= 1 else (1 - allowance) / self.per_s
        self._levels[caller] = (allowance - 1 if allowance >= 1 else allowance), now
        if len(self._levels) > REMEMBERED:
            self._levels.popitem(last=False)
        return wait_s
