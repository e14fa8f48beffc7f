"""Codes: the values of a join key as 64-bit integers, equal where the values are.

A number, a date, a time or a truth value is its own code, and so is a text of seven bytes or less. Longer texts, decimals of more
than 18 digits and keys of several columns are hashed; what has equal codes is then compared.

Equality is SQL's: NaN equals itself, -0.0 equals 0.0, text is equal where its bytes are, and NULL equals nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.expressions import bitmap_bits
from eddyline.kernels import byte_codes, float_places, same_bytes
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
    TINYINT,
    is_decimal,
    is_wide_decimal,
)

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LEAST_BYTES = 8  # of the data of texts, so that a kernel may always load a word
_ODD = np.uint64(0x9E3779B97F4A7C15)
_TURN = np.uint64(32)
# how the types whose values are their codes lie in memory; by id, as looking up a type takes longer than all else for 100 rows
_STORED_AS: dict[int, np.dtype[Any]] = {
    TINYINT.id: np.dtype(np.int8),
    SMALLINT.id: np.dtype(np.int16),
    INT.id: np.dtype(np.int32),
    BIGINT.id: np.dtype(np.int64),
    DATE.id: np.dtype(np.int32),
    TIMESTAMP.id: np.dtype(np.int64),
    INTERVAL.id: np.dtype(np.int64),
}


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of some rows; where `is_null`, the code means nothing."""

    codes: npt.NDArray[np.int64]
    is_null: Mask | None  # None: no row is
    is_exact: bool  # equal codes mean equal values

    def __len__(self) -> int:
        return len(self.codes)


def codes_of(arrays: Sequence[pa.Array]) -> Codes:
    """Codes of the keys that these columns are, one column or more. A key is NULL if it is in any of them."""
    assert arrays, "a key has a column at least"
    if len(arrays) == 1:
        return _column_codes(arrays[0])
    total = np.zeros(len(arrays[0]), np.uint64)
    is_null: Mask | None = None
    for array in arrays:
        column = _column_codes(array)
        total ^= total >> _TURN
        total *= _ODD
        total ^= column.codes.view(np.uint64)
        if column.is_null is not None:
            is_null = column.is_null if is_null is None else is_null | column.is_null
    return Codes(total.view(np.int64), is_null, is_exact=False)


def can_be_hashed(types: Sequence[pa.DataType]) -> bool:
    """Whether codes of such a key may have to be compared further."""
    return len(types) > 1 or types[0] in (STRING, BINARY) or is_wide_decimal(types[0])


def same(left: Sequence[pa.Array], i: Rows, right: Sequence[pa.Array], j: Rows) -> Mask:
    """For each k, whether row i[k] of the left key equals row j[k] of the right one. Columns are in the same order."""
    assert len(i) == len(j), f"{len(i)} rows on the left, {len(j)} on the right"
    found = np.ones(len(i), dtype=bool)
    if len(i):
        for a, b in zip(left, right, strict=True):
            found &= _same_in_column(_plain(a), i, _plain(b), j)
    return found


# ----------------------------------------------------------------------------------------------- one column


def _column_codes(array: pa.Array) -> Codes:
    t = array.type
    stored = _STORED_AS.get(t.id)
    n = len(array)
    if stored is not None and n:
        return Codes(stored_numbers(array, stored).astype(np.int64), null_mask(array), is_exact=True)
    if pa.types.is_dictionary(t):
        return _dictionary_codes(array)
    array = _plain(array)
    t = array.type
    if not n:
        return Codes(np.empty(0, np.int64), None, is_exact=True)
    if t in (STRING, BINARY):
        codes = np.empty(n, np.int64)
        n_hashed = byte_codes(*text_buffers(array), codes)
        return Codes(codes, null_mask(array), is_exact=n_hashed == 0)
    if is_wide_decimal(t):
        low, high = _halves(array)
        folded = low.view(np.uint64) ^ (high.view(np.uint64) * _ODD)
        return Codes(folded.view(np.int64), null_mask(array), is_exact=False)
    return Codes(_exact_codes(array), null_mask(array), is_exact=True)


def _exact_codes(array: pa.Array) -> npt.NDArray[np.int64]:
    """Codes of one value or more of a type that fits 64 bits."""
    t, n = array.type, len(array)
    if t in (DOUBLE, FLOAT):
        return _float_codes(array)
    if t == BOOLEAN:
        return bitmap_bits(array.buffers()[1], array.offset, n).astype(np.int64)
    if t == NULL:
        return np.zeros(n, np.int64)
    low, _ = _halves(array)
    return low.copy()


def _dictionary_codes(array: pa.DictionaryArray) -> Codes:
    entries = _column_codes(array.dictionary)
    if not len(entries):
        return Codes(np.zeros(len(array), np.int64), np.ones(len(array), dtype=bool), is_exact=True)
    at = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
    is_null = null_mask(array.indices)
    if entries.is_null is not None:
        is_null = entries.is_null[at] if is_null is None else is_null | entries.is_null[at]
    return Codes(entries.codes[at], is_null, entries.is_exact)


def _same_in_column(left: pa.Array, i: Rows, right: pa.Array, j: Rows) -> Mask:
    t = left.type
    if t in (STRING, BINARY):
        found = np.empty(len(i), dtype=bool)
        same_bytes(*text_buffers(left), i, *text_buffers(right), j, found)
    elif is_decimal(t):
        (low, high), (other_low, other_high) = _halves(left), _halves(right)
        found = (low[i] == other_low[j]) & (high[i] == other_high[j])
    else:
        found = _column_codes(left).codes[i] == _column_codes(right).codes[j]
    for array, rows in ((left, i), (right, j)):
        is_null = null_mask(array)
        if is_null is not None:
            found &= ~is_null[rows]
    return found


def _plain(array: pa.Array) -> pa.Array:
    """The array in the layout of its SQL type, which has to be one that values can be compared in."""
    t = array.type
    if pa.types.is_dictionary(t):
        return _plain(array.dictionary_decode())
    if pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return array.cast(STRING)
    if pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return array.cast(BINARY)
    is_known = t.id in _STORED_AS or t in (STRING, BINARY, DOUBLE, FLOAT, BOOLEAN, NULL) or is_decimal(t)
    assert is_known, f"{t} is no type of a join key"
    return array


# ----------------------------------------------------------------------------------------------- what lies in memory


def null_mask(array: pa.Array) -> Mask | None:
    """The rows that are NULL; None if no row is."""
    if not array.null_count:
        return None
    validity = array.buffers()[0]
    if validity is None:  # of type VOID
        return np.ones(len(array), dtype=bool)
    return bitmap_bits(validity, array.offset, len(array)) == 0


def stored_numbers(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The numbers of a fixed-width array as they lie in memory; any number where it is NULL."""
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def text_buffers(array: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Offsets and data of a text or binary array, neither to be written to."""
    _, offset_buffer, data_buffer = array.buffers()
    if offset_buffer is None or not offset_buffer.size:
        offsets = np.zeros(1, np.int32)
    else:
        offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1, 4 * array.offset)
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", np.uint8)
    if len(data) < _LEAST_BYTES:
        data = np.append(data, np.zeros(_LEAST_BYTES, np.uint8))
    offsets.flags.writeable = data.flags.writeable = False
    return offsets, data


def _float_codes(array: pa.Array) -> npt.NDArray[np.int64]:
    if array.type == FLOAT:
        with np.errstate(invalid="ignore"):  # a signalling NaN is NaN like any other
            bits = stored_numbers(array, np.dtype(np.float32)).astype(np.float64).view(np.int64)
    else:
        bits = stored_numbers(array, np.dtype(np.int64))
    bits.flags.writeable = False
    codes = np.empty(len(bits), np.int64)
    float_places(bits, codes)
    return codes


def _halves(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The low and the high 64 bits of decimals."""
    halves = np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), 16 * array.offset)
    return halves[::2], halves[1::2]
