"""Which query classes are still open on which rows, as bits, and what a filter does to them.

A class is a bit of a word, and a word is a column over all rows: `words[class // 64, row]`. A filter is a set of classes in the
same form: those that have it. Most filters touch few words, and only their columns are looked at.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel

_Words = npt.NDArray[np.uint64]  # [words, rows]
_Set = npt.NDArray[np.uint64]  # [words]
_Numbers = npt.NDArray[np.int64]
_Bits = npt.NDArray[np.bool_]
_Verdicts = npt.NDArray[np.int8]

_ONE = np.uint64(1)
_NONE = np.uint64(0)


@kernel
def mark_rows(rows: _Numbers, is_here: _Bits) -> None:
    for k in range(len(rows)):
        is_here[rows[k]] = True


@kernel
def open_pairs(rows: _Numbers, classes: _Numbers, local: _Numbers, words: _Words, n_pairs: _Numbers) -> None:
    """Class `classes[k]` is open on row `rows[k]`, whose bits are at `local` of it; add up the pairs of each class."""
    for k in range(len(rows)):
        words[classes[k] >> 6, local[rows[k]]] |= _ONE << np.uint64(classes[k] & 63)
        n_pairs[classes[k]] += 1


@kernel
def rows_needing(words: _Words, members: _Set, needing: _Numbers) -> int:
    """Rows on which a class that has the filter is open; gives how many are in `needing` now."""
    touched = np.flatnonzero(members)
    n = 0
    if len(touched) == 1:
        column, mine = words[touched[0]], members[touched[0]]
        for row in range(len(column)):
            needing[n] = row
            n += int(column[row] & mine != _NONE)  # a number, not a branch: it is hard to foretell
    elif len(touched) == 2:
        column, mine = words[touched[0]], members[touched[0]]
        other, theirs = words[touched[1]], members[touched[1]]
        for row in range(len(column)):
            needing[n] = row
            n += int((column[row] & mine) | (other[row] & theirs) != _NONE)
    else:
        hit = np.zeros(words.shape[1], np.bool_)
        for word in touched:
            column, mine = words[word], members[word]
            for row in range(len(column)):
                hit[row] |= column[row] & mine != _NONE
        for row in range(len(hit)):
            needing[n] = row
            n += int(hit[row])
    return n


@kernel
def needing_among(words: _Words, members: _Set, rows: _Numbers, needing: _Numbers) -> int:
    """The same of some rows."""
    touched = np.flatnonzero(members)
    n = 0
    for k in range(len(rows)):
        hit = _NONE
        for word in touched:
            hit |= words[word, rows[k]] & members[word]
        needing[n] = rows[k]
        n += int(hit != _NONE)
    return n


@kernel
def close_where_dropped(words: _Words, rows: _Numbers, passes: _Bits, members: _Set) -> int:
    """Close the classes that have the filter on rows that do not pass it; gives how many pass."""
    touched = np.flatnonzero(members)
    first = 0
    if len(touched) >= 2:  # two words at once: the rows are read from memory once
        column, others = words[touched[0]], ~members[touched[0]]
        second, rest = words[touched[1]], ~members[touched[1]]
        for k in range(len(rows)):
            row, pass_mask = np.uintp(rows[k]), _NONE - np.uint64(passes[k])  # all bits, or none: no branch
            column[row] &= pass_mask | others
            second[row] &= pass_mask | rest
        first = 2
    for word in touched[first:]:
        column, others = words[word], ~members[word]
        for k in range(len(rows)):
            column[np.uintp(rows[k])] &= (_NONE - np.uint64(passes[k])) | others
    n = 0
    for k in range(len(passes)):
        n += int(passes[k])
    return n


@kernel
def note(verdicts: _Verdicts, rows: _Numbers, passes: _Bits) -> None:
    """Write down a filter's verdicts: 2 for a pass, 1 for a drop."""
    for k in range(len(rows)):
        verdicts[np.uintp(rows[k])] = np.int8(1) + np.int8(passes[k])


@kernel
def are_open(words: _Words, rows: _Numbers, classes: _Numbers, found: _Bits) -> None:
    """Whether class `classes[k]` is open on row `rows[k]`."""
    for k in range(len(rows)):
        found[k] = (words[classes[k] >> 6, rows[k]] >> np.uint64(classes[k] & 63)) & _ONE != _NONE


@kernel
def count_open(words: _Words, counts: _Numbers) -> None:
    """Add to `counts` on how many rows each class is open."""
    for word in range(words.shape[0]):
        for row in range(words.shape[1]):
            open_bits = words[word, row]
            at = 64 * word
            while open_bits != _NONE:
                if open_bits & _ONE != _NONE:
                    counts[at] += 1
                open_bits >>= _ONE
                at += 1


def warm_up() -> None:
    """Compile the kernels, or fetch them from the cache."""
    words, members = np.zeros((1, 1), np.uint64), np.zeros(1, np.uint64)
    numbers, found = np.zeros(1, np.int64), np.zeros(1, bool)
    mark_rows(numbers, found)
    open_pairs(numbers, numbers, numbers, words, numbers.copy())
    rows_needing(words, members, numbers)
    needing_among(words, members, numbers, numbers)
    close_where_dropped(words, numbers, found, members)
    note(np.zeros(1, np.int8), numbers, found)
    are_open(words, numbers, numbers, found)
    count_open(words, np.zeros(64, np.int64))
