"""Asking a function about rows until each has its value, or is alone with what is wrong.

A call that fails is made again on its two halves. A call that is lost, with its process, is taken apart the same way, in a fresh
process each time; of a function that is called row by row it is known at which row it was lost. What a process has served before
may be the reason that it was lost, as when the function leaks. So rows are judged only by a call that is the first of its
process, unless it is their time that ran out.

Each such loss costs one of a number that grows with the logarithm of the rows; that a process is lost after it had served
something may happen more often. When none is left, rows that are still undecided fail with what was said of the last one: a batch
of poison ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from eddyline.functions import breaker
from eddyline.functions.breaker import NOTHING_FAILED, Streaks
from eddyline.functions.counters import FunctionCounters

ANY_NUMBER = sys.maxsize
LOSSES_BESIDE = 8  # beside two for every halving of a batch
LOSSES_AFTER_SERVING = 100  # in a batch: each is a process to start, and a setup


class CallFailed(Exception):
    """The call came back without usable values."""


class SetupFailed(Exception):
    """The function cannot be called: what it needs could not be made."""


class CallLost(Exception):
    """The call did not come back, and its process is gone."""

    def __init__(self, message: str, *, row: int | None, is_slow: bool, is_first: bool) -> None:
        super().__init__(message)
        self.row = row  # at which it was, if that is known
        self.is_slow = is_slow  # its time ran out
        self.is_first = is_first  # the process had served nothing before


class FunctionCaller(Protocol):
    """A function that can be called, wherever it runs."""

    most_rows: int  # what one call can bear, as far as is known

    def prepare(self) -> None:
        """Have it set up. Raises SetupFailed."""

    def call(self, columns: Sequence[pa.Array], n_rows: int) -> tuple[pa.Array, dict[int, str]]:
        """Values of the declared type for all rows, and by row what is wrong. Raises CallFailed or CallLost."""


class HalvingCall:
    """One question to a function: these columns, these many rows."""

    def __init__(
        self,
        caller: FunctionCaller,
        columns: Sequence[pa.Array],
        n_rows: int,
        returns: pa.DataType,
        counters: FunctionCounters,
        clock: Callable[[], float],
        *,
        is_by_row: bool,
    ) -> None:
        self._caller = caller
        self._columns = columns
        self._n_rows = n_rows
        self._returns = returns
        self._counters = counters
        self._clock = clock
        self._is_by_row = is_by_row
        self._n_losses_left = 2 * n_rows.bit_length() + LOSSES_BESIDE
        self._n_more_left = LOSSES_AFTER_SERVING
        self._refusal = ""
        self._parts: dict[int, pa.Array] = {}  # by first row
        self._failures: dict[int, str] = {}
        self.streaks: Streaks = NOTHING_FAILED

    def answer(self, batch: int | None) -> tuple[pa.Array, list[tuple[int, str]]]:
        """Values for all rows (NULL where it failed), and (row, message) of every failure, in order. No call has more than
        `batch` rows."""
        size = batch or max(self._n_rows, 1)
        for start in range(0, self._n_rows, size):
            self._settle(start, min(start + size, self._n_rows))
        parts = [self._parts[start] for start in sorted(self._parts)]
        values = pa.concat_arrays(parts) if parts else pa.array([], self._returns)
        assert len(values) == self._n_rows, f"{len(values)} values for {self._n_rows} rows"
        failed = sorted(self._failures.items())
        self._counters.n_failed += len(failed)
        message = failed[-1][1] if failed else ""
        self._counters.last_message = message or self._counters.last_message
        self._note(breaker.failure_streaks(self._n_rows, len(failed), message))
        return values, failed

    def _settle(self, start: int, stop: int) -> bool:
        """Decide these rows. False if one of them was lost for good."""
        n = stop - start
        if not n:
            return True
        if self._refusal:
            return self._fail(start, stop, self._refusal)
        most = self._caller.most_rows
        if n > most:
            clean = [self._settle(at, min(at + most, stop)) for at in range(start, stop, most)]
            return all(clean)
        try:
            self._caller.prepare()
            values, wrong = self._call(start, n)
        except SetupFailed as error:
            self._note(breaker.setup_failed(str(error)))
            self._refusal = str(error)
            return self._fail(start, stop, self._refusal)
        except CallFailed as error:
            if n > 1:
                return self._settle_halves(start, stop)
            self._note(breaker.returned_streaks())
            self._fail(start, stop, str(error))
            return True
        except CallLost as error:
            return self._note_loss(error, start, stop)
        self._note(breaker.returned_streaks())
        self._parts[start] = values
        self._failures.update({start + at: why for at, why in wrong.items()})
        return True

    def _call(self, start: int, n: int) -> tuple[pa.Array, dict[int, str]]:
        began = self._clock()
        try:
            return self._caller.call([column.slice(start, n) for column in self._columns], n)
        finally:
            self._counters.n_calls += n if self._is_by_row else 1
            self._counters.n_rows += n
            self._counters.seconds += self._clock() - began

    def _settle_halves(self, start: int, stop: int) -> bool:
        middle = (start + stop) // 2
        return all([self._settle(start, middle), self._settle(middle, stop)])

    def _note_loss(self, error: CallLost, start: int, stop: int) -> bool:
        n = stop - start
        self._counters.n_lost += 1
        self._counters.last_message = str(error)
        is_judged = error.is_slow or error.is_first
        if is_judged:
            self._n_losses_left -= 1
        else:
            self._n_more_left -= 1
        if not (self._n_losses_left and self._n_more_left):
            self._refusal = str(error)
        if is_judged and n == 1:
            self._note(breaker.lost_streaks(str(error)))
            return self._fail(start, stop, str(error))
        if self._refusal:
            return self._fail(start, stop, str(error))
        if not is_judged:
            return self._settle(start, stop)
        if error.row is None:
            is_clean = self._settle_halves(start, stop)
            n_fewer = n // 2
        else:
            is_clean = self._settle_around(error, start, stop)
            n_fewer = max(1, error.row // 2)
        if is_clean:  # no row is to blame: there were too many for one call
            self._caller.most_rows = min(self._caller.most_rows, n_fewer)
        return is_clean

    def _settle_around(self, error: CallLost, start: int, stop: int) -> bool:
        """Of a call that was lost at a known row: that row by itself, then those before and behind it."""
        assert error.row is not None
        at = start + error.row
        if error.is_slow:  # it had the clock for itself
            self._note(breaker.lost_streaks(str(error)))
            is_clean = self._fail(at, at + 1, str(error))
        else:
            is_clean = self._settle(at, at + 1)
        return all([is_clean, self._settle(start, at), self._settle(at + 1, stop)])

    def _fail(self, start: int, stop: int, message: str) -> bool:
        self._parts[start] = pa.nulls(stop - start, self._returns)
        self._failures.update(dict.fromkeys(range(start, stop), message))
        return False

    def _note(self, streaks: Streaks) -> None:
        self.streaks = self.streaks.then(streaks)
