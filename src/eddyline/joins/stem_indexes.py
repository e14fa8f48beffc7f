"""The indexes of a stem: one for every key its rows are asked by, and one in order for every expression that is compared.

Rows are known by their number since the stem began (row_numbers.py). Values that are hashed have to be compared, so a key may
need columns that nothing else does: `columns` names them, and they are written as rows are added.

Invariant: every index finds all rows that are present, except those whose key is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.joins.key_index import KeyIndex
from eddyline.joins.keys import Codes, can_be_hashed, codes_of, same
from eddyline.joins.ordered_index import Bound, OrderedIndex, RangeMatches
from eddyline.joins.probe_matches import Evaluate, Ints, Key, Mask, ProbeMatches
from eddyline.joins.row_numbers import RowNumbers
from eddyline.joins.stem_rows import ColumnName, StemRows
from eddyline.model import Column as ColumnOf
from eddyline.model import Expression

BatchOf = Callable[[Ints], pa.RecordBatch]  # rows of the stem with the columns that its schema names

INDEXED_AT_ONCE = 65_536  # rows, when an index is added to a stem


class StemIndexes:
    """The indexes over the rows of one stem."""

    def __init__(
        self,
        numbers: RowNumbers,
        rows: StemRows,
        batch_of: BatchOf,
        evaluate: Evaluate,
        bucket_bits: int | None,
    ) -> None:
        """`evaluate` gives what an expression is on every row of a batch; `bucket_bits` is None: by the size of an index."""
        self._numbers = numbers
        self._rows = rows
        self._batch_of = batch_of
        self._evaluate = evaluate
        self._bucket_bits = bucket_bits
        self._by_key: dict[Key, KeyIndex] = {}
        self._ordered: dict[Expression, OrderedIndex] = {}
        self.own_columns: Set[ColumnName] = frozenset()  # those that only indexes need; the stem says which

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(self._by_key)

    @property
    def n_segments(self) -> int:
        """Of the key index that has most."""
        return max((index.n_segments for index in self._by_key.values()), default=0)

    @property
    def nbytes(self) -> int:
        return sum(index.nbytes for index in self._all())

    def _all(self) -> tuple[KeyIndex | OrderedIndex, ...]:
        return (*self._by_key.values(), *self._ordered.values())

    # ------------------------------------------------------------------------------------------- which there are

    def set_keys(self, keys: Iterable[Key]) -> list[Key]:
        """Have an index for each of these keys and no others; gives those that are new, which have no rows yet."""
        needed = dict.fromkeys(keys)
        self._by_key = {key: index for key, index in self._by_key.items() if key in needed}
        added = [key for key in needed if key not in self._by_key]
        self._by_key.update({key: KeyIndex(bucket_bits=self._bucket_bits) for key in added})
        return added

    def columns(self) -> dict[ColumnName, pa.DataType]:
        """The columns that keys need to compare values."""
        found: dict[ColumnName, pa.DataType] = {}
        for key in self._by_key:
            is_compared = can_be_hashed([expression.type for expression in key])
            for expression in key:
                if is_compared or isinstance(expression, ColumnOf):
                    found.setdefault(_name(expression), expression.type)
        return found

    def fill(self, keys: Sequence[Key]) -> None:
        """Let the rows held be found by these keys."""
        first, stem_end = self._numbers.first, self._numbers.end
        for start in range(first, stem_end, INDEXED_AT_ONCE):
            end = min(start + INDEXED_AT_ONCE, stem_end)
            batch = self._batch_of(np.arange(start - first, end - first))
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            for key in keys:
                self._add(key, batch, columns, start)
        for key in keys:
            self._by_key[key].tidy(self._numbers.present_rows)

    def set_orders(self, expressions: Iterable[Expression]) -> None:
        """Have an ordered index for each of these and no others, over the rows held too."""
        needed = dict.fromkeys(expressions)
        added = [each for each in needed if each not in self._ordered]
        self._ordered = {each: self._ordered.get(each) or OrderedIndex() for each in needed}
        if added and self._numbers.n_rows:
            batch = self._batch_of(np.arange(len(self._numbers)))
            for each in added:
                self._ordered[each].insert(codes_of([self._evaluate(each, batch)]), self._numbers.first)
                self._ordered[each].tidy(self._numbers.present_rows)

    # ------------------------------------------------------------------------------------------- rows that come and leave

    def add(self, rows: pa.RecordBatch, columns: Mapping[str, pa.Array], start: int) -> None:
        """Let these rows, numbered from `start` on, be found; `columns` are theirs by name."""
        for key in self._by_key:
            self._add(key, rows, columns, start)
        for expression, ordered in self._ordered.items():
            ordered.insert(codes_of([self._evaluate(expression, rows)]), start)

    def _add(self, key: Key, rows: pa.RecordBatch, columns: Mapping[str, pa.Array], start: int) -> None:
        arrays = [
            columns[expression.name] if isinstance(expression, ColumnOf) else self._evaluate(expression, rows)
            for expression in key
        ]
        if self.own_columns:
            for expression, array in zip(key, arrays, strict=True):
                if _name(expression) in self.own_columns:
                    self._rows.write_column(_name(expression), start, array)
        self._by_key[key].insert(codes_of(arrays), start)

    def undo(self) -> None:
        """Forget the rows that were rolled back."""
        for index in self._all():
            index.undo(self._numbers.end)

    def tidy(self) -> None:
        """Forget rows that have left, where it pays."""
        for index in self._all():
            index.tidy(self._numbers.present_rows)

    def renumber(self, new_numbers: Ints) -> None:
        """Rows have other numbers now, from the first on; -1: it has left."""
        for index in self._all():
            index.renumber(self._numbers.first, new_numbers)

    # ------------------------------------------------------------------------------------------- probes

    def find(self, key: Key, arrays: Sequence[pa.Array]) -> ProbeMatches:
        """The rows whose key equals that of a row of these columns; those of one probe in no particular order."""
        codes = codes_of(arrays)
        probes, rows = self._by_key[key].find(codes, self._numbers.present_rows)
        return self._same(key, arrays, codes, probes, rows)

    def find_some(
        self, key: Key, arrays: Sequence[pa.Array], *, n_skipped: int, most: int
    ) -> tuple[ProbeMatches, Mask]:
        """Like `find`, at most so many rows of each probe, the newest first, behind those that are skipped.

        Also for which probes there may be more.
        """
        codes = codes_of(arrays)
        probes, rows = self._by_key[key].find_some(
            codes, self._numbers.present_rows, n_skipped=n_skipped, most=most
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

    def _value(self, expression: Expression, rows: Ints) -> pa.Array:
        """A part of a key, of rows held."""
        name = _name(expression)
        if self._rows.has_column(name):
            return self._rows.take(rows, (name,))[0]
        return self._evaluate(expression, self._batch_of(rows))

    def find_range(self, key: Expression, bounds: Sequence[tuple[str, pa.Array]]) -> RangeMatches:
        """Where rows are of which an expression is within bounds; the operator stands between it and the values."""
        return self._ordered[key].find([Bound(operator, codes_of([values])) for operator, values in bounds])

    # ------------------------------------------------------------------------------------------- invariant

    def check(self) -> None:
        """Assert that every index has all rows whose key is not NULL."""
        rows = self._numbers.every_row()
        for key, index in self._by_key.items():
            index.check()
            codes = codes_of([self._value(expression, rows) for expression in key])
            is_found = np.zeros(len(rows), dtype=bool)
            probes, found = index.find(codes, self._numbers.present_rows)
            is_found[probes[found == rows[probes]]] = True
            n_null = 0 if codes.is_null is None else int(np.count_nonzero(codes.is_null))
            assert is_found.sum() == len(rows) - n_null, (
                f"{is_found.sum()} of {len(rows)} rows are found by {key}"
            )
        for expression, ordered in self._ordered.items():
            ordered.check()
            values = codes_of([self._evaluate(expression, self._batch_of(rows))])
            expected = rows if values.is_null is None else rows[~values.is_null]
            found = ordered.present_rows(self._numbers.present_rows)
            assert np.array_equal(found, expected), f"{len(found)} of {len(expected)} rows are in order"


def _name(expression: Expression) -> ColumnName:
    """The name of the column that has the values of a key's expression."""
    return expression.name if isinstance(expression, ColumnOf) else expression
