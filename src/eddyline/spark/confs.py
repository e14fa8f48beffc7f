"""The settings a session starts with: those that measurement favours, and those that keep to this machine and out of the way."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import tempfile
from pathlib import Path

ARROW_BATCH_ROWS = 20_000  # 1,000 cost half the throughput; 10,000 to 100,000 did not differ
STACK_OPTION = "-Xss8m"  # stopping a stream in the middle of a batch overflows the usual 1 MB
JAVA_OPTIONS = (
    "spark.driver.defaultJavaOptions"  # Spark puts spark.driver.extraJavaOptions, the user's, behind them
)
TRIES = 4  # what clusters do; a local master gives up after the first unless this is set
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# Between Java and its Python workers. Over TCP each task waits about 40 ms for an acknowledgement that TCP delays.
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_LONGEST_SOCKET = 100  # bytes of a path; the system's limit is 103 or more


def local_confs(master: str, *, time_zone: str | None = None) -> dict[str, str]:
    """The settings `local_session` starts with on `master`, apart from folders; docs/spark-support.md says why each of them."""
    confs = {
        JAVA_OPTIONS: STACK_OPTION,
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if is_local(master):
        confs["spark.driver.host"] = "127.0.0.1"
        confs["spark.driver.bindAddress"] = "127.0.0.1"
        confs["spark.sql.shuffle.partitions"] = str(_n_tasks_at_once(master))
        confs["spark.sql.streaming.checkpointFileManagerClass"] = _CHECKPOINTS
        if _has_unix_sockets():
            confs[_UNIX_SOCKETS] = "true"
    if time_zone is not None:
        confs["spark.sql.session.timeZone"] = time_zone
    if cache := os.environ.get("NUMBA_CACHE_DIR"):
        confs["spark.executorEnv.NUMBA_CACHE_DIR"] = cache
    return confs


def local_master() -> str:
    """All cores of this machine that the process may use, and retries."""
    return f"local[{n_cores()},{TRIES}]"


def is_local(master: str) -> bool:
    """Whether everything runs on this machine."""
    return master.startswith("local")


def with_retries(master: str) -> str:
    """A local master that says nothing of retries, or one try, with four; any other as it is."""
    cores = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*1)?\])?", master)
    return f"local[{cores[1] or 1},{TRIES}]" if cores else master


def n_cores() -> int:
    """Cores this process may use: those it is bound to, and no more than its container is given."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, -(-int(quota) // int(period)))
    return max(1, cores)


def _has_unix_sockets() -> bool:
    """Whether sockets can be files here: Spark makes them in the folder for temporary files, under a name of 42 letters."""
    folder = len(os.fsencode(tempfile.gettempdir()))
    return hasattr(socket, "AF_UNIX") and sys.platform != "win32" and folder + 42 < _LONGEST_SOCKET


def _n_tasks_at_once(master: str) -> int:
    cluster = re.match(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)", master)
    if cluster is not None:
        return int(cluster[1]) * int(cluster[2])
    threads = re.match(r"local\[(\d+)", master)
    if threads is not None:
        return int(threads[1])
    return 1 if master == "local" else n_cores()
