"""Ordered multisets of rows by entry: for count(DISTINCT), and for min, max, min_by, max_by, first, last of rows that may leave.

A set is ordered such that the row of a function is at one of its ends.

    min, max        x              the first, the last
    max_by(x, y)    y, ts, g       the last
    min_by(x, y)    y, ~ts, ~g     the first: of equal y the last by time
    first, last     ts, g          the first, the last

States that copy entries from each other share their sets, and a copy costs nothing until it changes. So a round that copies a
group of a million rows and changes one of them copies some twenty nodes.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from eddyline import types
from eddyline.aggregates.accumulators import Accumulator, Arguments, Lines, Value, arguments
from eddyline.aggregates.ordered_sets import OrderedRows
from eddyline.aggregates.rows import ClassRows, Ints
from eddyline.kernels import LEFT, NO_NODE, RIGHT
from eddyline.model import AggregateCall

_TIMES = (types.BIGINT, types.BIGINT)


class Multisets(Accumulator):
    """Sets of rows with multiplicities; what they are ordered by and what is read of them is said by the kinds below."""

    def __init__(self, call: AggregateCall, ordered: Sequence[pa.DataType], kept: pa.DataType | None) -> None:
        super().__init__(call)
        self.arrays = {"root": np.zeros(0, np.int64), "n": np.zeros(0, np.int64)}
        self._adopt(OrderedRows(ordered, kept))

    def _adopt(self, rows: OrderedRows) -> None:
        """Keep sets in this storage from now on; there are none yet. They are released when no one has this object any more."""
        self._rows = rows
        self._finalizer: Any = weakref.finalize(self, _release_all, rows, self.arrays)
        self._finalizer.atexit = False

    def _shares(self, other: Self) -> bool:
        """Whether both keep their sets in one storage; they do from now on if this one has no sets."""
        if other._rows is not self._rows and not self.arrays["root"].any():
            self._finalizer.detach()
            self._adopt(other._rows)
        return other._rows is self._rows

    def clear(self, entries: Ints) -> None:
        entries = np.unique(entries)
        self._rows.release(self.arrays["root"][entries])
        super().clear(entries)

    def add(self, entries: Ints, rows: ClassRows) -> None:
        taken = self._taken(entries, rows)
        if len(taken.entries):
            steps = np.sign(taken.signs).astype(np.int64)
            self._update(taken.entries, self._rows.lines(self._columns(taken)), steps)

    def _update(self, entries: Ints, lines: Ints, steps: Ints) -> None:
        self._rows.update(entries, lines, steps, self.arrays["root"], self.arrays["n"])

    def _taken(self, entries: Ints, rows: ClassRows) -> Arguments:
        """The rows that are put into sets."""
        return arguments(entries, rows, self.call, self.call.arguments)

    def _columns(self, taken: Arguments) -> list[pa.Array]:
        """The columns of rows in sets: those they are ordered by, then the one that is kept."""
        return list(taken.columns)

    def merge(self, into: Ints, other: Self, which: Ints) -> None:
        if self._shares(other):
            first = np.unique(into, return_index=True)[1]
            empty = first[self.arrays["root"][into[first]] == NO_NODE]
            self.copy(into[empty], other, which[empty])
            into, which = np.delete(into, empty), np.delete(which, empty)
        n_nodes = other.arrays["n"][which]
        nodes = other._rows.listed(other.arrays["root"][which], int(n_nodes.sum()))
        if len(nodes):
            is_same = other._rows is self._rows
            lines = self._rows.lines_at(nodes) if is_same else self._rows.lines(other._rows.columns(nodes))
            self._update(np.repeat(into, n_nodes), lines, other._rows.times(nodes))

    def copy(self, into: Ints, other: Self, which: Ints) -> None:
        if not self._shares(other):
            self.clear(into)
            self.merge(into, other, which)
            return
        roots = other.arrays["root"][which]
        self._rows.share(roots)
        self._rows.release(self.arrays["root"][into])
        super().copy(into, other, which)

    def saved(self, entries: Ints) -> dict[str, pa.Array]:
        n_nodes = self.arrays["n"][entries]
        nodes = self._rows.listed(self.arrays["root"][entries], int(n_nodes.sum()))
        offsets = pa.array(np.concatenate(([0], np.cumsum(n_nodes))), pa.int32())
        columns = [*self._rows.columns(nodes), pa.array(self._rows.times(nodes))]
        return {str(at): pa.ListArray.from_arrays(offsets, column) for at, column in enumerate(columns)}

    def load(self, entries: Ints, columns: Mapping[str, pa.Array]) -> None:
        self.clear(entries)
        lists = [columns[str(at)] for at in range(len(columns))]
        lengths = np.asarray(lists[0].value_lengths().to_numpy(zero_copy_only=False)).astype(np.int64)
        *parts, times = [column.flatten() for column in lists]
        if len(times):
            self._update(np.repeat(entries, lengths), self._rows.lines(parts), times.to_numpy())

    @property
    def nbytes(self) -> int:
        """With all of the storage, which other states may share."""
        return super().nbytes + self._rows.nbytes

    def check(self, n_rows: Ints) -> None:
        n, roots = self.arrays["n"][: len(n_rows)], self.arrays["root"][: len(n_rows)]
        nodes = self._rows.listed(roots, int(n.sum()))
        times = self._rows.times(nodes)
        assert (times > 0).all(), f"{self.call.name}: rows that left and had not come: {times}"
        in_sets = np.bincount(np.repeat(np.arange(len(n)), n), times, minlength=len(n))
        assert (in_sets <= n_rows).all(), (self.call.name, in_sets, n_rows)


def _release_all(rows: OrderedRows, arrays: Mapping[str, Lines]) -> None:
    rows.release(arrays["root"])


class DistinctRows(Multisets):
    """count(DISTINCT x [, y…]): how many different rows there are, without those that have a NULL."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call, [types.BINARY if types.is_nested(t) else t for t in call.types], None)

    def _columns(self, taken: Arguments) -> list[pa.Array]:
        return [_encoded(c) if types.is_nested(c.type) else c for c in taken.columns]

    def value(self, call: AggregateCall, entries: Ints) -> Value:
        return pa.array(self.arrays["n"][entries]), None


def _encoded(column: pa.Array) -> pa.Array:
    """Structs, lists and maps as bytes, equal where they are equal. This is a loop in Python."""
    return pa.array([repr(_normal(value)).encode() for value in types.python_values(column)], types.BINARY)


def _normal(value: Any) -> Any:
    """-0.0 as 0.0, also inside; NaN has one text anyway."""
    if isinstance(value, dict):
        return [(name, _normal(part)) for name, part in value.items()]
    if isinstance(value, list | tuple):
        return [_normal(part) for part in value]
    return value + 0.0 if isinstance(value, float) else value


class ExtremeRows(Multisets):
    """min and max of rows that may leave."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call, call.types, None)

    def value(self, call: AggregateCall, entries: Ints) -> Value:
        return self._at_end(entries, LEFT if call.function == "min" else RIGHT, 0), None

    def _at_end(self, entries: Ints, side: int, column: int) -> pa.Array:
        nodes = self._rows.ends(self.arrays["root"][entries], side)
        has_row = nodes != NO_NODE
        found = self._rows.column(nodes[has_row], column)
        return found if has_row.all() else found.take(pa.array(np.cumsum(has_row) - 1, mask=~has_row))


class TimedRows(ExtremeRows):
    """min_by, max_by, first and last of rows that may leave."""

    def __init__(self, call: AggregateCall) -> None:
        Multisets.__init__(self, call, (*call.types[1:], *_TIMES), call.types[0])

    def _taken(self, entries: Ints, rows: ClassRows) -> Arguments:
        call = self.call
        return arguments(entries, rows, call, call.arguments if call.ignores_nulls else call.arguments[1:])

    def _columns(self, taken: Arguments) -> list[pa.Array]:
        times = [taken.time_us, taken.arrival]
        if self.call.function == "min_by":
            times = [~part for part in times]
        return [*taken.columns[1:], *map(pa.array, times), taken.columns[0]]

    def value(self, call: AggregateCall, entries: Ints) -> Value:
        side = LEFT if call.function in ("first", "min_by") else RIGHT
        return self._at_end(entries, side, len(call.arguments) + 1), None
