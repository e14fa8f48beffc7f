"""Columns of partial results: for some calls, one line per entry. An entry is whatever a structure makes it: a group, a slice of
one, a session.

What has to be added or merged goes in one entry after the other in the order given, so that the same cut gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline import types
from eddyline.aggregates.accumulators import Accumulator, given, grown
from eddyline.aggregates.chosen import ChosenRow
from eddyline.aggregates.counts import RowCount, TruthCounts
from eddyline.aggregates.multisets import DistinctRows, ExtremeRows, TimedRows
from eddyline.aggregates.rows import ClassRows, Ints
from eddyline.aggregates.sketches import DistinctEstimate
from eddyline.aggregates.sums import DoubleSum, ExactSum
from eddyline.aggregates.variances import Moments
from eddyline.kernels import add_signs
from eddyline.model import OVERFLOW, AggregateCall

N_ROWS = "#rows"  # a column of saved entries
# Functions that read the same partial results, by the name these have.
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "sum": ("sum", "avg"),
    "variance": ("var_pop", "var_samp", "stddev_pop", "stddev_samp"),
    "truth": ("bool_and", "bool_or"),
}
_FAMILY = {function: family for family, functions in _FAMILIES.items() for function in functions}
_KINDS: Mapping[str, Callable[[AggregateCall], Accumulator]] = {
    "count": RowCount,
    "count_if": RowCount,
    "variance": Moments,
    "truth": TruthCounts,
    "distinct": DistinctRows,
    "approx_count_distinct": DistinctEstimate,
} | dict.fromkeys(("min", "max", "min_by", "max_by", "first", "last"), ChosenRow)
# where rows may leave again
_SIGNED_KINDS: Mapping[str, Callable[[AggregateCall], Accumulator]] = {
    **_KINDS,
    **dict.fromkeys(("min", "max"), ExtremeRows),
    **dict.fromkeys(("min_by", "max_by", "first", "last"), TimedRows),
}


class States:
    """Partial results of some calls by entry, and how many rows are in each."""

    def __init__(self, calls: Sequence[AggregateCall], *, is_signed: bool = False) -> None:
        self.n = 0
        self._is_signed = is_signed
        self._n_rows = np.zeros(0, np.int64)
        self._accumulators: dict[str, Accumulator] = {}
        self._calls = {call.name: (call, _shared_name(call)) for call in calls}
        for call, name in self._calls.values():
            if name not in self._accumulators:
                self._accumulators[name] = _accumulator(call, is_signed)
        self.is_invertible = all(a.is_invertible for a in self._accumulators.values())

    def like(self, n: int) -> States:
        """So many empty entries for the same calls."""
        other = States.__new__(States)
        other.n, other._is_signed, other._n_rows = n, self._is_signed, np.zeros(n, np.int64)
        other._calls, other.is_invertible = self._calls, self.is_invertible
        other._accumulators = {
            name: _accumulator(a.call, self._is_signed) for name, a in self._accumulators.items()
        }
        for accumulator in other._accumulators.values():
            accumulator.resize(n)
        return other

    def resize(self, n: int) -> None:
        """More entries, which are empty, or fewer."""
        if n < self.n:
            self.clear(np.arange(n, self.n))
        self._n_rows = grown(self._n_rows, n)
        for accumulator in self._accumulators.values():
            accumulator.resize(n)
        self.n = n

    def clear(self, entries: Ints) -> None:
        """Make these empty."""
        self._n_rows[entries] = 0
        for accumulator in self._accumulators.values():
            accumulator.clear(entries)

    def add(self, entries: Ints, rows: ClassRows) -> None:
        """Row k goes into entries[k], or out of it where its sign is negative.

        A row that leaves has the values, the time and the arrival number with which it came.
        """
        assert self._is_signed or not len(rows) or rows.sign.min() > 0, (
            "rows leave, and no state was kept for it"
        )
        add_signs(given(entries), given(rows.sign, np.int8), self._n_rows)
        for accumulator in self._accumulators.values():
            accumulator.add(entries, rows)

    def merge(self, into: Ints, other: States, which: Ints) -> None:
        """Entry which[k] of the other goes into into[k]; several may go into one."""
        np.add.at(self._n_rows, into, other._n_rows[which])
        for name, accumulator in self._accumulators.items():
            accumulator.merge(into, other._accumulators[name], which)

    def subtract(self, into: Ints, other: States, which: Ints) -> None:
        """The inverse of merge, if `is_invertible`."""
        np.subtract.at(self._n_rows, into, other._n_rows[which])
        for name, accumulator in self._accumulators.items():
            accumulator.subtract(into, other._accumulators[name], which)

    def copy(self, into: Ints, other: States, which: Ints) -> None:
        """Entry which[k] of the other takes the place of into[k]; none of these is there twice."""
        self._n_rows[into] = other._n_rows[which]
        for name, accumulator in self._accumulators.items():
            accumulator.copy(into, other._accumulators[name], which)

    def renumber(self, entries: Ints, first: int) -> None:
        """Arrival numbers in these entries counted from 0, and now do from `first`."""
        for accumulator in self._accumulators.values():
            accumulator.renumber(entries, first)

    def n_rows(self, entries: Ints) -> Ints:
        """How many rows are in each of these entries."""
        return np.asarray(self._n_rows[entries])

    def values(self, entries: Ints) -> dict[str, pa.Array]:
        """By the names of calls, and with OVERFLOW behind for those that can: where the value does not fit its type."""
        columns = {}
        for name, (call, shared) in self._calls.items():
            columns[name], is_overflow = self._accumulators[shared].value(call, entries)
            if call.can_overflow:
                columns[name + OVERFLOW] = pa.array(is_overflow)
        return columns

    def to_batch(self, entries: Ints) -> pa.RecordBatch:
        """These entries, to be stored."""
        columns = {N_ROWS: pa.array(self._n_rows[entries])}
        for name, accumulator in self._accumulators.items():
            columns |= {f"{name}.{part}": column for part, column in accumulator.saved(entries).items()}
        return pa.RecordBatch.from_pydict(columns)

    def load(self, entries: Ints, batch: pa.RecordBatch) -> None:
        """Entries as they were stored; those of calls that are not in the batch are empty."""
        self.clear(entries)
        self._n_rows[entries] = batch[N_ROWS].to_numpy()
        saved: dict[str, dict[str, pa.Array]] = {}
        for column in batch.schema.names:
            name, _, part = column.rpartition(".")
            saved.setdefault(name, {})[part] = batch[column]
        for name, accumulator in self._accumulators.items():
            if name in saved:
                accumulator.load(entries, saved[name])

    @property
    def nbytes(self) -> int:
        return self._n_rows.nbytes + sum(a.nbytes for a in self._accumulators.values())

    def check(self) -> None:
        """Assert that no entry has fewer rows than none, and what holds for its partial results."""
        n_rows = self._n_rows[: self.n]
        assert (n_rows >= 0).all(), f"entries with fewer rows than none: {np.flatnonzero(n_rows < 0)}"
        for accumulator in self._accumulators.values():
            accumulator.check(n_rows)


def _family(call: AggregateCall) -> str:
    if call.is_distinct:
        return "distinct"
    return _FAMILY.get(call.function, call.function)


def _shared_name(call: AggregateCall) -> str:
    """The name of the partial results that a call reads."""
    return replace(call, function=_family(call), frame=None).name


def _accumulator(call: AggregateCall, is_signed: bool) -> Accumulator:
    family = _family(call)
    if family == "sum":
        return DoubleSum(call) if types.is_floating(call.types[0]) else ExactSum(call)
    return (_SIGNED_KINDS if is_signed else _KINDS)[family](call)
