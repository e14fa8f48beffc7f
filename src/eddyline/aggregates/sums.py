"""Sums and averages. Integers and decimals are added exactly; doubles as double-double, NaN and infinities are counted.

A sum is judged only when its value is asked for, so it does not matter whether it left its type on the way. Doubles are not
re-summed after removals: a double-double has 106 bits, so what a removal leaves behind is below 1e-30 of the largest sum there
was, and an entry without finite values has the sum 0 again.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline import types
from eddyline.aggregates.accumulators import (
    Accumulator,
    Doubles,
    Value,
    arguments,
    decimal_limbs,
    decimals,
    doubles,
    exact_sum,
    given,
    integers,
    masked,
)
from eddyline.aggregates.rows import ClassRows, Ints, Mask
from eddyline.kernels import (
    FINITE,
    HUGE_EXPONENT,
    MINUS_INFINITE,
    NOT_A_NUMBER,
    PLUS_INFINITE,
    add_doubles,
    add_limbs,
    add_signs,
    divided,
    divided_half_up,
    merge_doubles,
)
from eddyline.model import AggregateCall

Limbs = npt.NDArray[np.uint64]


class ExactSum(Accumulator):
    """Of integers or decimals: 128 bits, or 192 where a value alone may need more than 64; and how many there are."""

    is_invertible = True

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._of = call.types[0]
        n_limbs = 3 if types.is_wide_decimal(self._of) else 2
        self.arrays = {"sum": np.zeros((0, n_limbs), np.uint64), "n": np.zeros(0, np.int64)}

    def add(self, entries: Ints, rows: ClassRows) -> None:
        taken = arguments(entries, rows, self.call, self.call.arguments)
        column = taken.columns[0]
        if types.is_decimal(self._of):
            limbs = decimal_limbs(column)
        else:
            limbs = integers(column).view(np.uint64).reshape(-1, 1)
        places, signs = given(taken.entries), given(taken.signs, np.int8)
        add_limbs(places, given(limbs, np.uint64), signs, self.arrays["sum"])
        add_signs(places, signs, self.arrays["n"])

    def merge(self, into: Ints, other: Self, which: Ints) -> None:
        self._combine(into, other, which, 1)

    def subtract(self, into: Ints, other: Self, which: Ints) -> None:
        self._combine(into, other, which, -1)

    def _combine(self, into: Ints, other: Self, which: Ints, sign: int) -> None:
        signs = np.full(len(into), sign, np.int8)
        limbs = given(other.arrays["sum"][which], np.uint64)
        add_limbs(given(into), limbs, given(signs, np.int8), self.arrays["sum"])
        np.add.at(self.arrays["n"], into, sign * other.arrays["n"][which])

    def value(self, call: AggregateCall, entries: Ints) -> Value:
        limbs, n = self.arrays["sum"][entries], self.arrays["n"][entries]
        if not types.is_decimal(self._of):
            return _integer_value(call, limbs, n)
        sum_type = pa.decimal128(min(self._of.precision + 10, types.MAX_PRECISION), self._of.scale)
        is_overflow = ~_are_within(limbs, sum_type.precision)
        if call.function == "avg":
            factor = 10 ** (call.type.scale - self._of.scale)
            quotients = np.zeros((len(n), 3), np.uint64)
            divided_half_up(given(limbs[:, :2], np.uint64), factor, given(np.maximum(n, 1)), quotients)
            limbs = quotients
            is_overflow |= ~_are_within(limbs, call.type.precision)
        fitting = np.where(is_overflow[:, None], np.uint64(0), limbs[:, :2])
        return masked(decimals(fitting, call.type), (n > 0) & ~is_overflow), is_overflow

    def check(self, n_rows: Ints) -> None:
        n = self.arrays["n"][: len(n_rows)]
        assert np.all((n >= 0) & (n <= n_rows)), (self.call.name, n, n_rows)
        assert not self.arrays["sum"][: len(n_rows)][n == 0].any(), f"{self.call.name}: a sum of nothing"


def _integer_value(call: AggregateCall, limbs: Limbs, n: Ints) -> Value:
    low, high = limbs[:, 0].view(np.int64), limbs[:, 1].view(np.int64)
    if call.function == "sum":
        is_overflow = high != low >> 63
        return pa.array(np.where(is_overflow, 0, low), mask=(n == 0) | is_overflow), is_overflow
    # so is the double, and dividing rounds once
    is_exact = (high == low >> 63) & (low < 1 << 53) & (low > -(1 << 53))
    quotients = low / np.maximum(n, 1)
    wide = np.flatnonzero(~is_exact)
    if len(wide):
        exact = np.zeros(len(wide))
        divided(given(limbs[wide], np.uint64), given(n[wide]), exact)
        quotients[wide] = exact
    return pa.array(quotients, mask=n == 0), None


def _are_within(limbs: Limbs, n_digits: int) -> Mask:
    """Whether integers have at most so many decimal digits."""
    low, high = limbs[:, 0], limbs[:, 1].view(np.int64)
    bound = 10**n_digits
    bound_high, bound_low = bound >> 64, np.uint64(bound & (1 << 64) - 1)
    minus_high, minus_low = -bound >> 64, np.uint64(-bound & (1 << 64) - 1)
    is_below = (high < bound_high) | ((high == bound_high) & (low < bound_low))
    is_above = (high > minus_high) | ((high == minus_high) & (low > minus_low))
    fits = np.all(limbs[:, 2:].view(np.int64) == (high >> 63)[:, None], axis=1)
    return np.asarray(is_below & is_above & fits)


class DoubleSum(Accumulator):
    """Of doubles: the finite ones as double-double, huge ones apart; and how many are finite, NaN, infinite of either sign."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.arrays = {"sum": np.zeros((0, 4)), "n": np.zeros((0, 4), np.int64)}

    def add(self, entries: Ints, rows: ClassRows) -> None:
        taken = arguments(entries, rows, self.call, self.call.arguments)
        values = given(doubles(taken.columns[0]), np.float64)
        signs = given(taken.signs, np.int8)
        add_doubles(given(taken.entries), values, signs, self.arrays["sum"], self.arrays["n"])

    def merge(self, into: Ints, other: Self, which: Ints) -> None:
        sums, counts = given(other.arrays["sum"][which], np.float64), given(other.arrays["n"][which])
        merge_doubles(given(into), sums, counts, self.arrays["sum"], self.arrays["n"])

    def value(self, call: AggregateCall, entries: Ints) -> Value:
        counts = self.arrays["n"][entries]
        n = counts.sum(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            high, low, exponent = _total(self.arrays["sum"][entries])
            if call.function == "avg":
                high, low = _quotient(high, low, np.maximum(n, 1).astype(np.float64))
            value = np.ldexp(high + low, exponent)
        value[counts[:, PLUS_INFINITE] > 0] = np.inf
        value[counts[:, MINUS_INFINITE] > 0] = -np.inf
        is_both = (counts[:, PLUS_INFINITE] > 0) & (counts[:, MINUS_INFINITE] > 0)
        value[is_both | (counts[:, NOT_A_NUMBER] > 0)] = np.nan
        return pa.array(value, mask=n == 0), None

    def check(self, n_rows: Ints) -> None:
        counts = self.arrays["n"][: len(n_rows)]
        assert np.all((counts >= 0).all(axis=1) & (counts.sum(axis=1) <= n_rows)), (counts, n_rows)
        assert not self.arrays["sum"][: len(n_rows)][counts[:, FINITE] == 0].any(), "a sum of nothing"


def _total(sums: Doubles) -> tuple[Doubles, Doubles, npt.NDArray[np.int32]]:
    """High and low of what sums come to, near 1 so that nothing below leaves the range, and the power of two they are to be
    multiplied by."""
    high, low = sums[:, 0].copy(), sums[:, 1].copy()
    shift = np.zeros(len(sums), np.int32)
    is_huge = (sums[:, 2] != 0) | (sums[:, 3] != 0)
    if is_huge.any():
        down = 2.0**-HUGE_EXPONENT
        huge, huge_low = sums[is_huge, 2], sums[is_huge, 3]
        total, rest = exact_sum(huge, high[is_huge] * down)
        high[is_huge], low[is_huge] = exact_sum(total, rest + huge_low + low[is_huge] * down)
        shift[is_huge] = HUGE_EXPONENT
    mantissa, exponent = np.frexp(high)
    return mantissa, np.ldexp(low, -exponent), exponent + shift


def _quotient(high: Doubles, low: Doubles, n: Doubles) -> tuple[Doubles, Doubles]:
    """(high + low) / n as a double, and what is missing from it. Products of halves of doubles are exact."""
    quotient = high / n
    q_high, n_high = _upper_half(quotient), _upper_half(n)
    q_low, n_low = quotient - q_high, n - n_high
    product = quotient * n
    rest = ((q_high * n_high - product) + q_high * n_low + q_low * n_high) + q_low * n_low
    return quotient, ((high - product) - rest + low) / n


def _upper_half(a: Doubles) -> Doubles:
    wide = 134217729.0 * a  # 2**27 + 1
    return np.asarray(wide - (wide - a))
