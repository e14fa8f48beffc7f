"""How much memory the process may take: before a round works, and when it has run out all the same.

What a round will need is not known before, so it is judged by what the process holds now and by the rows that came. A round that
is refused has not happened. Where the system itself refuses memory in the middle of a round, the round is undone.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.documents import size_text
from eddyline.errors import MemoryLimitError

SHARE = 0.9  # of what the machine or the container has, if no limit is given
WORK_FACTOR = 4  # bytes a round takes for each byte of its rows, at least, while it works
COMMIT_BYTES = 16 << 20  # that have to be there before a round commits: from then on nothing may fail
TRIED_EVERY_S = 1.0  # unused memory is looked for
MOST_SHOWN = 5
_CGROUP = Path("/sys/fs/cgroup")


class Holder(NamedTuple):
    """What holds memory, how much, and how to make it less."""

    what: str
    nbytes: int
    remedy: str


class Memory:
    """The process's memory against its limit."""

    def __init__(self, limit: int | None, holders: Callable[[], Sequence[Holder]]) -> None:
        self.limit = machine_limit() if limit is None else limit
        self._holders = holders
        self._tried_at = -TRIED_EVERY_S

    def check(self, rows: Collection[pa.RecordBatch]) -> None:
        """Raises MemoryLimitError if these rows cannot be worked on."""
        # far from the limit buffers will do: they are added up fifty times as fast as the rows in them
        if resident_bytes() + WORK_FACTOR * sum(each.get_total_buffer_size() for each in rows) <= self.limit:
            return
        needed = WORK_FACTOR * sum(each.nbytes for each in rows)
        if resident_bytes() + needed > self.limit:
            self._free()
            if resident_bytes() + needed > self.limit:
                held, limit = size_text(resident_bytes()), size_text(self.limit)
                raise self._error(
                    "these rows are refused: the process is at its memory limit",
                    f"It holds {held} and may hold {limit}; the rows need about {size_text(needed)} more.",
                )

    def check_commit(self) -> None:
        """Raises MemoryError if there is not even what a commit needs."""
        np.empty(COMMIT_BYTES, np.uint8)  # never touched, and gone at once

    def ran_out(self, error: MemoryError) -> MemoryLimitError:
        """The error to raise for a round that got no memory; what it held by then is let go of."""
        self.let_go(error)
        return self._error(
            "these rows are refused: there was not enough memory to work on them",
            f"The system gave the process no more than {size_text(resident_bytes())}.",
        )

    def let_go(self, error: MemoryError) -> None:
        """Free what was held where memory ran out."""
        traceback.clear_frames(error.__traceback__)
        self._tried_at = -TRIED_EVERY_S
        self._free()

    def _free(self) -> None:
        now = time.monotonic()
        if now - self._tried_at >= TRIED_EVERY_S:
            self._tried_at = now
            gc.collect()
            pa.default_memory_pool().release_unused()

    def _error(self, problem: str, why: str) -> MemoryLimitError:
        held = sorted((each for each in self._holders() if each.nbytes), key=lambda each: -each.nbytes)
        shown = ", ".join(f"{each.what} {size_text(each.nbytes)}" for each in held[:MOST_SHOWN])
        remedies = list(dict.fromkeys(each.remedy for each in held[:MOST_SHOWN]))
        return MemoryLimitError(
            problem,
            detail=f"{why} Of that {shown or 'hardly anything is rows, results or queries'}. Nothing of the round has happened.",
            hint='Raise memory under [limits], or in eddyline.open(memory="4 GB"), if the machine has more; or hold less: '
            + "; ".join([*remedies, "push fewer rows at once"])
            + ". Then push again.",
            holders=tuple((each.what, each.nbytes) for each in held),
        )


def resident_bytes() -> int:
    """What the process holds now; where the system does not say, the most it has ever held."""
    descriptor = _statm(os.getpid())
    if descriptor is not None:
        return int(os.pread(descriptor, 128, 0).split()[1]) * resource.getpagesize()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


@lru_cache(maxsize=1)
def _statm(process_id: int) -> int | None:
    """The file in which the system says how large the process is, open from now on: to open it takes most of the time to ask."""
    try:
        return os.open(f"/proc/{process_id}/statm", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def machine_limit() -> int:
    """A share of what the machine has, or the container if that has less."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(SHARE * min([physical, *_container_limits(_CGROUP)]))


def _container_limits(root: Path) -> list[int]:
    """What the control groups of the process allow."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except FileNotFoundError:
        return []
    own = {line.split(":", 2)[2].lstrip("/") for line in lines if line.count(":") == 2}
    files = [
        root / group / path / name
        for path in ("", *own)
        for group, name in (("", "memory.max"), ("memory", "memory.limit_in_bytes"))
    ]
    texts = [file.read_text().strip() for file in files if file.is_file()]
    return [int(text) for text in texts if text.isdigit()]
