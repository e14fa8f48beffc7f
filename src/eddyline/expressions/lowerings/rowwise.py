"""Functions of single Python values over columns: for what neither Arrow nor NumPy computes.

Each distinct combination of values is computed once per batch, so that a column of few distinct values costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.expressions.frame import MADE_AT_ONCE, ErrorCodes, Evaluation, Frame, RowError
from eddyline.expressions.limits import lengths, value_bytes
from eddyline.types import BINARY, STRING, is_nested

_LARGE = (str, bytes, list)  # values that may take much room


def rowwise(
    function: Callable[..., Any],
    arguments: Sequence[Evaluation],
    frame: Frame,
    to: pa.DataType,
    *,
    takes_null: bool = False,
) -> Evaluation:
    """`function` of the arguments of each row as Python values. Unless it takes NULL (None), NULL gives NULL."""
    columns = [a.values for a in arguments]
    if all(isinstance(c, pa.Scalar) for c in columns):
        values, codes = _mapped_rows(function, [tuple(c.as_py() for c in columns)], frame, to, takes_null)
        return Evaluation(values[0], None if codes is None else np.repeat(codes, frame.n_rows))
    arrays = [c for c in columns if not isinstance(c, pa.Scalar)]
    if len(arrays) == 1 and not is_nested(arrays[0].type):
        return _of_one_column(function, columns, frame, to, takes_null)
    spread = [_python(c, frame.n_rows) for c in columns]
    rows = list(zip(*spread, strict=True))
    if any(is_nested(c.type) for c in columns):
        return Evaluation(*_mapped_rows(function, rows, frame, to, takes_null))
    numbered: dict[Any, int] = {}
    indices = np.fromiter((numbered.setdefault(row, len(numbered)) for row in rows), np.int64, len(rows))
    values, codes = _mapped_rows(function, numbered, frame, to, takes_null)
    return Evaluation(_spread(values, pa.array(indices), frame), None if codes is None else codes[indices])


def _spread(values: pa.Array, indices: pa.Array, frame: Frame) -> pa.Array:
    """Values of distinct combinations on the rows that have them."""
    if values.nbytes * frame.n_rows > MADE_AT_ONCE and values.type in (STRING, BINARY):
        sizes = lengths(values, len(values))[indices.to_numpy(zero_copy_only=False)]
        frame.check_bytes(int(sizes.sum()))
    return values.take(indices)


def _of_one_column(
    function: Callable[..., Any],
    columns: Sequence[pa.Array | pa.Scalar],
    frame: Frame,
    to: pa.DataType,
    takes_null: bool,
) -> Evaluation:
    constants = [c.as_py() if isinstance(c, pa.Scalar) else None for c in columns]
    at = next(k for k, c in enumerate(columns) if not isinstance(c, pa.Scalar))
    encoded = columns[at].dictionary_encode(null_encoding="encode")
    rows = [(*constants[:at], value, *constants[at + 1 :]) for value in encoded.dictionary.to_pylist()]
    values, codes = _mapped_rows(function, rows, frame, to, takes_null)
    if codes is not None:
        codes = codes[encoded.indices.to_numpy(zero_copy_only=False)]
    return Evaluation(_spread(values, encoded.indices, frame), codes)


def _python(column: pa.Array | pa.Scalar, n_rows: int) -> Iterable[Any]:
    return [column.as_py()] * n_rows if isinstance(column, pa.Scalar) else column.to_pylist()


def _mapped_rows(
    function: Callable[..., Any],
    rows: Iterable[tuple[Any, ...]],
    frame: Frame,
    to: pa.DataType,
    takes_null: bool,
) -> tuple[pa.Array, ErrorCodes | None]:
    values: list[Any] = []
    codes: list[int] = []
    nbytes = 0
    for row in rows:
        code, value = 0, None
        if takes_null or None not in row:
            try:
                value = function(*row)
            except RowError as problem:
                code = frame.code(problem.error, problem.message)
        values.append(value)
        codes.append(code)
        if isinstance(value, _LARGE):
            nbytes += value_bytes(value)
            if nbytes > MADE_AT_ONCE:
                frame.check_bytes(nbytes)
    return pa.array(values, to), np.array(codes, np.int32) if any(codes) else None


def is_ascii(array: pa.Array) -> bool:
    """Whether every text is ASCII: then bytes and characters are the same thing."""
    offsets = array.buffers()[1]
    if offsets is None or len(array) == 0:
        return True
    view = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    if data is None:
        return True
    return not (np.frombuffer(data, np.uint8)[view[0] : view[-1]] & 0x80).any()
