"""SteM: the rows of one stream that joins may still meet, each kept once, with an index for every key they are asked by.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: state modules,
which all queries share. Only rows of the stream itself are stored, never combinations.

Rows are built in the course of a round and probed at once; a round that fails is rolled back. Rows are purged between rounds.

Row k of a stem is the one numbered `first + k` since the stem began (row_numbers.py). Indexes know rows by that number, so they
do not change when the oldest rows leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.joins.key_index import KeyIndex
from eddyline.joins.keys import Codes, can_be_hashed, codes_of, same
from eddyline.joins.ordered_index import Bound, OrderedIndex, RangeMatches
from eddyline.joins.row_numbers import RowNumbers
from eddyline.joins.stem_rows import ColumnName, StemRows, StoredRows
from eddyline.model import Column as ColumnOf
from eddyline.model import Expression

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Key = tuple[Expression, ...]
Evaluate = Callable[[Expression, pa.RecordBatch], pa.Array]

INDEXED_AT_ONCE = 65_536  # rows, when an index is added to a stem


@dataclass(frozen=True, slots=True)
class ProbeMatches:
    """Pairs: row `rows[k]` of the stem has the key of row `probes[k]` of what it was asked with."""

    probes: Ints  # ascending
    rows: Ints
    n_shared: int = 0  # of the rows it was asked with: those whose partners an earlier probe had found
    n_looked_at: int | None = None  # rows that were compared to find them; None: only these

    def __len__(self) -> int:
        return len(self.probes)

    def first_of_each(self) -> ProbeMatches:
        """One pair of each probe that has any."""
        is_first = np.diff(self.probes, prepend=-1) > 0
        return replace(self, probes=self.probes[is_first], rows=self.rows[is_first])


class Stem:
    """The stored rows of a stream, found by keys.

    Rows are counted from 0 on in order of arrival, and the marks and columns in `rows` are indexed by these counts. They hold
    until the next build, rollback or purge. Some may be absent: `numbers.every_row` gives those that are present, and `probe`
    finds no others.

    Invariant: every index finds all rows that are present, except those whose key is NULL.
    """

    def __init__(self, schema: pa.Schema, evaluate: Evaluate, *, bucket_bits: int | None = None) -> None:
        self.schema = schema
        self.numbers = RowNumbers()
        self.rows = StemRows(self.numbers)
        self._names: tuple[str, ...] = ()  # of the columns that the schema has
        self._evaluate = evaluate
        self._bucket_bits = bucket_bits  # of its indexes; None: by their size
        self._indexes: dict[Key, KeyIndex] = {}
        self._ordered: dict[Expression, OrderedIndex] = {}
        # those that only indexes need: the schema does not name them
        self._key_columns: Set[ColumnName] = frozenset()
        self._fit_columns()

    @property
    def n_rows(self) -> int:
        """Rows that are present."""
        return self.numbers.n_rows

    # ------------------------------------------------------------------------------------------- columns and keys

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys it can be probed by."""
        return tuple(self._indexes)

    def set_keys(self, keys: Iterable[Key]) -> None:
        """Have an index for each of these keys and no others. New ones are built over the rows held. Between rounds."""
        self.numbers.assert_committed("keys are set")
        needed = dict.fromkeys(keys)
        self._indexes = {key: index for key, index in self._indexes.items() if key in needed}
        added = [key for key in needed if key not in self._indexes]
        self._indexes.update({key: KeyIndex(bucket_bits=self._bucket_bits) for key in added})
        self._fit_columns()
        if added and len(self.numbers):
            self._index_present(added)

    def set_orders(self, expressions: Iterable[Expression]) -> None:
        """Have an ordered index for each of these and no others, over the rows held too. Between rounds."""
        self.numbers.assert_committed("orders are set")
        needed = dict.fromkeys(expressions)
        added = [each for each in needed if each not in self._ordered]
        self._ordered = {each: self._ordered.get(each) or OrderedIndex() for each in needed}
        rows = self.numbers.every_row()
        if added and len(rows):
            batch = self._batch(np.arange(len(self.numbers)))
            for each in added:
                self._ordered[each].insert(codes_of([self._evaluate(each, batch)]), self.numbers.first)
                self._ordered[each].tidy(self.numbers.present_rows)

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
        types: dict[ColumnName, pa.DataType] = {field.name: field.type for field in self.schema}
        for key in self._indexes:
            is_compared = can_be_hashed([expression.type for expression in key])
            for expression in key:
                if is_compared or isinstance(expression, ColumnOf):
                    types.setdefault(_name(expression), expression.type)
        self._names = tuple(self.schema.names)
        self._key_columns = types.keys() - set(self._names)
        self.rows.set_columns(types)

    def _index_present(self, keys: Sequence[Key]) -> None:
        """Let the rows held be found by these keys."""
        first, stem_end = self.numbers.first, self.numbers.end
        for start in range(first, stem_end, INDEXED_AT_ONCE):
            end = min(start + INDEXED_AT_ONCE, stem_end)
            batch = self._batch(np.arange(start - first, end - first))
            columns = dict(zip(self._names, batch.columns, strict=True))
            for key in keys:
                self._index(key, batch, columns, start)
        for key in keys:
            self._indexes[key].tidy(self.numbers.present_rows)

    def _value(self, expression: Expression, rows: Ints) -> pa.Array:
        """A part of a key, of rows held."""
        name = _name(expression)
        if self.rows.has_column(name):
            return self.rows.take(rows, (name,))[0]
        return self._evaluate(expression, self._batch(rows))

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
        for key in self._indexes:
            self._index(key, stored.rows, columns, start)
        for expression, ordered in self._ordered.items():
            ordered.insert(codes_of([self._evaluate(expression, stored.rows)]), start)

    def _every_index(self) -> tuple[KeyIndex | OrderedIndex, ...]:
        return (*self._indexes.values(), *self._ordered.values())

    def _index(self, key: Key, rows: pa.RecordBatch, columns: Mapping[str, pa.Array], start: int) -> None:
        """Let these rows, numbered from `start` on, be found by a key; `columns` are theirs by name."""
        arrays = [
            columns[expression.name] if isinstance(expression, ColumnOf) else self._evaluate(expression, rows)
            for expression in key
        ]
        if self._key_columns:
            for expression, array in zip(key, arrays, strict=True):
                if _name(expression) in self._key_columns:
                    self.rows.write_column(_name(expression), start, array)
        self._indexes[key].insert(codes_of(arrays), start)

    def commit(self) -> None:
        """What was built stays."""
        self.numbers.commit()
        for index in self._every_index():
            index.tidy(self.numbers.present_rows)

    def rollback(self) -> None:
        """As if nothing had been built since the last commit."""
        numbers = self.numbers
        if numbers.end > numbers.committed_end:
            numbers.rollback()
            for index in self._every_index():
                index.undo(numbers.end)

    def probe(self, key: Key, arrays: Sequence[pa.Array]) -> ProbeMatches:
        """The rows whose key equals that of a row of these columns; those of one probe in no particular order."""
        codes = codes_of(arrays)
        probes, rows = self._indexes[key].find(codes, self.numbers.present_rows)
        return self._same(key, arrays, codes, probes, rows)

    def probe_some(
        self, key: Key, arrays: Sequence[pa.Array], *, n_skipped: int, most: int
    ) -> tuple[ProbeMatches, Mask]:
        """Like `probe`, at most so many rows of each probe, the newest first, behind those that are skipped.

        Also for which probes there may be more.
        """
        codes = codes_of(arrays)
        probes, rows = self._indexes[key].find_some(
            codes, self.numbers.present_rows, n_skipped=n_skipped, most=most
        )
        has_more = np.bincount(probes, minlength=len(codes)) == most
        return replace(self._same(key, arrays, codes, probes, rows), n_looked_at=len(rows)), has_more

    def _same(
        self, key: Key, arrays: Sequence[pa.Array], codes: Codes, probes: Ints, rows: Ints
    ) -> ProbeMatches:
        """Of pairs with equal codes those with equal values."""
        if not codes.is_exact and len(rows):
            values = [self._value(expression, rows) for expression in key]
            is_same = same(arrays, probes, values, np.arange(len(rows)))
            if not is_same.all():
                probes, rows = probes[is_same], rows[is_same]
        return ProbeMatches(probes, rows)

    def probe_range(self, key: Expression, bounds: Sequence[tuple[str, pa.Array]]) -> RangeMatches:
        """Where rows are of which an expression is within bounds; the operator stands between it and the values."""
        return self._ordered[key].find([Bound(operator, codes_of([values])) for operator, values in bounds])

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
        for index in self._every_index():
            index.tidy(self.numbers.present_rows)

    def _close_holes(self) -> None:
        present, first = self.numbers.every_row(), self.numbers.first
        new_numbers = np.full(len(self.numbers), -1, np.int64)
        new_numbers[present] = first + np.arange(len(present))
        for index in self._every_index():
            index.renumber(first, new_numbers)
        self.rows.close_holes()

    # ------------------------------------------------------------------------------------------- to look at

    @property
    def nbytes(self) -> int:
        """Of all arrays, with the room they have."""
        indexes = sum(index.nbytes for index in self._every_index())
        return self.rows.nbytes + self.numbers.nbytes + int(indexes)

    def snapshot(self) -> dict[str, Any]:
        """What it holds, for explain and the dashboard."""
        return {
            "rows": self.n_rows,
            "nbytes": self.nbytes,
            "keys": len(self._indexes),
            "columns": self.rows.n_columns,
            "segments": max((index.n_segments for index in self._indexes.values()), default=0),
            "index_nbytes": sum(index.nbytes for index in self._every_index()),
        }

    def check(self) -> None:
        """Assert that rows are where they should be, and every index has all of them whose key is not NULL."""
        self.numbers.check()
        # rows of a view over a join may share the number of their latest component
        assert (np.diff(self.rows.arrival) >= 0).all(), "rows are not in order of arrival"
        rows = self.numbers.every_row()
        for key, index in self._indexes.items():
            index.check()
            codes = codes_of([self._value(expression, rows) for expression in key])
            is_found = np.zeros(len(rows), dtype=bool)
            probes, found = index.find(codes, self.numbers.present_rows)
            is_found[probes[found == rows[probes]]] = True
            n_null = 0 if codes.is_null is None else int(np.count_nonzero(codes.is_null))
            assert is_found.sum() == len(rows) - n_null, (
                f"{is_found.sum()} of {len(rows)} rows are found by {key}"
            )

        for expression, ordered in self._ordered.items():
            ordered.check()
            values = codes_of([self._evaluate(expression, self._batch(rows))])
            expected = rows if values.is_null is None else rows[~values.is_null]
            found = ordered.present_rows(self.numbers.present_rows)
            assert np.array_equal(found, expected), f"{len(found)} of {len(expected)} rows are in order"


def _name(expression: Expression) -> ColumnName:
    """The name of the column that has the values of a key's expression."""
    return expression.name if isinstance(expression, ColumnOf) else expression
