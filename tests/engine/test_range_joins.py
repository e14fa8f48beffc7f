"""Joins without an equality: rows are looked up in order, and what is found is what comparing every pair would find."""

from __future__ import annotations

import math

import pytest

from tests.engine.join_lives import Life
from tests.engine.test_probe_work import work

STREAMS = """
    CREATE TABLE a (k INT, v DOUBLE);
    CREATE TABLE b (k INT, v DOUBLE, w DOUBLE)
"""


@pytest.fixture(params=["memory", "home"])
def life(request, tmp_path):
    made = Life(STREAMS, tmp_path / "home" if request.param == "home" else None)
    yield made
    made.check()
    made.engine.close()


@pytest.mark.parametrize(
    ("condition", "expected", "n_looked_at"),
    [
        ("a.v < b.v", [3, 4], 2),
        ("a.v <= b.v", [2, 3, 4], 3),
        ("a.v > b.v", [0, 1], 2),
        ("b.v <= a.v", [0, 1, 2], 3),
        ("a.v > b.k", [0, 1], 2),  # an INT as DOUBLE
        ("a.v BETWEEN b.v AND b.w", [1, 2], 3),  # one side by the index, the other as it is written
        ("b.v BETWEEN a.v AND a.v", [2], 1),
    ],
)
def test_only_rows_in_the_range_are_looked_at(life, condition, expected, n_looked_at):
    life.query(f"SELECT b.k FROM recent(a, 99) a JOIN recent(b, 99) b ON {condition}", "pairs")
    life.push(b=[(n, float(n), n + 1.0) for n in range(5)])
    life.push(a=[(0, 2.0)])
    assert sorted(k for (k,) in life.told("pairs")) == expected
    assert work(life, "a").n_looked_at == n_looked_at


def test_new_rows_of_both_sides_look_for_the_other(life):
    life.query("SELECT a.v, b.v AS w FROM recent(a, 99) a JOIN recent(b, 99) b ON a.v < b.v", "pairs")
    life.push(a=[(0, 1.0), (0, 5.0)], b=[(0, 3.0, 0.0)])
    life.push(b=[(0, 6.0, 0.0)])
    assert sorted(life.told("pairs")) == [(1.0, 3.0), (1.0, 6.0), (5.0, 6.0)]


def test_nan_is_above_all_numbers_and_null_is_in_no_range(life):
    life.query("SELECT a.v, b.v AS w FROM recent(a, 99) a JOIN recent(b, 99) b ON a.v <= b.v", "pairs")
    life.push(b=[(0, math.nan, 0.0), (1, None, 0.0), (2, -0.0, 0.0), (3, math.inf, 0.0)])
    life.push(a=[(0, 0.0), (1, None), (2, math.nan)])
    assert [tuple(map(str, pair)) for pair in life.told("pairs")] == [
        ("0.0", "nan"), ("0.0", "-0.0"), ("0.0", "inf"), ("nan", "nan")
    ]  # fmt: skip
    assert work(life, "a").n_looked_at == 4


def test_rows_leave_the_order_with_their_window_and_with_a_round_that_fails(life):
    life.query("SELECT a.k, b.k AS n FROM recent(a, 1) a JOIN recent(b, 3) b ON a.v < b.v", "pairs")
    life.push(b=[(n, 10.0 - n, 0.0) for n in range(5)])
    life.fail(b=[(99, 9.0, 0.0)])
    life.check()
    life.push(b=[(5, 5.0, 0.0)])
    life.push(a=[(1, 0.0)])
    assert sorted(life.told("pairs")) == [(1, 3), (1, 4), (1, 5)]
    assert work(life, "a").n_looked_at == 3


def test_a_query_with_another_condition_makes_all_rows_candidates_again(life):
    pairs = "SELECT a.k, b.k AS n FROM recent(a, 99) a JOIN recent(b, 99) b"
    life.query(f"{pairs} ON a.v < b.v", "below")
    life.push(b=[(0, 0.0, 0.0), (1, 1.0, 0.0), (2, 2.0, 0.0)])
    life.query(f"{pairs} ON a.v < b.v OR b.w > 0", "either")
    life.push(b=[(3, 0.0, 1.0)])
    life.push(a=[(7, 0.5)])
    assert sorted(life.told("below")) == [(7, 1), (7, 2)]
    assert life.told("either") == [(7, 3)]
    assert work(life, "a").n_looked_at == 4
    life.engine.get("either").drop()
    life.push(a=[(8, 0.5)])
    assert sorted(life.told("below")) == [(7, 1), (7, 2), (8, 1), (8, 2)]
    assert work(life, "a").n_looked_at == 4 + 2


def test_the_order_is_there_again_after_a_restart(tmp_path):
    life = Life(STREAMS, tmp_path / "home")
    life.query("SELECT a.k, b.k AS n FROM recent(a, 99) a JOIN recent(b, 99) b ON a.v < b.v", "pairs")
    life.push(b=[(n, float(n), 0.0) for n in range(5)])
    life.reopen()
    life.push(a=[(1, 2.0)])
    assert sorted(life.told("pairs")) == [(1, 3), (1, 4)]
    assert work(life, "a").n_looked_at == 2
    life.check()
    life.engine.close()


def test_explain_says_by_what_rows_are_looked_up(life):
    life.query("SELECT a.k FROM recent(a, 9) a JOIN recent(b, 9) b ON a.v < b.v", "below")
    life.query("SELECT a.k FROM recent(b, 9) a JOIN recent(b, 9) b ON a.v <> b.v", "other")
    life.push(a=[(1, 1.0)], b=[(1, 2.0, 0.0)])
    assert "no equality: rows are looked up in the order of a.v, b.v" in str(life.engine.joins())
    assert "no equality: every row is compared with every other" in str(life.engine.joins())


def test_what_a_view_says_counts_among_the_conditions_of_its_join(life):
    pairs = "SELECT a.k, b.k AS n, b.w FROM recent(a, 99) a JOIN recent(b, 99) b"
    life.engine.sql(f"CREATE VIEW every_pair AS {pairs} ON a.v <> b.v")
    life.query("SELECT k, n FROM every_pair WHERE w > 0", "through_view")
    life.query(f"{pairs} ON a.v < b.v", "below")
    life.push(b=[(0, 0.0, 1.0), (1, 1.0, 1.0)])
    life.push(a=[(7, 0.5)])
    assert sorted(life.told("through_view")) == [(7, 0), (7, 1)]
    assert life.told("below") == [(7, 1, 1.0)]
