"""What a table holds, by row number: columns in few large chunks, marks in arrays that grow.

Chunks are merged as they come, a chunk with the one before it while that is not twice as large, so that n rows lie in about
log n chunks and each row is copied about log n times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.joins.probe_matches import Ints, Mask

MOST_MERGED = 1 << 29  # bytes: texts of a chunk are addressed by 32 bits
_LEAST = 64

_Item = TypeVar("_Item", bound=np.generic)


class GrowingArray(Generic[_Item]):
    """An array that grows at its end, with room ahead."""

    def __init__(self, dtype: type[_Item]) -> None:
        self._room: npt.NDArray[_Item] = np.empty(_LEAST, dtype)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def values(self) -> npt.NDArray[_Item]:
        """All of them; a view, which holds until it grows."""
        return self._room[: self._n]

    @property
    def nbytes(self) -> int:
        return int(self._room.nbytes)

    def extend(self, values: npt.NDArray[Any]) -> None:
        self.resize(self._n + len(values))
        self._room[self._n - len(values) : self._n] = values

    def resize(self, n: int) -> None:
        """Drop the last values, or add some, which may be anything."""
        if n > len(self._room):
            room = np.empty(max(n, 2 * len(self._room)), self._room.dtype)
            room[: self._n] = self._room[: self._n]
            self._room = room
        self._n = n

    def replace(self, values: npt.NDArray[Any]) -> None:
        """Hold these and nothing else."""
        self._room = np.empty(max(_LEAST, len(values)), self._room.dtype)
        self._n = 0
        self.extend(values)


class HeldRows:
    """Columns of rows that are numbered in the order they come."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._chunks: list[pa.RecordBatch] = []
        self._ends = np.empty(0, np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @property
    def nbytes(self) -> int:
        return sum(int(chunk.nbytes) for chunk in self._chunks)

    def append(self, rows: pa.RecordBatch) -> None:
        assert rows.schema.names == self.schema.names, f"{rows.schema.names} for {self.schema.names}"
        if not rows.num_rows:
            return
        self._chunks.append(pa.RecordBatch.from_arrays(rows.columns, schema=self.schema))
        while len(self._chunks) > 1 and self._is_merged(*self._chunks[-2:]):
            self._chunks[-2:] = [pa.concat_batches(self._chunks[-2:])]
        self._number()

    def take(self, rows: Ints, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """These columns, or all, of the rows with these numbers, in this order. A column at least."""
        names = self.schema.names if columns is None else list(columns)
        pieces, places = [], []
        of = np.searchsorted(self._ends, rows, side="right")
        for k, chunk in enumerate(self._chunks):
            at = np.flatnonzero(of == k)
            if len(at):
                start = self._ends[k] - chunk.num_rows
                pieces.append(chunk.select(names).take(pa.array(rows[at] - start)))
                places.append(at)
        if not pieces:
            fields = [self.schema.field(name) for name in names]
            return pa.RecordBatch.from_arrays(
                [pa.array([], f.type) for f in fields], schema=pa.schema(fields)
            )
        if len(pieces) == 1:
            return pieces[0]
        return pa.concat_batches(pieces).take(pa.array(np.argsort(np.concatenate(places))))

    def pieces(self) -> Sequence[pa.RecordBatch]:
        """All rows in the order of their numbers."""
        return tuple(self._chunks)

    def truncate(self, n: int) -> None:
        """Remove the rows that have numbers from `n` on."""
        starts = self._ends - [chunk.num_rows for chunk in self._chunks]
        self._chunks = [
            chunk.slice(0, n - int(start))
            for chunk, start in zip(self._chunks, starts, strict=True)
            if start < n
        ]
        self._number()

    def keep(self, is_kept: Mask) -> None:
        """Remove the other rows; those that stay are numbered anew, in the same order."""
        new_rows, start = HeldRows(self.schema), 0
        for chunk in self._chunks:
            new_rows.append(chunk.filter(pa.array(is_kept[start : start + chunk.num_rows])))
            start += chunk.num_rows
        self._chunks, self._ends = new_rows._chunks, new_rows._ends

    def reshape(self, schema: pa.Schema) -> None:
        """Have these columns; one that is new is NULL."""
        chunks = []
        for chunk in self._chunks:
            n, names = chunk.num_rows, set(chunk.schema.names)
            columns = [
                chunk.column(f.name).cast(f.type) if f.name in names else pa.nulls(n, f.type) for f in schema
            ]
            chunks.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        self._chunks, self.schema = chunks, schema

    def _is_merged(self, before: pa.RecordBatch, last: pa.RecordBatch) -> bool:
        return before.num_rows < 2 * last.num_rows and before.nbytes + last.nbytes <= MOST_MERGED

    def _number(self) -> None:
        self._ends = np.cumsum([chunk.num_rows for chunk in self._chunks], dtype=np.int64)
