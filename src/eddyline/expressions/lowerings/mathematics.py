"""Mathematical functions. Where Java gives NaN, so do these; where Spark gives NULL (logarithms), NULL."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import TypeMismatchError
from eddyline.expressions import decimals
from eddyline.expressions.buffers import Mask, arrow, clear, known_and, operands
from eddyline.expressions.coercion import as_integer, coerce
from eddyline.expressions.frame import Evaluation, Frame
from eddyline.expressions.function import Typing, function
from eddyline.expressions.lowerings.arithmetic import OVERFLOW
from eddyline.model import Call, Expression
from eddyline.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    INTERVAL,
    MAX_PRECISION,
    NULL,
    is_decimal,
    is_floating,
    is_integer,
    is_numeric,
    type_name,
)

Doubles = npt.NDArray[np.float64]


def doubles(result: pa.DataType = DOUBLE) -> Typing:
    """Every argument as a DOUBLE."""

    def typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
        return [_as_double(e) for e in arguments], result

    return typing


def _as_double(e: Expression) -> Expression:
    if e.type != NULL and not is_numeric(e.type):
        raise TypeMismatchError(f"expected a number, found {type_name(e.type)}", span=e.span)
    return coerce(e, DOUBLE)


# ------------------------------------------------------------------------------------- functions of one DOUBLE


def _register(
    *names: str,
    compute: Callable[[Doubles], Any],
    summary: str,
    is_null: Callable[[Doubles], Any] | None = None,
) -> None:
    @function(*names, typing=doubles(), arguments=1, signature=f"{names[0]}(x)", summary=summary)
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        (x,), known = operands(arguments, frame)
        with np.errstate(all="ignore"):
            values = compute(x)
            if is_null is not None:
                known = known_and(known, np.broadcast_to(~is_null(x), frame.n_rows))
        return Evaluation(arrow(np.broadcast_to(values, frame.n_rows), known, DOUBLE))


_register("sign", "signum", compute=lambda x: np.where(x == 0, x, np.sign(x)), summary="-1.0, 0.0 or 1.0.")
_register("sqrt", compute=np.sqrt, summary="Square root; NaN below zero.")
_register("cbrt", compute=np.cbrt, summary="Cube root.")
_register("exp", compute=np.exp, summary="e to the power of x.")
_register("expm1", compute=np.expm1, summary="exp(x) - 1, exact near zero.")
_register("ln", compute=np.log, is_null=lambda x: x <= 0, summary="Natural logarithm; NULL up to zero.")
_register(
    "log10", compute=np.log10, is_null=lambda x: x <= 0, summary="Logarithm to base 10; NULL up to zero."
)
_register("log2", compute=np.log2, is_null=lambda x: x <= 0, summary="Logarithm to base 2; NULL up to zero.")
_register(
    "log1p", compute=np.log1p, is_null=lambda x: x <= -1, summary="ln(1 + x), exact near zero; NULL up to -1."
)
_register("sin", compute=np.sin, summary="Sine.")
_register("cos", compute=np.cos, summary="Cosine.")
_register("tan", compute=np.tan, summary="Tangent.")
_register("cot", compute=lambda x: 1 / np.tan(x), summary="Cotangent.")
_register("asin", compute=np.arcsin, summary="Arc sine; NaN outside -1 … 1.")
_register("acos", compute=np.arccos, summary="Arc cosine; NaN outside -1 … 1.")
_register("atan", compute=np.arctan, summary="Arc tangent.")
_register("sinh", compute=np.sinh, summary="Hyperbolic sine.")
_register("cosh", compute=np.cosh, summary="Hyperbolic cosine.")
_register("tanh", compute=np.tanh, summary="Hyperbolic tangent.")
_register("degrees", compute=lambda x: x * (180 / math.pi), summary="Radians in degrees.")
_register("radians", compute=lambda x: x * (math.pi / 180), summary="Degrees in radians.")


# ------------------------------------------------------------------------------------- functions of two


def _register_two(
    *names: str, compute: Callable[[Doubles, Doubles], Any], signature: str, summary: str
) -> None:
    @function(*names, typing=doubles(), arguments=2, signature=signature, summary=summary)
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        (a, b), known = operands(arguments, frame)
        with np.errstate(all="ignore"):
            values = compute(a, b)
        return Evaluation(arrow(np.broadcast_to(values, frame.n_rows), known, DOUBLE))


def _power(x: Doubles, y: Doubles) -> Any:
    """As in Java, and unlike C, 1 to the power of NaN is NaN, and so is ±1 to the power of an infinity."""
    is_nan = ((np.abs(x) == 1) & np.isinf(y)) | np.isnan(y)
    return np.where(is_nan, np.nan, np.power(x, y))


_register_two("pow", "power", compute=_power, signature="pow(x, y)", summary="x to the power of y.")
_register_two("hypot", compute=np.hypot, signature="hypot(x, y)", summary="Square root of x² + y².")
_register_two(
    "atan2",
    compute=lambda y, x: np.arctan2(y + 0.0, x + 0.0),
    signature="atan2(y, x)",
    summary="The angle of the point (x, y).",
)


@function(
    "log",
    typing=doubles(),
    arguments=(1, 2),
    signature="log([base,] x)",
    summary="Logarithm, natural without a base; NULL up to zero.",
)
def _log(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    views, known = operands(arguments, frame)
    with np.errstate(all="ignore"):
        values = np.log(views[-1])
        is_null = views[-1] <= 0
        if len(views) == 2:
            values = values / np.log(views[0])
            is_null = is_null | (views[0] <= 0)
    known = known_and(known, np.broadcast_to(~is_null, frame.n_rows))
    return Evaluation(arrow(np.broadcast_to(values, frame.n_rows), known, DOUBLE))


def _register_constant(name: str, value: float, summary: str) -> None:
    @function(name, typing=doubles(), arguments=0, signature=f"{name}()", summary=summary)
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        return Evaluation(pa.scalar(value, DOUBLE))


_register_constant("pi", math.pi, "The circumference of a circle by its diameter, about 3.14159.")
_register_constant("e", math.e, "The base of natural logarithms, about 2.71828.")


# ------------------------------------------------------------------------------------- size


def _number_or_interval(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    (e,) = arguments
    if e.type == INTERVAL:
        return [e], INTERVAL
    if is_numeric(e.type):
        return [e], e.type
    return [_as_double(e)], DOUBLE


@function(
    "abs", typing=_number_or_interval, arguments=1, signature="abs(x)", summary="The value without its sign."
)
def _abs(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    t = expression.type
    if is_decimal(t):
        return Evaluation(pc.abs(arguments[0].values))
    (x,), known = operands(arguments, frame)
    if is_floating(t):
        return Evaluation(arrow(np.broadcast_to(np.abs(x), frame.n_rows), known, t))
    lowest = np.broadcast_to(x == np.iinfo(x.dtype).min, frame.n_rows)
    errors = frame.fail(known_and(known, lowest), OVERFLOW, f"abs({np.iinfo(x.dtype).min}) is out of range")
    return Evaluation(arrow(np.broadcast_to(np.abs(x), frame.n_rows), clear(known, errors), t), errors)


# ------------------------------------------------------------------------------------- whole numbers


def _whole_typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    (e,) = arguments
    if is_decimal(e.type):
        return [e], pa.decimal128(min(e.type.precision - e.type.scale + 1, MAX_PRECISION), 0)
    if is_integer(e.type):
        return [coerce(e, BIGINT)], BIGINT
    return [_as_double(e)], BIGINT


def _register_whole(*names: str, decimal_mode: str, compute: Callable[[Doubles], Any], summary: str) -> None:
    @function(*names, typing=_whole_typing, arguments=1, signature=f"{names[0]}(x)", summary=summary)
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        t = expression.arguments[0].type
        if is_integer(t):
            return Evaluation(arguments[0].values)
        if is_decimal(t):
            values, bad = decimals.fit(frame.array(arguments[0]), expression.type, rounding=decimal_mode)
            assert bad is None, "a digit more is enough"
            return Evaluation(values)
        (x,), known = operands(arguments, frame)
        whole = np.broadcast_to(compute(x), frame.n_rows)
        outside = known_and(known, (whole >= 2.0**63) | (whole < -(2.0**63)))  # NaN becomes 0, as in Java
        errors = frame.fail(outside, OVERFLOW, f"{names[0]} is out of the range of BIGINT")
        return Evaluation(arrow(saturated_bigints(whole), clear(known, errors), BIGINT), errors)


def saturated_bigints(x: Doubles) -> npt.NDArray[np.int64]:
    """Whole doubles as BIGINT, as Java converts them: the nearest there is, and 0 for NaN."""
    limits = np.iinfo(np.int64)
    inside = np.abs(x) < 2.0**63  # false for NaN
    result = np.where(inside, x, 0).astype(np.int64)
    return np.where(x >= 2.0**63, limits.max, np.where(x <= -(2.0**63), limits.min, result))


_register_whole(
    "ceil",
    "ceiling",
    decimal_mode="up",
    compute=np.ceil,
    summary="The next whole number up: BIGINT, or DECIMAL.",
)
_register_whole(
    "floor", decimal_mode="down", compute=np.floor, summary="The next whole number down: BIGINT, or DECIMAL."
)


# ------------------------------------------------------------------------------------- bits


def _shift_typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    value, by = arguments
    t = BIGINT if value.type == BIGINT else INT
    return [as_integer(value, t), as_integer(by, INT)], t


def _register_shift(*names: str, compute: Callable[[Any, Any], Any], summary: str) -> None:
    @function(*names, typing=_shift_typing, arguments=2, signature=f"{names[0]}(a, bits)", summary=summary)
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        (a, by), known = operands(arguments, frame)
        bits = (by & (a.dtype.itemsize * 8 - 1)).astype(a.dtype)  # Java counts modulo the width
        return Evaluation(arrow(np.broadcast_to(compute(a, bits), frame.n_rows), known, expression.type))


def _shift_unsigned(a: npt.NDArray[Any], bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    unsigned = np.dtype(f"u{a.dtype.name}")
    return (a.view(unsigned) >> bits.view(unsigned)).view(a.dtype)


_register_shift("shiftleft", compute=np.left_shift, summary="Bits moved up.")
_register_shift("shiftright", compute=np.right_shift, summary="Bits moved down, keeping the sign.")
_register_shift("shiftrightunsigned", compute=_shift_unsigned, summary="Bits moved down, zeros coming in.")


def _countable(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    (e,) = arguments
    if e.type == NULL:
        e = coerce(e, INT)
    if not is_integer(e.type) and e.type != BOOLEAN:
        raise TypeMismatchError(f"expected a whole number, found {type_name(e.type)}", span=e.span)
    return [e], INT


@function(
    "bit_count",
    typing=_countable,
    arguments=1,
    signature="bit_count(a)",
    summary="How many bits are set; a negative number counts as 64 bits.",
)
def _bit_count(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    array = frame.array(arguments[0])
    if array.type == BOOLEAN:
        return Evaluation(array.cast(INT))
    (a,), known = operands([Evaluation(array)], frame)
    return Evaluation(
        arrow(np.bitwise_count(a.astype(np.int64).view(np.uint64)).astype(np.int32), known, INT)
    )


# ------------------------------------------------------------------------------------- others

_FACTORIALS = np.array([math.factorial(n) for n in range(21)], np.int64)  # 21! is no BIGINT


def _factorial_typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    return [as_integer(arguments[0], INT)], BIGINT


@function(
    "factorial",
    typing=_factorial_typing,
    arguments=1,
    signature="factorial(n)",
    summary="1 · 2 · … · n for n from 0 to 20, otherwise NULL.",
)
def _factorial(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    (n,), known = operands(arguments, frame)
    has_value: Mask = np.broadcast_to((n >= 0) & (n <= 20), frame.n_rows)
    values = np.broadcast_to(_FACTORIALS[np.clip(n, 0, 20)], frame.n_rows)
    return Evaluation(arrow(values, known_and(known, has_value), BIGINT))


def _bucket_typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    *bounds, count = arguments
    return [*[_as_double(e) for e in bounds], as_integer(count, BIGINT)], BIGINT


@function(
    "width_bucket",
    typing=_bucket_typing,
    arguments=4,
    signature="width_bucket(x, low, high, n)",
    summary="The number of the bucket x is in, of n from low to high; 0 below, n + 1 above.",
)
def _width_bucket(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    (x, low, high, n), known = operands(arguments, frame)
    with np.errstate(all="ignore"):
        is_null = (n <= 0) | (n == np.iinfo(np.int64).max) | np.isnan(x) | (low == high)
        is_null = is_null | ~np.isfinite(low) | ~np.isfinite(high)
        inside = saturated_bigints(n * np.abs(x - low) / np.abs(high - low)) + 1
        below, above = np.where(low < high, x < low, x > low), np.where(low < high, x >= high, x <= high)
    values = np.where(below, 0, np.where(above, n + 1, inside))
    known = known_and(known, np.broadcast_to(~is_null, frame.n_rows))
    return Evaluation(arrow(np.broadcast_to(values, frame.n_rows), known, BIGINT))
