"""Partial results of one function: arrays with a line for each entry, where zeros are an entry without rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.aggregates.rows import ClassRows, Ints, Mask
from eddyline.kernels import read_only
from eddyline.model import AggregateCall

Doubles = npt.NDArray[np.float64]
Lines = npt.NDArray[Any]
Value = tuple[pa.Array, Mask | None]  # and where it does not fit its type, if that can be
MIN_ROOM = 16  # lines


@dataclass(frozen=True, slots=True)
class Arguments:
    """The rows that a function takes, with its arguments."""

    entries: Ints
    columns: Sequence[pa.Array]
    signs: npt.NDArray[np.int8]
    time_us: Ints
    arrival: Ints


def arguments(
    entries: Ints, rows: ClassRows, call: AggregateCall, needed: Sequence[str], is_true: str | None = None
) -> Arguments:
    """Those of rows where the filter and the column `is_true` are true, and no needed column is NULL."""
    mask: Mask | None = None
    for name in {call.filter, is_true} - {None}:
        condition = np.asarray(rows.columns[name].fill_null(False).to_numpy(zero_copy_only=False))
        mask = condition if mask is None else mask & condition
    for name in needed:
        column = rows.columns[name]
        if column.null_count:
            valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
            mask = valid if mask is None else mask & valid
    columns = [rows.columns[name] for name in call.arguments]
    if mask is None or mask.all():
        return Arguments(entries, columns, rows.sign, rows.time_us, rows.arrival)
    places = np.flatnonzero(mask)
    taken = [column.take(pa.array(places)) for column in columns]
    return Arguments(entries[places], taken, rows.sign[places], rows.time_us[places], rows.arrival[places])


class Accumulator(ABC):
    """Partial results that several calls may read: sum and avg of one column have the same."""

    is_invertible = False

    def __init__(self, call: AggregateCall) -> None:
        self.call = call
        self.arrays: dict[str, Lines] = {}

    def resize(self, n: int) -> None:
        """Room for n entries; those that were not there are empty."""
        for name, array in self.arrays.items():
            self.arrays[name] = grown(array, n)

    def clear(self, entries: Ints) -> None:
        for array in self.arrays.values():
            array[entries] = 0

    @abstractmethod
    def add(self, entries: Ints, rows: ClassRows) -> None:
        """Row k goes into entries[k], or out of it."""

    @abstractmethod
    def merge(self, into: Ints, other: Self, which: Ints) -> None:
        """Entry which[k] of the other goes into into[k]."""

    def subtract(self, into: Ints, other: Self, which: Ints) -> None:
        """The inverse of merge."""
        raise AssertionError(f"{self.call.name} cannot be subtracted")

    def copy(self, into: Ints, other: Self, which: Ints) -> None:
        for name, array in self.arrays.items():
            array[into] = other.arrays[name][which]

    def renumber(self, entries: Ints, first: int) -> None:  # noqa: B027 -- most know no arrival numbers
        """Arrival numbers in these entries counted from 0, and now do from `first`."""

    @abstractmethod
    def value(self, call: AggregateCall, entries: Ints) -> Value:
        """What a call gives for these entries."""

    def saved(self, entries: Ints) -> dict[str, pa.Array]:
        """Columns with a line for each of these entries."""
        return {name: _column(array[entries]) for name, array in self.arrays.items()}

    def load(self, entries: Ints, columns: Mapping[str, pa.Array]) -> None:
        for name, array in self.arrays.items():
            array[entries] = _lines(columns[name], array)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    @abstractmethod
    def check(self, n_rows: Ints) -> None:
        """Assert what holds for every entry, given how many rows are in it."""


def grown(lines: Lines, n: int) -> Lines:
    """An array with room for n lines: the same if it has that, otherwise with zeros behind, and some to spare."""
    if n <= len(lines):
        return lines
    room = np.zeros((max(n, len(lines) * 3 // 2, MIN_ROOM), *lines.shape[1:]), lines.dtype)
    room[: len(lines)] = lines
    return room


def given(array: Any, dtype: npt.DTypeLike = np.int64) -> Any:
    """An array as kernels take their inputs: they are compiled for one layout only."""
    return read_only(np.ascontiguousarray(array, dtype))


def masked(array: pa.Array, valid: Mask) -> pa.Array:
    """NULL where it is not valid."""
    return array if valid.all() else pc.if_else(pa.array(valid), array, pa.scalar(None, array.type))


def integers(column: pa.Array) -> Ints:
    """The numbers that values without NULLs are stored as."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))


def doubles(column: pa.Array) -> Doubles:
    """The doubles that are nearest to values."""
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def exact_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """The sum, and exactly what rounding took from it (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def decimal_limbs(column: pa.Array) -> npt.NDArray[np.uint64]:
    """The two halves of the integers of a DECIMAL, the lower first; any number where it is NULL."""
    if not len(column):
        return np.zeros((0, 2), np.uint64)
    limbs = np.frombuffer(column.buffers()[1], np.uint64, count=2 * (column.offset + len(column)))
    return limbs.reshape(-1, 2)[column.offset :]


def decimals(limbs: npt.NDArray[np.uint64], to: pa.DataType) -> pa.Array:
    """The inverse of `decimal_limbs`."""
    return pa.Array.from_buffers(to, len(limbs), [None, pa.py_buffer(np.ascontiguousarray(limbs))])


def _column(lines: Lines) -> pa.Array:
    flat = pa.array(lines.reshape(-1))
    return flat if lines.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, math.prod(lines.shape[1:]))


def _lines(column: pa.Array, like: Lines) -> Lines:
    flat = column if like.ndim == 1 else column.flatten()
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, *like.shape[1:])
