"""The workers of a Spark session, as the rounds see them: tasks in, what came of them out.

A session that was started here and has died is started again; one that was given is not ours to start.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from eddyline.engine import ProbeTask, Task, TaskResult
from eddyline.spark.jobs import SessionLostError, spark_runner
from eddyline.spark.session import local_session, stop_session
from eddyline.spark.session_check import checked_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkWorkers:
    """Where the tasks of rounds run. Also a context manager."""

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str | None = None,
        confs: Mapping[str, str] | None = None,
        time_zone: str | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> None:
        """Use the session that is given, or start one: on this machine, or on `master`.

        Raises SessionRefusedError, JavaNotFoundError or SparkStartError.
        """
        self._is_own = session is None
        self._start: Callable[[], SparkSession] = functools.partial(
            local_session, master=master, confs=confs, time_zone=time_zone, on_wait=on_wait
        )
        self._lock = threading.Lock()
        checked = checked_session(self._start() if session is None else session, time_zone=time_zone)
        self.session = checked.session
        self.warnings = checked.warnings
        self._run = spark_runner(self.session)

    @property
    def n_cores(self) -> int:
        """How many tasks run side by side."""
        return max(1, int(self.session.sparkContext.defaultParallelism))

    def run(self, tasks: Sequence[Task | ProbeTask]) -> list[TaskResult]:
        """Run tasks. Raises SparkJobError; then nothing of the round has happened, and it may be tried again."""
        run = self._run
        try:
            return run(tasks)
        except SessionLostError:
            if self._is_own:
                self._renew(run)
            raise

    def _renew(self, lost: object) -> None:
        with self._lock:
            if self._run is lost:  # another thread may have been quicker
                stop_session(self.session)
                self.session = self._start()
                self._run = spark_runner(self.session)

    def close(self) -> None:
        if self._is_own:
            stop_session(self.session)

    def __enter__(self) -> SparkWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
