"""Values of any type by entry, and the order of values as integers.

Values of fixed width stand in an array. Others are in a pool that only grows; once more than half of it is unused, the rest is
copied together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types
from eddyline.aggregates.accumulators import decimal_limbs, decimals, doubles, grown, integers, masked
from eddyline.aggregates.rows import Ints
from eddyline.kernels import ascending

_SIGN_BIT = np.uint64(1 << 63)
_BELOW_SIGN = (1 << 63) - 1
MIN_POOL = 1024  # values: a smaller pool is not compacted
_WORD_TYPES = (types.BOOLEAN, types.DATE, types.TIMESTAMP, types.TIMESTAMP_NTZ, types.INTERVAL)


def has_words(t: pa.DataType) -> bool:
    """Whether integers have the order of the values of a type, and say which value it is."""
    return types.is_numeric(t) or t in _WORD_TYPES


def n_words(t: pa.DataType) -> int:
    return 2 if types.is_decimal(t) else 1


def order_words(column: pa.Array) -> Ints:
    """Lines of integers in the order of values that are not NULL: NaN above all numbers, -0.0 equal to 0.0."""
    t = column.type
    if types.is_decimal(t):
        limbs = decimal_limbs(column)
        return np.stack((limbs[:, 1], limbs[:, 0] ^ _SIGN_BIT), axis=1).view(np.int64)
    if types.is_floating(t):
        numbers = doubles(column) + 0.0
        bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
        return np.asarray(bits ^ ((bits >> 63) & _BELOW_SIGN)).reshape(-1, 1)
    return integers(column.cast(pa.int8()) if t == types.BOOLEAN else column).reshape(-1, 1)


def values_of_words(words: Ints, t: pa.DataType) -> pa.Array:
    """The inverse of `order_words`."""
    if types.is_decimal(t):
        limbs = words.view(np.uint64)
        return decimals(np.stack((limbs[:, 1] ^ _SIGN_BIT, limbs[:, 0]), axis=1), t)
    word = np.ascontiguousarray(words[:, 0])
    if types.is_floating(t):
        return pa.array((word ^ ((word >> 63) & _BELOW_SIGN)).view(np.float64)).cast(t)
    if t == types.BOOLEAN:
        return pa.array(word != 0)
    numbers = pa.array(word)
    return numbers.cast(pa.int32()).cast(t) if t == types.DATE else numbers.cast(t)


def ranks(column: pa.Array) -> Ints:
    """Texts, bytes or decimals that are not NULL as integers in their order: texts by code point, as their bytes are."""
    if types.is_decimal(column.type):
        return np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
    encoded = column.cast(types.BINARY).dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[ascending(*offsets_and_data(encoded.dictionary))] = np.arange(len(rank))
    return rank[encoded.indices.to_numpy()]


def offsets_and_data(texts: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Where bytes begin and end, and the bytes themselves, eight at least, as kernels read them."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, count=texts.offset + len(texts) + 1)[texts.offset :]
    if data is None or data.size < 8:
        return bounds, np.frombuffer((b"" if data is None else data.to_pybytes()).ljust(8), np.uint8)
    return bounds, np.frombuffer(data, np.uint8)


def values_of(t: pa.DataType) -> FixedValues | PooledValues:
    """Room for values of a type."""
    return FixedValues(t) if has_words(t) else PooledValues(t)


class FixedValues:
    """Values of fixed width, with a mark where they are not NULL."""

    def __init__(self, t: pa.DataType) -> None:
        self._type = t
        width = 2 if types.is_decimal(t) else 1
        dtype: npt.DTypeLike = np.int64 if width == 2 else np.dtype(_stored(t).to_pandas_dtype())
        self._data: npt.NDArray[Any] = np.zeros((0, width), dtype)
        self._is_valid = np.zeros(0, np.bool_)

    def resize(self, n: int) -> None:
        self._data, self._is_valid = grown(self._data, n), grown(self._is_valid, n)

    def put(self, entries: Ints, column: pa.Array) -> None:
        valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
        self._is_valid[entries] = valid
        if types.is_decimal(self._type):
            self._data[entries] = decimal_limbs(column).view(np.int64)
        else:
            stored = column.cast(_stored(self._type)).fill_null(0)
            self._data[entries, 0] = stored.to_numpy(zero_copy_only=False)

    def take(self, entries: Ints) -> pa.Array:
        data = self._data[entries]
        if types.is_decimal(self._type):
            values = decimals(data.view(np.uint64), self._type)
        else:
            values = pa.array(data[:, 0]).cast(self._type)
        return masked(values, self._is_valid[entries])

    def clear(self, entries: Ints) -> None:
        self._is_valid[entries] = False

    @property
    def nbytes(self) -> int:
        return self._data.nbytes + self._is_valid.nbytes


def _stored(t: pa.DataType) -> pa.DataType:
    """The number that a value is stored as."""
    if t == types.BOOLEAN:
        return pa.int8()
    if t == types.DATE:
        return pa.int32()
    return t if types.is_numeric(t) else pa.int64()


class Pool:
    """Values of any type by place. A place holds until the pool is compacted; below 0 it is that of NULL.

    The values are in chunks, each more than twice as long as the next, so a value is copied a logarithmic number of times.
    """

    def __init__(self, t: pa.DataType) -> None:
        self._chunks = [pa.array([], t)]

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def add(self, column: pa.Array) -> Ints:
        """The places that these values get."""
        places = len(self) + np.arange(len(column))
        places[np.asarray(column.is_null().to_numpy(zero_copy_only=False))] = -1
        self._chunks.append(column)
        while len(self._chunks) > 1 and len(self._chunks[-2]) <= 2 * len(self._chunks[-1]):
            self._chunks[-2:] = [pa.concat_arrays(self._chunks[-2:])]
        return places

    def take(self, places: Ints) -> pa.Array:
        starts = np.cumsum([0, *map(len, self._chunks)])
        chunk_of = np.searchsorted(starts[1:-1], places, side="right")
        order = np.argsort(chunk_of, kind="stable")
        bounds = np.searchsorted(chunk_of[order], np.arange(len(self._chunks) + 1))
        parts = []
        for at, chunk in enumerate(self._chunks):
            inside = places[order[bounds[at] : bounds[at + 1]]]
            parts.append(chunk.take(pa.array(inside - starts[at], mask=inside < 0)))
        position = np.empty(len(places), np.int64)
        position[order] = np.arange(len(places))
        return pa.concat_arrays(parts).take(pa.array(position))

    def compact(self, places: Ints) -> Ints:
        """Only the values at these places stay; they get new ones."""
        used, position = np.unique(places, return_inverse=True)
        n_null = np.searchsorted(used, 0)
        self._chunks = [self.take(used[n_null:])]
        return np.maximum(position.reshape(-1) - n_null, -1)

    @property
    def nbytes(self) -> int:
        return sum(int(chunk.nbytes) for chunk in self._chunks)


class PooledValues:
    """Values of any width: by entry one more than the place in a pool, 0 where it is NULL."""

    def __init__(self, t: pa.DataType) -> None:
        self._pool = Pool(t)
        self._end = np.zeros(0, np.int64)

    def resize(self, n: int) -> None:
        self._end = grown(self._end, n)

    def put(self, entries: Ints, column: pa.Array) -> None:
        self._end[entries] = self._pool.add(column) + 1
        if len(self._pool) > MIN_POOL + 2 * np.count_nonzero(self._end):
            self._end = self._pool.compact(self._end - 1) + 1

    def take(self, entries: Ints) -> pa.Array:
        return self._pool.take(self._end[entries] - 1)

    def clear(self, entries: Ints) -> None:
        self._end[entries] = 0

    @property
    def nbytes(self) -> int:
        return self._end.nbytes + self._pool.nbytes
