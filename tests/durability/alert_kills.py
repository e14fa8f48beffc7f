"""Kill a process at every place it passes while alerts move; afterwards they are those of an engine nobody killed.

    .venv/bin/python -m tests.durability.alert_kills --json FILE [--tasks] [--every 3]

Forks, so it is a process of its own. Each step of a short life is killed once at every place it passes from its commit on: before
and after every statement, every file, every step of the protocol. Its parent then opens the home, repeats the step if it has
not happened (a push has a token), does the rest of the life, and its states, messages and counts are compared. With `--every 3`
it is every third place, another third in each step, and every place of which there was none yet.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eddyline
import eddyline.engine.after_commit
from eddyline import Engine
from tests.durability.kill_driver import Children, work_folder
from tests.durability.kill_points import Killer, Recorder, install
from tests.on_workers import begin_as_new, through_tasks

S = 1_000_000
NOW = [0]
IN_TASKS = False
Step = Callable[[Engine], Any]


def opened(home: Path | None) -> Engine:
    begin_as_new()
    eddyline.engine.after_commit.GC_EVERY = 3
    engine = eddyline.open(home, clock=lambda: NOW[0])
    return through_tasks(engine) if IN_TASKS and home is not None else engine


def push(now_s: int, *syms: str) -> Step:
    def do(engine: Engine) -> Any:
        NOW[0] = now_s * S
        return engine.push("trades", [(sym, 1.0) for sym in syms], token=f"t{now_s}")

    return do


def push_auths(now_s: int, *cards: str) -> Step:
    def do(engine: Engine) -> Any:
        NOW[0] = now_s * S
        at = datetime.datetime.fromtimestamp(now_s, datetime.UTC)
        return engine.push("auths", [(card, at) for card in cards], token=f"a{now_s}")

    return do


def changing(change: Callable[[Engine], Any], now_s: int = 0) -> Step:
    def do(engine: Engine) -> Any:
        NOW[0] = now_s * S
        return change(engine)

    return do


PUSHES = {"push.<locals>.do", "push_auths.<locals>.do"}
LIFE: list[Step] = [
    push(1, "a", "b"),
    push(2, "a", "c"),  # a has gone on for long enough; an instant is held back
    changing(lambda engine: engine.get("lasting").pause()),
    push(3),
    changing(lambda engine: engine.get("lasting").resume()),
    push(4, "a", "b"),
    push(5, "a", "b"),
    changing(lambda engine: engine.drop("instant")),
    push(7, "b"),
    push(20, "a"),  # all resolve
    push(21, "a"),
    changing(
        lambda engine: engine.replace(
            "lasting", "SELECT sym, price FROM trades WHERE price > 0.5 AND sym <> 'c'"
        )
    ),
    push(22, "b"),
    changing(lambda engine: engine.silence("lasting", for_="10 seconds", by="kim"), 22),
    push(23, "b"),  # it fires, and nobody is told
    changing(lambda engine: engine.silence("*", {"sym": "a"}, for_="1 hour"), 23),
    push(24, "a", "b"),
    push(26, "a"),  # withheld by both
    push(33, "b"),  # the first is over: b is told
    changing(lambda engine: engine.end_silence(2, by="kim"), 33),
    push(34),  # and so is a
    push_auths(41, "a", "a", "b"),  # a window opens, and a group begins
    push_auths(49, "b"),  # that window closes
    push_auths(60, "c", "c"),  # the groups of a and b are forgotten, b's window goes without a message
]


def begun(home: Path | None) -> Engine:
    engine = opened(home)
    engine.stream("trades", "sym STRING, price DOUBLE")
    engine.query(
        "SELECT sym, price FROM trades WHERE price > 0.5", name="lasting", per="sym", for_="1 second",
        resolve="10 seconds", cooldown="5 seconds", message="{sym} {n_rows}",
    )  # fmt: skip
    engine.query("SELECT sym FROM trades", name="instant", cooldown="3 seconds")
    engine.stream("auths", "card STRING, ts TIMESTAMP", time="ts", lateness="1 second")
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card"
    engine.query(f"{text}, window(ts, '5 seconds') HAVING count(*) >= 2", name="windows", severity="info")
    engine.query(text, name="groups", severity="info", keep="10 seconds")
    engine.query_many(
        "SELECT sym FROM trades WHERE sym = :sym", params={"sym": ["a", "b"]}, name="{sym}", severity="info"
    )
    return engine


def facts(engine: Engine) -> dict[str, Any]:
    log = engine.rounds.alerting.log
    return {
        "messages": [message.as_dict() for message in engine.messages()],
        "open": [alert.as_dict() for alert in engine.alerts()],
        "counts": [[query_id, *log.counts(query_id)] for query_id in log.counted_query_ids()],
        "silences": [silence.as_dict() for silence in engine.silences(over=None)],
        "withheld": [[*key, kept.n_messages] for key, kept in log.withheld().items()],
    }


def sweep(folder: Path, every: int) -> list[str]:
    """Kill at every place, or at one of so many and once at each kind; returns the places."""
    children = Children(folder, warm_up)
    golden, scratch, noted = folder / "golden", folder / "scratch", folder / "places.json"
    wanted = _whole()
    assert [m["status"] for m in wanted["messages"]].count("resolved") >= 3, wanted
    assert {m["reason"] for m in wanted["messages"]} >= {None, "paused", "replaced", "closed", "forgotten"}, (
        wanted
    )
    sent = [(m["round"], m["key"]["sym"]) for m in wanted["messages"] if m["n_withheld"]]
    assert [sym for _, sym in sent] == ["b", "a"], wanted
    begun(golden).close()
    places: list[str] = []
    for number, step in enumerate(LIFE):
        _copy(golden, scratch)
        children.run(lambda: noted.write_text(json.dumps(_recorded(scratch, step))))  # noqa: B023
        passed: list[str] = json.loads(noted.read_text())
        first = (
            passed.index("step 4 commit") if "step 4 commit" in passed else passed.index("sql: before COMMIT")
        )
        after_commit = list(enumerate(passed, 1))[first:]  # what comes before is killed elsewhere
        for at, (nth, place) in enumerate(after_commit):
            if at % every != number % every and place in places:
                continue
            _copy(golden, scratch)
            assert children.run(lambda: _killed(scratch, step, nth)), place  # noqa: B023
            _lived_on(scratch, number, wanted)
            places.append(place)
        _once(golden, step)
    return places


def warm_up(home: Path) -> None:
    begun(home).close()
    for step in LIFE:
        _once(home, step)
    with opened(home) as engine:
        facts(engine)


def _whole() -> dict[str, Any]:
    """What is found of a life in memory that nobody ended."""
    NOW[0] = 0
    with begun(None) as engine:
        for step in LIFE:
            step(engine)
        return facts(engine)


def _copy(golden: Path, scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(golden, scratch)


def _once(home: Path, step: Step) -> None:
    with opened(home) as engine:
        step(engine)


def _recorded(home: Path, step: Step) -> list[str]:
    recorder = Recorder()
    recorder.is_armed = False
    install(recorder)
    engine = opened(home)
    recorder.is_armed = True
    step(engine)
    return recorder.passed


def _killed(home: Path, step: Step, nth: int) -> None:
    killer = Killer(nth)
    killer.is_armed = False
    install(killer)
    engine = opened(home)
    killer.is_armed = True
    step(engine)


def _lived_on(home: Path, number: int, wanted: dict[str, Any]) -> None:
    """The step again, if it is a push or has not happened, and the rest of the life."""
    with opened(home) as engine:
        version = 7 + sum(step.__qualname__ not in PUSHES for step in LIFE[:number])
        for at, step in enumerate(LIFE[number:]):
            is_push = step.__qualname__ in PUSHES
            if is_push or at > 0 or engine.version == version:
                step(engine)
        found = facts(engine)
        for what, value in wanted.items():
            assert found[what] == value, f"{what} after step {number}: {found[what]}, not {value}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", action="store_true", help="work on rows in tasks, as workers do")
    parser.add_argument("--every", type=int, default=1, help="kill at one of so many places")
    parser.add_argument("--json", type=Path, required=True, help="write the places to this file")
    options = parser.parse_args()
    global IN_TASKS
    IN_TASKS = options.tasks
    try:
        with work_folder() as folder:
            places = sweep(folder, options.every)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    options.json.write_text(json.dumps({"kills": len(places), "places": sorted(set(places))}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
