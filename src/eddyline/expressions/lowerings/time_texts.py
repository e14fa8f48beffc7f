"""Times as text and text as times, by datetime patterns. Patterns are constants; `formats` says what they may hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.durations import DAY_US, SECOND_US
from eddyline.errors import TypeMismatchError
from eddyline.expressions.buffers import Mask, arrow, numbers, operands, valid
from eddyline.expressions.coercion import cast
from eddyline.expressions.frame import Evaluation, Frame
from eddyline.expressions.function import Typing, function
from eddyline.expressions.lowerings import formats
from eddyline.expressions.lowerings.parameters import argument_error, instant, takes, text, whole_number
from eddyline.expressions.lowerings.timestamps import cut_division, local_us
from eddyline.expressions.zones import to_local, to_utc
from eddyline.model import Call, Expression, Literal
from eddyline.types import BIGINT, DATE, NULL, STRING, TIMESTAMP, TIMESTAMP_NTZ, is_numeric, is_temporal

DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"


def _pattern(e: Expression, *, is_read: bool) -> Expression:
    pattern = text(e)
    if isinstance(pattern, Literal) and pattern.value is not None:
        formats.check_pattern(pattern.value, e.span, is_read=is_read)
    return pattern


def _to_write(e: Expression) -> Expression:
    return _pattern(e, is_read=False)


def _to_read(e: Expression) -> Expression:
    return _pattern(e, is_read=True)


def _constant_pattern(expression: Call) -> str | None:
    if len(expression.arguments) < 2:
        return DEFAULT_PATTERN
    literal = expression.arguments[1]
    assert isinstance(literal, Literal), "a datetime pattern is a constant"
    return None if literal.value is None else str(literal.value)


@function(
    "date_format",
    typing=takes(instant, _to_write, result=STRING),
    arguments=2,
    constants=(1,),
    signature="date_format(time, pattern)",
    summary="The time as text by a datetime pattern, in the session's time zone.",
)
def _date_format(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    array = frame.array(arguments[0])
    return _formatted_times(numbers(array), valid(array), expression, frame)


@function(
    "from_unixtime",
    typing=takes(whole_number, _to_write, result=STRING),
    arguments=(1, 2),
    constants=(1,),
    signature="from_unixtime(seconds [, pattern])",
    summary="The time so many seconds after 1970-01-01 00:00 UTC as text, in the session's time zone.",
)
def _from_unixtime(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    array = frame.array(arguments[0])
    with np.errstate(over="ignore"):  # beyond 292,000 years it starts over, as in Spark
        micros = numbers(array) * np.int64(SECOND_US)
    return _formatted_times(micros, valid(array), expression, frame)


def _formatted_times(micros: Any, known: Mask | None, expression: Call, frame: Frame) -> Evaluation:
    pattern = _constant_pattern(expression)
    if pattern is None:
        return Evaluation(pa.scalar(None, STRING))
    local = to_local(micros, frame.context.time_zone)
    texts = formats.formatted_times(local, local - micros, pattern)
    if known is None:
        return Evaluation(texts)
    return Evaluation(pc.if_else(pa.array(known), texts, pa.scalar(None, STRING)))


def _read_instants(texts: pa.Array, pattern: str, frame: Frame) -> Evaluation:
    """Texts as TIMESTAMP by a pattern."""
    read = formats.parsed_times(texts, pattern)
    known = texts.is_valid().to_numpy(zero_copy_only=False)

    def message(row: int) -> str:
        return f"{texts[row].as_py()[:100]!r} does not fit the pattern {pattern!r}"

    errors = frame.fail_each(known & read.bad, "CANNOT_PARSE_TIMESTAMP", message)
    if read.offset_us is not None:
        micros = read.local_us - read.offset_us
    else:
        micros = to_utc(read.local_us, frame.context.time_zone)
    return Evaluation(arrow(micros, known & ~read.bad, TIMESTAMP), errors)


def _conversion(to: pa.DataType) -> Typing:
    """Without a pattern it is a cast; with one, a text is read by it, and a time needs no reading."""

    def typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
        value, *patterns = arguments
        is_text = value.type == STRING
        is_number = is_numeric(value.type) and to == TIMESTAMP and not patterns
        if not (is_text or is_number or value.type == NULL or is_temporal(value.type)):
            raise argument_error("STRING, DATE or TIMESTAMP", value)
        formats = [_to_read(e) for e in patterns]
        if patterns and isinstance(formats[0], Literal) and formats[0].value is None:
            return [Literal(to, None), *formats], to
        if is_text and formats:
            return [value, *formats], to
        return [cast(value, to, span=value.span), *formats], to

    return typing


@function(
    "to_timestamp",
    typing=_conversion(TIMESTAMP),
    arguments=(1, 2),
    constants=(1,),
    signature="to_timestamp(text [, pattern])",
    summary="The time a text gives, by a datetime pattern or in the usual form.",
)
def _to_timestamp(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    if arguments[0].values.type == TIMESTAMP:
        return arguments[0]
    pattern = _constant_pattern(expression)
    assert pattern is not None, "a NULL pattern is settled when the call is typed"
    return _read_instants(frame.array(arguments[0]), pattern, frame)


@function(
    "to_date",
    typing=_conversion(DATE),
    arguments=(1, 2),
    constants=(1,),
    signature="to_date(text [, pattern])",
    summary="The day a text gives, by a datetime pattern or in the usual form.",
)
def _to_date(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    if arguments[0].values.type == DATE:
        return arguments[0]
    instants = _to_timestamp(arguments, expression, frame)
    local, known = local_us(instants, frame)
    days = np.floor_divide(local, DAY_US).astype(np.int32)
    return Evaluation(arrow(days, known, DATE), instants.errors)


def _unix_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    if not arguments:
        return arguments, BIGINT
    value, *patterns = arguments
    formats = [_to_read(e) for e in patterns]
    if value.type == STRING and formats and isinstance(formats[0], Literal) and formats[0].value is None:
        return [Literal(TIMESTAMP, None), *formats], BIGINT
    if value.type in (STRING, TIMESTAMP, TIMESTAMP_NTZ):
        return [value, *formats], BIGINT
    if value.type not in (DATE, NULL):
        raise TypeMismatchError("expected STRING, DATE or TIMESTAMP", span=value.span)
    return [cast(value, TIMESTAMP, span=value.span), *formats], BIGINT


def _unix_seconds(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    value = arguments[0]
    errors = None
    if value.values.type == STRING:
        pattern = _constant_pattern(expression)
        assert pattern is not None, "a NULL pattern is settled when the call is typed"
        value = _read_instants(frame.array(value), pattern, frame)
        errors = value.errors
    (micros,), known = operands([value], frame)
    seconds = np.broadcast_to(cut_division(micros, SECOND_US), frame.n_rows)
    return Evaluation(arrow(seconds, known, BIGINT), errors)


@function(
    "to_unix_timestamp",
    typing=_unix_type,
    arguments=(1, 2),
    constants=(1,),
    signature="to_unix_timestamp(time or text [, pattern])",
    summary="The seconds since 1970-01-01 00:00 UTC, without their fraction.",
)
def _to_unix_timestamp(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return _unix_seconds(arguments, expression, frame)


@function(
    "unix_timestamp",
    typing=_unix_type,
    arguments=(0, 2),
    constants=(1,),
    signature="unix_timestamp([time or text [, pattern]])",
    summary="The seconds since 1970-01-01 00:00 UTC of a time, or of the round.",
)
def _unix_timestamp(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    if not arguments:
        return Evaluation(pa.scalar(frame.context.now_us // SECOND_US, BIGINT))
    return _unix_seconds(arguments, expression, frame)
