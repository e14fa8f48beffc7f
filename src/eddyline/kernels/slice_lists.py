"""Slices of a key in order of time: a list for each key, linked both ways, so that the slices of a window are found from any of
them. Arrays are by slice, but for `newest`, which is by key; NOTHING ends a list.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel
from eddyline.kernels.layouts import NOTHING

Ints = npt.NDArray[np.int64]


@kernel
def link_slices(
    slices: Ints, key: Ints, start: Ints, epoch: Ints, newest: Ints, older: Ints, newer: Ints
) -> None:
    """Put slices into the lists of their keys, by start and then by epoch; the search begins with the newest."""
    for k in range(len(slices)):
        slice_ = slices[k]
        above, below = np.int64(NOTHING), newest[key[slice_]]
        while below != NOTHING and (
            start[below] > start[slice_] or (start[below] == start[slice_] and epoch[below] > epoch[slice_])
        ):
            above, below = below, older[below]
        older[slice_], newer[slice_] = below, above
        if below != NOTHING:
            newer[below] = slice_
        if above != NOTHING:
            older[above] = slice_
        else:
            newest[key[slice_]] = slice_


@kernel
def unlink_slices(slices: Ints, key: Ints, newest: Ints, older: Ints, newer: Ints) -> None:
    """Take slices out of the lists of their keys."""
    for k in range(len(slices)):
        below, above = older[slices[k]], newer[slices[k]]
        if below != NOTHING:
            newer[below] = above
        if above != NOTHING:
            older[above] = below
        else:
            newest[key[slices[k]]] = below


@kernel
def slices_within(
    anchors: Ints,
    low: Ints,
    high: Ints,
    oldest_epoch: int,
    start: Ints,
    epoch: Ints,
    older: Ints,
    newer: Ints,
    windows: Ints,
    found: Ints,
) -> int:
    """Write the slices from `low` to below `high` that stand in one list with an anchor among them, in order, for each anchor.

    Slices of epochs before `oldest_epoch` are passed over. Returns how many there are; what has no room is not written.
    """
    n, room = 0, len(found)
    for k in range(len(anchors)):
        at = anchors[k]
        while older[at] != NOTHING and start[older[at]] >= low[k]:
            at = older[at]
        while at != NOTHING and start[at] < high[k]:
            if epoch[at] >= oldest_epoch:
                if n < room:
                    windows[n], found[n] = k, at
                n += 1
            at = newer[at]
    return n


def warm_up() -> None:
    """Compile every kernel here, or load it from the cache, for the arrays that callers give."""
    slices, key, start, epoch = (np.zeros(1, np.int64) for _ in range(4))
    newest, older, newer = (np.full(1, NOTHING, np.int64) for _ in range(3))
    link_slices(slices, key, start, epoch, newest, older, newer)
    slices_within(slices, start, start + 1, 0, start, epoch, older, newer, key.copy(), key.copy())
    unlink_slices(slices, key, newest, older, newer)
