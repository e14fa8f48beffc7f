"""While workers are at work on a round, its group waits for it, and all others go on."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import eddyline
from eddyline.engine.join_replica import ProbeTask
from eddyline.engine.shared_work import SharedRounds
from eddyline.engine.tasks import Task, TaskResult, run_task
from eddyline.errors import ClosedError, GroupBusyError, StreamChangedError
from eddyline.model import FIRST_DERIVED, ExecutionChoices
from eddyline.sources.captures import capture_reference
from eddyline.sources.ingestion import ingest
from eddyline.sources.references import PlannedInput
from eddyline.storage import write_capture

DEADLINE_S = 60.0  # a thread that has not ended by then never will
JOIN = "SELECT l.k, l.v AS lv, r.v AS rv FROM recent(lefts, 10) l JOIN recent(rights, 10) r ON l.k = r.k"
MINUTE_US = 60_000_000


class Workers:
    """Workers whose jobs that join stop at a gate while it is closed."""

    def __init__(self) -> None:
        self.jobs: list[Sequence[Task | ProbeTask]] = []
        self.has_job, self.gate = threading.Event(), threading.Event()
        self.gate.set()
        self.fault: Exception | None = None
        self.n_attempts = 1

    def __call__(self, tasks: Sequence[Task | ProbeTask]) -> list[TaskResult]:
        self.jobs.append(tasks)
        if isinstance(tasks[0], ProbeTask):
            self.has_job.set()
            assert self.gate.wait(DEADLINE_S)
            if self.fault is not None:
                fault, self.fault = self.fault, None
                raise fault
            for _ in range(self.n_attempts - 1):
                [run_task(pickle.loads(pickle.dumps(task))) for task in tasks]
        return [pickle.loads(pickle.dumps(run_task(pickle.loads(pickle.dumps(task))))) for task in tasks]

    def hold(self) -> None:
        self.gate.clear()
        self.has_job.clear()

    def await_job(self) -> None:
        assert self.has_job.wait(DEADLINE_S)


class Caller:
    """A thread, and what it returned or raised."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None

        def run() -> None:
            try:
                self.value = work()
            except BaseException as error:
                self.error = error

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def end(self) -> Any:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.value


class World:
    """lefts and rights are joined; others and more are not."""

    def __init__(self, home: Path) -> None:
        self.now_us = 1_000_000_000
        self.engine = eddyline.open(home, clock=lambda: self.now_us)
        self.workers = Workers()
        choices = ExecutionChoices(join_from_rows=1)
        self.shared = SharedRounds(self.engine.rounds, self.workers, pickle.dumps, choices=choices)
        for name in ("lefts", "rights", "others", "more"):
            self.engine.stream(name, "k BIGINT, v BIGINT")
        self.joined = self.engine.query(JOIN, name="joined")
        self.engine.query("SELECT v FROM others", name="plain")

    def share(self, stream: str, *rows: tuple[int, int]) -> Any:
        """A round in tasks; its number."""
        rounds = self.engine.rounds
        ingested = ingest(rounds.catalog.stream(stream), [{"k": k, "v": v} for k, v in rows], "UTC")
        store = rounds.durable.store
        file = store.put("capture", lambda file: write_capture(file, [(stream, ingested.rows)]))
        offered = PlannedInput((capture_reference(store.folder, file),), lambda counts: None)
        return self.shared.run_round({stream: offered}).round.number

    def push(self, stream: str, *rows: tuple[int, int]) -> int:
        return self.engine.push(stream, [{"k": k, "v": v} for k, v in rows]).round_number

    def start(self, stream: str, *rows: tuple[int, int]) -> Caller:
        """A round in tasks whose job is held."""
        self.workers.hold()
        caller = Caller(lambda: self.share(stream, *rows))
        self.workers.await_job()
        return caller

    def wait_for_waiting(self, n: int) -> None:
        while self.engine.rounds.turns.n_waiting() < n:
            threading.Event().wait(0.001)

    def results(self, name: str = "joined") -> list[tuple[Any, ...]]:
        return sorted((*each.arrivals, *each.values()) for each in self.engine.get(name).latest(1_000))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    world.push("lefts", (1, 10), (2, 20))  # rows 1 and 2
    yield world
    world.workers.gate.set()
    world.engine.close()


def test_other_streams_and_ticks_go_on_while_workers_join_and_the_group_waits(world: World) -> None:
    job = world.start("rights", (1, 11))
    assert world.push("others", (5, 50)) == 2
    assert world.engine.tick().round_number == 3
    waiting = Caller(lambda: world.push("lefts", (1, 12)))
    world.wait_for_waiting(1)
    assert world.push("more", (6, 60)) == 4
    world.workers.gate.set()
    assert (job.end(), waiting.end()) == (5, 6)
    # rows 3 and 4 are those of others and more
    assert world.results() == [(1, 5, 1, 10, 11), (6, 5, 1, 12, 11)]


def test_no_lock_is_held_while_workers_join(world: World) -> None:
    job = world.start("rights", (1, 11))
    rounds = world.engine.rounds
    assert rounds.round_lock.acquire(blocking=False)
    assert rounds.lock.acquire(blocking=False)
    rounds.lock.release()
    rounds.round_lock.release()
    world.workers.gate.set()
    assert job.end() == 2


def test_results_that_workers_joined_have_the_numbers_of_their_rows_also_after_reopening(
    world: World, tmp_path: Path
) -> None:
    job = world.start("rights", (1, 11), (2, 21))
    world.push("others", (5, 50), (6, 60))  # rows 3 and 4
    world.workers.gate.set()
    job.end()
    assert world.results() == [(1, 5, 1, 10, 11), (2, 6, 2, 20, 21)]
    listed = world.engine.rounds.durable.rounds.files.of_round("outbox", 3)  # of two tasks, a row each
    assert [(file.first_row, file.first_arrival - FIRST_DERIVED) for file in listed] == [(5, 0), (5, 1)]
    world.engine.close()
    with eddyline.open(tmp_path / "home") as engine:
        found = sorted((*each.arrivals, *each.values()) for each in engine.get("joined").latest(10))
    assert found == [(1, 5, 1, 10, 11), (2, 6, 2, 20, 21)]


def test_a_task_that_is_run_twice_counts_once(world: World) -> None:
    world.workers.n_attempts = 2
    assert world.share("rights", (1, 11)) == 2
    assert world.share("rights", (2, 21)) == 3
    assert world.results() == [(1, 3, 1, 10, 11), (2, 4, 2, 20, 21)]


def test_after_a_job_that_failed_the_next_round_takes_its_turn(world: World) -> None:
    world.workers.hold()
    world.workers.fault = OSError("a worker is gone")
    job = Caller(lambda: world.share("rights", (1, 11)))
    world.workers.await_job()
    waiting = Caller(lambda: world.push("lefts", (1, 12)))
    world.wait_for_waiting(1)
    world.workers.gate.set()
    with pytest.raises(OSError, match="a worker is gone"):
        job.end()
    assert waiting.end() == 2
    assert world.share("rights", (1, 13)) == 3
    assert world.results() == [(1, 4, 1, 10, 13), (3, 4, 1, 12, 13)]
    durable = world.engine.rounds.durable
    listed = {file.name for file in durable.rounds.files.all()} | durable.in_use
    unlisted = {name for name in durable.store.names() if name not in listed and "capture" not in name}
    assert unlisted == set()


def test_a_query_registered_while_workers_join_sees_the_rounds_after_it(world: World) -> None:
    job = world.start("rights", (1, 11))
    world.engine.query(JOIN + " WHERE r.v > 0", name="new")
    assert world.push("others", (5, 50)) == 2  # adopts the new version
    world.workers.gate.set()
    assert job.end() == 3
    world.push("lefts", (7, 70))
    world.push("rights", (7, 71), (1, 14))
    assert [row[2:] for row in world.results()] == [(1, 10, 11), (1, 10, 14), (7, 70, 71)]
    assert [row[2:] for row in world.results("new")] == [(7, 70, 71)]


def test_a_stream_that_joins_the_group_meanwhile_waits_for_the_round(world: World) -> None:
    job = world.start("rights", (1, 11))
    world.engine.query(JOIN.replace("lefts", "others"), name="grown")
    waiting = Caller(lambda: world.push("others", (1, 12)))
    world.wait_for_waiting(1)
    assert world.push("more", (6, 60)) == 2
    world.workers.gate.set()
    assert (job.end(), waiting.end()) == (3, 4)
    world.push("rights", (1, 15))
    assert [row[2:] for row in world.results("grown")] == [(1, 12, 15)]


def test_streams_whose_last_join_is_dropped_meanwhile_wait_for_the_round(world: World) -> None:
    job = world.start("rights", (1, 11))
    world.joined.drop()
    waiting = Caller(lambda: world.push("lefts", (1, 12)))
    world.wait_for_waiting(1)
    world.workers.gate.set()
    assert (job.end(), waiting.end()) == (2, 3)


def test_a_stream_dropped_while_workers_join_leaves_nothing_of_the_round(world: World) -> None:
    job = world.start("rights", (1, 11))
    world.joined.drop()
    world.engine.drop_stream("rights")
    world.workers.gate.set()
    with pytest.raises(StreamChangedError, match="rights was dropped while its rows were worked on"):
        job.end()
    assert world.push("lefts", (1, 12)) == 2


def test_an_engine_closed_while_workers_join_ends_the_round(world: World, tmp_path: Path) -> None:
    job = world.start("rights", (1, 11))
    world.engine.close()
    world.workers.gate.set()
    with pytest.raises(ClosedError):
        job.end()
    with eddyline.open(tmp_path / "home") as engine:
        assert engine.rounds.last_round == 1


def test_a_callback_cannot_push_to_a_group_that_workers_join(world: World) -> None:
    job = world.start("rights", (1, 11))
    refused: list[str] = []

    def push_on(result: Any) -> None:
        try:
            world.push("lefts", (1, 12))
        except GroupBusyError as error:
            refused.append(error.problem)

    world.engine.get("plain").on_result(push_on)
    assert world.push("others", (5, 50)) == 2
    assert refused == ["a callback cannot push to lefts, rights now"]
    world.workers.gate.set()
    assert job.end() == 3


def test_a_tick_leaves_the_windows_of_a_group_that_workers_join(world: World) -> None:
    world.engine.query(
        "SELECT l.v AS lv, r.v AS rv FROM recent(lefts, INTERVAL 5 MINUTES) l "
        "JOIN recent(rights, INTERVAL 5 MINUTES) r ON l.k = r.k",
        name="timed",
    )
    world.push("lefts", (8, 80))
    job = world.start("rights", (8, 81))
    world.now_us += 10 * MINUTE_US
    world.engine.tick()
    world.push("others", (5, 50))
    world.workers.gate.set()
    job.end()
    assert [row[2:] for row in world.results("timed")] == [(80, 81)]
    world.push("rights", (8, 82))
    assert [row[2:] for row in world.results("timed")] == [(80, 81)]


def test_a_tick_leaves_the_windows_of_views_over_such_a_group(world: World) -> None:
    world.engine.query("SELECT k, v FROM lefts WHERE v > 5", name="large")
    world.engine.query(
        "SELECT l.v AS lv, r.v AS rv FROM recent(large, INTERVAL 5 MINUTES) l "
        "JOIN recent(rights, INTERVAL 5 MINUTES) r ON l.k = r.k",
        name="over a view",
    )
    world.push("lefts", (8, 80))
    job = world.start("rights", (8, 81))
    world.now_us += 10 * MINUTE_US
    world.engine.tick()
    world.workers.gate.set()
    job.end()
    assert [row[2:] for row in world.results("over a view")] == [(80, 81)]


def test_pushes_never_starve_a_shared_round_and_it_is_never_planned_again(world: World) -> None:
    n_rounds, is_over = 20, threading.Event()

    def push_all() -> int:
        n_pushes = 0
        while not is_over.is_set():
            world.push("lefts", (1, 10))
            n_pushes += 1
        return n_pushes

    pushing = [Caller(push_all) for _ in range(3)]
    for number in range(n_rounds):
        world.share("rights", (3, number))
    is_over.set()
    n_pushes = sum(caller.end() for caller in pushing)
    assert len([job for job in world.workers.jobs if isinstance(job[0], Task)]) == n_rounds
    assert len([job for job in world.workers.jobs if isinstance(job[0], ProbeTask)]) == n_rounds
    assert world.engine.rounds.last_round == 1 + n_rounds + n_pushes


def test_a_push_over_two_groups_waits_for_both(world: World) -> None:
    job = world.start("rights", (1, 11))
    rows = [{"k": 1, "v": 1}]
    both = Caller(lambda: world.engine.push({"others": rows, "lefts": rows}).round_number)
    world.wait_for_waiting(1)
    assert world.push("more", (6, 60)) == 2
    world.workers.gate.set()
    assert (job.end(), both.end()) == (3, 4)
