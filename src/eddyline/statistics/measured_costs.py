"""What a filter costs per row, by its last calls: elapsed = fixed part + cost * rows, and sometimes much more.

A call has a price of its own, whatever its rows, so a short one says little about a row; and a machine does other things now and
then, so any call may have taken far too long. Calls therefore do not give a cost but leave an interval for it, and what was
believed before is moved into that interval:

    the last calls     a cost is at most what a call took per row, which two calls prove, and at least what it took per row beyond
                       the largest fixed part there is, which eight in a row prove: seven may all have been slow. Until then four
                       prove a third of it, and two a tenth: none is ten times too slow twice in a row
    a line             calls in the order of their rows, each of the shorter half with its partner in the longer half: how much
                       longer it took, by how many rows more. Theil, "A rank-invariant method of linear and polynomial regression
                       analysis", 1950, the incomplete method: no call is in two pairs, so the median is between two of the sorted
                       slopes with a known probability, whatever the noise

Before a filter is known its cost is what was declared of it, times what the known ones take by what was declared of them. A cost
that is known stays until calls leave no room for it. Where nothing was declared and none is known, all take the same as far as
calls leave room: a filter that many rows reach must not seem cheaper than the others because its calls prove more.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import median

import numpy as np
import numpy.typing as npt

LEAST_COST_S = 1e-9  # measured times are not below: a cost of zero would make every drop infinitely good
MOST_FIXED_S = 2e-3  # of a call: that of a Python function is 0.3 ms, and 1 ms on a busy machine
LAST_CALLS = 8
LINE_CALLS = 64
DRAWN_EVERY = 8  # calls
SLOW = ((2, 10.0), (4, 3.0))  # so many calls in a row are not all so many times too slow
CERTAIN = 4.0  # standard deviations of a count of heads: beyond it is one time in 30,000
KNOWN = 2.0  # the ends of an interval are within this factor: the cost is known
UNKNOWN_S = 1e-6  # of a filter that has not run, if nothing is declared

FloatVector = npt.NDArray[np.float64]
Interval = tuple[float, float]
ANYTHING: Interval = (-math.inf, math.inf)


def slope_interval(rows: FloatVector, seconds: FloatVector) -> Interval:
    """Between which bounds the seconds of one more row are, but for one time in 10,000; anything if calls are few or alike."""
    order, half = np.argsort(rows, kind="stable"), len(rows) // 2
    short, long = order[:half], order[len(rows) - half :]
    n_more = rows[long] - rows[short]
    differ = n_more > 0
    slopes = np.sort((seconds[long] - seconds[short])[differ] / n_more[differ])
    at = int(len(slopes) / 2 - CERTAIN * math.sqrt(len(slopes)) / 2)
    return (float(slopes[at - 1]), float(slopes[-at])) if at >= 1 else ANYTHING


class _Calls:
    """The last calls of one filter, and the interval they leave for its cost."""

    __slots__ = ("_calls", "_last", "_line", "_n_calls")

    def __init__(self) -> None:
        self._last: deque[tuple[float, float]] = deque(maxlen=LAST_CALLS)
        self._calls = np.zeros((2, LINE_CALLS))
        self._n_calls = 0
        self._line = ANYTHING

    def add(self, n_rows: float, elapsed_s: float) -> None:
        self._last.append((n_rows, elapsed_s))
        self._calls[:, self._n_calls % LINE_CALLS] = n_rows, elapsed_s
        self._n_calls += 1
        if self._n_calls % DRAWN_EVERY == 0:
            self._line = slope_interval(*self._calls[:, : self._n_calls])

    def interval(self) -> Interval:
        """Of the line as far as the last calls agree with it: they are newer."""
        low, high = ANYTHING
        if len(self._last) >= 2:
            high = sorted([seconds / n for n, seconds in self._last])[1]
        if len(self._last) == LAST_CALLS:
            low = min([(seconds - MOST_FIXED_S) / n for n, seconds in self._last])
        return min(max(self._line[0], low), high), max(min(self._line[1], high), low)

    def least_s(self) -> float:
        """What it costs at least, by its last calls; at first, by its only one."""
        last = list(self._last)
        proven = [
            min([(seconds / slow - MOST_FIXED_S) / n for n, seconds in last[-n_calls:]])
            for n_calls, slow in SLOW
            if n_calls <= max(2, len(last)) and last
        ]
        return max(proven, default=0.0)


class MeasuredCosts:
    """Seconds per row of each filter."""

    def __init__(
        self,
        n_filters: int,
        *,
        declared_s: Sequence[float] | None = None,
    ) -> None:
        """`declared_s` is what each filter is said to cost before it has run; without it nothing is known."""
        self._calls = [_Calls() for _ in range(n_filters)]
        self._known_s: list[float | None] = [None] * n_filters
        self._is_declared = declared_s is not None
        each_s = [UNKNOWN_S] * n_filters if declared_s is None else declared_s
        assert len(each_s) == n_filters, (declared_s, n_filters)
        self._declared_s = [max(LEAST_COST_S, declared) for declared in each_s]

    def widened(self, declared_s: Sequence[float]) -> MeasuredCosts:
        """The same of these filters, and more behind them that have not run."""
        wider = MeasuredCosts(len(declared_s), declared_s=declared_s)
        wider._calls[: len(self._calls)] = self._calls
        wider._known_s[: len(self._calls)] = self._known_s
        return wider

    def narrowed(self, share: Sequence[int]) -> MeasuredCosts:
        """The same of some of these filters."""
        narrower = MeasuredCosts(len(share), declared_s=[self._declared_s[k] for k in share])
        narrower._calls = [self._calls[k] for k in share]
        narrower._known_s = [self._known_s[k] for k in share]
        return narrower

    def add(self, k: int, n_rows: int, elapsed_s: float, *, n_calls: int = 1) -> None:
        """Filter `k` took so long on so many rows of the main path, in calls of about equal size."""
        if n_rows <= 0:
            return
        self._calls[k].add(n_rows / n_calls, elapsed_s / n_calls)
        low, high = self._calls[k].interval()
        if self._known_s[k] is not None:
            self._known_s[k] = self._believed_s(k, 1.0)
        elif high <= KNOWN * low:
            self._known_s[k] = self._believed_s(k, self._typical())

    def _typical(self) -> float:
        """Seconds that known filters take, by those that were declared."""
        ratios = [
            known_s / declared_s
            for known_s, declared_s in zip(self._known_s, self._declared_s, strict=True)
            if known_s is not None
        ]
        if ratios:
            return median(ratios)
        most_s = () if self._is_declared else [calls.interval()[1] for calls in self._calls]
        return min([1.0, *(high_s / UNKNOWN_S for high_s in most_s)])

    def _believed_s(self, k: int, typical: float) -> float:
        """What was believed before, moved as far as the calls demand."""
        known_s = self._known_s[k]
        before_s = typical * self._declared_s[k] if known_s is None else known_s
        low, high = self._calls[k].interval()
        return max(LEAST_COST_S, min(max(before_s, low), high))

    @property
    def cost_s(self) -> FloatVector:
        typical = self._typical()
        believed_s = (self._believed_s(k, typical) for k in range(len(self._calls)))
        return np.array(
            [max(each, calls.least_s()) for each, calls in zip(believed_s, self._calls, strict=True)]
        )
