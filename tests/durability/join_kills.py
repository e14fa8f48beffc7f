"""Kill a process at every place it passes while joins run; afterwards their results are those of an engine nobody killed.

    .venv/bin/python -m tests.durability.join_kills --json FILE [--tasks] [--every 3]

How: killed_life.py. Compared are every result, with the arrival numbers of the rows it is made of, and how many rows are held.
With `--every 3` it is every third place, another third in each step.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import eddyline
import eddyline.engine.after_commit
from eddyline import Engine
from tests.durability.killed_life import Life, Step, main
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


STEPS: list[Step] = [
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


def check(wanted: dict[str, Any]) -> None:
    assert len({result[1] for result in wanted["results"]}) == 4, wanted


def place(in_tasks: bool) -> None:
    global IN_TASKS
    IN_TASKS = in_tasks


LIFE = Life(begun, opened, STEPS, facts, FIRST_VERSION, check)

if __name__ == "__main__":
    sys.exit(main(LIFE, __doc__ or "", place))
