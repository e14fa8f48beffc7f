"""When rows of a stream happened, in microseconds since 1970, however its time column says it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import EddylineError, PropertyError
from eddyline.expressions.evaluation import evaluate
from eddyline.expressions.frame import Context, Frame
from eddyline.expressions.function import call
from eddyline.model import WINDOW_TYPE, Column, Expression, Literal, Stream
from eddyline.time_properties import ISO, UNIT_US, UNIT_WORDS, time_format, time_unit
from eddyline.types import STRING, TIMESTAMP, TIMESTAMP_NTZ, is_integer

_LARGEST = 2**62  # microseconds; sums and differences of times stay in range
_FUNCTIONS = {"s": "timestamp_seconds", "ms": "timestamp_millis", "us": "timestamp_micros"}


@dataclass(frozen=True, slots=True)
class ReadTimes:
    """The time of each row, NULL where it has none; and rows whose time cannot be read, NULL here too."""

    us: pa.Array
    unreadable: npt.NDArray[np.int64]


def read_times(stream: Stream, rows: pa.RecordBatch, time_zone: str) -> ReadTimes | None:
    """The times of rows in the schema of a stream; None if it has no time."""
    if stream.time is None:
        return None
    column, pattern, unit = rows.column(stream.time), time_format(stream), time_unit(stream)
    if pattern is not None:
        return _of_text(column, pattern, time_zone)
    if column.type == WINDOW_TYPE:  # of a window that has closed: the last moment in it
        column = pc.struct_field(column, "end")
        return ReadTimes(pc.subtract(column.view(pa.int64()), 1), np.empty(0, np.int64))
    if column.type in (TIMESTAMP, TIMESTAMP_NTZ):
        return ReadTimes(column.view(pa.int64()), np.empty(0, np.int64))
    if unit is None:
        return ReadTimes(column.cast(pa.int64()), np.empty(0, np.int64))
    return _of_numbers(column, unit)


def _of_text(column: pa.Array, pattern: str, time_zone: str) -> ReadTimes:
    frame = Frame(len(column), {("", "text"): column}, [], Context(time_zone=time_zone))
    found = frame.array(evaluate(_text_time(Column(STRING, "text"), pattern), frame))
    is_bad = np.asarray(column.is_valid()) & ~np.asarray(found.is_valid())
    return ReadTimes(found.view(pa.int64()), np.flatnonzero(is_bad))


def _of_numbers(column: pa.Array, unit: str) -> ReadTimes:
    """Whole numbers are exact, of nanoseconds the whole microseconds; others are rounded."""
    scale, is_known = UNIT_US[unit], np.asarray(column.is_valid())
    if is_integer(column.type):
        numbers = np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
        limit = int(_LARGEST / scale)
        is_fine = is_known & ((numbers >= -limit) & (numbers <= limit) if scale > 1 else True)
        safe_numbers = np.where(is_fine, numbers, 0)
        times = safe_numbers * scale.numerator if scale >= 1 else safe_numbers // scale.denominator
    else:
        values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            values = values * float(scale)
            is_fine = is_known & (np.abs(values) <= _LARGEST)
        times = np.rint(np.where(is_fine, values, 0)).astype(np.int64)
    return ReadTimes(pa.array(times, pa.int64(), mask=~is_fine), np.flatnonzero(is_known & ~is_fine))


def unreadable_words(stream: Stream, row: pa.RecordBatch) -> str:
    """Why the time of a row cannot be read."""
    assert stream.time is not None
    value, pattern, unit = row.column(stream.time)[0].as_py(), time_format(stream), time_unit(stream)
    if pattern is not None:
        how = "as to_timestamp reads it" if pattern == ISO else f"in the format {pattern!r}"
        return f"column {stream.time}: {str(value)[:100]!r} is not a time {how}"
    return f"column {stream.time}: {value} {UNIT_WORDS[unit or 'us']} since 1970 is no time there is"


def check_time_format(stream: Stream) -> None:
    """Raises PropertyError if the pattern of a stream's time cannot be read."""
    pattern = time_format(stream)
    if pattern is None:
        return
    try:
        _of_text(pa.array(["2026-01-01"], STRING), pattern, "UTC")
    except EddylineError as error:
        raise PropertyError(
            f"stream {stream.name}: property time_format: {error.problem}",
            detail=error.detail,
            hint=error.hint or "Write a datetime pattern of Spark, such as 'dd.MM.yyyy HH:mm', or 'iso'.",
        ) from None


def time_expression(stream: Stream, column: Column) -> Expression | None:
    """The time of a stream as SQL writes it over its column; None if the column is the time itself, or SQL has no word."""
    pattern, unit = time_format(stream), time_unit(stream)
    if pattern is not None:
        return _text_time(column, pattern)
    if unit in _FUNCTIONS and is_integer(column.type):
        return call(_FUNCTIONS[unit], [column])
    return None


def _text_time(column: Column, pattern: str) -> Expression:
    arguments: list[Expression] = [column]
    if pattern != ISO:
        arguments.append(Literal(STRING, pattern))
    return call("to_timestamp", arguments)
