"""Codes of byte strings, so that a join compares integers; and the strings themselves compared and gathered.

A string of seven bytes or less is its own code: its bytes, and how many there are. The code of a longer one is a hash with the
highest bit set, which no code of a short one has. So where a code without that bit is met, nothing is left to compare.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel
from eddyline.kernels.layouts import read_only
from eddyline.kernels.places import word_at

LONGEST_EXACT = 7  # bytes

Bytes = npt.NDArray[np.uint8]  # eight at least
Offsets = npt.NDArray[np.int32]  # string k is data[offsets[k]:offsets[k + 1]]
Ints = npt.NDArray[np.int64]

_HIGHEST = np.uint64(1 << 63)
_ONE = np.uint64(1)
_TURN = np.uint64(29)
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio


@kernel
def byte_codes(offsets: Offsets, data: Bytes, codes: Ints) -> int:
    """Write the code of each string; returns how many of them are hashes."""
    n_hashed = 0
    for row in range(len(codes)):
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        length = end - begin
        if length <= LONGEST_EXACT:
            codes[row] = np.int64((word_at(data, begin, end) >> _ONE) | np.uint64(length))
            continue
        code = np.uint64(length) * _ODD
        for at in range(begin, end, 8):
            code = (code ^ word_at(data, at, end)) * _ODD
            code ^= code >> _TURN
        codes[row] = np.int64(code | _HIGHEST)
        n_hashed += 1
    return n_hashed


@kernel
def same_bytes(
    left_offsets: Offsets,
    left: Bytes,
    left_rows: Ints,
    right_offsets: Offsets,
    right: Bytes,
    right_rows: Ints,
    is_same: npt.NDArray[np.bool_],
) -> None:
    """Write whether the strings of each pair are equal."""
    for k in range(len(is_same)):
        i, j = left_rows[k], right_rows[k]
        a, a_end = np.int64(left_offsets[i]), np.int64(left_offsets[i + 1])
        b, b_end = np.int64(right_offsets[j]), np.int64(right_offsets[j + 1])
        is_same[k] = a_end - a == b_end - b
        while is_same[k] and a < a_end:
            is_same[k] = word_at(left, a, a_end) == word_at(right, b, b_end)
            a += 8
            b += 8


@kernel
def gathered_offsets(ends: Ints, rows: Ints, offsets: Offsets) -> int:
    """Write where the strings of these rows begin once they are gathered, given where they end; returns their bytes."""
    n_bytes = 0
    offsets[0] = 0
    for k in range(len(rows)):
        n_bytes += ends[rows[k] + 1] - ends[rows[k]]
        offsets[k + 1] = n_bytes
    return n_bytes


@kernel
def gather_bytes(
    ends: Ints, data: Bytes, data_begin: int, rows: Ints, offsets: Offsets, gathered: Bytes
) -> None:
    """Write the strings of these rows one behind the other; those in `data` begin at `data_begin`."""
    for k in range(len(rows)):
        at, begin = ends[rows[k]] - data_begin, np.int64(offsets[k])
        for place in range(begin, np.int64(offsets[k + 1])):
            gathered[place] = data[at]
            at += 1


def warm_up() -> None:
    """Compile every kernel here, or load it from the cache, for the arrays that callers give."""
    offsets, data = read_only(np.zeros(2, np.int32)), read_only(np.zeros(8, np.uint8))
    rows = np.zeros(1, np.int64)
    byte_codes(offsets, data, np.empty(1, np.int64))
    same_bytes(offsets, data, rows, offsets, data, rows, np.empty(1, dtype=bool))
    ends, gathered, bytes_ = np.zeros(2, np.int64), np.zeros(2, np.int32), np.zeros(8, np.uint8)
    gathered_offsets(ends, rows, gathered)
    gather_bytes(ends, bytes_, 0, rows, gathered, bytes_.copy())
