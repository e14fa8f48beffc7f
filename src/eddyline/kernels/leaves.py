"""Leaves: 64 queries with an interval on each of a few attributes, whose constants stand close together.

A super-block is up to 16 leaves. Within it a value is replaced by its rank: how many of the super-block's constants on that
attribute are <= the value. Ranks are exact and fit 16 bits, so that a row is compared with 16 leaves, or with the 64 lanes of a
leaf, in few instructions. A row goes on to ranks only if it lies in the super-block's box, to lanes only in the leaf's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.kernels.interval_masks import BOX_ROWS, chosen, ranks_within_16, ranks_within_64, rows_within
from eddyline.kernels.lanes import count_ones, kernel, lowest_one
from eddyline.kernels.layouts import BLOCK_LEAVES, LEAF_LANES, WORD_RECORDS

Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_READ_AHEAD_ROWS = 16  # in a box, from which on it pays to read all of the super-block beforehand
_LINE_KEYS, _LINE_RANKS = 8, 32  # in a line of the cache
_ONE = np.uint64(1)


@kernel
def rank_of(points: Int64s, start: np.uint64, width: np.uint64, value: int) -> np.int16:
    """How many of points[start : start + width] are <= value. They ascend; `width` is a power of two, it and `start` uint64."""
    at = start
    half = width >> _ONE
    while half:
        at = chosen(points[at + half - _ONE] <= value, at + half, at)
        half >>= _ONE
    return np.int16(chosen(points[at] <= value, at + _ONE, at) - start)


@kernel
def read_through(array: npt.NDArray[Any], start: int, end: int, step: int) -> int:
    """Read array[start:end:step] in order; gives the sum, or the compiler would see no use in reading."""
    total = 0
    for at in range(start, end, step):
        total += array[at]
    return total


@kernel
def find_records(
    values: Int64s,
    candidates: Words,
    first_word: int,
    end_word: int,
    boxes: Int64s,
    points: Int64s,
    leaf_ranks: Int16s,
    lane_ranks: Int16s,
    live: Words,
    block: int,
    word: int,
    n: int,
    places: Int64s,
    masks: Words,
    counts: Int64s,
) -> tuple[int, int, int]:
    """Compare rows with queries; a leaf that matches a row becomes a record, places (row << 32 | leaf) and masks (of lanes).

    Row r is bit r % 64 of candidates[r // 64] and has values[k, r] on attribute k; only the words from `first_word` to `end_word`
    are looked at. The matches of row r are added to counts[r + 1].

    The n records there are stay. Work begins with the rows of `word` and super-block `block`, at first `first_word` and 0, and
    stops where not all records of a word might fit. Gives block, word and n to go on with.
    """
    n_blocks, n_sides, _ = boxes.shape
    stride, width = values.shape[1], points.shape[2]
    flat_values, flat_points, flat_ranks = values.reshape(-1), points.reshape(-1), lane_ranks.reshape(-1)
    leaf_size = n_sides * 2 * LEAF_LANES
    inside = np.empty(end_word - first_word, np.uint64)
    rows = np.empty(64 + 1, np.int64)
    ranks = np.empty(64 * n_sides, np.int16)
    while block < n_blocks:
        box = block * n_sides * 2
        n_inside = 0
        for at in range(word, end_word):
            in_box = rows_within(values, at * 64, stride, boxes, box, n_sides)
            in_box |= rows_within(values, at * 64 + BOX_ROWS, stride, boxes, box, n_sides) << np.uint64(
                BOX_ROWS
            )
            in_box &= candidates[at]
            inside[at - first_word] = in_box
            n_inside += count_ones(in_box)
        if n_inside >= _READ_AHEAD_ROWS:
            # memory comes as a stream now; searches would wait for it line by line
            start = block * n_sides * width
            checksum = read_through(flat_points, start, start + n_sides * width, _LINE_KEYS)
            start = block * BLOCK_LEAVES * leaf_size
            end = min(start + BLOCK_LEAVES * leaf_size, len(flat_ranks))
            rows[64] = checksum + read_through(flat_ranks, start, end, _LINE_RANKS)
        while word < end_word:
            if n + WORD_RECORDS > len(places):
                return block, word, n
            row_bits = inside[word - first_word]
            n_rows = 0
            while row_bits:
                rows[n_rows] = word * 64 + lowest_one(row_bits)
                row_bits &= row_bits - _ONE
                n_rows += 1
            for k in range(n_sides):
                first_point = np.uint64((block * n_sides + k) * width)
                for at in range(n_rows):
                    value = flat_values[k * stride + rows[at]]
                    ranks[at * n_sides + k] = rank_of(flat_points, first_point, np.uint64(width), value)
            # records of leaves whose box the row is in, for the time being with the row's ranks as mask
            end = n
            for at in range(n_rows):
                leaves = ranks_within_16(leaf_ranks, box * BLOCK_LEAVES, ranks, at * n_sides, n_sides)
                while leaves:
                    places[end] = rows[at] << 32 | (block * BLOCK_LEAVES + lowest_one(leaves))
                    masks[end] = np.uint64(at * n_sides)
                    leaves &= leaves - _ONE
                    end += 1
            for at in range(n, end):
                place = places[at]
                leaf = place & 0xFFFFFFFF
                mask = (
                    ranks_within_64(lane_ranks, leaf * leaf_size, ranks, np.int64(masks[at]), n_sides)
                    & live[leaf]
                )
                counts[(place >> 32) + 1] += count_ones(mask)
                places[n], masks[n] = place, mask
                n += mask != 0
            word += 1
        word = first_word
        block += 1
    return block, word, n


@kernel
def put_ids(places: Int64s, masks: Words, n: int, ids: Int32s, cursors: Int64s, out: Int32s) -> None:
    """Write the ids of the first n records' lanes to `out`, at the cursor of each record's row, which moves on."""
    for at in range(n):
        row, lane = places[at] >> 32, (places[at] & 0xFFFFFFFF) * LEAF_LANES
        mask = masks[at]
        start = cursors[row]
        end = start + count_ones(mask)
        cursors[row] = end
        for to in range(start, end):
            out[to] = ids[lane + lowest_one(mask)]
            mask &= mask - _ONE


def warm_up() -> None:
    """Compile the kernels, or load them, for the types of arrays that leaf blocks have."""

    def constant(*shape: int, dtype: Any = np.int64) -> Any:
        array = np.zeros(shape, dtype)
        array.flags.writeable = False
        return array

    places, masks = np.zeros(WORD_RECORDS, np.int64), np.zeros(WORD_RECORDS, np.uint64)
    offsets = np.zeros(65, np.int64)
    find_records(
        np.zeros((1, 64), np.int64),
        np.zeros(1, np.uint64),
        0,
        1,
        constant(1, 1, 2),
        constant(1, 1, 2 * LEAF_LANES),
        constant(1, 1, 2, BLOCK_LEAVES, dtype=np.int16),
        constant(1, 1, 2, LEAF_LANES, dtype=np.int16),
        constant(1, dtype=np.uint64),
        0,
        0,
        0,
        places,
        masks,
        offsets,
    )
    put_ids(places, masks, 0, constant(LEAF_LANES, dtype=np.int32), offsets, np.zeros(0, np.int32))
