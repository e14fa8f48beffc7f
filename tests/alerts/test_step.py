"""Step 4b in whole engines: in memory, in a home, through tasks, with failures and crashes anywhere, always the same alerts."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import eddyline
import eddyline.engine.after_commit
from eddyline import Engine
from eddyline.catalog import suspend
from eddyline.delivery.alerts import OPEN
from eddyline.engine import Retention
from eddyline.errors import HomeError
from eddyline.events import AlertsDelayed, CallbackFailed
from tests.on_workers import through_tasks
from tests.oracles.alerts import expected
from tests.strategies import examples

S = 1_000_000
TEXT = "SELECT key, v FROM rows_ WHERE v > 0"


class Crash(BaseException):
    """The process ends here."""


class World:
    """An engine whose time is told, that can be closed as by a crash and opened again."""

    def __init__(self, home: Path | None, *, tasks: bool = False, retention: Retention | None = None) -> None:
        self.now_us = 0
        self._home, self._tasks, self._retention = home, tasks, retention
        self.engine = self._opened()

    def _opened(self) -> Engine:
        engine = eddyline.open(self._home, clock=lambda: self.now_us, retention=self._retention)
        engine.rounds.alerting.n_open()  # counted from here on
        return through_tasks(engine) if self._tasks else engine

    def reopen(self) -> None:
        if self._home is not None:
            self.engine.close()
            self.engine = self._opened()

    def push(self, now_s: float, *rows: tuple[str, int], at: str | None = None) -> None:
        """A round at a time; it may crash at a place, which ends the process, or fail to write."""
        self.now_us = int(now_s * S)
        with self._trouble(at if self._home is not None else None):
            self.engine.push("rows_", list(rows)) if rows else self.engine.tick()

    @contextmanager
    def _trouble(self, at: str | None) -> Iterator[None]:
        rounds, log = self.engine.rounds, self.engine.rounds.alerting.log
        whole = log._database.transaction

        def step(name: str) -> None:
            if (name, at) in (("4b alert", "before 4b"), ("5 deliver", "after 4b")):
                raise Crash
            if name == "4b alert" and at in ("in 4b", "failing"):
                log._database.transaction = ending  # type: ignore[method-assign]
            if name == "5 deliver":
                log._database.transaction = whole  # type: ignore[method-assign]

        @contextmanager
        def ending() -> Iterator[None]:
            with whole():
                yield
                raise Crash if at == "in 4b" else HomeError("the disk is full")

        rounds.at_step = step
        try:
            yield
        except Crash:
            log._database.transaction = whole  # type: ignore[method-assign]
            self.reopen()
        finally:
            self.engine.rounds.at_step = lambda name: None


def facts(engine: Engine) -> dict[str, Any]:
    """All there is to say about alerts."""
    log = engine.rounds.alerting.log
    n_open = Counter(alert.state for alert in engine.alerts())
    assert engine.rounds.alerting.n_open() == {state: n_open[state] for state in OPEN}
    return {
        "messages": [message.as_dict() for message in engine.messages()],
        "open": [alert.as_dict() for alert in engine.alerts()],
        "counts": {query_id: tuple(log.counts(query_id)) for query_id in log.counted_query_ids()},
    }


@pytest.fixture(params=["memory", "home", "tasks"])
def world(request, tmp_path) -> Iterator[World]:
    found = World(None if request.param == "memory" else tmp_path / "home", tasks=request.param == "tasks")
    found.engine.stream("rows_", "key STRING, v INT")
    yield found
    found.engine.close()


def said(engine: Engine) -> list[tuple[Any, ...]]:
    return [(m.status, m.key.get("key"), m.reason) for m in engine.messages()]


# --------------------------------------------------------------------------------------------- by hand


def test_a_message_says_all_there_is_to_say(world):
    world.engine.query(
        TEXT,
        name="up",
        owner="anna",
        per="key",
        resolve="10 seconds",
        cooldown="1 minute",
        severity="critical",
        message="{key} is at {v:03d} ({query}, {KEY}, {severity}, {n_rows}, {since})",
    )
    world.push(1, ("x", 0), ("a", 7))
    world.push(2, ("a", 8))
    (alert,) = world.engine.alerts()
    assert alert.as_dict() == {
        "query": "up",
        "query_id": 1,
        "generation": 1,
        "owner": "anna",
        "key": {"key": "a"},
        "state": "firing",
        "severity": "critical",
        "message": "a is at 007 (up, a, critical, 1, 1970-01-01T00:00:01Z)",
        "row": {"key": "a", "v": 7},
        "result": "1-2-1",
        "since": "1970-01-01T00:00:01Z",
        "last": "1970-01-01T00:00:02Z",
        "n_rows": 2,
        "n_suppressed": 0,
        "acknowledgement": None,
        "silence": None,
    }
    world.push(12)
    fired, resolved = (message.as_dict() for message in world.engine.messages())
    assert fired == {
        "id": 1,
        "status": "firing",
        "query": "up",
        "query_id": 1,
        "generation": 1,
        "owner": "anna",
        "key": {"key": "a"},
        "severity": "critical",
        "message": "a is at 007 (up, a, critical, 1, 1970-01-01T00:00:01Z)",
        "row": {"key": "a", "v": 7},
        "result": "1-2-1",
        "round": 1,
        "at": "1970-01-01T00:00:01Z",
        "since": "1970-01-01T00:00:01Z",
        "n_rows": 1,
        "n_suppressed": 0,
        "reason": None,
        "silence": None,
        "n_withheld": 0,
    }
    assert resolved == fired | {
        "id": 2,
        "status": "resolved",
        "round": 3,
        "at": "1970-01-01T00:00:12Z",
        "n_rows": 2,
    }
    assert world.engine.alerts() == []


def test_a_query_without_per_has_one_key_and_without_message_its_name(world):
    query = world.engine.query(TEXT, name="any", cooldown="10 seconds")
    world.push(0, ("a", 1), ("b", 1))
    world.push(10, ("b", 1))
    assert [(m.key, m.message, m.n_suppressed) for m in world.engine.messages()] == [
        ({}, "any", 0),
        ({}, "any", 1),
    ]
    assert query.alert_counts == (2, 0, 1, 0)


def test_results_that_are_no_alerts_bring_no_messages(world):
    world.engine.query(TEXT, name="plain", owner="anna", deliver="ops")
    world.engine.query(TEXT, name="loud", severity="info")
    world.push(0, ("a", 1))
    assert [m.query for m in world.engine.messages()] == ["loud"]


def test_a_query_delivered_to_a_sink_that_takes_alerts_is_an_instant(world):
    world.engine.query(TEXT, name="told", deliver="ops, file")
    world.push(0, ("a", 1))
    world.engine.rounds.alerting.set_sinks(["ops"])
    world.push(1, ("b", 1))
    world.reopen()
    world.push(2, ("c", 1))
    assert [(m.row["key"], m.deliver) for m in world.engine.messages()] == [
        ("b", ("ops", "file")),
        ("c", ("ops", "file")),
    ]


def test_messages_come_in_order_of_rows_then_of_queries(world):
    for name in ("one", "two"):
        world.engine.query(TEXT, name=name, per="KEY")
    world.push(0, ("b", 1), ("a", 1))
    assert [(m.row["key"], m.query) for m in world.engine.messages()] == [
        ("b", "one"),
        ("b", "two"),
        ("a", "one"),
        ("a", "two"),
    ]


@pytest.mark.parametrize("what", ["dropped", "paused", "replaced", "suspended"])
def test_open_alerts_resolve_at_the_next_round_with_the_reason(world, what):
    query = world.engine.query(TEXT, name="up", per="key", for_="2 seconds", resolve="1 hour")
    world.push(0, ("a", 1), ("b", 1))
    world.push(2, ("a", 1))
    if what == "dropped":
        query.drop()
    elif what == "paused":
        query.pause()
    elif what == "replaced":
        query.replace("SELECT key, v FROM rows_ WHERE v > 5")
    else:
        suspend(world.engine.rounds.catalog, "rows_", {"v": "it is gone"}, 0)
    assert said(world.engine) == [("firing", "a", None)]
    world.push(3)
    assert said(world.engine) == [("firing", "a", None), ("resolved", "a", what)]
    assert world.engine.alerts() == []
    assert world.engine.messages()[-1].message == "up: key=a"


def test_a_query_that_stands_again_starts_anew(world):
    query = world.engine.query(TEXT, name="up", per="key", resolve="1 hour", cooldown="1 hour")
    world.push(0, ("a", 1))
    query.pause()
    query.resume()
    world.push(1, ("a", 1))
    assert said(world.engine) == [("firing", "a", None), ("resolved", "a", "paused"), ("firing", "a", None)]
    assert [m.generation for m in world.engine.messages()] == [1, 1, 2]
    assert query.alert_counts == (2, 1, 0, 0)


def test_a_template_that_cannot_be_filled_is_told_as_it_is_written_and_counted(world):
    world.engine.stream("times", "t TIMESTAMP, day DATE")
    query = world.engine.query("SELECT t, day FROM times", message="at {t:%H:%M} of {day}", per="t")
    late = 300_000_000_000_000_000  # microseconds: long after the year 9999
    rows = pa.table(
        {
            "t": pa.array([0, late, None], pa.timestamp("us", tz="UTC")),
            "day": pa.array([0, 1, None], pa.date32()),
        }
    )
    world.engine.push("times", rows)
    assert [m.message for m in world.engine.messages()] == [
        "at 00:00 of 1970-01-01",
        "at {t:%H:%M} of {day}",
        "at NULL of NULL",
    ]
    assert query.alert_counts.n_unformatted == 1
    assert world.engine.messages()[1].key == {"t": str(late)}


def test_keys_are_told_apart_by_value(world):
    world.engine.stream("nums", "f DOUBLE, s STRING, l ARRAY<INT>")
    world.engine.query("SELECT * FROM nums", per="f, s, l", cooldown="1 hour")
    nan = float("nan")
    world.engine.push(
        "nums",
        [
            (0.0, "x", [1]),
            (-0.0, "x", [1]),
            (nan, "x", [1]),
            (nan, "x", [1]),
            (None, None, None),
            (0.0, "x", [2]),
        ],
    )
    assert [m.key for m in world.engine.messages()] == [
        {"f": 0.0, "s": "x", "l": [1]},
        {"f": "NaN", "s": "x", "l": [1]},
        {"f": None, "s": None, "l": None},
        {"f": 0.0, "s": "x", "l": [2]},
    ]


def test_callbacks_are_told_and_their_faults_reach_nobody(world):
    world.engine.query(TEXT, name="up", severity="info")
    heard: list[int] = []

    def broken(message: object) -> None:
        raise ValueError("no")

    world.engine.on_message(broken)
    stop = world.engine.on_message(lambda message: heard.append(message.id))
    world.push(0, ("a", 1), ("b", 1))
    stop()
    world.push(1, ("c", 1))
    assert heard == [1, 2]
    failed = [event for event in world.engine.events() if isinstance(event, CallbackFailed)]
    assert [(event.query, event.message) for event in failed] == [("up", "ValueError: no")] * 3


def test_messages_and_alerts_are_found_by_query_and_owner(world):
    for owner in ("", "anna"):
        world.engine.query(TEXT, name="up", owner=owner, per="key", resolve="1 hour")
    world.push(0, ("a", 1), ("b", 1))
    engine = world.engine
    assert [m.owner for m in engine.messages(owner="anna")] == ["anna", "anna"]
    assert [m.id for m in engine.messages(newest=3)] == [2, 3, 4]
    assert [m.id for m in engine.messages(1, query="up")] == [3]
    assert [m.id for m in engine.messages(query="up", owner="anna", newest=1)] == [4]
    assert len(engine.alerts()) == 4
    assert len(engine.alerts("up", owner="anna", state="firing")) == 2
    assert engine.get("up").alerts() == engine.alerts("up", owner="")
    assert engine.alerts(state="held") == []


def test_the_engine_itself_can_say_something(world):
    heard = []
    world.engine.on_message(heard.append)
    world.push(5)
    world.engine.rounds.say("eddyline.audit", "a difference", row={"round": 1})
    (message,) = world.engine.messages()
    assert heard == [message]
    assert (message.query, message.query_id, message.severity, message.round) == (
        "eddyline.audit",
        0,
        "error",
        1,
    )
    assert (message.message, message.row) == ("a difference", {"round": 1})


# --------------------------------------------------------------------------------------------- failures


def test_a_round_whose_alerts_cannot_be_written_has_happened_and_is_made_up_for(tmp_path):
    world = World(tmp_path / "home")
    world.engine.stream("rows_", "key STRING, v INT")
    query = world.engine.query(TEXT, name="up", per="key", resolve="10 seconds")
    world.push(0, ("a", 1), at="failing")
    world.push(5, ("b", 1), at="failing")
    delayed = [event for event in world.engine.events() if isinstance(event, AlertsDelayed)]
    assert [event.round_number for event in delayed] == [1, 2]
    assert "the disk is full" in delayed[0].message
    assert query.n_results == 2
    assert world.engine.messages() == []
    query.drop()
    world.push(6)
    assert [(m.round, m.status, m.key["key"], m.at_us, m.reason) for m in world.engine.messages()] == [
        (1, "firing", "a", 0, None),
        (2, "firing", "b", 5 * S, None),
        (3, "resolved", "a", 6 * S, "dropped"),
        (3, "resolved", "b", 6 * S, "dropped"),
    ]
    world.engine.close()


def test_results_that_have_not_moved_alerts_outlive_retention(tmp_path, monkeypatch):
    monkeypatch.setattr(eddyline.engine.after_commit, "GC_EVERY", 1)
    world = World(tmp_path / "home", retention=Retention(result_bytes=1))
    world.engine.stream("rows_", "key STRING, v INT")
    world.engine.query(TEXT, name="up", per="key")
    world.push(0, ("a", 1), at="failing")
    assert world.engine.rounds.durable.file_counts()["outbox"][0] == 1
    world.push(1, ("b", 1))
    assert world.engine.rounds.durable.file_counts()["outbox"][0] == 0
    assert [m.key["key"] for m in world.engine.messages()] == ["a", "b"]
    world.engine.close()


def test_a_row_of_a_query_that_ended_while_its_round_was_worked_on_is_told(tmp_path):
    for home in (None, tmp_path / "home"):
        world = World(home)
        world.engine.stream("rows_", "key STRING, v INT")
        query = world.engine.query(TEXT, name="up", per="key", resolve="1 hour")
        rounds = world.engine.rounds
        rounds.at_step = lambda step, query=query: query.drop() if step == "4 commit" else None
        world.engine.push("rows_", [("a", 1)])
        rounds.at_step = lambda step: None
        assert said(world.engine) == [("firing", "a", None)]
        world.reopen()
        world.push(1)
        assert said(world.engine) == [("firing", "a", None), ("resolved", "a", "dropped")]
        world.engine.close()


def test_a_query_dropped_before_its_round_was_made_up_for_is_still_told(tmp_path):
    world = World(tmp_path / "home")
    world.engine.stream("rows_", "key STRING, v INT")
    query = world.engine.query(TEXT, name="up", per="key", resolve="1 hour")
    world.push(0, ("a", 1), at="failing")
    query.drop()
    world.reopen()
    assert said(world.engine) == [("firing", "a", None)]
    world.push(1)
    assert said(world.engine) == [("firing", "a", None), ("resolved", "a", "dropped")]
    world.engine.close()


def test_what_ended_before_a_crash_resolves_after_it(tmp_path):
    world = World(tmp_path / "home")
    world.engine.stream("rows_", "key STRING, v INT")
    names = ["dropped", "paused", "replaced", "suspended", "resumed"]
    world.engine.query_many(dict.fromkeys(names, TEXT), per="key", resolve="1 hour")
    world.engine.query_many(
        TEXT + " AND v < :top", params={"top": [9, 8]}, name="m{top}", per="key", resolve="1 hour"
    )
    world.push(0, ("a", 1))
    engine = world.engine
    engine.get("paused").pause()
    engine.get("replaced").replace("SELECT key, v FROM rows_ WHERE v > 5")
    engine.get("resumed").pause()
    engine.get("resumed").resume()
    engine.drop("dropped")
    engine.drop("m9")
    engine.get("m8").pause()
    engine.drop("m8")
    world.reopen()
    world.push(1)
    assert [(m.query, m.reason) for m in world.engine.messages() if m.status == "resolved"] == [
        ("dropped", "dropped"),
        ("paused", "paused"),
        ("replaced", "replaced"),
        ("resumed", "paused"),
        ("m9", "dropped"),
        ("m8", "paused"),
    ]
    assert [alert.query for alert in world.engine.alerts()] == ["suspended"]
    log = world.engine.rounds.alerting.log
    assert log.counted_query_ids() == [2, 3, 4, 5]  # those of dropped queries are gone
    world.engine.close()


# --------------------------------------------------------------------------------------------- whatever happens

places = st.sampled_from([None, None, None, "before 4b", "in 4b", "after 4b", "failing", "reopened"])


@st.composite
def lives(draw):
    """Properties of an alert query, and rounds with what goes wrong in each."""
    resolve = draw(st.integers(0, 9))
    given_ = {
        "cooldown": draw(st.integers(0, 9)),
        "for": draw(st.integers(0, 9)) if resolve else 0,
        "resolve": resolve,
    }
    rounds, time = [], 0
    for _ in range(draw(st.integers(1, 10))):
        time += draw(st.integers(0, 6))
        rounds.append((time, draw(st.lists(st.sampled_from("abc"), max_size=3)), draw(places)))
    return given_, rounds


def run(life, home: Path | None, *, tasks: bool = False) -> dict[str, Any]:
    durations, rounds = life
    world = World(home, tasks=tasks)
    try:
        world.engine.stream("rows_", "key STRING, v INT")
        world.engine.query("SELECT key FROM rows_ WHERE v < 0", name="other")
        stated = {word: f"{n} seconds" for word, n in durations.items() if n}
        world.engine.query(TEXT, name="up", per="key", message="{key} {n_rows}", **stated)
        for time, keys, at in rounds:
            if at == "reopened":
                world.reopen()
            world.push(time, *[(key, 1) for key in keys], at=at)
        world.reopen()
        if home is not None and rounds[-1][2] == "failing":
            assert world.engine.rounds.alerting.counters.n_caught_up
        return facts(world.engine)
    finally:
        world.engine.close()


@examples(0.4)
@given(lives())
def test_whatever_fails_or_crashes_the_alerts_are_those_of_a_life_in_memory_and_of_the_oracle(life):
    durations, rounds = life
    in_memory = run(life, None)
    with tempfile.TemporaryDirectory() as folder:
        assert run(life, Path(folder) / "home") == in_memory
    want = expected([(time, keys) for time, keys, _ in rounds], *durations.values())
    assert [
        (m["round"], m["key"]["key"], m["status"], m["n_rows"], m["n_suppressed"])
        for m in in_memory["messages"]
    ] == [(s.round_number, s.key, s.status, s.n_rows, s.n_suppressed) for s in want.said]
    assert {a["key"]["key"]: (a["state"], a["n_rows"]) for a in in_memory["open"]} == {
        key: (state, n_rows) for key, (state, _, _, n_rows) in want.open.items()
    }
    counted = (want.n_fired, want.n_resolved, want.n_suppressed, 0)
    assert in_memory["counts"].get(2, (0, 0, 0, 0)) == counted


@examples(0.1)
@given(lives())
def test_rounds_worked_on_in_tasks_give_the_same_alerts(life):
    with tempfile.TemporaryDirectory() as folder:
        assert run(life, Path(folder) / "home", tasks=True) == run(life, None)


changes = st.sampled_from(["pause", "resume", "replace", "drop", "add", "push", "push", "push", "tick"])


@examples(0.25)
@given(st.lists(st.tuples(changes, st.integers(0, 6), st.sampled_from(["a", "b"]), places), max_size=14))
def test_queries_that_come_and_go_resolve_alike_whatever_crashes(steps):
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for home in (None, Path(folder) / "home"):
            world = World(home)
            world.engine.stream("rows_", "key STRING, v INT")
            try:
                found.append(_lived(world, steps))
            finally:
                world.engine.close()
    assert found[0] == found[1]


def _lived(world: World, steps) -> dict[str, Any]:
    given_ = {"per": "key", "for_": "2 seconds", "resolve": "5 seconds", "cooldown": "9 seconds"}
    time, texts = 0, (TEXT, TEXT.replace("0", "1"))
    do: dict[str, Callable[[str], object]] = {
        "pause": lambda name: world.engine.get(name).pause(),
        "resume": lambda name: world.engine.get(name).resume(),
        "replace": lambda name: world.engine.replace(name, texts[world.engine.get(name).text == texts[0]]),
        "drop": lambda name: world.engine.drop(name),
    }
    for what, gap, name, at in steps:
        time += gap
        if at == "reopened":
            world.reopen()
        known = world.engine.rounds.catalog.names.find(name) is not None
        if what == "add" and not known:
            world.engine.query(TEXT, name=name, **given_)
        elif what in do and known:
            do[what](name)
        elif what in ("push", "tick"):
            world.push(time, *([(name, 2), ("c", 2)] if what == "push" else []), at=at)
    world.push(time + 1)
    return facts(world.engine)
