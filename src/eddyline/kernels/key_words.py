"""Keys as words of 64 bits, numbered: a hash table with open addressing.

A key is a run of words in one array: key k of a batch is words[offsets[k]:offsets[k + 1]], key number i of the table is
store[begins[i]:begins[i] + lengths[i]]. A slot has the number of a key, or NOTHING. A key stands in the first free slot from the
one that the highest bits of its hash name. What is removed leaves no gap: keys behind it move up, so that every search ends at an
empty slot.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel
from eddyline.kernels.layouts import NOTHING, read_only

Ints = npt.NDArray[np.int64]
_Array = npt.NDArray[np.generic]
Slots = npt.NDArray[np.int32]

_BLOCK = 128  # keys whose loads do not wait for each other
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio
_TURN = np.uint64(29)


@kernel
def _hash(words: Ints, begin: int, end: int) -> np.uint64:
    """Of the words of a key. Keys that differ in one word only have different ones."""
    code = np.uint64(end - begin) * _ODD
    for at in range(begin, end):
        code = (code ^ np.uint64(words[at])) * _ODD
        code ^= code >> _TURN
    return code


@kernel
def _home(words: Ints, begin: int, end: int, shift: int) -> np.int64:
    """The slot where the search for a key begins."""
    return np.int64((_hash(words, begin, end) * _ODD) >> np.uint64(shift))


@kernel
def hash_keys(words: Ints, offsets: Ints, codes: Ints) -> None:
    """Write the hash of each key. What is saved may have been computed from it, so it never changes."""
    for k in range(len(codes)):
        codes[k] = np.int64(_hash(words, offsets[k], offsets[k + 1]))


@kernel
def _is_there(words: Ints, begin: int, end: int, store: Ints, there: int) -> bool:
    """Whether the words of a key are those that are stored from a place on."""
    at = begin
    while at < end and words[at] == store[there + at - begin]:
        at += 1
    return at == end


@kernel
def _slot(
    words: Ints, begin: int, end: int, slots: Slots, shift: int, store: Ints, begins: Ints, lengths: Slots
) -> np.int64:
    """The slot of a key, or the empty one where it would stand."""
    slot, last = _home(words, begin, end, shift), len(slots) - 1
    while slots[slot] != NOTHING:
        number = slots[slot]
        if lengths[number] == end - begin and _is_there(words, begin, end, store, begins[number]):
            return slot
        slot = (slot + 1) & last
    return slot


@kernel
def find_keys(
    words: Ints,
    offsets: Ints,
    slots: Slots,
    shift: int,
    store: Ints,
    begins: Ints,
    lengths: Slots,
    numbers: Ints,
) -> None:
    """Write the number of each key, NOTHING if it has none."""
    homes, places = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    for block in range(0, len(numbers), _BLOCK):
        size = min(_BLOCK, len(numbers) - block)
        for k in range(size):
            homes[k] = _home(words, offsets[block + k], offsets[block + k + 1], shift)
        for k in range(size):
            numbers[block + k] = slots[homes[k]]
        for k in range(size):
            places[k] = begins[max(numbers[block + k], 0)]
        for k in range(size):
            number, begin, end = numbers[block + k], offsets[block + k], offsets[block + k + 1]
            if number != NOTHING and (
                lengths[number] != end - begin or not _is_there(words, begin, end, store, places[k])
            ):
                numbers[block + k] = slots[_slot(words, begin, end, slots, shift, store, begins, lengths)]


@kernel
def add_keys(
    words: Ints,
    offsets: Ints,
    rows: Ints,
    slots: Slots,
    shift: int,
    store: Ints,
    n_store: int,
    begins: Ints,
    lengths: Slots,
    fresh: Ints,
    numbers: Ints,
) -> tuple[int, int]:
    """Give the keys of these rows that have no number the next of the `fresh` ones; returns how many, and the words stored."""
    n_added = 0
    for k in range(len(rows)):
        begin, end = offsets[rows[k]], offsets[rows[k] + 1]
        slot = _slot(words, begin, end, slots, shift, store, begins, lengths)
        if slots[slot] == NOTHING:
            number = fresh[n_added]
            n_added += 1
            begins[number], lengths[number] = n_store, end - begin
            for at in range(begin, end):
                store[n_store] = words[at]
                n_store += 1
            slots[slot] = number
        numbers[rows[k]] = slots[slot]
    return n_added, n_store


@kernel
def place_keys(numbers: Ints, slots: Slots, shift: int, store: Ints, begins: Ints, lengths: Slots) -> None:
    """Put keys of which none is there into slots."""
    last = len(slots) - 1
    for k in range(len(numbers)):
        number = numbers[k]
        slot = _home(store, begins[number], begins[number] + lengths[number], shift)
        while slots[slot] != NOTHING:
            slot = (slot + 1) & last
        slots[slot] = number


@kernel
def remove_keys(numbers: Ints, slots: Slots, shift: int, store: Ints, begins: Ints, lengths: Slots) -> None:
    """Take keys that are there out of their slots."""
    last = len(slots) - 1
    for k in range(len(numbers)):
        number = numbers[k]
        hole = _home(store, begins[number], begins[number] + lengths[number], shift)
        while slots[hole] != number:
            hole = (hole + 1) & last
        slot = (hole + 1) & last
        while slots[slot] != NOTHING:
            other = slots[slot]
            home = _home(store, begins[other], begins[other] + lengths[other], shift)
            if ((slot - home) & last) >= ((slot - hole) & last):
                slots[hole] = other
                hole = slot
            slot = (slot + 1) & last
        slots[hole] = NOTHING


@kernel
def copy_runs(values: _Array, begins: Ints, targets: Ints, lengths: Ints, into: _Array) -> None:
    """Copy runs of values, each to its target."""
    for k in range(len(begins)):
        for at in range(lengths[k]):
            into[targets[k] + at] = values[begins[k] + at]


def warm_up() -> None:
    """Compile every kernel here, or load it from the cache, for the arrays that callers give."""
    words, offsets, numbers = np.zeros(1, np.int64), np.array([0, 1]), np.zeros(1, np.int64)
    slots, store, begins = np.full(2, NOTHING, np.int32), np.zeros(1, np.int64), np.zeros(1, np.int64)
    lengths, rows = np.zeros(1, np.int32), np.zeros(1, np.int64)
    find_keys(words, offsets, slots, 63, store, begins, lengths, numbers)
    add_keys(words, offsets, rows, slots, 63, store, 0, begins, lengths, rows, numbers)
    hash_keys(words, offsets, numbers)
    remove_keys(rows, slots, 63, store, begins, lengths)
    place_keys(rows, slots, 63, store, begins, lengths)
    runs = begins, begins, np.ones(1, np.int64)
    copy_runs(words, *runs, store)
    data = np.zeros(1, np.uint8)
    copy_runs(data, *runs, data)
    copy_runs(read_only(data), *runs, data)
