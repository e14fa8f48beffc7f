"""Variances and standard deviations: how many values, their mean, and the sum of squared distances from it, as double-double.

One value more or less is Welford's update and its inverse, two variances in one are Chan's formula (kernels/accumulators.py).
With 106 bits the inverse needs no second pass: after a value leaves that was a million times farther out than the rest, twenty
digits of the rest are still right. Integers and decimals enter as integers, exactly up to 106 bits.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import pyarrow as pa

from eddyline import types
from eddyline.aggregates.accumulators import (
    Accumulator,
    Doubles,
    Value,
    arguments,
    decimal_limbs,
    doubles,
    exact_sum,
    given,
    integers,
)
from eddyline.aggregates.rows import ClassRows, Ints
from eddyline.kernels import FINITE, NOT_A_NUMBER, add_moments, merge_moments
from eddyline.model import AggregateCall

_LIMB = 2.0**64


class Moments(Accumulator):
    """Of one column; values that are NaN or infinite are only counted."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        of = call.types[0]
        self._unit = 10.0**-of.scale if types.is_decimal(of) else 1.0  # of the integers that decimals are
        self.arrays = {"moments": np.zeros((0, 4)), "n": np.zeros((0, 4), np.int64)}

    def add(self, entries: Ints, rows: ClassRows) -> None:
        taken = arguments(entries, rows, self.call, self.call.arguments)
        high, low = _double_doubles(taken.columns[0])
        places, signs = taken.entries, taken.signs
        is_finite = np.isfinite(high)
        if not is_finite.all():
            steps = np.sign(signs[~is_finite]).astype(np.int64)
            np.add.at(self.arrays["n"][:, NOT_A_NUMBER], places[~is_finite], steps)
            places, signs, high, low = places[is_finite], signs[is_finite], high[is_finite], low[is_finite]
        high, low = given(high, np.float64), given(low, np.float64)
        add_moments(given(places), high, low, given(signs, np.int8), self.arrays["moments"], self.arrays["n"])

    def merge(self, into: Ints, other: Self, which: Ints) -> None:
        moments, counts = given(other.arrays["moments"][which], np.float64), given(other.arrays["n"][which])
        merge_moments(given(into), moments, counts, self.arrays["moments"], self.arrays["n"])

    def value(self, call: AggregateCall, entries: Ints) -> Value:
        counts, moments = self.arrays["n"][entries], self.arrays["moments"][entries]
        n = counts.sum(axis=1)
        freedom = n - 1 if call.function.endswith("_samp") else n
        squares = moments[:, 2] + moments[:, 3]
        squares[np.isnan(squares)] = np.inf  # they left the range
        value = squares / np.maximum(freedom, 1)
        value = np.sqrt(value) * self._unit if call.function.startswith("stddev") else value * self._unit**2
        value[counts[:, NOT_A_NUMBER] > 0] = np.nan
        return pa.array(value, mask=freedom <= 0), None

    def check(self, n_rows: Ints) -> None:
        counts, moments = self.arrays["n"][: len(n_rows)], self.arrays["moments"][: len(n_rows)]
        assert np.all((counts >= 0).all(axis=1) & (counts.sum(axis=1) <= n_rows)), (counts, n_rows)
        assert not moments[counts[:, FINITE] == 0].any(), "moments of nothing"
        assert not (moments[:, 2] < 0).any(), "squares below 0"


def _double_doubles(column: pa.Array) -> tuple[Doubles, Doubles]:
    """Numbers as high and low doubles; decimals as the integers they are stored as."""
    if types.is_floating(column.type):
        high = doubles(column)
        return high, np.zeros(len(high))
    if types.is_decimal(column.type):
        limbs = decimal_limbs(column)
        upper, upper_low = _of_integers(limbs[:, 1].view(np.int64))
        lower, lower_low = _of_integers((limbs[:, 0] >> np.uint64(1)).view(np.int64))
        odd = (limbs[:, 0] & np.uint64(1)).astype(np.float64)
        high, low = upper * _LIMB, upper_low * _LIMB
        for part in (lower * 2, lower_low * 2, odd):
            high, rest = exact_sum(high, part)
            low = low + rest
        return exact_sum(high, low)
    return _of_integers(integers(column))


def _of_integers(numbers: Ints) -> tuple[Doubles, Doubles]:
    """64 bits are 32 and 32, and each half is a double."""
    upper, lower = (numbers >> 32).astype(np.float64) * 2.0**32, (numbers & 0xFFFFFFFF).astype(np.float64)
    return exact_sum(upper, lower)
