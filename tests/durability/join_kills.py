"""Kill a process at every place it passes while joins run; afterwards their results are those of an engine nobody killed.

    .venv/bin/python -m tests.durability.join_kills --json FILE [--tasks] [--every 3]

Forks, so it is a process of its own. Each step of a short life is killed once at every place it passes: before and after every
statement, every file, every step of the protocol, and while the home is opened again. Its parent then opens the home, repeats
the step if it has not happened (a push has a token), does the rest of the life, and compares every result, with the arrival
numbers of the rows it is made of, and how many rows are held. With `--every 3` it is every third place, another third in each
step.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import eddyline
import eddyline.engine.after_commit
from eddyline import Engine
from tests.durability.kill_driver import Children, work_folder
from tests.durability.kill_points import Killer, Recorder, install
from tests.on_workers import begin_as_new, through_tasks

S = 1_000_000
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
NOW = [0]
IN_TASKS = False

STREAMS = """
    CREATE TABLE trades (sym STRING, price DOUBLE, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '2 seconds');
    CREATE TABLE news (sym STRING, score INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '2 seconds');
    CREATE TABLE quotes (sym STRING PRIMARY KEY, bid DOUBLE);
"""
WITHIN = (
    "SELECT t.sym, t.price, n.score FROM trades t JOIN news n ON t.sym = n.sym "
    "AND t.ts >= n.ts - INTERVAL 3 SECONDS AND t.ts <= n.ts + INTERVAL 5 SECONDS"
)
RECENT = "SELECT t.sym, n.score FROM trades t JOIN recent(news, 2) n ON t.sym = n.sym WHERE t.price > 1"
PAIRS = "SELECT a.price AS before, b.price AS after FROM recent(trades, 3) a, recent(trades, 3) b WHERE a.sym = b.sym"
LATEST = "SELECT t.sym, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym WHERE t.price < q.bid"


@dataclass(frozen=True)
class Step:
    """One thing a user does; a push has a token and may be repeated."""

    do: Callable[[Engine], Any]
    is_push: bool = False


def push(now_s: int, **rows: list[tuple[Any, ...]]) -> Step:
    """Rows whose last value, of trades and news, is a second."""

    def do(engine: Engine) -> Any:
        NOW[0] = now_s * S
        timed = {
            stream: [
                row if stream == "quotes" else (*row[:-1], START + datetime.timedelta(seconds=row[-1]))
                for row in given
            ]
            for stream, given in rows.items()
        }
        return engine.push(timed, token=f"t{now_s}")

    return Step(do, is_push=True)


LIFE: list[Step] = [
    push(1, trades=[("a", 1.0, 10), ("b", 2.0, 11)], quotes=[("a", 3.0), ("b", 1.5)]),
    push(2, news=[("a", 7, 12), ("b", 8, 12), ("c", 9, 13)]),
    Step(lambda engine: engine.query(RECENT, name="recent")),
    push(3, news=[("a", 1, 13)], trades=[("a", 5.0, 14), ("c", 1.0, 14)]),
    push(4, quotes=[("a", 6.0), ("c", 9.0)], trades=[("a", 5.5, 15), ("c", 2.0, 16)]),
    Step(lambda engine: engine.get("within").pause()),
    push(5, trades=[("a", 4.0, 17)], news=[("a", 2, 17), ("c", 3, 4)]),  # the last one is late
    Step(lambda engine: engine.get("within").resume()),
    Step(lambda engine: engine.drop("pairs")),
    push(6, trades=[("a", 4.5, 18), ("b", 1.0, 18)], news=[("b", 4, 18)]),
    Step(lambda engine: engine.replace("recent", RECENT.replace("> 1", "> 4"))),
    push(7, news=[("a", 5, 30)], trades=[("b", 7.0, 30)]),  # rows of before are out of reach
    push(8, trades=[("a", 8.0, 31), ("b", 9.0, 31)]),
]
FIRST_VERSION = 3 + 3  # streams and queries that are there before it


def opened(home: Path) -> Engine:
    begin_as_new()
    eddyline.engine.after_commit.GC_EVERY = 3
    engine = eddyline.open(home, clock=lambda: NOW[0])
    return through_tasks(engine) if IN_TASKS else engine


def begun(home: Path) -> Engine:
    NOW[0] = 0
    engine = opened(home)
    engine.sql(STREAMS)
    engine.query(WITHIN, name="within")
    engine.query(PAIRS, name="pairs")
    engine.query(LATEST, name="latest")
    return engine


def facts(engine: Engine) -> dict[str, Any]:
    """Every result that was ever kept, and what is held."""
    assert engine.rounds.durable is not None
    results, identities = [], []
    for number, part in engine.rounds.durable.results():
        assert part.components is not None, "a result of a join does not say of which rows it is made"
        marks = zip(
            part.query_ids.tolist(),
            part.generations.tolist(),
            part.components.tolist(),
            part.signs.tolist(),
            part.rows.to_pylist(),
            strict=True,
        )
        results += [[number, q, g, made_of, sign, list(row.values())] for q, g, made_of, sign, row in marks]
        identities += zip(
            part.query_ids.tolist(), part.generations.tolist(), part.arrivals.tolist(), strict=True
        )
    assert len({json.dumps(result[:4]) for result in results}) == len(results), "a result is there twice"
    assert len(set(identities)) == len(identities), "two results have one identity"
    held = {stream: about["rows"] for stream, about in engine.joins().items()}
    return {"results": sorted(results), "held": held}


# --------------------------------------------------------------------------------------------- kills


def sweep(folder: Path, every: int) -> list[str]:
    """Kill at every place, or at one of so many; returns the places."""
    children = Children(folder, warm_up)
    whole, golden, scratch, noted = (folder / name for name in ("whole", "golden", "scratch", "noted.json"))
    wanted: dict[str, Any] = json.loads(json.dumps(_whole(whole)))
    assert len({result[1] for result in wanted["results"]}) == 4, wanted
    begun(golden).close()
    places: list[str] = []
    for number, step in enumerate(LIFE):
        for kind, work in (("open", None), ("step", step)):
            _copy(golden, scratch)
            children.run(lambda work=work: noted.write_text(json.dumps(_recorded(scratch, work))))
            passed: list[str] = json.loads(noted.read_text())
            for nth, place in list(enumerate(passed, 1))[number % every :: every]:
                _copy(golden, scratch)
                assert children.run(lambda work=work, nth=nth: _killed(scratch, work, nth)), place
                _lived_on(scratch, number, wanted)
                places.append(place if kind == "step" else f"open: {place}")
        _once(golden, step)
    return places


def warm_up(home: Path) -> None:
    begun(home).close()
    for step in LIFE:
        _once(home, step)
    with opened(home) as engine:
        facts(engine)


def _copy(golden: Path, scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(golden, scratch)


def _whole(home: Path) -> dict[str, Any]:
    with begun(home) as engine:
        for step in LIFE:
            step.do(engine)
        return facts(engine)


def _once(home: Path, step: Step) -> None:
    with opened(home) as engine:
        step.do(engine)


def _watched(home: Path, watch: Recorder | Killer, work: Step | None) -> None:
    """The step, or nothing but opening the home, with somebody watching."""
    watch.is_armed = work is None
    install(watch)
    engine = opened(home)
    watch.is_armed = work is not None
    if work is not None:
        work.do(engine)


def _recorded(home: Path, work: Step | None) -> list[str]:
    recorder = Recorder()
    _watched(home, recorder, work)
    return recorder.passed


def _killed(home: Path, work: Step | None, nth: int) -> None:
    _watched(home, Killer(nth), work)


def _lived_on(home: Path, number: int, wanted: dict[str, Any]) -> None:
    """The step again, if it is a push or has not happened, and the rest of the life."""
    with opened(home) as engine:
        version = FIRST_VERSION + sum(not step.is_push for step in LIFE[:number])
        for at, step in enumerate(LIFE[number:]):
            if step.is_push or at > 0 or engine.version == version:
                step.do(engine)
        found = json.loads(json.dumps(facts(engine)))
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
