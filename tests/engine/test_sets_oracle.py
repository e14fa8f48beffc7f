"""Queries whose results are a set over tables, beside DuckDB over the rows of the tables after each round.

In every place, at every cut, through restarts, with queries that come late.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import eddyline
from tests.on_workers import through_tasks
from tests.oracles.sets import folded

pytestmark = pytest.mark.thorough

PLACES = ("in process", "in tasks", "workers join")
COLUMNS = {"a": ("id", "k", "x"), "b": ("id", "k", "y")}
# views before those that read them
QUERIES = {
    "values": "SELECT DISTINCT k, x FROM a WHERE x > 1",
    "some": "SELECT DISTINCT k FROM a WHERE x > 3",
    "computed": "SELECT DISTINCT x % 3 AS rest FROM a",
    "joined": "SELECT DISTINCT a.k, b.y FROM a JOIN b ON a.k = b.k AND a.x < b.y",
    "matched": "SELECT id, x FROM a WHERE k IN (SELECT k FROM b WHERE y > 2)",
    "narrow": "SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > a.x) AND a.x < 8",
    "own": "SELECT p.id, p.x FROM a p WHERE EXISTS (SELECT 1 FROM a q WHERE q.k = p.k AND q.x > p.x)",
    "both": "SELECT DISTINCT x FROM a WHERE k IN (SELECT k FROM b) AND id IN (SELECT y FROM b)",
    "of matched": "SELECT DISTINCT x FROM matched WHERE id < 6",
    "large": "SELECT id, k, x FROM a WHERE x > 2",
    "of large": "SELECT DISTINCT k FROM large WHERE x < 9",
    "pairs": "SELECT DISTINCT k, x FROM large",
    "of pairs": "SELECT x FROM pairs WHERE k = 1",
    "twice": "SELECT DISTINCT k FROM pairs WHERE x < 8",
    "united": "SELECT DISTINCT k FROM (SELECT k FROM a WHERE x > 2 UNION ALL SELECT k FROM b) u",
    "either": "SELECT k, x FROM a WHERE x > 4 UNION SELECT k, y FROM b WHERE y > 4",
    "of either": "SELECT x FROM either WHERE k = 1",
    "levels": "SELECT DISTINCT v % 4 AS v FROM (SELECT x AS v FROM a UNION ALL SELECT b.y FROM a JOIN b ON a.k = b.k) u",
    "shared": "SELECT k, x AS v FROM a WHERE x < 8 UNION ALL SELECT k, y FROM b UNION ALL SELECT k, x FROM a WHERE x > 5",
    "of shared": "SELECT DISTINCT v FROM shared WHERE k < 3",
    "through": "SELECT v, k FROM shared WHERE v > 2",
    "of through": "SELECT DISTINCT k FROM through",
    "above": "SELECT k FROM united UNION SELECT x FROM either UNION SELECT v FROM levels",
    "nested": "SELECT k, x + 1 AS more FROM (SELECT DISTINCT k, x FROM a WHERE x > 1) d WHERE k < 3",
    "alike": "SELECT x FROM (SELECT DISTINCT k, x FROM a WHERE x > 1) d WHERE x < 7",
    "with": "WITH d AS (SELECT DISTINCT k FROM a WHERE x > 3) SELECT k FROM d WHERE k = 1 UNION ALL SELECT k FROM d",
    "part": "(SELECT k FROM a UNION SELECT k FROM b) UNION ALL SELECT id FROM a WHERE x > 5",
    "of part": "SELECT DISTINCT k FROM part WHERE k < 5",
    "over a view": "SELECT k FROM (SELECT DISTINCT k FROM large WHERE x < 9) d WHERE k > 1",
    "over a join": "SELECT y FROM (SELECT DISTINCT a.k, b.y FROM a JOIN b ON a.k = b.k) d WHERE k < 3",
    "deep": """
        SELECT k, x FROM (
          SELECT k, x FROM (SELECT DISTINCT k, x FROM (SELECT DISTINCT * FROM a) i) p UNION ALL
          SELECT DISTINCT k, y FROM (SELECT k, y FROM b UNION ALL SELECT k, x FROM a) q
        ) r WHERE x > 2""",
    "asked": "SELECT id FROM a WHERE k IN (SELECT k FROM (SELECT DISTINCT k, y FROM b) d WHERE y > 2)",
}
SETS = [name for name, text in QUERIES.items() if text.startswith("SELECT DISTINCT")] + ["either", "above"]


def opened(folder: Path, place: str) -> eddyline.Engine:
    engine = eddyline.open(folder / place, results_per_query=100_000)
    if not engine.streams():
        declare(engine)
    if place != PLACES[0]:
        through_tasks(engine, n_pieces=2, join_from_rows=1 if place == PLACES[2] else 1_000_000)
    return engine


def declare(engine: eddyline.Engine) -> None:
    engine.sql("CREATE TABLE a (id INT PRIMARY KEY, k INT, x INT)")
    engine.sql("CREATE TABLE b (id INT PRIMARY KEY, k INT, y INT)")
    engine.sql("CREATE TABLE s (k INT)")
    engine.query("SELECT s.k, a.x FROM s JOIN a ON s.k = a.k", name="looked up")


class Life:
    """Random changes of two tables."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tables: dict[str, dict[int, tuple]] = {"a": {}, "b": {}}

    def changes(self, table: str) -> list[dict[str, Any]]:
        rng, rows, found = self.rng, self.tables[table], []
        for _ in range(rng.choice([0, 1, 1, 2, 5])):
            id_ = rng.randint(1, 7)
            if rng.random() < 0.3:
                rows.pop(id_, None)
                found.append({"id": id_, "_change_type": "delete"})
            else:
                rows[id_] = (id_, rng.choice([1, 1, 2, 3, None]), rng.randint(0, 9))
                found.append(dict(zip(COLUMNS[table], rows[id_], strict=True)) | {"_change_type": "insert"})
        return found

    def push(self, engine: eddyline.Engine) -> None:
        changes = {name: self.changes(name) for name in self.tables}
        engine.push({name: rows for name, rows in changes.items() if rows} or {"s": []})
        if self.rng.random() < 0.3:  # a round in which no table changes
            engine.push("s", [(1,), (2,)])


def expected(tables: dict[str, dict[int, tuple]]) -> dict[str, Counter]:
    """The answer of each query, as DuckDB has it."""
    with duckdb.connect(config={"threads": 1}) as judge:
        for name, rows in tables.items():
            columns = list(zip(*rows.values(), strict=True)) or [[]] * 3
            arrays = [pa.array(column, pa.int32()) for column in columns]
            judge.register(f"{name}_rows", pa.table(arrays, names=list(COLUMNS[name])))
            judge.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
        for name, text in QUERIES.items():
            judge.execute(f'CREATE VIEW "{name}" AS {text}')
        return {name: Counter(judge.execute(text).fetchall()) for name, text in QUERIES.items()}


def found(engine: eddyline.Engine, name: str) -> Counter:
    results = engine.get(name).latest(100_000)
    return folded((result.change, tuple(result.values())) for result in results)


@pytest.mark.parametrize(("seed", "place"), list(enumerate(PLACES)))
def test_the_changes_of_a_set_lead_to_what_another_engine_finds_in_the_tables(tmp_path, place, seed):
    life, waiting = Life(seed), list(QUERIES)
    engine = opened(tmp_path, place)
    n_rows = 0
    for number in range(30):
        while waiting and life.rng.random() < 0.75:
            name = waiting.pop(0)
            engine.query(QUERIES[name], name=name)
        if number in (12, 24):
            engine.close()
            engine = opened(tmp_path, place)
        life.push(engine)
        if number % 4 and number not in (11, 12, 24):
            continue
        answers = expected(life.tables)
        for name in QUERIES.keys() - waiting:
            assert found(engine, name) == answers[name], (number, name)
            n_rows += len(answers[name])
        engine.rounds.flow.counts.check()
    assert not waiting
    assert n_rows > 100
    engine.close()


def test_a_round_tells_a_result_once():
    life = Life(7)
    engine = eddyline.open(results_per_query=100_000)
    declare(engine)
    for name, text in QUERIES.items():
        engine.query(text, name=name)
    for _ in range(25):
        life.push(engine)
    for name in SETS:
        by_round: dict[int, Counter] = {}
        for result in engine.get(name).latest(100_000):
            assert result.change in ("insert", "delete")
            by_round.setdefault(result.round_number, Counter())[tuple(result.values())] += 1
        assert all(n == 1 for rows in by_round.values() for n in rows.values()), name
    engine.close()
