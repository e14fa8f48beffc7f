"""The rows of a SteM in the order of one value: found by ranges instead of by equality.

What comes at once is sorted and is a run. Runs are merged while an older one is less than OLDER_LONGER times as long as the
newer, so that there are few of them. Rows that have left are skipped, and dropped when their run is merged or most of it has
left. Rows whose value is NULL are in no range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from eddyline.joins.key_index import PresentRows
from eddyline.joins.keys import Codes

Ints = npt.NDArray[np.int64]

OLDER_LONGER = 4  # times as long as the newer one an older run is, or both are merged
MOST_GONE = 0.5  # of the rows of a run, or it is made anew


@dataclass(frozen=True, slots=True)
class Bound:
    """Values above, or below, a code for each probe."""

    operator: str  # of the value with the code: <, <=, > or >=
    codes: Codes


@dataclass(frozen=True, slots=True)
class _Run:
    """Codes in their order, and the numbers of the rows that have them, of which `low` is the least."""

    codes: Ints
    numbers: Ints
    low: int


@dataclass(frozen=True, slots=True)
class RangeMatches:
    """Where each probe finds rows: in every run from a place up to another."""

    runs: tuple[_Run, ...]
    starts: tuple[Ints, ...]
    counts: tuple[Ints, ...]  # of rows, those that have left included
    totals: Ints  # by probe

    def rows(self, first_probe: int, end_probe: int, present: PresentRows) -> tuple[Ints, Ints]:
        """Pairs of some probes, ascending, and rows that are present, less `present.first`."""
        probes, numbers = [], []
        for run, starts, counts in zip(self.runs, self.starts, self.counts, strict=True):
            start, count = starts[first_probe:end_probe], counts[first_probe:end_probe]
            probe = np.repeat(np.arange(len(start)), count)
            within = np.arange(len(probe)) - np.repeat(np.cumsum(count) - count, count)
            number = run.numbers[start[probe] + within]
            is_there = _present(number, present)
            probes.append(probe[is_there])
            numbers.append(number[is_there])
        if not probes:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        every_probe, every_number = np.concatenate(probes), np.concatenate(numbers)
        order = np.lexsort((every_number, every_probe))
        return every_probe[order] + first_probe, every_number[order] - present.first


class OrderedIndex:
    """Finds rows by ranges of codes, which are in the order of values. What is inserted is found at once."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []  # the oldest first

    def insert(self, codes: Codes, row: int) -> None:
        """Rows numbered from `row` on have these codes."""
        numbers = np.arange(row, row + len(codes))
        values = codes.codes
        if codes.is_null is not None:
            numbers, values = numbers[~codes.is_null], values[~codes.is_null]
        if len(numbers):
            self._runs.append(_run([values], [numbers]))

    def undo(self, end: int) -> None:
        """Take out rows numbered from `end` on, which have to be what was inserted since the last `tidy`."""
        self._runs = [run for run in self._runs if run.low < end]

    def renumber(self, first: int, numbers: Ints) -> None:
        """The row numbered first + k is row numbers[k] from now on, or has left if that is negative."""
        runs = []
        for run in self._runs:
            there = np.flatnonzero(run.numbers >= first)
            new_numbers = numbers[run.numbers[there] - first]
            there, new_numbers = there[new_numbers >= 0], new_numbers[new_numbers >= 0]
            if len(there):
                runs.append(_Run(run.codes[there], new_numbers, int(new_numbers.min())))
        self._runs = runs

    def tidy(self, present: PresentRows) -> None:
        """Merge what is due, and forget rows that have left, where it pays."""
        runs = []
        for run in self._runs:
            n_gone = int(np.count_nonzero(run.numbers < present.first)) if run.low < present.first else 0
            runs.append(_remaining(run, present) if n_gone > MOST_GONE * len(run.codes) else run)
        self._runs = [run for run in runs if len(run.codes)]
        while len(self._runs) > 1:
            older, newer = self._runs[-2:]
            if len(older.codes) >= OLDER_LONGER * len(newer.codes):
                break
            merged = _run([older.codes, newer.codes], [older.numbers, newer.numbers])
            merged = _remaining(merged, present)
            self._runs[-2:] = [merged] if len(merged.codes) else []

    def find(self, bounds: Sequence[Bound]) -> RangeMatches:
        """Rows within all bounds, each of which has a code for every probe."""
        n = len(bounds[0].codes)
        is_null = np.zeros(n, dtype=bool)
        for bound in bounds:
            if bound.codes.is_null is not None:
                is_null |= bound.codes.is_null
        all_starts, all_counts = [], []
        for run in self._runs:
            start, stop = np.zeros(n, np.int64), np.full(n, len(run.codes), np.int64)
            for bound in bounds:
                side: Literal["left", "right"] = "right" if bound.operator in (">", "<=") else "left"
                at = np.searchsorted(run.codes, bound.codes.codes, side=side)
                if bound.operator in (">", ">="):
                    start = np.maximum(start, at)
                else:
                    stop = np.minimum(stop, at)
            all_starts.append(start)
            all_counts.append(np.where(is_null, 0, np.maximum(stop - start, 0)))
        totals = np.zeros(n, np.int64)
        for counts in all_counts:
            totals += counts
        return RangeMatches(tuple(self._runs), tuple(all_starts), tuple(all_counts), totals)

    # ------------------------------------------------------------------------------------------- looking

    @property
    def n_runs(self) -> int:
        return len(self._runs)

    @property
    def nbytes(self) -> int:
        return sum(run.codes.nbytes + run.numbers.nbytes for run in self._runs)

    def present_rows(self, present: PresentRows) -> Ints:
        """The rows it has that are present, less `present.first`, ascending."""
        numbers = np.concatenate([np.empty(0, np.int64), *(run.numbers for run in self._runs)])
        return np.sort(numbers[_present(numbers, present)]) - present.first

    def check(self) -> None:
        """Assert that runs are in order."""
        for run in self._runs:
            assert (np.diff(run.codes) >= 0).all(), "codes of a run are not in order"
            assert run.low == run.numbers.min(), f"{run.low} is not the least of {run.numbers}"


def _run(codes: Sequence[Ints], numbers: Sequence[Ints]) -> _Run:
    every_code, every_number = np.concatenate(codes), np.concatenate(numbers)
    order = np.argsort(every_code, kind="stable")
    return _Run(every_code[order], every_number[order], int(every_number.min()))


def _remaining(run: _Run, present: PresentRows) -> _Run:
    is_there = _present(run.numbers, present)
    numbers = run.numbers[is_there]
    return _Run(run.codes[is_there], numbers, int(numbers.min()) if len(numbers) else 0)


def _present(numbers: Ints, present: PresentRows) -> npt.NDArray[np.bool_]:
    is_there: npt.NDArray[np.bool_] = numbers >= present.first
    if len(present.mask):
        is_there[is_there] = present.mask[numbers[is_there] - present.origin]
    return is_there
