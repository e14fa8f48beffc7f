"""What functions did, in numbers: kept where they ran, added up where the round commits."""

from __future__ import annotations

from dataclasses import dataclass, field

from eddyline.functions.breaker import NOTHING_FAILED, Streaks


@dataclass(slots=True)
class FunctionCounters:
    """What a function did so far."""

    n_calls: int = 0
    n_rows: int = 0
    n_failed: int = 0  # rows
    n_cached: int = 0  # rows
    seconds: float = 0.0
    n_lost: int = 0  # calls that took too long, ended their process or needed too much memory
    last_message: str = ""  # what was wrong the last time

    def add(self, more: FunctionCounters) -> None:
        self.n_calls += more.n_calls
        self.n_rows += more.n_rows
        self.n_failed += more.n_failed
        self.n_cached += more.n_cached
        self.seconds += more.seconds
        self.n_lost += more.n_lost
        self.last_message = more.last_message or self.last_message


@dataclass(slots=True)
class FunctionActivity:
    """What a function, in one version, did since the last call, and what failed in a row."""

    counters: FunctionCounters = field(default_factory=FunctionCounters)
    streaks: Streaks = NOTHING_FAILED
