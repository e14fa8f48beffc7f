"""How many rows to sample: few while nothing changes, many right after a change.

Every batch tells for free how many rows each filter was run on and how many it passed. That share is compared with what it was,
at the same place only: a filter meets other rows when other filters stand before it. Of filters that few rows reach, sampled rows
tell the share of all rows, batch after batch, wherever they stand. A share that moved by more than chance
allows, or a cost that moved by half in nearly all batches, is a drift. After a drift of shares the sampled rows of before say
nothing any more: forget them, sample densely until enough new ones have come to judge by, then less until the window is filled,
then sparsely; sparsely at once where these rows leave no doubt.

Sparse sampling goes on for ever, since a filter that few rows reach may change unseen. A drift of costs alone leaves the
sampled rows right as they are, and an order is judged again with the next batch; it is announced and nothing is forgotten.

Sampling has a budget: the seconds it adds stay below a share of the useful ones, and sparse sampling may have a smaller one.
What it leaves is saved, up to the price of a full window, and spent after a change; if it is not enough, the price of the dense
rows is lent and paid back before anything else. Where even sparse sampling is too dear, a trickle remains.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np
import numpy.typing as npt

STEADY_RATE = 0.002  # then profiling eight filters of 50 ns each costs 2 to 3 %
FILLING_RATE = 0.01  # the paper's
DENSE_RATE = 0.2
DENSE_ROWS = 200
BUDGET = 0.05  # extra seconds by useful seconds, if nothing else is said
TRICKLE = 1 / 20  # of the steady rate
AT_ONCE = 20  # rows to sample together: a call has a price of its own
GROUPED_ROWS = 1_500  # of a batch: of smaller ones few are sampled as they come

COMPARED_ROWS = (500, 8_000)  # how many rows are compared at once: soon for large moves, later for small ones
SAMPLED_ROWS = (100, 1_000)  # the same of sampled rows
REFERENCE_ROWS = 20_000  # what they are compared with; then it stays fixed, so that a slow drift shows too
REMEMBERED_PLACES = 8  # of a filter, the last ones
SIGNIFICANT, FEW_ROWS = 5.0, 5  # standard deviations, and rows beyond: seldom ones come in clusters
LEAST_MOVE = 0.03  # of a share of rows
COST_MOVE = 1.5  # times, up or down
COST_BATCHES, COST_BEYOND = 24, 18  # so many of the last batches have to say so
COST_COMPARED = (48, 128)  # batches before those, at least and at most

IntVector = npt.NDArray[np.int64]
FloatVector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BatchObservation:
    """What was measured on the main path of one batch. Vectors by filter."""

    places: Sequence[Hashable]  # what decides which rows a filter meets, such as the set of those before it
    asked_rows: IntVector  # rows it was run on
    passed_rows: IntVector  # of those
    cost_s: FloatVector  # seconds per row in this batch; nan where too few rows were run to tell
    n_rows: int
    n_profiled: int = 0  # sampled rows that the profile window kept
    extra_s: float = 0.0  # expected on a sampled row, beyond what any row takes; 0: not known, no budget
    useful_s: float = 0.0  # on a row
    is_clear: bool = False  # the sampled rows leave no doubt about the order
    sampled_rows: IntVector | None = None  # on which all filters were run; None: not known
    sampled_passed_rows: IntVector | None = None  # of those


@dataclass(frozen=True)
class Drift:
    """A filter is no longer what it was."""

    filter: int
    what: Literal["pass rate", "cost"]
    before: float
    after: float


@dataclass(frozen=True)
class Advice:
    """What to do in the next batch."""

    rate: float
    drifts: tuple[Drift, ...] = ()

    @property
    def forget(self) -> bool:
        """Whether the sampled rows of before, those of this batch too, are to be forgotten."""
        return any(drift.what == "pass rate" for drift in self.drifts)


class DetectionPhase(Enum):
    """How much is known of the data as it is now."""

    DENSE = DENSE_RATE
    FILLING = FILLING_RATE
    STEADY = STEADY_RATE


def places_of(order: Sequence[int]) -> tuple[int, ...]:
    """For each filter of an order the set of those before it, as bits."""
    places, before = [0] * len(order), 0
    for k in order:
        places[k] = before
        before |= 1 << k
    return tuple(places)


class ChangeDetector:
    """Says after every batch at which rate to sample the next one.

    After a change sampling is dense for `dense_rows` rows of the window. They are more than a policy needs to judge at all: on
    the first hundred rows filters that stand deep are still placed by chance, and it takes some more to see which policy is best.
    """

    def __init__(
        self,
        n_filters: int,
        *,
        window_rows: int = 1000,
        dense_rows: int = DENSE_ROWS,
        budget: float = BUDGET,
        sparse_budget: float | None = None,
    ) -> None:
        """`budget` and `sparse_budget`, which is the same if not said, are shares of the useful seconds."""
        self.phase = DetectionPhase.DENSE  # nothing is known yet
        self.window_rows = window_rows
        self.dense_rows = dense_rows
        self._n_profiled = 0  # since the last drift
        self._shares = [_Shares() for _ in range(n_filters)]
        self._costs = [_Cost() for _ in range(n_filters)]
        self._budget = _Budget(budget, budget if sparse_budget is None else sparse_budget)
        self._rate: float | None = None  # of the batch that is out
        self._owed_rows = 0.0  # that were not sampled yet, for being too few

    @property
    def is_sparse(self) -> bool:
        """Whether enough is known, so that few rows are sampled."""
        return self.phase is DetectionPhase.STEADY

    @property
    def is_dense(self) -> bool:
        """Whether little is known, so that many rows are sampled."""
        return self.phase is DetectionPhase.DENSE

    def rate_for(self, n_rows: int) -> float:
        """At which rate to sample a batch of so many rows; never more of them than are wanted."""
        n_wanted = self.dense_rows - self._n_profiled if self.is_dense else self.window_rows
        rate = min(
            self.phase.value, max(FILLING_RATE, n_wanted / max(1, n_rows)), self.window_rows / max(1, n_rows)
        )
        if self.is_sparse:
            self._rate = self._budget.affordable_sparsely(rate, n_rows)
        else:
            self._rate = self._budget.affordable(rate, n_rows, self.dense_rows if self.is_dense else 0)
        return self._rate

    def has_moved(self, places: Sequence[Hashable], asked_rows: IntVector, passed_rows: IntVector) -> bool:
        """Whether a batch by itself says that some filter passes another share of rows than before, at the same place."""
        n_asked, n_passed = asked_rows.tolist(), passed_rows.tolist()
        return any(
            shares.has_moved(place, n, n_kept)
            for shares, place, n, n_kept in zip(self._shares, places, n_asked, n_passed, strict=True)
        )

    def observe(self, observation: BatchObservation) -> Advice:
        """Take in the measurements of a batch; the rate of the advice is for another batch of its size."""
        drifts: list[Drift] = []
        n_asked, n_passed = observation.asked_rows.tolist(), observation.passed_rows.tolist()
        for k, (shares, cost) in enumerate(zip(self._shares, self._costs, strict=True)):
            drifts += shares.at(observation.places[k]).compared(k, n_asked[k], n_passed[k])
            drifts += cost.compared(k, float(observation.cost_s[k]))
            if observation.sampled_rows is not None and observation.sampled_passed_rows is not None:
                n_sampled, n_kept = int(observation.sampled_rows[k]), int(observation.sampled_passed_rows[k])
                drifts += shares.sampled.compared(k, n_sampled, n_kept)
        if any(drift.what == "pass rate" for drift in drifts):
            self._begin()
        else:
            self._n_profiled += observation.n_profiled
            if self.is_dense and self._n_profiled >= self.dense_rows:
                self.phase = DetectionPhase.FILLING
            is_enough = observation.is_clear or self._n_profiled >= self.window_rows
            if self.phase is DetectionPhase.FILLING and is_enough:
                self.phase = DetectionPhase.STEADY
        rate = self.phase.value if self._rate is None else self._rate
        self._budget.settle(observation, rate, self.window_rows, self.dense_rows)
        return Advice(self._in_groups(self.rate_for(observation.n_rows), observation.n_rows), tuple(drifts))

    def _in_groups(self, rate: float, n_rows: int) -> float:
        """The rate, or none now and more later: a batch with few rows to sample takes nearly as long as one with many."""
        if self.is_sparse and n_rows >= GROUPED_ROWS:
            self._owed_rows += rate * n_rows
            rate = self._owed_rows / n_rows if self._owed_rows >= AT_ONCE else 0.0
            self._owed_rows = 0.0 if rate else self._owed_rows
            self._rate = rate
        return rate

    def followed(self, n_filters: int, same: Mapping[int, int]) -> ChangeDetector:
        """For other filters; `same` has the old number of each that was there before.

        Places are others now, so shares are measured anew. A filter that came is not in the sampled rows, so sampling is dense
        again; one that went leaves them as they are.
        """
        detector = ChangeDetector(n_filters, window_rows=self.window_rows, dense_rows=self.dense_rows)
        for new, old in same.items():
            detector._costs[new] = deepcopy(self._costs[old])
        detector._budget = deepcopy(self._budget)
        if len(same) == n_filters:
            detector.phase, detector._n_profiled = self.phase, self._n_profiled
        return detector

    def _begin(self) -> None:
        """All shares are measured anew: what made one move may have moved others that were not looked at yet."""
        self.phase, self._n_profiled = DetectionPhase.DENSE, 0
        self._shares = [_Shares() for _ in self._shares]


class _Shares:
    """The shares of rows one filter passes: at each of its last places, and of all rows, as far as they were sampled."""

    def __init__(self) -> None:
        self.sampled = _Share(SAMPLED_ROWS)
        self._by_place: dict[Hashable, _Share] = {}

    def at(self, place: Hashable) -> _Share:
        share = self._by_place.pop(place, None)
        if share is None:
            share = _Share(COMPARED_ROWS)
            if len(self._by_place) == REMEMBERED_PLACES:
                del self._by_place[next(iter(self._by_place))]
        self._by_place[place] = share
        return share

    def has_moved(self, place: Hashable, n: int, n_passed: int) -> bool:
        """Whether so many rows at a place leave no doubt that the share there is another one."""
        share = self._by_place.get(place)
        return share is not None and n > 0 and share.has_moved(n, n_passed)


class _Share:
    """A share of rows: what it was, and what it is now, counted at two scales."""

    def __init__(self, compared_rows: Sequence[int]) -> None:
        self._compared_rows = compared_rows
        self._n = self._n_passed = 0  # the reference
        self._now = [(0, 0)] * len(compared_rows)

    def compared(self, k: int, n_new: int, n_new_passed: int) -> list[Drift]:
        for scale, n_needed in enumerate(self._compared_rows):
            n, n_passed = self._now[scale]
            n, n_passed = n + n_new, n_passed + n_new_passed
            if n >= n_needed:
                if self.has_moved(n, n_passed):
                    return [Drift(k, "pass rate", self._n_passed / self._n, n_passed / n)]
                if scale == 0 and self._n < REFERENCE_ROWS:
                    self._n, self._n_passed = self._n + n, self._n_passed + n_passed
                n = n_passed = 0
            self._now[scale] = n, n_passed
        return []

    def has_moved(self, n: int, n_passed: int) -> bool:
        """Whether a share of so many rows differs from the reference by more than chance."""
        if self._n == 0:
            return False
        move = abs(n_passed / n - self._n_passed / self._n)
        pooled = (n_passed + self._n_passed) / (n + self._n)
        deviation = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / self._n))
        return move > max(LEAST_MOVE, SIGNIFICANT * deviation + FEW_ROWS / n)


class _Cost:
    """What one filter takes for a row, and took before.

    Times of a batch scatter, upward above all: the machine does something else now and then. So a cost has moved only when nearly
    all of the last batches are beyond the quartile of those before by a factor. If nothing has changed, 18 of 24 batches are
    beyond the quartile of 48 before once in 15,000 times and beyond that of 128 once in 200,000, whatever the scatter; by a
    factor they are far less often.
    """

    def __init__(self) -> None:
        self._before: deque[float] = deque(maxlen=COST_COMPARED[1])
        self._last: deque[float] = deque(maxlen=COST_BATCHES)

    def compared(self, k: int, cost_s: float) -> list[Drift]:
        if not cost_s > 0:  # not measured
            return []
        if len(self._last) == COST_BATCHES:
            self._before.append(self._last[0])
        self._last.append(cost_s)
        if len(self._before) < COST_COMPARED[0] or not self._is_beyond():
            return []
        drift = Drift(k, "cost", statistics.median(self._before), statistics.median(self._last))
        self._before = deque(self._last, maxlen=COST_COMPARED[1])
        self._last.clear()
        return [drift]

    def _is_beyond(self) -> bool:
        """Whether nearly all of the last batches took more than most before, or nearly all took less."""
        before = sorted(self._before)
        least, most = before[len(before) // 4] / COST_MOVE, before[-1 - len(before) // 4] * COST_MOVE
        n_less, n_more = sum(each < least for each in self._last), sum(each > most for each in self._last)
        return max(n_less, n_more) >= COST_BEYOND


class _Budget:
    """Seconds that sampling may take."""

    def __init__(self, share: float, sparse_share: float) -> None:
        self._share, self._sparse_share = share, sparse_share  # of the useful ones
        self._saved_s = 0.0
        self._extra_s = 0.0  # on a sampled row
        self._useful_s = 0.0  # on any row

    def settle(self, observation: BatchObservation, rate: float, window_rows: int, dense_rows: int) -> None:
        """A batch has earned and spent; what is saved is at most the price of a window, and what is owed that of the dense rows,
        by what a sampled row takes now: before a cost was known it may have seemed many times dearer."""
        self._extra_s, self._useful_s = observation.extra_s, observation.useful_s
        self._saved_s += observation.n_rows * (self._share * self._useful_s - rate * self._extra_s)
        self._saved_s = max(min(self._saved_s, window_rows * self._extra_s), -dense_rows * self._extra_s)

    def affordable(self, rate: float, n_rows: int, n_lent: int) -> float:
        """The rate, or what the budget allows of it on a batch of so many rows; the price of `n_lent` sampled ones is lent."""
        if self._extra_s <= 0 or n_rows == 0:
            return rate
        allowed = (self._share * self._useful_s + self._saved_s / n_rows) / self._extra_s + n_lent / n_rows
        return min(rate, max(allowed, TRICKLE * STEADY_RATE))

    def affordable_sparsely(self, rate: float, n_rows: int) -> float:
        """The same while nothing changes: without what is saved, if less than the whole budget is for that."""
        allowed = self.affordable(rate, n_rows, 0)
        if self._extra_s <= 0 or self._sparse_share >= self._share:
            return allowed
        sparse = max(self._sparse_share * self._useful_s / self._extra_s, TRICKLE * STEADY_RATE)
        return min(allowed, sparse)
