"""Keys: any ordered SQL type as 64-bit integers that compare the way SQL does.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002, the grouped filter.
There a value is looked up among all queries' constants. Here, for types that fit, the key is the value itself; for the others
(strings, binary, decimals of more than 18 digits) it is the place among the sorted constants: 2k+1 where it equals constant k, 2k
in the gap before it, so that every comparison with a constant is one of integers, ties included.

NaN equals itself and is above all numbers; -0.0 equals 0.0. Text goes by code point, which is the order of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.expressions import bitmap_bits
from eddyline.kernels import ascending, byte_places, float_places, read_only, wide_places, word_tree
from eddyline.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    is_decimal,
    is_wide_decimal,
)

Keys = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Arrays = Mapping[str, npt.NDArray[Any]]
Buffers = Sequence[Any]  # of an Arrow array: validity first

LOWEST, HIGHEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)  # of all keys
_AS_STORED = {
    TINYINT: np.int8,
    SMALLINT: np.int16,
    INT: np.int32,
    BIGINT: np.int64,
    DATE: np.int32,
    TIMESTAMP: np.int64,
    TIMESTAMP_NTZ: np.int64,
    INTERVAL: np.int64,
}
_LEAST_BYTES = 8  # of the data of strings, so that a kernel may always load a word


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """Keys of a column; where `is_null`, the key means nothing."""

    keys: Keys
    is_null: Mask | None

    def take(self, rows: npt.NDArray[np.int64]) -> KeyColumn:
        return KeyColumn(self.keys[rows], None if self.is_null is None else self.is_null[rows])


class Domain:
    """How the values of one attribute become keys, given all constants they are compared with.

    For direct types the constants do not matter. STRING and BINARY are one domain: either may be asked of the other.
    """

    def __init__(self, constants: pa.Array) -> None:
        self._adopt(constants.type, _sorted_constants(constants))

    @classmethod
    def over(cls, constants: Sequence[pa.Array]) -> Domain:
        """One domain over several columns of constants. Texts and bytes may be mixed: the bounds of a pattern are bytes."""
        types = {part.type for part in constants}
        if len(types) > 1:
            assert types == {STRING, BINARY}, f"constants of {types} for one attribute"
            constants = [part.view(BINARY) for part in constants]
        return cls(constants[0] if len(constants) == 1 else pa.concat_arrays(constants))

    @classmethod
    def from_arrays(cls, t: pa.DataType, arrays: Arrays) -> Domain:
        """The domain that gave these `arrays()`; they may be read-only maps of a file."""
        domain = cls.__new__(cls)
        domain._adopt(t, arrays)
        return domain

    def _adopt(self, t: pa.DataType, arrays: Arrays) -> None:
        self.type = t
        self.is_direct = is_direct(t)
        # a kernel is compiled apart for memory that is laid out in another way
        plain = {name: np.require(np.asarray(array), None, ("C", "A")) for name, array in arrays.items()}
        self._arrays = {name: read_only(array) for name, array in plain.items()}
        self._convert = _conversion(t, self._arrays)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What `from_arrays` needs besides the type; nothing for direct types."""
        return dict(self._arrays)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def keys(self, values: pa.Array) -> KeyColumn:
        """Keys of row values or of constants, in memory of their own: contiguous and writable."""
        if values.type != self.type:
            other = self._as_domain(values)
            if isinstance(other, KeyColumn):
                return other
            values = other
        if not len(values):
            return KeyColumn(np.empty(0, np.int64), None)
        buffers = values.buffers()
        is_null = _null_mask(values, buffers) if values.null_count else None
        return KeyColumn(self._convert(values, buffers), is_null)

    def _as_domain(self, values: pa.Array) -> pa.Array | KeyColumn:
        """Values of a type that is laid out in another way, as one that is not; of a dictionary, the keys at once."""
        t = values.type
        if pa.types.is_dictionary(t):
            return self._keys_of_dictionary(values)
        if _is_bytes(self.type):
            if t in (STRING, BINARY):
                return values
            if pa.types.is_large_string(t) or pa.types.is_string_view(t):
                return values.cast(STRING)
            if pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
                return values.cast(BINARY)
        raise AssertionError(f"{t} keys asked of a {self.type} domain")

    def _keys_of_dictionary(self, values: pa.DictionaryArray) -> KeyColumn:
        if not len(values.dictionary):
            return KeyColumn(np.zeros(len(values), np.int64), np.ones(len(values), dtype=bool))
        entries = self.keys(values.dictionary)
        codes = values.indices.fill_null(0).to_numpy(zero_copy_only=False)
        is_null = (
            values.indices.is_null().to_numpy(zero_copy_only=False) if values.indices.null_count else None
        )
        if entries.is_null is not None:
            is_null = entries.is_null[codes] if is_null is None else is_null | entries.is_null[codes]
        return KeyColumn(entries.keys[codes], is_null)


def is_direct(t: pa.DataType) -> bool:
    """Whether a value of the type is its own key, whatever it is compared with."""
    return not (_is_bytes(t) or is_wide_decimal(t))


def float_keys(numbers: npt.NDArray[np.float64]) -> Keys:
    """Integers in the order of the numbers."""
    keys = np.empty(len(numbers), np.int64)
    float_places(read_only(np.ascontiguousarray(numbers, np.float64).view(np.int64)), keys)
    return keys


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


# ----------------------------------------------------------------------------------------------- values


def _is_bytes(t: pa.DataType) -> bool:
    return t in (STRING, BINARY)


def _conversion(t: pa.DataType, arrays: Arrays) -> Callable[[pa.Array, Buffers], Keys]:
    """What makes keys of one value or more."""
    stored = _AS_STORED.get(t)
    if stored is not None:
        return lambda values, buffers: _stored_numbers(values, buffers, stored).astype(np.int64)
    if _is_bytes(t):
        names = ("offsets", "data", "words", "children", "nodes")
        constants = [arrays[name] for name in names]
        return lambda values, buffers: _byte_keys(values, buffers, constants)
    if is_wide_decimal(t):
        halves = arrays["halves"]
        return lambda values, buffers: _wide_keys(values, buffers, halves)
    if is_decimal(t):
        return lambda values, buffers: _halves(values, buffers)[::2].copy()
    others: dict[pa.DataType, Callable[[pa.Array, Buffers], Keys]] = {
        DOUBLE: _double_keys,
        FLOAT: _float_keys,
        BOOLEAN: _boolean_keys,
        NULL: _no_keys,
    }
    assert t in others, f"{t} has no order"
    return others[t]


def _stored_numbers(values: pa.Array, buffers: Buffers, dtype: Any) -> npt.NDArray[Any]:
    """The numbers of a fixed-width array as they lie in memory; any number where it is NULL."""
    numbers = np.frombuffer(buffers[1], dtype, len(values), values.offset * np.dtype(dtype).itemsize)
    numbers.flags.writeable = False
    return numbers


def _double_keys(values: pa.Array, buffers: Buffers) -> Keys:
    keys = np.empty(len(values), np.int64)
    float_places(_stored_numbers(values, buffers, np.int64), keys)
    return keys


def _float_keys(values: pa.Array, buffers: Buffers) -> Keys:
    with np.errstate(invalid="ignore"):  # a signalling NaN is NaN like any other
        return float_keys(_stored_numbers(values, buffers, np.float32).astype(np.float64))


def _boolean_keys(values: pa.Array, buffers: Buffers) -> Keys:
    return bitmap_bits(buffers[1], values.offset, len(values)).astype(np.int64)


def _no_keys(values: pa.Array, buffers: Buffers) -> Keys:
    return np.zeros(len(values), np.int64)


def _halves(values: pa.Array, buffers: Buffers) -> Keys:
    """Low and high 64 bits of each decimal, in turn."""
    halves = np.frombuffer(buffers[1], np.int64, 2 * len(values), 16 * values.offset)
    halves.flags.writeable = False
    return halves


def _wide_keys(values: pa.Array, buffers: Buffers, constants: Keys) -> Keys:
    keys = np.empty(len(values), np.int64)
    wide_places(_halves(values, buffers), constants, keys)
    return keys


def _byte_keys(values: pa.Array, buffers: Buffers, constants: Sequence[npt.NDArray[Any]]) -> Keys:
    keys = np.empty(len(values), np.int64)
    offsets, data = _strings(values, buffers)
    constant_offsets, constant_data, words, children, nodes = constants
    byte_places(offsets, data, constant_offsets, constant_data, words, children, nodes, keys)
    return keys


def _strings(values: pa.Array, buffers: Buffers) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Offsets and data of a string or binary array."""
    offsets = np.frombuffer(buffers[1], np.int32, len(values) + 1, 4 * values.offset)
    offsets.flags.writeable = False
    data = np.frombuffer(buffers[2] if buffers[2] is not None else b"", np.uint8)
    if len(data) < _LEAST_BYTES:
        data = np.append(data, np.zeros(_LEAST_BYTES, np.uint8))
    data.flags.writeable = False
    return offsets, data


def _null_mask(values: pa.Array, buffers: Buffers) -> Mask:
    if buffers[0] is None:  # of type VOID
        return np.ones(len(values), dtype=bool)
    return bitmap_bits(buffers[0], values.offset, len(values)) == 0


# ----------------------------------------------------------------------------------------------- constants


def _sorted_constants(constants: pa.Array) -> dict[str, npt.NDArray[Any]]:
    if _is_bytes(constants.type):
        return _sorted_strings(constants)
    return {"halves": _sorted_halves(constants)} if is_wide_decimal(constants.type) else {}


def _sorted_halves(constants: pa.Array) -> Keys:
    """Distinct decimals, ascending."""
    known = constants.drop_null()
    if not len(known):
        return np.empty(0, np.int64)
    low, high = _halves(known, known.buffers()).reshape(-1, 2).T
    order = np.lexsort((low.view(np.uint64), high))
    low, high = low[order], high[order]
    is_new = np.append(True, (low[1:] != low[:-1]) | (high[1:] != high[:-1]))
    return np.column_stack((low[is_new], high[is_new])).ravel()


def _sorted_strings(constants: pa.Array) -> dict[str, npt.NDArray[Any]]:
    """Distinct strings, ascending, and their word tree."""
    known = constants.drop_null()
    if len(known):
        known = known.take(pa.array(ascending(*_strings(known, known.buffers()))))
    offsets, data = _strings(known, known.buffers())
    words, children, nodes = word_tree(offsets, data)
    return {"offsets": offsets, "data": data, "words": words, "children": children, "nodes": nodes}
