"""LEFT SEMI JOIN, EXISTS and IN over tables: a row is a result once, however many rows of the table match it."""

from __future__ import annotations

import pytest

import eddyline
from tests.engine.join_lives import Life, at

STREAMS = """
    CREATE TABLE orders (id INT, k INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '2 seconds');
    CREATE TABLE paid (k INT, n INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '2 seconds');
    CREATE TABLE limits (id INT PRIMARY KEY, k INT, n INT)
"""
EXISTS = "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM limits l WHERE l.k = o.k AND {})"


@pytest.fixture(params=["memory", "home"])
def life(request, tmp_path):
    made = Life(STREAMS, tmp_path / "home" if request.param == "home" else None)
    yield made
    made.engine.close()


def test_a_row_that_matches_several_rows_of_a_table_is_one_result(life):
    life.query("SELECT o.id FROM orders o LEFT SEMI JOIN limits l ON o.k = l.k", "semi")
    life.query("SELECT id FROM orders WHERE k IN (SELECT k FROM limits)", "in")
    life.query("SELECT o.id FROM orders o JOIN limits l ON o.k = l.k", "join")
    life.push(limits=[(1, 7, 0), (2, 7, 1), (3, 8, 2)])
    life.push(orders=[(10, 7, at(0)), (11, 8, at(0)), (12, 9, at(0)), (13, None, at(0)), (14, 7, at(0))])
    assert life.told("semi") == [(10,), (11,), (14,)]
    assert life.told("in") == life.told("semi")
    assert life.told("join") == [(10,), (10,), (11,), (14,), (14,)]


def test_each_query_decides_by_its_own_condition_which_rows_match(life):
    life.query(EXISTS.format("l.n > 5"), "above")
    life.query(EXISTS.format("l.n < 5"), "below")
    life.query(EXISTS.format("l.n > o.id"), "more")
    life.push(limits=[(1, 7, 1), (2, 7, 9), (3, 8, 9), (4, 9, 2), (5, 9, 3)])
    life.push(orders=[(1, 7, at(0)), (2, 8, at(0)), (9, 9, at(0))])
    assert life.told("above") == [(1,), (2,)]
    assert life.told("below") == [(1,), (9,)]
    assert life.told("more") == [(1,), (2,)]


def test_a_row_meets_the_table_as_it_is_when_the_row_comes(life):
    life.query(EXISTS.format("TRUE"), "exists")
    life.push(orders=[(1, 7, at(0))])
    life.push(limits=[(1, 7, 0), (2, 7, 0)])
    life.push(orders=[(2, 7, at(0))])
    life.push(limits=[(1, 8, 0), (2, 8, 0)])
    life.push(orders=[(3, 7, at(0)), (4, 8, at(0))])
    assert life.told("exists") == [(2,), (4,)]


def test_a_match_beats_an_error_and_an_error_is_told_once(life):
    life.query(EXISTS.format("10 / l.n > 1"), "exists")
    life.push(limits=[(1, 7, 0), (2, 7, 2), (3, 8, 0), (4, 8, 0), (5, 9, 0), (6, 9, 100)])
    life.push(orders=[(1, 7, at(0)), (2, 8, at(0)), (3, 9, at(0))])
    assert life.told("exists") == [(1,)]
    assert [letter.row["o.id"] for letter in life.engine.dead_letters()] == [2, 3]


def test_a_pair_of_rows_is_one_result_however_many_rows_of_a_table_match(life):
    near = "p.k = o.k AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 10 SECONDS"
    life.query(
        f"SELECT o.id, p.n FROM orders o JOIN paid p ON {near} WHERE o.k IN (SELECT k FROM limits)", "in"
    )
    life.push(limits=[(1, 7, 0), (2, 7, 1)])
    life.push(orders=[(1, 7, at(0)), (2, 7, at(1)), (3, 8, at(1))])
    life.push(paid=[(7, 70, at(5)), (8, 80, at(5))])
    assert sorted(life.told("in")) == [(1, 70), (2, 70)]


def test_a_function_that_is_not_deterministic_is_asked_once_for_a_row_of_a_subquery(life):
    calls: list[int] = []

    @eddyline.udf(returns="int", scalar=True, deterministic=False)
    def noted(k: int) -> int:
        calls.append(k)
        return len(calls)

    life.query("SELECT a, a AS b FROM (SELECT noted(id) AS a FROM orders WHERE k = 7) x WHERE a > 0", "twice")
    life.push(orders=[(1, 7, at(0)), (2, 8, at(0)), (3, 7, at(0))])
    told = life.told("twice")
    assert len(told) == 2
    assert all(a == b for a, b in told)
    with pytest.raises(
        Exception, match="noted is not deterministic and cannot stand in a subquery that is joined"
    ):
        life.query(
            "SELECT a FROM (SELECT noted(id) AS a, k FROM orders) x JOIN limits l ON l.k = x.k", "joined"
        )


def test_a_row_stays_one_result_when_a_home_is_opened_again(tmp_path):
    life = Life(STREAMS, tmp_path / "home")
    life.query(EXISTS.format("l.n > 5"), "exists")
    life.push(limits=[(1, 7, 8), (2, 7, 9), (3, 7, 1)])
    life.reopen()
    life.push(orders=[(1, 7, at(0))])
    assert life.told("exists") == [(1,)]
    life.engine.close()


def test_statements_views_and_templates_take_queries_inside_queries(life):
    life.engine.sql("""
        CREATE VIEW big AS WITH o AS (SELECT id, k FROM orders WHERE id > 1) SELECT id, k FROM o;
        CREATE VIEW limited AS SELECT id FROM (SELECT * FROM big) b WHERE k IN (SELECT k FROM limits)
    """)
    life.engine.query_many(
        "SELECT id FROM (SELECT id, k AS j FROM orders WHERE id > :low) x WHERE j = :k",
        params=[{"low": 1, "k": 7}, {"low": 2, "k": 8}],
        name="k-{k}",
    )
    life.push(limits=[(1, 7, 0), (2, 7, 1)])
    life.push(orders=[(1, 7, at(0)), (2, 7, at(0)), (3, 8, at(0))])
    assert life.told("big") == [(2, 7), (3, 8)]
    assert life.told("limited") == [(2,)]
    assert (life.told("k-7"), life.told("k-8")) == ([(2,)], [(3,)])
