"""Dates and timestamps among each other, to and from numbers and text, in the session's time zone."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.durations import DAY_US, SECOND_US
from eddyline.expressions import decimals
from eddyline.expressions.buffers import Mask, arrow, known_and, numbers, valid
from eddyline.expressions.civil import ERA_DAYS, civil_from_days, days_from_civil, is_date
from eddyline.expressions.conversions import numbers as number_conversions
from eddyline.expressions.conversions.conversion import (
    INVALID,
    OVERFLOW,
    Conversion,
    checked_conversion,
    one_by_one,
    patched_values,
)
from eddyline.expressions.conversions.text import CONTROL
from eddyline.expressions.frame import Context, as_mask
from eddyline.expressions.zones import to_local, to_utc, zone_table
from eddyline.types import (
    BIGINT,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_decimal,
    is_integer,
)

_INT64 = np.iinfo(np.int64)
_INT32 = np.iinfo(np.int32)

# ------------------------------------------------------------------------------------- among each other


def between(array: pa.Array, to: pa.DataType, context: Context) -> Conversion:
    """A DATE, TIMESTAMP or TIMESTAMP_NTZ array as another of these."""
    known = valid(array)
    bad = None
    if array.type == DATE:  # holds days of millions of years, microseconds only of 290,000
        bad = known_and(known, np.abs(numbers(array).astype(np.int64)) > _INT64.max // DAY_US - 1)
    local = _local_us(array, context)
    if to == DATE:
        return Conversion(arrow(np.floor_divide(local, DAY_US).astype(np.int32), known, DATE))
    if to == TIMESTAMP:
        local = to_utc(local, context.time_zone)
    return checked_conversion(arrow(local, known, to), bad, "DATETIME_OVERFLOW")


def _local_us(array: pa.Array, context: Context) -> npt.NDArray[np.int64]:
    """Wall-clock microseconds in the session's zone."""
    stored = numbers(array)
    if array.type == DATE:
        return stored.astype(np.int64) * DAY_US
    return to_local(stored, context.time_zone) if array.type == TIMESTAMP else stored


# ------------------------------------------------------------------------------------- numbers


def to_number(array: pa.Array, to: pa.DataType) -> Conversion:
    """TIMESTAMP as seconds since 1970-01-01 UTC."""
    stored, known = numbers(array), valid(array)
    if is_integer(to):
        seconds = arrow(np.floor_divide(stored, SECOND_US), known, BIGINT)
        return Conversion(seconds) if to == BIGINT else number_conversions.between(seconds, to)
    if is_decimal(to):
        micros = arrow(stored, known, BIGINT).cast(pa.decimal128(20, 0))
        return number_conversions.between(decimals.relabelled_decimals(micros, 20, 6), to)
    seconds = arrow(stored / 1e6, known, DOUBLE)
    return Conversion(seconds) if to == DOUBLE else number_conversions.between(seconds, to)


def from_number(array: pa.Array, to: pa.DataType) -> Conversion:
    """Seconds since 1970-01-01 UTC as TIMESTAMP."""
    assert to == TIMESTAMP, f"no cast from {array.type} to {to}"
    known = valid(array)
    if is_integer(array.type):
        seconds = numbers(array).astype(np.int64)
        limit = _INT64.max // SECOND_US
        micros = np.clip(seconds, -limit, limit) * SECOND_US
        micros[seconds > limit] = _INT64.max  # as java.util.concurrent.TimeUnit does
        micros[seconds < -limit] = _INT64.min
        return Conversion(arrow(micros, known, to))
    if is_decimal(array.type):
        return Conversion(_decimal_micros(array).view(to))
    seconds = numbers(array).astype(np.float64)
    with np.errstate(over="ignore"):
        micros = arrow(seconds * 1e6, known_and(known, np.isfinite(seconds)), DOUBLE)
    whole = number_conversions.between(micros, BIGINT)
    invalid = known_and(known, ~np.isfinite(seconds))
    problems = tuple((mask, OVERFLOW) for mask, _ in whole.problems)
    if invalid.any():
        problems = (*problems, (invalid, INVALID))
    return Conversion(whole.values.view(to), problems)


def _decimal_micros(array: pa.Array) -> pa.Array:
    """Seconds as whole microseconds, cut off, in 64 bits."""
    if array.type.scale > 6:
        array = pc.round(array, ndigits=6, round_mode=decimals.TOWARDS_ZERO).cast(pa.decimal128(38, 6))
    return arrow(decimals.low_bits(decimals.whole(array, 6)), valid(array), BIGINT)


# ------------------------------------------------------------------------------------- to text


def to_text(array: pa.Array, context: Context) -> Conversion:
    """2024-03-01, or 2024-03-01 10:00:00.5 with the fraction as short as it can be."""
    known = valid(array)
    if array.type == DATE:
        days, local = numbers(array).astype(np.int64), None
    else:
        local = _local_us(array, context)
        days = np.floor_divide(local, DAY_US)
    usual = known_and(known, (days >= _FIRST_DAY) & (days <= _LAST_DAY))
    if local is None:
        text = arrow(days.astype(np.int32), usual, DATE).cast(STRING)
    else:
        text = pc.ascii_rtrim(pc.ascii_rtrim(arrow(local, usual, TIMESTAMP_NTZ).cast(STRING), "0"), ".")
    rare = known_and(known, ~usual)
    if not rare.any():
        return Conversion(text)
    clocks = [None] * int(rare.sum()) if local is None else (local - days * DAY_US)[rare].tolist()
    spelled = [_far_text(day, clock) for day, clock in zip(days[rare].tolist(), clocks, strict=True)]
    return Conversion(patched_values(text, rare, pa.array(spelled, STRING)))


def _far_text(days: int, clock_us: int | None) -> str:
    """A time whose year has not four digits: Java puts a sign before it, and Arrow cannot write it."""
    year, month, day = (int(part) for part in civil_from_days(days))
    date = f"{'-' if year < 0 else '+' if year > 9999 else ''}{abs(year):04d}-{month:02d}-{day:02d}"
    if clock_us is None:
        return date
    seconds, micros = divmod(clock_us, SECOND_US)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micros:06d}"
    return f"{date} {clock.rstrip('0').rstrip('.')}"


_EPOCH = datetime.date(1970, 1, 1)
_FIRST_DAY = int(days_from_civil(0, 1, 1))
_LAST_DAY = int(days_from_civil(9999, 12, 31))

# ------------------------------------------------------------------------------------- from text

_DAY_FORM = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_CLOCK_FORM = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})?$"
)


def from_text(array: pa.Array, to: pa.DataType, context: Context) -> Conversion:
    """Text read as a day or a time: the usual forms a column at a time, every other one Spark reads one by one."""
    text = pc.utf8_trim(array, CONTROL)
    if to == DATE:
        return _to_date(text)
    return _to_timestamp(text, to, context)


def _to_date(text: pa.Array) -> Conversion:
    usual = as_mask(pc.match_substring_regex(text, _DAY_FORM), len(text))
    digits = _digits(text, usual, "1970-01-01")
    year, month, day = _number(digits, 0, 4), _number(digits, 5, 7), _number(digits, 8, 10)
    bad = usual & ~is_date(year, month, day)
    values = arrow(days_from_civil(year, np.clip(month, 1, 12), day).astype(np.int32), usual & ~bad, DATE)
    others = as_mask(text.is_valid(), len(text)) & ~usual
    if others.any():
        read, unread = one_by_one(text, others, _read_date, pa.int32())
        values, bad = patched_values(values, others, read.view(DATE)), bad | unread
    return checked_conversion(values, bad, INVALID)


def _to_timestamp(text: pa.Array, to: pa.DataType, context: Context) -> Conversion:
    day_only = pc.match_substring_regex(text, _DAY_FORM)
    text = pc.if_else(day_only, pc.binary_join_element_wise(text, "00:00:00", " "), text)
    usual = as_mask(pc.match_substring_regex(text, _CLOCK_FORM), len(text))
    zone = pc.if_else(pa.array(usual), pc.utf8_slice_codeunits(text, 19, 64), "")
    zone = pc.utf8_ltrim(pc.utf8_ltrim(zone, "."), "0123456789")
    offset_us, bad_offset = _offsets(zone)
    has_zone = as_mask(pc.not_equal(zone, ""), len(text))

    body = pc.replace_substring_regex(text, r"(Z|[+-][0-9]{2}:[0-9]{2})$", "")
    body = pc.if_else(pc.equal(pc.binary_length(body), 19), pc.binary_join_element_wise(body, "", "."), body)
    digits = _digits(pc.ascii_rpad(body, 26, "0"), usual, "1970-01-01 00:00:00.000000")
    year, month, day = _number(digits, 0, 4), _number(digits, 5, 7), _number(digits, 8, 10)
    hour, minute, second = _number(digits, 11, 13), _number(digits, 14, 16), _number(digits, 17, 19)
    bad = usual & (~is_date(year, month, day) | (hour > 23) | (minute > 59) | (second > 59) | bad_offset)
    local = days_from_civil(year, np.clip(month, 1, 12), day) * DAY_US
    local += ((hour * 60 + minute) * 60 + second) * SECOND_US + _number(digits, 20, 26)
    micros = local
    if to == TIMESTAMP:
        micros = np.where(
            has_zone, local - offset_us, local if has_zone.all() else to_utc(local, context.time_zone)
        )
    values = arrow(micros, usual & ~bad, to)
    others = as_mask(text.is_valid(), len(text)) & ~usual
    if others.any():
        read, unread = one_by_one(text, others, lambda t: _read_timestamp(str(t), to, context), pa.int64())
        values, bad = patched_values(values, others, read.view(to)), bad | unread
    return checked_conversion(values, bad, INVALID)


def _digits(text: pa.Array, usual: Mask, filler: str) -> npt.NDArray[np.int64]:
    """One row of character values per text, all of them as long as the filler, which stands in for the others."""
    even = pc.if_else(pa.array(usual), text, filler).fill_null(filler).cast(pa.binary(len(filler)))
    codes = np.frombuffer(even.buffers()[1], np.uint8)[even.offset * len(filler) :]
    return codes[: len(text) * len(filler)].reshape(len(text), len(filler)).astype(np.int64) - ord("0")


def _number(digits: npt.NDArray[np.int64], start: int, end: int) -> npt.NDArray[np.int64]:
    value = np.zeros(len(digits), np.int64)
    for column in range(start, end):
        value = value * 10 + digits[:, column]
    return value


def _offsets(zone: pa.Array) -> tuple[npt.NDArray[np.int64], Mask]:
    """Microseconds east of UTC of suffixes "", "Z" or "+02:00", and which of them are beyond 18 hours."""
    has_digits = as_mask(pc.equal(pc.binary_length(zone), 6), len(zone))
    digits = _digits(pc.utf8_slice_codeunits(zone, 1, 6), has_digits, "00:00")
    hours, minutes = _number(digits, 0, 2), _number(digits, 3, 5)
    sign = np.where(as_mask(pc.starts_with(zone, "-"), len(zone)), -1, 1)
    seconds = (hours * 60 + minutes) * 60
    return sign * seconds * SECOND_US, (minutes > 59) | (seconds > 18 * 3600)


_DATE_TEXT = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)


def _read_date(text: Any) -> int | None:
    """Any form Spark takes for a date: yyyy, yyyy-M, yyyy-M-d, the last with a time behind it that is not looked at."""
    hit = _DATE_TEXT.fullmatch(text)
    if hit is None:
        return None
    days = _civil_days(hit[1], hit[2], hit[3], hit[4])
    return days if days is not None and _INT32.min <= days <= _INT32.max else None


def _civil_days(sign: str, year: str, month: str | None, day: str | None) -> int | None:
    """Days since 1970-01-01 of one date; the calendar repeats every 400 years, so the standard library knows it."""
    cycles, rest = divmod(int(sign + year), 400)
    try:
        date = datetime.date(2000 + rest, int(month or 1), int(day or 1))
    except ValueError:
        return None
    return (date - _EPOCH).days + (cycles - 5) * ERA_DAYS


_CLOCK = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?"
_TIMESTAMP_TEXT = re.compile(
    rf"([+-]?)([0-9]{{4,6}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T]{_CLOCK})?)?)?", re.DOTALL
)
_CLOCK_TEXT = re.compile(f"T?{_CLOCK}", re.DOTALL)


def _read_timestamp(text: str, to: pa.DataType, context: Context) -> int | None:
    """Any form Spark takes for a timestamp, as microseconds; a time of day alone means today, for TIMESTAMP only."""
    hit = _TIMESTAMP_TEXT.fullmatch(text)
    if hit is not None:
        days = _civil_days(hit[1], hit[2], hit[3], hit[4])
        clock = hit.groups()[4:]
    else:
        hit = _CLOCK_TEXT.fullmatch(text)
        if hit is None or to != TIMESTAMP or (hit[2] is None and not text.startswith("T")):
            return None
        zone = _zone(hit[5], context)
        if zone is None:
            return None
        now = to_local(np.array([context.now_us], np.int64), zone)
        days, clock = int(now[0] // DAY_US), hit.groups()
    if days is None:
        return None
    hour, minute, second = (int(part or 0) for part in clock[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    micros = (
        days * DAY_US
        + ((hour * 60 + minute) * 60 + second) * SECOND_US
        + int((clock[3] or "0")[:6].ljust(6, "0"))
    )
    if not _INT64.min <= micros <= _INT64.max:
        return None
    if to == TIMESTAMP_NTZ:
        return micros if clock[4] is None or _zone(clock[4], context) is not None else None
    zone = _zone(clock[4], context)
    return None if zone is None else int(to_utc(np.array([micros], np.int64), zone)[0])


def _zone(suffix: str | None, context: Context) -> str | None:
    """The zone named behind a time, the session's if none is, or None if there is no such zone."""
    if suffix is None:
        return context.time_zone
    name = re.sub(r"([+-])(\d):", r"\g<1>0\2:", suffix.strip(CONTROL), count=1)
    name = re.sub(r"([+-]\d\d):(\d)$", r"\g<1>:0\2", name)
    try:
        zone_table(name)
    except LookupError:
        return None
    return name
