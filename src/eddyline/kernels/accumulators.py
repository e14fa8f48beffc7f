"""Partial results of aggregates, one line of each array per entry; row k goes into `entries[k]`, one after the other.

Exact sums are integers of several 64-bit limbs, the lowest first, in two's complement. Sums of doubles and variances use
double-double numbers: an unevaluated sum of two doubles, the second below half a unit in the last place of the first.

Sources: Dekker, "A floating-point technique for extending the available precision", 1971, and Knuth's error-free sum, for
double-double; Welford, 1962, for one value more or less in a variance; Chan, Golub and LeVeque, 1979, for two variances in one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel
from eddyline.kernels.layouts import (
    FINITE,
    HUGE,
    HUGE_EXPONENT,
    MINUS_INFINITE,
    NOT_A_NUMBER,
    PLUS_INFINITE,
    read_only,
)

_Ints = npt.NDArray[np.int64]
_Signs = npt.NDArray[np.int8]
_Limbs = npt.NDArray[np.uint64]
_Doubles = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]

_NONE, _ONE, _ALL = np.uint64(0), np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)
_TOP = np.uint64(63)
_SPLIT = 134217729.0  # 2**27 + 1: halves of a double whose product is exact
_DOWN = 2.0**-HUGE_EXPONENT


@kernel
def add_signs(entries: _Ints, signs: _Signs, counts: _Ints) -> None:
    """Count a row, or one less where its sign is negative."""
    for k in range(len(entries)):
        counts[entries[k]] += 1 if signs[k] > 0 else -1


@kernel
def add_limbs(entries: _Ints, values: _Limbs, signs: _Signs, sums: _Limbs) -> None:
    """Add values, or subtract them where the sign is negative; they may have fewer limbs than the sums."""
    n_given, n_limbs = values.shape[1], sums.shape[1]
    for k in range(len(entries)):
        entry = entries[k]
        flip = _NONE if signs[k] > 0 else _ALL  # minus a number is its complement and one
        carry = flip & _ONE
        beyond = _NONE - (values[k, n_given - 1] >> _TOP)
        for at in range(n_limbs):
            limb = (values[k, at] if at < n_given else beyond) ^ flip
            low = sums[entry, at] + limb
            total = low + carry
            carry = np.uint64((low < limb) | (total < low))
            sums[entry, at] = total


@kernel
def divided(limbs: _Limbs, counts: _Ints, quotients: _Doubles) -> None:
    """Integers of two limbs divided by counts above 0, rounded once: long division until the bits suffice."""
    enough = _ONE << np.uint64(62)
    for k in range(len(counts)):
        low, high = limbs[k, 0], limbs[k, 1]
        is_negative = (high >> _TOP) != _NONE
        if is_negative:
            low, high = ~low + _ONE, ~high + np.uint64(low == _NONE)
        if (low | high) == _NONE:
            quotients[k] = 0.0
            continue
        n, rest, quotient, exponent, is_inexact = np.uint64(counts[k]), _NONE, _NONE, 0, False
        for at in range(128):
            bit = ((high if at < 64 else low) >> np.uint64(63 - at % 64)) & _ONE
            if quotient >= enough:
                exponent += 1
                is_inexact |= bit != _NONE
            else:
                rest = (rest << _ONE) | bit
                quotient <<= _ONE
                if rest >= n:
                    rest -= n
                    quotient |= _ONE
        while quotient < enough and exponent <= 0:
            exponent -= 1
            rest <<= _ONE
            quotient <<= _ONE
            if rest >= n:
                rest -= n
                quotient |= _ONE
        if is_inexact or rest != _NONE:
            quotient |= _ONE
        value = np.float64(quotient) * 2.0**exponent
        quotients[k] = -value if is_negative else value


@kernel
def divided_half_up(limbs: _Limbs, factor: int, counts: _Ints, quotients: _Limbs) -> None:
    """Integers of two limbs times a factor below 2**32, divided by counts above 0 and rounded half away from zero.

    They are below 2**127, so that a product has three limbs; a quotient has two, and a third for what does not fit.
    """
    half, digit = np.uint64(32), np.uint64(0xFFFFFFFF)
    product = np.zeros(3, np.uint64)
    for k in range(len(counts)):
        low, high = limbs[k, 0], limbs[k, 1]
        is_negative = (high >> _TOP) != _NONE
        if is_negative:
            low, high = ~low + _ONE, ~high + np.uint64(low == _NONE)
        carry = _NONE
        for at in range(4):
            limb = low if at < 2 else high
            shift = half if at % 2 else _NONE
            carry += ((limb >> shift) & digit) * np.uint64(factor)
            if at % 2:
                product[at // 2] |= (carry & digit) << half
            else:
                product[at // 2] = carry & digit
            carry >>= half
        product[2] = carry
        n, rest = np.uint64(counts[k]), _NONE
        for limb_at in range(2, -1, -1):
            quotient = _NONE
            for bit_at in range(63, -1, -1):
                rest = (rest << _ONE) | ((product[limb_at] >> np.uint64(bit_at)) & _ONE)
                quotient <<= _ONE
                if rest >= n:
                    rest -= n
                    quotient |= _ONE
            product[limb_at] = quotient
        carry = np.uint64(rest >= n - rest)
        flip = _ALL if is_negative else _NONE
        borrow = flip & _ONE
        for at in range(3):
            total = product[at] + carry
            carry = np.uint64(total < carry)
            turned = (total ^ flip) + borrow
            borrow = np.uint64(turned < borrow)
            quotients[k, at] = turned


# ----------------------------------------------------------------------------------------------- double-double


@kernel
def _sum(a: float, b: float) -> tuple[float, float]:
    """The sum, and exactly what rounding took from it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@kernel
def _product(a: float, b: float) -> tuple[float, float]:
    """The product, and exactly what rounding took from it."""
    product = a * b
    wide = _SPLIT * a
    a_high = wide - (wide - a)
    wide = _SPLIT * b
    b_high = wide - (wide - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel
def _added(high: float, low: float, other_high: float, other_low: float) -> tuple[float, float]:
    """The sum of two double-doubles."""
    total, rest = _sum(high, other_high)
    small, smaller = _sum(low, other_low)
    total, rest = _sum(total, rest + small)
    return _sum(total, rest + smaller)


@kernel
def _multiplied(high: float, low: float, other_high: float, other_low: float) -> tuple[float, float]:
    product, rest = _product(high, other_high)
    return _sum(product, rest + (high * other_low + low * other_high))


@kernel
def _divided(high: float, low: float, by: float) -> tuple[float, float]:
    quotient = high / by
    product, rest = _product(quotient, by)
    return _sum(quotient, ((high - product) - rest + low) / by)


@kernel
def add_doubles(entries: _Ints, values: _Doubles, signs: _Signs, sums: _Doubles, counts: _Ints) -> None:
    """Add doubles to sums of (high, low, high and low of huge ones), and count what they are."""
    for k in range(len(entries)):
        entry, value = entries[k], values[k]
        step = 1 if signs[k] > 0 else -1
        if np.isfinite(value):
            counts[entry, FINITE] += step
            if counts[entry, FINITE] == 0:  # nothing is left: no noise either
                for at in range(4):
                    sums[entry, at] = 0.0
                continue
            at = 0 if abs(value) < HUGE else 2
            value *= step * (1.0 if at == 0 else _DOWN)
            total, rest = _sum(sums[entry, at], value)
            sums[entry, at], sums[entry, at + 1] = _sum(total, rest + sums[entry, at + 1])
        elif np.isnan(value):
            counts[entry, NOT_A_NUMBER] += step
        else:
            counts[entry, PLUS_INFINITE if value > 0 else MINUS_INFINITE] += step


@kernel
def merge_doubles(
    into: _Ints, other_sums: _Doubles, other_counts: _Ints, sums: _Doubles, counts: _Ints
) -> None:
    """Add sums as `add_doubles` makes them."""
    for k in range(len(into)):
        entry = into[k]
        for at in range(counts.shape[1]):
            counts[entry, at] += other_counts[k, at]
        for at in (0, 2):
            high, low = other_sums[k, at], other_sums[k, at + 1]
            sums[entry, at], sums[entry, at + 1] = _added(sums[entry, at], sums[entry, at + 1], high, low)


@kernel
def add_moments(
    entries: _Ints, high: _Doubles, low: _Doubles, signs: _Signs, moments: _Doubles, counts: _Ints
) -> None:
    """Add finite values to (mean, squared distances from it), each as high and low, and to how many there are."""
    for k in range(len(entries)):
        entry = entries[k]
        step = 1 if signs[k] > 0 else -1
        n = counts[entry, FINITE] + step
        counts[entry, FINITE] = n
        if n == 0:
            for at in range(4):
                moments[entry, at] = 0.0
            continue
        mean, mean_low = moments[entry, 0], moments[entry, 1]
        far, far_low = _added(high[k], low[k], -mean, -mean_low)
        move, move_low = _divided(far, far_low, float(n))
        mean, mean_low = _added(mean, mean_low, step * move, step * move_low)
        near, near_low = _added(high[k], low[k], -mean, -mean_low)
        square, square_low = _multiplied(far, far_low, near, near_low)
        square, square_low = _added(moments[entry, 2], moments[entry, 3], step * square, step * square_low)
        if n == 1 or square < 0.0:
            square, square_low = 0.0, 0.0
        moments[entry, 0], moments[entry, 1] = mean, mean_low
        moments[entry, 2], moments[entry, 3] = square, square_low


@kernel
def merge_moments(
    into: _Ints, other_moments: _Doubles, other_counts: _Ints, moments: _Doubles, counts: _Ints
) -> None:
    """Add moments as `add_moments` makes them."""
    for k in range(len(into)):
        entry = into[k]
        n, n_other = counts[entry, FINITE], other_counts[k, FINITE]
        for at in range(counts.shape[1]):
            counts[entry, at] += other_counts[k, at]
        if n_other == 0:
            continue
        if n == 0:
            for at in range(4):
                moments[entry, at] = other_moments[k, at]
            continue
        mean, mean_low = moments[entry, 0], moments[entry, 1]
        far, far_low = _added(other_moments[k, 0], other_moments[k, 1], -mean, -mean_low)
        share, share_low = _multiplied(far, far_low, float(n_other), 0.0)
        share, share_low = _divided(share, share_low, float(n + n_other))
        moments[entry, 0], moments[entry, 1] = _added(mean, mean_low, share, share_low)
        square, square_low = _multiplied(far, far_low, share, share_low)
        square, square_low = _multiplied(square, square_low, float(n), 0.0)
        square, square_low = _added(square, square_low, other_moments[k, 2], other_moments[k, 3])
        moments[entry, 2], moments[entry, 3] = _added(
            moments[entry, 2], moments[entry, 3], square, square_low
        )


# ----------------------------------------------------------------------------------------------- the greatest row


@kernel
def replace_by_greater(
    entries: _Ints, order: _Ints, greatest: _Ints, has_row: _Flags, is_greater: _Flags
) -> None:
    """Keep for each entry the line of `order` that is greatest, compared column by column.

    `is_greater` gets which rows took the place of another: the last of them for an entry is the one that stays.
    """
    n_columns = order.shape[1]
    for k in range(len(entries)):
        entry = entries[k]
        is_greater[k] = not has_row[entry]
        if has_row[entry]:
            for at in range(n_columns):
                if order[k, at] != greatest[entry, at]:
                    is_greater[k] = order[k, at] > greatest[entry, at]
                    break
        if is_greater[k]:
            has_row[entry] = True
            for at in range(n_columns):
                greatest[entry, at] = order[k, at]


def warm_up() -> None:
    """Compile the kernels, or fetch them from the cache."""

    def given(array: Any) -> Any:
        return read_only(np.asarray(array))

    entries, signs = given(np.zeros(1, np.int64)), given(np.ones(1, np.int8))
    counts, doubles = np.ones((1, 4), np.int64), np.zeros((1, 4))
    limbs = given(np.zeros((1, 2), np.uint64))
    add_signs(entries, signs, np.zeros(1, np.int64))
    add_limbs(entries, limbs, signs, np.zeros((1, 2), np.uint64))
    divided(limbs, given(np.ones(1, np.int64)), np.zeros(1))
    divided_half_up(limbs, 1, given(np.ones(1, np.int64)), np.zeros((1, 3), np.uint64))
    add_doubles(entries, given(np.zeros(1)), signs, doubles, counts)
    merge_doubles(entries, given(np.zeros((1, 4))), given(np.zeros((1, 4), np.int64)), doubles, counts)
    add_moments(entries, given(np.zeros(1)), given(np.zeros(1)), signs, doubles, counts)
    merge_moments(entries, given(np.zeros((1, 4))), given(np.zeros((1, 4), np.int64)), doubles, counts)
    order, has_row = given(np.zeros((1, 1), np.int64)), np.zeros(1, np.bool_)
    replace_by_greater(entries, order, np.zeros((1, 1), np.int64), has_row, np.zeros(1, np.bool_))
