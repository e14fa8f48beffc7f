"""Kill a process at every place it passes while aggregates run; afterwards they are those of an engine that was not killed.

    .venv/bin/python -m tests.durability.aggregate_kills --json FILE [--tasks] [--every 3]

How: killed_life.py. Compared are every result, and how much is kept of each class.
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

STREAM = "CREATE TABLE trades (sym STRING, size INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '2 seconds')"
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "groups": ("SELECT sym, count(*) AS n, last(size) AS l, count(DISTINCT size) AS d FROM trades GROUP BY sym", {}),
    "final": (
        "SELECT sym, window.start AS at, sum(size) AS s FROM trades GROUP BY sym, window(ts, '4 seconds', '2 seconds')",
        {"emit": "final"},
    ),
    "visits": (
        "SELECT sym, session_window.start AS at, count(*) AS n FROM trades GROUP BY sym, session_window(ts, '2 seconds')",
        {},
    ),
    "over": (
        "SELECT sym, size, sum(size) OVER (PARTITION BY sym ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s "
        "FROM trades WHERE size > 0",
        {},
    ),
    "fresh": ("SELECT sym, count(*) AS n FROM trades GROUP BY sym", {"keep": "3 seconds"}),
    "in error": ("SELECT sym, sum(12 / size) AS s FROM trades WHERE size < 9 GROUP BY sym", {}),
}  # fmt: skip
YOUNG = "SELECT sym, count(*) AS n, max(size) AS m FROM trades GROUP BY sym HAVING count(*) > 1"


def push(now_s: int, *rows: tuple[str, int, int]) -> Step:
    """Rows whose last value is a second."""

    def do(engine: Engine) -> Any:
        NOW[0] = now_s * S
        timed = [(sym, size, START + datetime.timedelta(seconds=at)) for sym, size, at in rows]
        return engine.push("trades", timed, token=f"t{now_s}")

    return Step(do, is_push=True)


STEPS: list[Step] = [
    push(1, ("a", 1, 10), ("b", 2, 11), ("a", 3, 11), ("a", 1, 12)),
    push(2, ("a", 0, 12), ("c", 4, 13), ("b", 2, 13)),  # one is in error
    Step(lambda engine: engine.query(YOUNG, name="young")),
    push(3, ("a", 5, 14), ("a", 6, 14), ("c", 1, 16), ("b", 2, 9)),  # the last one is late
    push(
        6, ("a", 7, 18), ("c", 2, 18), ("a", 2, 19)
    ),  # windows close; a group that was not seen is forgotten
    Step(lambda engine: engine.drop("groups")),
    push(7, ("a", 1, 19), ("b", 9, 20), ("c", 3, 20)),
]


def opened(home: Path) -> Engine:
    begin_as_new()
    eddyline.engine.after_commit.GC_EVERY = 3
    engine = eddyline.open(home, clock=lambda: NOW[0])
    return through_tasks(engine) if IN_TASKS else engine


def begun(home: Path) -> Engine:
    NOW[0] = 0
    engine = opened(home)
    engine.sql(STREAM)
    for name, (text, properties) in QUERIES.items():
        engine.query(text, name=name, **properties)
    return engine


def facts(engine: Engine) -> dict[str, Any]:
    """Every result that was ever kept, dead letters, and what is kept of each class; rows of OVER depend on restarts."""
    assert engine.rounds.durable is not None
    results, identities = [], []
    for number, part in engine.rounds.durable.results():
        marks = zip(
            part.query_ids.tolist(),
            part.generations.tolist(),
            part.signs.tolist(),
            part.rows.to_pylist(),
            strict=True,
        )
        results += [[number, q, g, sign, [str(v) for v in row.values()]] for q, g, sign, row in marks]
        identities += zip(
            part.query_ids.tolist(),
            part.generations.tolist(),
            part.arrivals.tolist(),
            part.signs.tolist(),
            strict=True,
        )
    assert len(set(identities)) == len(identities), "two results have one identity"
    dead = sorted([d.query or "", d.round_number, str(d.row["sym"])] for d in engine.dead_letters() if d.row)
    sizes = engine.rounds.flow.aggregate_sizes().items()
    kept = sorted([form[1], of.groups, of.slices] for form, of in sizes)
    return {"results": sorted(results), "dead": dead, "kept": json.loads(json.dumps(kept))}


def check(wanted: dict[str, Any]) -> None:
    assert len({result[1] for result in wanted["results"]}) == len(QUERIES) + 1, wanted
    assert [each[0] for each in wanted["dead"]] == ["in error"], wanted["dead"]


def place(in_tasks: bool) -> None:
    global IN_TASKS
    IN_TASKS = in_tasks


LIFE = Life(begun, opened, STEPS, facts, 1 + len(QUERIES), check)

if __name__ == "__main__":
    sys.exit(main(LIFE, __doc__ or "", place))
