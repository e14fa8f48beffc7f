"""Rings of rows in order of time, many in one set of arrays, with what is needed to aggregate any run of them.

A ring is a run of places: `time[a]`, `ints[a, :]`, `floats[a, :]` belong to the row at place a. The place before its first one is
always its own. Three kinds of columns can be aggregated from place lo to place hi, both included:

    prefix     ints[a, c] is the sum of the column up to a; a run has ints[hi, c] - ints[lo - 1, c], modulo 2**64
    sums       floats[a, c] is a number; c + 1 and c + 2 are the double-double sum of the places (a - (a & -a), a]
    winners    ints[a, c] is the place of the row that wins among the places (a - (a & -a), a], or NOTHING

The last two are Fenwick's trees (P. M. Fenwick, "A New Data Structure for Cumulative Frequency Tables", 1994) over places rather
than ranks, asked for runs that begin anywhere: a node is used where it lies inside, else its own row and the nodes below. Nothing
is ever subtracted, so a large number that leaves takes no digits with it. Appending costs O(1) on average, asking O(log) of the
run. Nodes that begin before the ring are incomplete, and never asked.

    sums[k]     = column, whether squares are summed
    winners[k]  = column, column of keys, prefix column that counts valid rows, LEAST | GREATEST | EARLIEST | LATEST
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel
from eddyline.kernels.layouts import EARLIEST, EPOCH, GREATEST, LATEST, LEAST, NOTHING

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_LEAST, _GREATEST, _EARLIEST, _LATEST = LEAST, GREATEST, EARLIEST, LATEST
_SPLITTER = 134217729.0  # 2**27 + 1


@kernel
def plus(high: float, low: float, more: float, more_low: float) -> tuple[float, float]:
    """The sum of two double-doubles; an overflow is an infinity."""
    total = high + more
    if not math.isfinite(total):
        return total, 0.0
    part = total - high
    rest = (high - (total - part)) + (more - part)
    low_total = low + more_low
    low_part = low_total - low
    low_rest = (low - (low_total - low_part)) + (more_low - low_part)
    rest += low_total
    upper = total + rest
    rest = (rest - (upper - total)) + low_rest
    result = upper + rest
    return result, rest - (result - upper)


@kernel
def squared(x: float) -> tuple[float, float]:
    """The square of a number as a double-double; an overflow is an infinity."""
    product = x * x
    if not math.isfinite(product) or abs(x) < 1e-140:
        return product, 0.0
    wide = _SPLITTER * x
    upper = wide - (wide - x)
    lower = x - upper
    return product, ((upper * upper - product) + 2.0 * upper * lower) + lower * lower


@kernel
def leaf_sum(floats: Floats, is_off: Mask, a: int, column: int, is_square: int) -> tuple[float, float]:
    """What the row of a place adds to a sum."""
    if is_off[a]:
        return 0.0, 0.0
    x = floats[a, column]
    return squared(x) if is_square else (x, 0.0)


@kernel
def leaf_winner(ints: Ints, is_off: Mask, a: int, valid: int) -> int:
    """The place itself, if its row can win."""
    return a if ints[a, valid] != ints[a - 1, valid] and not is_off[a] else NOTHING


@kernel
def better(ints: Ints, a: int, b: int, key: int, mode: int) -> int:
    """Which of two places wins; of equal keys the later one."""
    if a == NOTHING or b == NOTHING:
        return b if a == NOTHING else a
    if mode == _EARLIEST:
        return min(a, b)
    if mode != _LATEST and ints[a, key] != ints[b, key]:
        return a if (ints[a, key] < ints[b, key]) == (mode == _LEAST) else b
    return max(a, b)


@kernel
def put_sum(floats: Floats, is_off: Mask, a: int, start: int, column: int, is_square: int) -> None:
    """The node of a place, from its row and the nodes below."""
    high, low = leaf_sum(floats, is_off, a, column, is_square)
    step, width = 1, a & -a
    while step < width and a - step >= start:
        high, low = plus(high, low, floats[a - step, column + 1], floats[a - step, column + 2])
        step *= 2
    floats[a, column + 1], floats[a, column + 2] = high, low


@kernel
def put_winner(ints: Ints, is_off: Mask, a: int, start: int, winner: Ints) -> None:
    """The node of a place, from its row and the nodes below."""
    column, key, valid, mode = winner[0], winner[1], winner[2], winner[3]
    best = leaf_winner(ints, is_off, a, valid)
    step, width = 1, a & -a
    while step < width and a - step >= start:
        best = better(ints, best, ints[a - step, column], key, mode)
        step *= 2
    ints[a, column] = best


@kernel
def put_nodes(
    first: int, end: int, start: int, ints: Ints, floats: Floats, is_off: Mask, sums: Ints, winners: Ints
) -> None:
    """The nodes of places from `first` on, of a ring that begins at `start`."""
    for a in range(first, end):
        for k in range(len(sums)):
            put_sum(floats, is_off, a, start, sums[k, 0], sums[k, 1])
        for k in range(len(winners)):
            put_winner(ints, is_off, a, start, winners[k])


@kernel
def build_nodes(
    firsts: Ints,
    ends: Ints,
    starts: Ints,
    ints: Ints,
    floats: Floats,
    is_off: Mask,
    sums: Ints,
    winners: Ints,
) -> None:
    """The nodes of several rings."""
    for r in range(len(firsts)):
        put_nodes(firsts[r], ends[r], starts[r], ints, floats, is_off, sums, winners)


@kernel
def _put_row(
    a: int, k: int, time: Ints, ints: Ints, floats: Floats,
    row_time: Ints, row_ints: Ints, row_floats: Floats, is_prefix: Mask,
) -> None:  # fmt: skip
    """Row k at place a."""
    time[a] = row_time[k]
    for c in range(len(is_prefix)):
        ints[a, c] = row_ints[k, c] + (ints[a - 1, c] if is_prefix[c] else 0)
    for c in range(floats.shape[1]):
        floats[a, c] = row_floats[k, c]


@kernel
def append_rows(
    places: Ints, starts: Ints, time: Ints, ints: Ints, floats: Floats, is_off: Mask,
    row_time: Ints, row_ints: Ints, row_floats: Floats, is_prefix: Mask, sums: Ints, winners: Ints,
) -> None:  # fmt: skip
    """Rows at the ends of their rings, one behind the other."""
    for k in range(len(places)):
        a = places[k]
        if a != NOTHING:
            _put_row(a, k, time, ints, floats, row_time, row_ints, row_floats, is_prefix)
            put_nodes(a, a + 1, starts[k], ints, floats, is_off, sums, winners)


@kernel
def merge_rows(
    old: Ints, n_old: Ints, new: Ints, run: Ints, by_time: Ints, time: Ints, ints: Ints, floats: Floats, is_off: Mask,
    row_time: Ints, row_ints: Ints, row_floats: Floats, is_prefix: Mask, sums: Ints, winners: Ints,
    places: Ints, is_mixed: Mask,
) -> None:  # fmt: skip
    """Rings at new places, with the rows by_time[run[r]:run[r + 1]], which are in order of time, behind rows of the same time.

    Gives the places of these rows, and for each ring whether epochs fall on the way."""
    n_columns = len(is_prefix)
    for r in range(len(old)):
        begin = a = new[r]
        for c in range(n_columns):
            ints[a - 1, c] = 0
        b, old_end, k, run_end = old[r], old[r] + n_old[r], run[r], run[r + 1]
        is_mixed[r] = False
        while b < old_end or k < run_end:
            if k == run_end or (b < old_end and time[b] <= row_time[by_time[k]]):
                time[a] = time[b]
                for c in range(n_columns):
                    ints[a, c] = ints[b, c] - (ints[b - 1, c] - ints[a - 1, c] if is_prefix[c] else 0)
                for c in range(floats.shape[1]):
                    floats[a, c] = floats[b, c]
                b += 1
            else:
                _put_row(a, by_time[k], time, ints, floats, row_time, row_ints, row_floats, is_prefix)
                places[by_time[k]] = a
                k += 1
            is_mixed[r] |= a > begin and ints[a, EPOCH] < ints[a - 1, EPOCH]
            a += 1
        put_nodes(begin, a, begin, ints, floats, is_off, sums, winners)


@kernel
def purge_cuts(
    at: Ints, n: Ints, n_pinned: Ints, time: Ints, ints: Ints, limit: int, watermark: int, n_behind: int, epochs: Ints, cuts: Ints
) -> None:  # fmt: skip
    """How many rows at the beginning of each ring, behind those that are pinned, no frame can hold any more.

    Those below the limit, but of those below the watermark that queries of an epoch see, not the newest `n_behind`."""
    for p in range(len(at)):
        start, end = at[p] + n_pinned[p], at[p] + n[p]
        cut = start
        while cut < end and time[cut] < limit:
            cut += 1
        if cut > start and n_behind > 0:
            below = cut + np.searchsorted(time[cut:end], watermark)
            for e in range(len(epochs)):
                seen, a = 0, below
                while a > start and seen < n_behind:
                    a -= 1
                    if ints[a, EPOCH] >= epochs[e]:
                        seen += 1
                        cut = min(cut, a)
        cuts[p] = cut - start


@kernel
def fold_rows(
    rings: Ints, first: Ints, n: Ints, ints: Ints, floats: Floats, epochs: Ints, is_prefix: Mask, sums: Ints,
    folded_ints: Ints, folded_floats: Floats,
) -> None:  # fmt: skip
    """Add the n rows from `first` on to what the newest of these epochs that sees them has folded of their rings."""
    for r in range(len(rings)):
        for a in range(first[r], first[r] + n[r]):
            e = np.searchsorted(epochs, ints[a, EPOCH], side="right") - 1
            for c in range(len(is_prefix)):
                if is_prefix[c]:
                    folded_ints[e, rings[r], c] += ints[a, c] - ints[a - 1, c]
            for k in range(len(sums)):
                column = sums[k, 0]
                x, rest = squared(floats[a, column]) if sums[k, 1] else (floats[a, column], 0.0)
                high, low = folded_floats[e, rings[r], column + 1], folded_floats[e, rings[r], column + 2]
                high, low = plus(high, low, x, rest)
                folded_floats[e, rings[r], column + 1], folded_floats[e, rings[r], column + 2] = high, low


@kernel
def pin_winners(starts: Ints, ends: Ints, ints: Ints, epochs: Ints, winner: Ints, is_pinned: Mask) -> None:
    """Mark the rows that win between places of each ring, as queries of each epoch see it."""
    key, valid, mode = winner[1], winner[2], winner[3]
    for r in range(len(starts)):
        for e in range(len(epochs)):
            best = NOTHING
            for a in range(starts[r], ends[r]):
                if ints[a, EPOCH] >= epochs[e] and ints[a, valid] != ints[a - 1, valid]:
                    best = better(ints, best, a, key, mode)
            if best != NOTHING:
                is_pinned[best] = True


@kernel
def pin_distinct(
    starts: Ints, ends: Ints, ints: Ints, column: int, valid: int, newest: Ints, is_pinned: Mask
) -> None:
    """Mark for each distinct number between places of each ring the row of the newest epoch; `newest`: NOTHING everywhere."""
    for r in range(len(starts)):
        for a in range(starts[r], ends[r]):
            if ints[a, valid] != ints[a - 1, valid]:
                best = newest[ints[a, column]]
                if best == NOTHING or ints[best, EPOCH] <= ints[a, EPOCH]:
                    newest[ints[a, column]] = a
        for a in range(starts[r], ends[r]):
            if ints[a, valid] != ints[a - 1, valid]:
                is_pinned[newest[ints[a, column]]] = True
        for a in range(starts[r], ends[r]):
            if ints[a, valid] != ints[a - 1, valid]:
                newest[ints[a, column]] = NOTHING


def warm_up() -> None:
    """Compile the kernels, or fetch them from the cache."""
    one, is_off, is_prefix = (
        np.ones(1, np.int64),
        np.zeros(8, dtype=bool),
        np.array([False, False, True, False]),
    )
    time, ints, floats = np.zeros(8, np.int64), np.zeros((8, 4), np.int64), np.zeros((8, 3))
    sums, winners = np.zeros((1, 2), np.int64), np.array([[3, 2, 2, LATEST]])
    rows: Any = (one.copy(), np.ones((1, 4), np.int64), np.ones((1, 3)), is_prefix, sums, winners)
    ring: Any = (time, ints, floats, is_off)
    append_rows(one, one, *ring, *rows)
    places, is_mixed = one.copy(), np.zeros(1, dtype=bool)
    merge: Any = (one, one, 4 * one, np.array([0, 1]), 0 * one, *ring, *rows, places, is_mixed)
    merge_rows(*merge)
    build_nodes(one, 2 * one, one, ints, floats, is_off, sums, winners)
    purge_cuts(one, one, 0 * one, time, ints, 0, 0, 1, one, one.copy())
    fold_rows(
        0 * one,
        one,
        one,
        ints,
        floats,
        0 * one,
        is_prefix,
        sums,
        np.zeros((1, 1, 4), np.int64),
        np.zeros((1, 1, 3)),
    )
    pin_winners(one, 2 * one, ints, one, winners[0], is_off.copy())
    pin_distinct(one, 2 * one, ints, 3, 2, np.full(8, NOTHING), is_off.copy())
