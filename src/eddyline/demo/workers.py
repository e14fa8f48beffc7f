"""The Python processes that Spark's tasks run in: which they are, and the end of one of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LOOK_EVERY_S = 0.005
AT_WORK_S = 0.05  # of computing: a worker that waits for a task does none
SPREAD_S = 0.3  # so that every worker takes one of the tasks


def warm_workers(session: Any) -> list[int]:
    """Let every worker load what rounds need; returns their process ids."""
    context = session.sparkContext
    n = int(context.defaultParallelism)
    return sorted(set(context.parallelize(range(n), n).map(_warm).collect()))


def _warm(_: int) -> int:
    import eddyline.engine.tasks  # noqa: F401
    from eddyline.kernels import warm_up

    warm_up()
    time.sleep(SPREAD_S)
    return os.getpid()


def kill_one_at_work(pids: Sequence[int], is_over: Callable[[], bool], patience_s: float) -> int | None:
    """Kill a worker with SIGKILL as soon as it is seen to work on something; None if none was before `is_over`."""
    deadline = time.monotonic() + patience_s
    before = {pid: _cpu_s(pid) for pid in pids}
    while not is_over() and time.monotonic() < deadline:
        for pid in pids:
            if _cpu_s(pid) - before[pid] >= AT_WORK_S:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return pid
        time.sleep(LOOK_EVERY_S)
    return None


class FailedTasks:
    """Tasks of rounds that failed from now on, and that Spark gave to another worker."""

    def __init__(self, session: Any) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._before = set(self._tracker.getJobIdsForGroup())

    def count(self) -> int:
        jobs = map(self._tracker.getJobInfo, set(self._tracker.getJobIdsForGroup()) - self._before)
        stages = [
            self._tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds
        ]
        return sum(int(stage.numFailedTasks) for stage in stages if stage is not None)


def _cpu_s(pid: int) -> float:
    """Seconds a process has computed; 0 for one that has ended."""
    if Path("/proc/self/stat").exists():
        try:
            user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        except OSError:
            return 0.0
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    output = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True).stdout
    return float(
        sum(60**k * float(part) for k, part in enumerate(reversed(output.strip().split(":"))) if part)
    )
