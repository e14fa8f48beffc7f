"""How much of a stream makes one task: what takes a moment, by what its last rounds took.

A task has a price of its own, about ten milliseconds on Spark, so it should be worth some of them; and a round is as slow as its
longest task, so it should not be worth many. How long a byte takes depends on the queries that stand and on how many of them it
satisfies, which is not known before: it is measured.
"""

from __future__ import annotations

import math

from eddyline.model import ExecutionChoices

LATEST = 0.5  # how much the last round counts against those before


class TaskSize:
    """The bytes of a task of one stream; as many as are allowed until something was measured."""

    def __init__(self) -> None:
        self._bytes_per_s: float | None = None

    def nbytes(self, choices: ExecutionChoices) -> int:
        if self._bytes_per_s is None:
            return choices.task_bytes
        nbytes = int(choices.task_s * self._bytes_per_s)
        return min(choices.task_bytes, max(choices.least_task_bytes, nbytes))

    def learn(self, nbytes: int, cpu_s: float, choices: ExecutionChoices) -> None:
        """Tasks read so many bytes and took that long. Little says nothing: most of its time is that of any task."""
        if nbytes < choices.least_task_bytes or cpu_s <= 0:
            return
        rate = nbytes / cpu_s
        if self._bytes_per_s is not None:  # one odd round does not count for all
            rate = math.exp((1 - LATEST) * math.log(self._bytes_per_s) + LATEST * math.log(rate))
        self._bytes_per_s = rate
