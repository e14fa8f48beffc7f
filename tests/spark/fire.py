"""What can go wrong while a round runs on Spark, and where: drivers and tasks are killed, stopped, slowed down, out of room.

A `Course` goes through a round with the driver, and a copy of it with every task. Both tell it of each place they pass, such as
"build: task 0 half written" or, from `tests/durability/kill_points.py`, "commit: sql: before COMMIT". A `Fire` says what happens
at one place of one round; the first try of the round meets it, a later one does not.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

LONGEST_WAIT_S = 120.0  # nobody came: end, so that no test leaves a process behind
ROOM_BYTES = 64  # less than the smallest file


@dataclass(frozen=True)
class Fire:
    """Written "driver@2 build: task 0 has written": what, the round (0 while the home is opened), the place.

    driver   the driver's Python is killed; its Java, and a task that does this, live on as long as they can
    worker   the Python worker of a task is killed, at the first attempt
    stop     the driver is stopped, not killed
    wait     whoever is here waits until `Marks.let_go`; written "wait=NAME@…"
    room     a worker's files may not grow any more; for places where one is half written
    """

    what: str
    round: int
    place: str

    @classmethod
    def parsed(cls, text: str) -> Fire:
        what, _, where = text.partition("@")
        number, _, place = where.partition(" ")
        return cls(what, int(number), place)


@dataclass(frozen=True)
class Marks:
    """Files by which a test, drivers and tasks tell each other where they are."""

    folder: Path

    def pass_(self, round_number: int, place: str) -> None:
        with open(self.folder / "places", "a") as file:
            file.write(f"{os.getpid()} {round_number} {place}\n")

    def passed(self) -> list[tuple[int, int, str]]:
        """Every place anybody passed, in order: process, round, place."""
        lines = [line.split(" ", 2) for line in (self.folder / "places").read_text().splitlines()]
        return [(int(pid), int(number), place) for pid, number, place in lines]

    def is_reached(self, name: str) -> bool:
        return (self.folder / f"{name}.reached").exists()

    def let_go(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()

    def wait(self, name: str) -> None:
        (self.folder / f"{name}.reached").touch()
        until = time.monotonic() + LONGEST_WAIT_S
        while not (self.folder / f"{name}.go").exists():
            if time.monotonic() > until:
                raise TimeoutError(f"nobody let {name} go")
            time.sleep(0.01)


@dataclass(frozen=True)
class Course:
    """Where a driver or a task is, and what happens to it there."""

    fires: tuple[Fire, ...]
    marks: Marks
    driver: int  # its process
    round: int = 0
    step: str = "open"
    is_retry: bool = False

    def at(self, round_number: int, step: str, *, is_retry: bool = False) -> Course:
        """A step of a round begins."""
        course = replace(self, round=round_number, step=step, is_retry=is_retry)
        course.passing("begins")
        return course

    def passing(self, where: str) -> None:
        place = f"{self.step}: {where}"
        self.marks.pass_(self.round, place)
        for fire in self.fires:
            if (fire.round, fire.place) == (self.round, place) and not self.is_retry:
                self._set_off(fire.what)

    def _set_off(self, what: str) -> None:
        if what == "driver":
            os.kill(self.driver, signal.SIGKILL)
        elif what == "stop":
            os.kill(self.driver, signal.SIGSTOP)
        elif what == "worker":
            if _attempt() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        elif what == "room":
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (ROOM_BYTES, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
            )
        else:
            self.marks.wait(what.removeprefix("wait="))


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "only a task has attempts"
    return int(context.attemptNumber())
