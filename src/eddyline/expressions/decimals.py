"""Exact decimals over whole columns, with a mask of what does not fit instead of an exception.

A DECIMAL is a whole number with a point in it. Sums and products are computed on Arrow's 256-bit whole numbers, which hold the
product of two DECIMAL(38), then rounded to the type SQL promises.

    word        meaning
    whole       an array of 76-digit decimals of scale 0
    wide        an array of 76-digit decimals of any scale
    drop        how many digits are cut off at the end

Arrow's 256-bit division is off by one for some operands (seen with pyarrow 26 at 10⁵² - 1 by 10¹⁴), and its rounding and
rescaling of wide decimals build on it. So every quotient is checked by multiplying back, and recomputed with Python's
integers where the check fails.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.buffers import Mask
from eddyline.expressions.frame import as_mask
from eddyline.types import MAX_PRECISION

WIDE = 76  # digits of Arrow's 256-bit decimals
EXACT = Context(prec=2 * WIDE)
_WHOLE = pa.decimal256(WIDE, 0)
_GUARD = 4  # digits Arrow's division adds to the quotient of two whole numbers
_DIVIDEND = WIDE - _GUARD  # so many digits a dividend may have

HALF_UP = "half_towards_infinity"
HALF_EVEN = "half_to_even"
TOWARDS_ZERO = "towards_zero"
UP, DOWN = "up", "down"


def nines(digits: int, scale: int = 0) -> Decimal:
    """The largest decimal of so many digits."""
    return Decimal((0, (9,) * digits, -scale))


def relabelled_decimals(array: pa.Array, precision: int, scale: int) -> pa.Array:
    """The same stored integers under another precision and scale. Nothing is checked."""
    t = pa.decimal256 if pa.types.is_decimal256(array.type) else pa.decimal128
    return pa.Array.from_buffers(t(precision, scale), len(array), array.buffers(), offset=array.offset)


def wide(array: pa.Array) -> pa.Array:
    """The same values with 76 digits."""
    return array.cast(pa.decimal256(WIDE, array.type.scale))


def whole(array: pa.Array, scale: int) -> pa.Array:
    """The stored integers of the values at a scale at least their own."""
    return relabelled_decimals(wide(array).cast(pa.decimal256(WIDE, scale)), WIDE, 0)


# ------------------------------------------------------------------------------------- fitting a type


def fit(array: pa.Array, to: pa.DataType, *, rounding: str = HALF_UP) -> tuple[pa.Array, Mask | None]:
    """The values as DECIMAL `to`, rounded to its scale; NULL and marked where they do not fit."""
    t = array.type
    if t == to:
        return array, None
    drop = t.scale - to.scale
    if pa.types.is_decimal128(t):
        if drop <= 0 and to.precision - to.scale >= t.precision - t.scale:
            return array.cast(to), None
        if drop > 0 and t.precision < MAX_PRECISION:  # rounding up may need one digit more
            roomy = pc.round(
                relabelled_decimals(array, MAX_PRECISION, t.scale), ndigits=to.scale, round_mode=rounding
            )
            return _checked_range(roomy.cast(pa.decimal128(MAX_PRECISION, to.scale)), to)
    if drop <= 0:
        return _checked_range(wide(array).cast(pa.decimal256(WIDE, to.scale)), to)
    cut = rounded_quotient(relabelled_decimals(wide(array), WIDE, 0), _power_of_ten(drop), rounding)
    return _checked_range(relabelled_decimals(cut, WIDE, to.scale), to)


def _checked_range(array: pa.Array, to: pa.DataType) -> tuple[pa.Array, Mask | None]:
    outside = beyond(array, nines(to.precision, to.scale))
    if outside is None:
        return array.cast(to), None
    return pc.if_else(pa.array(outside), pa.scalar(None, array.type), array).cast(to), outside


def beyond(array: pa.Array, limit: Decimal | int, low: Decimal | int | None = None) -> Mask | None:
    """Where a value is above `limit`, or below `low` (without one: below -limit); None if nowhere."""
    high = Decimal(limit)
    lowest = high.copy_negate() if low is None else Decimal(low)
    outside = pc.or_(
        pc.greater(array, pa.scalar(high, array.type)), pc.less(array, pa.scalar(lowest, array.type))
    )
    mask = as_mask(outside, len(array))
    return mask if mask.any() else None


def truncated_decimals(array: pa.Array) -> pa.Array:
    """The digits before the point, as DECIMAL(38, 0)."""
    to = pa.decimal128(MAX_PRECISION, 0)
    if array.type.scale == MAX_PRECISION:  # nothing does, and Arrow refuses to say so
        return pc.if_else(array.is_valid(), pa.scalar(Decimal(0), to), pa.scalar(None, to))
    roomy = relabelled_decimals(array, MAX_PRECISION, array.type.scale)
    return pc.round(roomy, ndigits=0, round_mode=TOWARDS_ZERO).cast(to)


def rounded_decimal(value: Decimal, to: pa.DataType) -> Decimal | None:
    """One Python decimal rounded half up to DECIMAL `to`, or None if it does not fit."""
    if value.adjusted() >= to.precision - to.scale and value:
        return None
    if value.adjusted() < -to.scale - 1:
        return Decimal(0)
    result = value.quantize(Decimal((0, (1,), -to.scale)), ROUND_HALF_UP, EXACT)
    return result if not result or result.adjusted() < to.precision - to.scale else None


# ------------------------------------------------------------------------------------- division of whole numbers


def _power_of_ten(exponent: int) -> pa.Scalar:
    return pa.scalar(Decimal((0, (1,), exponent)), _WHOLE)


def quotient(x: pa.Array, by: pa.Array | pa.Scalar) -> tuple[pa.Array, pa.Array]:
    """x / by cut to a whole number, and the rest, which has the sign of x. All are whole; `by` is not zero."""
    divisor = pa.repeat(by, len(x)) if isinstance(by, pa.Scalar) else by
    fits = beyond(x, nines(_DIVIDEND))
    dividend = x if fits is None else pc.if_else(pa.array(fits), pa.scalar(None, _WHOLE), x)
    guarded = pc.divide(relabelled_decimals(dividend, _DIVIDEND, 0), relabelled_decimals(divisor, 1, 0))
    q = pc.round(guarded, ndigits=0, round_mode=TOWARDS_ZERO).cast(_WHOLE)  # by 10⁴, which Arrow does rightly
    rest = _product_rest(x, q, divisor)
    wrong = _not_a_rest(rest, x, divisor)
    if fits is not None:
        wrong = fits if wrong is None else fits | wrong
    if wrong is None:
        return q, rest
    pairs = _python_pairs(
        x, divisor, wrong, lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    )
    q = pc.replace_with_mask(q, pa.array(wrong), pa.array(pairs, _WHOLE))
    return q, _product_rest(x, q, divisor)


def _product_rest(x: pa.Array, q: pa.Array, divisor: pa.Array) -> pa.Array:
    product = pc.multiply(relabelled_decimals(q, 1, 0), relabelled_decimals(divisor, 1, 0))
    return relabelled_decimals(
        pc.subtract(relabelled_decimals(x, WIDE - 1, 0), relabelled_decimals(product, WIDE - 1, 0)), WIDE, 0
    )


def _not_a_rest(rest: pa.Array, x: pa.Array, divisor: pa.Array) -> Mask | None:
    """Where a rest is not smaller than the divisor, or has not the sign of x."""
    zero = pa.scalar(Decimal(0), _WHOLE)
    too_large = pc.greater_equal(_abs(rest), _abs(divisor))
    other_sign = pc.or_(
        pc.and_(pc.greater(rest, zero), pc.less(x, zero)), pc.and_(pc.less(rest, zero), pc.greater(x, zero))
    )
    mask = as_mask(pc.or_(too_large, other_sign), len(rest))
    return mask if mask.any() else None


def _abs(array: pa.Array) -> pa.Array:
    return pc.abs(array)


def _python_pairs(
    a: pa.Array, b: pa.Array, rows: Mask, compute: Callable[[int, int], int]
) -> list[Decimal | None]:
    """`compute` on the marked rows, one by one."""
    chosen = pa.array(rows)
    pairs = zip(a.filter(chosen).to_pylist(), b.filter(chosen).to_pylist(), strict=True)
    return [None if x is None or y is None else Decimal(compute(int(x), int(y))) for x, y in pairs]


def rounded_quotient(x: pa.Array, by: pa.Array | pa.Scalar, rounding: str) -> pa.Array:
    """x / by rounded to a whole number. All are whole; `by` is not zero."""
    q, rest = quotient(x, by)
    zero, one = pa.scalar(Decimal(0), _WHOLE), pa.scalar(Decimal(1), _WHOLE)
    if rounding == TOWARDS_ZERO:
        return q
    divisor = pa.repeat(by, len(x)) if isinstance(by, pa.Scalar) else by
    is_negative = pc.not_equal(pc.less(x, zero), pc.less(divisor, zero))
    if rounding == UP:
        away = pc.and_(pc.not_equal(rest, zero), pc.invert(is_negative))
    elif rounding == DOWN:
        away = pc.and_(pc.not_equal(rest, zero), is_negative)
    else:
        other = pc.subtract(
            relabelled_decimals(_abs(divisor), WIDE - 1, 0), relabelled_decimals(_abs(rest), WIDE - 1, 0)
        )
        size = _abs(rest)
        away = pc.greater(size, other)
        is_half = pc.equal(size, other)
        if rounding == HALF_EVEN:
            is_half = pc.and_(is_half, pa.array(_is_odd(q)))
        away = pc.or_(away, is_half)
    step = pc.if_else(away, pc.if_else(is_negative, pa.scalar(Decimal(-1), _WHOLE), one), zero)
    return relabelled_decimals(
        pc.add(relabelled_decimals(q, WIDE - 1, 0), relabelled_decimals(step, WIDE - 1, 0)), WIDE, 0
    )


def _is_odd(array: pa.Array) -> Mask:
    return (low_bits(array) & 1).astype(bool)


def low_bits(array: pa.Array) -> Any:
    """The lowest 64 bits of the stored integers, as Java's longValue takes them; any number where it is NULL."""
    limbs = 4 if pa.types.is_decimal256(array.type) else 2
    if not len(array):
        return np.zeros(0, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64).reshape(-1, limbs)[
        array.offset : array.offset + len(array), 0
    ]


# ------------------------------------------------------------------------------------- arithmetic


def add(a: pa.Array, b: pa.Array, to: pa.DataType, *, subtract: bool = False) -> tuple[pa.Array, Mask | None]:
    """The exact sum or difference, rounded to `to`."""
    combine = pc.subtract if subtract else pc.add
    scale = max(a.type.scale, b.type.scale)
    if max(a.type.precision - a.type.scale, b.type.precision - b.type.scale) + scale + 1 <= MAX_PRECISION:
        return combine(a, b), None  # Arrow has Spark's rule for the type of a sum that is not cut
    total = combine(
        relabelled_decimals(whole(a, scale), WIDE - 1, 0), relabelled_decimals(whole(b, scale), WIDE - 1, 0)
    )
    return fit(relabelled_decimals(total, WIDE, scale), to)


def multiply(a: pa.Array, b: pa.Array, to: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """The product, rounded to 38 digits and then to `to`, as Spark does."""
    if a.type.precision + b.type.precision + 1 <= MAX_PRECISION:
        return pc.multiply(a, b), None
    x, y = (relabelled_decimals(wide(v), WIDE // 2 - 1, 0) for v in (a, b))
    product = _to_38_digits(relabelled_decimals(pc.multiply(x, y), WIDE, 0))
    return fit(relabelled_decimals(product, WIDE, a.type.scale + b.type.scale), to)


def _to_38_digits(product: pa.Array) -> pa.Array:
    """Whole numbers rounded half up to 38 significant digits."""
    for drop in range(1, WIDE - MAX_PRECISION + 1):
        longer = beyond(product, nines(MAX_PRECISION + drop - 1))
        if longer is None:
            break
        even_longer = beyond(product, nines(MAX_PRECISION + drop)) if drop < WIDE - MAX_PRECISION else None
        is_here = longer if even_longer is None else longer & ~even_longer
        if is_here.any():
            power = _power_of_ten(drop)
            cut = rounded_quotient(product.filter(pa.array(is_here)), power, HALF_UP)
            restored = pc.multiply(
                relabelled_decimals(cut, 1, 0), pa.scalar(power.as_py(), pa.decimal256(WIDE - 2, 0))
            )
            product = pc.replace_with_mask(product, pa.array(is_here), relabelled_decimals(restored, WIDE, 0))
    return product


def divide(a: pa.Array, b: pa.Array, to: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """The quotient, rounded to 38 digits after the point and then to `to`, as Spark does. `b` is not zero."""
    shift = MAX_PRECISION + b.type.scale - a.type.scale
    if a.type.precision + shift <= WIDE:
        q = rounded_quotient(whole(a, a.type.scale + shift), whole(b, b.type.scale), HALF_UP)
        return fit(relabelled_decimals(q, WIDE, MAX_PRECISION), to)
    # The dividend needs more than 76 digits, which only Python's integers have.
    scaled = [
        None
        if x is None or y is None
        else _half_up(_half_up(x * 10**shift, y), 10 ** (MAX_PRECISION - to.scale))
        for x, y in zip(_integers(a), _integers(b), strict=True)
    ]
    return _from_integers(scaled, to)


def _half_up(a: int, b: int) -> int:
    """The nearest whole number to a / b, away from zero if two are as near."""
    nearest, rest = divmod(abs(a), abs(b))
    nearest += 2 * rest >= abs(b)
    return nearest if (a < 0) == (b < 0) else -nearest


def whole_quotient(a: pa.Array, b: pa.Array) -> pa.Array:
    """a / b cut to a whole number. `b` is not zero."""
    scale = max(a.type.scale, b.type.scale)
    return quotient(whole(a, scale), whole(b, scale))[0]


def remainder(a: pa.Array, b: pa.Array, to: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """What the whole quotient leaves of `a`, with the sign of `a`. `b` is not zero."""
    scale = max(a.type.scale, b.type.scale)
    rest = quotient(whole(a, scale), whole(b, scale))[1]
    return fit(relabelled_decimals(rest, WIDE, scale), to)


def positive_remainder(a: pa.Array, b: pa.Array, to: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """The remainder, plus `b` and once more where it is negative. `b` is not zero."""
    scale = max(a.type.scale, b.type.scale)
    divisor = whole(b, scale)
    rest = quotient(whole(a, scale), divisor)[1]
    moved = pc.add(relabelled_decimals(rest, WIDE - 1, 0), relabelled_decimals(divisor, WIDE - 1, 0))
    again = quotient(relabelled_decimals(moved, WIDE, 0), divisor)[1]
    rest = pc.if_else(pc.less(rest, pa.scalar(Decimal(0), _WHOLE)), again, rest)
    return fit(relabelled_decimals(rest, WIDE, scale), to)


def _integers(array: pa.Array) -> list[int | None]:
    return [None if v is None else int(v) for v in relabelled_decimals(array, MAX_PRECISION, 0).to_pylist()]


def _from_integers(values: list[int | None], to: pa.DataType) -> tuple[pa.Array, Mask | None]:
    limit = 10**to.precision
    outside = np.array([v is not None and abs(v) >= limit for v in values], dtype=bool)
    decimals = [None if v is None or bad else Decimal(v) for v, bad in zip(values, outside, strict=True)]
    built = relabelled_decimals(pa.array(decimals, pa.decimal128(MAX_PRECISION, 0)), to.precision, to.scale)
    return built, outside if outside.any() else None
