"""Which query classes are still open on which rows, as bits, and what a filter does to them.

A row has one bit for each class, in words of 64. A filter is a set of classes in the same form: those that have it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel

_Words = npt.NDArray[np.uint64]  # [rows, words]
_Set = npt.NDArray[np.uint64]  # [words]
_Numbers = npt.NDArray[np.int64]
_Bits = npt.NDArray[np.bool_]

_ONE = np.uint64(1)
_NONE = np.uint64(0)


@kernel
def open_pairs(rows: _Numbers, classes: _Numbers, words: _Words) -> None:
    """Class `classes[k]` is open on row `rows[k]`."""
    for k in range(len(rows)):
        words[rows[k], classes[k] >> 6] |= _ONE << np.uint64(classes[k] & 63)


@kernel
def rows_needing(words: _Words, members: _Set, needing: _Numbers) -> int:
    """Rows on which a class that has the filter is open; gives how many are in `needing` now."""
    n = 0
    for row in range(words.shape[0]):
        hit = _NONE
        for word in range(words.shape[1]):
            hit |= words[row, word] & members[word]
        needing[n] = row
        n += int(hit != _NONE)  # a number, not a branch: it is hard to foretell
    return n


@kernel
def needing_among(words: _Words, members: _Set, rows: _Numbers, needing: _Numbers) -> int:
    """The same of some rows."""
    n = 0
    for k in range(len(rows)):
        hit = _NONE
        for word in range(words.shape[1]):
            hit |= words[rows[k], word] & members[word]
        needing[n] = rows[k]
        n += int(hit != _NONE)
    return n


@kernel
def close_where_dropped(words: _Words, rows: _Numbers, passes: _Bits, members: _Set) -> None:
    """Close the classes that have the filter on rows that do not pass it."""
    for k in range(len(rows)):
        if not passes[k]:
            for word in range(words.shape[1]):
                words[rows[k], word] &= ~members[word]


@kernel
def are_open(words: _Words, rows: _Numbers, classes: _Numbers, found: _Bits) -> None:
    """Whether class `classes[k]` is open on row `rows[k]`."""
    for k in range(len(rows)):
        found[k] = (words[rows[k], classes[k] >> 6] >> np.uint64(classes[k] & 63)) & _ONE != _NONE


@kernel
def count_open(words: _Words, counts: _Numbers) -> None:
    """Add to `counts` on how many rows each class is open."""
    for row in range(words.shape[0]):
        for word in range(words.shape[1]):
            left = words[row, word]
            at = 64 * word
            while left != _NONE:
                if left & _ONE != _NONE:
                    counts[at] += 1
                left >>= _ONE
                at += 1


def warm_up() -> None:
    """Compile the kernels, or fetch them from the cache."""
    words, members = np.zeros((1, 1), np.uint64), np.zeros(1, np.uint64)
    numbers, found = np.zeros(1, np.int64), np.zeros(1, bool)
    open_pairs(numbers, numbers, words)
    rows_needing(words, members, numbers)
    needing_among(words, members, numbers, numbers)
    close_where_dropped(words, numbers, found, members)
    are_open(words, numbers, numbers, found)
    count_open(words, np.zeros(64, np.int64))
