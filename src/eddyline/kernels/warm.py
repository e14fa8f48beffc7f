"""Kernels made ready: compiled once for a machine and kept on its disk, then loaded.

Compiling is Python's work on one core, about thirty seconds of it. So half of the kernels are compiled by a second process, which
leaves them in the cache where this one finds them. How long that takes depends on the machine and on what else it does: the
first kernel is timed and the rest judged by it, then by what has been compiled so far.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import IO, Any

from eddyline.kernels import (
    accumulators,
    bitsets,
    byte_coding,
    counts,
    join_index,
    key_lists,
    key_words,
    leaves,
    ordered_sets,
    over_frames,
    over_rings,
    places,
    shared_levels,
    slice_lists,
    table_versions,
)

# With the seconds of a free core that each takes, as measured: shares of the work, on any machine.
_HERE = {
    bitsets: 4.1,
    key_lists: 1.6,
    join_index: 2.1,
    accumulators: 4.3,
    shared_levels: 1.9,
    over_rings: 5.5,
}
_BESIDE = {
    places: 2.9,
    leaves: 1.4,
    byte_coding: 1.0,
    table_versions: 2.0,
    key_words: 1.5,
    slice_lists: 0.5,
    ordered_sets: 6.6,
    over_frames: 6.7,
}
_N_PARTS = 1 + len(_HERE) + len(_BESIDE)
_PROBE_S = 0.9  # of `counts`, which is compiled first
_START_S = 2.0  # of the second process
_EVERY_S, _SILENT_S = 2.0, 10.0  # between two reports: at least; at most, if no part was done
_OTHER_PROCESS = "from eddyline.kernels.warm import compile_beside; compile_beside(print)"
_lock = threading.Lock()
_is_compiled = False


@dataclass(frozen=True, slots=True)
class CompileProgress:
    """How far compiling is: parts of the kernels that are done, seconds so far and, by what they took, still to go."""

    n_done: int
    n_parts: int
    seconds: float
    left_s: float

    def __str__(self) -> str:
        if self.n_done == self.n_parts:
            return f"compiled its inner loops in {self.seconds:.0f} s; they are kept for the next start"
        estimate = f"about {max(1.0, self.left_s):.0f} s"
        if self.n_done <= 1:
            return f"compiling its inner loops for this machine, once; {estimate} …"
        return f"compiled {self.n_done} of {self.n_parts} parts of its inner loops in {self.seconds:.0f} s; {estimate} to go …"


Announce = Callable[[CompileProgress], None]


def compile_if_cold(announce: Announce) -> bool:
    """Make sure that kernels are in the cache; returns whether they had to be compiled; progress is reported."""
    global _is_compiled
    if _is_compiled:
        return False
    with _lock:
        if _is_compiled:
            return False
        began = time.perf_counter()
        counts.warm_up()
        is_cold = _was_compiled(counts.count_ids)
        if is_cold:
            _compile(_Reports(announce, began))
        _is_compiled = True
        return is_cold


def warm_up() -> None:
    """Load every kernel, so that no round waits for one."""
    for module in (counts, *_HERE, *_BESIDE):
        module.warm_up()


def compile_beside(tell: Callable[[str], None]) -> None:
    """The second process's half; each finished part is reported."""
    for module in _BESIDE:
        module.warm_up()
        tell(module.__name__)


def _was_compiled(kernel: Any) -> bool:
    """Whether a kernel that was called did not come from the cache."""
    return sum(kernel.stats.cache_misses.values()) > 0


class _Reports:
    """Says how far compiling is: before it begins, when a part is done but not twice in two seconds, and at its end."""

    def __init__(self, announce: Announce, began: float) -> None:
        self._announce = announce
        self._began = self._last = began
        self._here, self._beside = dict(_HERE), dict(_BESIDE)  # still to compile
        self._n_told = 0
        self.say()

    def done(self, module: ModuleType) -> None:
        """A part is done, here or by the other process."""
        self._here.pop(module, None)
        self._beside.pop(module, None)

    def say_if_due(self) -> None:
        """Nothing once all is done: the end is said by itself."""
        n_done, silent_s = self._n_done(), time.perf_counter() - self._last
        if n_done < _N_PARTS and silent_s >= (_EVERY_S if n_done > self._n_told else _SILENT_S):
            self.say()

    def say(self) -> None:
        self._last = time.perf_counter()
        self._n_told = self._n_done()
        seconds = self._last - self._began
        left_s = self._work_left_s() * max(1.0, seconds / self._work_done_s())
        self._announce(CompileProgress(self._n_told, _N_PARTS, round(seconds, 1), round(left_s, 1)))

    def _n_done(self) -> int:
        return _N_PARTS - len(self._here) - len(self._beside)

    def _work_left_s(self) -> float:
        """Of free cores, until the last part is done."""
        here, beside = sum(self._here.values()), sum(self._beside.values())
        start_s = _START_S if self._n_done() == 1 else 0.0
        return here + beside if _n_cores() == 1 else max(here, beside + start_s)

    def _work_done_s(self) -> float:
        """Of a free core, by each process."""
        compiled = sum((_HERE | _BESIDE).values()) - sum((self._here | self._beside).values())
        if _n_cores() == 1 or self._n_done() == 1:
            return _PROBE_S + compiled
        return _PROBE_S + (_START_S + compiled) / 2


def _n_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compile(reports: _Reports) -> None:
    other = None
    if _n_cores() > 1:
        command = [sys.executable, "-u", "-c", _OTHER_PROCESS]
        other = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        reader = threading.Thread(target=_read, args=(other.stdout, reports), daemon=True)
        reader.start()
    for module in _HERE:
        module.warm_up()
        reports.done(module)
        reports.say_if_due()
    if other is not None:
        while reader.is_alive():
            reader.join(_EVERY_S)
            reports.say_if_due()
        other.wait()  # if it failed, its half is compiled below
    for module in _BESIDE:
        module.warm_up()
        reports.done(module)
        reports.say_if_due()
    reports.say()


def _read(lines: IO[str], reports: _Reports) -> None:
    """What the other process has compiled, as it says so."""
    by_name = {module.__name__: module for module in _BESIDE}
    with lines:
        for line in lines:
            if module := by_name.get(line.strip()):
                reports.done(module)
