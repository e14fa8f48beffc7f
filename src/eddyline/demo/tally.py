"""What the rounds of the demo announced, counted."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from eddyline.delivery import Result
from eddyline.events import Event, RoundCommitted, RoundFailed, SourceFailed

RECENT_S = 3.0
SHOWN_ALERTS = 6


class MeasuredRound(NamedTuple):
    """A round with rows, and the totals of the stream after it."""

    round: RoundCommitted
    at_s: float
    n_trades: int
    n_alerts: int


class DemoTally:
    """Filled by the threads that run rounds, read by the one that shows them."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.rounds: list[MeasuredRound] = []
        self.alerts: deque[Result] = deque(maxlen=SHOWN_ALERTS)
        self.failures: list[str] = []
        self._began_s = clock()

    def hear(self, event: Event) -> None:
        if isinstance(event, RoundCommitted) and event.n_rows:
            trades, alerts = self.n_trades + event.n_rows, self.n_alerts + event.n_results
            self.rounds.append(MeasuredRound(event, self._clock(), trades, alerts))
        elif isinstance(event, (RoundFailed, SourceFailed)):
            self.failures.append(event.message)

    @property
    def n_trades(self) -> int:
        return self.rounds[-1].n_trades if self.rounds else 0

    @property
    def n_alerts(self) -> int:
        return self.rounds[-1].n_alerts if self.rounds else 0

    def first_of_version(self, version: int) -> int:
        """The number of the first trade that rounds of a catalog version saw, or the next one if none did yet."""
        return sum(measured.round.n_rows for measured in self.rounds if measured.round.version < version)

    def rates(self) -> tuple[float, float]:
        """Trades and alerts a second, over the last seconds."""
        now = self._clock()
        seconds = min(RECENT_S, now - self._began_s)
        recent_rounds = [measured.round for measured in self.rounds if measured.at_s > now - seconds]
        if seconds <= 0:
            return 0.0, 0.0
        return sum(r.n_rows for r in recent_rounds) / seconds, sum(
            r.n_results for r in recent_rounds
        ) / seconds
