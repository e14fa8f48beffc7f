"""Large arrays in memory that was used before.

The system clears memory before it hands it out, which takes about as long as filling it. So arrays of megabytes, such as the
pairs of a round or its bitmap, are cut from memory that earlier ones had, as soon as no reference to those is left.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

SMALL_BYTES = 4 << 20  # below, the system's own way is as quick
KEPT_BYTES = 256 << 20  # held for arrays to come, at most
_SPARE = 1 / 8  # more than asked for, so that the next one, somewhat larger, fits

_lock = threading.Lock()
_blocks: list[npt.NDArray[np.uint8]] = []  # the last used last


def large_array(n: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of n items with nothing in particular in it."""
    nbytes = n * np.dtype(dtype).itemsize
    if nbytes < SMALL_BYTES:
        return np.empty(n, dtype)
    with _lock:
        block = _free_block(nbytes)
        if block is None:
            block = np.empty(int(nbytes * (1 + _SPARE)), np.uint8)
            if len(block) <= KEPT_BYTES:
                _make_room(len(block))
                _blocks.append(block)
        return block[:nbytes].view(dtype)


def _free_block(nbytes: int) -> npt.NDArray[np.uint8] | None:
    """The smallest block that is free, large enough and not far too large."""
    fitting = [
        (len(_blocks[k]), k)
        for k in range(len(_blocks))
        if nbytes <= len(_blocks[k]) <= 4 * nbytes and _is_free(k)
    ]
    if not fitting:
        return None
    block = _blocks.pop(min(fitting)[1])
    _blocks.append(block)
    return block


def _is_free(place: int) -> bool:
    """Whether only the list holds the block: every array cut from it holds it too, and so does whatever is made of that."""
    return sys.getrefcount(_blocks[place]) == 2  # the list, and the argument itself


def _make_room(nbytes: int) -> None:
    """Forget blocks, those not used for longest first, whether they are free now or become so later."""
    while sum(map(len, _blocks)) + nbytes > KEPT_BYTES:
        del _blocks[0]
