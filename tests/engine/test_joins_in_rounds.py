"""Joins of streams in rounds: each combination once, who sees which, what a failed round leaves, streams that change."""

from __future__ import annotations

import itertools
import random

import pytest

import eddyline.joins.windows as windows_module
from eddyline.errors import MemoryLimitError
from tests.engine.join_lives import Life, at

STREAMS = """
    CREATE TABLE a (k INT, v INT);
    CREATE TABLE b (k INT, v INT);
    CREATE TABLE c (k INT, v INT);
    CREATE TABLE d (k INT, v INT)
"""
PAIRS = "SELECT a.v, b.v AS w FROM recent(a, 3) a JOIN recent(b, 3) b ON a.k = b.k"


@pytest.fixture(params=["memory", "home"])
def life(request, tmp_path):
    made = Life(STREAMS, tmp_path / "home" if request.param == "home" else None)
    yield made
    made.check()
    made.engine.close()


# --------------------------------------------------------------------------------------------- combinations


def test_a_row_meets_itself_once_and_others_once_each_way(life):
    query = "SELECT x.v, y.v AS w FROM recent(a, 10) x JOIN recent(a, 10) y ON x.k = y.k"
    life.query(query, "self")
    life.push(a=[(1, 10)])
    assert life.told("self") == [(10, 10)]
    life.push(a=[(1, 20), (2, 30)])
    assert sorted(life.told("self")) == [(10, 10), (10, 20), (20, 10), (20, 20), (30, 30)]


@pytest.mark.parametrize(
    "where",
    [
        "a.k = b.k AND b.k = c.k AND c.k = d.k",  # all by one value
        "a.k = b.k AND b.v = c.v AND c.k = d.k",  # a chain
        "a.k = b.k AND a.v = c.v AND a.k = d.v",  # a star
        "a.k = b.k AND b.v = c.k AND c.v = d.k AND d.v = a.v",  # a cycle
        "a.k = b.k AND c.k = d.k",  # two pairs
    ],
)
def test_four_streams_give_every_combination_once(life, where):
    life.choose(combinations_at_once=7)
    inputs = ", ".join(f"recent({name}, 1000) {name}" for name in "abcd")
    shown = ", ".join(f"{name}.k AS {name}k, {name}.v AS {name}v" for name in "abcd")
    life.query(f"SELECT {shown} FROM {inputs} WHERE {where}", "four")
    rng = random.Random(3)
    came: dict[str, list[tuple[int, int]]] = {name: [] for name in "abcd"}
    for _ in range(4):
        rows = {name: [(rng.randrange(3), rng.randrange(3)) for _ in range(2)] for name in "abcd"}
        life.push(**rows)
        for name, new in rows.items():
            came[name] += new
    condition = where.replace("AND", "and").replace("=", "==")
    for name, (place, column) in itertools.product("abcd", enumerate("kv")):
        condition = condition.replace(f"{name}.{column}", f"{name}[{place}]")
    expected = [
        (*a, *b, *c, *d)
        for a, b, c, d in itertools.product(*came.values())
        if eval(condition, {"a": a, "b": b, "c": c, "d": d})
    ]
    assert sorted(life.told("four")) == sorted(expected) != []


def test_what_one_row_makes_may_be_more_than_a_batch(life):
    life.choose(combinations_at_once=3, pairs_at_once=2)
    life.query("SELECT a.v, b.v AS w FROM recent(a, 50) a JOIN recent(b, 50) b ON a.k = b.k", "pairs")
    life.query("SELECT a.v, b.v AS w FROM recent(a, 50) a CROSS JOIN recent(b, 50) b WHERE a.v < b.v", "less")
    life.push(b=[(1, v) for v in range(8)])
    life.push(a=[(1, v) for v in range(5)])
    everything = list(itertools.product(range(5), range(8)))
    assert sorted(life.told("pairs")) == everything
    assert sorted(life.told("less")) == [(v, w) for v, w in everything if v < w]


def test_a_join_that_shows_no_column_has_rows_all_the_same(life):
    life.query("SELECT 1 AS one FROM recent(a, 5) a CROSS JOIN recent(b, 5) b", "all")
    life.query("SELECT 1 AS one FROM recent(a, 5) a JOIN recent(b, 5) b ON a.k = b.k", "some")
    life.push(a=[(1, 5), (2, 6)])
    if life._home is not None:
        life.reopen()
    life.push(b=[(1, 6)])
    assert life.told("all") == [(1,), (1,)]
    assert life.told("some") == [(1,)]


def test_more_joins_than_a_word_has_bits_stand_on_one_stream(life):
    def add(shifts: range) -> None:
        for shift in shifts:
            life.query(PAIRS + f" + {shift}", f"q{shift}")

    add(range(40))
    life.push(a=[(3, 1)], b=[(3, 2)])
    add(range(40, 70))
    life.push()  # the stream has rows from before some of these joins
    life.push(b=[(3, 3)])
    life.push(a=[(63, 4)])
    assert sorted(life.told("q0")) == [(1, 2), (1, 3)]
    assert life.told("q60") == [(4, 3)]


# --------------------------------------------------------------------------------------------- who sees what


def test_every_row_of_a_result_came_after_the_query(life):
    life.query(PAIRS, "old")
    life.push(a=[(1, 1)])
    life.query(PAIRS, "new")
    life.push(b=[(1, 10)])
    life.push(a=[(1, 2)])
    assert life.told("old") == [(1, 10), (2, 10)]
    assert life.told("new") == [(2, 10)]


def test_of_three_streams_also_the_oldest_row_counts(life):
    three = "SELECT a.v, b.v AS w, c.v AS x FROM recent(a, 9) a, recent(b, 9) b, recent(c, 9) c WHERE a.k = b.k AND b.k = c.k"
    life.query(three, "old")
    life.push(a=[(1, 1)])
    life.query(three, "new")
    life.push(b=[(1, 10)])
    life.push(c=[(1, 100)])
    life.push(a=[(1, 2)])
    assert (life.told("old"), life.told("new")) == ([(1, 10, 100), (2, 10, 100)], [(2, 10, 100)])


def test_a_dropped_query_hears_no_more_and_a_resumed_one_begins_anew(life):
    life.query(PAIRS, "stays")
    gone, rests = life.query(PAIRS, "gone"), life.query(PAIRS, "rests")
    life.push(a=[(1, 1)])
    heard = life.told("gone")
    gone.drop()
    rests.pause()
    life.push(a=[(1, 2)])
    rests.resume()
    life.push(b=[(1, 10)], a=[(1, 3)])
    assert heard == []
    assert sorted(life.told("stays")) == [(1, 10), (2, 10), (3, 10)]
    assert life.told("rests") == [(3, 10)]


def test_when_the_last_query_of_a_wide_window_goes_rows_go(life):
    life.query(PAIRS, "narrow")
    life.query(PAIRS.replace("3", "8"), "wide")
    for v in range(8):
        life.push(a=[(v, v)])
    assert life.held()["a"] == 8
    life.engine.drop("wide")
    life.push()
    assert life.held()["a"] == 3


def test_when_the_last_query_of_a_join_goes_its_filters_go(life):
    before = dict(life.engine.rounds.stages())
    for _ in range(3):
        life.query(PAIRS, "pairs")
        life.push(a=[(1, 1)], b=[(1, 2)])
        assert life.told("pairs") == [(1, 2)]
        life.engine.drop("pairs")
        life.push()
        assert {name for name, _ in life.engine.rounds.stages()} - before.keys() <= {"a", "b"}


# --------------------------------------------------------------------------------------------- failures


def test_a_failed_round_leaves_nothing_and_the_next_is_right(life):
    life.query(PAIRS, "pairs")
    life.push(a=[(1, 1)])
    for _ in range(3):
        life.fail(a=[(1, 2)], b=[(1, 10)])
        assert life.held() == {"a": 1, "b": 0}
        assert life.told("pairs") == []
        life.check()
    life.push(b=[(1, 20)])
    life.push(a=[(1, 2)], b=[(1, 10)])
    assert sorted(life.told("pairs")) == [(1, 10), (1, 20), (2, 10), (2, 20)]


def test_a_plan_that_cannot_be_adopted_is_adopted_by_the_next_round(life, monkeypatch):
    life.query(PAIRS, "pairs")
    life.push(a=[(1, 1)])
    life.query(PAIRS + " AND a.v = b.v", "both")

    def fails(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(windows_module.StoredWindows, "_fit", fails)
        with pytest.raises(MemoryLimitError):
            life.push(b=[(1, 10)])
    life.push(b=[(1, 10)])
    life.push(a=[(1, 10)])
    assert life.told("pairs") == [(1, 10), (10, 10)]
    assert life.told("both") == [(10, 10)]


# --------------------------------------------------------------------------------------------- streams that change


def test_columns_may_come_while_joins_stand(life):
    life.query(PAIRS, "pairs")
    life.push(a=[(1, 1)])
    life.engine.sql("CREATE OR REPLACE TABLE a (k INT, v INT, more STRING)")
    life.query("SELECT a.more, b.v FROM recent(a, 3) a JOIN recent(b, 3) b ON a.k = b.k", "more")
    life.push(a=[(1, 2, "x")])
    life.push(b=[(1, 10)])
    assert sorted(life.told("pairs")) == [(1, 10), (2, 10)]
    assert life.told("more") == [("x", 10)]


def test_a_stream_declared_anew_with_other_types_begins_without_rows(life):
    life.query(PAIRS, "pairs")
    life.push(a=[(1, 1)])
    life.engine.drop("pairs")
    life.engine.sql("DROP TABLE a")
    life.engine.sql("CREATE TABLE a (k INT, v STRING)")
    life.query(PAIRS, "pairs")
    life.push(a=[(1, "new")])
    assert life.held()["a"] == 1
    life.push(b=[(1, 10)])
    assert life.told("pairs") == [("new", 10)]


def test_rows_leave_a_large_stem_also_when_no_new_ones_come(monkeypatch):
    monkeypatch.setattr(windows_module, "SMALL_STEM", 100)
    life = Life(STREAMS)
    life.query("SELECT a.v FROM recent(a, INTERVAL 10 SECONDS) a JOIN recent(b, 3) b ON a.k = b.k", "young")
    life.push(a=[(k, k) for k in range(1_000)])
    life.now_s = 5
    life.push(a=[(k, k) for k in range(100)])
    assert life.held()["a"] == 1_100
    life.now_s = 12
    life.push()
    assert life.held()["a"] == 100
    life.check()


# --------------------------------------------------------------------------------------------- keys in error


def test_a_row_whose_key_is_in_error_is_a_dead_letter_once(life):
    shifted = "SELECT a.v, b.v AS w FROM recent(a, 3) a JOIN recent(b, 3) b ON 10 / a.k = b.k"
    life.query(shifted + " WHERE a.v > 0", "first")
    life.query(shifted + " WHERE a.v > 1", "second")
    life.push(b=[(5, 7)])
    life.push(a=[(0, 0), (0, 2), (2, 3)])
    assert life.told("first") == [(3, 7)]
    letters = life.engine.dead_letters()
    assert [(each.stream, each.row, each.query, each.error) for each in letters] == [
        ("a", {"k": 0, "v": 2}, None, "DIVIDE_BY_ZERO")
    ]
    life.push(b=[(5, 8)])
    assert len(life.engine.dead_letters()) == 1


def test_a_row_of_a_table_whose_key_is_in_error_is_a_dead_letter_too():
    life = Life("CREATE TABLE a (k INT, v INT); CREATE TABLE q (id INT PRIMARY KEY, k STRING)")
    life.query("SELECT a.v, q.id FROM a JOIN q ON a.k = cast(q.k AS INT)", "latest")
    life.push(q=[(1, "7"), (2, "x")])
    life.push(q=[(1, "8")])
    life.push(a=[(8, 1)])
    assert life.told("latest") == [(1, 1)]
    assert [(each.stream, each.row["id"], each.error) for each in life.engine.dead_letters()] == [
        ("q", 2, "CAST_INVALID_INPUT")
    ]


def test_times_are_kept_with_rows_of_joins_in_the_order_they_came(life):
    life.engine.sql("CREATE TABLE t (k INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '1 hour')")
    life.query(
        "SELECT x.ts, y.ts AS later FROM t x JOIN t y ON x.k = y.k AND y.ts > x.ts AND y.ts <= x.ts + INTERVAL 5 SECONDS",
        "after",
    )
    life.push(t=[(1, at(10)), (1, at(4)), (1, at(7))])
    assert sorted(life.told("after")) == [(at(4), at(7)), (at(7), at(10))]
