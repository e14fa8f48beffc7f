"""Rows found by the code of their key: pairs of code and row, in buckets.

A bucket is the highest bits of a hash of the code. A *segment* has its pairs grouped by bucket, in one array; `offsets` says
where each bucket begins. Whether a key is there then takes two loads that miss the cache, and a bucket's pairs lie side by side.
As buckets are highest bits, segments that are merged are read and written from front to back. The *ring* takes the newest pairs
as they come: a list for every bucket, the newest pair first, so that the last pairs can be taken out again.

A pair is stored as two integers, code and row: `pairs[2 * k]` and `pairs[2 * k + 1]`. Rows below `first` are removed, and so are
those where `is_held` is false; rows are numbered from `origin` on there. An empty `is_held` says that no others are gone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types

from eddyline.kernels.lanes import kernel, primitive
from eddyline.kernels.layouts import NO_PAIR, PADDING, SEGMENT_OFFSETS, SEGMENT_PAIRS, SEGMENT_SHIFT

Ints = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

_BLOCK = 128  # keys whose loads do not wait for each other
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio
_HALF = np.uint64(32)
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def _loaded(bits: Any, to: Any) -> Any:
    """What loads an element of an array from its address."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.inttoptr(arguments[0], bits.as_pointer())
        return builder.load(builder.gep(start, [arguments[1]]))

    return to(types.int64, types.int64), emit


@primitive
def _int32_at(typing: Any, address: Any, at: Any) -> Any:
    """Element `at` of the int32 array that begins at this address."""
    return _loaded(_INT32, types.int32)


@primitive
def _int64_at(typing: Any, address: Any, at: Any) -> Any:
    """Element `at` of the int64 array that begins at this address."""
    return _loaded(_INT64, types.int64)


@kernel
def _hash(code: int) -> np.uint64:
    bits = np.uint64(code)
    return (bits ^ (bits >> _HALF)) * _ODD


# ----------------------------------------------------------------------------------------------- segments


@kernel
def count_buckets(
    pairs: Ints, n_pairs: int, shift: int, first: int, is_held: Mask, origin: int, offsets: Offsets
) -> int:
    """Add the pairs whose rows are there to the counts of their buckets, two places behind; returns how many there are."""
    n, all_held, to_bucket = 0, len(is_held) == 0, np.uint64(shift)
    for k in range(n_pairs):
        row = pairs[2 * k + 1]
        if row >= first and (all_held or is_held[row - origin]):
            offsets[np.int64(_hash(pairs[2 * k]) >> to_bucket) + 2] += 1
            n += 1
    return n


@kernel
def add_up(offsets: Offsets) -> None:
    """Make counts, each two places behind its bucket, the places where `place_pairs` begins."""
    for k in range(2, len(offsets)):
        offsets[k] += offsets[k - 1]


@kernel
def place_pairs(
    pairs: Ints,
    n_pairs: int,
    shift: int,
    first: int,
    is_held: Mask,
    origin: int,
    offsets: Offsets,
    placed: Ints,
) -> None:
    """Put the pairs whose rows are there into their buckets. Once all are placed, bucket b begins at offsets[b]."""
    all_held, to_bucket = len(is_held) == 0, np.uint64(shift)
    for k in range(n_pairs):
        row = pairs[2 * k + 1]
        if row >= first and (all_held or is_held[row - origin]):
            bucket = np.int64(_hash(pairs[2 * k]) >> to_bucket) + 1
            at = 2 * np.int64(offsets[bucket])
            placed[at], placed[at + 1] = pairs[2 * k], row
            offsets[bucket] += 1


@kernel
def pair_up(codes: Ints, is_null: Mask, row: int, pairs: Ints) -> int:
    """Write the codes that are not NULL and their rows, numbered from `row` on, as pairs; returns how many."""
    n, none_null = 0, len(is_null) == 0
    for k in range(len(codes)):
        if none_null or not is_null[k]:
            pairs[2 * n], pairs[2 * n + 1] = codes[k], row + k
            n += 1
    return n


@kernel
def renumber_pairs(pairs: Ints, n_pairs: int, first: int, numbers: Ints) -> None:
    """Give the row of each pair its new number from `numbers`, those of rows from `first` on; it may be negative."""
    for k in range(n_pairs):
        row = pairs[2 * k + 1]
        pairs[2 * k + 1] = numbers[row - first] if row >= first else np.int64(-1)


# ----------------------------------------------------------------------------------------------- the ring


@kernel
def push_pairs(
    codes: Ints,
    is_null: Mask,
    row: int,
    n_pairs: int,
    pairs: Ints,
    shift: int,
    heads: Offsets,
    behind: Offsets,
) -> int:
    """Add the codes that are not NULL and their rows, numbered from `row` on; returns how many pairs there are then."""
    none_null, to_bucket = len(is_null) == 0, np.uint64(shift)
    for k in range(len(codes)):
        if none_null or not is_null[k]:
            bucket = np.int64(_hash(codes[k]) >> to_bucket)
            pairs[2 * n_pairs], pairs[2 * n_pairs + 1] = codes[k], row + k
            behind[n_pairs] = heads[bucket]
            heads[bucket] = n_pairs
            n_pairs += 1
    return n_pairs


@kernel
def link_pairs(pairs: Ints, start: int, end: int, shift: int, heads: Offsets, behind: Offsets) -> None:
    """Put pairs `start` to `end` at the heads of the lists of their buckets."""
    to_bucket = np.uint64(shift)
    for k in range(start, end):
        bucket = np.int64(_hash(pairs[2 * k]) >> to_bucket)
        behind[k] = heads[bucket]
        heads[bucket] = k


@kernel
def unlink_pairs(pairs: Ints, start: int, end: int, shift: int, heads: Offsets, behind: Offsets) -> None:
    """Take out pairs `start` to `end`, which have to be the last ones that were put in."""
    to_bucket = np.uint64(shift)
    for k in range(end - 1, start - 1, -1):
        heads[np.int64(_hash(pairs[2 * k]) >> to_bucket)] = behind[k]


# ----------------------------------------------------------------------------------------------- finding


@kernel
def _reverse(rows: Ints, start: int, end: int) -> None:
    """Turn round the order of rows `start` to `end`."""
    last = end - 1
    while start < last:
        rows[start], rows[last] = rows[last], rows[start]
        start, last = start + 1, last - 1


@kernel
def find_pairs(
    codes: Ints,
    is_null: Mask,
    begin: int,
    segments: Ints,
    ring: Ints,
    ring_shift: int,
    heads: Offsets,
    behind: Offsets,
    first: int,
    is_held: Mask,
    origin: int,
    probes: Ints,
    rows: Ints,
    n_found: int,
) -> tuple[int, int]:
    """Write, behind those already found, the pairs of a place in `codes`, from `begin` on, and a row less `first` that has that
    code, the oldest first. Returns how many are there now, and the place where room ran out: the pairs of those before it are
    complete.
    """
    n_segments, none_null, all_held = len(segments), len(is_null) == 0, len(is_held) == 0
    starts = np.empty((_BLOCK, n_segments), np.int64)
    ends = np.empty((_BLOCK, n_segments), np.int64)
    codes_there = np.empty((_BLOCK, n_segments), np.int64)
    lists = np.empty(_BLOCK, np.int64)
    hashes = np.empty(_BLOCK, np.uint64)
    room, to_list = len(probes), np.uint64(ring_shift)
    for block in range(begin, len(codes), _BLOCK):
        size = min(_BLOCK, len(codes) - block)
        for k in range(size):
            hashes[k] = _hash(codes[block + k])
            lists[k] = heads[np.int64(hashes[k] >> to_list)]
        for s in range(n_segments):
            address, to_bucket = segments[s, SEGMENT_OFFSETS], np.uint64(segments[s, SEGMENT_SHIFT])
            for k in range(size):
                bucket = np.int64(hashes[k] >> to_bucket)
                starts[k, s] = _int32_at(address, bucket)
                ends[k, s] = _int32_at(address, bucket + 1)
        for s in range(n_segments):
            address = segments[s, SEGMENT_PAIRS]
            for k in range(size):
                codes_there[k, s] = _int64_at(address, 2 * starts[k, s])
        for k in range(size):
            if not none_null and is_null[block + k]:
                continue
            code, complete = codes[block + k], n_found
            for s in range(n_segments):
                address, there = segments[s, SEGMENT_PAIRS], codes_there[k, s]
                for at in range(starts[k, s], ends[k, s]):
                    if there == code:
                        row = _int64_at(address, 2 * at + 1)
                        if row >= first and (all_held or is_held[row - origin]):
                            if n_found == room:
                                return complete, block + k
                            probes[n_found], rows[n_found] = block + k, row - first
                            n_found += 1
                    there = _int64_at(address, 2 * at + 2)
            at, oldest = lists[k], n_found
            while at != NO_PAIR:
                if ring[2 * at] == code:
                    row = ring[2 * at + 1]
                    if row >= first and (all_held or is_held[row - origin]):
                        if n_found == room:
                            return complete, block + k
                        probes[n_found], rows[n_found] = block + k, row - first
                        n_found += 1
                at = int(behind[at])
            _reverse(rows, oldest, n_found)  # lists have the newest first
    return n_found, len(codes)


@kernel
def find_some_pairs(
    codes: Ints,
    is_null: Mask,
    n_skipped: int,
    most: int,
    segments: Ints,
    ring: Ints,
    ring_shift: int,
    heads: Offsets,
    behind: Offsets,
    first: int,
    is_held: Mask,
    origin: int,
    probes: Ints,
    rows: Ints,
) -> int:
    """Like `find_pairs`, for each code at most so many pairs behind those that are skipped, the newest first; returns how many.

    There is room for `most` pairs of each code.
    """
    n_segments, none_null, all_held, n_found = len(segments), len(is_null) == 0, len(is_held) == 0, 0
    for k in range(len(codes)):
        if not none_null and is_null[k]:
            continue
        code, bits, n_seen = codes[k], _hash(codes[k]), 0
        at = heads[np.int64(bits >> np.uint64(ring_shift))]
        while at != NO_PAIR and n_seen < n_skipped + most:
            row = ring[2 * at + 1]
            if ring[2 * at] == code and row >= first and (all_held or is_held[row - origin]):
                if n_seen >= n_skipped:
                    probes[n_found], rows[n_found] = k, row - first
                    n_found += 1
                n_seen += 1
            at = behind[at]
        for s in range(n_segments - 1, -1, -1):
            bucket = np.int64(bits >> np.uint64(segments[s, SEGMENT_SHIFT]))
            start = np.int64(_int32_at(segments[s, SEGMENT_OFFSETS], bucket))
            place = np.int64(_int32_at(segments[s, SEGMENT_OFFSETS], bucket + 1))
            address = segments[s, SEGMENT_PAIRS]
            while place > start and n_seen < n_skipped + most:
                place -= 1
                row = _int64_at(address, 2 * place + 1)
                if (
                    _int64_at(address, 2 * place) == code
                    and row >= first
                    and (all_held or is_held[row - origin])
                ):
                    if n_seen >= n_skipped:
                        probes[n_found], rows[n_found] = k, row - first
                        n_found += 1
                    n_seen += 1
    return n_found


def warm_up() -> None:
    """Compile every kernel here, or load it from the cache, for the arrays that callers give."""
    codes, none = np.zeros(1, np.int64), np.empty(0, dtype=bool)
    pairs, placed = np.zeros(2, np.int64), np.zeros(2 + PADDING, np.int64)
    offsets, heads, behind = np.zeros(4, np.int32), np.full(2, NO_PAIR, np.int32), np.zeros(1, np.int32)
    n = pair_up(codes, none, 0, pairs)
    count_buckets(pairs, n, 63, 0, none, 0, offsets)
    add_up(offsets)
    place_pairs(pairs, n, 63, 0, none, 0, offsets, placed)
    renumber_pairs(placed, n, 0, codes)
    push_pairs(codes, none, 0, 0, pairs, 63, heads, behind)
    link_pairs(pairs, 0, 0, 63, heads, behind)
    segments = np.array([[offsets.ctypes.data, placed.ctypes.data, 63]], np.int64)
    find_pairs(codes, none, 0, segments, pairs, 63, heads, behind, 0, none, 0, codes.copy(), codes.copy(), 0)
    find_some_pairs(
        codes, none, 0, 1, segments, pairs, 63, heads, behind, 0, none, 0, codes.copy(), codes.copy()
    )
    unlink_pairs(pairs, 0, n, 63, heads, behind)
