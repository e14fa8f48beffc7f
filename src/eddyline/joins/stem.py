"""SteM: the rows of one stream that joins may still meet, each kept once, with an index for every key they are asked by.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: state modules,
which all queries share. Only rows of the stream itself are stored, never combinations.

Rows are built in the course of a round and probed at once; a round that fails is rolled back. Rows are purged between rounds.

Row k of a stem is the one numbered `first + k` since the stem began (row_numbers.py). Indexes (stem_indexes.py) know rows by that
number, so they do not change when the oldest rows leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.joins.ordered_index import RangeMatches
from eddyline.joins.probe_matches import Evaluate, Ints, Key, Mask, ProbeMatches
from eddyline.joins.row_numbers import RowNumbers
from eddyline.joins.stem_indexes import StemIndexes
from eddyline.joins.stem_rows import StemRows, StoredRows
from eddyline.model import Expression


class Stem:
    """The stored rows of a stream, found by keys.

    Rows are counted from 0 on in order of arrival, and the marks and columns in `rows` are indexed by these counts. They hold
    until the next build, rollback or purge. Some may be absent: `numbers.every_row` gives those that are present, and `probe`
    finds no others.
    """

    def __init__(self, schema: pa.Schema, evaluate: Evaluate, *, bucket_bits: int | None = None) -> None:
        self.schema = schema
        self.numbers = RowNumbers()
        self.rows = StemRows(self.numbers)
        self._names: tuple[str, ...] = ()  # of the columns that the schema has
        self._indexes = StemIndexes(self.numbers, self.rows, self._batch, evaluate, bucket_bits)
        self._fit_columns()

    @property
    def n_rows(self) -> int:
        """Rows that are present."""
        return self.numbers.n_rows

    # ------------------------------------------------------------------------------------------- columns and keys

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys it can be probed by."""
        return self._indexes.keys

    def set_keys(self, keys: Iterable[Key]) -> None:
        """Have an index for each of these keys and no others. New ones are built over the rows held. Between rounds."""
        self.numbers.assert_committed("keys are set")
        added = self._indexes.set_keys(keys)
        self._fit_columns()
        if added and len(self.numbers):
            self._indexes.fill(added)

    def set_orders(self, expressions: Iterable[Expression]) -> None:
        """Have an ordered index for each of these and no others, over the rows held too. Between rounds."""
        self.numbers.assert_committed("orders are set")
        self._indexes.set_orders(expressions)

    def reshape(self, schema: pa.Schema) -> None:
        """Keep these columns from now on; those that are new are NULL on rows already held. Between rounds.

        A column that leaves is kept while an index needs it, until `set_keys` drops that.
        """
        self.numbers.assert_committed("columns are chosen")
        if schema.equals(self.schema):
            return
        self.schema = schema
        self._fit_columns()

    def _fit_columns(self) -> None:
        """Have the columns that the schema names and those that indexes need to compare values, and no others."""
        types = self._indexes.columns() | {field.name: field.type for field in self.schema}
        self._names = tuple(self.schema.names)
        self._indexes.own_columns = types.keys() - set(self._names)
        self.rows.set_columns(types)

    def _batch(self, rows: Ints) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self.rows.take(rows, self._names), schema=self.schema)

    # ------------------------------------------------------------------------------------------- rounds

    def build(self, stored: StoredRows) -> None:
        """Keep these rows: probes find them at once, and `rollback` removes them."""
        if not len(stored):
            return
        columns = dict(zip(stored.rows.schema.names, stored.rows.columns, strict=True))
        start = self.numbers.end
        self.rows.append(stored, columns, self._names)
        self._indexes.add(stored.rows, columns, start)

    def commit(self) -> None:
        """What was built stays."""
        self.numbers.commit()
        self._indexes.tidy()

    def rollback(self) -> None:
        """As if nothing had been built since the last commit."""
        if self.numbers.end > self.numbers.committed_end:
            self.numbers.rollback()
            self._indexes.undo()

    def probe(self, key: Key, arrays: Sequence[pa.Array]) -> ProbeMatches:
        """The rows whose key equals that of a row of these columns; those of one probe in no particular order."""
        return self._indexes.find(key, arrays)

    def probe_some(
        self, key: Key, arrays: Sequence[pa.Array], *, n_skipped: int, most: int
    ) -> tuple[ProbeMatches, Mask]:
        """Like `probe`, at most so many rows of each probe, the newest first, behind those that are skipped.

        Also for which probes there may be more.
        """
        return self._indexes.find_some(key, arrays, n_skipped=n_skipped, most=most)

    def probe_range(self, key: Expression, bounds: Sequence[tuple[str, pa.Array]]) -> RangeMatches:
        """Where rows are of which an expression is within bounds; the operator stands between it and the values."""
        return self._indexes.find_range(key, bounds)

    # ------------------------------------------------------------------------------------------- rows that leave

    def purge(self, is_kept: Mask) -> int:
        """Remove rows, given for every number whether its row stays; returns how many left. Between rounds, after the commit."""
        self.numbers.assert_committed("rows are purged")
        n = len(self.numbers)
        assert len(is_kept) == n, f"{n} rows, and {len(is_kept)} words on them"
        n_before = self.n_rows
        n_oldest = int(np.argmax(is_kept)) if is_kept.any() else n
        self.numbers.drop_oldest(n_oldest)
        if not is_kept[n_oldest:].all():
            self.numbers.make_holes(is_kept[n_oldest:])
        self._settle()
        return n_before - self.n_rows

    def drop_oldest(self, n_numbers: int) -> int:
        """Remove the rows of the first so many numbers, however many are held, in little time; otherwise like `purge`."""
        self.numbers.assert_committed("rows are dropped")
        assert n_numbers >= 0, n_numbers
        n_before = self.n_rows
        self.numbers.drop_oldest(min(n_numbers, len(self.numbers)))
        self._settle()
        return n_before - self.n_rows

    def _settle(self) -> None:
        """Close holes and give room back if it pays, and let indexes forget."""
        if self.numbers.has_many_holes:
            self._close_holes()
        self.numbers.release_mask()
        self.rows.shrink()
        self._indexes.tidy()

    def _close_holes(self) -> None:
        present = self.numbers.every_row()
        new_numbers = np.full(len(self.numbers), -1, np.int64)
        new_numbers[present] = self.numbers.first + np.arange(len(present))
        self._indexes.renumber(new_numbers)
        self.rows.close_holes()

    # ------------------------------------------------------------------------------------------- to look at

    @property
    def nbytes(self) -> int:
        """Of all arrays, with the room they have."""
        return self.rows.nbytes + self.numbers.nbytes + int(self._indexes.nbytes)

    def snapshot(self) -> dict[str, Any]:
        """What it holds, for explain and the dashboard."""
        return {
            "rows": self.n_rows,
            "nbytes": self.nbytes,
            "keys": len(self.keys),
            "columns": self.rows.n_columns,
            "segments": self._indexes.n_segments,
            "index_nbytes": self._indexes.nbytes,
        }

    def check(self) -> None:
        """Assert that rows are where they should be, and every index has all of them whose key is not NULL."""
        self.numbers.check()
        # rows of a view over a join may share the number of their latest component
        assert (np.diff(self.rows.arrival) >= 0).all(), "rows are not in order of arrival"
        self._indexes.check()
