"""Distinct keys of groups and partitions as dense numbers, whatever their columns are.

A key becomes words of 64 bits: which of its columns are NULL, then a word for each number, truth value, date or time, two for a
decimal, and for a text its length and its bytes. Words are equal where keys are: NULL equals NULL, NaN equals NaN, and -0.0
equals 0.0, as which it is kept. Arrays, structs and maps go through Python objects, value by value.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.aggregates.key_table import KeyTable, KeyWords, fixed_words
from eddyline.aggregates.rows import Ints, Mask
from eddyline.kernels import NOTHING, copy_runs, float_places, read_only
from eddyline.types import is_decimal, is_floating, is_nested, python_values

NULLS_PER_WORD = 63  # columns
_WORD_BYTES = 8


class Keys:
    """Numbers of keys with the columns of a schema; no column: one key. Numbers of keys that left are given to others."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.table = KeyTable()

    def __len__(self) -> int:
        return len(self.table)

    def number(self, rows: pa.RecordBatch) -> Ints:
        """The number of the key of each row, given to those that have none; taken back by `rollback`."""
        return self.table.number(self._words(rows))

    def find(self, rows: pa.RecordBatch) -> Ints:
        """The number of the key of each row, -1 where it has none."""
        return self.table.find(self._words(rows))

    def beyond(self, rows: pa.RecordBatch, most: int) -> Mask:
        """Which rows have a key that is new, when with those before it there are more than so many."""
        found = np.zeros(len(rows), dtype=bool)
        if len(self) + len(rows) > most:
            new = np.flatnonzero(self.find(rows) == NOTHING)
            order_of_key = Keys(self.schema).number(rows.take(pa.array(new)))
            found[new] = order_of_key >= most - len(self)
        return found

    def remove(self, numbers: Ints) -> None:
        """Take out these keys."""
        self.table.remove(numbers)

    def commit(self) -> None:
        self.table.commit()

    def rollback(self) -> None:
        self.table.rollback()

    def columns(self, numbers: Ints) -> pa.RecordBatch:
        """The keys with these numbers."""
        keys = self.table.words_of(numbers)
        n_null_words = _n_null_words(len(self.schema))
        at, arrays = keys.offsets[:-1] + n_null_words, []
        for place, field in enumerate(self.schema):
            word, bit = divmod(place, NULLS_PER_WORD)
            is_null = (keys.words[keys.offsets[:-1] + word] >> bit & 1).astype(bool)
            array, at = _decoded(field.type, keys.words, at, is_null)
            arrays.append(array)
        return _batch(arrays, self.schema, len(numbers))

    def order(self, numbers: Ints, *before: Ints) -> Ints:
        """Places of entries in canonical order: first by the columns `before`, then by key as Spark sorts."""
        columns = [pa.array(column) for column in before]
        for array in self.columns(numbers).columns:
            columns += _sortable(array)
        if not columns:
            return np.arange(len(numbers))
        names = [str(place) for place in range(len(columns))]
        table = pa.table(columns, names=names)
        keys: list[tuple[str, str]] = [(name, "ascending") for name in names]
        order = pc.sort_indices(table, sort_keys=keys)
        return np.asarray(order).astype(np.int64)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes

    def check(self) -> None:
        """Assert that keys are found by their values."""
        self.table.check()
        live = self.table.live
        assert (self.find(self.columns(live)) == live).all(), "a key is not found by its values"

    def _words(self, rows: pa.RecordBatch) -> KeyWords:
        arrays = [rows.column(field.name) for field in self.schema]
        return _encoded(
            [_plain(array, f.type) for array, f in zip(arrays, self.schema, strict=True)], len(rows)
        )


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema, n: int) -> pa.RecordBatch:
    """A batch of n rows, also if it has no columns."""
    if not len(schema):
        return pa.RecordBatch.from_struct_array(pa.array([{}] * n, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain(array: pa.Array, t: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array if array.type == t else array.cast(t)


def _n_null_words(n_columns: int) -> int:
    return -(-n_columns // NULLS_PER_WORD)


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_binary(t))


# ----------------------------------------------------------------------------------------------- into words


def value_words(column: pa.Array, t: pa.DataType) -> KeyWords:
    """Values of a type that are not NULL as keys."""
    return _encoded([_plain(column, t)], len(column))


def _encoded(arrays: Sequence[pa.Array], n: int) -> KeyWords:
    nulls = [np.zeros(n, np.int64) for _ in range(_n_null_words(len(arrays)))]
    parts: list[Ints | KeyWords] = [*nulls]
    for place, array in enumerate(arrays):
        is_null = _null_mask(array)
        if is_null is not None:
            word, bit = divmod(place, NULLS_PER_WORD)
            nulls[word] |= is_null.astype(np.int64) << bit
        if _is_text(array.type):
            parts.append(_text_words(array))
        elif is_nested(array.type):
            parts.append(_text_words(_pickled(array)))
        else:
            parts += _number_words(array, is_null)
    return _joined(parts, n)


def _joined(parts: Sequence[Ints | KeyWords], n: int) -> KeyWords:
    """Keys whose words are those of the parts, one behind the other."""
    columns = [part for part in parts if isinstance(part, np.ndarray)]
    if len(columns) == len(parts):
        return (
            fixed_words(*columns) if columns else KeyWords(np.empty(0, np.int64), np.zeros(n + 1, np.int64))
        )
    runs = [fixed_words(part) if isinstance(part, np.ndarray) else part for part in parts]
    lengths = [np.diff(run.offsets) for run in runs]
    offsets = np.append(0, np.cumsum(np.sum(lengths, axis=0)))
    words, at = np.empty(int(offsets[-1]), np.int64), offsets[:-1].copy()
    for run, length in zip(runs, lengths, strict=True):
        copy_runs(run.words, run.offsets[:-1], at, length, words)
        at += length
    return KeyWords(words, offsets)


def _number_words(array: pa.Array, is_null: Mask | None) -> list[Ints]:
    """The words of a column of fixed width, 0 where it is NULL."""
    t = array.type
    if pa.types.is_null(t):
        return []
    if is_decimal(t):
        halves = np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), 16 * array.offset)
        words = [halves[::2].copy(), halves[1::2].copy()]
    elif is_floating(t):
        numbers = np.asarray(array.cast(pa.float64()).fill_null(0.0)) + 0.0  # -0.0 + 0.0 is 0.0
        words = [np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)]
    else:
        words = [_integers(array)]
    if is_null is not None:
        for column in words:
            column[is_null] = 0
    return words


def _integers(array: pa.Array) -> Ints:
    """Whole numbers, truth values, dates, times and intervals as integers; anything where it is NULL."""
    t = array.type
    if pa.types.is_date32(t):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(t) or pa.types.is_duration(t):
        array = array.view(pa.int64())
    assert pa.types.is_integer(array.type) or pa.types.is_boolean(t), f"{t} is no type of a group"
    return np.array(array.cast(pa.int64()).fill_null(0))


def _text_words(array: pa.Array) -> KeyWords:
    """The length of each text in bytes, and its bytes, the last word filled with zeros."""
    array = array.cast(pa.binary()).fill_null(b"")
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)
    n_bytes = np.diff(ends)
    begins = np.append(0, np.cumsum(1 + -(-n_bytes // _WORD_BYTES)))
    words = np.zeros(int(begins[-1]), np.int64)
    words[begins[:-1]] = n_bytes
    source = read_only(np.frombuffer(data if data is not None else b"", np.uint8))
    copy_runs(source, ends[:-1], _WORD_BYTES * (begins[:-1] + 1), n_bytes, words.view(np.uint8))
    return KeyWords(words, begins)


def _pickled(array: pa.Array) -> pa.Array:
    """Nested values as bytes that are equal where the values are."""
    return pa.array([None if value is None else _bytes(value) for value in python_values(array)], pa.binary())


def _bytes(value: Any) -> bytes:
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=4)
    pickler.fast = True  # no references between equal parts, which would tell apart what is equal
    pickler.dump(_canonical(value))
    return stream.getvalue()


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _canonical(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_canonical(part) for part in value)
    if isinstance(value, float):
        return float("nan") if value != value else value + 0.0
    return value


# ----------------------------------------------------------------------------------------------- and back


def _decoded(t: pa.DataType, words: Ints, at: Ints, is_null: Mask) -> tuple[pa.Array, Ints]:
    """A column of keys whose words are at these places, and the places behind."""
    n = len(at)
    if pa.types.is_null(t):
        return pa.nulls(n), at
    if _is_text(t):
        return _texts(t, words, at, is_null), at + 1 + -(-words[at] // _WORD_BYTES)
    if is_nested(t):
        texts, behind = _decoded(pa.binary(), words, at, is_null)
        return pa.array([None if v is None else pickle.loads(v) for v in texts.to_pylist()], t), behind
    if is_decimal(t):
        halves = np.ascontiguousarray(np.stack([words[at], words[at + 1]], axis=1))
        buffers = [_validity(is_null), pa.py_buffer(halves)]
        return pa.Array.from_buffers(t, n, buffers), at + 2
    return _numbers(t, words[at], is_null), at + 1


def _numbers(t: pa.DataType, words: Ints, is_null: Mask) -> pa.Array:
    if is_floating(t):
        return pa.array(words.view(np.float64), mask=is_null).cast(t)
    if pa.types.is_boolean(t):
        return pa.array(words != 0, mask=is_null)
    if pa.types.is_date32(t):
        return pa.array(words.astype(np.int32), mask=is_null).view(t)
    numbers = pa.array(words, mask=is_null)
    return numbers.cast(t) if pa.types.is_integer(t) else numbers.view(t)


def _texts(t: pa.DataType, words: Ints, at: Ints, is_null: Mask) -> pa.Array:
    n_bytes = words[at]
    ends = np.append(0, np.cumsum(n_bytes))
    data = np.empty(int(ends[-1]), np.uint8)
    copy_runs(words.view(np.uint8), _WORD_BYTES * (at + 1), ends[:-1], n_bytes, data)
    buffers = [_validity(is_null), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(t, len(at), buffers)


def _null_mask(array: pa.Array) -> Mask | None:
    return np.asarray(array.is_null()).astype(bool) if array.null_count else None


def _validity(is_null: Mask) -> pa.Buffer | None:
    return pa.array(~is_null).buffers()[1] if is_null.any() else None


def _sortable(array: pa.Array) -> list[pa.Array]:
    """Columns that Arrow sorts as Spark sorts this one: NULL first, NaN last."""
    t = array.type
    if pa.types.is_null(t):
        return []
    is_there = [array.is_valid()] if array.null_count else []
    if is_floating(t):
        places = np.empty(len(array), np.int64)
        float_places(read_only(_number_words(array, None)[0]), places)
        return [*is_there, pa.array(places)]
    if is_nested(t):  # Arrow has no order of them: that of their texts
        return [*is_there, pa.array([repr(value) for value in python_values(array)])]
    return [*is_there, array]
