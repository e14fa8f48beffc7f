"""Columns that grow at one end and shrink at the other, each in one stretch of memory.

Rows are appended in small batches, fetched from anywhere and forgotten from the oldest on. An Arrow column would be thousands of
chunks by then, so numbers and texts are copied into arrays with room behind; nested values stay in Arrow, in few chunks.

The caller gives the place at which a column reads and writes. Rows are counted from the first one its arrays have room for,
which only `move` changes.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.joins.keys import null_mask, stored_numbers, text_buffers
from eddyline.kernels import gather_bytes, gathered_offsets
from eddyline.types import BINARY, BOOLEAN, STRING, is_nested

Ints = npt.NDArray[np.int64]

MOST_TEXT = (1 << 31) - 1  # bytes in an Arrow array of texts
_LEAST_BYTES = 256  # room for texts
_MARGIN = 1.25  # room for texts, in terms of those held
_MOST_SPARE = 4  # times the texts held
# by bits; 16 bytes are moved as a complex number
_BY_WIDTH: dict[int, Any] = {
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
    128: np.dtype(np.complex128),
}


class StoredColumn(Protocol):
    """The values of one column."""

    type: pa.DataType

    def append(self, at: int, values: pa.Array) -> None:
        """Have these values as rows from `at` on. There is room for them; what was there is overwritten."""

    def take(self, rows: Ints, start: int = 0) -> pa.Array:
        """The values of these rows, counted from `start` on, in this order."""

    def move(self, start: int, end: int, room: int) -> None:
        """Rows `start` to `end` become the first ones, with room for so many in all."""

    def keep(self, rows: Ints, room: int) -> None:
        """These rows become the first ones, with room for so many in all."""

    @property
    def nbytes(self) -> int: ...


def column_of(t: pa.DataType, room: int) -> StoredColumn:
    """A column with room for so many rows."""
    if t in (STRING, BINARY):
        return TextColumn(t, room)
    if is_nested(t) or t.id == pa.null().id or not _has_width(t):
        return ArrowColumn(t)
    return FixedColumn(t, room)


def _has_width(t: pa.DataType) -> bool:
    return (
        t == BOOLEAN or (pa.types.is_primitive(t) and t.bit_width in _BY_WIDTH) or pa.types.is_decimal128(t)
    )


class _Validity:
    """Which rows are not NULL; takes no memory until one is."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._is_valid: npt.NDArray[np.uint8] | None = None

    def append(self, at: int, values: pa.Array) -> None:
        is_null = null_mask(values)
        if is_null is not None and self._is_valid is None:
            self._is_valid = np.ones(self._room, np.uint8)
        if self._is_valid is not None:
            self._is_valid[at : at + len(values)] = 1 if is_null is None else ~is_null

    def validity_buffer(self, rows: Ints, start: int) -> pa.Buffer | None:
        if self._is_valid is None:
            return None
        return pa.py_buffer(np.packbits(self._is_valid[start:][rows], bitorder="little"))

    def move(self, start: int, end: int, room: int) -> None:
        self._room = room
        if self._is_valid is not None:
            self._is_valid = shifted_range(self._is_valid, start, end, room)

    def keep(self, rows: Ints, room: int) -> None:
        self._room = room
        if self._is_valid is not None:
            self._is_valid = gathered_rows(self._is_valid, rows, room)

    @property
    def nbytes(self) -> int:
        return 0 if self._is_valid is None else self._is_valid.nbytes


class FixedColumn:
    """Values that take equally much memory each."""

    def __init__(self, t: pa.DataType, room: int) -> None:
        self.type = t
        self._is_boolean = t == BOOLEAN
        self._dtype = _BY_WIDTH[8 if self._is_boolean else t.bit_width]
        self._values = np.empty(room, self._dtype)
        self._validity = _Validity(room)

    def append(self, at: int, values: pa.Array) -> None:
        n = len(values)
        if not n:
            return
        if self._is_boolean:
            self._values[at : at + n] = values.cast(pa.uint8()).fill_null(0).to_numpy()
        else:
            self._values[at : at + n] = stored_numbers(values, self._dtype)
        self._validity.append(at, values)

    def take(self, rows: Ints, start: int = 0) -> pa.Array:
        found = self._values[start:][rows]
        if self._is_boolean:
            found = np.packbits(found, bitorder="little")
        return pa.Array.from_buffers(
            self.type, len(rows), [self._validity.validity_buffer(rows, start), pa.py_buffer(found)]
        )

    def move(self, start: int, end: int, room: int) -> None:
        self._values = shifted_range(self._values, start, end, room)
        self._validity.move(start, end, room)

    def keep(self, rows: Ints, room: int) -> None:
        self._values = gathered_rows(self._values, rows, room)
        self._validity.keep(rows, room)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._validity.nbytes


class TextColumn:
    """Texts, or bytes. Those of row k lie from `_ends[k]` to `_ends[k + 1]`, both less `_n_dropped_bytes`."""

    def __init__(self, t: pa.DataType, room: int) -> None:
        self.type = t
        self._ends = np.zeros(room + 1, np.int64)
        self._data = np.zeros(_LEAST_BYTES, np.uint8)
        self._n_dropped_bytes = 0
        self._validity = _Validity(room)

    def append(self, at: int, values: pa.Array) -> None:
        n = len(values)
        if not n:
            return
        offsets, data = text_buffers(values)
        begin, end = int(offsets[0]), int(offsets[n])
        start = int(self._ends[at])
        self._ends[at + 1 : at + n + 1] = offsets[1:]
        self._ends[at + 1 : at + n + 1] += start - begin
        stop = start + end - begin - self._n_dropped_bytes
        if stop > len(self._data):
            self._make_room(at, stop)
            stop = start + end - begin - self._n_dropped_bytes
        self._data[start - self._n_dropped_bytes : stop] = data[begin:end]
        self._validity.append(at, values)

    def _make_room(self, at: int, stop: int) -> None:
        """Drop texts before that of the first row: those of the rows up to `at` move to the beginning, and room follows."""
        first, last = int(self._ends[0]), int(self._ends[at])
        needed = stop - (first - self._n_dropped_bytes)
        is_fitting = _MARGIN * needed <= len(self._data) <= _MOST_SPARE * needed
        room = len(self._data) if is_fitting else int(_MARGIN * needed) + _LEAST_BYTES
        self._data = shifted_range(
            self._data, first - self._n_dropped_bytes, last - self._n_dropped_bytes, room
        )
        self._n_dropped_bytes = first

    def take(self, rows: Ints, start: int = 0) -> pa.Array:
        offsets, ends = np.empty(len(rows) + 1, np.int32), self._ends[start:]
        n_bytes = gathered_offsets(ends, rows, offsets)
        assert n_bytes <= MOST_TEXT, f"{n_bytes:,} bytes of text in one array"
        found = np.empty(n_bytes, np.uint8)
        gather_bytes(ends, self._data, self._n_dropped_bytes, rows, offsets, found)
        buffers = [self._validity.validity_buffer(rows, start), pa.py_buffer(offsets), pa.py_buffer(found)]
        return pa.Array.from_buffers(self.type, len(rows), buffers)

    def move(self, start: int, end: int, room: int) -> None:
        self._ends = shifted_range(self._ends, start, end + 1, room + 1)
        self._validity.move(start, end, room)
        n_bytes = int(self._ends[end - start] - self._ends[0])
        if len(self._data) > _MOST_SPARE * n_bytes + _LEAST_BYTES:
            self._make_room(end - start, n_bytes + int(self._ends[0]) - self._n_dropped_bytes)

    def keep(self, rows: Ints, room: int) -> None:
        lengths = np.diff(self._ends)[rows]
        texts = self.take(rows)
        self._ends = np.zeros(room + 1, np.int64)
        np.cumsum(lengths, out=self._ends[1 : len(rows) + 1])
        self._validity.keep(rows, room)
        self._data, self._n_dropped_bytes = np.zeros(int(_MARGIN * lengths.sum()) + _LEAST_BYTES, np.uint8), 0
        _, data = text_buffers(texts)
        self._data[: self._ends[len(rows)]] = data[: self._ends[len(rows)]]

    @property
    def nbytes(self) -> int:
        return self._ends.nbytes + self._data.nbytes + self._validity.nbytes


class ArrowColumn:
    """Nested values, as Arrow has them, in chunks. One is joined with the one before it while that is less than twice as long."""

    def __init__(self, t: pa.DataType) -> None:
        self.type = t
        self._chunks: list[pa.Array] = []

    def append(self, at: int, values: pa.Array) -> None:
        self._truncate(at)
        if len(values):
            self._chunks.append(values)
        while len(self._chunks) > 1 and len(self._chunks[-2]) < 2 * len(self._chunks[-1]):
            self._chunks[-2:] = [pa.concat_arrays(self._chunks[-2:])]

    def _truncate(self, end: int) -> None:
        n = sum(len(chunk) for chunk in self._chunks)
        assert end <= n, f"row {end} behind the last of {n}"
        while n > end:
            last = self._chunks.pop()
            n -= len(last)
            if n < end:
                self._chunks.append(last.slice(0, end - n))
                n = end

    def take(self, rows: Ints, start: int = 0) -> pa.Array:
        found = pa.chunked_array(self._chunks, self.type).take(pa.array(rows + start))
        return found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)

    def move(self, start: int, end: int, room: int) -> None:
        self._truncate(end)
        while start:
            first = self._chunks.pop(0)
            if len(first) > start:
                self._chunks.insert(0, first.slice(start))
                break
            start -= len(first)

    def keep(self, rows: Ints, room: int) -> None:
        self._chunks = [self.take(rows)] if len(rows) else []

    @property
    def nbytes(self) -> int:
        return sum(int(chunk.nbytes) for chunk in self._chunks)


def shifted_range(array: npt.NDArray[Any], start: int, end: int, room: int) -> npt.NDArray[Any]:
    """Elements `start` to `end` at the beginning of an array of that length; of the same one, if it is."""
    target = array if len(array) == room else np.empty((room, *array.shape[1:]), array.dtype)
    target[: end - start] = array[start:end]
    return target


def gathered_rows(array: npt.NDArray[Any], rows: Ints, room: int) -> npt.NDArray[Any]:
    """These elements at the beginning of a new array of that length."""
    target = np.empty((room, *array.shape[1:]), array.dtype)
    target[: len(rows)] = array[rows]
    return target
