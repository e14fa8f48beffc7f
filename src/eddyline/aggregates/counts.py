"""Counts of rows: count, count_if, and of true and false ones: bool_and, bool_or. What was added can be taken out again."""

from __future__ import annotations

from typing import Self

import numpy as np
import pyarrow as pa

from eddyline.aggregates.accumulators import Accumulator, Value, arguments, given
from eddyline.aggregates.rows import ClassRows, Ints
from eddyline.kernels import add_signs
from eddyline.model import AggregateCall


class _Counts(Accumulator):
    """Numbers of rows that are added up, and can be subtracted."""

    is_invertible = True

    def merge(self, into: Ints, other: Self, which: Ints) -> None:
        for name, array in self.arrays.items():
            np.add.at(array, into, other.arrays[name][which])

    def subtract(self, into: Ints, other: Self, which: Ints) -> None:
        for name, array in self.arrays.items():
            np.subtract.at(array, into, other.arrays[name][which])

    def check(self, n_rows: Ints) -> None:
        total = sum(array[: len(n_rows)] for array in self.arrays.values())
        assert np.all((total >= 0) & (total <= n_rows)), (self.call.name, total, n_rows)


class RowCount(_Counts):
    """Of rows where no argument is NULL; of count_if: where its argument is true."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.arrays = {"n": np.zeros(0, np.int64)}

    def add(self, entries: Ints, rows: ClassRows) -> None:
        call = self.call
        if call.function == "count_if":
            taken = arguments(entries, rows, call, (), is_true=call.arguments[0])
        else:
            taken = arguments(entries, rows, call, call.arguments)
        add_signs(given(taken.entries), given(taken.signs, np.int8), self.arrays["n"])

    def value(self, call: AggregateCall, entries: Ints) -> Value:
        return pa.array(self.arrays["n"][entries]), None


class TruthCounts(_Counts):
    """Of rows whose argument is true, and of those where it is false."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.arrays = {"false": np.zeros(0, np.int64), "true": np.zeros(0, np.int64)}

    def add(self, entries: Ints, rows: ClassRows) -> None:
        taken = arguments(entries, rows, self.call, self.call.arguments)
        is_true = np.asarray(taken.columns[0].to_numpy(zero_copy_only=False)).astype(bool)
        for name, mask in (("false", ~is_true), ("true", is_true)):
            add_signs(given(taken.entries[mask]), given(taken.signs[mask], np.int8), self.arrays[name])

    def value(self, call: AggregateCall, entries: Ints) -> Value:
        n_false, n_true = self.arrays["false"][entries], self.arrays["true"][entries]
        value = n_false == 0 if call.function == "bool_and" else n_true > 0
        return pa.array(value, mask=n_false + n_true == 0), None
