"""Frames of rows in rings (over_rings.py): where they begin, and what is in them.

Rows are sorted by ring and, within it, by arrival. Where rows come in order of time, the frame of a row is a run that ends with
it. Elsewhere later rows of the round lie in between. Kernels therefore walk backward, from the last arrival to the first, and a
row that has been answered is switched off before the one that came before it. A row can also be hidden from queries of an epoch;
such rows are off from the beginning. Both are *specials* of a ring, in order of their places; sums that are prefix columns are
corrected by a Fenwick tree over them.

    special[f:e]   places of the specials of a ring, ascending; row k has ring[k], and its ring spans[ring[k]]:spans[ring[k] + 1]
    is_apart[k]    whether the ring of row k has specials
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel
from eddyline.kernels.layouts import ARRIVAL, EPOCH, NOTHING
from eddyline.kernels.over_rings import better, leaf_sum, leaf_winner, plus, put_sum, put_winner

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@kernel
def range_starts(time: Ints, starts: Ints, places: Ints, reach: int, lows: Ints) -> None:
    """For each place the first one, from its start on, with a time at most `reach` before."""
    for k in range(len(places)):
        low, high = starts[k], places[k]
        earliest = time[places[k]] - reach
        while low < high:
            middle = (low + high) >> 1
            if time[middle] < earliest:
                low = middle + 1
            else:
                high = middle
        lows[k] = low


@kernel
def epoch_starts(ints: Ints, starts: Ints, ends: Ints, epoch: int, firsts: Ints) -> None:
    """For each ring, whose epochs never fall, the first place of this epoch or a newer one."""
    for k in range(len(starts)):
        low, high = starts[k], ends[k]
        while low < high:
            middle = (low + high) >> 1
            if ints[middle, EPOCH] < epoch:
                low = middle + 1
            else:
                high = middle
        firsts[k] = low


# ----------------------------------------------------------------------------------------------- specials


@kernel
def find_specials(
    first: Ints,
    ends: Ints,
    ints: Ints,
    first_arrival: int,
    epoch: int,
    is_off: Mask,
    spans: Ints,
    specials: Ints,
) -> int:
    """The specials of rings from their first places on: rows of this round, and rows that are hidden, which are switched off.

    Returns how many are hidden; with no room for specials they are only counted."""
    n, n_hidden, only_counts = 0, 0, len(specials) == 0
    for r in range(len(first)):
        spans[r] = n
        for a in range(first[r], ends[r]):
            is_hidden = ints[a, EPOCH] < epoch
            if is_hidden or ints[a, ARRIVAL] >= first_arrival:
                if not only_counts:
                    specials[n] = a
                    is_off[a] = is_hidden
                    n_hidden += is_hidden
                n += 1
    spans[len(first)] = n
    return n if only_counts else n_hidden


@kernel
def _index(specials: Ints, first: int, end: int, place: int) -> int:
    """How many of these specials are at or before a place."""
    low, high = first, end
    while low < high:
        middle = (low + high) >> 1
        if specials[middle] <= place:
            low = middle + 1
        else:
            high = middle
    return low - first


@kernel
def _total(tree: Ints, first: int, n: int) -> int:
    """The sum of the first n elements."""
    total = 0
    while n > 0:
        total += tree[first + n - 1]
        n -= n & -n
    return total


@kernel
def _add(tree: Ints, first: int, end: int, n: int, number: int) -> None:
    """Add to the n-th element."""
    while n <= end - first:
        tree[first + n - 1] += number
        n += n & -n


@kernel
def _begin(tree: Ints, specials: Ints, spans: Ints, is_off: Mask, ints: Ints, column: int) -> None:
    """A tree of what hidden rows have in a prefix column."""
    tree[:] = 0
    for r in range(len(spans) - 1):
        for k in range(spans[r], spans[r + 1]):
            a = specials[k]
            if is_off[a]:
                _add(tree, spans[r], spans[r + 1], k - spans[r] + 1, ints[a, column] - ints[a - 1, column])


@kernel
def places_back(
    n_back: Ints, places: Ints, starts: Ints, ring: Ints, specials: Ints, spans: Ints, is_off: Mask, ints: Ints,
    counting: int, tree: Ints, found: Ints,
) -> None:  # fmt: skip
    """found[f, k]: the place of the row n_back[f] before row k, or NOTHING. `counting`: the column that counts all rows."""
    _begin(tree, specials, spans, is_off, ints, counting)
    for k in range(len(places) - 1, -1, -1):
        place, r = places[k], ring[k]
        for f in range(len(n_back)):
            if r == NOTHING:
                found[f, k] = place - n_back[f] if place - n_back[f] >= starts[k] else NOTHING
                continue
            first, end = spans[r], spans[r + 1]
            n_off = _total(tree, first, _index(specials, first, end, place))
            low, high, best = starts[k], place, NOTHING
            while low <= high:
                middle = (low + high) >> 1
                n_off_inside = n_off - _total(tree, first, _index(specials, first, end, middle - 1))
                if place - middle + 1 - n_off_inside > n_back[f]:
                    best, low = middle, middle + 1
                else:
                    high = middle - 1
            found[f, k] = best
        if r != NOTHING:
            _add(tree, spans[r], spans[r + 1], _index(specials, spans[r], spans[r + 1], place), 1)


@kernel
def prefix_totals(
    column: int, lows: Ints, places: Ints, ring: Ints, specials: Ints, spans: Ints, is_off: Mask, ints: Ints, tree: Ints,
    totals: Ints,
) -> None:  # fmt: skip
    """totals[f, k]: the sum of a prefix column from lows[f, k] to the place of row k, without rows that are off."""
    if len(specials):
        _begin(tree, specials, spans, is_off, ints, column)
    for k in range(len(places) - 1, -1, -1):
        place, r = places[k], ring[k]
        for f in range(len(lows)):
            totals[f, k] = ints[place, column] - ints[lows[f, k] - 1, column]
        if r != NOTHING:
            first, end = spans[r], spans[r + 1]
            own = _index(specials, first, end, place)
            n_off = _total(tree, first, own)
            for f in range(len(lows)):
                before = _index(specials, first, end, lows[f, k] - 1)
                totals[f, k] -= n_off - _total(tree, first, before)
            _add(tree, first, end, own, ints[place, column] - ints[place - 1, column])


# ----------------------------------------------------------------------------------------------- nodes


@kernel
def _sum_between(
    floats: Floats, is_off: Mask, low: int, high: int, column: int, is_square: int
) -> tuple[float, float]:
    total, rest = 0.0, 0.0
    a = high
    while a >= low:
        width = a & -a
        if a - width + 1 >= low:
            total, rest = plus(total, rest, floats[a, column + 1], floats[a, column + 2])
            a -= width
        else:
            x, x_rest = leaf_sum(floats, is_off, a, column, is_square)
            total, rest = plus(total, rest, x, x_rest)
            a -= 1
    return total, rest


@kernel
def _winner_between(ints: Ints, is_off: Mask, low: int, high: int, winner: Ints) -> int:
    column, key, valid, mode = winner[0], winner[1], winner[2], winner[3]
    best = NOTHING
    a = high
    while a >= low:
        width = a & -a
        if a - width + 1 >= low:
            best = better(ints, best, ints[a, column], key, mode)
            a -= width
        else:
            best = better(ints, best, leaf_winner(ints, is_off, a, valid), key, mode)
            a -= 1
    return best


@kernel
def _renew_sum(
    floats: Floats, is_off: Mask, a: int, start: int, end: int, column: int, is_square: int
) -> None:
    """The nodes of a ring that a place is in."""
    while a < end:
        put_sum(floats, is_off, a, start, column, is_square)
        a += a & -a


@kernel
def _renew_winner(ints: Ints, is_off: Mask, a: int, start: int, end: int, winner: Ints) -> None:
    while a < end:
        put_winner(ints, is_off, a, start, winner)
        a += a & -a


@kernel
def sums_between(
    lane: Ints, lows: Ints, places: Ints, ring: Ints, starts: Ints, ends: Ints, floats: Floats, is_off: Mask,
    totals: Floats, rests: Floats,
) -> None:  # fmt: skip
    """Double-double sums from lows[f, k] to the place of row k, without rows that are off. Starts and ends are those of rings."""
    for k in range(len(places) - 1, -1, -1):
        for f in range(len(lows)):
            totals[f, k], rests[f, k] = _sum_between(floats, is_off, lows[f, k], places[k], lane[0], lane[1])
        if ring[k] != NOTHING:
            is_off[places[k]] = True
            _renew_sum(floats, is_off, places[k], starts[k], ends[k], lane[0], lane[1])
    for k in range(len(places)):
        if ring[k] != NOTHING:
            is_off[places[k]] = False
            _renew_sum(floats, is_off, places[k], starts[k], ends[k], lane[0], lane[1])


@kernel
def winners_between(
    winner: Ints,
    lows: Ints,
    places: Ints,
    ring: Ints,
    starts: Ints,
    ends: Ints,
    ints: Ints,
    is_off: Mask,
    found: Ints,
) -> None:
    """The place that wins from lows[f, k] to the place of row k, without rows that are off, or NOTHING."""
    for k in range(len(places) - 1, -1, -1):
        for f in range(len(lows)):
            found[f, k] = _winner_between(ints, is_off, lows[f, k], places[k], winner)
        if ring[k] != NOTHING:
            is_off[places[k]] = True
            _renew_winner(ints, is_off, places[k], starts[k], ends[k], winner)
    for k in range(len(places)):
        if ring[k] != NOTHING:
            is_off[places[k]] = False
            _renew_winner(ints, is_off, places[k], starts[k], ends[k], winner)


# ----------------------------------------------------------------------------------------------- distinct numbers


@kernel
def _counts(ints: Ints, is_off: Mask, a: int, valid: int) -> bool:
    return ints[a, valid] != ints[a - 1, valid] and not is_off[a]


@kernel
def distinct_between(
    column: int,
    valid: int,
    lows: Ints,
    places: Ints,
    ring: Ints,
    ints: Ints,
    is_off: Mask,
    times: Ints,
    found: Ints,
) -> None:
    """How many distinct numbers a column has from lows[f, k] to the place of row k, among valid rows that are not off.

    Frames of a ring whose rows are in order slide over it: the first one is walked, then what enters and leaves. Others are
    walked one by one. `times` has a zero for each number, and has them again afterwards."""
    for f in range(len(lows)):
        k = 0
        while k < len(places):
            if ring[k] == NOTHING:
                k = _slide(column, valid, lows[f], places, ring, ints, is_off, times, found[f], k)
            else:
                k += 1
        for k in range(len(places) - 1, -1, -1):
            if ring[k] != NOTHING:
                n = _enter(column, valid, lows[f, k], places[k] + 1, ints, is_off, times)
                found[f, k] = n
                _leave(column, valid, lows[f, k], places[k] + 1, ints, is_off, times)
                is_off[places[k]] = True
        for k in range(len(places)):
            if ring[k] != NOTHING:
                is_off[places[k]] = False


@kernel
def _enter(column: int, valid: int, low: int, end: int, ints: Ints, is_off: Mask, times: Ints) -> int:
    """Count the numbers of places; returns how many were not there."""
    n = 0
    for a in range(low, end):
        if _counts(ints, is_off, a, valid):
            n += times[ints[a, column]] == 0
            times[ints[a, column]] += 1
    return n


@kernel
def _leave(column: int, valid: int, low: int, end: int, ints: Ints, is_off: Mask, times: Ints) -> int:
    """Take the numbers of places out; returns how many are not there any more."""
    n = 0
    for a in range(low, end):
        if _counts(ints, is_off, a, valid):
            times[ints[a, column]] -= 1
            n += times[ints[a, column]] == 0
    return n


@kernel
def _slide(
    column: int, valid: int, lows: Ints, places: Ints, ring: Ints, ints: Ints, is_off: Mask, times: Ints, found: Ints, k: int
) -> int:  # fmt: skip
    """The frames of rows from the k-th on that follow each other in a ring; returns the row behind."""
    low, end, n = lows[k], lows[k], 0
    while True:
        n -= _leave(column, valid, low, min(lows[k], end), ints, is_off, times)
        low = lows[k]
        n += _enter(column, valid, max(end, low), places[k] + 1, ints, is_off, times)
        end = places[k] + 1
        found[k] = n
        k += 1
        if k == len(places) or ring[k] != NOTHING or places[k] != end or lows[k] < low:
            break
    _leave(column, valid, low, end, ints, is_off, times)
    return k


def warm_up() -> None:
    """Compile the kernels, or fetch them from the cache."""
    one, zero, is_off = np.ones(1, np.int64), np.zeros(1, np.int64), np.zeros(4, dtype=bool)
    time, ints, floats, found = (
        np.zeros(4, np.int64),
        np.zeros((4, 4), np.int64),
        np.zeros((4, 3)),
        np.ones((1, 1), np.int64),
    )
    spans, lows = np.array([0, 1]), found.copy()
    range_starts(time, one, one, 1, one.copy())
    epoch_starts(ints, one, one, 1, one.copy())
    find_specials(one, 2 * one, ints, 0, 0, is_off, spans, one.copy())
    places_back(zero, one, one, zero, one, spans, is_off, ints, 2, zero.copy(), found)
    prefix_totals(2, lows, one, zero, one, spans, is_off, ints, zero.copy(), found)
    sums_between(
        np.zeros(2, np.int64),
        lows,
        one,
        zero,
        one,
        2 * one,
        floats,
        is_off,
        np.zeros((1, 1)),
        np.zeros((1, 1)),
    )
    winners_between(np.array([3, 2, 2, 0]), lows, one, zero, one, 2 * one, ints, is_off, found)
    distinct_between(3, 2, lows, one, zero, ints, is_off, np.zeros(4, np.int64), found)
