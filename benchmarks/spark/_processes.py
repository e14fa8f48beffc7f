"""CPU seconds of a process and all that came of it: a driver, its Java, the Python workers below that.

Read from /proc, so only where there is one (Linux). What ended meanwhile and was waited for counts with who waited.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")  # 100 as a rule: what is measured should take a second or more
_PARENT, _OWN_AND_WAITED_FOR = 1, slice(11, 15)  # fields behind the name: ppid; utime, stime, cutime, cstime


def cpu_of_tree() -> float:
    """CPU seconds this process and its descendants have taken so far."""
    seconds: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
        pid = int(entry.name)
        children[int(fields[_PARENT])].append(pid)
        seconds[pid] = sum(map(int, fields[_OWN_AND_WAITED_FOR])) / _TICKS_A_SECOND
    total, below = 0.0, [os.getpid()]
    while below:
        pid = below.pop()
        total += seconds[pid]
        below += children[pid]
    return total
