"""One row chosen of each entry: min, max, min_by, max_by, first and last, where rows only come.

Each order is made one of integers, such that the greatest line wins: turning all bits of an integer turns its order around.

    max(x)         x                 min(x)         ~x
    max_by(x, y)   y, ts, g          min_by(x, y)   ~y, ts, g       of equal y the last row
    last(x)        ts, g             first(x)       ~ts, ~g         a row without time is the first

Texts have no such integers of their own: they are ranked among those that meet in one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
import pyarrow as pa

from eddyline.aggregates.accumulators import Accumulator, Value, arguments, given, masked
from eddyline.aggregates.rows import ClassRows, Ints
from eddyline.aggregates.values import has_words, n_words, order_words, ranks, values_of, values_of_words
from eddyline.kernels import replace_by_greater
from eddyline.model import AggregateCall


class ChosenRow(Accumulator):
    """The row that comes last in the order of a function, with the value that is asked for."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        function = call.function
        self._is_least = function in ("min", "min_by", "first")
        self._by_time = function not in ("min", "max")
        self._key = {"min": 0, "max": 0, "min_by": 1, "max_by": 1}.get(function)  # the argument it goes by
        self._n_words, self._has_text = 0, False
        if self._key is not None:
            t = call.types[self._key]
            self._has_text = not has_words(t)
            self._n_words = 1 if self._has_text else n_words(t)
        kept = {"x": 0} if self._by_time or self._has_text else {}
        kept |= {"y": 1} if self._has_text and self._key == 1 else {}
        self._kept = kept  # arguments whose values are kept
        self._values = {name: values_of(call.types[at]) for name, at in kept.items()}
        width = self._n_words + 2 * self._by_time
        self.arrays = {"order": np.zeros((0, width), np.int64), "has_row": np.zeros(0, np.bool_)}

    def resize(self, n: int) -> None:
        super().resize(n)
        for values in self._values.values():
            values.resize(n)

    def clear(self, entries: Ints) -> None:
        super().clear(entries)
        for values in self._values.values():
            values.clear(entries)

    def add(self, entries: Ints, rows: ClassRows) -> None:
        call = self.call
        needed = call.arguments[:1] if self._key is None and call.ignores_nulls else ()
        needed = call.arguments[self._key : self._key + 1] if self._key is not None else needed
        taken = arguments(entries, rows, call, needed)
        words = []
        if self._key is not None:
            key = taken.columns[self._key]
            words = [np.zeros((len(key), 1), np.int64) if self._has_text else order_words(key)]
        order = self._turned(words, taken.time_us, taken.arrival)
        kept = {name: taken.columns[at] for name, at in self._kept.items()}
        self._replace(taken.entries, order, kept)

    def _turned(self, words: list[Ints], time_us: Ints, arrival: Ints) -> Ints:
        """Lines of which the greatest wins."""
        if self._is_least:
            words = [~part for part in words]
        if self._by_time:
            times = np.stack((time_us, arrival), axis=1)
            words = [*words, ~times if self.call.function == "first" else times]
        return words[0] if len(words) == 1 else np.concatenate(words, axis=1)

    def _replace(self, entries: Ints, order: Ints, kept: Mapping[str, pa.Array]) -> None:
        if self._has_text and len(entries):
            order = self._ranked(entries, order, kept["y" if "y" in kept else "x"])
        is_greater = np.zeros(len(entries), np.bool_)
        greatest, has_row = self.arrays["order"], self.arrays["has_row"]
        replace_by_greater(given(entries), given(order), greatest, has_row, is_greater)
        winners = np.flatnonzero(is_greater)
        for name, column in kept.items():
            self._values[name].put(entries[winners], column.take(pa.array(winners)))

    def _ranked(self, entries: Ints, order: Ints, key: pa.Array) -> Ints:
        """The lines with ranks of their texts; those that stand in the entries get theirs too."""
        standing = np.unique(entries[self.arrays["has_row"][entries]])
        texts = self._values["y" if "y" in self._values else "x"].take(standing)
        rank = ranks(pa.concat_arrays([texts, key]))
        if self._is_least:
            rank = ~rank
        self.arrays["order"][standing, 0] = rank[: len(standing)]
        return np.concatenate((rank[len(standing) :, None], order[:, 1:]), axis=1)

    def merge(self, into: Ints, other: Self, which: Ints) -> None:
        has_row = other.arrays["has_row"][which]
        into, which = into[has_row], which[has_row]
        kept = {name: values.take(which) for name, values in other._values.items()}
        self._replace(into, other.arrays["order"][which], kept)

    def copy(self, into: Ints, other: Self, which: Ints) -> None:
        super().copy(into, other, which)
        for name, values in other._values.items():
            self._values[name].put(into, values.take(which))

    def renumber(self, entries: Ints, first: int) -> None:
        if self._by_time:  # the last word; turned around for first(x)
            self.arrays["order"][entries, -1] += -first if self.call.function == "first" else first

    def value(self, call: AggregateCall, entries: Ints) -> Value:
        has_row = self.arrays["has_row"][entries]
        if "x" in self._values:
            return masked(self._values["x"].take(entries), has_row), None
        words = self.arrays["order"][entries]
        words = ~words if self._is_least else words
        return masked(values_of_words(words, call.type), has_row), None

    def saved(self, entries: Ints) -> dict[str, pa.Array]:
        return super().saved(entries) | {name: values.take(entries) for name, values in self._values.items()}

    def load(self, entries: Ints, columns: Mapping[str, pa.Array]) -> None:
        super().load(entries, columns)
        for name, values in self._values.items():
            values.put(entries, columns[name])

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(values.nbytes for values in self._values.values())

    def check(self, n_rows: Ints) -> None:
        has_row = self.arrays["has_row"][: len(n_rows)]
        assert not (has_row & (n_rows == 0)).any(), f"{self.call.name}: a row chosen of none"
