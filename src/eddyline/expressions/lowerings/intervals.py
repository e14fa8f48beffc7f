"""Dates, timestamps and intervals in + - * /: which types meet, and what comes out.

A day in an interval is a day of the calendar in the session's zone, 23 to 25 hours long; an hour is always an hour. Time
that a change of the clocks skips or repeats is resolved as java.time does it: a repeated hour keeps the offset it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.durations import DAY_US
from eddyline.errors import TypeMismatchError
from eddyline.expressions import decimals
from eddyline.expressions.buffers import Mask, arrow, clear, known_and, numbers, valid
from eddyline.expressions.civil import add_months
from eddyline.expressions.coercion import cast, coerce
from eddyline.expressions.frame import Evaluation, Frame, as_mask, merge_errors
from eddyline.expressions.integers import wrapped_result
from eddyline.expressions.zones import to_local, to_utc
from eddyline.model import Call, Expression, Literal
from eddyline.types import (
    DATE,
    DOUBLE,
    INT,
    INTEGER_RANK,
    INTERVAL,
    MONTHS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_decimal,
    is_integer,
    is_numeric,
    is_temporal,
    type_name,
)

Int64Vector = npt.NDArray[np.int64]

_OVERFLOW = "DATETIME_OVERFLOW"
_DAY = timedelta(days=1)
_MOST_DAYS = np.iinfo(np.int64).max // DAY_US - 1  # what fits into 64 bits of microseconds


def types(operator: str, a: Expression, b: Expression) -> tuple[Sequence[Expression], pa.DataType]:
    """The operands as they are computed, time first, and the type of the result."""
    if operator in ("+", "*") and not is_temporal(a.type) and (is_temporal(b.type) or is_numeric(a.type)):
        a, b = b, a  # interval + date, 2 * interval
    if operator in ("+", "-"):
        if is_temporal(a.type) and b.type in (INTERVAL, MONTHS):
            return _shift_typing(a, b)
        if a.type == b.type == INTERVAL:
            return [a, b], INTERVAL
        if a.type == DATE and is_integer(b.type) and INTEGER_RANK[b.type] <= INTEGER_RANK[INT]:
            return [a, coerce(b, INT)], DATE
        if operator == "-" and is_temporal(a.type) and is_temporal(b.type):
            if a.type != b.type:
                common = TIMESTAMP_NTZ if TIMESTAMP_NTZ in (a.type, b.type) else TIMESTAMP
                a, b = cast(a, common), cast(b, common)
            return [a, b], INTERVAL
    if operator in ("*", "/") and a.type == INTERVAL and is_numeric(b.type):
        return [a, b if is_decimal(b.type) or is_integer(b.type) else coerce(b, DOUBLE)], INTERVAL
    raise TypeMismatchError(
        f"{operator} cannot take {type_name(a.type)} and {type_name(b.type)}", span=b.span
    )


def _shift_typing(time: Expression, by: Expression) -> tuple[Sequence[Expression], pa.DataType]:
    if time.type != DATE:
        return [time, by], time.type
    if by.type == MONTHS or _is_days(by):
        return [time, by], DATE
    return [cast(time, TIMESTAMP), by], TIMESTAMP


def _is_days(by: Expression) -> bool:
    """Whether an interval is one of days (Spark's INTERVAL DAY), so that a date moved by it stays a date."""
    if isinstance(by, Literal):
        return by.value is not None and by.value % _DAY == timedelta()
    if not isinstance(by, Call) or by.function not in ("+", "-", "negate", "abs"):
        return False
    return all(e.type == DATE or (e.type == INTERVAL and _is_days(e)) for e in by.arguments)


def lower(operator: str, arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    """`a operator b` on each row; arguments and result as `types` said."""
    a, b = (frame.array(argument) for argument in arguments)
    if operator in ("*", "/"):
        return _scaled_interval(operator, a, b, frame)
    if is_temporal(b.type):
        return _difference(a, b, frame)
    known = valid(a, b)
    sign = -1 if operator == "-" else 1
    if b.type == MONTHS:
        return _add_months(a, sign * _months(b), known, frame)
    step = numbers(b).astype(np.int64)
    if a.type == DATE:
        if is_integer(b.type):  # Spark counts around at the ends of DATE, millions of years away
            return Evaluation(arrow((numbers(a) + sign * step).astype(np.int32), known, DATE))
        return _as_dates(numbers(a) + sign * (step // DAY_US), known, frame)
    if a.type == INTERVAL:
        values, overflow = wrapped_result(operator, numbers(a), step)
        errors = frame.fail(
            known_and(known, overflow),
            "INTERVAL_ARITHMETIC_OVERFLOW",
            f"the result of {operator} is out of range",
        )
        return Evaluation(arrow(values, clear(known, errors), INTERVAL), errors)
    return _add_duration(a, step, sign, known, frame)


def _months(array: pa.Array) -> Int64Vector:
    """The months of an interval array: Arrow stores months and days in 32 bits each, then nanoseconds."""
    stored = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)
    return stored[array.offset : array.offset + len(array), 0].astype(np.int64)


def _as_dates(days: Int64Vector, known: Mask | None, frame: Frame) -> Evaluation:
    stored = days.astype(np.int32)
    errors = frame.fail(known_and(known, stored != days), _OVERFLOW, "the date is out of range")
    return Evaluation(arrow(stored, clear(known, errors), DATE), errors)


def _add_months(a: pa.Array, months: Int64Vector, known: Mask | None, frame: Frame) -> Evaluation:
    if a.type == DATE:
        return _as_dates(add_months(numbers(a), months), known, frame)
    local, zone = _to_local(a, frame)
    days, clock = np.divmod(local, DAY_US)
    moved = add_months(days, months)
    overflow = np.abs(moved) > _MOST_DAYS
    errors = frame.fail(known_and(known, overflow), _OVERFLOW, "the timestamp is out of range")
    moved = np.where(overflow, 0, moved) * DAY_US + clock
    return Evaluation(arrow(_back(moved, numbers(a), zone), clear(known, errors), a.type), errors)


def _add_duration(a: pa.Array, step: Int64Vector, sign: int, known: Mask | None, frame: Frame) -> Evaluation:
    rest = np.fmod(step, DAY_US)
    days = (step - rest) // DAY_US
    values = numbers(a)
    estimate = values.astype(np.float64) + sign * step.astype(np.float64)
    overflow = np.abs(estimate) > 9.2233e18
    if a.type == TIMESTAMP and days.any():
        local, zone = _to_local(a, frame)
        values = _back(local + sign * days * DAY_US, values, zone)
    else:
        values = values + sign * days * DAY_US
    errors = frame.fail(known_and(known, overflow), _OVERFLOW, "the timestamp is out of range")
    return Evaluation(arrow(values + sign * rest, clear(known, errors), a.type), errors)


def _to_local(a: pa.Array, frame: Frame) -> tuple[Int64Vector, str | None]:
    if a.type != TIMESTAMP:
        return numbers(a), None
    zone = frame.context.time_zone
    return to_local(numbers(a), zone), zone


def _back(local: Int64Vector, start_utc: Int64Vector, zone: str | None) -> Int64Vector:
    """The instants of moved wall-clock times; a time that happens twice keeps the offset of where it came from."""
    if zone is None:
        return local
    candidate = local - (to_local(start_utc, zone) - start_utc)
    return np.where(to_local(candidate, zone) == local, candidate, to_utc(local, zone))


def _difference(a: pa.Array, b: pa.Array, frame: Frame) -> Evaluation:
    """a - b as an interval: days between dates; between timestamps, what the wall clocks show."""
    known = valid(a, b)
    if a.type == DATE:
        days = numbers(a).astype(np.int64) - numbers(b)
        overflow = np.abs(days) > _MOST_DAYS
        errors = frame.fail(known_and(known, overflow), _OVERFLOW, "the dates are too far apart")
        return Evaluation(arrow(days * DAY_US, clear(known, errors), INTERVAL), errors)
    values, overflow = wrapped_result("-", _to_local(a, frame)[0], _to_local(b, frame)[0])
    errors = frame.fail(known_and(known, overflow), _OVERFLOW, "the timestamps are too far apart")
    return Evaluation(arrow(values, clear(known, errors), INTERVAL), errors)


def _scaled_interval(operator: str, a: pa.Array, b: pa.Array, frame: Frame) -> Evaluation:
    """An interval times or divided by a number, rounded half up to microseconds."""
    known = valid(a, b)
    errors = None
    if operator == "/":
        zero = _is_zero(b)
        errors = frame.fail(known_and(known, zero), "INTERVAL_DIVIDED_BY_ZERO", "division by zero")
    if b.type == DOUBLE:
        with np.errstate(all="ignore"):
            exact = numbers(a) * numbers(b) if operator == "*" else numbers(a) / numbers(b)
            rounded = np.trunc(exact + np.copysign(0.5, exact))
            rounded = np.where(exact == np.trunc(exact), exact, rounded)
        overflow = ~(np.abs(rounded) < 2.0**63)
        values = np.where(overflow, 0, rounded).astype(np.int64)
    else:
        values, overflow = _scaled_exactly(operator, a, b)
    errors = merge_errors(
        errors,
        frame.fail(
            known_and(known, overflow),
            "INTERVAL_ARITHMETIC_OVERFLOW",
            f"the result of {operator} is out of range",
        ),
    )
    return Evaluation(arrow(values, clear(known, errors), INTERVAL), errors)


def _is_zero(b: pa.Array) -> Mask:
    return as_mask(pc.equal(b, pa.scalar(0, b.type)), len(b))


def _scaled_exactly(operator: str, a: pa.Array, b: pa.Array) -> tuple[Int64Vector, Mask]:
    factor = b if is_decimal(b.type) else b.cast(pa.int64()).cast(pa.decimal128(19, 0))
    micros = a.view(pa.int64()).cast(pa.decimal128(19, 0))
    to = pa.decimal128(38, 0)
    if operator == "*":
        product, bad = decimals.multiply(micros, factor, to)
        result, _ = decimals.fit(product, to)
    else:
        zero = pc.equal(factor, pa.scalar(0, factor.type))
        result, bad = decimals.divide(micros, pc.if_else(zero, pa.scalar(None, factor.type), factor), to)
    outside = decimals.beyond(result, 2**63 - 1, -(2**63))
    masks = [mask for mask in (bad, outside) if mask is not None]
    return decimals.low_bits(result), np.logical_or.reduce(masks) if masks else np.zeros(len(a), bool)
