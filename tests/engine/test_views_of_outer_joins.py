"""Rows without a partner, read through views: they come when time has decided them, after all rows of that round."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.join_lives import Life, at

STREAMS = """
    CREATE TABLE a (k INT, x INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE b (k INT, y INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE q (id INT PRIMARY KEY, k INT, n INT);
    CREATE TABLE p (id INT PRIMARY KEY, k INT, m INT);
    CREATE VIEW alone AS SELECT a.k, a.x, b.y FROM a LEFT JOIN b ON a.k = b.k
        AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 4 SECONDS;
    CREATE VIEW small AS SELECT k, x FROM alone WHERE x < 100;
    CREATE VIEW looked AS SELECT s.k, s.x, q.n FROM small s JOIN q ON q.k = s.k
"""
READERS = {
    "found": "SELECT v.x, v.y, q.n FROM alone v JOIN q ON q.k = v.k",
    "anti": "SELECT v.x FROM alone v LEFT ANTI JOIN q ON q.k = v.k",
    "in": "SELECT v.x FROM small v WHERE v.k IN (SELECT k FROM q)",
    "twice": "SELECT v.x, v.n, p.m FROM looked v JOIN p ON p.k = v.k",
}


@pytest.fixture(params=["memory", "home"])
def life(request, tmp_path):
    made = Life(STREAMS, tmp_path / "home" if request.param == "home" else None)
    for name, text in READERS.items():
        made.query(text, name)
    yield made
    made.engine.close()


def told(life: Life) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(life.told(name), key=str) for name in READERS}


def test_tables_are_looked_up_as_they_are_when_time_has_decided(life):
    life.push(q=[(1, 1, 10), (4, 4, 40)], p=[(1, 1, 100), (4, 4, 400)])
    life.push(a=[(1, 5, at(0)), (2, 6, at(0)), (3, 7, at(0)), (4, 8, at(1))])
    life.push(q=[(1, 1, 11), (2, 2, 20)], p=[(1, 1, 101), (2, 2, 200)])  # the row that there was has left
    life.push(b=[(4, 50, at(4))])
    assert told(life) == {"found": [(8, 50, 40)], "anti": [], "in": [(8,)], "twice": [(8, 40, 400)]}
    life.push(a=[(9, 9, at(50))])
    life.push(b=[(9, 9, at(50))], q=[(2, 2, 21)])  # decides, and changes a table in the same round
    assert told(life) == {
        "found": [(5, None, 11), (6, None, 21), (8, 50, 40)],
        "anti": [(7,), (9,)],
        "in": [(5,), (6,), (8,)],
        "twice": [(5, 11, 101), (6, 21, 200), (8, 40, 400)],
    }


def test_a_row_that_comes_and_is_decided_in_one_round_is_decided_at_its_end(life):
    life.push(
        a=[(1, 5, at(0)), (9, 9, at(50))],
        b=[(8, 8, at(50))],
        q=[(1, 1, 11)],
        p=[(1, 1, 101)],
    )
    assert told(life) == {"found": [(5, None, 11)], "anti": [], "in": [(5,)], "twice": [(5, 11, 101)]}


def test_rows_that_time_decides_after_a_restart_look_tables_up_then(tmp_path):
    life = Life(STREAMS, tmp_path / "home")
    life.query(READERS["found"], "found")
    life.push(q=[(1, 1, 10)])
    life.push(a=[(1, 5, at(0))])
    life.reopen()
    life.push(q=[(1, 1, 11)])
    life.reopen()
    life.push(a=[(9, 9, at(50))], b=[(8, 8, at(50))])
    assert life.told("found") == [(5, None, 11)]
    life.engine.close()
