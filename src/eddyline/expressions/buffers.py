"""NumPy views of Arrow arrays, and the way back: no copy going in, one going out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.expressions.frame import ErrorCodes, Evaluation, Frame
from eddyline.types import DATE, INTERVAL, TIMESTAMP, TIMESTAMP_NTZ

Mask = npt.NDArray[np.bool_]

_STORED_AS = {DATE: pa.int32(), TIMESTAMP: pa.int64(), TIMESTAMP_NTZ: pa.int64(), INTERVAL: pa.int64()}


def numbers(array: pa.Array) -> npt.NDArray[Any]:
    """The stored numbers of an integer, float, date, timestamp or duration array; any number where it is NULL."""
    dtype = _STORED_AS.get(array.type, array.type).to_pandas_dtype()
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype)[array.offset : array.offset + len(array)]


def bitmap_bits(buffer: Any, offset: int, n: int) -> npt.NDArray[np.uint8]:
    """Bits of an Arrow bitmap, one byte each."""
    skipped, first = divmod(offset, 8)
    packed = np.frombuffer(buffer, np.uint8, (first + n + 7) // 8, skipped)
    return np.unpackbits(packed, count=first + n, bitorder="little")[first:]


def mask_of(array: pa.Array) -> Mask:
    """The truth values of an array that has no NULL."""
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)


def valid(*arrays: pa.Array) -> Mask | None:
    """The rows where no array is NULL; None stands for all of them."""
    mask: Mask | None = None
    for array in arrays:
        if array.null_count:
            here = array.is_valid().to_numpy(zero_copy_only=False)
            mask = here if mask is None else mask & here
    return mask


def known_and(known: Mask | None, mask: Mask) -> Mask:
    """The rows in `mask` that have a value; `known` as `valid` gives it."""
    return mask if known is None else known & mask


def clear(known: Mask | None, errors: ErrorCodes | None) -> Mask | None:
    """The rows that have a value and no error; None stands for all of them."""
    return known if errors is None else known_and(known, errors == 0)


def arrow(values: npt.NDArray[Any], mask: Mask | None, to: pa.DataType) -> pa.Array:
    """An Arrow array of these stored numbers, NULL where `mask` is false."""
    stored = _STORED_AS.get(to, to)
    if mask is not None:
        mask = ~mask
    built = pa.array(np.ascontiguousarray(values), type=stored, mask=mask, from_pandas=False)
    return built if stored is to else built.view(to)


def operands(arguments: Sequence[Evaluation], frame: Frame) -> tuple[list[npt.NDArray[Any]], Mask | None]:
    """The numbers of all arguments, and the rows where all have one. A scalar stays one number for all rows."""
    views, mask = [], None
    for argument in arguments:
        if isinstance(argument.values, pa.Scalar):
            if not argument.values.is_valid:
                mask = np.zeros(frame.n_rows, dtype=bool)
            views.append(numbers(pa.repeat(argument.values, 1)))
        else:
            views.append(numbers(argument.values))
            here = valid(argument.values)
            if here is not None:
                mask = here if mask is None else mask & here
    return views, mask
