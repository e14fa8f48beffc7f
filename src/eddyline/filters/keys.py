"""Keys: any ordered SQL type as 64-bit integers that compare the way SQL does.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002, the grouped filter.
There a value is looked up among all queries' constants. Here, for types that fit, the key is the value itself; for the others
(strings, binary, wide decimals) it is the place among the sorted constants: 2k+1 where it equals constant k, 2k in the gap before
it, so that every comparison with a constant is one of integers, ties included.

NaN equals itself and stands above all numbers; -0.0 equals 0.0.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.types import BOOLEAN, DATE, DOUBLE, FLOAT, INTERVAL, TIMESTAMP, TIMESTAMP_NTZ, is_integer

Keys = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """Keys of a column; where `is_null`, the key means nothing."""

    keys: Keys
    is_null: Mask | None

    def take(self, rows: npt.NDArray[np.int64]) -> KeyColumn:
        return KeyColumn(self.keys[rows], None if self.is_null is None else self.is_null[rows])


class Domain:
    """How the values of one attribute become keys, given all constants they are compared with."""

    def __init__(self, constants: pa.Array) -> None:
        self.type = constants.type
        self.is_direct = _is_direct(self.type)
        self._sorted: list[Any] = []
        if not self.is_direct:
            self._sorted = sorted(pc.unique(constants.drop_null()).to_pylist())

    def keys(self, values: pa.Array) -> KeyColumn:
        """Keys of row values or of constants."""
        assert values.type == self.type, f"{values.type} keys asked of a {self.type} domain"
        is_null = _null_mask(values)
        if self.is_direct:
            return KeyColumn(_direct_keys(values), is_null)
        encoded = values.dictionary_encode()
        places = np.array([self._place(v) for v in encoded.dictionary.to_pylist()] or [0], dtype=np.int64)
        codes = np.asarray(pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False))
        return KeyColumn(places[codes], is_null)

    def _place(self, value: Any) -> int:
        at = bisect.bisect_left(self._sorted, value)
        return 2 * at + (1 if at < len(self._sorted) and self._sorted[at] == value else 0)


def _is_direct(t: pa.DataType) -> bool:
    return is_integer(t) or t in (BOOLEAN, FLOAT, DOUBLE, DATE, TIMESTAMP, TIMESTAMP_NTZ, INTERVAL)


def _null_mask(values: pa.Array) -> Mask | None:
    if not values.null_count:
        return None
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False))


def _direct_keys(values: pa.Array) -> Keys:
    t = values.type
    if t == DATE:
        values = values.view(pa.int32())
    elif t in (TIMESTAMP, TIMESTAMP_NTZ, INTERVAL):
        values = values.view(pa.int64())
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(False if t == BOOLEAN else 0, values.type))
    numbers = np.asarray(values.to_numpy(zero_copy_only=False))
    if t in (FLOAT, DOUBLE):
        return float_keys(numbers.astype(np.float64))
    return numbers.astype(np.int64, copy=False)


def float_keys(numbers: npt.NDArray[np.float64]) -> Keys:
    """Integers in the order of the numbers."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is NaN like any other
        bits = np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def compare(left: Keys, operator: str, right: Keys) -> Mask:
    """The comparison of keys, with NumPy's broadcasting."""
    if operator == "=":
        return left == right
    if operator == "!=":
        return left != right
    if operator == "<":
        return left < right
    if operator == "<=":
        return left <= right
    if operator == ">":
        return left > right
    assert operator == ">=", operator
    return left >= right
