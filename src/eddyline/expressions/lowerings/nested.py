"""Lists and maps as flat columns: where each row's items begin, and the items of all rows one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.buffers import numbers
from eddyline.types import NULL, is_floating

Int64Vector = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Lists:
    """An array of lists or maps. A NULL row has no items."""

    is_known: Mask
    starts: Int64Vector  # of each row among the items
    sizes: Int64Vector

    @classmethod
    def of(cls, array: pa.Array) -> Lists:
        known = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)
        data = array.buffers()[1]
        if not len(array) or data is None:
            return cls(known, np.zeros(len(array), np.int64), np.zeros(len(array), np.int64))
        offsets = np.frombuffer(data, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
        return cls(known, offsets[:-1], np.where(known, np.diff(offsets), 0))

    @property
    def rows(self) -> Int64Vector:
        """The row of each item."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def places(self) -> Int64Vector:
        """The place of each item in its row, counted from 0."""
        before = np.cumsum(self.sizes) - self.sizes
        return np.arange(self.sizes.sum()) - np.repeat(before, self.sizes)

    def items(self, values: pa.Array) -> pa.Array:
        """The items of all rows, out of the values of the array (or keys, or entries of a map)."""
        return values.take(pa.array(np.repeat(self.starts, self.sizes) + self.places))

    def rebuilt(self, items: pa.Array, sizes: Int64Vector | None = None) -> pa.Array:
        """Lists of these items, NULL where this is; `sizes` if they are no longer the same."""
        ends = np.cumsum(self.sizes if sizes is None else sizes)
        offsets = np.concatenate(([0], ends)).astype(np.int32)
        mask = None if self.is_known.all() else pa.array(~self.is_known)
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=pa.list_(items.type), mask=mask)

    def count(self, is_counted: Mask) -> Int64Vector:
        """How many items of each row are marked."""
        return np.bincount(self.rows[is_counted], minlength=len(self.sizes))

    def first(self, is_wanted: Mask) -> Int64Vector:
        """The place of the first marked item of each row, -1 if there is none."""
        rows, places = self.rows[is_wanted], self.places[is_wanted]
        found = np.full(len(self.sizes), -1, np.int64)
        found[rows[::-1]] = places[::-1]  # the last one written is the first in the list
        return found


def ranks(values: pa.Array) -> Int64Vector:
    """Numbers in the order of the values: equal ones equal, NaN above all numbers, NULL last, -0.0 as 0.0."""
    if values.type == NULL:
        return np.zeros(len(values), np.int64)
    return numbers(pc.rank(values, tiebreaker="dense").cast(pa.int64()))


def same(a: pa.Array, b: pa.Array) -> Mask:
    """Whether the values are equal on each row; NULL is equal to nothing."""
    if a.type == NULL:
        return np.zeros(len(a), bool)
    equal = pc.fill_null(pc.equal(a, b), False).to_numpy(zero_copy_only=False)
    if is_floating(a.type):
        both = pc.and_(pc.is_nan(a), pc.is_nan(b))
        equal = equal | pc.fill_null(both, False).to_numpy(zero_copy_only=False)
    return np.asarray(equal, bool)
