"""The last rows of a stream, so that a query can be asked why it did not match them."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch


class RecentRows:
    """Whole batches, newest last, as few as hold `n_rows` rows, within `max_bytes`."""

    def __init__(self, n_rows: int, max_bytes: int) -> None:
        self._capacity = n_rows
        self._max_bytes = max_bytes
        self._batches: deque[tuple[int, TupleBatch]] = deque()  # catalog version of the round, rows
        self._n_rows = 0
        self._nbytes = 0

    def __len__(self) -> int:
        return self._n_rows

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def append(self, version: int, batch: TupleBatch) -> None:
        self._batches.append((version, batch))
        self._n_rows += len(batch)
        self._nbytes += batch.nbytes
        while len(self._batches) > 1 and (
            self._n_rows - len(self._batches[0][1]) >= self._capacity or self._nbytes > self._max_bytes
        ):
            _, oldest = self._batches.popleft()
            self._n_rows -= len(oldest)
            self._nbytes -= oldest.nbytes

    def last(self, n_rows: int, schema: pa.Schema, *, since_version: int = 0) -> pa.RecordBatch:
        """The newest rows of rounds from `since_version` on, oldest first, in the stream's schema of now."""
        return self.last_marked(n_rows, schema, since_version=since_version)[0]

    def last_marked(
        self, n_rows: int, schema: pa.Schema, *, since_version: int = 0
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_]]:
        """The same, and which of them were late when they came."""
        newest_batches: list[pa.RecordBatch] = []
        marks: list[npt.NDArray[np.bool_]] = []
        for version, batch in reversed(self._batches):
            if n_rows <= 0 or version < since_version:
                break
            first = max(0, len(batch) - n_rows)
            rows = batch.rows.slice(first)
            newest_batches.append(_in_schema(rows, schema))
            marks.append(batch.is_late[first:])
            n_rows -= rows.num_rows
        if not newest_batches:
            return _empty(schema), np.zeros(0, dtype=bool)
        return pa.concat_batches(newest_batches[::-1]), np.concatenate(marks[::-1])


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _in_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows from before a column was added have NULL there."""
    if rows.schema.equals(schema):
        return rows
    names = set(rows.schema.names)
    columns = [rows.column(f.name) if f.name in names else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
