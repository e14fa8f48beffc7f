"""Results counted by query id, and which of them are within a query's ring.

Two numbers stand in one, so that counting touches memory once: how many are held in the low half, how many there ever were in
the high half.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel
from eddyline.kernels.layouts import HALF, ONE_NEW

_Ids = npt.NDArray[np.int32]
_Counts = npt.NDArray[np.int64]

_HALF = np.int64(HALF)


@kernel
def count_ids(ids: _Ids, counts: _Counts, unit: int) -> None:
    """Add the unit to counts[id] as often as each id is there."""
    for k in range(len(ids)):
        counts[ids[k]] += unit


@kernel
def add_by_id(ids: _Ids, numbers: _Counts, counts: _Counts) -> None:
    """Add numbers[k] to counts[ids[k]]."""
    for k in range(len(ids)):
        counts[ids[k]] += numbers[k]


@kernel
def mark_within(ids: _Ids, limit: int, counts: _Counts, is_kept: npt.NDArray[np.bool_]) -> int:
    """Go through ids from the oldest on: one of which more than `limit` are held goes, the others are marked.

    `counts` has in its low half how many of these and all newer ones are held; those that go are taken off. Gives the number of
    those marked.
    """
    n_kept = 0
    for k in range(len(ids)):
        count = counts[ids[k]]
        goes = np.int64((count & _HALF) > limit)  # a number, not a branch: it is hard to foretell
        counts[ids[k]] = count - goes
        is_kept[k] = goes == 0
        n_kept += 1 - int(goes)
    return n_kept


def warm_up() -> None:
    """Compile the kernels, or fetch them from the cache."""
    ids, counts = np.zeros(1, np.int32), np.zeros(1, np.int64)
    count_ids(ids, counts, ONE_NEW)
    add_by_id(ids, counts, counts)
    mark_within(ids, 1, counts, np.zeros(1, dtype=bool))
