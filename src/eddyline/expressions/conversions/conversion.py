"""What a conversion gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.buffers import Mask

INVALID = "CAST_INVALID_INPUT"
OVERFLOW = "CAST_OVERFLOW"
OUT_OF_RANGE = "NUMERIC_VALUE_OUT_OF_RANGE"


@dataclass(frozen=True, slots=True)
class Conversion:
    """The converted values, NULL where there is none, and those rows by error class."""

    values: pa.Array
    problems: tuple[tuple[Mask, str], ...] = ()

    def in_lists(self, lengths: npt.NDArray[np.int64], is_list: pa.Array, to: pa.DataType) -> Conversion:
        """These items as lists of the given lengths; a list is NULL and a problem if one of its items is."""
        parents = np.repeat(np.arange(len(lengths)), lengths)
        problems = []
        for mask, error in self.problems:
            lists = np.zeros(len(lengths), dtype=bool)
            lists[parents[mask]] = True
            problems.append((lists, error))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        lists_of = pa.ListArray.from_arrays(pa.array(offsets), self.values, type=to)
        is_valid = is_list
        for mask, _ in problems:
            is_valid = pc.and_(is_valid, pa.array(~mask))
        return Conversion(pc.if_else(is_valid, lists_of, pa.scalar(None, to)), tuple(problems))


def checked_conversion(values: pa.Array, bad: Mask | None, error: str) -> Conversion:
    """The values, NULL and a problem where `bad` (no row, if None)."""
    if bad is None or not bad.any():
        return Conversion(values)
    return Conversion(pc.if_else(pa.array(~bad), values, pa.scalar(None, values.type)), ((bad, error),))


def one_by_one(
    array: pa.Array, rows: Mask, convert: Callable[[object], object], to: pa.DataType
) -> tuple[pa.Array, Mask]:
    """Convert the marked rows in Python: for spellings too rare to be worth a vectorised path.

    `convert` returns None for what has no value. The second result marks those rows.
    """
    positions = np.flatnonzero(rows)
    results = [convert(value) for value in array.take(pa.array(positions)).to_pylist()]
    bad = np.zeros(len(array), dtype=bool)
    bad[positions] = [result is None for result in results]
    return pa.array(results, to), bad


def patched_values(values: pa.Array, rows: Mask, replacements: pa.Array) -> pa.Array:
    """The values, with the marked rows replaced in order."""
    if not rows.any():
        return values
    index = np.arange(len(values))
    index[rows] = len(values) + np.arange(len(replacements))
    return pa.concat_arrays([values, replacements]).take(pa.array(index))
