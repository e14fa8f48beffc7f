"""+ - * / div % and the bit operators: ANSI overflow and division by zero are errors of their row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import TypeMismatchError
from eddyline.expressions import decimals
from eddyline.expressions.buffers import Mask, arrow, clear, known_and, operands, valid
from eddyline.expressions.coercion import (
    as_decimal,
    cast,
    coerce,
    coerce_all,
    common_type,
    incompatible,
    literal_as_decimal,
)
from eddyline.expressions.folding import fold
from eddyline.expressions.frame import ErrorCodes, Evaluation, Frame, merge_errors
from eddyline.expressions.function import NeedsLiteral, Typing, function
from eddyline.expressions.integers import wrapped_result
from eddyline.expressions.lowerings import intervals
from eddyline.model import Call, Expression, Literal, Slot
from eddyline.types import (
    BIGINT,
    DOUBLE,
    INT,
    INTERVAL,
    MAX_PRECISION,
    MONTHS,
    NULL,
    decimal,
    is_decimal,
    is_floating,
    is_integer,
    is_numeric,
    is_temporal,
    type_name,
)

OVERFLOW = "ARITHMETIC_OVERFLOW"
SMALL_OVERFLOW = "BINARY_ARITHMETIC_OVERFLOW"  # of TINYINT and SMALLINT
DIVIDE_BY_ZERO = "DIVIDE_BY_ZERO"
REMAINDER_BY_ZERO = "REMAINDER_BY_ZERO"
OUT_OF_RANGE = "NUMERIC_VALUE_OUT_OF_RANGE"

Vector = npt.NDArray[Any]

# ------------------------------------------------------------------------------------- types


def arithmetic_typing(operator: str) -> Typing:
    """Spark's rule for the operands and the result of + - * / div % on numbers, dates and intervals."""

    def typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
        a, b = (
            _null_as(e, other.type, operator) for e, other in zip(arguments, arguments[::-1], strict=True)
        )
        if is_numeric(a.type) and is_numeric(b.type):
            return _number_types(operator, a, b)
        if any(is_temporal(e.type) or e.type in (INTERVAL, MONTHS) for e in (a, b)):
            return intervals.types(operator, a, b)
        raise incompatible([a, b], operator)

    return typing


def _null_as(e: Expression, other: pa.DataType, operator: str) -> Expression:
    """A bare NULL takes the type that goes with the other operand."""
    if e.type != NULL:
        return e
    if other == NULL or (other == INTERVAL and operator not in ("+", "-")):
        return coerce(e, DOUBLE)
    return coerce(e, INTERVAL if is_temporal(other) and operator == "+" else other)


def _number_types(operator: str, a: Expression, b: Expression) -> tuple[Sequence[Expression], pa.DataType]:
    if is_floating(a.type) or is_floating(b.type):
        if operator == "div":
            floating = a if is_floating(a.type) else b
            raise TypeMismatchError(f"div does not take {type_name(floating.type)}", span=floating.span)
        common = DOUBLE if operator == "/" else common_type([a.type, b.type])
        assert common is not None
        return [coerce(a, common), coerce(b, common)], common
    if is_decimal(a.type) or is_decimal(b.type):
        a, b = _decimal_operand(a), _decimal_operand(b)
        return [a, b], decimal_result(operator, a.type, b.type)
    if operator == "/":
        return [coerce(a, DOUBLE), coerce(b, DOUBLE)], DOUBLE
    common = BIGINT if operator == "div" else common_type([a.type, b.type])
    assert common is not None
    return [coerce(a, common), coerce(b, common)], common


def _decimal_operand(e: Expression) -> Expression:
    """An integer beside a DECIMAL, as one."""
    if is_decimal(e.type):
        return e
    if isinstance(e, Call) and e.function == "negate":  # -7 is a literal, too
        inner = _decimal_operand(e.arguments[0])
        return fold(Call(inner.type, e.function, (inner,), span=e.span))
    if isinstance(e, Slot):
        raise NeedsLiteral(e.index)
    if isinstance(e, Literal) and e.value is not None:
        return cast(e, literal_as_decimal(e.type, e.value))
    return coerce(e, as_decimal(e.type))


def decimal_result(operator: str, a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type of `a operator b` on decimals."""
    scale = max(a.scale, b.scale)
    whole_a, whole_b = a.precision - a.scale, b.precision - b.scale
    if operator in ("+", "-"):
        return decimal(max(whole_a, whole_b) + scale + 1, scale)
    if operator == "*":
        return decimal(a.precision + b.precision + 1, a.scale + b.scale)
    if operator == "/":
        scale = max(6, a.scale + b.precision + 1)
        return decimal(whole_a + b.scale + scale, scale)
    if operator == "div":
        return BIGINT
    return decimal(min(whole_a, whole_b) + scale, scale)


# ------------------------------------------------------------------------------------- lowering


def lower(operator: str, arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    """`a operator b` on each row; arguments and result as `arithmetic_typing` said."""
    types = [a.type for a in expression.arguments]
    if any(is_temporal(t) or t in (INTERVAL, MONTHS) for t in types):
        return intervals.lower(operator, arguments, expression, frame)
    if is_decimal(types[0]):
        return _decimals(operator, arguments, expression.type, frame)
    views, known = operands(arguments, frame)
    with np.errstate(all="ignore"):
        if is_floating(types[0]):
            values, errors = _floats(operator, views[0], views[1], known, frame)
        else:
            values, errors = _integers(operator, views[0], views[1], known, frame)
    result = arrow(np.broadcast_to(values, frame.n_rows), clear(known, errors), expression.type)
    return Evaluation(result, errors)


def _fail(frame: Frame, known: Mask | None, where: Mask, error: str, message: str) -> ErrorCodes | None:
    if not where.any():
        return None
    return frame.fail(known_and(known, np.broadcast_to(where, frame.n_rows)), error, message)


def _floats(
    operator: str, a: Vector, b: Vector, known: Mask | None, frame: Frame
) -> tuple[Vector, ErrorCodes | None]:
    if operator == "+":
        return a + b, None
    if operator == "-":
        return a - b, None
    if operator == "*":
        return a * b, None
    if operator == "/":
        return a / b, _fail(frame, known, b == 0, DIVIDE_BY_ZERO, "division by zero")
    errors = _fail(frame, known, b == 0, REMAINDER_BY_ZERO, f"{operator} by zero")
    rest = np.fmod(a, b)
    if operator == "pmod":
        rest = np.where(rest < 0, np.fmod(rest + b, b), rest)
    return rest, errors


def _integers(
    operator: str, a: Vector, b: Vector, known: Mask | None, frame: Frame
) -> tuple[Vector, ErrorCodes | None]:
    if operator in ("+", "-", "*"):
        values, overflow = wrapped_result(operator, a, b)
        error = OVERFLOW if a.dtype.itemsize >= 4 else SMALL_OVERFLOW
        return values, _fail(frame, known, overflow, error, f"the result of {operator} is out of range")
    is_zero = b == 0
    divisor = np.where(is_zero, b.dtype.type(1), b)
    is_minus_one = divisor == -1  # NumPy leaves min / -1 undefined
    safe = np.where(is_minus_one, b.dtype.type(1), divisor)
    if operator == "div":
        errors = _fail(frame, known, is_zero, DIVIDE_BY_ZERO, "division by zero")
        lowest = np.iinfo(a.dtype).min
        too_large = _fail(
            frame, known, is_minus_one & (a == lowest), OVERFLOW, "the result of div is out of range"
        )
        quotient = np.where(is_minus_one, -a, (a - np.fmod(a, safe)) // safe)
        return quotient, merge_errors(errors, too_large)
    errors = _fail(frame, known, is_zero, REMAINDER_BY_ZERO, f"{operator} by zero")
    rest = np.where(is_minus_one, a.dtype.type(0), np.fmod(a, safe))
    if operator == "pmod":
        wide = rest.astype(np.int64 if rest.dtype == np.int64 else np.int32)
        rest = np.where(rest < 0, np.fmod(wide + divisor, np.where(is_minus_one, 1, divisor)), rest).astype(
            a.dtype
        )
    return rest, errors


def _decimals(operator: str, arguments: Sequence[Evaluation], to: pa.DataType, frame: Frame) -> Evaluation:
    a, b = (frame.array(argument) for argument in arguments)
    errors = None
    if operator not in ("+", "-", "*"):
        error = DIVIDE_BY_ZERO if operator in ("/", "div") else REMAINDER_BY_ZERO
        is_zero = pc.and_(pc.equal(b, pa.scalar(0, b.type)), pc.is_valid(a))
        errors = frame.fail(
            is_zero, error, "division by zero" if operator in ("/", "div") else f"{operator} by zero"
        )
        b = pc.if_else(pc.equal(b, pa.scalar(0, b.type)), pa.scalar(None, b.type), b)
    values, bad = _decimal_result(operator, a, b, to)
    if bad is not None:
        errors = merge_errors(
            errors,
            frame.fail(bad, OUT_OF_RANGE, f"the result of {operator} does not fit into {type_name(to)}"),
        )
    return Evaluation(values, errors)


def _decimal_result(operator: str, a: pa.Array, b: pa.Array, to: pa.DataType) -> tuple[pa.Array, Mask | None]:
    if operator in ("+", "-"):
        return decimals.add(a, b, to, subtract=operator == "-")
    if operator == "*":
        return decimals.multiply(a, b, to)
    if operator == "/":
        return decimals.divide(a, b, to)
    if operator == "div":
        return _whole_decimals(a, b)
    if operator == "pmod":
        return decimals.positive_remainder(a, b, to)
    return decimals.remainder(a, b, to)


def _whole_decimals(a: pa.Array, b: pa.Array) -> tuple[pa.Array, Mask | None]:
    """The whole quotient, cut to 64 bits: Spark raises no error where it is no BIGINT, only where it is no DECIMAL."""
    digits = min(max(a.type.precision - a.type.scale + b.type.scale, 1), MAX_PRECISION)
    whole, bad = decimals.fit(decimals.whole_quotient(a, b), pa.decimal128(digits, 0))
    return arrow(decimals.low_bits(whole), valid(whole), BIGINT), bad


# ------------------------------------------------------------------------------------- registration


def _asked_first(operator: str) -> tuple[int, ...]:
    return (1,) if operator in ("/", "div", "%", "pmod") else ()  # the divisor


def _register(operator: str, *names: str, signature: str, summary: str, is_operator: bool = True) -> None:
    @function(
        operator,
        *names,
        typing=arithmetic_typing(operator),
        arguments=2,
        signature=signature,
        summary=summary,
        is_operator=is_operator,
        asked_first=_asked_first(operator),
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        return lower(operator, arguments, expression, frame)


_register(
    "+", signature="a + b", summary="Sum; also of a date or timestamp and an interval, or a date and days."
)
_register("-", signature="a - b", summary="Difference; also of dates, timestamps and intervals.")
_register("*", signature="a * b", summary="Product.")
_register(
    "/",
    signature="a / b",
    summary="Quotient: DOUBLE, or DECIMAL if one side is. Division by zero is an error.",
)
_register("div", signature="a div b", summary="Whole quotient, a BIGINT.")
_register("%", "mod", signature="a % b", summary="Remainder with the sign of a; also mod(a, b).")
_register(
    "pmod", signature="pmod(a, b)", summary="Remainder that is not negative if b is not.", is_operator=False
)


def _register_try(name: str, operator: str, summary: str) -> None:
    @function(
        name,
        typing=arithmetic_typing(operator),
        arguments=2,
        signature=f"{name}(a, b)",
        summary=summary,
        asked_first=_asked_first(operator),
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        return Evaluation(lower(operator, arguments, expression, frame).values)


_register_try("try_add", "+", "a + b, NULL where that is out of range.")
_register_try("try_subtract", "-", "a - b, NULL where that is out of range.")
_register_try("try_multiply", "*", "a * b, NULL where that is out of range.")
_register_try("try_divide", "/", "a / b, NULL where b is zero.")
_register_try("try_mod", "%", "a % b, NULL where b is zero.")


# ------------------------------------------------------------------------------------- signs


def _signed(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    (e,) = arguments
    if e.type == NULL:
        e = coerce(e, DOUBLE)
    if not (is_numeric(e.type) or e.type in (INTERVAL, MONTHS)):
        raise TypeMismatchError(f"expected a number, found {type_name(e.type)}", span=e.span)
    return [e], e.type


@function(
    "negate",
    "negative",
    typing=_signed,
    arguments=1,
    signature="-a",
    summary="The value with the other sign; also negative(a).",
    is_operator=True,
)
def _negate(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    t = expression.type
    array = frame.array(arguments[0])
    if is_decimal(t):
        return Evaluation(pc.negate(array))
    if t == MONTHS:
        return Evaluation(
            pa.array([None if v is None else pa.MonthDayNano([-p for p in v]) for v in array.to_pylist()], t)
        )
    (values,), known = operands([Evaluation(array)], frame)
    if is_floating(t):
        return Evaluation(arrow(-values, known, t))
    lowest = values == np.iinfo(values.dtype).min
    errors = _fail(frame, known, lowest, OVERFLOW, f"-({np.iinfo(values.dtype).min}) is out of range")
    return Evaluation(arrow(-values, clear(known, errors), t), errors)


@function(
    "positive", typing=_signed, arguments=1, signature="positive(a)", summary="The value itself; also +a."
)
def _positive(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return Evaluation(arguments[0].values)


# ------------------------------------------------------------------------------------- bits


def _integer_types(what: str) -> Typing:
    def typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
        coerced, common = coerce_all(arguments, what)
        if common == NULL:
            coerced, common = [coerce(e, INT) for e in coerced], INT
        if not is_integer(common):
            raise TypeMismatchError(f"{what} takes whole numbers, not {type_name(common)}")
        return coerced, common

    return typing


def _register_bits(operator: str, combine: Callable[[Vector, Vector], Vector], summary: str) -> None:
    @function(
        operator,
        typing=_integer_types(operator),
        arguments=2,
        signature=f"a {operator} b",
        summary=summary,
        is_operator=True,
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        (a, b), known = operands(arguments, frame)
        return Evaluation(arrow(np.broadcast_to(combine(a, b), frame.n_rows), known, expression.type))


_register_bits("&", np.bitwise_and, "Bits set in both.")
_register_bits("|", np.bitwise_or, "Bits set in one of the two, or both.")
_register_bits("^", np.bitwise_xor, "Bits set in one of the two, not both.")


@function(
    "~",
    typing=_integer_types("~"),
    arguments=1,
    signature="~a",
    summary="All bits the other way.",
    is_operator=True,
)
def _invert(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    (a,), known = operands(arguments, frame)
    return Evaluation(arrow(np.broadcast_to(~a, frame.n_rows), known, expression.type))
