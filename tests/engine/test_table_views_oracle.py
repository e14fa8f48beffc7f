"""Joins with views over tables, beside DuckDB over the rows of the tables before or after each round.

A row of a stream meets the rows that the view had before the round; what tables alone make changes with them. In every place, at
every cut, through restarts and rounds that fail, with queries that come late, go, and come again.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
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
VIEWS = {
    "high": "SELECT id, k, x FROM a WHERE x > 2",
    "shifted": "SELECT k, x + 1 AS x FROM a",
    "pair": "SELECT a.k, a.x, b.y FROM a JOIN b ON a.k = b.k",
    "kinds": "SELECT DISTINCT k FROM a WHERE x > 3",
    "next_kinds": "SELECT k % 2 AS k FROM kinds",
    "matched": "SELECT id, k, x FROM a WHERE k IN (SELECT k FROM b WHERE y > 2)",
    "either": "SELECT k, x AS v FROM a WHERE x > 2 UNION ALL SELECT k, y AS v FROM b WHERE y > 2",
    "twice": "SELECT k, x AS v FROM a UNION ALL SELECT k, x AS v FROM a WHERE x > 5",
    "upper": "SELECT h.k, h.x, b.y FROM high h JOIN b ON h.k = b.k AND h.x < b.y",
    "or_none": "SELECT a.id, a.k, a.x, b.id AS bid, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.y > a.x",
    "alone": "SELECT id, k, x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "anyk": "SELECT DISTINCT k FROM (SELECT k, x AS v FROM a WHERE x > 4 UNION ALL SELECT k, y AS v FROM b WHERE y > 4)",
    "united": "SELECT k, x AS v FROM a UNION SELECT k, y AS v FROM b",
}
TABLE_QUERIES = {
    "with_base": "SELECT a.id, h.id AS other FROM a JOIN high h ON a.k = h.k",
    "with_other": "SELECT b.id, v.x FROM b JOIN shifted v ON v.k = b.k WHERE v.x < 9",
    "two_views": "SELECT h.id, p.y FROM high h JOIN pair p ON h.k = p.k AND p.x <> h.x",
    "self": "SELECT p.id, q.id AS other FROM high p JOIN high q ON p.k = q.k AND p.x < q.x",
    "sets": "SELECT q.k, h.id FROM kinds q JOIN high h ON q.k = h.k",
    "of_sets": "SELECT n.k, a.id FROM next_kinds n JOIN a ON n.k = a.k",
    "three": "SELECT u.v, b.id, q.k FROM either u JOIN b ON u.k = b.k JOIN kinds q ON q.k = b.k",
    "copies": "SELECT t.v, b.id FROM twice t JOIN b ON t.k = b.k",
    "above": "SELECT w.x, w.y, a.id FROM upper w JOIN a ON w.k = a.k",
    "semi": "SELECT id, y FROM b WHERE k IN (SELECT k FROM high WHERE x > 4)",
    "semi_of": "SELECT m.id, m.x FROM matched m WHERE EXISTS (SELECT 1 FROM either u WHERE u.k = m.k AND u.v > m.x)",
    "distinct": "SELECT DISTINCT h.k, b.y FROM high h JOIN b ON h.k = b.k",
    "no_key": "SELECT h.id, b.id AS other FROM high h JOIN b ON h.x < b.y",
    "left_view": "SELECT b.id, h.id AS hid, h.x FROM b LEFT JOIN high h ON b.k = h.k",
    "view_left": "SELECT h.id, b.id AS bid, b.y FROM high h LEFT JOIN b ON b.k = h.k AND b.y > 3",
    "views_left": "SELECT p.x, p.y, h.id FROM pair p LEFT JOIN high h ON p.k = h.k AND h.x < p.x",
    "view_anti": "SELECT q.k FROM kinds q ANTI JOIN b ON q.k = b.k",
    "anti_view": "SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM either u WHERE u.k = a.k AND u.v > a.x)",
    "own_left": "SELECT p.id, q.id AS other FROM high p LEFT JOIN high q ON p.k = q.k AND q.x < p.x",
    "of_outer": "SELECT o.id, o.bid, h.x FROM or_none o JOIN high h ON o.k = h.k",
    "left_of_outer": "SELECT b.id, o.id AS oid, o.bid FROM b LEFT JOIN or_none o ON o.bid = b.id",
    "of_alone": "SELECT l.id, a.id AS other FROM alone l JOIN a ON a.k = l.k",
    "of_any": "SELECT q.k, a.id FROM anyk q JOIN a ON q.k = a.k",
    "left_any": "SELECT h.id, q.k FROM high h LEFT JOIN anyk q ON q.k = h.k",
    "of_united": "SELECT u.v, b.id FROM united u JOIN b ON u.k = b.k AND u.v > b.y",
    "subquery": "SELECT q.k, b.id FROM (SELECT DISTINCT k FROM a WHERE x > 2) q JOIN b ON q.k = b.k",
    "left_subquery": "SELECT b.id, q.v FROM b LEFT JOIN (SELECT DISTINCT k, x % 3 AS v FROM a) q ON q.k = b.k",
}
STREAM_QUERIES = {
    "met": "SELECT s.k, h.x FROM s JOIN high h ON s.k = h.k",
    "met_pairs": "SELECT s.n, p.x, p.y FROM s JOIN pair p ON s.k = p.k WHERE p.x < s.n",
    "met_both": "SELECT s.n, u.v, h.id FROM s JOIN either u ON s.k = u.k JOIN high h ON h.k = s.k",
    "left": "SELECT s.n, w.x FROM s LEFT JOIN upper w ON s.k = w.k AND w.x > s.n",
    "unmet": "SELECT s.n FROM s WHERE NOT EXISTS (SELECT 1 FROM kinds q WHERE q.k = s.k)",
    "found": "SELECT s.n FROM s WHERE s.k IN (SELECT k FROM twice)",
    "ranges": "SELECT s.n, m.id FROM s JOIN matched m ON s.n < m.x",
    "met_any": "SELECT s.n, q.k FROM s JOIN anyk q ON q.k = s.k",
    "met_subquery": "SELECT s.n, q.v FROM s JOIN (SELECT DISTINCT k, x % 2 AS v FROM a) q ON q.k = s.k",
}


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
    engine.sql("CREATE TABLE s (k INT, n INT)")


class RoundFailure(Exception):
    """A round that did all its work and then did not commit."""


class Life:
    """Random changes of two tables, and rows of a stream."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tables: dict[str, dict[int, tuple]] = {"a": {}, "b": {}}

    def round(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of a round; most are of tables alone, or of the stream alone."""
        rng, found = self.rng, {}
        kind = rng.choice(["tables", "tables", "stream", "all"])
        if kind != "stream":
            found |= {name: rows for name in COLUMNS if (rows := self._changes(name))}
        if kind != "tables":
            found["s"] = [{"k": rng.randint(0, 4), "n": rng.randint(0, 9)} for _ in range(rng.randint(1, 4))]
        return found or {"s": []}

    def _changes(self, table: str) -> list[dict[str, Any]]:
        found = []
        for _ in range(self.rng.choice([0, 1, 1, 2, 5])):
            row = {"id": self.rng.randint(1, 7), "_change_type": "delete"}
            if self.rng.random() < 0.7:
                values = row["id"], self.rng.choice([1, 1, 2, 3, None]), self.rng.randint(0, 9)
                row = dict(zip(COLUMNS[table], values, strict=True)) | {"_change_type": "insert"}
            found.append(row)
        return found

    def take(self, rows: dict[str, list[dict[str, Any]]]) -> None:
        for name, columns in COLUMNS.items():
            for row in rows.get(name, ()):
                if row["_change_type"] == "delete":
                    self.tables[name].pop(row["id"], None)
                else:
                    self.tables[name][row["id"]] = tuple(row[column] for column in columns)

    def answers(self, queries: dict[str, str], stream: list[dict[str, Any]] = ()) -> dict[str, Counter]:
        """What DuckDB finds in the tables as they are, for some rows of the stream."""
        tables = tuple((name, *self.tables[name].values()) for name in COLUMNS)
        return judged(tables, tuple((row["k"], row["n"]) for row in stream), tuple(queries.items()))


@cache  # every place has the same rounds
def judged(
    tables: tuple[tuple[Any, ...], ...],
    stream: tuple[tuple[int, int], ...],
    queries: tuple[tuple[str, str], ...],
) -> dict[str, Counter]:
    with duckdb.connect(config={"threads": 1}) as judge:
        for name, *rows in tables:
            values = list(zip(*rows, strict=True)) or [[]] * 3
            arrays = [pa.array(column, pa.int32()) for column in values]
            judge.register(f"{name}_rows", pa.table(arrays, names=list(COLUMNS[name])))
            judge.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
        judge.execute("CREATE TABLE s (k INT, n INT)")
        for row in stream:
            judge.execute("INSERT INTO s VALUES (?, ?)", row)
        for name, text in VIEWS.items():
            judge.execute(f"CREATE VIEW {name} AS {text}")
        return {name: Counter(judge.execute(text).fetchall()) for name, text in queries}


def fail(engine: eddyline.Engine, rows: dict[str, list[dict[str, Any]]]) -> None:
    def stop(step: str) -> None:
        if step == "4 commit":
            raise RoundFailure

    engine.rounds.at_step = stop
    with pytest.raises(RoundFailure):
        engine.push(rows)
    engine.rounds.at_step = lambda step: None


def results(engine: eddyline.Engine, name: str) -> list[Any]:
    return engine.get(name).latest(100_000)


def found(engine: eddyline.Engine, name: str) -> Counter:
    return folded((result.change, tuple(result.values())) for result in results(engine, name))


def check(engine: eddyline.Engine) -> None:
    flow = engine.rounds.flow
    flow.counts.check()
    for table in flow.view_tables.tables.values():
        table.check()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(3))
def test_joins_with_views_over_tables_are_what_another_engine_finds(tmp_path, place, seed):
    life = Life(seed)
    waiting = [*TABLE_QUERIES, *STREAM_QUERIES]
    life.rng.shuffle(waiting)
    expected: dict[str, Counter] = {}  # of queries with a stream, since they were registered
    engine = opened(tmp_path, place)
    for name, text in VIEWS.items():
        engine.query(text, name=name)
    n_rows = 0
    for number in range(40):
        while waiting and (life.rng.random() < 0.6 or number > 34):
            name = waiting.pop()
            engine.query((TABLE_QUERIES | STREAM_QUERIES)[name], name=name)
            expected[name] = Counter()
        if number in (17, 30):
            engine.close()
            engine = opened(tmp_path, place)
        if number in (15, 20, 31):  # readers go, and come again
            dropped = life.rng.sample(sorted(expected), 4)
            for name in dropped:
                engine.drop(name)
                del expected[name]
            waiting += dropped
        if number in (3, 17, 24):
            fail(engine, life.round())
        rows = life.round()
        if rows.get("s"):
            before = life.answers(STREAM_QUERIES, rows["s"])
            for name in expected.keys() & STREAM_QUERIES.keys():
                expected[name] += before[name]
        engine.push(rows)
        life.take(rows)
        check(engine)
        if number % 4 == 3 or number in (15, 17, 20, 24, 30, 31):
            after = expected | life.answers(TABLE_QUERIES)
            for name in expected:
                assert found(engine, name) == after[name], (number, name)
                n_rows += len(after[name])
    assert not waiting
    assert n_rows > 100
    assert sum(map(Counter.total, expected.values())) > 20
    engine.close()
