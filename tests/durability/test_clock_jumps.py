"""A clock that jumps takes nothing of what a home keeps, and what goes when time really passes is told."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import eddyline
import eddyline.engine.after_commit
import eddyline.engine.durable
from eddyline import Engine
from eddyline.control import check_home
from eddyline.engine import Retention
from eddyline.engine.retention import LONGEST_STEP_US
from eddyline.events import RetentionRemoved
from eddyline.server.metrics import metrics_text
from tests.durability.time_passing import pass_time
from tests.on_workers import through_tasks

DAY_US = 86_400_000_000
START_US = 20_000 * DAY_US


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eddyline.engine.after_commit, "GC_EVERY", 1)


@pytest.fixture(params=["in process", "in tasks"])
def opened(request, home) -> Callable[..., Engine]:
    """Opens the home; its rounds are worked on in this process, or in tasks."""

    def open_(clock: list[int] | None, **options) -> Engine:
        engine = eddyline.open(home, clock=None if clock is None else lambda: clock[0], **options)
        return through_tasks(engine) if request.param == "in tasks" else engine

    return open_


def filled(engine: Engine, n: int) -> None:
    """Rounds with a result, a dead letter and a message each, and what people did in the meantime."""
    engine.stream("s", "n INT")
    engine.query("SELECT n FROM s WHERE 10 / n > 0", name="q")
    engine.query("SELECT n FROM s WHERE n > 0", name="told", severity="info")
    engine.silence("told", for_="1 millisecond", by="kim")
    for k in range(n):
        engine.push("s", [(k + 1,), (0,)], token=f"t{k}")
    engine.query("SELECT n FROM s WHERE n > 5", name="last")


def held(engine: Engine) -> dict[str, object]:
    durable = engine.rounds.durable
    return {
        "results": len(engine.get("q").results()),
        "letters": len(engine.dead_letters()),
        "messages": len(engine.messages()),
        "silences": len(engine.silences(over=None)),
        "versions": len(durable.database.versions.recent(1000)),
        "rounds": len(durable.rounds.recent(1000)),
        "captures": durable.rounds.files.count("capture"),
        "token": engine.push("s", [], token="t0").is_repeat,
    }


def removed(engine: Engine) -> list[RetentionRemoved]:
    return [event for event in engine.events() if isinstance(event, RetentionRemoved)]


def test_rounds_stamped_far_ahead_take_nothing(opened):
    clock = [START_US]
    with opened(clock) as engine:
        filled(engine, 9)
        before = held(engine)
        assert before["results"] == 9
        for days in (400, 400, 800, -50):
            clock[0] += days * DAY_US
            engine.push("s", [])
        assert held(engine) == {**before, "rounds": 13}
        assert removed(engine) == []
    clock[0] += 400 * DAY_US
    with opened(clock) as engine:
        assert held(engine) == {**before, "rounds": 13}
        assert removed(engine) == []


def test_the_machines_clock_may_jump_while_an_engine_runs_and_before_it_is_opened_again(opened, monkeypatch):
    ahead_us = [0]
    real = time.time_ns
    monkeypatch.setattr(eddyline.engine.durable.time, "time_ns", lambda: real() + 1000 * ahead_us[0])
    with opened(None, retention=Retention(captures_us=LONGEST_STEP_US // 4)) as engine:
        filled(engine, 5)
        before = held(engine)
        ahead_us[0] = 400 * DAY_US
        engine.push("s", [])
        ahead_us[0] = 0
        engine.push("s", [])
        ahead_us[0] = 800 * DAY_US
    with opened(None) as engine:  # the machine was not started again, so it says how long that took
        engine.push("s", [])
        assert held(engine) == {**before, "rounds": 8}


def test_the_clock_of_retention_is_found_again_after_a_kill(home):
    clock = [START_US]
    with eddyline.open(home, clock=lambda: clock[0]) as engine:
        filled(engine, 3)
        pass_time(engine.rounds.durable, clock, START_US + 2 * DAY_US)
        engine.tick()
        counted_us = engine.rounds.durable.retention_clock.now_us()
        killed = Path(shutil.copytree(home, home.parent / "killed"))  # as the process would leave it
    assert counted_us == START_US + 2 * DAY_US
    with eddyline.open(killed, clock=lambda: clock[0]) as engine:
        assert engine.rounds.durable.retention_clock.now_us() == counted_us


def test_what_retention_removes_is_told_with_how_much_of_what_and_until_when(opened):
    clock = [START_US]
    with opened(clock) as engine:
        filled(engine, 5)
        pass_time(engine.rounds.durable, clock, START_US + 40 * DAY_US)
        engine.tick()
        told = {event.what: event for event in removed(engine)}
        assert {what: (event.n, event.names) for what, event in told.items()} == {
            "results": (10, (("q", 5), ("told", 5))),
            "dead letters": (5, (("s", 5),)),
            "rows as they came": (10, (("s", 10),)),
            "messages": (5, ()),
            "versions": (4, ()),
            "rounds": (5, ()),
        }
        assert {event.until_us for event in told.values()} == {START_US, None}
        durable = engine.rounds.durable
        assert [durable.rounds.files.count(kind) for kind in ("outbox", "dead", "capture")] == [0, 0, 0]
        assert (
            engine.messages(),
            len(durable.database.versions.recent(9)),
            len(durable.rounds.recent(9)),
        ) == (
            [],
            1,
            1,
        )
        said = {
            each.subject: each.message for each in check_home(engine.rounds.durable, tell=lambda *_: None)
        }
        assert said["retention"] == (
            "removed so far: 5 dead letters of rounds up to 2024-10-04T00:00:00Z; "
            "10 results of rounds up to 2024-10-04T00:00:00Z; "
            "10 rows as they came of rounds up to 2024-10-04T00:00:00Z"
        )
        assert engine.counters().store.removed == {"results": 10, "dead letters": 5, "rows as they came": 10}
        assert b'eddyline_retention_removed_total{what="results"} 10.0\n' in metrics_text(engine)
    with opened(clock) as engine:
        assert engine.counters().store.removed["results"] == 10
        assert removed(engine) == []


def test_files_of_tasks_that_run_outlive_a_clock_that_jumps(home):
    """They are in the store before a round lists them."""
    clock = [START_US]
    with eddyline.open(home, clock=lambda: clock[0]) as engine:
        engine.stream("s", "n INT")
        durable = engine.rounds.durable
        written = durable.store.put("outbox", lambda file: file.write(b"some results"))
        engine.tick()
        clock[0] += 400 * DAY_US
        engine.tick()
        assert written.name in set(durable.store.names())
        pass_time(durable, clock, clock[0] + 2 * DAY_US)
        engine.tick()
        assert written.name not in set(durable.store.names())
