"""Key lists: the entries of a row's key, and those among them whose intervals hold the row's other values.

Entries stand one behind the other, list by list, and are numbered so. Four by four their bounds form a *quad*: for each attribute
four lows, then four highs. A quad is compared at once; where lists meet within one, the entries of other keys are masked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types

from eddyline.kernels.interval_masks import chosen, keys_within_4
from eddyline.kernels.lanes import kernel, lowest_one, primitive
from eddyline.kernels.layouts import LONG_LIST, QUAD

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_AHEAD = 4  # rows whose entries are asked for before they are needed
_LINE_KEYS = 8  # in a line of the cache
_ALL, _ONE, _TWO = ~np.uint64(0), np.uint64(1), np.uint64(2)


# ----------------------------------------------------------------------------------------------- finding lists


@kernel
def slot_of(key: int, shift: int) -> np.int64:
    """Where to look first for a key in a table of 2 ** (64 - shift) slots."""
    mixed = np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.int64(mixed >> np.uint64(shift))


@kernel
def fill_table(keys: Int64s, starts: Int64s, ends: Int64s, shift: int, table: Int64s) -> None:
    """Enter distinct keys. A slot is a key and end << 32 | start of its list; where that is 0, the slot is free."""
    last = (len(table) >> 1) - 1
    for at in range(len(keys)):
        slot = slot_of(keys[at], shift)
        while table[2 * slot + 1]:
            slot = (slot + 1) & last
        table[2 * slot] = keys[at]
        table[2 * slot + 1] = ends[at] << 32 | starts[at]


@kernel
def find_lists(keys: Int64s, is_null: Mask, shift: int, table: Int64s, starts: Int32s, ends: Int32s) -> int:
    """Write where the list of each row's key starts and ends; gives the entries of all these lists together.

    Rows where `is_null`, and those of keys without a list, get an empty one. `is_null` may be empty: there is no NULL.
    """
    last = (len(table) >> 1) - 1
    n_entries = 0
    for row in range(len(keys)):
        slot = slot_of(keys[row], shift)
        found = table[2 * slot + 1]
        while found and table[2 * slot] != keys[row]:
            slot = (slot + 1) & last
            found = table[2 * slot + 1]
        if len(is_null) and is_null[row]:
            found = 0
        start, end = found & 0xFFFFFFFF, found >> 32
        starts[row], ends[row] = start, end
        n_entries += end - start
    return n_entries


@kernel
def find_dense_lists(
    keys: Int64s, is_null: Mask, first_key: int, list_starts: Int32s, starts: Int32s, ends: Int32s
) -> int:
    """Like `find_lists`, where key first_key + k has the entries from list_starts[k] to list_starts[k + 1], the last k none."""
    no_query = np.uint64(len(list_starts) - 2)
    n_entries = 0
    for row in range(len(keys)):
        at = np.int64(min(np.uint64(keys[row]) - np.uint64(first_key), no_query))
        start, end = list_starts[at], list_starts[at + 1]
        if len(is_null) and is_null[row]:
            start = end
        starts[row], ends[row] = start, end
        n_entries += end - start
    return n_entries


# ----------------------------------------------------------------------------------------------- matching entries


@primitive
def prefetch(typing: Any, numbers: Any, at: Any) -> Any:
    """Ask for the memory of numbers[at] without waiting for it."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        to_read, into_all_levels, data_cache = flag(0), flag(3), flag(1)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(function, [address, to_read, into_all_levels, data_cache])
        return context.get_dummy_value()

    nothing: Any = types.void
    return nothing(numbers, types.int64), emit


@kernel
def fill_reach(starts: Int64s, ends: Int64s, highs: Int64s, spans: Int64s) -> None:
    """Write to spans[2 e + 1] the greatest high among entry e and those before it in its list."""
    for at in range(len(starts)):
        reach = highs[starts[at]]
        for entry in range(starts[at], ends[at]):
            reach = max(reach, highs[entry])
            spans[2 * entry + 1] = reach


@kernel
def match_lists(
    values: Int64s,
    n_sides: int,
    order: Int64s,
    starts: Int32s,
    ends: Int32s,
    bounds: Int64s,
    spans: Int64s,
    live: Words,
    ids: Int32s,
    done: int,
    n: int,
    begins: Int64s,
    out: Int32s,
) -> tuple[int, int]:
    """Append to `out` the ids of the live entries that hold a row's values, for one row of `order` after the other.

    Row r has values[r * n_sides + k] on attribute k and looks at the entries from starts[r] to ends[r]. In a list longer than
    LONG_LIST they ascend by the first attribute's low, spans[2 e], and spans[2 e + 1] is how far highs reach up to entry e;
    `spans` may be empty where no list is long. An empty `order` takes rows as they come.

    The first `done` rows are done already and gave the n ids there are; begins[r] becomes where the ids of row r begin. Stops
    where those of the next row might not fit. Gives done and n to go on with.
    """
    n_rows = len(starts)
    quad_size = 2 * QUAD * n_sides
    while done < n_rows:
        row = order[done] if len(order) else done
        if done + _AHEAD < n_rows:
            ahead = order[done + _AHEAD] if len(order) else done + _AHEAD
            quad = (starts[ahead] // QUAD) * quad_size
            prefetch(bounds, quad)
            prefetch(bounds, quad + _LINE_KEYS)
        start: Any = np.int64(starts[row])
        end: Any = np.int64(ends[row])
        if len(out) - n < end - start:
            break
        begins[row] = n
        done += 1
        if end - start > LONG_LIST and len(spans):
            # from the first entry that is reached to the last that has begun
            value = values[row * n_sides]
            reached = begun = np.uint64(2 * start)
            n_remaining = np.uint64(2 * (end - start))
            while n_remaining > _TWO:
                half = n_remaining >> _TWO << _ONE
                reached = chosen(spans[reached + half - _ONE] < value, reached + half, reached)
                begun = chosen(spans[begun + half - _TWO] <= value, begun + half, begun)
                n_remaining -= half
            start = np.int64(chosen(spans[reached + _ONE] < value, reached + _TWO, reached) >> _ONE)
            end = np.int64(chosen(spans[begun] <= value, begun + _TWO, begun) >> _ONE)
        if start >= end:
            continue
        for at in range(start >> 6, ((end - 1) >> 6) + 1):
            first, last = max(start - at * 64, 0), min(end - at * 64, 64)
            word = np.uint64(0)
            for place in range(first & -QUAD, last, QUAD):
                quad = (at * 64 + place) // QUAD * quad_size
                passed = keys_within_4(bounds, quad, values, row * n_sides, n_sides)
                word |= passed << np.uint64(place)
            word &= live[at] & (_ALL << np.uint64(first)) & (_ALL >> np.uint64(64 - last))
            while word:
                out[n] = ids[at * 64 + lowest_one(word)]
                word &= word - _ONE
                n += 1
    return done, n


@kernel
def gather_rows(begins: Int64s, offsets: Int64s, ids: Int32s, out: Int32s) -> None:
    """Copy the ids of each row r from ids[begins[r] ...] to out[offsets[r] : offsets[r + 1]]."""
    for row in range(len(offsets) - 1):
        shift = begins[row] - offsets[row]
        for at in range(offsets[row], offsets[row + 1]):
            out[at] = ids[at + shift]


def warm_up() -> None:
    """Compile the kernels, or load them, for the types of arrays that key lists have."""
    constants, bounds = np.zeros(16, np.int64), np.zeros((1, 1, 2, QUAD), np.int64)
    words, ids, no_nulls = np.zeros(1, np.uint64), np.zeros(3, np.int32), np.zeros(0, np.bool_)
    for array in (constants, bounds, words, ids, no_nulls):
        array.flags.writeable = False
    numbers, nothing, places = np.zeros(8, np.int64), np.zeros(0, np.int64), np.zeros(1, np.int32)
    fill_table(nothing, nothing, nothing, 62, numbers)
    fill_reach(nothing, nothing, nothing, numbers)
    find_lists(constants[:1], no_nulls, 61, constants, places, places)
    find_dense_lists(constants[:1], no_nulls, 0, ids, places, places)
    match_lists(numbers, 1, nothing, places, places, bounds, constants, words, ids, 0, 0, numbers, places)
    gather_rows(numbers[:1], numbers[:2], places, places)
