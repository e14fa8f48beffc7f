"""Why a row matched or did not, and how the last rows fared."""

from __future__ import annotations

import datetime

import pytest

import eddyline
from eddyline.errors import SchemaError


@pytest.fixture
def engine():
    engine = eddyline.open(clock=lambda: 1_767_225_600_000_000)
    engine.stream("trades", "sym STRING, price DOUBLE, n INT")
    return engine


def push(engine, *rows):
    engine.push("trades", list(rows))


# --------------------------------------------------------------------------------------------- why


def test_why_says_what_each_condition_makes_of_a_row(engine):
    query = engine.query("SELECT sym FROM trades WHERE sym = 'A' AND price < 10 AND n > 0", name="cheap")
    why = query.why({"sym": "A", "price": 12.5})
    assert not why
    assert [(c.condition, c.verdict, c.values) for c in why.clauses] == [
        ("sym = 'A'", "true", {"sym": "A"}),
        ("price < 10", "false", {"price": 12.5}),
        ("n > 0", "null", {"n": None}),
    ]
    assert str(why) == (
        "the row does not match cheap\n"
        "  yes      sym = 'A'   (sym = 'A')\n"
        "  no       price < 10   (price = 12.5)\n"
        "  no, NULL n > 0   (n = NULL)"
    )


def test_why_of_a_row_that_matches(engine):
    query = engine.query("SELECT sym FROM trades WHERE price < 10 OR n > 5", name="q")
    why = query.why({"price": 50.0, "n": 6})
    assert why
    assert str(why) == "the row matches q\n  yes      price < 10 OR n > 5   (price = 50.0, n = 6)"
    assert str(engine.query("SELECT sym FROM trades", name="all").why({})) == (
        "the row matches all, which has no conditions"
    )


def test_why_of_a_row_in_error_tells_the_error(engine):
    query = engine.query("SELECT sym FROM trades WHERE 1 / price > 0.1 AND n = 1", name="q")
    why = query.why({"price": 0.0, "n": 1})
    assert [clause.verdict for clause in why.clauses] == ["error", "true"]
    assert str(why).startswith("the row is in the dead letters of q: ")
    assert [clause.verdict for clause in query.why({"price": 0.0, "n": 2}).clauses] == ["error", "false"]
    assert str(query.why({"price": 0.0, "n": 2})).startswith("the row does not match q")


def test_why_tells_an_error_of_a_projection(engine):
    query = engine.query("SELECT 1 / n AS x FROM trades WHERE price > 0", name="q")
    assert str(query.why({"price": 1.0, "n": 0})).startswith("the row is in the dead letters of q: ")
    assert not query.why({"price": 1.0, "n": 0})
    assert query.why({"price": 1.0, "n": 1})


def test_why_takes_a_result_of_the_query_itself(engine):
    query = engine.query("SELECT * FROM trades WHERE price < 10")
    push(engine, ("A", 5.0, 1))
    assert query.why(query.latest()[0])


def test_why_takes_one_row_that_fits(engine):
    query = engine.query("SELECT sym FROM trades WHERE price < 10")
    for row, message in [
        ({"price": "dear"}, "the row does not fit stream trades\ndetail: column price: 'dear' is not DOUBLE"),
        ({"prise": 1.0}, "stream trades has no column prise\nhint: Did you mean price?"),
        ([{"price": 1.0}, {"price": 2.0}], 'why takes one row, not 2\nhint: Write why({"price": 9.5}).'),
    ]:
        with pytest.raises(SchemaError) as error:
            query.why(row)
        assert str(error.value).startswith(message)


def test_why_uses_parameters_and_functions_as_the_query_does(engine):
    @eddyline.udf(returns="double", name="doubled_for_why")
    def doubled(x: float) -> float:
        return 2 * x

    query = engine.query(
        "SELECT sym FROM trades WHERE doubled_for_why(price) < :limit", params={"limit": 10.0}
    )
    assert query.why({"price": 4.0})
    assert "doubled_for_why(price) < 10" in str(query.why({"price": 6.0}))


def test_why_agrees_with_what_the_engine_did(engine):
    query = engine.query("SELECT sym FROM trades WHERE (sym = 'A' OR price < 5) AND NOT (n BETWEEN 2 AND 3)")
    rows = [(s, p, n) for s in ("A", "B", None) for p in (1.0, 9.0, None) for n in (1, 2, None)]
    matches = engine.push("trades", rows)
    matched = set(matches.rows().tolist())
    for at, (sym, price, n) in enumerate(rows):
        assert bool(query.why({"sym": sym, "price": price, "n": n})) == (at in matched)


# --------------------------------------------------------------------------------------------- why not


def test_why_not_counts_what_each_condition_stopped(engine):
    query = engine.query("SELECT sym FROM trades WHERE sym = 'A' AND price < 10", name="cheap")
    push(engine, ("A", 50.0, 1), ("A", 12.0, 1), ("B", 5.0, 1), ("B", 50.0, 1), ("A", 5.0, 1), ("A", None, 1))
    told = query.why_not()
    assert (told.n_rows, told.n_matched, told.n_in_error) == (6, 1, 0)
    assert told.conditions == ("sym = 'A'", "price < 10")
    assert told.stopped == (2, 4)
    assert told.stopped_alone == (1, 3)
    assert told.nearest_row == {"sym": "A", "price": 12.0, "n": 1}
    assert str(told) == (
        "cheap: 1 of the last 6 rows matched; deployed since version 2, 2026-01-01T00:00:00Z\n"
        "  stopped      2, alone      1   sym = 'A'\n"
        "  stopped      4, alone      3   price < 10\n"
        "  nearest miss: sym='A', price=12.0, n=1\n"
        "    no       price < 10   (price = 12.0)"
    )


def test_the_nearest_miss_fails_fewest_conditions_and_is_nearest_there(engine):
    query = engine.query("SELECT sym FROM trades WHERE price < 10 AND n > 100", name="q")
    push(engine, ("far in one", 5.0, 1), ("near in one", 5.0, 99), ("near in both", 10.1, 100))
    assert query.why_not().nearest_row["sym"] == "near in one"


def test_only_rows_since_the_query_stands_count(engine):
    push(engine, ("A", 1.0, 1))
    query = engine.query("SELECT sym FROM trades WHERE price > 5", name="q")
    assert query.why_not().n_rows == 0
    push(engine, ("B", 1.0, 1), ("C", 2.0, 1), ("D", 3.0, 1))
    assert query.why_not().n_rows == 3
    assert query.why_not(last=2).nearest_row["sym"] == "D"
    assert query.why_not(last=2).n_rows == 2
    query.replace("SELECT sym FROM trades WHERE price > 50")
    assert query.why_not().n_rows == 0


def test_why_not_without_rows_or_misses_has_no_nearest(engine):
    query = engine.query("SELECT sym FROM trades WHERE price > 5", name="q")
    told = query.why_not()
    assert (told.nearest, told.nearest_row) == (None, None)
    push(engine, ("A", 50.0, 1))
    assert query.why_not().nearest is None
    assert str(query.why_not()).startswith("q: 1 of the last 1 rows matched")


def test_why_not_counts_rows_in_error_apart(engine):
    query = engine.query("SELECT sym FROM trades WHERE 1 / price > 0.5 AND n > 1", name="q")
    push(engine, ("A", 0.0, 5), ("B", 0.0, 0), ("C", 1.0, 5))
    told = query.why_not()
    assert (told.n_matched, told.n_in_error) == (1, 1)
    assert "  1 rows are in the dead letters" in str(told)


def test_why_not_says_when_a_query_cannot_match_or_is_paused(engine):
    never = engine.query("SELECT sym FROM trades WHERE n > 5 AND n < 3", name="never")
    assert "this query can never match" in str(never.why_not())
    paused = engine.query("SELECT sym FROM trades WHERE n > 5", name="paused")
    paused.pause()
    assert "it is paused, so it sees no rows" in str(paused.why_not())


def test_recent_rows_are_bounded():
    engine = eddyline.open(recent_rows=5)
    engine.stream("s", "n INT")
    query = engine.query("SELECT n FROM s WHERE n > 100")
    for start in range(0, 100, 4):
        engine.push("s", [(n,) for n in range(start, start + 4)])
    assert 5 <= query.why_not(last=1000).n_rows <= 8


def test_distances_of_dates_times_and_decimals_are_known():
    engine = eddyline.open()
    engine.stream("s", "d DATE, ts TIMESTAMP, m DECIMAL(10,2)")
    rows = [
        ("2024-01-01", "2024-01-01 00:00:00", "1.00"),
        ("2024-06-30", "2024-06-30 00:00:00", "99.00"),
        ("2024-03-01", "2024-03-01 00:00:00", "50.00"),
    ]
    conditions = ["d > DATE '2024-07-01'", "ts > TIMESTAMP '2024-07-01 00:00:00'", "m > 100"]
    queries = [engine.query(f"SELECT d FROM s WHERE {condition}") for condition in conditions]
    engine.push("s", rows)
    assert [query.why_not().nearest_row["d"] for query in queries] == [datetime.date(2024, 6, 30)] * 3
