"""Results counted by query id, and which of them are a query's newest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel

_Ids = npt.NDArray[np.int32]
_Counts = npt.NDArray[np.int64]


@kernel
def count_ids(ids: _Ids, counts: _Counts) -> None:
    """Add to counts[id] how often each id is there."""
    for k in range(len(ids)):
        counts[ids[k]] += 1


@kernel
def add_by_id(ids: _Ids, numbers: _Counts, counts: _Counts) -> None:
    """Add numbers[k] to counts[ids[k]]."""
    for k in range(len(ids)):
        counts[ids[k]] += numbers[k]


@kernel
def mark_newest(ids: _Ids, limit: int, seen: _Counts, is_kept: npt.NDArray[np.bool_]) -> int:
    """Of each id, mark the last ones, as many as make `limit` with those in `seen`, which counts all of these as well.

    Gives the number of those marked.
    """
    n_kept = 0
    for k in range(len(ids) - 1, -1, -1):
        n_seen = seen[ids[k]]
        is_kept[k] = n_seen < limit
        n_kept += n_seen < limit
        seen[ids[k]] = n_seen + 1
    return n_kept


def warm_up() -> None:
    """Compile the kernels, or fetch them from the cache."""
    ids, counts = np.zeros(1, np.int32), np.zeros(1, np.int64)
    count_ids(ids, counts)
    add_by_id(ids, counts, counts)
    mark_newest(ids, 1, counts, np.zeros(1, dtype=bool))
