"""SteM: the rows of one stream that joins may still meet, each kept once, with an index for every key they are asked by.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: state modules,
which all queries share. Only rows of the stream itself are stored, never combinations.

Rows are built in the course of a round and probed at once; a round that fails is rolled back. Rows are purged between rounds.
Most often the oldest leave, which only moves where the rows begin. Others leave holes, which are closed at once in a small stem,
and in a large one when they are a quarter of it.

Row k of a stem is the one numbered `_first + k` since the stem began. Indexes know rows by that number, so they do not change
when the oldest rows leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.joins.key_index import KeyIndex, PresentRows
from eddyline.joins.keys import can_be_hashed, codes_of, same
from eddyline.joins.payload import StoredColumn, column_of, gathered_rows, shifted_range
from eddyline.model import Column as ColumnOf
from eddyline.model import Expression

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Key = tuple[Expression, ...]
Evaluate = Callable[[Expression, pa.RecordBatch], pa.Array]

SMALL_ROWS = 4_096  # a stem of so many rows or fewer has no holes
MOST_HOLES = 0.25  # of the rows of a larger one
LEAST_ROOM = 256  # rows
MARGIN = 1.25  # room, in terms of rows held
INDEXED_AT_ONCE = 65_536  # rows, when an index is added to a stem
_MARKS = ("arrival", "position", "time_us", "version", "now_us")
_NO_HOLES = np.empty(0, dtype=bool)


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


@dataclass(frozen=True, slots=True)
class ProbeMatches:
    """Pairs: row `rows[k]` of the stem has the key of row `probes[k]` of what it was asked with."""

    probes: Ints  # ascending
    rows: Ints

    def __len__(self) -> int:
        return len(self.probes)


class Stem:
    """The stored rows of a stream.

    Rows are numbered from 0 on in order of arrival, and `arrival` and the other marks are indexed by these numbers. They hold
    until the next build, rollback or purge. The row of a number may be gone: `every_row` gives those that are there, and `probe`
    finds no others.
    """

    def __init__(self, schema: pa.Schema, evaluate: Evaluate, *, bucket_bits: int | None = None) -> None:
        self.schema = schema
        self._names: tuple[str, ...] = ()  # of its columns
        self._evaluate = evaluate
        self._bucket_bits = bucket_bits  # of its indexes; None: by their size
        self._indexes: dict[Key, KeyIndex] = {}
        self._room = LEAST_ROOM  # rows in the arrays
        self._origin = 0  # the row at their beginning, as it is numbered since the stem began
        self._first = 0  # the first row that may be there
        self._end = 0  # behind the last row
        self._committed_end = 0  # behind the last row of a committed round
        self._n_holes = 0  # rows from `_first` on that are gone
        self._is_present = _NO_HOLES  # as many as there is room for, once there is a hole
        self._marks = np.empty((len(_MARKS), self._room), np.int64)
        self._wants = np.empty((self._room, 1), np.uint64)
        # by name; the values of a key that is no column, and has to be compared because it is hashed, by its expression
        self._columns: dict[str | Expression, StoredColumn] = {}
        self._for_keys: Set[str | Expression] = frozenset()  # those that the schema does not name
        self._fit_columns()

    # ------------------------------------------------------------------------------------------- marks

    @property
    def n_rows(self) -> int:
        """Rows that are there."""
        return self._end - self._first - self._n_holes

    @property
    def arrival(self) -> Ints:
        return self._mark(0)

    @property
    def position(self) -> Ints:
        return self._mark(1)

    @property
    def time_us(self) -> Ints:
        return self._mark(2)

    @property
    def version(self) -> Ints:
        return self._mark(3)

    @property
    def now_us(self) -> Ints:
        return self._mark(4)

    @property
    def wants(self) -> Words:
        return self._wants[self._first - self._origin : self._end - self._origin]

    def _mark(self, which: int) -> Ints:
        return self._marks[which, self._first - self._origin : self._end - self._origin]

    def every_row(self) -> Ints:
        """The numbers of all rows that are there, ascending."""
        if not self._n_holes:
            return np.arange(self._end - self._first)
        return np.flatnonzero(self._is_present[self._first - self._origin : self._end - self._origin])

    # ------------------------------------------------------------------------------------------- what is kept

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys it can be probed by."""
        return tuple(self._indexes)

    def set_keys(self, keys: Iterable[Key]) -> None:
        """Have an index for each of these keys and no others. New ones are built over the rows held. Between rounds."""
        self._assert_committed("keys are set")
        wanted = dict.fromkeys(keys)
        self._indexes = {key: index for key, index in self._indexes.items() if key in wanted}
        added = [key for key in wanted if key not in self._indexes]
        self._indexes.update({key: KeyIndex(bucket_bits=self._bucket_bits) for key in added})
        self._fit_columns()
        if added and self._end > self._first:
            self._index_present(added)

    def reshape(self, schema: pa.Schema) -> None:
        """Keep these columns from now on; those that are new are NULL on rows already held. Between rounds.

        A column that leaves is kept while an index needs it, until `set_keys` drops that.
        """
        self._assert_committed("columns are chosen")
        if schema.equals(self.schema):
            return
        self.schema = schema
        self._fit_columns()

    def _fit_columns(self) -> None:
        """Have the columns that the schema names and those that indexes need to compare values, and no others."""
        needed: dict[str | Expression, pa.DataType] = {field.name: field.type for field in self.schema}
        for key in self._indexes:
            is_compared = can_be_hashed([expression.type for expression in key])
            for expression in key:
                if is_compared or isinstance(expression, ColumnOf):
                    needed.setdefault(_name(expression), expression.type)
        self._names = tuple(self.schema.names)
        self._for_keys = needed.keys() - set(self._names)
        held = self._columns
        self._columns = {}
        for name, t in needed.items():
            column = held.get(name)
            if column is None or column.type != t:
                column = self._new_column(t, column)
            self._columns[name] = column

    def _new_column(self, t: pa.DataType, before: StoredColumn | None) -> StoredColumn:
        """A column as it has to be now, given what it was."""
        column = column_of(t, self._room)
        n = self._end - self._origin
        column.append(0, pa.nulls(n, t) if before is None else before.take(np.arange(n)).cast(t))
        return column

    def _index_present(self, keys: Sequence[Key]) -> None:
        for start in range(self._first, self._end, INDEXED_AT_ONCE):
            end = min(start + INDEXED_AT_ONCE, self._end)
            rows = np.arange(start - self._first, end - self._first)
            batch = self._batch(rows)
            given = dict(zip(self._names, batch.columns, strict=True))
            for key in keys:
                self._index(key, batch, given, start)
        for key in keys:
            self._indexes[key].tidy(self._present_rows)

    def _value(self, expression: Expression, rows: Ints) -> pa.Array:
        """A part of a key, of rows held."""
        column = self._columns.get(_name(expression))
        if column is None:
            return self._evaluate(expression, self._batch(rows))
        return column.take(rows, self._first - self._origin)

    def _batch(self, rows: Ints) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self.take(rows, self._names), schema=self.schema)

    # ------------------------------------------------------------------------------------------- rounds

    def build(self, stored: StoredRows) -> None:
        """Keep these rows: probes find them at once, and `rollback` lets them go."""
        n = len(stored)
        if not n:
            return
        at = self._reserve(n)
        marks = self._marks[:, at : at + n]
        marks[0], marks[1], marks[2] = stored.arrival, stored.position, stored.time_us
        marks[3], marks[4] = stored.version, stored.now_us
        self._want(at, stored.wants)
        if len(self._is_present):
            self._is_present[at : at + n] = True
        given = dict(zip(stored.rows.schema.names, stored.rows.columns, strict=True))
        for name in self._names:
            self._append(name, at, given[name])
        start = self._end
        self._end += n
        for key in self._indexes:
            self._index(key, stored.rows, given, start)

    def _index(self, key: Key, rows: pa.RecordBatch, columns: Mapping[str, pa.Array], start: int) -> None:
        """Let these rows, numbered from `start` on, be found by a key; `given` are their columns."""
        arrays = [
            columns[expression.name] if isinstance(expression, ColumnOf) else self._evaluate(expression, rows)
            for expression in key
        ]
        if self._for_keys:
            for expression, array in zip(key, arrays, strict=True):
                if _name(expression) in self._for_keys:
                    self._append(_name(expression), start - self._origin, array)
        self._indexes[key].insert(codes_of(arrays), start)

    def _append(self, name: str | Expression, at: int, values: pa.Array) -> None:
        column = self._columns[name]
        assert values.type == column.type, f"{name} is {values.type}, not {column.type}"
        column.append(at, values)

    def _want(self, at: int, wants: Words) -> None:
        n, n_words = wants.shape
        if n_words > self._wants.shape[1]:
            grown = np.zeros((self._room, n_words), np.uint64)
            grown[:, : self._wants.shape[1]] = self._wants
            self._wants = grown
        self._wants[at : at + n, :n_words] = wants
        if n_words < self._wants.shape[1]:
            self._wants[at : at + n, n_words:] = 0

    def commit(self) -> None:
        """What was built stays."""
        self._committed_end = self._end
        for index in self._indexes.values():
            index.tidy(self._present_rows)

    def rollback(self) -> None:
        """As if nothing had been built since the last commit."""
        if self._end > self._committed_end:
            self._end = self._committed_end
            for index in self._indexes.values():
                index.undo(self._end)

    def _assert_committed(self, what: str) -> None:
        assert self._committed_end == self._end, (
            f"{what} while {self._end - self._committed_end} rows are uncommitted"
        )

    # ------------------------------------------------------------------------------------------- asking

    @property
    def _present_rows(self) -> PresentRows:
        return PresentRows(self._first, self._is_present if self._n_holes else _NO_HOLES, self._origin)

    def probe(self, key: Key, arrays: Sequence[pa.Array]) -> ProbeMatches:
        """The rows whose key equals that of a row of these columns; those of one probe in no particular order."""
        codes = codes_of(arrays)
        probes, rows = self._indexes[key].find(codes, self._present_rows)
        if not codes.is_exact and len(rows):
            values = [self._value(expression, rows) for expression in key]
            is_same = same(arrays, probes, values, np.arange(len(rows)))
            if not is_same.all():
                probes, rows = probes[is_same], rows[is_same]
        return ProbeMatches(probes, rows)

    def take(self, rows: Ints, columns: Sequence[str]) -> list[pa.Array]:
        """These columns of the rows with these numbers, in this order."""
        start = self._first - self._origin
        return [self._columns[name].take(rows, start) for name in columns]

    # ------------------------------------------------------------------------------------------- leaving

    def purge(self, is_kept: Mask) -> int:
        """Let rows go, given for every number whether its row stays; returns how many went. Between rounds, after the commit."""
        self._assert_committed("rows are purged")
        n = self._end - self._first
        assert len(is_kept) == n, f"{n} rows, and {len(is_kept)} words on them"
        n_before = self.n_rows
        n_oldest = int(np.argmax(is_kept)) if is_kept.any() else n
        self._leave(n_oldest)
        if not is_kept[n_oldest:].all():
            self._make_holes(is_kept[n_oldest:])
        self._settle()
        return n_before - self.n_rows

    def drop_oldest(self, n_numbers: int) -> int:
        """Let the rows of the first so many numbers go, however many are held, in little time; otherwise like `purge`."""
        self._assert_committed("rows are dropped")
        assert n_numbers >= 0, n_numbers
        n_before = self.n_rows
        self._leave(min(n_numbers, self._end - self._first))
        self._settle()
        return n_before - self.n_rows

    def _leave(self, n_oldest: int) -> None:
        if self._n_holes:
            at = self._first - self._origin
            self._n_holes -= n_oldest - int(np.count_nonzero(self._is_present[at : at + n_oldest]))
        self._first += n_oldest

    def _make_holes(self, is_kept: Mask) -> None:
        if not self._n_holes:
            self._is_present = np.ones(self._room, dtype=bool)
        is_held = self._is_present[self._first - self._origin : self._end - self._origin]
        is_held &= is_kept
        self._n_holes = len(is_held) - int(np.count_nonzero(is_held))

    def _settle(self) -> None:
        """Close holes if it pays, and let indexes forget."""
        n_numbers = self._end - self._first
        if self._n_holes and (n_numbers <= SMALL_ROWS or self._n_holes > MOST_HOLES * n_numbers):
            self._close_holes()
        if not self._n_holes:
            self._is_present = _NO_HOLES
        if self._room > LEAST_ROOM and n_numbers < self._room // 4:
            self._move(self._end - self._first)
        for index in self._indexes.values():
            index.tidy(self._present_rows)

    def _close_holes(self) -> None:
        kept = self.every_row()
        numbers = np.full(self._end - self._first, -1, np.int64)
        numbers[kept] = self._first + np.arange(len(kept))
        for index in self._indexes.values():
            index.renumber(self._first, numbers)
        rows = kept + (self._first - self._origin)
        self._room = _room(len(rows))
        marks = np.empty((len(_MARKS), self._room), np.int64)
        marks[:, : len(rows)] = self._marks[:, rows]
        self._marks = marks
        self._wants = gathered_rows(self._wants, rows, self._room)
        for column in self._columns.values():
            column.keep(rows, self._room)
        self._origin = self._first
        self._end = self._committed_end = self._first + len(rows)
        self._n_holes = 0

    # ------------------------------------------------------------------------------------------- room

    def _reserve(self, n: int) -> int:
        """Make room for rows behind the last one; returns where in the arrays."""
        if self._end + n - self._origin > self._room:
            self._move(self._end - self._first + n)
        return self._end - self._origin

    def _move(self, n_rows: int) -> None:
        """Let the rows stand at the beginning of the arrays, with room for so many and some more."""
        start, end = self._first - self._origin, self._end - self._origin
        room = self._room if MARGIN * n_rows <= self._room < 4 * n_rows else _room(n_rows)
        if room == self._room:
            for mark in self._marks:
                shifted_range(mark, start, end, room)
        else:
            marks = np.empty((len(_MARKS), room), np.int64)
            marks[:, : end - start] = self._marks[:, start:end]
            self._marks = marks
        self._wants = shifted_range(self._wants, start, end, room)
        if len(self._is_present):
            self._is_present = shifted_range(self._is_present, start, end, room)
        for column in self._columns.values():
            column.move(start, end, room)
        self._room, self._origin = room, self._first

    # ------------------------------------------------------------------------------------------- looking

    @property
    def nbytes(self) -> int:
        """Of all arrays, with the room they have."""
        arrays = self._marks.nbytes + self._wants.nbytes + self._is_present.nbytes
        columns = sum(column.nbytes for column in self._columns.values())
        return int(arrays + columns + sum(index.nbytes for index in self._indexes.values()))

    def snapshot(self) -> dict[str, Any]:
        """What it holds, for explain and the dashboard."""
        return {
            "rows": self.n_rows,
            "nbytes": self.nbytes,
            "keys": len(self._indexes),
            "columns": len(self._columns),
            "segments": max((index.n_segments for index in self._indexes.values()), default=0),
            "index_nbytes": sum(index.nbytes for index in self._indexes.values()),
        }

    def check(self) -> None:
        """Assert that rows are where they should be, and every index has all of them whose key is not NULL."""
        assert self._origin <= self._first <= self._committed_end <= self._end <= self._origin + self._room
        assert (np.diff(self.arrival) > 0).all(), "rows are not in order of arrival"
        rows = self.every_row()
        assert len(rows) == self.n_rows, f"{len(rows)} rows are held, {self.n_rows} counted"
        assert self._n_holes == 0 or self._end - self._first > SMALL_ROWS, (
            f"{self._n_holes} holes in a small stem"
        )
        for key, index in self._indexes.items():
            index.check()
            codes = codes_of([self._value(expression, rows) for expression in key])
            is_found = np.zeros(len(rows), dtype=bool)
            probes, found = index.find(codes, self._present_rows)
            is_found[probes[found == rows[probes]]] = True
            n_null = 0 if codes.is_null is None else int(np.count_nonzero(codes.is_null))
            assert is_found.sum() == len(rows) - n_null, (
                f"{is_found.sum()} of {len(rows)} rows are found by {key}"
            )


def _name(expression: Expression) -> str | Expression:
    """Where the values of a key's expression are kept."""
    return expression.name if isinstance(expression, ColumnOf) else expression


def _room(n_rows: int) -> int:
    return max(int(MARGIN * n_rows), LEAST_ROOM)
