"""Estimates of how many different values there are. The only door to DataSketches, which is loaded with the first sketch.

Paper: Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm", 2007. A
value sets one of 2**lg_k registers, by a hash with a fixed seed, to at least some number. As a register keeps the greatest, the
registers say nothing of the order of values, of repetitions, or of which sketches were merged to one. What has few values is a
list of hashes instead.

Differs from the library: its estimate also goes by the order in which registers were set, as long as no two sketches have been
merged. The answer before a round is computed anew from partial results that may be merged in another order, so an estimate here
goes by the registers alone: that of a sketch merged with itself.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from eddyline.aggregates.accumulators import Accumulator, Value, arguments
from eddyline.aggregates.keys import value_words
from eddyline.aggregates.pieces import firsts
from eddyline.aggregates.rows import ClassRows, Ints
from eddyline.aggregates.values import PooledValues
from eddyline.kernels import hash_keys
from eddyline.model import AggregateCall

ONE_REGISTER = 1.04  # the relative standard deviation of k registers is this, divided by the square root of k
LEAST_LG_K = 4  # of the library, which goes up to 21
_SKETCH = "sketch"  # the column of saved entries
_STORED = pa.large_binary()  # millions of sketches are more than two gigabytes


class DistinctEstimate(Accumulator):
    """approx_count_distinct(x): a serialized sketch for each entry that has a value, where rows only come."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        assert call.relative_error is not None, call
        self._lg_k = max(LEAST_LG_K, math.ceil(2 * math.log2(ONE_REGISTER / call.relative_error)))
        self._sketches = PooledValues(_STORED)

    def resize(self, n: int) -> None:
        self._sketches.resize(n)

    def clear(self, entries: Ints) -> None:
        self._sketches.clear(entries)

    def add(self, entries: Ints, rows: ClassRows) -> None:
        taken = arguments(entries, rows, self.call, self.call.arguments)
        if not len(taken.entries):
            return
        assert taken.signs.min() > 0, f"{self.call.name}: a row cannot leave a sketch"
        words = value_words(taken.columns[0], self.call.types[0])
        codes = np.empty(len(words), np.int64)
        hash_keys(words.words, words.offsets, codes)
        order, touched, runs = _by_entry(taken.entries)
        ordered = codes[order].tolist()
        found = []
        for stored, run in zip(self._sketches.take(touched).to_pylist(), runs, strict=True):
            sketch = self._sketch(stored)
            deque(map(sketch.update, ordered[run]), maxlen=0)  # a loop in C
            found.append(sketch.serialize_compact())
        self._put(touched, found)

    def merge(self, into: Ints, other: Self, which: Ints) -> None:
        parts = other._sketches.take(which)
        has_sketch = np.asarray(parts.is_valid().to_numpy(zero_copy_only=False))
        order, touched, runs = _by_entry(into[has_sketch])
        ordered = parts.drop_null().take(pa.array(order)).to_pylist()
        found = []
        for stored, run in zip(self._sketches.take(touched).to_pylist(), runs, strict=True):
            merged = ordered[run] if stored is None else [stored, *ordered[run]]
            found.append(merged[0] if len(merged) == 1 else self._union(merged).serialize_compact())
        self._put(touched, found)

    def copy(self, into: Ints, other: Self, which: Ints) -> None:
        self._sketches.put(into, other._sketches.take(which))

    def value(self, call: AggregateCall, entries: Ints) -> Value:
        stored = self._sketches.take(entries).to_pylist()
        estimates = [
            0 if each is None else round(self._union([each, each]).get_estimate()) for each in stored
        ]
        return pa.array(estimates, call.type), None

    def saved(self, entries: Ints) -> dict[str, pa.Array]:
        return {_SKETCH: self._sketches.take(entries)}

    def load(self, entries: Ints, columns: Mapping[str, pa.Array]) -> None:
        self._sketches.put(entries, columns[_SKETCH])

    @property
    def nbytes(self) -> int:
        return self._sketches.nbytes

    def check(self, n_rows: Ints) -> None:
        has_sketch = np.asarray(self._sketches.take(np.arange(len(n_rows))).is_valid())
        assert not (has_sketch & (n_rows == 0)).any(), f"{self.call.name}: a sketch of no rows"

    def _put(self, entries: Ints, sketches: Sequence[bytes]) -> None:
        self._sketches.put(entries, pa.array(sketches, _STORED))

    def _sketch(self, stored: bytes | None) -> Any:
        from datasketches import hll_sketch, tgt_hll_type

        if stored is not None:
            return hll_sketch.deserialize(stored)
        return hll_sketch(
            self._lg_k, tgt_hll_type.HLL_8
        )  # a byte for each register: half a byte merges at a fifth of the pace

    def _union(self, stored: Sequence[bytes]) -> Any:
        from datasketches import hll_union, tgt_hll_type

        union = hll_union(self._lg_k)
        for each in stored:
            union.update(self._sketch(each))
        return union.get_result(tgt_hll_type.HLL_8)


def _by_entry(entries: Ints) -> tuple[Ints, Ints, list[slice]]:
    """Places in the order of their entries, which entries these are, and the run of each."""
    order = np.argsort(entries, kind="stable")
    ordered = entries[order]
    first = firsts(ordered)
    ends = np.searchsorted(ordered, ordered[first], side="right")
    return order, ordered[first], [slice(*run) for run in zip(first.tolist(), ends.tolist(), strict=True)]
