"""What can go wrong while Spark's workers have a round, with clocks, disks, files, topics, homes, streams and executors.

Whatever it is, no row is lost and none is told twice.
"""

from __future__ import annotations

import datetime
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import eddyline
from eddyline.errors import HomeError
from eddyline.events import (
    FileChanged,
    FileSetAside,
    RoundCommitted,
    RoundFailed,
    RoundMeasured,
    SourceClosed,
    SourceFailed,
)
from eddyline.functions.declarations import DECLARED
from eddyline.sources import SourceError
from eddyline.spark.workers import SparkWorkers
from tests.kafka_broker import RealBroker, wait_for
from tests.spark import on_cluster
from tests.spark.project import REST, TRADES, Project, cheap

ROOT = Path(__file__).parent.parent.parent
HOUR_US = 3_600_000_000
NO_SINK = """
[rules]
files = ["rules.sql"]
[limits]
job_from_bytes = 0
"""


@pytest.fixture(autouse=True)
def _functions_of_this_test_only():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


@pytest.fixture
def project(tmp_path, spark) -> Project:
    return Project(tmp_path, SparkWorkers(spark))


def once_at(step: str, act: Callable[[], object]) -> Callable[[str], None]:
    """What a round is to tell its steps to, so that something happens the first time it reaches one."""
    done: list[str] = []

    def at_step(reached: str) -> None:
        if reached == step and not done:
            done.append(reached)
            act()

    return at_step


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def told_once(engine: eddyline.Engine, name: str = "cheap") -> list[int]:
    """The column n of every result of a query in the home, by arrival; none may be there twice."""
    query_id, found = engine.get(name).id, []
    for _, part in engine.rounds.durable.results():
        rows = zip(part.query_ids.tolist(), part.arrivals.tolist(), part.rows.to_pylist(), strict=True)
        found += [(arrival, row["n"]) for each, arrival, row in rows if each == query_id]
    assert len({arrival for arrival, _ in found}) == len(found), found
    return [n for _, n in sorted(found)]


# --------------------------------------------------------------------------------------------- the clock


def test_a_clock_that_was_set_back_does_not_turn_time_back_at_the_workers(project):
    project.rules("CREATE OR REPLACE VIEW cheap AS SELECT n, now() AS at FROM trades WHERE n % 100 = 7")
    for k, hour in enumerate((100, 40, 101)):
        if k:
            project.write(str(k + 1), *range(100 * k, 100 * k + 100))
        with eddyline.open(project.folder / "home", clock=lambda hour=hour: hour * HOUR_US) as engine:
            project.run(engine=engine)
    assert [event.n_tasks for event in project.told(RoundMeasured)] == [1, 1, 1]
    results = project.results()
    first, back, later = (datetime.datetime.fromisoformat(result["at"]) for result in results)
    assert [result["n"] for result in results] == [7, 107, 207]
    assert (back - first, later - first) == (datetime.timedelta(0), datetime.timedelta(hours=1))


# --------------------------------------------------------------------------------------------- the disk


def test_a_task_that_finds_no_room_fails_its_round_and_the_rows_come_again(project):
    full = project.folder / "full"
    full.touch()

    @eddyline.udf(returns="bigint", name="on_small_disk")
    def on_small_disk(n: int) -> int:
        if full.exists():
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return n

    project.rules("CREATE OR REPLACE VIEW cheap AS SELECT on_small_disk(n) AS n FROM trades WHERE price < 10")

    def make_room(event) -> None:
        project.events.append(event)
        if isinstance(event, RoundFailed):
            full.unlink(missing_ok=True)

    project.run(on_event=make_room)
    (failed,) = project.told(RoundFailed)
    assert "cannot write to the store in" in failed.message
    assert "The round has not happened; its rows come again." in failed.message
    assert [event.n_rows for event in project.told(RoundCommitted)] == [100]
    assert [r["n"] for r in project.results()] == cheap(range(100))


def test_a_commit_that_finds_no_room_leaves_no_file_of_the_tasks_and_the_rows_come_again(project):
    for k in range(60):
        project.write("2" + f"{k:03}" * 60, 100 + k)  # names that take much room in the catalog
    outbox: list[list[str]] = []
    with project.runner() as runner:
        durable = runner.engine.rounds.durable
        connection = durable.database.connection

        def full() -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")

        def make_room(event) -> None:
            if isinstance(event, RoundFailed):
                project.events.append(event)
                outbox.append([name for name in durable.store.names() if name.startswith("outbox/")])
                connection.execute("PRAGMA max_page_count = 1000000")

        runner.engine.rounds.at_step = once_at("4 commit", full)
        runner.engine.on_event(make_room)
        runner.run(once=True)
        assert told_once(runner.engine) == cheap(range(160))
        listed = {file.name for file in durable.rounds.files.all("outbox")}
        assert {name for name in durable.store.names() if name.startswith("outbox/")} == listed
    (failed,) = {event.message for event in project.told(RoundFailed)}
    assert "database or disk is full" in failed
    assert outbox == [[]]
    assert [r["n"] for r in project.results()] == cheap(range(160))


# --------------------------------------------------------------------------------------------- files


def test_a_file_that_changes_between_plan_and_worker_is_read_as_it_is_now(project):
    project.write("2", *range(100, 200))
    with project.runner() as runner:
        runner.engine.rounds.at_step = once_at("3 work", lambda: project.write("2", *range(1000, 1030)))
        runner.run(once=True)
        assert list(runner.engine.dead_letters()) == []
    assert [r["n"] for r in project.results()] == cheap([*range(100), *range(1000, 1030)])


@pytest.mark.parametrize("harm", ["vanished", "corrupt"])
def test_a_file_a_worker_cannot_read_is_a_dead_letter_and_the_others_are_read(project, harm):
    path = project.write("2", *range(100, 200))
    project.write("3", *range(200, 300))

    def spoil() -> None:
        if harm == "vanished":
            path.unlink()
        else:
            whole, state = path.read_bytes(), path.stat()  # the footer stays, so only reading it tells
            path.write_bytes(whole[:4] + bytes(len(whole) // 3) + whole[4 + len(whole) // 3 :])
            os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

    with project.runner() as runner:
        runner.engine.rounds.at_step = once_at("3 work", spoil)
        runner.run(once=True)
        (letter,) = runner.engine.dead_letters()
    assert (letter.error, letter.row) == ("FILE_CANNOT_BE_READ", {"_file": "2.parquet"})
    assert [event.file for event in project.told(FileSetAside)] == ["2.parquet"]
    assert [r["n"] for r in project.results()] == cheap([*range(100), *range(200, 300)])


def test_a_file_that_changes_after_its_round_is_told_and_not_read_again(project):
    project.run()
    project.write("1", *range(500))
    project.write("2", *range(100, 200))
    with project.runner() as runner:
        runner.run(once=True)
        (letter,) = runner.engine.dead_letters()
    assert (letter.error, letter.row) == ("FILE_CHANGED", {"_file": "1.parquet"})
    assert [event.file for event in project.told(FileChanged)] == ["1.parquet"]
    assert [r["n"] for r in project.results()] == cheap(range(200))


# --------------------------------------------------------------------------------------------- a topic


@pytest.mark.thorough
def test_a_topic_made_anew_while_workers_have_its_messages_is_not_taken_for_the_old_one(
    project, real_broker: RealBroker
):
    topic = real_broker.topic()
    streams = f"""
[streams.trades]
schema = "n BIGINT, price DOUBLE"
source = {{ type = "kafka", servers = "{real_broker.servers}", topic = "{topic}", format = "json" }}
"""

    def write(*numbers: int) -> None:
        real_broker.write(topic, [f'{{"n": {n}, "price": {n % 20}}}' for n in numbers])

    def make_anew() -> None:
        real_broker.delete_topic(topic)
        real_broker.make_topic(topic)
        write(*range(1000, 1100))
        wait_for(lambda: len(real_broker.committed(topic)) == 100)

    write(*range(20))
    project.run(streams=streams)
    write(*range(20, 40))
    with project.runner(streams=streams) as runner:
        runner.engine.rounds.at_step = once_at("3 work", make_anew)
        with pytest.raises(SourceError, match="is not the one that was read so far"):
            runner.run(once=True)
    assert [event.n_rows for event in project.told(RoundCommitted)] == [20]
    assert all("is not the one that was read so far" in event.message for event in project.told(SourceFailed))
    project.run(streams=streams.replace('"json"', '"json", on_gone = "earliest"'))
    assert [r["n"] for r in project.results()] == cheap([*range(20), *range(1000, 1100)])


# --------------------------------------------------------------------------------------------- another epoch


class Gate:
    """A function `held` that holds up whoever calls it first, in whatever process, until `let_go`."""

    def __init__(self, folder: Path) -> None:
        self._reached, self._open = folder / "reached", folder / "open"
        reached, opened = self._reached, self._open

        @eddyline.udf(returns="bigint", name="held")
        def held(n: int) -> int:
            try:
                reached.touch(exist_ok=False)
            except FileExistsError:
                return n
            until = time.monotonic() + 60
            while not opened.exists() and time.monotonic() < until:
                time.sleep(0.01)
            return n

    def wait_until_reached(self) -> None:
        until(self._reached.exists, "no task has begun")

    def let_go(self) -> None:
        self._open.touch()


def test_a_worker_of_another_epoch_that_writes_late_adds_nothing(project):
    gate, errors = Gate(project.folder), []
    project.rules("CREATE OR REPLACE VIEW cheap AS SELECT held(n) AS n FROM trades WHERE price < 10")
    home = project.folder / ".eddyline"
    old = project.runner(rest=NO_SINK, home=home)

    def run_old() -> None:
        try:
            old.run(once=True, signals=False)
        except HomeError as error:
            errors.append(error)

    thread = threading.Thread(target=run_old)
    thread.start()
    try:
        gate.wait_until_reached()
        (home / "lock").unlink()  # as on a network file system that forgets locks
        with project.runner(rest=NO_SINK, home=home) as new:
            assert new.engine.rounds.durable.epoch == 2
            new.run(once=True)
            names = set(new.engine.rounds.durable.store.names())
            gate.let_go()
            thread.join()
            late = set(new.engine.rounds.durable.store.names()) - names
            assert {name.split("/")[1][:8] for name in late} <= {"00000001"}
            assert names <= set(new.engine.rounds.durable.store.names())  # nor did it remove anything
            assert told_once(new.engine) == cheap(range(100))
    finally:
        gate.let_go()
        thread.join()
        old.close()
    (error,) = errors
    assert error.problem == "another process has opened this home"
    with eddyline.open(home) as engine:
        assert told_once(engine) == cheap(range(100))
        assert engine.rounds.durable.find_damaged() == {}
        listed = {file.name for file in engine.rounds.durable.rounds.files.all()}
        assert set(engine.rounds.durable.store.names()) == listed


# --------------------------------------------------------------------------------------------- streams


def test_a_stream_dropped_and_declared_again_while_workers_have_its_rows_reads_them_from_the_beginning(
    project,
):
    gate = Gate(project.folder)
    project.rules("CREATE OR REPLACE VIEW cheap AS SELECT held(n) AS n FROM trades WHERE price < 10")
    with project.runner() as runner:
        engine = runner.engine

        def again() -> None:
            gate.wait_until_reached()
            engine.drop("cheap")
            engine.drop_stream("trades")
            engine.stream("trades", "n BIGINT, price DOUBLE")
            engine.query("SELECT n FROM trades WHERE price < 10", name="again")
            gate.let_go()

        thread = threading.Thread(target=again)
        thread.start()
        runner.run(once=True)
        thread.join()
        assert told_once(engine, "again") == cheap(range(100))
        assert engine.rounds.progress["trades"].n_rows == 100
    assert [event.n_rows for event in project.told(RoundCommitted)] == [100]
    assert {r["_query"] for r in project.results()} == {"again"}


def test_a_stream_dropped_while_workers_have_its_rows_ends_its_source_and_nothing_else(project):
    gate = Gate(project.folder)
    project.write("1", *range(1000, 1100), into="other")
    project.rules(
        "CREATE OR REPLACE VIEW cheap AS SELECT held(n) AS n FROM trades WHERE price < 10;"
        "CREATE OR REPLACE VIEW dear AS SELECT n FROM others WHERE price >= 10"
    )
    others = TRADES.replace("trades", "others").replace('"in"', '"other"')
    with project.runner(streams=TRADES + others) as runner:

        def drop() -> None:
            gate.wait_until_reached()
            runner.engine.drop("cheap")
            runner.engine.drop_stream("trades")
            gate.let_go()

        thread = threading.Thread(target=drop)
        thread.start()
        runner.run(once=True)
        thread.join()
        assert told_once(runner.engine, "dear") == [n for n in range(1000, 1100) if n % 20 >= 10]
    assert [event.stream for event in project.told(SourceClosed)] == ["trades"]
    assert [event.n_rows for event in project.told(RoundCommitted)] == [100]
    assert project.told(RoundFailed) == []


@pytest.mark.parametrize("on_spark", [True, False], ids=["on Spark", "here"])
def test_a_stream_dropped_and_declared_again_between_rounds_reads_its_source_from_the_beginning(
    project, on_spark
):
    rest = REST + "rows_per_round = 30\n"
    with project.runner(rest=rest, on_spark=on_spark) as runner:
        engine, rounds = runner.engine, []

        def change(progress) -> bool:
            rounds.append(progress.n_rows)
            if len(rounds) == 1:
                engine.drop("cheap")
                engine.drop_stream("trades")
                engine.stream("trades", "n BIGINT, price DOUBLE")
                engine.query("SELECT n FROM trades WHERE price < 10", name="again")
            return False

        project.write("2", *range(100, 150))
        runner.run(once=True, until=change)
        assert told_once(engine, "again") == cheap(range(150))
        assert engine.rounds.progress["trades"].n_rows == 150


# --------------------------------------------------------------------------------------------- an executor


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="looks for executors among the processes of Linux"
)
def test_an_executor_killed_while_its_tasks_run_costs_no_row_and_the_run_goes_on(tmp_path):
    command = [sys.executable, "-m", "tests.spark.on_cluster", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "EDDYLINE_CLASS_ARCHIVE": "off"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["executors"]) == 2
    assert found["killed"] in found["executors"]
    assert found["n_tasks"] == [3, 1]
    assert found["failed"] == []  # Spark gave the task to another executor
    assert found["n_rows"] == on_cluster.N_FILES * on_cluster.ROWS_PER_FILE
    assert found["numbers"] == list(
        range(7, found["n_rows"], on_cluster.EVERY)
    )  # in order of arrival, each once
    for pid in found["executors"]:
        until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), f"executor {pid} did not end")
