"""A short life of a home, whose process is killed once at every place that each of its steps passes.

Forks, so it is run by a process of its own. A place is before or after a statement, a file, a step of the protocol, also while
the home is opened again. The parent then opens the home, repeats the step if it has not happened (a push has a token), does the
rest of the life, and compares what has come of it with a life that was not killed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eddyline import Engine
from tests.durability.kill_driver import Children, work_folder
from tests.durability.kill_points import Killer, Recorder, install


@dataclass(frozen=True)
class Step:
    """One thing a user does; a push has a token and may be repeated."""

    do: Callable[[Engine], Any]
    is_push: bool = False


@dataclass(frozen=True)
class Life:
    """What is done in a home, and what is to be found there in the end."""

    begun: Callable[[Path], Engine]  # a new home, with its streams and first queries
    opened: Callable[[Path], Engine]
    steps: Sequence[Step]
    facts: Callable[[Engine], dict[str, Any]]
    first_version: int  # behind those of `begun`
    check: Callable[[dict[str, Any]], None]  # that the facts of a whole life show what they are there for

    def sweep(self, folder: Path, every: int) -> list[str]:
        """Kill at every place, or at one of so many; returns the places."""
        children = Children(folder, self._warm_up)
        whole, golden, scratch, noted = (
            folder / name for name in ("whole", "golden", "scratch", "noted.json")
        )
        wanted: dict[str, Any] = json.loads(json.dumps(self._whole(whole)))
        self.check(wanted)
        self.begun(golden).close()
        places: list[str] = []
        for number, step in enumerate(self.steps):
            for kind, work in (("open", None), ("step", step)):
                _copy(golden, scratch)
                children.run(lambda work=work: noted.write_text(json.dumps(self._recorded(scratch, work))))
                passed: list[str] = json.loads(noted.read_text())
                for nth, place in list(enumerate(passed, 1))[number % every :: every]:
                    _copy(golden, scratch)
                    killed = children.run(lambda work=work, nth=nth: self._killed(scratch, work, nth))
                    assert killed, place
                    self._lived_on(scratch, number, wanted)
                    places.append(place if kind == "step" else f"open: {place}")
            self._once(golden, step)
        return places

    def _warm_up(self, home: Path) -> None:
        self.begun(home).close()
        for step in self.steps:
            self._once(home, step)
        with self.opened(home) as engine:
            self.facts(engine)

    def _whole(self, home: Path) -> dict[str, Any]:
        with self.begun(home) as engine:
            for step in self.steps:
                step.do(engine)
            return self.facts(engine)

    def _once(self, home: Path, step: Step) -> None:
        with self.opened(home) as engine:
            step.do(engine)

    def _watched(self, home: Path, watch: Recorder | Killer, work: Step | None) -> None:
        """The step, or nothing but opening the home, with somebody watching."""
        watch.is_armed = work is None
        install(watch)
        engine = self.opened(home)
        watch.is_armed = work is not None
        if work is not None:
            work.do(engine)

    def _recorded(self, home: Path, work: Step | None) -> list[str]:
        recorder = Recorder()
        self._watched(home, recorder, work)
        return recorder.passed

    def _killed(self, home: Path, work: Step | None, nth: int) -> None:
        self._watched(home, Killer(nth), work)

    def _lived_on(self, home: Path, number: int, wanted: dict[str, Any]) -> None:
        """The step again, if it is a push or has not happened, and the rest of the life."""
        with self.opened(home) as engine:
            version = self.first_version + sum(not step.is_push for step in self.steps[:number])
            for at, step in enumerate(self.steps[number:]):
                if step.is_push or at > 0 or engine.version == version:
                    step.do(engine)
            found = json.loads(json.dumps(self.facts(engine)))
            for what, value in wanted.items():
                assert found[what] == value, f"{what} after step {number}: {found[what]}, not {value}"


def _copy(golden: Path, scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(golden, scratch)


def main(life: Life, description: str, place: Callable[[bool], None]) -> int:
    """`place` is given whether rows are worked on in tasks."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--tasks", action="store_true", help="work on rows in tasks, as workers do")
    parser.add_argument("--every", type=int, default=1, help="kill at one of so many places")
    parser.add_argument("--json", type=Path, required=True, help="write the places to this file")
    options = parser.parse_args()
    place(options.tasks)
    try:
        with work_folder() as folder:
            places = life.sweep(folder, options.every)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    options.json.write_text(json.dumps({"kills": len(places), "places": sorted(set(places))}))
    return 0
