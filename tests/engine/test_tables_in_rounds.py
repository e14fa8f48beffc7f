"""Keyed streams as tables: what stands, first answers, history, files, and what a failed round leaves."""

from __future__ import annotations

import numpy as np
import pytest

import eddyline.engine.tables as tables_module
from eddyline.engine.tables import horizons
from eddyline.model import JoinInput, Role, Signature
from tests.engine.join_lives import Life, at

STREAMS = """
    CREATE TABLE quotes (sym STRING PRIMARY KEY, bid INT, gone BOOLEAN, ts TIMESTAMP)
        TBLPROPERTIES (time = 'ts', delete = 'gone');
    CREATE TABLE names (sym STRING PRIMARY KEY, name STRING);
    CREATE TABLE trades (id INT, sym STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '1 hour');
    CREATE TABLE orders (id INT, sym STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '1 hour')
"""
LATEST = "SELECT t.id, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym"
AS_OF = "SELECT t.id, q.bid FROM trades t ASOF JOIN quotes q ON t.sym = q.sym"
BOTH = "SELECT q.bid, n.name FROM quotes q JOIN names n ON q.sym = n.sym"


@pytest.fixture(params=["memory", "home"])
def life(request, tmp_path):
    made = Life(STREAMS, tmp_path / "home" if request.param == "home" else None)
    yield made
    made.engine.close()


@pytest.fixture
def kept(tmp_path):
    made = Life(STREAMS, tmp_path / "home")
    yield made
    made.engine.close()


# --------------------------------------------------------------------------------------------- what stands


def test_the_latest_row_is_the_one_with_the_newest_time(life):
    life.query(LATEST, "latest")
    life.push(quotes=[("A", 1, None, at(10)), ("A", 2, None, at(5))])
    life.push(trades=[(1, "A", at(0))])
    life.push(quotes=[("A", 3, None, at(10))])  # as new, and later to come
    life.push(trades=[(2, "A", at(0))])
    assert life.told("latest") == [(1, 1), (2, 3)]


def test_a_row_whose_flag_is_true_deletes(life):
    life.query(LATEST, "latest")
    life.query("SELECT bid FROM quotes", "all")
    life.push(quotes=[("A", 1, False, at(0)), ("B", 2, None, at(0))])
    life.push(quotes=[("A", None, True, at(1))])
    life.push(trades=[(1, "A", at(0)), (2, "B", at(0))])
    assert life.told("latest") == [(2, 2)]
    assert life.told("all") == [(1,), (2,), ("-", 1)]


def test_rows_of_one_round_see_the_table_as_it_was_when_they_came(life):
    life.query(LATEST, "latest")
    life.push(quotes=[("A", 1, None, at(0))])
    life.push(trades=[(1, "A", at(0))], quotes=[("A", 2, None, at(1))])
    life.push(quotes=[("A", 3, None, at(2))], trades=[(2, "A", at(0))])
    assert life.told("latest") == [(1, 1), (2, 3)]


def test_a_row_without_a_key_is_a_dead_letter_and_changes_nothing(life):
    life.query("SELECT bid FROM quotes", "all")
    life.push(quotes=[(None, 1, None, at(0)), ("A", 2, None, at(0))])
    assert life.told("all") == [(2,)]
    letters = life.engine.dead_letters()
    assert [(each.stream, each.error, each.row["bid"], each.query) for each in letters] == [
        ("quotes", "NULL_KEY", 1, None)
    ]


def test_a_dead_letter_of_a_query_over_a_table_has_the_row(life):
    life.query("SELECT sym FROM quotes WHERE 10 / bid > 2", "ratio")
    life.push(quotes=[("A", 0, None, at(0))])
    (letter,) = life.engine.dead_letters()
    assert (letter.stream, letter.query, letter.error) == ("quotes", "ratio", "DIVIDE_BY_ZERO")
    assert (letter.row["sym"], letter.row["bid"]) == ("A", 0)


def test_a_round_that_fails_leaves_tables_as_they_were(life):
    life.query(LATEST, "latest")
    life.query("SELECT bid FROM quotes", "all")
    life.push(quotes=[("A", 1, None, at(0)), ("B", 2, None, at(0))])
    life.fail(quotes=[("A", 9, None, at(1)), ("B", None, True, at(1)), ("C", 3, None, at(1))])
    life.check()
    life.push(trades=[(1, "A", at(0)), (2, "B", at(0)), (3, "C", at(0))])
    assert life.told("latest") == [(1, 1), (2, 2)]
    life.push(quotes=[("A", 4, None, at(2))])
    assert life.told("all") == [(1,), (2,), ("-", 1), (4,)]


# --------------------------------------------------------------------------------------------- first answers


def test_a_new_query_gets_its_answer_once(life):
    life.push(quotes=[("A", 1, None, at(0)), ("B", 2, None, at(0))], names=[("A", "ann"), ("B", "bob")])
    life.query("SELECT bid FROM quotes WHERE bid > 1", "some")
    life.query(BOTH, "both")
    assert life.told("some") == []
    life.push()
    life.push()
    assert life.told("some") == [(2,)]
    assert sorted(life.told("both")) == [(1, "ann"), (2, "bob")]
    life.push(quotes=[("A", 5, None, at(1))])
    assert life.told("some") == [(2,), (5,)]
    assert sorted(life.told("both"), key=str) == [("-", 1, "ann"), (1, "ann"), (2, "bob"), (5, "ann")]


def test_an_answer_is_as_of_after_the_changes_of_its_round(life):
    life.push(quotes=[("A", 1, None, at(0))])
    life.query("SELECT bid FROM quotes", "all")
    life.push(quotes=[("A", 2, None, at(1))])
    assert life.told("all") == [(2,)]


def test_an_answer_is_not_given_by_a_round_that_fails(life):
    life.push(quotes=[("A", 1, None, at(0))])
    life.query("SELECT bid FROM quotes", "all")
    life.fail()
    assert life.told("all") == []
    life.push()
    assert life.told("all") == [(1,)]


def test_an_answer_names_the_rows_it_is_made_of(life):
    life.push(quotes=[("B", 2, None, at(0)), ("A", 1, None, at(0))], names=[("A", "ann")])
    query = life.query(BOTH, "both")
    life.push()
    life.push(names=[("B", "bob")])
    assert {row["name"]: set(row.arrivals) for row in query.latest(9)} == {"ann": {2, 3}, "bob": {1, 4}}


def test_paused_and_resumed_a_query_gets_its_answer_anew(life):
    query = life.query("SELECT bid FROM quotes", "all")
    life.push(quotes=[("A", 1, None, at(0))])
    query.pause()
    life.push(quotes=[("A", 2, None, at(1))])
    query.resume()
    life.push()
    life.push()
    assert life.told("all") == [(1,), (2,)]


def test_answers_are_given_once_also_across_opening_again(kept):
    kept.push(quotes=[("A", 1, None, at(0))])
    kept.query("SELECT bid FROM quotes", "all")
    kept.reopen()
    kept.query("SELECT bid FROM quotes WHERE bid > 0", "later")
    kept.push()
    assert (kept.told("all"), kept.told("later")) == ([(1,)], [(1,)])
    kept.reopen()
    kept.push()
    assert (kept.told("all"), kept.told("later")) == ([(1,)], [(1,)])


# --------------------------------------------------------------------------------------------- history


def test_history_survives_opening_again(kept):
    kept.query(AS_OF, "as_of")
    for second in (10, 20, 30):
        kept.push(quotes=[("A", second, None, at(second))])
    kept.reopen()
    kept.push(trades=[(1, "A", at(25)), (2, "A", at(12)), (3, "A", at(5))])
    assert kept.told("as_of") == [(1, 20), (2, 10)]


def test_history_is_kept_as_long_as_some_stream_may_still_ask(life):
    life.query(AS_OF, "a")
    life.query(AS_OF.replace("trades", "orders"), "b")
    for second in (10, 20, 30):
        life.push(quotes=[("A", second, None, at(second))])
    life.push(trades=[(1, "A", at(100_000))])
    life.push(trades=[(2, "A", at(100_001))])
    life.push(orders=[(3, "A", at(15))])
    assert life.told("b") == [(3, 10)]


def test_a_table_nobody_can_be_sure_of_has_no_horizon():
    inputs = [
        Signature("x", (JoinInput("a"), JoinInput("q", Role.AS_OF))),
        Signature("y", (JoinInput("b"), JoinInput("Q", Role.AS_OF))),
        Signature("z", (JoinInput("a"), JoinInput("p", Role.AS_OF))),
        Signature("t", (JoinInput("a"), JoinInput("l", Role.TABLE))),
    ]
    assert horizons(inputs, {"a": 5, "b": None}, {}) == {"p": 5}
    assert horizons(inputs, {"a": 5, "b": 3}, {}) == {"p": 5, "q": 3}


# --------------------------------------------------------------------------------------------- files


def test_one_file_of_the_whole_table_takes_the_place_of_many(kept, monkeypatch):
    monkeypatch.setattr(tables_module, "MOST_FILES", 4)
    kept.query(LATEST, "latest")
    counts = []
    for bid in range(10):
        kept.push(quotes=[("A", bid, None, at(bid)), (f"B{bid}", bid, None, at(bid))])
        counts.append(len(kept.files("table")))
    assert counts == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    kept.reopen()
    kept.check()
    kept.push(trades=[(1, "A", at(0)), (2, "B0", at(0)), (3, "B9", at(0))])
    assert kept.told("latest") == [(1, 9), (2, 0), (3, 9)]


def test_a_whole_file_that_does_not_commit_takes_no_place(kept, monkeypatch):
    monkeypatch.setattr(tables_module, "MOST_FILES", 2)
    kept.push(quotes=[("A", 1, None, at(1))])
    kept.push(quotes=[("A", 2, None, at(2))])
    before = kept.files("table")
    kept.fail(quotes=[("A", 3, None, at(3))])
    assert kept.files("table") == before
    kept.query("SELECT bid FROM quotes", "all")
    kept.reopen()
    kept.push(quotes=[("A", 4, None, at(4))])
    assert kept.told("all") == [(4,)]


def test_a_table_dropped_leaves_no_files(kept):
    kept.push(quotes=[("A", 1, None, at(1))], names=[("A", "ann")])
    kept.engine.sql("DROP TABLE quotes")
    kept.push(trades=[(1, "A", at(0))])
    assert len(kept.files("table")) == 1
    kept.engine.sql("DROP TABLE names")
    kept.reopen()
    kept.push(trades=[(1, "A", at(0))])
    assert kept.files("table") == []


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_table_declared_anew_begins_without_rows(kept, is_reopened):
    kept.push(names=[("A", "ann")], quotes=[("A", 1, None, at(0))])
    kept.engine.sql("DROP TABLE names")
    kept.engine.sql("CREATE TABLE names (sym STRING PRIMARY KEY, name STRING)")
    if is_reopened:
        kept.reopen()
    kept.query("SELECT name FROM names", "all")
    kept.push()
    assert kept.told("all") == []
    kept.push(names=[("B", "bob")])
    kept.reopen()
    kept.query("SELECT name FROM names WHERE name > ''", "again")
    kept.push()
    assert (kept.told("all"), kept.told("again")) == ([("bob",)], [("bob",)])


def test_columns_may_come_while_a_table_stands(kept):
    kept.query(LATEST, "latest")
    kept.push(quotes=[("A", 1, None, at(0))])
    kept.engine.sql(
        "CREATE OR REPLACE TABLE quotes (sym STRING PRIMARY KEY, bid INT, gone BOOLEAN, ts TIMESTAMP, ask INT) "
        "TBLPROPERTIES (time = 'ts', delete = 'gone')"
    )
    kept.query("SELECT t.id, q.ask FROM trades t JOIN quotes q ON t.sym = q.sym", "ask")
    kept.push(trades=[(1, "A", at(0))])
    kept.push(quotes=[("B", 2, None, at(0), 7)])
    kept.reopen()
    kept.push(trades=[(2, "A", at(0)), (3, "B", at(0))])
    assert kept.told("latest") == [(1, 1), (2, 1), (3, 2)]
    assert kept.told("ask") == [(1, None), (2, None), (3, 7)]


def test_a_stream_dropped_while_a_round_changes_it_does_not_stop_the_round(life):
    def drop(step: str) -> None:
        if step == "3 work":
            life.engine.rounds.at_step = lambda step: None
            life.engine.sql("DROP TABLE names")

    life.engine.rounds.at_step = drop
    life.push(names=[("A", "ann")], quotes=[("A", 1, None, at(0))])
    life.query("SELECT bid FROM quotes", "all")
    life.push()
    assert life.told("all") == [(1,)]
    assert set(life.engine.rounds.flow.tables.tables) == {"quotes"}
    assert np.array_equal(life.engine.rounds.flow.tables.tables["quotes"].arrival, [2])


def test_how_far_back_a_query_knows_a_table_is_the_same_after_the_home_is_opened_again(kept):
    kept.query(AS_OF, "first")
    kept.push(quotes=[("A", 1, None, at(0))])
    kept.push(quotes=[("A", 2, None, at(10))])
    kept.query(AS_OF, "second")
    kept.reopen()
    kept.push(trades=[(1, "A", at(5)), (2, "A", at(10))])
    assert kept.told("first") == [(1, 1), (2, 2)]
    assert kept.told("second") == [(2, 2)], "its first row of A is the one of 10"
