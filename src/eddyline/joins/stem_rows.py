"""What a stem stores of its rows: columns, and what a join has to know of each row besides, in arrays with room behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.joins.payload import StoredColumn, column_of, gathered_rows, shifted_range
from eddyline.joins.row_numbers import RowNumbers, room_of
from eddyline.model import Expression

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
# a column of the stream, or a key that is none and has to be compared because it is hashed
ColumnName = str | Expression

_MARKS = ("arrival", "position", "time_us", "version", "now_us")


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of one stream, of one round, in order of arrival, and what a join has to know of each."""

    rows: pa.RecordBatch
    arrival: Ints
    position: Ints  # among the rows of its stream
    time_us: Ints  # event time; model.NO_TIME where there is none
    version: Ints  # of the catalog in its round
    now_us: Ints  # of its round
    wants: Words  # [row, word]: a bit for every input of a signature that wants it

    def __len__(self) -> int:
        return int(self.rows.num_rows)


class StemRows:
    """The arrays of a stem: marks, `wants` and columns, indexed by row, counted from the first.

    Invariant: every array has `numbers.room`, and the rows of the stem at `numbers.span`.
    """

    def __init__(self, numbers: RowNumbers) -> None:
        self._numbers = numbers
        self._marks = np.empty((len(_MARKS), numbers.room), np.int64)
        self._wants = np.empty((numbers.room, 1), np.uint64)
        self._columns: dict[ColumnName, StoredColumn] = {}

    # ------------------------------------------------------------------------------------------- reading

    @property
    def arrival(self) -> Ints:
        return self._marks[0, self._numbers.span]

    @property
    def position(self) -> Ints:
        return self._marks[1, self._numbers.span]

    @property
    def time_us(self) -> Ints:
        return self._marks[2, self._numbers.span]

    @property
    def version(self) -> Ints:
        return self._marks[3, self._numbers.span]

    @property
    def now_us(self) -> Ints:
        return self._marks[4, self._numbers.span]

    @property
    def wants(self) -> Words:
        return self._wants[self._numbers.span]

    def take(self, rows: Ints, columns: Iterable[ColumnName]) -> list[pa.Array]:
        """These columns of some rows, in this order."""
        start = self._numbers.first - self._numbers.origin
        return [self._columns[name].take(rows, start) for name in columns]

    def has_column(self, name: ColumnName) -> bool:
        return name in self._columns

    @property
    def n_columns(self) -> int:
        return len(self._columns)

    @property
    def nbytes(self) -> int:
        """Of all arrays, with the room they have."""
        columns = sum(column.nbytes for column in self._columns.values())
        return int(self._marks.nbytes + self._wants.nbytes + columns)

    # ------------------------------------------------------------------------------------------- writing

    def set_columns(self, types: Mapping[ColumnName, pa.DataType]) -> None:
        """Have these columns and no others. A new one is NULL on rows already held; one of another type is cast."""
        old_columns = self._columns
        self._columns = {}
        for name, t in types.items():
            column = old_columns.get(name)
            if column is None or column.type != t:
                column = self._new_column(t, column)
            self._columns[name] = column

    def _new_column(self, t: pa.DataType, before: StoredColumn | None) -> StoredColumn:
        """A column as it has to be now, given what it was."""
        column = column_of(t, self._numbers.room)
        n = self._numbers.end - self._numbers.origin
        column.append(0, pa.nulls(n, t) if before is None else before.take(np.arange(n)).cast(t))
        return column

    def append(self, stored: StoredRows, columns: Mapping[str, pa.Array], names: Sequence[str]) -> None:
        """Store these rows behind the last one, with the columns of these names."""
        n = len(stored)
        at = self._reserve(n)
        marks = self._marks[:, at : at + n]
        marks[0], marks[1], marks[2] = stored.arrival, stored.position, stored.time_us
        marks[3], marks[4] = stored.version, stored.now_us
        self._write_wants(at, stored.wants)
        for name in names:
            self._write(name, at, columns[name])
        self._numbers.extend(n)

    def write_column(self, name: ColumnName, row: int, values: pa.Array) -> None:
        """Store the values of one column of rows that have been appended, from the one numbered `row` on."""
        self._write(name, row - self._numbers.origin, values)

    def _write(self, name: ColumnName, at: int, values: pa.Array) -> None:
        column = self._columns[name]
        assert values.type == column.type, f"{name} is {values.type}, not {column.type}"
        column.append(at, values)

    def _write_wants(self, at: int, wants: Words) -> None:
        n, n_words = wants.shape
        if n_words > self._wants.shape[1]:
            grown = np.zeros((self._numbers.room, n_words), np.uint64)
            grown[:, : self._wants.shape[1]] = self._wants
            self._wants = grown
        self._wants[at : at + n, :n_words] = wants
        if n_words < self._wants.shape[1]:
            self._wants[at : at + n, n_words:] = 0

    # ------------------------------------------------------------------------------------------- room

    def _reserve(self, n: int) -> int:
        """Make room for rows behind the last one; returns where in the arrays."""
        numbers = self._numbers
        if numbers.end + n - numbers.origin > numbers.room:
            self._move(numbers.end - numbers.first + n)
        return numbers.end - numbers.origin

    def shrink(self) -> None:
        """Give room back if the rows need little of it."""
        if self._numbers.has_spare_room:
            self._move(len(self._numbers))

    def _move(self, n_rows: int) -> None:
        """Let the rows begin where the arrays begin, with room for so many and some more."""
        numbers = self._numbers
        span, room = numbers.span, numbers.room_for(n_rows)
        start, end = span.start, span.stop
        if room == numbers.room:
            for mark in self._marks:
                shifted_range(mark, start, end, room)
        else:
            marks = np.empty((len(_MARKS), room), np.int64)
            marks[:, : end - start] = self._marks[:, start:end]
            self._marks = marks
        self._wants = shifted_range(self._wants, start, end, room)
        for column in self._columns.values():
            column.move(start, end, room)
        numbers.move(room)

    def close_holes(self) -> None:
        """Move the rows that are present together, to the beginning of the arrays."""
        numbers = self._numbers
        rows = numbers.every_row() + (numbers.first - numbers.origin)
        room = room_of(len(rows))
        marks = np.empty((len(_MARKS), room), np.int64)
        marks[:, : len(rows)] = self._marks[:, rows]
        self._marks = marks
        self._wants = gathered_rows(self._wants, rows, room)
        for column in self._columns.values():
            column.keep(rows, room)
        numbers.close_holes(room)
