"""Kill a process that works on a home, again and again, and see that nothing is half done, lost, or there twice.

    python -m tests.durability.kill_driver --kills 1000 --seed 7

A parent that has everything loaded, and no threads of its own, forks a child per kill. `sweep` kills each kind of step at each
place it passes, every time on a fresh copy of the home. `chain` lets one home live through many deaths at random places and
times. After each kill the parent, or the next child, opens the home, compares all it holds with the model, repeats the step the
other died in (a push with the token it had), and compares again.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import eddyline
import eddyline.engine.after_commit
from eddyline import Engine
from eddyline.engine import Retention
from tests.durability.kill_points import Killer, Recorder, install
from tests.durability.model import Model
from tests.durability.observe import Sink, check, check_sink, results
from tests.durability.steps import START_US, Step, random_script, short_script
from tests.on_workers import begin_as_new, through_tasks

TIGHT = Retention(
    result_bytes=5_000, dead_letter_bytes=600, capture_bytes=4_000, version_count=3, round_count=2
)
WIDE = Retention(
    result_bytes=40_000, dead_letter_bytes=6_000, capture_bytes=10_000, version_count=20, round_count=5
)
GC_EVERY = 2  # rounds, so that garbage is collected while processes die
KILLS_PER_HOME = 200  # then another one: checking all a home holds takes longer as it grows
COMMITTED = "sql: after COMMIT"
IN_TASKS = False  # whether rows are worked on in tasks; set by --tasks
FAILED = 3


@dataclass
class Report:
    """What a run of kills came to. A difference is raised as AssertionError."""

    n_kills: int = 0
    n_steps: int = 0
    places: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{self.n_kills} kills in {self.n_steps} steps, no difference"


def open_home(folder: Path, retention: Retention = TIGHT) -> Engine:
    begin_as_new()
    eddyline.engine.after_commit.GC_EVERY = GC_EVERY
    engine = eddyline.open(
        folder,
        retention=retention,
        results_per_query=100_000,
        dead_letters=100_000,
        clock=lambda: START_US,
    )
    return through_tasks(engine) if IN_TASKS else engine


# --------------------------------------------------------------------------------------------- children


class Children:
    """Forks of this process; what one finds wrong is raised here.

    A fork copies every page that it writes to, half of what it costs: what is not going to be killed is done in this process.
    `warm_up` does once, with a home of its own, what children do: what is loaded at first use is loaded before the first fork,
    not once in every child.
    """

    def __init__(self, folder: Path, warm_up: Callable[[Path], None]) -> None:
        self._complaints = folder / "complaints"
        warm_up(folder / "warm")
        gc.collect()
        gc.freeze()  # so that children do not copy pages only to look for garbage in them

    def run(self, work: Callable[[], None], *, kill_after_s: float | None = None) -> bool:
        """Run in a fork. True if it was killed, False if it came to its end."""
        assert threading.active_count() == 1, f"a fork has no other threads: {threading.enumerate()}"
        pid = os.fork()
        if pid == 0:
            self._in_child(work)
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return True
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return False
        raise AssertionError(self._complaints.read_text(encoding="utf-8"))

    def _in_child(self, work: Callable[[], None]) -> None:
        status = FAILED
        try:
            work()
            status = 0
        except BaseException:
            self._complaints.write_text(traceback.format_exc(), encoding="utf-8")
        finally:
            os._exit(status)


def warm_up(home: Path) -> None:
    for _ in range(2):
        with open_home(home) as engine:
            for step in short_script() if engine.version == 0 else []:
                step.do(engine)
            results(engine)


class SharedNumber:
    """A number a child leaves to its parent even when it is killed."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    @property
    def value(self) -> int:
        return int.from_bytes(self._memory[:8], "little")

    @value.setter
    def value(self, number: int) -> None:
        self._memory[:8] = number.to_bytes(8, "little")


# --------------------------------------------------------------------------------------------- every place once


ROUNDS = ("open", "push", "tick")
CATALOG = ("declare", "drop", "pause", "register", "replace", "resume", "template")


def sweep(folder: Path, kinds: Sequence[str] = (*ROUNDS, *CATALOG)) -> Report:
    """Kill each kind of step once at each place it passes; each place is where a file, a statement or a step begins or ends."""
    report = Report()
    children = Children(folder, warm_up)
    golden, scratch, noted = folder / "golden", folder / "scratch", folder / "places.json"
    covered: set[tuple[str, str]] = set()
    before = Model()
    for step in short_script():
        after = before.copied()
        step.expect(after)
        report.n_steps += 1
        for kind, work in [("open", _open_only), (step.what.split()[0], step.do)]:
            if kind not in kinds:
                continue
            _copy(golden, scratch)
            children.run(lambda work=work, kind=kind: _record(scratch, work, kind, noted))
            places: list[str] = json.loads(noted.read_text())
            committed_at = places.index(COMMITTED) if kind != "open" else len(places)
            _check_flushed(places[:committed_at])
            for at, place in enumerate(places):
                if (kind, place) in covered:
                    continue
                covered.add((kind, place))
                _copy(golden, scratch)
                assert children.run(lambda work=work, kind=kind, at=at: _die(scratch, work, kind, at + 1))
                report.n_kills += 1
                happened = at >= committed_at
                _retry(scratch, step, before, after, happened)
        _retry(golden, step, before, after, happened=False)
        before = after
    report.places = {f"{kind}: {place}" for kind, place in covered}
    return report


def _check_flushed(places: list[str]) -> None:
    """A kill leaves what the system has taken, a power cut does not: every file and its folder are flushed before the commit."""
    if not Path("/proc/self/fd").exists():
        return  # what was flushed is not known there
    for at, place in enumerate(places):
        if place.startswith("file: created "):
            kind = place.removeprefix("file: created ")
            for flushed in (f"file: after flushing {kind}", f"file: after flushing folder {kind}"):
                assert flushed in places[at:], f"{flushed} is missing before the commit: {places}"


def _open_only(engine: Engine) -> None:
    """For kills while a home is being opened."""


def _copy(golden: Path, scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    if golden.exists():
        shutil.copytree(golden, scratch)
        leftover = scratch / "store" / "outbox" / f"00000001-{'0' * 32}.arrow"
        leftover.parent.mkdir(parents=True, exist_ok=True)
        leftover.write_bytes(b"what a process had written when it was killed")


def _watched(home: Path, watch: Recorder | Killer, kind: str) -> Engine:
    watch.is_armed = kind == "open"
    install(watch)
    engine = open_home(home)
    watch.is_armed = kind != "open"
    return engine


def _record(home: Path, work: Callable[[Engine], object], kind: str, noted: Path) -> None:
    recorder = Recorder()
    work(_watched(home, recorder, kind))
    noted.write_text(json.dumps(recorder.passed))


def _die(home: Path, work: Callable[[Engine], object], kind: str, nth: int) -> None:
    work(_watched(home, Killer(nth), kind))


def _retry(home: Path, step: Step, before: Model, after: Model, happened: bool) -> None:
    """After a kill: exactly all or exactly nothing of the step is there, and doing it again completes it."""
    with open_home(home) as engine:
        check(engine, after if happened else before)
        if not happened or step.token is not None:
            answer = step.do(engine)
            assert step.token is None or answer.is_repeat is happened, (
                f"{step.what}: is_repeat is {answer.is_repeat}"
            )
        check(engine, after)


# --------------------------------------------------------------------------------------------- one home, many kills


def chain(folder: Path, rng: random.Random, *, kills: int, timed: float = 0.0) -> Report:
    """One home that lives through many deaths, each at a random place; for a share `timed` of them, at a random time."""
    report = Report()
    children = Children(folder, warm_up)
    steps = _endless(rng)
    script = [next(steps) for _ in range(4)]
    life = _Life(folder / "home", Sink(folder / "sink.jsonl"), script)
    known = Model()  # before the step the last child was doing
    n_known = 0
    while report.n_kills < kills:
        script += [next(steps) for _ in range(life.doing.value + 60 - len(script))]
        for step in script[n_known : life.doing.value]:
            step.expect(known)
        n_known = life.doing.value
        if rng.random() < timed:
            kill_after_s = rng.uniform(0.0, 0.15)
            report.n_kills += children.run(lambda: life.live(known, None), kill_after_s=kill_after_s)
        else:
            killer = Killer(rng.randint(1, 150))
            report.n_kills += children.run(lambda: life.live(known, killer))  # noqa: B023
    for step in script[n_known : life.doing.value]:
        step.expect(known)
    assert not children.run(lambda: life.live(known, None, last=True))
    report.n_steps = life.doing.value
    return report


def _endless(rng: random.Random) -> Iterator[Step]:
    while True:
        yield from random_script(rng, 100_000)


@dataclass
class _Life:
    """What each child does with the home, from the step its predecessor was killed in."""

    home: Path
    sink: Sink
    script: list[Step]
    doing: SharedNumber = field(default_factory=SharedNumber)

    def live(self, model: Model, killer: Killer | None, *, last: bool = False) -> None:
        if killer is not None:
            install(killer)
        engine = open_home(self.home, WIDE)
        at = self.doing.value
        is_later = engine.version != model.version or engine.rounds.last_round != model.round_number
        if is_later:  # the step had happened when its process was killed
            self.script[at].expect(model)
            check(engine, model)
            if self.script[at].token is not None:
                assert self.script[at].do(engine).is_repeat, f"{self.script[at].what} happened twice"
            at += 1
        check(engine, model)
        self.sink.take(engine)
        check_sink(self.sink, engine, model)
        end = at if last else len(self.script)
        while at < end:
            self.doing.value = at
            self.script[at].do(engine)
            self.script[at].expect(model)
            at += 1
            if at % 5 == 0:
                self.sink.take(engine)
        check(engine, model)
        self.doing.value = at
        engine.close()


# --------------------------------------------------------------------------------------------- by hand


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """In memory where there is such a place: a kill loses nothing the system has taken, so the disk need not be waited for."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def run(
    kills: int, seed: int = 0, *, kinds: Sequence[str] = (*ROUNDS, *CATALOG), timed: float = 0.2
) -> Report:
    """At least this many kills: each kind of step at every place, then random ones."""
    report = Report()
    if kinds:
        with work_folder() as folder:
            report = sweep(folder, kinds)
    rng = random.Random(seed)
    while report.n_kills < kills:
        with work_folder() as folder:
            life = chain(folder, rng, kills=min(KILLS_PER_HOME, kills - report.n_kills), timed=timed)
        report.n_kills += life.n_kills
        report.n_steps += life.n_steps
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=0, help="how many at least, the rest at random places")
    parser.add_argument(
        "--kinds", nargs="*", default=[*ROUNDS, *CATALOG], help="steps to kill at every place"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random places and times")
    parser.add_argument(
        "--timed", type=float, default=0.2, help="the share of random kills at a time, not a place"
    )
    parser.add_argument("--tasks", action="store_true", help="work on rows in tasks, as workers do")
    parser.add_argument("--json", type=Path, help="write what was found to this file")
    options = parser.parse_args()
    global IN_TASKS
    IN_TASKS = options.tasks
    began = time.perf_counter()
    try:
        report = run(options.kills, options.seed, kinds=options.kinds, timed=options.timed)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    found = {
        "kills": report.n_kills,
        "steps": report.n_steps,
        "places": sorted(report.places),
        "seconds": time.perf_counter() - began,
    }
    print(f"{report}; {len(report.places)} places, {found['seconds']:.1f} s")
    if options.json is not None:
        options.json.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
