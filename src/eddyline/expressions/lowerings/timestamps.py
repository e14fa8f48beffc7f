"""Times: the clock, parts of a time of day, units cut off, conversions from and to numbers, text and other zones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.durations import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from eddyline.expressions import civil
from eddyline.expressions.buffers import Mask, arrow, numbers, operands, valid
from eddyline.expressions.coercion import cast, coerce
from eddyline.expressions.decimals import relabelled_decimals
from eddyline.expressions.frame import Evaluation, Frame, merge_errors
from eddyline.expressions.function import Typing, function
from eddyline.expressions.lowerings.dates import UNITS, first_day, unit_of
from eddyline.expressions.lowerings.parameters import (
    argument_error,
    exactly,
    instant,
    integer,
    takes,
    text,
    whole_number,
)
from eddyline.expressions.zones import require_zone, to_local, to_utc
from eddyline.model import Call, Expression, Literal
from eddyline.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_decimal,
    is_floating,
    is_integer,
    is_numeric,
)

OVERFLOW = "DATETIME_OVERFLOW"
_OUT_OF_BOUNDS = "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION"

# ------------------------------------------------------------------------------------------ the clock


def _nothing(result: pa.DataType) -> Typing:
    return lambda arguments: (arguments, result)


@function(
    "now",
    "current_timestamp",
    typing=_nothing(TIMESTAMP),
    arguments=0,
    signature="now()",
    summary="The time of the round.",
)
def _now(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return Evaluation(pa.scalar(frame.context.now_us, TIMESTAMP))


def _local_now(frame: Frame) -> int:
    return int(to_local(np.array([frame.context.now_us]), frame.context.time_zone)[0])


@function(
    "current_date",
    "curdate",
    typing=_nothing(DATE),
    arguments=0,
    signature="current_date()",
    summary="The day of the round in the session's time zone.",
)
def _current_date(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return Evaluation(pa.scalar(_local_now(frame) // DAY_US, INT).cast(DATE))


@function(
    "localtimestamp",
    typing=_nothing(TIMESTAMP_NTZ),
    arguments=0,
    signature="localtimestamp()",
    summary="The wall-clock time of the round in the session's time zone.",
)
def _localtimestamp(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return Evaluation(pa.scalar(_local_now(frame), TIMESTAMP_NTZ))


# ------------------------------------------------------------------------------------------ parts of a time of day


def _clock(e: Expression) -> Expression:
    """A timestamp of either kind; a date is its midnight."""
    return e if e.type == TIMESTAMP_NTZ else instant(e)


def local_us(value: Evaluation, frame: Frame) -> tuple[Any, Mask | None]:
    """Wall-clock microseconds, in the session's time zone, and the rows that have any."""
    array = frame.array(value)
    micros = numbers(array)
    return micros if array.type == TIMESTAMP_NTZ else to_local(micros, frame.context.time_zone), valid(array)


def _register_part(name: str, unit_us: int, modulus: int, summary: str) -> None:
    @function(name, typing=takes(_clock, result=INT), arguments=1, signature=f"{name}(time)", summary=summary)
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        local, known = local_us(arguments[0], frame)
        return Evaluation(arrow((local // unit_us % modulus).astype(np.int32), known, INT))


_register_part("hour", HOUR_US, 24, "The hour, 0 to 23.")
_register_part("minute", MINUTE_US, 60, "The minute, 0 to 59.")
_register_part("second", SECOND_US, 60, "The second, 0 to 59.")


@function(
    "extract second",
    typing=takes(_clock, result=pa.decimal128(8, 6)),
    arguments=1,
    signature="EXTRACT(SECOND FROM time)",
    summary="The second with its fraction, 0 to 59.999999.",
    is_operator=True,
)
def _extract_second(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    local, known = local_us(arguments[0], frame)
    micros = arrow(local % MINUTE_US, known, BIGINT).cast(pa.decimal128(19, 0))
    return Evaluation(relabelled_decimals(micros, 8, 6))


# ------------------------------------------------------------------------------------------ cutting off


_TIME_UNITS_US = {
    "DAY": DAY_US,
    "HOUR": HOUR_US,
    "MINUTE": MINUTE_US,
    "SECOND": SECOND_US,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}
_ALL_UNITS = {**UNITS, **{unit: unit for unit in _TIME_UNITS_US}, "DD": "DAY"}


@function(
    "date_trunc",
    typing=takes(text, instant, result=TIMESTAMP),
    arguments=2,
    constants=(0,),
    signature="date_trunc(unit, time)",
    summary="The start of the YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND …; NULL for any other unit.",
)
def _date_trunc(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    unit = unit_of(expression, 0, _ALL_UNITS)
    if unit is None:
        return Evaluation(pa.scalar(None, TIMESTAMP))
    array = frame.array(arguments[1])
    micros, zone = numbers(array), frame.context.time_zone
    if unit in ("SECOND", "MILLISECOND", "MICROSECOND"):  # no zone has an offset of less than a second
        return Evaluation(arrow(micros - micros % _TIME_UNITS_US[unit], valid(array), TIMESTAMP))
    local = to_local(micros, zone)
    if unit in _TIME_UNITS_US:
        start = local - local % _TIME_UNITS_US[unit]
        # where the start happens twice, the one with the same offset as the time itself is meant
        same_offset = start - (local - micros)
        starts = np.where(to_local(same_offset, zone) == start, same_offset, to_utc(start, zone))
    else:
        starts = to_utc(first_day(np.floor_divide(local, DAY_US), unit) * DAY_US, zone)
    return Evaluation(arrow(starts, valid(array), TIMESTAMP))


@function(
    "months_between",
    typing=takes(instant, instant, exactly(BOOLEAN), result=DOUBLE),
    arguments=(2, 3),
    constants=(2,),
    signature="months_between(end, start [, rounded])",
    summary="Months from start to end, the rest in 31sts of a month; rounded to 8 digits unless rounded is false.",
)
def _months_between(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    zone = frame.context.time_zone
    rounded = expression.arguments[2] if len(arguments) == 3 else Literal(BOOLEAN, True)
    assert isinstance(rounded, Literal), "whether to round is a constant"
    if rounded.value is None:
        return Evaluation(pa.scalar(None, DOUBLE))
    (end, start), known = operands(arguments[:2], frame)
    sides = []
    for micros in (end, start):
        days = np.floor_divide(to_local(micros, zone), DAY_US)
        year, month, day = civil.civil_from_days(days)
        seconds = cut_division(micros - to_utc(days * DAY_US, zone), SECOND_US)
        sides.append((year * 12 + month, day, day == civil.days_in_month(year, month), seconds))
    (months_1, day_1, is_last_1, seconds_1), (months_2, day_2, is_last_2, seconds_2) = sides
    months = (months_1 - months_2).astype(np.float64)
    rest_s = (day_1 - day_2) * 86_400 + seconds_1 - seconds_2
    between = months + rest_s / (31.0 * 86_400)
    if rounded.value:
        scaled = between * 1e8
        below = np.floor(scaled)
        between = (below + (scaled - below >= 0.5)) / 1e8
    is_whole = (day_1 == day_2) | (is_last_1 & is_last_2)
    values = np.broadcast_to(np.where(is_whole, months, between), frame.n_rows)
    return Evaluation(arrow(values, known, DOUBLE))


def cut_division(a: Any, by: int) -> Any:
    """a / by without the fraction, as Java divides: towards zero."""
    return np.sign(a) * (np.abs(a) // by)


# ------------------------------------------------------------------------------------------ to and from numbers


def _timestamp_either(e: Expression) -> Expression:
    if e.type not in (TIMESTAMP, TIMESTAMP_NTZ, NULL):
        raise argument_error("TIMESTAMP", e, "Convert it first: CAST(… AS TIMESTAMP).")
    return coerce(e, TIMESTAMP) if e.type == NULL else e


def _register_count(name: str, unit_us: int, unit: str) -> None:
    @function(
        name,
        typing=takes(_timestamp_either, result=BIGINT),
        arguments=1,
        signature=f"{name}(time)",
        summary=f"The {unit} since 1970-01-01 00:00 UTC, rounded down.",
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        (micros,), known = operands(arguments, frame)
        counts = np.broadcast_to(np.floor_divide(micros, unit_us), frame.n_rows)
        return Evaluation(arrow(counts, known, BIGINT))


_register_count("unix_seconds", SECOND_US, "seconds")
_register_count("unix_millis", 1000, "milliseconds")
_register_count("unix_micros", 1, "microseconds")


def _register_instant(name: str, unit_us: int, unit: str) -> None:
    @function(
        name,
        typing=takes(whole_number, result=TIMESTAMP),
        arguments=1,
        signature=f"{name}({unit})",
        summary=f"The time so many {unit} after 1970-01-01 00:00 UTC.",
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        (counts,), known = operands(arguments, frame)
        return _instants(counts, unit_us, known, frame)


_register_instant("timestamp_millis", 1000, "milliseconds")
_register_instant("timestamp_micros", 1, "microseconds")


def _instants(counts: Any, unit_us: int, known: Mask | None, frame: Frame) -> Evaluation:
    limit = np.iinfo(np.int64).max // unit_us
    bad = np.broadcast_to((counts > limit) | (counts < -limit - (unit_us == 1)), frame.n_rows)
    if known is not None:
        bad = bad & known
    errors = frame.fail(bad, OVERFLOW, "the time is out of the range of TIMESTAMP")
    if errors is not None:
        known = errors == 0 if known is None else known & (errors == 0)
    with np.errstate(over="ignore"):
        micros = np.broadcast_to(counts * np.int64(unit_us), frame.n_rows)
    return Evaluation(arrow(micros, known, TIMESTAMP), errors)


def _number(e: Expression) -> Expression:
    if e.type != NULL and not is_numeric(e.type):
        raise argument_error("a number", e)
    if is_integer(e.type) or e.type == NULL:
        return coerce(e, BIGINT)
    return coerce(e, DOUBLE) if is_floating(e.type) else e


@function(
    "timestamp_seconds",
    typing=takes(_number, result=TIMESTAMP),
    arguments=1,
    signature="timestamp_seconds(seconds)",
    summary="The time so many seconds after 1970-01-01 00:00 UTC.",
)
def _timestamp_seconds(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    array = frame.array(arguments[0])
    if array.type == BIGINT:
        return _instants(numbers(array), SECOND_US, valid(array), frame)
    if is_decimal(array.type):
        return _decimal_instants(array, frame)
    seconds, known = numbers(array), valid(array)
    is_number = np.isfinite(seconds)
    with np.errstate(all="ignore"):
        micros = np.where(is_number, seconds * 1e6, 0.0)
        # beyond its range a double becomes the nearest BIGINT, as in Java
        whole = np.where(np.abs(micros) < 2.0**63, micros, 0).astype(np.int64)
    whole = np.where(micros >= 2.0**63, np.iinfo(np.int64).max, whole)
    whole = np.where(micros <= -(2.0**63), np.iinfo(np.int64).min, whole)
    return Evaluation(arrow(whole, is_number if known is None else known & is_number, TIMESTAMP))


def _decimal_instants(array: pa.Array, frame: Frame) -> Evaluation:
    # Decimals of any scale: through Python's, which is exact.
    micros = np.zeros(len(array), np.int64)
    errors = np.zeros(len(array), np.int32)
    for row, seconds in enumerate(array.to_pylist()):
        if seconds is None:
            continue
        scaled = seconds.scaleb(6)
        if scaled != scaled.to_integral_value():
            errors[row] = frame.code(
                "ARITHMETIC_OVERFLOW", "seconds have more than six digits after the point"
            )
        elif not -(2**63) <= int(scaled) < 2**63:
            errors[row] = frame.code(OVERFLOW, "the time is out of the range of TIMESTAMP")
        else:
            micros[row] = int(scaled)
    known = array.is_valid().to_numpy(zero_copy_only=False) & (errors == 0)
    return Evaluation(arrow(micros, known, TIMESTAMP), errors if errors.any() else None)


@function(
    "make_timestamp",
    typing=lambda arguments: _timestamp_parts_type(arguments),
    arguments=(6, 7),
    constants=(6,),
    signature="make_timestamp(year, month, day, hour, minute, second [, zone])",
    summary="The time in a zone, by default the session's; an error if there is no such time. Seconds may have a fraction.",
)
def _make_timestamp(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    zone = frame.context.time_zone
    if len(arguments) == 7:
        constant = expression.arguments[6]
        assert isinstance(constant, Literal), "a zone is a constant"
        if constant.value is None:
            return Evaluation(pa.scalar(None, TIMESTAMP))
        zone = str(constant.value)
    seconds = frame.array(arguments[5])
    second_us = _micros_of_decimal(seconds)
    parts, known = operands(arguments[:5], frame)
    year, month, day, hour, minute = np.broadcast_arrays(*parts, np.empty(frame.n_rows))[:5]
    seconds_known = valid(seconds)
    if seconds_known is not None:
        known = seconds_known if known is None else known & seconds_known
    if known is None:
        known = np.ones(frame.n_rows, bool)
    over = frame.fail(
        known & (second_us > 60 * SECOND_US), "INVALID_FRACTION_OF_SECOND", "seconds run from 0 to 60"
    )
    bad = ~civil.is_date(year, month, day) | (second_us < 0)
    bad |= (hour < 0) | (hour > 23) | (minute < 0) | (minute > 59)
    wrong = frame.fail(known & bad, _OUT_OF_BOUNDS, "there is no such time")
    errors = merge_errors(over, wrong)
    if errors is not None:
        known = known & (errors == 0)
    year, month, day = (np.where(known, part, 1) for part in (year, month, day))
    local = civil.days_from_civil(year, month, day) * DAY_US
    local = local + hour * np.int64(HOUR_US) + minute * np.int64(MINUTE_US) + second_us
    return Evaluation(arrow(to_utc(np.where(known, local, 0), zone), known, TIMESTAMP), errors)


_SECONDS = pa.decimal128(16, 6)


def _timestamp_parts_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    second = arguments[5]
    if second.type != NULL and not is_numeric(second.type):
        raise argument_error("a number of seconds", second)
    typed_arguments = [*map(integer, arguments[:5]), cast(second, _SECONDS, span=second.span)]
    if len(arguments) == 7:
        typed_arguments.append(_zone_name(arguments[6]))
    return typed_arguments, TIMESTAMP


def _micros_of_decimal(seconds: pa.Array) -> Any:
    """The stored integers of DECIMAL(16, 6): its low 64 bits hold them all."""
    words = np.frombuffer(seconds.buffers()[1], np.int64)
    return words[2 * seconds.offset : 2 * (seconds.offset + len(seconds)) : 2]


# ------------------------------------------------------------------------------------------ zones


def _zone_name(e: Expression) -> Expression:
    name = text(e)
    if isinstance(name, Literal) and name.value is not None:
        require_zone(name.value, e.span)
    return name


def _register_shift(name: str, shift: Callable[[Any, str], Any], summary: str) -> None:
    @function(
        name,
        typing=takes(instant, _zone_name, result=TIMESTAMP),
        arguments=2,
        constants=(1,),
        signature=f"{name}(time, zone)",
        summary=summary,
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        zone = expression.arguments[1]
        assert isinstance(zone, Literal), "a zone is a constant"
        if zone.value is None:
            return Evaluation(pa.scalar(None, TIMESTAMP))
        (micros,), known = operands(arguments[:1], frame)
        return Evaluation(arrow(np.broadcast_to(shift(micros, zone.value), frame.n_rows), known, TIMESTAMP))


_register_shift(
    "from_utc_timestamp", to_local, "The time moved by the zone's offset: UTC's clock set to the zone's."
)
_register_shift(
    "to_utc_timestamp", to_utc, "The time moved back by the zone's offset: the zone's clock set to UTC's."
)
