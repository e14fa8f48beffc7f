"""The circuit breaker: when a function has failed so often in a row that it is no longer called.

It opens after

    3 calls of single rows in a row that were lost: they took too long, ended their process or needed too much memory
    3 setups in a row that failed
    1,000 rows in a row that failed, however they did, asked about in 3 calls or more

The reason is read by the owners of all queries that call the function, so it has the kind of the last failure ("function f raised
ValueError"), not its text, which may quote a row of another owner. A row's dead letters have the text.

The owner of the queries suspends those that need the function and lets the breaker start from zero, so resuming a query tries
again.

Workers each watch what they see. Their streaks are added in the order of their tasks; what a task saw before something in it went
well is not added to what the one before it ended with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MOST_LOST = 3
MOST_SETUPS = 3
MOST_ROWS, IN_CALLS = 1_000, 3

FunctionKey = tuple[str, str]  # name, version


@dataclass(frozen=True, slots=True)
class Streaks:
    """What has failed since something last went well."""

    n_lost: int = 0  # calls of single rows, since one came back
    n_setups: int = 0  # since one worked
    n_rows: int = 0  # since one did not fail
    n_calls: int = 0  # that asked about those
    has_returned: bool = False  # a call did: `n_lost` and `n_setups` count from there
    was_good: bool = False  # a row was: `n_rows` and `n_calls` count from there
    message: str = ""  # the last
    opening_reason: str = ""  # why, the first time a streak was too long

    def then(self, later: Streaks) -> Streaks:
        """Both, one after the other."""
        message = later.message or self.message
        n_lost = later.n_lost + (0 if later.has_returned else self.n_lost)
        n_setups = later.n_setups + (0 if later.has_returned else self.n_setups)
        n_rows = later.n_rows + (0 if later.was_good else self.n_rows)
        n_calls = later.n_calls + (0 if later.was_good else self.n_calls)
        return Streaks(
            n_lost,
            n_setups,
            n_rows,
            n_calls,
            self.has_returned or later.has_returned,
            self.was_good or later.was_good,
            message,
            self.opening_reason or later.opening_reason or _why(n_lost, n_setups, n_rows, n_calls, message),
        )


NOTHING_FAILED = Streaks()


def returned_streaks() -> Streaks:
    """A call came back, whatever it brought."""
    return Streaks(has_returned=True)


def lost_streaks(message: str) -> Streaks:
    """A call of a single row did not come back."""
    return Streaks(n_lost=1, message=message)


def setup_failed(message: str) -> Streaks:
    return Streaks(n_setups=1, message=message)


def failure_streaks(n_rows: int, n_failed: int, message: str = "") -> Streaks:
    """The function was asked about rows and failed on some."""
    if n_failed < n_rows:
        return Streaks(was_good=True, message=message)
    return Streaks(n_rows=n_rows, n_calls=1, message=message) if n_rows else NOTHING_FAILED


def _why(n_lost: int, n_setups: int, n_rows: int, n_calls: int, message: str) -> str:
    if n_lost >= MOST_LOST:
        return f"{n_lost} calls in a row were lost, the last because {message}"
    if n_setups >= MOST_SETUPS:
        return f"its setup failed {n_setups} times in a row, the last time: {message}"
    if n_rows >= MOST_ROWS and n_calls >= IN_CALLS:
        kind = message.partition(": ")[0]  # what follows may quote a row
        return f"it failed on each of the last {n_rows:,} rows, the last time: {kind}"
    return ""


class Breaker:
    """The streaks of all functions. Pure: observations come in, reasons to stop go out."""

    def __init__(self) -> None:
        self._streaks: dict[FunctionKey, Streaks] = {}

    def add(self, function: FunctionKey, observed_streaks: Streaks) -> str:
        """Why the function is no longer to be called, or nothing."""
        streaks = self._streaks.get(function, NOTHING_FAILED).then(observed_streaks)
        self._streaks[function] = streaks
        return streaks.opening_reason

    def close(self, function: FunctionKey) -> None:
        """Start from zero."""
        self._streaks.pop(function, None)

    def snapshot(self) -> Mapping[FunctionKey, Streaks]:
        return dict(self._streaks)
