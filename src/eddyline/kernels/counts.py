"""Results counted by query id, and which of them are within a query's ring."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel

_Ids = npt.NDArray[np.int32]
_Held = npt.NDArray[np.int32]
_Counts = npt.NDArray[np.int64]


@kernel
def count_ids(ids: _Ids, held: _Held) -> None:
    """Add to held[id] how often each id is there."""
    for k in range(len(ids)):
        held[ids[k]] += 1


@kernel
def let_go(ids: _Ids, held: _Held, gone: _Counts) -> None:
    """Of each id take off `held` how often it is there, and add it to `gone`."""
    for k in range(len(ids)):
        held[ids[k]] -= 1
        gone[ids[k]] += 1


@kernel
def add_by_id(ids: _Ids, numbers: _Counts, counts: _Counts) -> None:
    """Add numbers[k] to counts[ids[k]]."""
    for k in range(len(ids)):
        counts[ids[k]] += numbers[k]


@kernel
def mark_within(ids: _Ids, limit: int, held: _Held, gone: _Counts, is_kept: npt.NDArray[np.bool_]) -> int:
    """Go through ids from the oldest on: one of which more than `limit` are held goes, the others are marked.

    `held` counts these and all newer ones; those that go move from it to `gone`. Gives the number of those marked.
    """
    n_kept = 0
    for k in range(len(ids)):
        goes = held[ids[k]] > limit
        if goes:
            held[ids[k]] -= 1
            gone[ids[k]] += 1
        is_kept[k] = not goes
        n_kept += not goes
    return n_kept


def warm_up() -> None:
    """Compile the kernels, or fetch them from the cache."""
    ids, held, counts = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int64)
    count_ids(ids, held)
    let_go(ids, held, counts)
    add_by_id(ids, counts, counts)
    mark_within(ids, 1, held, counts, np.zeros(1, dtype=bool))
