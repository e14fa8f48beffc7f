"""Places among sorted constants: 2k + 1 for a value equal to constant k, 2k for one in the gap before it.

Byte strings are compared eight bytes at a time, as one big-endian integer, a *word*: integers then have the order of the bytes,
and a string that ends inside its word is padded with zeros. Constants often begin alike, so their words stand in a tree. A *node*
covers a run of constants that share their first `DEPTH` bytes and holds the word of each at that depth; where many constants have
the same word, a child covers those of them that go on behind it.

A search halves its range for all rows together. The loads of different rows then do not wait for each other, which is several
times faster than one row after another once the constants are many. Hashing is no faster here, and has no order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from eddyline.kernels.layouts import read_only

Bytes = npt.NDArray[np.uint8]  # eight at least, so that a word can always be loaded
Offsets = npt.NDArray[np.int32]  # string k is data[offsets[k]:offsets[k + 1]]
Words = npt.NDArray[np.uint64]
Children = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]
Int = int | np.int64

# columns of `nodes`; the root is line 0
FIRST = 0  # constant it covers
COUNT = 1  # of constants it covers
DEPTH = 2  # bytes all of them share; their words begin behind
START = 3  # of its words among all words
NODE_COLUMNS = 4

FEW = 2  # constants with the same word that are compared one by one
NO_CHILD = -1

_kernel = njit(cache=True, nogil=True, error_model="numpy")
_inlined = njit(
    cache=True, nogil=True, error_model="numpy", inline="always"
)  # a call counts references to its arrays
_NONE, _ONE = np.uint64(0), np.uint64(1)


# ----------------------------------------------------------------------------------------------- words


@intrinsic
def _eight_bytes(typing: Any, data: Any, at: Any) -> Any:
    """The eight bytes from `at` on, the first one highest."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.bswap(builder.load(address, align=1))

    return types.uint64(data, types.int64), emit


@_inlined
def word_at(data: Bytes, at: Int, end: Int) -> np.uint64:
    """The word from `at` on of a string that ends at `end`."""
    n_bytes = min(max(end - at, 0), 8)
    if n_bytes == 0:
        return _NONE
    start = min(at, len(data) - 8)
    n_unused = np.uint64(8 * (8 - n_bytes))
    word = _eight_bytes(data, start) << np.uint64(8 * (at - start))  # type: ignore[call-arg]  # as Numba calls it
    return (word >> n_unused) << n_unused


@_kernel
def _order(left: Bytes, left_at: Int, left_end: Int, right: Bytes, right_at: Int, right_end: Int) -> Int:
    """Below 0 where the left string comes first, 0 where both are equal, above 0 else."""
    a, b = left_at, right_at
    while a < left_end or b < right_end:
        x, y = word_at(left, a, left_end), word_at(right, b, right_end)
        if x != y:
            return -1 if x < y else 1
        a += 8
        b += 8
    return (left_end - left_at) - (right_end - right_at)


@_kernel
def words_at(offsets: Offsets, data: Bytes, strings: Keys, depths: Keys, words: Words) -> None:
    """Write the word of each of these strings at its depth."""
    for k in range(len(words)):
        string = strings[k]
        words[k] = word_at(data, offsets[string] + depths[k], np.int64(offsets[string + 1]))


@_kernel
def shared_bytes(offsets: Offsets, data: Bytes, strings: Keys, others: Keys, n_shared: Keys) -> None:
    """Raise to with how many equal bytes each string and the other beside it begin; what `n_shared` says is known already."""
    for k in range(len(n_shared)):
        a, b = np.int64(offsets[strings[k]]), np.int64(offsets[others[k]])
        n = min(offsets[strings[k] + 1] - a, offsets[others[k] + 1] - b)
        at = n_shared[k]
        while at < n and data[a + at] == data[b + at]:
            at += 1
        n_shared[k] = at


# ----------------------------------------------------------------------------------------------- strings


def ascending(offsets: Offsets, data: Bytes) -> Keys:
    """Which strings to take to have each one once, in the order of their bytes.

    Strings are sorted by a few of their bytes, those that are equal there by the next ones, and so on. Sorting integers is much
    faster than sorting strings, and few levels are needed: bytes that all of a group share are skipped.
    """
    lengths = np.diff(offsets).astype(np.int64)
    order, is_kept = np.arange(len(lengths)), np.ones(len(lengths), dtype=bool)
    start, count = np.zeros(min(len(lengths), 1), np.int64), np.full(min(len(lengths), 1), len(lengths))
    depth = np.zeros(len(start), np.int64)
    while len(start):  # groups of places in `order` that are not sorted yet
        group = np.repeat(np.arange(len(start)), count)
        first = np.cumsum(count) - count
        places = np.repeat(start - first, count) + np.arange(count.sum())
        strings = order[places]
        n_shared = depth[group]
        shared_bytes(offsets, data, strings, strings[first][group], n_shared)
        depth = np.minimum.reduceat(n_shared, first)[group]
        words = np.empty(len(strings), np.uint64)
        words_at(offsets, data, strings, depth, words)
        # one integer: the group, as many bytes as fit, and how many of these are the string's own rather than padding
        n_taken = (60 - (len(start) - 1).bit_length()) // 8
        value = words >> np.uint64(64 - 8 * n_taken) << np.uint64(4)
        value |= np.minimum(lengths[strings] - depth, n_taken).astype(np.uint64)
        value |= group.astype(np.uint64) << np.uint64(8 * n_taken + 4)
        by = np.argsort(value)
        order[places], value = strings[by], value[by]
        is_same = value[1:] == value[:-1]
        has_ended = value & np.uint64(15) < n_taken
        is_kept[places[1:][is_same & has_ended[1:]]] = False
        run = np.flatnonzero(np.append(True, ~is_same))
        n_alike = np.diff(np.append(run, len(places)))
        goes_on = (n_alike > 1) & ~has_ended[run]
        start, count = places[run[goes_on]], n_alike[goes_on]
        depth = depth[run[goes_on]] + n_taken
    return order[is_kept]


def word_tree(offsets: Offsets, data: Bytes) -> tuple[Words, Children, Keys]:
    """Words, the child behind each (at the first of equal ones, else NO_CHILD), and nodes, of ascending distinct constants."""
    lengths = np.diff(offsets)
    words, children = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
    nodes = [np.empty((0, NODE_COLUMNS), np.int64)]
    n_words, n_nodes = 0, 0
    first, count = np.zeros(min(len(lengths), 1), np.int64), np.full(min(len(lengths), 1), len(lengths))
    while len(first):  # a level of nodes at a time
        start = np.cumsum(count) - count
        depth = np.zeros(len(first), np.int64)
        shared_bytes(offsets, data, first, first + count - 1, depth)
        covered = np.repeat(first - start, count) + np.arange(count.sum())
        depth_of = np.repeat(depth, count)
        here = np.empty(len(covered), np.uint64)
        words_at(offsets, data, covered, depth_of, here)
        is_first = np.append(True, here[1:] != here[:-1])
        is_first[start] = True
        run = np.flatnonzero(is_first)
        # Where constants end inside the word, only their length tells them apart. There are eight at most, and they come first.
        n_ending = np.add.reduceat(lengths[covered] < depth_of + 8, run, dtype=np.int64)
        n_below = np.diff(np.append(run, len(covered))) - n_ending
        is_parent = n_below > FEW
        nodes.append(np.column_stack((first, count, depth, n_words + start)))
        words.append(here)
        children.append(np.full(len(here), NO_CHILD, np.int32))
        n_nodes += len(first)
        n_words += len(here)
        children[-1][run[is_parent]] = n_nodes + np.arange(is_parent.sum())
        first, count = (covered[run] + n_ending)[is_parent], n_below[is_parent]
    return np.concatenate(words), np.concatenate(children), np.concatenate(nodes)


@_kernel
def byte_places(
    offsets: Offsets,
    data: Bytes,
    constant_offsets: Offsets,
    constant_data: Bytes,
    words: Words,
    children: Children,
    nodes: Keys,
    places: Keys,
) -> None:
    """Write the place of each string among the constants, given with their `word_tree`."""
    n = len(places)
    if len(nodes) == 0:
        for row in range(n):
            places[row] = 0
        return
    rows = np.empty(n, np.int64)  # those whose place is open, and for each of them:
    entered = np.zeros(n, np.int64)  # the node it is in
    known = np.zeros(n, np.int64)  # how many bytes it is known to share with the constants there
    sought = np.empty(n, np.uint64)  # its word
    found = np.empty(n, np.uint64)  # the first word not below that one
    sizes = np.empty(n, np.uint64)  # of the range still to search
    is_met = np.empty(n, np.bool_)  # whether it is that word
    begins = np.empty(n, np.int64)  # and the constant it belongs to
    ends = np.empty(n, np.int64)
    for row in range(n):
        rows[row] = row
    is_root = True
    while n:
        n_inside, most = 0, _NONE
        for k in range(n):
            row, node = rows[k], entered[k]
            begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
            first, depth = nodes[node, FIRST], nodes[node, DEPTH]
            like, shared = np.int64(constant_offsets[first]), known[k]
            while shared < depth and word_at(data, begin + shared, min(end, begin + depth)) == word_at(
                constant_data, like + shared, like + depth
            ):
                shared += 8
            if shared < depth or end < begin + depth:
                order = _order(data, begin, min(end, begin + depth), constant_data, like, like + depth)
                places[row] = 2 * first if order < 0 else 2 * (first + nodes[node, COUNT])
                continue
            rows[n_inside], entered[n_inside] = row, node
            sought[n_inside] = word_at(data, begin + depth, end)
            found[n_inside], sizes[n_inside] = nodes[node, START], nodes[node, COUNT]
            most = max(most, sizes[n_inside])
            n_inside += 1
        while is_root and most > _ONE:  # all in one range
            half = most >> _ONE
            last = half - _ONE
            for k in range(n_inside):
                at = found[k]
                found[k] = at + half if words[at + last] < sought[k] else at
            most -= half
        while most > _ONE:
            for k in range(n_inside):
                at, half = found[k], sizes[k] >> _ONE
                last = at + max(half, _ONE) - _ONE
                found[k] = at + half if words[last] < sought[k] else at
                sizes[k] -= half
            most -= most >> _ONE
        is_root = False
        for k in range(n_inside):  # without branches, so that these loads do not wait for each other either
            node, at = entered[k], found[k]
            at += np.uint64(words[at] < sought[k])
            found[k] = at
            last = np.uint64(nodes[node, START] + nodes[node, COUNT] - 1)
            at = min(at, last)
            is_met[k] = (found[k] <= last) & (words[at] == sought[k])
            constant = at - np.uint64(nodes[node, START] - nodes[node, FIRST])
            begins[k], ends[k] = constant_offsets[constant], constant_offsets[constant + _ONE]
        n = 0
        for k in range(n_inside):
            row, node, at = rows[k], entered[k], np.int64(found[k])
            constant = at - nodes[node, START] + nodes[node, FIRST]
            if not is_met[k]:
                places[row] = 2 * constant
                continue
            begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
            length, behind = end - begin, nodes[node, DEPTH] + 8
            if (
                length == ends[k] - begins[k]
                and length <= behind + 8
                and word_at(data, begin + behind, end) == word_at(constant_data, begins[k] + behind, ends[k])
            ):
                places[row] = 2 * constant + 1
            elif length >= behind and children[at] != NO_CHILD:
                rows[n], entered[n], known[n] = row, children[at], behind
                n += 1
            else:
                past = nodes[node, FIRST] + nodes[node, COUNT]
                order = 1
                while constant < past:
                    like, stop = (
                        np.int64(constant_offsets[constant]),
                        np.int64(constant_offsets[constant + 1]),
                    )
                    order = _order(data, begin, end, constant_data, like, stop)
                    if order <= 0:
                        break
                    constant += 1
                places[row] = 2 * constant + (1 if order == 0 else 0)


# ----------------------------------------------------------------------------------------------- numbers


@_kernel
def wide_places(halves: Keys, constants: Keys, places: Keys) -> None:
    """Write the place of each 128-bit integer among ascending distinct ones, all given as low and high half in turn."""
    n_rows, n_constants = len(places), np.uint64(len(constants) // 2)
    found = np.zeros(n_rows, np.uint64)
    size = n_constants
    while size > _NONE:
        half = max(size >> _ONE, _ONE)
        last = half - _ONE
        for row in range(n_rows):
            at = found[row]
            middle = (at + last) << _ONE
            low, high = constants[middle], constants[middle + _ONE]
            is_above = (high < halves[2 * row + 1]) | (
                (high == halves[2 * row + 1]) & (np.uint64(low) < np.uint64(halves[2 * row]))
            )
            found[row] = at + half if is_above else at
        size = size - half if size > _ONE else _NONE
    for row in range(n_rows):
        at = found[row]
        places[row] = np.int64(at << _ONE)
        if at < n_constants:
            low, high = constants[at << _ONE], constants[(at << _ONE) + _ONE]
            places[row] += (low == halves[2 * row]) & (high == halves[2 * row + 1])


@_kernel
def float_places(bits: Keys, places: Keys) -> None:
    """Write integers in the order of the doubles with these bits: NaN equals itself and is above all, -0.0 equals 0.0."""
    infinity, nan, sign = np.int64(0x7FF0000000000000), np.int64(0x7FF8000000000000), np.int64(-(2**63))
    for row in range(len(places)):
        magnitude = bits[row] & ~sign
        place = magnitude if bits[row] >= 0 else -magnitude
        places[row] = nan if magnitude > infinity else place


def warm_up() -> None:
    """Compile every kernel here, or load it from the cache, for the arrays that callers give."""
    offsets, data = read_only(np.zeros(2, np.int32)), read_only(np.zeros(8, np.uint8))
    halves, places = read_only(np.zeros(2, np.int64)), np.empty(1, np.int64)
    words, children, nodes = word_tree(offsets, data)
    tree = read_only(words), read_only(children), read_only(nodes)
    byte_places(offsets, data, offsets, data, *tree, places)
    wide_places(halves, halves, places)
    float_places(halves, places)
