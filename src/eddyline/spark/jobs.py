"""Tasks of a round as one Spark job: each is one partition, and brings back a small record of what it wrote.

The tasks travel as the data of the job, the plan as files of the store, so the job itself is the same in every round. Spark tries
a task again that fails or whose worker dies; what the first attempt wrote is not listed and is cleared away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eddyline.engine.tasks import Task, TaskResult, run_task
from eddyline.errors import EddylineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eddyline.functions.udf import UserFunction

DETAIL_LINES = 12


class SparkJobError(EddylineError):
    """Spark could not run the tasks of a round. The round has not happened."""


def spark_runner(session: SparkSession) -> Callable[[Sequence[Task]], list[TaskResult]]:
    """What runs tasks on the workers of a session. May be called from several threads at once."""
    context = session.sparkContext

    def run(tasks: Sequence[Task]) -> list[TaskResult]:
        if not tasks:
            return []
        names = ", ".join(sorted({task.stream for task in tasks}))
        context.setJobDescription(f"eddyline round of {names}: {len(tasks)} tasks")
        try:
            numbered = context.parallelize(list(enumerate(tasks)), len(tasks))
            found: list[tuple[int, TaskResult]] = numbered.map(_work).collect()
        except Exception as error:  # py4j and Spark raise many kinds
            raise _told(error) from error
        by_number = dict(found)
        return [by_number[number] for number in range(len(tasks))]

    return run


def _work(numbered: tuple[int, Task]) -> tuple[int, TaskResult]:
    number, task = numbered
    return number, run_task(task)


def pack_functions(functions: Sequence[UserFunction]) -> bytes:
    """Functions as bytes that a worker can make functions of again; those of a module it can import go by name."""
    from pyspark import cloudpickle

    packed: bytes = cloudpickle.dumps(list(functions))
    return packed


def _told(error: Exception) -> EddylineError:
    """What happened, without the many lines of Java around it."""
    text = str(error)
    lost = re.search(r"ExecutorLostFailure[^\n]*", text)
    traced = re.search(
        r"Traceback \(most recent call last\):.*?\n(\w[\w.]*(?:Error|Exception|Interrupt)?[^\n]*)\n",
        text,
        re.S,
    )
    if lost:
        problem = lost[0]
    elif traced:
        problem = traced[1]
    else:
        problem = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    if _is_stopped(error, text):
        return SparkJobError(
            "the Spark session was stopped",
            detail="The round has not happened; its rows come again.",
            hint="Start the engine again with a new session.",
        )
    return SparkJobError(
        "Spark could not run the tasks of a round",
        detail=f"{problem} The round has not happened; its rows come again.",
        hint="Look into the log of the driver and of the worker for more.",
    )


def _is_stopped(error: Any, text: str) -> bool:
    return "stopped SparkContext" in text or "SparkContext was shut down" in text or "_jsc" in text
