"""The session a benchmark runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session() -> Iterator[SparkSession]:
    """The session of this process; if there is none, one that is started as the engine would, and ended."""
    from pyspark.sql import SparkSession

    from eddyline.spark import local_session, stop_session

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    started = local_session(app_name="eddyline benchmarks")
    try:
        yield started
    finally:
        stop_session(started)


def described(session: SparkSession) -> str:
    """What figures depend on, beside the machine."""
    java = session.sparkContext._jvm.java.lang.System.getProperty("java.version")
    return f"Spark {session.version}, Java {java}, {session.sparkContext.master}"
