"""Outer joins of tables, beside DuckDB over the rows of the tables after each round.

In every place, at every cut, through restarts, with queries that come late and rounds that fail.
"""

from __future__ import annotations

from collections import Counter

import duckdb
import pyarrow as pa
import pytest

import eddyline
from tests.engine.test_sets_oracle import COLUMNS, PLACES, Life, declare, found, opened
from tests.operator_laws import RoundFailure

pytestmark = pytest.mark.thorough

# views before those that read them
QUERIES = {
    "paired": "SELECT a.id, a.x, b.id AS bid, b.y FROM a LEFT JOIN b ON a.k = b.k",
    "above": "SELECT a.id, b.id AS bid, b.y FROM a LEFT JOIN b ON a.k = b.k AND a.x < b.y",
    "above 3": "SELECT a.id, b.id AS bid, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.y > 3 WHERE a.x > 2",
    "above 6": "SELECT a.id, b.id AS bid, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.y > 6 WHERE a.x > 4",
    "one side": "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.k = b.k AND a.x > 4",
    "by key": "SELECT a.id, a.x, b.y FROM a LEFT JOIN b ON a.x = b.id",
    "both keys": "SELECT a.id, a.x, b.y FROM a LEFT JOIN b ON a.id = b.id AND a.k = b.k",
    "missing": "SELECT a.id, a.x FROM a LEFT JOIN b ON a.k = b.k WHERE b.id IS NULL",
    "coalesced": "SELECT a.id, coalesce(b.y, -1) AS y FROM a LEFT JOIN b ON a.k = b.k WHERE coalesce(b.y, 5) < 7",
    "right": "SELECT a.x, b.id, b.y FROM a RIGHT JOIN b ON a.k = b.k AND a.x > 3",
    "single": "SELECT a.id, a.x FROM a ANTI JOIN b ON a.k = b.k",
    "single above": "SELECT a.id, a.x FROM a ANTI JOIN b ON a.k = b.k AND b.y > a.x",
    "no match": "SELECT id, x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > 4) AND x < 8",
    "least": "SELECT p.id, p.x FROM a p WHERE NOT EXISTS (SELECT 1 FROM a q WHERE q.k = p.k AND q.x < p.x)",
    "own": "SELECT p.id, q.id AS qid FROM a p LEFT JOIN a q ON p.k = q.k AND q.x < p.x",
    "range": "SELECT a.id, a.x FROM a ANTI JOIN b ON b.y > a.x",
    "values": "SELECT DISTINCT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k",
    "some": "SELECT DISTINCT a.x % 3 AS rest FROM a LEFT JOIN b ON a.k = b.k AND b.y > 3",
    "of paired": "SELECT id, y FROM paired WHERE x > 3",
    "of single": "SELECT DISTINCT x FROM single WHERE id < 6",
    "of above": "SELECT bid FROM above WHERE y IS NULL OR y < 7",
    "either": "SELECT id, x FROM a WHERE x > 6 UNION ALL SELECT a.id, b.y FROM a LEFT JOIN b ON a.k = b.k",
}  # fmt: skip


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


def register(engine: eddyline.Engine, name: str) -> None:
    engine.query(QUERIES[name], name=name)


def fail(engine: eddyline.Engine, life: Life) -> None:
    """A round that does all its work and does not commit."""

    def stop(step: str) -> None:
        if step == "4 commit":
            raise RoundFailure

    lost = Life(life.rng.randrange(1000))
    lost.tables = {name: dict(rows) for name, rows in life.tables.items()}
    changes = {name: lost.changes(name) for name in lost.tables}
    engine.rounds.at_step = stop
    with pytest.raises(RoundFailure):
        engine.push({name: rows for name, rows in changes.items() if rows} or {"s": [(1,)]})
    engine.rounds.at_step = lambda step: None


@pytest.mark.parametrize(("seed", "place"), list(enumerate([*PLACES, PLACES[0]])))
def test_the_changes_lead_to_what_another_engine_finds_in_the_tables(tmp_path, place, seed):
    life, waiting = Life(seed), list(QUERIES)
    engine = opened(tmp_path, place)
    n_rows = n_alone = 0
    for number in range(36):
        while waiting and life.rng.random() < 0.5:
            register(engine, waiting.pop(0))
        if number in (12, 24, 30):
            engine.close()
            engine = opened(tmp_path, place)
        if number % 5 == 2:
            fail(engine, life)
        life.push(engine)
        if number % 3 and number not in (11, 12, 13, 24, 30):
            continue
        answers = expected(life.tables)
        for name in QUERIES.keys() - waiting:
            assert found(engine, name) == answers[name], (number, name)
            n_rows += len(answers[name])
            n_alone += sum(None in row for row in answers[name])
    assert not waiting
    assert n_rows > 500
    assert n_alone > 100
    engine.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_cut_into_rounds_changes_nothing_that_remains(seed):
    life = Life(seed)
    rows = [(name, change) for _ in range(40) for name in COLUMNS for change in life.changes(name)]
    numbered = [(name, {**change, "_arrival": number}) for number, (name, change) in enumerate(rows, 1)]
    answers = expected(life.tables)
    for most in (1, 4, 30, len(rows)):
        engine = eddyline.open(results_per_query=100_000)
        declare(engine)
        for name in QUERIES:
            register(engine, name)
        at = 0
        while at < len(numbered):
            some = numbered[at : at + life.rng.randint(1, most)]
            engine.push({name: [row for each, row in some if each == name] for name, _ in some})
            at += len(some)
        for name in QUERIES:
            assert found(engine, name) == answers[name], (most, name)
        engine.close()


def test_a_round_tells_one_change_of_each_identity():
    life = Life(11)
    engine = eddyline.open(results_per_query=100_000)
    declare(engine)
    identities = {"paired": (0, 2), "above": (0, 1), "single": (0,), "no match": (0,), "own": (0, 1)}
    for name in identities:
        register(engine, name)
    for _ in range(40):
        life.push(engine)
    n_updates = 0
    for name, key in identities.items():
        by_round: dict[tuple, list[str]] = {}
        for result in engine.get(name).latest(100_000):
            values = tuple(result.values())
            by_round.setdefault((result.round_number, *(values[k] for k in key)), []).append(result.change)
        updates = [told for told in by_round.values() if len(told) > 1]
        assert all(told == ["update_preimage", "update_postimage"] for told in updates), name
        n_updates += len(updates)
    assert n_updates > 20
    engine.close()
