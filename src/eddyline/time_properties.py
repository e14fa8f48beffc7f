"""How a stream says when its rows happened, besides naming the column.

These live in `Stream.properties`, the same words in SQL, Python, TOML and over HTTP:

    time_unit     's', 'ms', 'us' or 'ns'       the column counts seconds, milliseconds, … since 1970; whole or not
    time_format   'dd.MM.yyyy HH:mm'            the column is text, read as to_timestamp(column, '…') reads it
                  'iso'                         the same, as to_timestamp(column) does

`time` may say the same as an expression: timestamp_seconds(ts), timestamp_millis(ts), timestamp_micros(ts), to_timestamp(ts),
to_timestamp(ts, '…'). A whole number without a unit counts microseconds.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from eddyline.errors import PropertyError, SchemaError, did_you_mean
from eddyline.model import Stream
from eddyline.types import STRING, TIMESTAMP, TIMESTAMP_NTZ, is_integer, is_numeric, type_name

TIME_UNIT, TIME_FORMAT = "time_unit", "time_format"
TIME_PROPERTIES = (TIME_UNIT, TIME_FORMAT)
ISO = "iso"
UNIT_US = {"s": Fraction(1_000_000), "ms": Fraction(1_000), "us": Fraction(1), "ns": Fraction(1, 1_000)}
UNIT_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

_UNITS = {
    spelling: unit
    for unit, word in UNIT_WORDS.items()
    for spelling in (unit, word, word[:-1], word.removesuffix("econds") if unit != "s" else "sec")
} | {"µs": "us", "millis": "ms", "micros": "us", "nanos": "ns"}
_FUNCTIONS = {"timestamp_seconds": "s", "timestamp_millis": "ms", "timestamp_micros": "us"}
_CALL = re.compile(
    r"""\s*(\w+)\s*\(\s*(?:`([^`]+)`|(\w+))\s*(?:,\s*(?:'((?:[^']|'')*)'|"([^"]*)")\s*)?\)\s*"""
)
_HINT = (
    "Time is a TIMESTAMP or TIMESTAMP_NTZ; or a number, with time_unit = 's', 'ms', 'us' or 'ns';"
    " or text, with time_format = 'dd.MM.yyyy HH:mm', say, or 'iso'."
)


def time_unit(stream: Stream) -> str | None:
    """What a number in the time column counts: s, ms, us or ns; None if the stream does not say."""
    return _property(stream, TIME_UNIT)


def time_format(stream: Stream) -> str | None:
    """The pattern of the text in the time column, or ISO."""
    return _property(stream, TIME_FORMAT)


def same_time(a: Stream, b: Stream) -> bool:
    """Whether both say in the same way when rows happened."""
    return (a.time, time_unit(a), time_format(a)) == (b.time, time_unit(b), time_format(b))


def with_time(
    stream: Stream, time: str | None, unit: str | None = None, pattern: str | None = None
) -> Stream:
    """The stream with this time, as users write it: a column or an expression of one. What it says is checked later."""
    properties_by_name = {
        name: value for name, value in stream.properties if name.lower() not in TIME_PROPERTIES
    }
    time_properties = {TIME_UNIT: unit or time_unit(stream), TIME_FORMAT: pattern or time_format(stream)}
    if time is not None and "(" in time and time not in stream.schema.names:
        time, from_call = _read_call(stream, time)
        if any(value is not None for value in time_properties.values()):
            raise PropertyError(
                f"stream {stream.name} says twice how its time is read",
                hint=f"Write time = '{time}' with time_unit or time_format, or the expression alone.",
            )
        time_properties = from_call
    properties_by_name |= {name: value for name, value in time_properties.items() if value is not None}
    return replace(stream, time=time, properties=tuple(properties_by_name.items()))


def _read_call(stream: Stream, text: str) -> tuple[str, dict[str, str | None]]:
    hit = _CALL.fullmatch(text)
    function = "" if hit is None else hit[1].lower()
    if hit is not None and (column := hit[2] or hit[3]):
        pattern = hit[4].replace("''", "'") if hit[4] is not None else hit[5]
        if function in _FUNCTIONS and pattern is None:
            return column, {TIME_UNIT: _FUNCTIONS[function]}
        if function == "to_timestamp":
            return column, {TIME_FORMAT: ISO if pattern is None else pattern}
    raise PropertyError(
        f"the time of stream {stream.name} cannot be {text.strip()}",
        detail="It is a column, or one of these of a column: "
        "timestamp_seconds(ts), timestamp_millis(ts), timestamp_micros(ts), to_timestamp(ts), to_timestamp(ts, 'pattern').",
        hint="Have anything else computed where the rows are written, as a TIMESTAMP column.",
    )


def checked_time(stream: Stream) -> Stream:
    """The stream, with its time column and unit spelt as they are; refused where its time cannot be read so."""
    unit, pattern = time_unit(stream), time_format(stream)
    if stream.time is None:
        if unit is not None or pattern is not None:
            raise PropertyError(
                f"stream {stream.name} has a {TIME_UNIT if unit is not None else TIME_FORMAT} but no time",
                hint="Name the column: time = 'ts'.",
            )
        return stream
    column = next((f for f in stream.schema if f.name.lower() == (stream.time or "").lower()), None)
    if column is None:
        raise SchemaError(
            f"stream {stream.name} has no column {stream.time}, which is given as its time",
            hint=did_you_mean(stream.time, stream.schema.names, noun="column"),
        )
    if unit is not None and pattern is not None:
        raise PropertyError(
            f"stream {stream.name} has a time_unit and a time_format",
            hint="A unit goes with numbers, a format with text: leave out one.",
        )
    t = column.type
    if unit is not None:
        known = _UNITS.get(unit.strip().lower())
        if known is None:
            hint = "Write 's', 'ms', 'us' or 'ns'."
            raise PropertyError(
                f"stream {stream.name}: property time_unit: {unit!r} is not a unit", hint=hint
            )
        pairs = tuple((k, known if k.lower() == TIME_UNIT else v) for k, v in stream.properties)
        stream = replace(stream, properties=pairs)
    is_time = t in (TIMESTAMP, TIMESTAMP_NTZ)
    fits = (
        is_numeric(t)
        if unit is not None
        else t == STRING
        if pattern is not None
        else is_time or is_integer(t)
    )
    if not fits:
        property_words = (
            f" with {TIME_UNIT if unit is not None else TIME_FORMAT}" if unit or pattern is not None else ""
        )
        detail = f"A {type_name(t)} is a time as it is." if is_time else None
        raise SchemaError(
            f"column {column.name} cannot be the time of stream {stream.name}{property_words}: it is {type_name(t)}",
            detail=detail,
            hint=_HINT,
        )
    return replace(stream, time=column.name)


def _property(stream: Stream, word: str) -> str | None:
    return next((value for name, value in stream.properties if name.lower() == word), None)
