"""What a Spark session must be for rounds to run on it, and what is worth knowing before they do."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eddyline.errors import EddylineError
from eddyline.spark.confs import is_local, with_retries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_SPARK = (4, 1)  # what pyproject.toml allows
NEWEST_SPARK = (4, 3)
# A worker takes up to 1.7 GB of address space before it maps anything (measured with Arrow and the kernels loaded).
LEAST_ADDRESS_SPACE_BYTES = 4 << 30
_LIMIT = "spark.executor.pyspark.memory"
_SIZES = {"": 20, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}  # Spark reads this setting in MiB


class SessionRefusedError(EddylineError):
    """Rounds cannot run on this Spark session."""


@dataclass(frozen=True, slots=True)
class CheckedSession:
    """A session that rounds can run on, and notes for the operator: nothing that stops rounds."""

    session: SparkSession
    warnings: tuple[str, ...]


def checked_session(session: Any, *, time_zone: str | None = None) -> CheckedSession:
    """The session, if rounds can run on it; raises SessionRefusedError if not. `time_zone` is that of the home."""
    _refuse_others(session)
    _refuse_stopped(session)
    _refuse_versions(session)
    context = session.sparkContext
    warnings = [
        *conf_warnings(dict(context.getConf().getAll())),
        _of_the_interpreter(context.master, context.pythonExec),
        _of_the_time_zone(session.conf.get("spark.sql.session.timeZone"), time_zone),
    ]
    return CheckedSession(session, tuple(warning for warning in warnings if warning))


def conf_warnings(confs: Mapping[str, str]) -> list[str]:
    """What settings do to rounds, apart from those that are as they should be; raises for those that stop them."""
    warnings = [_of_the_address_space(confs), _of_retries(confs), _of_workers(confs)]
    return [warning for warning in warnings if warning]


def refuse_versions(spark: str, python: str) -> None:
    """Raise unless both are a Spark we know, and the same one."""
    newest, oldest = (".".join(map(str, version)) for version in (NEWEST_SPARK, OLDEST_SPARK))
    if not OLDEST_SPARK <= _release(spark) <= NEWEST_SPARK:
        raise SessionRefusedError(
            f"Spark {spark} is not supported",
            detail=f"Rounds run on Spark {oldest} to {newest}.",
            hint="pip install 'eddyline[spark]' brings one of them (docs/spark-support.md).",
        )
    if _release(spark) != _release(python):
        raise SessionRefusedError(
            f"PySpark {python} speaks to Spark {spark}",
            detail="Both must be of the same release.",
            hint="Unset SPARK_HOME to use the Spark that came with PySpark, or install the PySpark of that Spark.",
        )


def _refuse_others(session: Any) -> None:
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise SessionRefusedError(
            "Spark Connect sessions are not supported",
            detail="A Connect session has no Spark context, and the round loop runs its jobs through one.",
            hint="Start a classic session: without SPARK_REMOTE, .remote(…) and spark.api.mode=connect.",
        )
    from pyspark.sql import SparkSession

    if not isinstance(session, SparkSession):
        raise SessionRefusedError(
            f"{type(session).__name__} is not a Spark session",
            hint="Give a SparkSession, or nothing to start one here.",
        )


def _refuse_stopped(session: Any) -> None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        java = session.sparkContext._jsc
        is_stopped = java is None or java.sc().isStopped()
    except (Py4JError, OSError):  # the Java process is gone
        is_stopped = True
    if is_stopped:
        raise SessionRefusedError("this Spark session was stopped", hint="Start a new one, or give none.")


def _refuse_versions(session: Any) -> None:
    import pyspark

    refuse_versions(session.version, pyspark.__version__)


def _release(version: str) -> tuple[int, int]:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _of_the_address_space(confs: Mapping[str, str]) -> str | None:
    """Spark sets this limit on a worker's address space, in which a mapped file counts in full, read or not."""
    setting = confs.get(_LIMIT)
    limit = _bytes(setting) if setting else 0
    if limit <= 0:
        return None
    if not is_local(confs.get("spark.master", "")):
        limit //= int(confs.get("spark.executor.cores", "1"))  # the workers of an executor share it
    if limit < LEAST_ADDRESS_SPACE_BYTES:
        raise SessionRefusedError(
            f"{_LIMIT}={setting} leaves workers too little room to map files",
            detail="It limits the address space of each Python worker, in which plans and segments count in full, also the "
            f"parts that are never read. That is {limit / (1 << 30):.1f} GiB for each worker; "
            f"{LEAST_ADDRESS_SPACE_BYTES >> 30} GiB is the least that can work.",
            hint=f"Leave {_LIMIT} unset; to reserve memory for Python on a cluster, set spark.executor.memoryOverhead.",
        )
    return (
        f"{_LIMIT}={setting} limits the address space of workers, in which mapped files count in full: "
        "unset it if tasks fail for want of memory."
    )


def _of_retries(confs: Mapping[str, str]) -> str | None:
    master = confs.get("spark.master", "")
    if re.fullmatch(r"local(\[(\d+|\*)(,\s*1)?\])?", master):
        return (
            f"master {master} does not retry a failed task, so a worker that dies fails its round: "
            f"use {with_retries(master)}."
        )
    if not master.startswith("local[") and confs.get("spark.task.maxFailures", "4") == "1":
        return "spark.task.maxFailures is 1, so a worker that dies fails its round: unset it."
    return None


def _of_workers(confs: Mapping[str, str]) -> str | None:
    if confs.get("spark.python.worker.reuse", "true").lower() == "false":
        return "spark.python.worker.reuse is false, so every task starts a Python, about a second each: unset it."
    return None


def _of_the_interpreter(master: str, worker_python: str) -> str | None:
    """On one machine workers should be this Python; PySpark takes the python3 of PATH unless it is set."""
    workers = shutil.which(worker_python) or worker_python
    if not is_local(master) or os.path.dirname(workers) == os.path.dirname(sys.executable):
        return None
    return (
        f"workers run {workers}, not this Python ({sys.executable}), and may lack eddyline: "
        "set PYSPARK_PYTHON before the session starts."
    )


def _of_the_time_zone(of_the_session: str, of_the_home: str | None) -> str | None:
    if of_the_home is None or of_the_session == of_the_home:
        return None
    return (
        f"the session's time zone is {of_the_session}, the home's is {of_the_home}: queries use the home's, "
        "your own DataFrames the session's."
    )


def _bytes(size: str) -> int:
    """What Spark reads in '512m', '2gb' or '1024'."""
    parts = re.fullmatch(r"(\d+)\s*([bkmgtp]?)b?", size.strip().lower())
    return int(parts[1]) << _SIZES[parts[2]] if parts else 0
