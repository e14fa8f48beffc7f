"""What the engine announces while it runs: plain records, past tense, safe to print or to send."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened in round `round_number`."""

    round_number: int


@dataclass(frozen=True, slots=True)
class RoundCommitted(Event):
    """A round is final: its rows are counted, its results can be read."""

    version: int
    n_rows: int
    n_results: int
    n_dead: int
    n_late: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ResultsDropped(Event):
    """Results nobody read left their ring."""

    n_results: int


@dataclass(frozen=True, slots=True)
class CallbackFailed(Event):
    """A subscriber's callback raised; the results stay readable."""

    query: str
    message: str
