"""Pipelines whose rows Spark's workers read: the same results as in one process, through faults and change."""

from __future__ import annotations

import os
import signal

import pytest

import eddyline
from eddyline.errors import PropertyError
from eddyline.events import FileSetAside, RoundFailed, RoundMeasured, SourceClosed
from eddyline.functions.declarations import DECLARED
from eddyline.spark.workers import SparkWorkers
from tests.spark.project import TRADES, Project, cheap


@pytest.fixture(autouse=True)
def _functions_of_this_test_only():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


@pytest.fixture
def project(tmp_path, spark) -> Project:
    return Project(tmp_path, SparkWorkers(spark))


def test_workers_read_the_files_and_the_results_are_those_of_one_process(project, tmp_path):
    project.write("2", *range(100, 250))
    summary = project.run()
    assert (summary.n_rows, summary.n_rounds) == (250, 1)
    assert [r["n"] for r in project.results()] == cheap(range(250))
    assert project.told(RoundMeasured)[0].n_tasks >= 1
    alone = Project(tmp_path / "alone", project.workers) if (tmp_path / "alone").mkdir() is None else None
    alone.write("2", *range(100, 250))
    alone.run(on_spark=False)
    assert [(r["n"], r["_arrival"]) for r in alone.results()] == [
        (r["n"], r["_arrival"]) for r in project.results()
    ]
    assert not alone.told(RoundMeasured)


def test_a_run_goes_on_where_the_last_one_ended_on_spark_or_not(project):
    numbers = iter(range(100, 10_000))
    project.run()
    for k, on_spark in enumerate((False, True, True, False)):
        project.write(f"2{k}", *(next(numbers) for _ in range(50)))
        project.run(on_spark=on_spark)
    assert [r["n"] for r in project.results()] == cheap(range(300))


def test_streams_run_side_by_side_each_with_its_own_rounds(project):
    project.write("1", *range(1000, 1100), into="other")
    project.rules(
        "CREATE OR REPLACE VIEW cheap AS SELECT n FROM trades WHERE price < 10;"
        "CREATE OR REPLACE VIEW dear AS SELECT n FROM others WHERE price >= 10"
    )
    others = TRADES.replace("trades", "others").replace('"in"', '"other"')
    summary = project.run(streams=TRADES + others)
    assert (summary.n_rows, summary.n_rounds) == (200, 2)
    by_query = {
        name: [r["n"] for r in project.results() if r["_query"] == name] for name in ("cheap", "dear")
    }
    assert by_query == {
        "cheap": cheap(range(100)),
        "dear": [n for n in range(1000, 1100) if n % 20 >= 10],
    }


def test_a_corrupt_file_becomes_a_dead_letter_and_the_rest_is_read(project):
    (project.folder / "in" / "0.parquet").write_bytes(b"PAR1 and no more")
    with project.runner() as runner:
        runner.run(once=True)
        (letter,) = runner.engine.dead_letters()
    assert letter.error == "FILE_CANNOT_BE_READ"
    assert [event.file for event in project.told(FileSetAside)] == ["0.parquet"]
    assert [r["n"] for r in project.results()] == cheap(range(100))


def test_a_worker_that_dies_in_a_task_is_replaced_and_nothing_is_lost_or_twice(project):
    marker = project.folder / "died"

    @eddyline.udf(returns="bigint", name="fatal")
    def fatal(n: int) -> int:
        if n == 50 and not marker.exists():
            marker.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    project.rules(
        "CREATE OR REPLACE VIEW cheap AS SELECT fatal(n) AS n FROM trades WHERE price < 10 OR n = 50"
    )
    project.run()
    assert marker.exists()
    assert [r["n"] for r in project.results()] == sorted([*cheap(range(100)), 50])


def test_a_task_that_fails_always_is_told_and_the_rows_come_again(project, monkeypatch):
    broken = project.folder / "broken"
    broken.write_text("")

    @eddyline.udf(returns="bigint", name="fragile")
    def fragile(n: int) -> int:
        if broken.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    project.rules("CREATE OR REPLACE VIEW cheap AS SELECT fragile(n) AS n FROM trades WHERE price < 10")

    def heal(event) -> None:
        project.events.append(event)
        if isinstance(event, RoundFailed):
            broken.unlink(missing_ok=True)

    project.run(on_event=heal)
    (failed,) = project.told(RoundFailed)
    assert failed.message.startswith("Spark could not run the tasks of a round")
    assert [r["n"] for r in project.results()] == cheap(range(100))


def test_queries_come_and_go_between_rounds(project):
    with project.runner() as runner:
        engine = runner.engine
        seen = []

        def change(progress) -> bool:
            seen.append(progress.n_rows)
            if len(seen) == 1:
                engine.query("SELECT n FROM trades WHERE n = 105", name="late")
                engine.drop("cheap")
                project.write("2", *range(100, 110))
                return False
            return True

        runner.run(until=change)
        assert [r["n"] for r in engine.get("late").latest()] == [105]
    assert [r["n"] for r in project.results() if r["_query"] == "cheap"] == cheap(range(100))


# --------------------------------------------------------------------------------------------- from Python


def test_an_engine_starts_on_a_session_and_sources_come_and_go(tmp_path, spark):
    project = Project(tmp_path, SparkWorkers(spark))
    project.write("1", 1, 2, 3, into="more")
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("trades", "n BIGINT, price DOUBLE")
        engine.stream("others", "n BIGINT, price DOUBLE")
        query = engine.query("SELECT n FROM trades WHERE price < 10")
        other = engine.query("SELECT n FROM others")
        source = {"type": "files", "path": str(tmp_path / "in"), "format": "parquet", "poll": "10 ms"}
        with engine.start(spark, sources={"trades": source}, on_event=project.events.append) as running:
            assert [r["n"] for r in query.results(timeout=30)][:3] == [0, 1, 2]
            running.add_source("others", {**source, "path": str(tmp_path / "more")})
            assert [r["n"] for r in other.results(timeout=30)] == [1, 2, 3]
            running.remove_source("others")
            project.write("2", 4, into="more")
            other.drop()
            engine.drop_stream("others")
            query.drop()
            engine.drop_stream("trades")
            assert running.spark is spark
            _until(lambda: project.told(SourceClosed))
        assert [event.stream for event in project.told(SourceClosed)] == ["trades"]
        assert spark.range(3).count() == 3  # the session was not ours to stop


def _until(condition) -> None:
    import time

    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_an_engine_in_memory_and_a_source_nobody_knows_are_refused(tmp_path, spark):
    with eddyline.open() as engine, pytest.raises(PropertyError, match="in memory"):
        engine.start(spark)
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("trades", "n BIGINT")
        with pytest.raises(eddyline.EddylineError, match="type is 'fils'"):
            engine.start(spark, sources={"trades": {"type": "fils"}})


def test_a_file_with_a_decimal_that_arrow_does_not_survive_costs_that_row_on_workers(project):
    paid = TRADES.replace("trades", "paid").replace('"in"', '"paid"').replace("parquet", "json")
    paid = paid.replace("DOUBLE", "DECIMAL(10,2)")
    (project.folder / "paid").mkdir()
    lines = [f'{{"n": {n}, "price": {n}.50}}' for n in range(200)]
    lines[7], lines[99] = '{"n": 7, "price": 1e-1000000000}', '{"n": 99, "price": "1e-1000000000"}'
    (project.folder / "paid" / "1.json").write_text("\n".join(lines))
    project.rules("CREATE OR REPLACE VIEW all_paid AS SELECT n, price FROM paid")
    with project.runner(streams=paid) as runner:
        runner.run(once=True)
        letters = runner.engine.dead_letters()
    assert project.told(RoundMeasured)[0].n_tasks >= 1
    assert [letter.row["n"] for letter in letters] == [7, 99]
    assert [r["n"] for r in project.results()] == [n for n in range(200) if n not in (7, 99)]
