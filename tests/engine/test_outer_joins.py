"""LEFT and LEFT ANTI JOIN: rows without a partner are told once, when it is decided."""

from __future__ import annotations

import pytest

from tests.engine.join_lives import Life, at

STREAMS = """
    CREATE TABLE orders (id INT, k INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '2 seconds');
    CREATE TABLE paid (k INT, n INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '2 seconds');
    CREATE TABLE users (k INT PRIMARY KEY, name STRING)
"""


def within(seconds: int, kind: str = "LEFT") -> str:
    shown = "o.id" if "ANTI" in kind else "o.id, p.n"
    return (
        f"SELECT {shown} FROM orders o {kind} JOIN paid p ON o.k = p.k "
        f"AND p.ts BETWEEN o.ts AND o.ts + INTERVAL {seconds} SECONDS"
    )


@pytest.fixture(params=["memory", "home"])
def life(request, tmp_path):
    made = Life(STREAMS, tmp_path / "home" if request.param == "home" else None)
    yield made
    made.engine.close()


def test_a_row_is_told_alone_once_the_watermark_has_passed_its_reach(life):
    life.query(within(10), "left")
    life.query(within(10, "LEFT ANTI"), "anti")
    life.push(orders=[(1, 7, at(0)), (2, 8, at(0))])
    life.push(paid=[(7, 70, at(5))])
    assert life.told("left") == [(1, 70)]
    life.push(paid=[(9, 90, at(12))])  # its watermark is 10: one at 10 may still come
    assert life.told("left") == [(1, 70)]
    assert life.told("anti") == []
    life.push(paid=[(9, 91, at(13))])
    assert life.told("left") == [(1, 70), (2, None)]
    assert life.told("anti") == [(2,)]
    life.push(paid=[(8, 80, at(60))])
    assert life.told("left") == [(1, 70), (2, None)]
    assert life.told("anti") == [(2,)]


def test_queries_of_different_reach_decide_at_different_times(life):
    life.query(within(5), "soon")
    life.query(within(50), "later")
    life.push(orders=[(1, 7, at(0))])
    life.push(paid=[(9, 0, at(20))])
    assert (life.told("soon"), life.told("later")) == ([(1, None)], [])
    life.push(paid=[(7, 70, at(40))])
    assert (life.told("soon"), life.told("later")) == ([(1, None)], [(1, 70)])
    life.push(paid=[(9, 0, at(100))])
    assert (life.told("soon"), life.told("later")) == ([(1, None)], [(1, 70)])


def test_what_is_decided_stays_decided_when_a_home_is_opened_again(tmp_path):
    life = Life(STREAMS, tmp_path / "home")
    life.query(within(5), "soon")
    life.query(within(50), "later")
    life.push(orders=[(1, 7, at(0)), (2, 8, at(15))])
    life.push(paid=[(9, 0, at(20))])
    for _ in range(2):
        life.reopen()
        life.push()
        assert life.told("soon") == [(1, None)]
        assert life.told("later") == []
    life.push(paid=[(9, 0, at(30))])
    assert life.told("soon") == [(1, None), (2, None)]
    life.reopen()
    life.push(paid=[(8, 80, at(60))])
    life.push(paid=[(9, 0, at(200))])
    assert life.told("soon") == [(1, None), (2, None)]
    assert life.told("later") == [(1, None), (2, 80)] or life.told("later") == [(2, 80), (1, None)]
    life.engine.close()


def test_a_partner_from_before_the_query_is_none(life):
    life.query(within(10), "old")
    life.push(paid=[(7, 70, at(1))])
    life.query(within(10), "new")
    life.query(within(10, "LEFT ANTI"), "anti")
    life.push(orders=[(1, 7, at(0))])
    life.push(paid=[(9, 0, at(60))])
    assert life.told("old") == [(1, 70)]
    assert life.told("new") == [(1, None)]
    assert life.told("anti") == [(1,)]


def test_a_row_from_before_the_query_is_not_told(life):
    life.query(within(10), "old")
    life.push(orders=[(1, 7, at(0))])
    life.query(within(10), "new")
    life.push(orders=[(2, 7, at(1))])
    life.push(paid=[(9, 0, at(60))])
    assert life.told("old") == [(1, None), (2, None)]
    assert life.told("new") == [(2, None)]


def test_a_row_without_a_time_is_alone_at_once(life):
    life.query(within(10), "left")
    life.push(orders=[(1, 7, None)])
    assert life.told("left") == [(1, None)]
    life.push(paid=[(7, 70, at(60))])
    life.push(orders=[(2, 7, None)])
    life.push(paid=[(7, 70, at(90))])
    assert life.told("left") == [(1, None), (2, None)]


def test_a_round_that_fails_has_decided_nothing(life):
    life.query(within(10), "left")
    life.push(orders=[(1, 7, at(0)), (2, 8, at(0))])
    life.fail(paid=[(9, 0, at(60))])
    assert life.told("left") == []
    life.check()
    life.push(paid=[(7, 70, at(5))])
    life.fail(paid=[(9, 0, at(60))])
    life.push(paid=[(9, 0, at(60))])
    life.push(paid=[(9, 0, at(90))])
    assert life.told("left") == [(1, 70), (2, None)]


def test_with_a_table_it_is_decided_when_the_row_comes(life):
    life.query("SELECT o.id, u.name FROM orders o LEFT JOIN users u ON o.k = u.k", "left")
    life.query("SELECT o.id FROM orders o LEFT ANTI JOIN users u ON o.k = u.k", "anti")
    life.push(users=[(7, "ann")])
    life.push(orders=[(1, 7, at(0)), (2, 8, at(0))])
    life.push(users=[(8, "bob")])
    assert life.told("left") == [(1, "ann"), (2, None)]
    assert life.told("anti") == [(2,)]


def test_a_match_in_error_is_neither_a_match_nor_none(life):
    life.query(
        "SELECT o.id FROM orders o LEFT ANTI JOIN users u ON o.k = u.k AND cast(u.name AS INT) > 5", "anti"
    )
    life.push(users=[(7, "ann"), (8, "9"), (9, "1")])
    life.push(orders=[(1, 7, at(0)), (2, 8, at(0)), (3, 9, at(0))])
    assert life.told("anti") == [(3,)]
    assert [(letter.query, letter.error) for letter in life.engine.dead_letters()] == [
        ("anti", "CAST_INVALID_INPUT")
    ]


def test_a_partner_that_matches_settles_one_in_error(life):
    life.query(
        "SELECT o.id FROM orders o LEFT ANTI JOIN recent(paid, 10) p ON o.k = p.k AND 1 / p.n > 0", "anti"
    )
    life.push(paid=[(7, 0, at(0)), (7, 1, at(0)), (8, 0, at(0))])
    life.push(orders=[(1, 7, at(0)), (2, 8, at(0))])
    assert life.told("anti") == []
    assert [letter.row["o.id"] for letter in life.engine.dead_letters()] == [2]


def test_a_right_join_gives_what_the_left_join_with_its_sides_exchanged_gives(life):
    near = "o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 10 SECONDS"
    life.query(f"SELECT p.n, o.id FROM paid p RIGHT JOIN orders o ON {near} WHERE o.id < 9", "right")
    life.query(f"SELECT p.n, o.id FROM orders o LEFT JOIN paid p ON {near} WHERE o.id < 9", "left")
    life.push(orders=[(1, 7, at(0)), (2, 8, at(0)), (9, 8, at(0))])
    life.push(paid=[(7, 70, at(5)), (7, 71, at(6))])
    life.push(paid=[(9, 91, at(13))])
    assert life.told("right") == [(70, 1), (71, 1), (None, 2)]
    assert life.told("left") == life.told("right")


def test_a_left_semi_join_gives_a_row_once_where_the_table_has_its_key(life):
    life.query("SELECT * FROM orders o LEFT SEMI JOIN users u ON o.k = u.k AND u.name <> 'x'", "semi")
    life.push(users=[(7, "ann"), (8, "x")])
    life.push(orders=[(1, 7, at(0)), (2, 8, at(0)), (3, 9, at(0)), (4, None, at(0))])
    life.push(users=[(7, "bob"), (9, "eve")])  # a row has met the table when it came, and meets it once
    life.push(orders=[(5, 9, at(0)), (6, 7, at(0))])
    assert [row[0] for row in life.told("semi")] == [1, 5, 6]
    assert len(life.told("semi")[0]) == 3
