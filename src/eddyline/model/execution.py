"""What was chosen for the execution of rounds, as one value that a plan carries: driver and tasks read the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExecutionChoices:
    """How large tasks are, what is joined where, and when expensive conditions are asked. None of it changes results."""

    task_bytes: int = 8 << 20  # of a task, at most, and until it was measured how long a byte takes
    least_task_bytes: int = 64 << 10  # a task has a price of its own, about ten milliseconds on Spark
    task_s: float = (
        0.06  # CPU seconds of a task: worth some of that price; a round is as slow as its longest task
    )
    most_tasks: int = 256
    join_from_rows: int = 50_000  # that joins want; fewer are joined sooner than a job is started
    # rows of an input that is expensive to ask are asked only once they have found partners, if few of so many did
    few_matched: float = 0.5
    judged_by: int = 1_000


DEFAULT_CHOICES = ExecutionChoices()
