"""Rows of a class that are kept whole, by number: those that pass a temporal filter, or will.

They lie in chunks, each at least twice as long as the one behind it, so that a new row is copied O(log n) times. Numbers go up
with every row, until half of the rows have left: then the others are packed and numbered anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eddyline.aggregates.rows import ClassRows, Ints, Mask

FEW = 1024  # rows that have left and are not worth packing for
NOWHERE = -1
_NOTHING = np.empty(0, np.int64)


@dataclass(slots=True)
class _Chunk:
    rows: ClassRows
    ids: Ints  # that saved rows are known by, ascending
    by_arrival: Ints | None = None  # places in the order of arrival numbers, once they are asked for

    def find(self, arrivals: Ints) -> tuple[Ints, Ints]:
        """Of each arrival number the first place, and how many there are."""
        if self.by_arrival is None:
            self.by_arrival = np.argsort(self.rows.arrival, kind="stable")
        ascending = self.rows.arrival[self.by_arrival]
        first = np.searchsorted(ascending, arrivals, side="left")
        n = np.searchsorted(ascending, arrivals, side="right") - first
        return self.by_arrival[np.minimum(first, len(ascending) - 1)], n


@dataclass(slots=True)
class KeptRows:
    """Rows by number. What is added can be undone until a round commits."""

    n: int = 0  # numbers that were given
    n_live: int = 0
    _chunks: list[_Chunk] = field(default_factory=list)
    _is_live: Mask = field(default_factory=lambda: np.zeros(0, dtype=bool))  # by number
    _next_id: int = 0
    _undo: tuple[list[_Chunk], int, int, int] = ([], 0, 0, 0)

    def begin(self) -> None:
        """What is added from here on can be undone."""
        self._undo = (list(self._chunks), self.n, self.n_live, self._next_id)

    def append(self, rows: ClassRows, ids: Ints | None = None) -> Ints:
        """Keep rows; returns their numbers."""
        if not len(rows):
            return _NOTHING
        if ids is None:
            ids = np.arange(self._next_id, self._next_id + len(rows))
        self._next_id = max(self._next_id, int(ids[-1]) + 1)
        numbers = np.arange(self.n, self.n + len(rows))
        self._chunks.append(_Chunk(rows, ids))
        while len(self._chunks) > 1 and len(self._chunks[-2].ids) < 2 * len(self._chunks[-1].ids):
            self._chunks[-2:] = [_joined_chunks(self._chunks[-2:])]
        self.n += len(rows)
        self.n_live += len(rows)
        if self.n > len(self._is_live):
            longer = np.zeros(max(self.n, 2 * len(self._is_live)), dtype=bool)
            longer[: len(self._is_live)] = self._is_live
            self._is_live = longer
        self._is_live[numbers] = True
        return numbers

    def remove(self, numbers: Ints) -> None:
        """These leave; they cannot come back."""
        self.n_live -= int(self._is_live[numbers].sum())
        self._is_live[numbers] = False

    def rollback(self) -> None:
        self._is_live[self._undo[1] : self.n] = False
        self._chunks, self.n, self.n_live, self._next_id = self._undo

    @property
    def live(self) -> Ints:
        return np.flatnonzero(self._is_live[: self.n])

    @property
    def is_sparse(self) -> bool:
        """Whether packing pays."""
        return self.n > 2 * self.n_live + FEW

    def pack(self) -> Ints:
        """Number the rows that are there from 0 on; returns the numbers they had."""
        live = self.live
        rows, ids = self.take(live)
        self._chunks = [_Chunk(rows, ids)] if len(ids) else []
        self.n = len(live)
        self._is_live = np.ones(len(live), dtype=bool)
        return live

    def take(self, numbers: Ints) -> tuple[ClassRows, Ints]:
        """Rows by their numbers, ascending, and their ids."""
        parts, first = [], 0
        for chunk in self._chunks:
            begin, end = np.searchsorted(numbers, (first, first + len(chunk.ids)))
            if begin < end:
                places = numbers[begin:end] - first
                parts.append(_Chunk(chunk.rows.take(places), chunk.ids[places]))
            first += len(chunk.ids)
        if not parts:
            return no_rows(self._chunks[0].rows.columns.schema if self._chunks else pa.schema([])), _NOTHING
        chunk = _joined_chunks(parts)
        return chunk.rows, chunk.ids

    def find(self, arrivals: Ints) -> Ints:
        """The row that came with each arrival number, NOWHERE if none is there or several came with it."""
        found, n_found = np.full(len(arrivals), NOWHERE), np.zeros(len(arrivals), np.int64)
        first = 0
        for chunk in self._chunks:
            place, n = chunk.find(arrivals)
            found[n > 0] = first + place[n > 0]
            n_found += n
            first += len(chunk.ids)
        there = np.flatnonzero(n_found == 1)
        there = there[self._is_live[found[there]]]
        single = np.full(len(arrivals), NOWHERE)
        single[there] = found[there]
        return single

    @property
    def nbytes(self) -> int:
        return int(
            self._is_live.nbytes + sum(_nbytes(chunk.rows) + chunk.ids.nbytes for chunk in self._chunks)
        )

    def check(self) -> None:
        """Assert that numbers, chunks and counts agree."""
        assert self.n == sum(len(chunk.ids) for chunk in self._chunks), f"{self.n} numbers"
        assert self.n_live == len(self.live), f"{self.n_live} rows are counted, {len(self.live)} there"
        ids = np.concatenate([_NOTHING, *(chunk.ids for chunk in self._chunks)])
        assert (np.diff(ids) > 0).all(), "ids do not ascend"


def joined_rows(parts: Sequence[ClassRows]) -> ClassRows:
    """Rows one behind the other; a column that some of them do not have is NULL there."""
    if len(parts) == 1:
        return parts[0]
    table = pa.concat_tables([pa.table(part.columns) for part in parts], promote_options="default")
    batches = table.combine_chunks().to_batches()
    return ClassRows(
        batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema),
        np.concatenate([part.time_us for part in parts]),
        np.concatenate([part.arrival for part in parts]),
        np.concatenate([part.sign for part in parts]),
        np.concatenate([part.is_late for part in parts]),
        np.concatenate([part.epoch for part in parts]),
    )


def no_rows(schema: pa.Schema) -> ClassRows:
    columns = pa.RecordBatch.from_pylist([], schema=schema)
    none = np.empty(0, np.int64)
    return ClassRows(columns, none, none, none.astype(np.int8), none.astype(bool), none)


def _joined_chunks(chunks: Sequence[_Chunk]) -> _Chunk:
    return _Chunk(joined_rows([c.rows for c in chunks]), np.concatenate([c.ids for c in chunks]))


def _nbytes(rows: ClassRows) -> int:
    arrays = (rows.time_us, rows.arrival, rows.sign, rows.is_late, rows.epoch)
    return int(rows.columns.nbytes) + sum(array.nbytes for array in arrays)
