"""A function that misbehaves, as a whole engine meets it: dead letters for the pairs concerned, then only its queries stop."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

import eddyline
from eddyline.api import Commands
from eddyline.cli.logs import tell_event
from eddyline.events import FunctionRestarted, FunctionSuspended
from eddyline.functions.declarations import DECLARED
from tests.on_workers import through_tasks


@pytest.fixture(autouse=True)
def no_functions_are_left_behind():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


@pytest.fixture(params=["in process", "in tasks"])
def engine(request, tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        if request.param == "in tasks":
            through_tasks(engine, n_pieces=1)
        engine.stream("s", "a INT")
        yield engine


def failing(n: int) -> list[dict]:
    return [{"a": 0}] * n


def suspensions(engine) -> list[FunctionSuspended]:
    return [event for event in engine.events() if isinstance(event, FunctionSuspended)]


def declare_inverse(version: str = "1"):
    @eddyline.udf(returns="double", version=version)
    def inverse(a: int) -> float:
        return 1 / a

    return inverse


def test_queries_that_need_a_function_that_only_fails_are_suspended_and_the_others_go_on(engine):
    declare_inverse()
    first = engine.query("SELECT a FROM s WHERE inverse(a) > 0.5", name="first", owner="ann")
    second = engine.query("SELECT inverse(a) AS i FROM s", name="second", owner="bob")
    other = engine.query("SELECT a FROM s WHERE a >= 0", name="other")
    for _ in range(3):
        engine.push("s", failing(400))
    assert [query.state for query in (first, second, other)] == ["suspended", "suspended", "running"]
    assert first.suspended == (
        "function inverse is not called any more: it failed on each of the last 1,200 rows, the last time: "
        "function inverse raised ZeroDivisionError"
    )
    assert (
        engine.functions()["inverse"].last_message
        == "function inverse raised ZeroDivisionError: division by zero"
    )
    (suspension,) = suspensions(engine)
    assert (suspension.function, suspension.version, suspension.n_queries) == ("inverse", "1", 2)
    assert sorted(suspension.queries) == [("first", "ann"), ("second", "bob")]
    assert suspension.owners == ("ann", "bob")
    assert suspension.message == first.suspended
    assert suspension.round_number == 3
    assert other.n_results == 1200
    assert engine.dead_letters().total == 2 * 1200
    assert engine.functions()["inverse"].n_failed == 1200  # once per row, for both
    n_letters = engine.dead_letters().total
    engine.push("s", [{"a": 0}, {"a": 1}])
    assert engine.dead_letters().total == n_letters
    assert other.n_results == 1202


def test_resuming_tries_again_from_zero(engine):
    declare_inverse()
    query = engine.query("SELECT a FROM s WHERE inverse(a) > 0.5", name="q")
    for _ in range(3):
        engine.push("s", failing(400))
    assert query.state == "suspended"
    Commands(engine).query_resume(queries=["q"])
    assert query.state == "running"
    engine.push("s", [{"a": 1}])
    assert query.latest(1) == [{"a": 1}]
    for _ in range(3):
        assert query.state == "running"
        engine.push("s", failing(400))
    assert query.state == "suspended"
    assert len(suspensions(engine)) == 2


def test_only_queries_with_that_version_are_suspended(engine):
    declare_inverse("1")
    old = engine.query("SELECT a FROM s WHERE inverse(a) > 0.5", name="old")
    eddyline.udf(returns="double", version="2", name="inverse")(lambda a: [1.0] * len(a))
    new = engine.query("SELECT a FROM s WHERE inverse(a) >= 1", name="new")
    for _ in range(3):
        engine.push("s", failing(400))
    assert (old.state, new.state) == ("suspended", "running")
    assert new.n_results == 1200


def test_a_function_that_fails_now_and_then_goes_on(engine):
    declare_inverse()
    query = engine.query("SELECT a FROM s WHERE inverse(a) > 0.5", name="q")
    for _ in range(5):
        engine.push("s", [*failing(400), {"a": 1}])
    assert query.state == "running"
    assert suspensions(engine) == []


def test_a_setup_that_fails_three_times_suspends(engine):
    @eddyline.udf(returns="int", setup=lambda: 1 / 0)
    def with_model(model, a: int) -> int:
        return a

    query = engine.query("SELECT a FROM s WHERE with_model(a) > 0", name="q")
    for expected in ("running", "running", "suspended"):
        engine.push("s", failing(1))
        assert query.state == expected
    assert query.suspended == (
        "function with_model is not called any more: its setup failed 3 times in a row, the last time: "
        "setup of function with_model raised ZeroDivisionError: division by zero"
    )


def test_it_is_said_in_the_log(engine, caplog):
    declare_inverse()
    engine.on_event(tell_event)
    engine.query("SELECT a FROM s WHERE inverse(a) > 0.5", name="q")
    with caplog.at_level(logging.WARNING, logger="eddyline"):
        for _ in range(3):
            engine.push("s", failing(400))
    (said,) = [record.getMessage() for record in caplog.records if record.name == "eddyline"]
    assert said.startswith("eddyline: 1 queries suspended (q): function inverse is not called any more")
    (event,) = [record for record in caplog.records if getattr(record, "event", "") == "FunctionSuspended"]
    assert event.fields["function"] == "inverse"
    assert event.has_words


def test_that_it_is_suspended_survives_a_restart(tmp_path):
    declare_inverse()
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("s", "a INT")
        engine.query("SELECT a FROM s WHERE inverse(a) > 0.5", name="q")
        for _ in range(3):
            engine.push("s", failing(400))
    with eddyline.open(tmp_path / "home") as engine:
        query = engine.get("q")
        assert query.state == "suspended"
        query.resume()
        engine.push("s", [{"a": 1}])
        assert query.n_results == 1


@pytest.mark.slow
def test_calls_that_are_lost_suspend_and_the_process_is_ended(engine):
    @eddyline.udf(returns="int", isolated=True)
    def deadly(a: int) -> int:
        if a == 0:
            os._exit(7)
        return a

    query = engine.query("SELECT a FROM s WHERE deadly(a) > 0", name="q", owner="ann")
    other = engine.query("SELECT a FROM s WHERE a >= 0", name="other")
    engine.push("s", [{"a": 1}, {"a": 0}, {"a": 2}])
    assert query.results() == [{"a": 1}, {"a": 2}]
    (letter,) = engine.dead_letters()
    assert (letter.error, letter.query, letter.row) == ("FUNCTION_FAILED", "q", {"a": 0})
    assert letter.message == "function deadly ended its process (exit code 7)"
    (restarted,) = [event for event in engine.events() if isinstance(event, FunctionRestarted)]
    assert (restarted.function, restarted.message) == ("deadly", letter.message)
    for n in range(3):
        assert query.state == "running", n
        engine.push("s", failing(1))
    assert query.state == "suspended"
    assert other.n_results == 6
    (suspension,) = suspensions(engine)
    assert suspension.message == (
        "function deadly is not called any more: 3 calls in a row were lost, the last because "
        "function deadly ended its process (exit code 7)"
    )
    assert "calls lost" in str(query.explain())
    assert engine.functions()["deadly"].n_lost >= 4


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark_workers_set_up_once_count_and_open_the_breaker(spark, tmp_path):
    from eddyline.spark.jobs import spark_runner

    setup_folder = str(tmp_path / "setups")
    os.mkdir(setup_folder)

    def load():
        with open(f"{setup_folder}/{os.getpid()}", "a") as file:
            file.write("x")
        return 10

    @eddyline.udf(returns="int", setup=load)
    def scaled(factor, a: int) -> int:
        return factor * a

    @eddyline.udf(returns="int", timeout="20 seconds")
    def deadly(a: int) -> int:
        if a == 0:
            os._exit(7)
        return a

    def workers(tasks):
        results = run(tasks)
        n_tasks.append(len(tasks))
        return results

    n_tasks: list[int] = []
    run = spark_runner(spark)
    with eddyline.open(tmp_path / "home") as engine:
        through_tasks(engine, workers, n_pieces=2)
        engine.stream("s", "a INT")
        query = engine.query("SELECT a FROM s WHERE scaled(a) >= 20", name="scales")
        poisoned = engine.query("SELECT a FROM s WHERE deadly(a) > 0", name="poisoned", owner="ann")
        for n in range(4):
            engine.query(f"SELECT a FROM s WHERE a > {n}", name=f"another {n}")  # another version of the plan
            engine.push("s", [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}])
        assert query.n_results == 12
        assert poisoned.n_results == 16
        setups = {path.name: path.read_text() for path in Path(setup_folder).iterdir()}
        assert set(setups.values()) == {"x"}, setups
        assert str(os.getpid()) not in setups
        counters = engine.functions()["scaled"]
        assert (counters.n_calls, counters.n_rows, counters.n_failed) == (16, 16, 0)
        assert counters.seconds > 0
        engine.push("s", [{"a": 0}] * 4)
        letters = [letter for letter in engine.dead_letters() if letter.query == "poisoned"]
        assert {letter.message for letter in letters} == {"function deadly ended its process (exit code 7)"}
        assert len(letters) == 4
        assert poisoned.state == "suspended"
        (event,) = suspensions(engine)
        assert (event.function, event.queries, event.owners) == ("deadly", (("poisoned", "ann"),), ("ann",))
        assert engine.functions()["deadly"].n_lost >= 4
        engine.push("s", [{"a": 0}, {"a": 2}])
        assert query.n_results == 13
        poisoned.resume()
        engine.push("s", [{"a": 5}])
        assert poisoned.latest(1) == [{"a": 5}]
    assert set(n_tasks) <= {1, 2}
