"""Numbers, booleans and bytes among each other."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions import decimals
from eddyline.expressions.buffers import Mask, arrow, known_and, numbers, valid
from eddyline.expressions.conversions.conversion import (
    OUT_OF_RANGE,
    OVERFLOW,
    Conversion,
    checked_conversion,
    one_by_one,
    patched_values,
)
from eddyline.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, is_decimal, is_floating, is_integer

_LONG_DIGITS = 18  # decimals of more digits are no longs inside Spark
# A DOUBLE holds every integer of so many digits, so dividing it by a power of ten rounds only once.
_EXACT_DIGITS = 15


def between(array: pa.Array, to: pa.DataType) -> Conversion:
    """A numeric or boolean array in another numeric type, or as BOOLEAN."""
    source = array.type
    if source == BOOLEAN:
        return between(array.cast(INT), to)
    if to == BOOLEAN:
        return Conversion(_is_not_zero(array))
    if is_decimal(source):
        return _from_decimal(array, to)
    if is_decimal(to):
        return _integer_to_decimal(array, to) if is_integer(source) else _floating_to_decimal(array, to)
    if is_floating(to):
        with np.errstate(over="ignore"):
            return Conversion(arrow(numbers(array).astype(to.to_pandas_dtype()), valid(array), to))
    if is_floating(source):
        return _floating_to_integer(array, to)
    return _integer_to_integer(array, to)


def _is_not_zero(array: pa.Array) -> pa.Array:
    if is_decimal(array.type):
        return pc.not_equal(array, pa.scalar(0, array.type))
    return arrow(numbers(array) != 0, valid(array), BOOLEAN)


def _integer_to_integer(array: pa.Array, to: pa.DataType) -> Conversion:
    values = numbers(array)
    narrow = values.astype(to.to_pandas_dtype())
    known = valid(array)
    return checked_conversion(arrow(narrow, known, to), known_and(known, narrow != values), OVERFLOW)


def _floating_to_integer(array: pa.Array, to: pa.DataType) -> Conversion:
    """Cut off the fraction. The largest BIGINT is no DOUBLE: the next one above still converts, to that BIGINT."""
    values = numbers(array).astype(np.float64)
    dtype = np.dtype(to.to_pandas_dtype())
    low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    with np.errstate(invalid="ignore"):
        fits = (np.floor(values) <= high) & (np.ceil(values) >= low)
    whole = np.trunc(np.where(fits, values, 0))
    is_top = whole >= 2.0**63
    result = np.where(is_top, 0, whole).astype(np.int64)
    result[is_top] = np.iinfo(np.int64).max
    known = valid(array)
    return checked_conversion(arrow(result.astype(dtype), known, to), known_and(known, ~fits), OVERFLOW)


def _integer_to_decimal(array: pa.Array, to: pa.DataType) -> Conversion:
    values, bad = decimals.fit(array.cast(BIGINT).cast(pa.decimal128(19, 0)), to)
    return checked_conversion(values, bad, OUT_OF_RANGE)


def _from_decimal(array: pa.Array, to: pa.DataType) -> Conversion:
    if is_decimal(to):
        values, bad = decimals.fit(array, to)
        return checked_conversion(values, bad, OUT_OF_RANGE)
    if is_floating(to):
        return Conversion(decimal_to_floating(array, to))
    if array.type.precision > _LONG_DIGITS and to != BIGINT:
        # As Spark does, which shows only within a rounding error of a whole number.
        return _floating_to_integer(decimal_to_floating(array, DOUBLE), to)
    whole = decimals.truncated_decimals(array)
    limits = np.iinfo(to.to_pandas_dtype())
    outside = decimals.beyond(whole, int(limits.max), int(limits.min))
    if outside is not None:
        whole = pc.if_else(pa.array(outside), pa.scalar(None, whole.type), whole)
    return checked_conversion(whole.cast(BIGINT).cast(to), outside, OVERFLOW)


def decimal_to_floating(array: pa.Array, to: pa.DataType) -> pa.Array:
    """The nearest floating-point number of each decimal."""
    t = array.type
    if t.precision <= _EXACT_DIGITS and to == DOUBLE:
        whole = decimals.relabelled_decimals(array, t.precision, 0).cast(BIGINT)
        return arrow(numbers(whole) / 10.0**t.scale, valid(array), DOUBLE)
    return array.cast(STRING).cast(to)  # Arrow rounds twice on the direct way, and once when it reads digits


def _floating_to_decimal(array: pa.Array, to: pa.DataType) -> Conversion:
    """Through the shortest digits of the double, as Spark does. NaN and infinities become NULL, which is no error."""
    values = numbers(array).astype(np.float64)
    known = known_and(valid(array), np.isfinite(values))
    doubles = arrow(values, known, DOUBLE)
    is_plain = has_plain_digits(values)
    result, bad = decimals.fit(plain_digits(doubles, known & is_plain), to)
    rare = known & ~is_plain
    if not rare.any():
        return checked_conversion(result, bad, OUT_OF_RANGE)
    rounded, failed = one_by_one(doubles, rare, lambda v: decimals.rounded_decimal(Decimal(repr(v)), to), to)
    return checked_conversion(
        patched_values(result, rare, rounded), failed if bad is None else failed | bad, OUT_OF_RANGE
    )


def has_plain_digits(values: npt.NDArray[np.floating]) -> Mask:
    """Where `plain_digits` can be asked for: all but very large and very small numbers."""
    size = np.abs(values)
    return (size == 0) | ((size >= 1e-6) & (size < 1e15))


def plain_digits(array: pa.Array, rows: Mask) -> pa.Array:
    """The shortest decimals that name the floating-point numbers on these rows, NULL on the others."""
    shown = arrow(numbers(array), rows, array.type).cast(STRING)
    return shown.cast(pa.decimal128(37, 22))  # 17 digits, the first not later than the sixth after the point
