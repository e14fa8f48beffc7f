"""Kernels made ready: compiled once for a machine and kept on its disk, then loaded.

Compiling is Python's work on one core, about ten seconds of it. So half of the kernels are compiled by a second process, which
leaves them in the cache where this one finds them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from eddyline.kernels import (
    bitsets,
    byte_codes,
    counts,
    join_index,
    key_lists,
    leaves,
    places,
    shared_levels,
    table_versions,
)

_HERE = (bitsets, key_lists, join_index)
_BESIDE = (places, leaves, shared_levels, byte_codes, table_versions)
_OTHER_PROCESS = "from eddyline.kernels.warm import compile_beside; compile_beside()"
_lock = threading.Lock()
_is_compiled = False


def compile_if_cold(announce: Callable[[], None]) -> bool:
    """Make sure that kernels are in the cache; returns whether they had to be compiled, which is announced before."""
    global _is_compiled
    if _is_compiled:
        return False
    with _lock:
        if _is_compiled:
            return False
        counts.warm_up()
        is_cold = _was_compiled(counts.count_ids)
        if is_cold:
            announce()
            _compile()
        _is_compiled = True
        return is_cold


def warm_up() -> None:
    """Load every kernel, so that no round waits for one."""
    for module in (counts, *_HERE, *_BESIDE):
        module.warm_up()


def compile_beside() -> None:
    """The second process's half."""
    for module in _BESIDE:
        module.warm_up()


def _was_compiled(kernel: Any) -> bool:
    """Whether a kernel that was called did not come from the cache."""
    return sum(kernel.stats.cache_misses.values()) > 0


def _compile() -> None:
    other = None
    if (os.cpu_count() or 1) > 1:
        other = subprocess.Popen([sys.executable, "-c", _OTHER_PROCESS], stdin=subprocess.DEVNULL)
    for module in _HERE:
        module.warm_up()
    if other is not None:
        other.wait()  # if it failed, its half is compiled below
    compile_beside()
