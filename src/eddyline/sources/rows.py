"""Rows as dicts into the schema of a stream; a row with a value that does not fit is set apart."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.errors import SchemaError, did_you_mean
from eddyline.model import Stream
from eddyline.types import (
    BINARY,
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    array_of,
    exact_decimal,
    is_decimal,
    is_floating,
    is_integer,
    is_nested,
    is_numeric,
    type_name,
)

ARRIVAL = "_arrival"


def rows_in_schema(
    stream: Stream,
    rows: Sequence[dict[str, Any]],
    time_zone: str,
    *,
    unknown: set[str] | None = None,
    unread: Collection[str] = (),
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64] | None, list[tuple[dict[str, Any], str]]]:
    """Columns, arrival numbers if the rows have them, and (row, message) for those that do not fit.

    A name the stream does not have makes a row unfit; or, with `unknown`, is put there, if it has a value, and passed over.
    Columns named in `unread` are not looked at, and NULL.
    """
    spelling = {f.name.lower(): f.name for f in stream.schema if f.name not in unread}
    passed_over = {name.lower() for name in unread}
    prepare = {f.name: _preparation(f.type, time_zone) for f in stream.schema}
    fitting: list[dict[str, Any]] = []
    came: list[dict[str, Any]] = []  # the same rows, as the user gave them
    misfits: list[tuple[dict[str, Any], str]] = []
    for row in rows:
        prepared: dict[str, Any] = {}
        problem = ""
        for name, value in row.items():
            column = spelling.get(str(name).lower())
            if column is not None:
                try:
                    prepared[column] = None if value is None else prepare[column](value)
                except (ValueError, TypeError, ArithmeticError, LookupError):
                    problem = _unfit(stream, column, value)
            elif name == ARRIVAL:
                prepared[ARRIVAL] = value
            elif str(name).lower() in passed_over:
                continue
            elif unknown is not None:
                if value is not None:
                    unknown.add(name)
            else:
                problem = f"there is no column {name} in stream {stream.name}. " + did_you_mean(
                    str(name), stream.schema.names, noun="column"
                )
        for f in stream.schema:
            if not problem and not f.nullable and prepared.get(f.name) is None:
                problem = f"column {f.name} is NULL, which the stream does not allow"
        if problem:
            misfits.append((row, problem))
        else:
            fitting.append(prepared)
            came.append(row)
    columns, refused = _columns(stream, fitting)
    if refused:
        for at, column in refused.items():
            value = next(v for name, v in came[at].items() if spelling.get(str(name).lower()) == column)
            misfits.append((came[at], _unfit(stream, column, value)))
        fitting = [row for at, row in enumerate(fitting) if at not in refused]
        columns, _ = _columns(stream, fitting)
    arrival = _arrival(stream, fitting)
    return pa.RecordBatch.from_arrays(columns, schema=stream.schema), arrival, misfits


def soundly_numbered(
    rows: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], str]]]:
    """If some rows have an `_arrival`, those that have none of their own are set apart."""
    if not any(row.get(ARRIVAL) is not None for row in rows):
        return rows, []
    sound: list[dict[str, Any]] = []
    wrong: list[tuple[dict[str, Any], str]] = []
    earlier_numbers: set[int] = set()
    for row in rows:
        number = row.get(ARRIVAL)
        if not _is_arrival(number):
            wrong.append((row, f"{ARRIVAL} is {number!r}, not a whole number as in the other rows"))
        elif number in earlier_numbers:
            wrong.append((row, f"{ARRIVAL} {number} is there twice"))
        else:
            earlier_numbers.add(number)  # type: ignore[arg-type]
            sound.append(row)
    return sound, wrong


def checked_columns(stream: Stream, columns: Sequence[str]) -> list[str]:
    """The columns, which data as a whole has. Raises SchemaError if they cannot be those of the stream."""
    known = {f.name.lower(): f for f in stream.schema}
    earlier_names: set[str] = set()
    for name in columns:
        if name.lower() in earlier_names:
            raise SchemaError(f"column {name} is there twice", hint="Names are not case-sensitive.")
        earlier_names.add(name.lower())
        if name.lower() not in known and name != ARRIVAL:
            raise SchemaError(
                f"there is no column {name} in stream {stream.name}",
                hint=did_you_mean(name, stream.schema.names, noun="column"),
            )
    missing = [f.name for f in stream.schema if f.name.lower() not in earlier_names and not f.nullable]
    if missing:
        raise SchemaError(
            f"column {missing[0]} is missing, and stream {stream.name} does not allow NULL there",
            hint="Add it, or declare the column without NOT NULL.",
        )
    return list(columns)


def _columns(stream: Stream, rows: list[dict[str, Any]]) -> tuple[list[pa.Array], dict[int, str]]:
    """Arrow columns, and for each row Arrow cannot take the column it refuses (all NULL then)."""
    columns, wrong = [], {}
    for f in stream.schema:
        values = [row.get(f.name) for row in rows]
        try:
            columns.append(array_of(values, f.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
            for at, value in enumerate(values):
                try:
                    array_of([value], f.type)
                except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
                    wrong[at] = f.name
            columns.append(pa.nulls(len(rows), f.type))
    return columns, wrong


def _unfit(stream: Stream, column: str, value: Any) -> str:
    return f"column {column}: {value!r} is not {type_name(stream.schema.field(column).type)}"


def _arrival(stream: Stream, rows: list[dict[str, Any]]) -> npt.NDArray[np.int64] | None:
    numbers = [row.get(ARRIVAL) for row in rows]
    if all(number is None for number in numbers):
        return None
    if not all(map(_is_arrival, numbers)):
        raise SchemaError(
            f"{ARRIVAL} of the data for {stream.name} must be whole numbers without NULL",
            hint="Leave it out of all rows to have them numbered in the order they come.",
        )
    return np.array(numbers, dtype=np.int64)


def _is_arrival(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and -(1 << 63) <= number < 1 << 63


def may_hold(t: pa.DataType, source: pa.DataType) -> bool:
    """Whether a column can have values that come, one by one, in another type; some of them may still not fit."""
    if t in (TIMESTAMP, TIMESTAMP_NTZ):
        return source in (STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ)
    if t == DATE:
        return source in (STRING, DATE)
    if t in (STRING, BINARY):
        return source in (STRING, BINARY)
    if is_decimal(t):
        return source == STRING or is_numeric(source)
    if is_floating(t):
        return is_integer(source) or is_floating(source)
    if is_integer(t):
        return is_numeric(source)
    if is_nested(t):
        return is_nested(source) and pa.types.is_list(t) == pa.types.is_list(source)
    return t == source


def _preparation(t: pa.DataType, time_zone: str) -> Callable[[Any], Any]:
    """How a Python value is made ready for Arrow; raises where Arrow would guess."""
    if t in (TIMESTAMP, TIMESTAMP_NTZ):
        zone = ZoneInfo(time_zone)
        return lambda value: _instant(value, zone, is_zoned=t == TIMESTAMP)
    if t == DATE:
        return _date
    if is_decimal(t):
        return lambda value: _decimal(value, t)
    if pa.types.is_floating(t):
        return _number
    if is_integer(t):
        return _whole
    if pa.types.is_boolean(t):
        return _boolean
    if is_nested(t):
        return lambda value: _nested(value, t)
    return lambda value: value


def _instant(value: Any, zone: ZoneInfo, *, is_zoned: bool) -> datetime.datetime:
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if not isinstance(value, datetime.datetime):
        raise TypeError(value)
    if is_zoned:
        return value if value.tzinfo is not None else value.replace(tzinfo=zone)
    return value.astimezone(zone).replace(tzinfo=None) if value.tzinfo is not None else value


def _date(value: Any) -> datetime.date:
    if isinstance(value, str):
        return datetime.date.fromisoformat(value)
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise TypeError(value)
    return value


def _decimal(value: Any, t: pa.DataType) -> decimal.Decimal:
    if isinstance(value, bool):
        raise TypeError(value)
    return exact_decimal(decimal.Decimal(repr(value) if isinstance(value, float) else value), t)


def _number(value: Any) -> Any:
    if isinstance(value, (bool, str)):
        raise TypeError(value)
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, (bool, str)):
        raise TypeError(value)
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(value)
        return int(value)
    return value


def _nested(value: Any, t: pa.DataType) -> Any:
    """The value; raises on text for a list, which Arrow would take apart, and on a NULL for the entry of a map, which ends it."""
    if value is None or not is_nested(t):
        return value
    if pa.types.is_list(t):
        if isinstance(value, (str, bytes)):
            raise TypeError(value)
        if is_nested(t.value_type) and isinstance(value, Sequence):
            for item in value:
                _nested(item, t.value_type)
    elif pa.types.is_struct(t):
        if isinstance(value, Mapping):
            for f in t:
                _nested(value.get(f.name), f.type)
        elif not value:  # of an empty list Arrow makes one thing or another, as the rows beside it are
            raise TypeError(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            _nested(item, t.item_type)
    else:
        for entry in value:
            if entry is None:
                raise TypeError(value)
            item = entry.get("value") if isinstance(entry, Mapping) else entry[-1]
            _nested(item, t.item_type)
    return value


def _boolean(value: Any) -> Any:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(value)
    return bool(value)
