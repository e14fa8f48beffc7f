"""Random lives of queries inside queries: row for row what the same query gives that is written flat, and what DuckDB finds."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from tests.oracles.subqueries import Row, RowByRow
from tests.strategies import examples

DECLARED = {
    "s": "a INT, k INT, v INT",
    "t": "id INT, k INT, w INT",
    "u": "id INT, k INT, w INT",
}
SQL = """
    CREATE TABLE s (a INT, k INT, v INT);
    CREATE TABLE t (id INT PRIMARY KEY, k INT, w INT);
    CREATE TABLE u (id INT PRIMARY KEY, k INT, w INT)
"""
# each pair: with queries inside, and flat; {0}, {1} are constants
PAIRS = [
    ("SELECT x.a, x.d FROM (SELECT a, v + {0} AS d, k FROM s WHERE v > {1}) x WHERE x.d < 9 OR k IS NULL",
     "SELECT a, v + {0} AS d FROM s WHERE v > {1} AND (v + {0} < 9 OR k IS NULL)"),
    ("WITH x AS (SELECT * FROM s WHERE v > {0}), y(b, l) AS (SELECT a, k FROM x WHERE v < {1}) SELECT b FROM y WHERE l <> 2",
     "SELECT a AS b FROM s WHERE v > {0} AND v < {1} AND k <> 2"),
    ("SELECT x.a, y.w FROM (SELECT a, k FROM s WHERE v > {0}) x JOIN (SELECT k, w FROM t WHERE w < {1}) y ON x.k = y.k",
     "SELECT s.a, t.w FROM s JOIN t ON s.k = t.k WHERE s.v > {0} AND t.w < {1}"),
    ("SELECT s.a, y.w, y.c FROM s LEFT JOIN (SELECT k, w, {0} AS c FROM t WHERE w < {1}) y ON s.k = y.k AND s.v > y.w",
     "SELECT s.a, t.w, CASE WHEN t.k IS NOT NULL THEN {0} END AS c FROM s LEFT JOIN t ON s.k = t.k AND s.v > t.w AND t.w < {1}"),
    ("SELECT s.a, j.w FROM s JOIN (SELECT t.k, u.w FROM t JOIN u ON t.w = u.id WHERE t.w > {0}) j "
     "ON s.k = j.k WHERE s.v <> {1}",
     "SELECT s.a, u.w FROM s JOIN t ON s.k = t.k JOIN u ON t.w = u.id WHERE t.w > {0} AND s.v <> {1}"),
    ("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND t.w > {0}) AND v > {1}",
     "SELECT s.a FROM s LEFT SEMI JOIN t ON t.k = s.k AND t.w > {0} WHERE s.v > {1}"),
    ("SELECT a FROM s WHERE k IN (SELECT k FROM t WHERE w > {0} AND w < v) AND v > {1}",
     "SELECT s.a FROM s LEFT SEMI JOIN t ON t.k = s.k AND t.w > {0} AND t.w < s.v WHERE s.v > {1}"),
    ("SELECT a FROM s WHERE NOT EXISTS (SELECT * FROM t WHERE t.k = s.k AND t.w > {0}) AND v > {1}",
     "SELECT s.a FROM s LEFT ANTI JOIN t ON t.k = s.k AND t.w > {0} WHERE s.v > {1}"),
    ("SELECT x.a, u.w FROM (SELECT a, k FROM s WHERE v > {0}) x JOIN u ON u.k = x.k "
     "WHERE x.k IN (SELECT k FROM t WHERE w <> {1})",
     "SELECT s.a, u.w FROM s JOIN u ON u.k = s.k LEFT SEMI JOIN t ON t.k = s.k AND t.w <> {1} WHERE s.v > {0}"),
]  # fmt: skip


def _row(numbers: random.Random, n_keys: int) -> Row:
    return (
        numbers.randrange(n_keys),
        numbers.choice((None, 1, 1, 2, 3)),
        numbers.choice((None, *range(8))),
    )


@pytest.mark.slow
@examples(0.1)
@given(st.randoms(use_true_random=False))
def test_queries_inside_queries_give_what_flat_ones_and_duckdb_give(numbers: random.Random) -> None:
    oracle = RowByRow(DECLARED)
    constants = [(numbers.randrange(8), numbers.randrange(8)) for _ in PAIRS]
    texts = [(nested.format(*c), flat.format(*c)) for (nested, flat), c in zip(PAIRS, constants, strict=True)]
    with eddyline.open(None, results_per_query=10_000) as engine:
        engine.sql(SQL)
        queries = [(engine.query(nested), engine.query(flat)) for nested, flat in texts]
        due: list[list[Row]] = [[] for _ in texts]
        for _ in range(numbers.randrange(1, 6)):
            for table in numbers.sample(("t", "u"), 2):
                rows = {row[0]: row for row in (_row(numbers, 6) for _ in range(numbers.randrange(5)))}
                engine.push(table, list(rows.values()))
                for row in rows.values():
                    oracle.update(table, row)
            arrived = [_row(numbers, 100) for _ in range(numbers.randrange(1, 6))]
            engine.push("s", arrived)
            for row in arrived:
                for found, results in zip(
                    due, oracle.results(row, [nested for nested, _ in texts]), strict=True
                ):
                    found += results
        for (nested, flat), expected, (text, _) in zip(queries, due, texts, strict=True):
            assert _told(nested) == sorted(expected, key=repr), text
            assert _told(flat) == _told(nested), text
    oracle.close()


def _told(query: Any) -> list[Row]:
    return sorted((tuple(result.values()) for result in query.latest(10_000)), key=repr)
