"""Rounds: the steps of the protocol, and that what has not committed has not happened."""

from __future__ import annotations

import threading

import pytest

import eddyline
from eddyline.events import CallbackFailed, RoundCommitted

STEPS = ["0 skip", "1 plan", "2 capture", "3 work", "4 commit", "4b alert", "5 deliver", "end"]


class Stopped(Exception):
    pass


@pytest.fixture
def engine():
    engine = eddyline.open(clock=lambda: 1_767_225_600_000_000)
    engine.stream("s", "n INT, ts BIGINT", time="ts")
    return engine


def test_a_round_walks_through_the_steps_in_order(engine):
    steps: list[str] = []
    engine.rounds.at_step = steps.append
    engine.push("s", [(1, 1)])
    assert steps == STEPS
    steps.clear()
    engine.tick()
    assert steps == STEPS


def test_a_token_seen_before_takes_only_the_first_step(engine):
    engine.push("s", [(1, 1)], token="t")
    steps: list[str] = []
    engine.rounds.at_step = steps.append
    engine.push("s", [(1, 1)], token="t")
    assert steps == ["0 skip"]


@pytest.mark.parametrize("step", STEPS[:5])
def test_a_round_that_ends_before_it_commits_leaves_nothing(engine, step):
    query = engine.query("SELECT 10 / n AS x FROM s")
    engine.push("s", [(1, 100)])

    def stop(at: str) -> None:
        if at == step:
            raise Stopped

    engine.rounds.at_step = stop
    with pytest.raises(Stopped):
        engine.push("s", [(2, 500), (0, 1), ("x", 1)], token="t")
    engine.rounds.at_step = lambda at: None
    (stream,) = engine.streams()
    assert (stream.n_rows, stream.n_late, stream.watermark_us) == (1, 0, 100)
    assert (query.n_results, len(engine.dead_letters()), query.why_not().n_rows) == (1, 0, 1)
    assert [event.round_number for event in engine.events()] == [1]
    again = engine.push("s", [(2, 500), (0, 1), ("x", 1)], token="t")
    assert (again.round_number, again.is_repeat, again.count, again.n_dead, again.n_late) == (
        2,
        False,
        1,
        2,
        1,
    )
    assert [(r["x"], r.arrival) for r in query.results()] == [(10.0, 1), (5.0, 2)]


def test_a_round_that_is_stopped_after_it_committed_has_happened(engine):
    query = engine.query("SELECT n FROM s")

    def stop(at: str) -> None:
        if at == "5 deliver":
            raise Stopped

    engine.rounds.at_step = stop
    with pytest.raises(Stopped):
        engine.push("s", [(1, 1)], token="t")
    engine.rounds.at_step = lambda at: None
    assert engine.push("s", [(1, 1)], token="t").is_repeat
    assert query.results() == [{"n": 1}]


def test_rounds_of_all_streams_are_numbered_in_one_order(engine):
    engine.stream("other", "m INT")
    numbers = [
        engine.push("s", [(1, 1)]).round_number,
        engine.tick().round_number,
        engine.push("other", [(1,)]).round_number,
        engine.push({"s": [], "other": []}).round_number,
    ]
    assert numbers == [1, 2, 3, 4]


def test_every_round_has_the_catalog_version_it_was_planned_with(engine):
    versions = []
    for k in range(3):
        engine.query(f"SELECT n FROM s WHERE n > {k}")
        versions.append(engine.push("s", [(k + 1, k)]).version)
    assert versions == [2, 3, 4]
    assert [event.version for event in engine.events() if isinstance(event, RoundCommitted)] == versions


def test_many_threads_push_and_every_row_is_told_once(engine):
    query = engine.query("SELECT n FROM s")
    heard: list = []
    query.on_result(heard.append)

    def work(first: int) -> None:
        for n in range(first, first + 20):
            engine.push("s", [(n, n)], token=f"token {n}")
            engine.push("s", [(n, n)], token=f"token {n}")

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 20, 40, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(result["n"] for result in heard) == list(range(80))
    assert sorted(result.arrival for result in heard) == list(range(1, 81))
    assert [result.round_number for result in heard] == list(range(1, 81))


def test_queries_may_be_registered_while_rows_are_pushed(engine):
    done = threading.Event()

    def rows() -> None:
        n = 0
        while not done.is_set():
            n += 1
            engine.push("s", [(n, n)])

    pusher = threading.Thread(target=rows)
    pusher.start()
    queries = []
    for k in range(30):
        queries.append(engine.query(f"SELECT n FROM s WHERE n > {k}", name=f"q{k}"))
        if k % 3 == 0:
            engine.drop(f"q{k}")
    done.set()
    pusher.join(60)
    last = engine.push("s", [(1_000_000, 1)])
    assert last.count == 20
    for query in queries:
        if query.state == "running":  # a query sees every row from its first on, whole
            arrivals = [result.arrival for result in query.results()]
            assert arrivals == list(range(arrivals[0], arrivals[0] + len(arrivals)))


def test_a_listener_that_raises_stops_neither_round_nor_other_listeners(engine):
    heard: list = []
    engine.on_event(lambda event: 1 / 0)
    engine.on_event(heard.append)
    assert engine.push("s", [(1, 1)]).round_number == 1
    assert [type(event) for event in heard] == [RoundCommitted]
    failed = [event for event in engine.events() if isinstance(event, CallbackFailed)]
    assert [(event.query, event.message) for event in failed] == [("", "ZeroDivisionError: division by zero")]
