"""Tasks of a round as one Spark job: each is one partition, and brings back a small record of what it wrote.

The tasks travel as the data of the job, the plan as files of the store, so the job itself is the same in every round. Spark tries
a task again that fails or whose worker dies; what the first attempt wrote is not listed and is cleared away.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eddyline.engine import ProbeTask, Task, TaskResult, run_task
from eddyline.errors import EddylineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eddyline.functions import UserFunction

MOST_SAID = 500


class SparkJobError(EddylineError):
    """Spark could not run the tasks of a round. The round has not happened."""


class SessionLostError(SparkJobError):
    """There is no session any more."""


def spark_runner(session: SparkSession) -> Callable[[Sequence[Task | ProbeTask]], list[TaskResult]]:
    """What runs tasks on the workers of a session. May be called from several threads at once."""
    context = session.sparkContext

    def run(tasks: Sequence[Task | ProbeTask]) -> list[TaskResult]:
        if not tasks:
            return []
        names = ", ".join(sorted({task.stream for task in tasks}))
        context.setJobDescription(f"eddyline round of {names}: {len(tasks)} tasks")
        try:
            numbered = context.parallelize(list(enumerate(tasks)), len(tasks))
            found: list[tuple[int, TaskResult]] = numbered.map(_work).collect()
        except Exception as error:  # py4j and Spark raise many kinds
            raise _job_error(error) from error
        by_number = dict(found)
        return [by_number[number] for number in range(len(tasks))]

    return run


def _work(numbered: tuple[int, Task | ProbeTask]) -> tuple[int, TaskResult]:
    number, task = numbered
    result = run_task(task)
    _settle()
    return number, result


def _settle() -> None:
    """Let what this worker has imported and made ready out of garbage collection.

    Spark's worker collects after every task, before it takes the next. Looking through all that stays took 20 to 80 ms each time.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def pack_functions(functions: Sequence[UserFunction]) -> bytes:
    """Functions as bytes that a worker can make functions of again; those of a module it can import go by name."""
    from pyspark import cloudpickle

    packed: bytes = cloudpickle.dumps(list(functions))
    return packed


def _job_error(error: Exception) -> SparkJobError:
    """What happened, without the many lines of Java around it."""
    text = str(error)
    if _is_lost(error, text):
        return SessionLostError(
            "the Spark session has ended",
            detail="The round has not happened; its rows come again.",
            hint="A session that was started here is started again; otherwise start the engine with a new one.",
        )
    lost = re.search(r"ExecutorLostFailure[^\n]*", text)
    error_lines = re.findall(
        r"^(?:[a-z_]\w*\.)*\w+(?:Error|Exception|Interrupt|Exit)\b[^\n]*", text, re.MULTILINE
    )
    ours = [line for line in error_lines if not line.startswith(("org.apache.", "java.", "py4j."))]
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    problem = lost[0] if lost else (ours or error_lines or [first])[-1]
    return SparkJobError(
        "Spark could not run the tasks of a round",
        detail=f"{problem[:MOST_SAID].rstrip('.')}. The round has not happened; its rows come again.",
        hint="Look into the log of the driver and of the worker for more.",
    )


def _is_lost(error: Exception, text: str) -> bool:
    """Whether there is no session any more, or no Java behind it."""
    names = {type(each).__name__ for each in (error, error.__cause__, error.__context__) if each is not None}
    messages = (
        "stopped SparkContext",
        "SparkContext was shut down",
        "SparkContext has been shutdown",
        "is not initialized",
    )
    return bool(names & {"Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError"}) or any(
        part in text for part in messages
    )
