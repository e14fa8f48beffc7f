"""round and bround: to a number of decimal places, on the digits a value shows, not on its bits."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import TypeMismatchError
from eddyline.expressions import decimals
from eddyline.expressions.buffers import arrow, clear, known_and, numbers, valid
from eddyline.expressions.coercion import as_integer, coerce
from eddyline.expressions.conversions.conversion import one_by_one, patched_values
from eddyline.expressions.conversions.numbers import has_plain_digits, plain_digits
from eddyline.expressions.frame import Evaluation, Frame
from eddyline.expressions.function import function
from eddyline.expressions.lowerings.arithmetic import OUT_OF_RANGE, OVERFLOW
from eddyline.model import Call, Expression, Literal
from eddyline.types import (
    BIGINT,
    DOUBLE,
    INT,
    MAX_PRECISION,
    NULL,
    STRING,
    is_decimal,
    is_floating,
    is_numeric,
    type_name,
)

_WHOLE = pa.decimal256(decimals.WIDE, 0)


def _typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    value, *place_arguments = arguments
    places = as_integer(place_arguments[0], INT) if place_arguments else Literal(INT, 0)
    if value.type == NULL:
        value = coerce(value, DOUBLE)
    if not is_numeric(value.type):
        raise TypeMismatchError(f"expected a number, found {type_name(value.type)}", span=value.span)
    if not isinstance(places, Literal):
        raise TypeMismatchError("the number of places is out of range", span=places.span)
    if is_decimal(value.type) and places.value is not None:
        return [value, places], _decimal_type(value.type, places.value)
    return [value, places], value.type


def _decimal_type(t: pa.DataType, places: int) -> pa.DataType:
    """Rounding may carry into one more digit before the point."""
    whole = t.precision - t.scale + 1
    if places < 0:
        return pa.decimal128(min(max(whole, 1 - places), MAX_PRECISION), 0)
    scale = min(t.scale, places)
    return pa.decimal128(min(whole + scale, MAX_PRECISION), scale)


def _register(name: str, mode: str, summary: str) -> None:
    @function(
        name,
        typing=_typing,
        arguments=(1, 2),
        constants=(1,),
        signature=f"{name}(x [, places])",
        summary=summary,
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        places = arguments[1].values.as_py()
        if places is None:
            return Evaluation(pa.scalar(None, expression.type))
        array = frame.array(arguments[0])
        if is_decimal(array.type):
            return _decimals(array, places, mode, expression.type, frame)
        if is_floating(array.type):
            return Evaluation(_floats(array, places, mode))
        return _integers(array, places, mode, frame)


_register("round", decimals.HALF_UP, "Rounded to decimal places (a constant), halves away from zero.")
_register("bround", decimals.HALF_EVEN, "Rounded to decimal places (a constant), halves to the even digit.")


def _decimals(array: pa.Array, places: int, mode: str, to: pa.DataType, frame: Frame) -> Evaluation:
    if places >= 0:
        values, bad = decimals.fit(array, to, rounding=mode)
    else:
        values, bad = decimals.fit(_at_power(array, -places, mode), to)
    errors = None
    if bad is not None:
        errors = frame.fail(bad, OUT_OF_RANGE, f"the rounded number does not fit into {type_name(to)}")
    return Evaluation(values, errors)


def _at_power(array: pa.Array, power: int, mode: str) -> pa.Array:
    """The values rounded to a multiple of ten to the `power`, as wide whole numbers."""
    drop = array.type.scale + power
    if drop > MAX_PRECISION + 1:
        return pc.if_else(array.is_valid(), pa.scalar(0, _WHOLE), pa.scalar(None, _WHOLE))
    cut = decimals.rounded_quotient(
        decimals.whole(array, array.type.scale), pa.scalar(10**drop, _WHOLE), mode
    )
    return pc.multiply(
        decimals.relabelled_decimals(cut, 1, 0), pa.scalar(10**power, pa.decimal256(decimals.WIDE - 2, 0))
    )


def _integers(array: pa.Array, places: int, mode: str, frame: Frame) -> Evaluation:
    if places >= 0:
        return Evaluation(array)
    rounded = _at_power(array.cast(BIGINT).cast(pa.decimal128(19, 0)), -places, mode)
    limits = np.iinfo(array.type.to_pandas_dtype())
    outside = decimals.beyond(rounded, int(limits.max), int(limits.min))
    errors = None
    if outside is not None:
        errors = frame.fail(
            outside, OVERFLOW, f"the rounded number does not fit into {type_name(array.type)}"
        )
    return Evaluation(
        arrow(decimals.low_bits(rounded).astype(limits.dtype), clear(valid(array), errors), array.type),
        errors,
    )


_WHOLE_FROM = 2.0**53  # doubles from here on have no fraction


def _floats(array: pa.Array, places: int, mode: str) -> pa.Array:
    """Round the shortest digits that name the number, then take the nearest number to that."""
    values, known = numbers(array), valid(array)
    size = np.abs(values)
    unchanged = ~np.isfinite(values) | ((size >= _WHOLE_FROM) & (places >= 0))
    is_plain = (has_plain_digits(values) & (-15 <= places <= 22)) | (values == 0)
    digits = plain_digits(array, known_and(known, ~unchanged & is_plain))
    roomy = decimals.relabelled_decimals(digits, MAX_PRECISION, digits.type.scale)
    rounded = pc.round(roomy, ndigits=max(min(places, 22), -15), round_mode=mode)
    result = pc.if_else(pa.array(unchanged), array, rounded.cast(STRING).cast(array.type))
    rare = known_and(known, ~unchanged & ~is_plain)
    if not rare.any():
        return result
    texts, _ = one_by_one(
        array.cast(STRING), rare, lambda text: _rounded_text(str(text), places, mode), STRING
    )
    return patched_values(result, rare, texts.cast(array.type))


_LONG = Context(prec=2000)  # more digits than a double can show, before and after the point
_PYTHON_MODE = {decimals.HALF_UP: ROUND_HALF_UP, decimals.HALF_EVEN: ROUND_HALF_EVEN}


def _rounded_text(text: str, places: int, mode: str) -> str:
    """Very large and very small numbers, one by one."""
    exact = Decimal(text)
    if exact.adjusted() < -places - 1:
        return "0"
    if exact.adjusted() + places > _LONG.prec - 2:
        return text
    return str(exact.quantize(Decimal((0, (1,), -places)), _PYTHON_MODE[mode], _LONG))
