"""Rows as dicts into the schema of a stream; a row with a value that does not fit is set apart."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.errors import SchemaError, did_you_mean
from eddyline.model import Stream
from eddyline.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, is_decimal, is_integer, type_name

ARRIVAL = "_arrival"


def rows_in_schema(
    stream: Stream, rows: Sequence[dict[str, Any]], time_zone: str
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64] | None, list[tuple[dict[str, Any], str]]]:
    """Columns, arrival numbers if the rows have them, and (row, message) for those that do not fit."""
    spelling = {f.name.lower(): f.name for f in stream.schema}
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
                except (ValueError, TypeError, ArithmeticError):
                    problem = _unfit(stream, column, value)
            elif name == ARRIVAL:
                prepared[ARRIVAL] = value
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


def _columns(stream: Stream, rows: list[dict[str, Any]]) -> tuple[list[pa.Array], dict[int, str]]:
    """Arrow columns, and for each row Arrow cannot take the column it refuses (all NULL then)."""
    columns, wrong = [], {}
    for f in stream.schema:
        values = [row.get(f.name) for row in rows]
        try:
            columns.append(pa.array(values, f.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
            for at, value in enumerate(values):
                try:
                    pa.array([value], f.type)
                except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
                    wrong[at] = f.name
            columns.append(pa.nulls(len(rows), f.type))
    return columns, wrong


def _unfit(stream: Stream, column: str, value: Any) -> str:
    return f"column {column}: {value!r} is not {type_name(stream.schema.field(column).type)}"


def _arrival(stream: Stream, rows: list[dict[str, Any]]) -> npt.NDArray[np.int64] | None:
    given = [row.get(ARRIVAL) for row in rows]
    if all(number is None for number in given):
        return None
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in given):
        raise SchemaError(
            f"{ARRIVAL} of the data for {stream.name} must be whole numbers without NULL",
            hint="Leave it out of all rows to have them numbered in the order they come.",
        )
    return np.array(given, dtype=np.int64)


def _preparation(t: pa.DataType, time_zone: str) -> Callable[[Any], Any]:
    """How a Python value is made ready for Arrow; raises where Arrow would guess."""
    if t in (TIMESTAMP, TIMESTAMP_NTZ):
        zone = ZoneInfo(time_zone)
        return lambda value: _instant(value, zone, is_zoned=t == TIMESTAMP)
    if t == DATE:
        return _date
    if is_decimal(t):
        return _decimal
    if pa.types.is_floating(t):
        return _number
    if is_integer(t):
        return _whole
    if pa.types.is_boolean(t):
        return _boolean
    if pa.types.is_list(t):
        return _list
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


def _decimal(value: Any) -> decimal.Decimal:
    if isinstance(value, bool):
        raise TypeError(value)
    return decimal.Decimal(repr(value) if isinstance(value, float) else value)


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


def _list(value: Any) -> Any:
    if isinstance(value, (str, bytes)):  # Arrow would take it apart into characters
        raise TypeError(value)
    return value


def _boolean(value: Any) -> Any:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(value)
    return bool(value)
