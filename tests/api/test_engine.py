"""The engine in the user's hands: streams, pushes, tokens, rounds, dead letters, statements, closing."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import eddyline
from eddyline.errors import (
    ClosedError,
    EddylineError,
    PropertyError,
    SchemaError,
    TypeMismatchError,
    UnknownNameError,
)
from eddyline.events import RoundCommitted


@pytest.fixture
def engine():
    engine = eddyline.open(clock=lambda: 1_767_225_600_000_000)
    engine.stream("trades", "sym STRING, price DOUBLE")
    return engine


def rows(*pairs):
    return [{"sym": sym, "price": price} for sym, price in pairs]


# --------------------------------------------------------------------------------------------- opening


def test_an_engine_says_what_it_holds(engine):
    engine.query("SELECT sym FROM trades")
    assert repr(engine) == "<eddyline engine: 1 queries over trades, version 2>"
    assert repr(eddyline.open()) == "<eddyline engine: 0 queries over no streams, version 0>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_zone": "Mars/Olympus"}, "there is no time zone 'Mars/Olympus'\nhint: Name one such as"),
        ({"results_per_query": 0}, "results_per_query is 0\nhint: Give a number of at least 1."),
        ({"result_bytes": 0}, "result_bytes is 0"),
        ({"recent_rows": -1}, "recent_rows is -1"),
        ({"dead_letters": 0}, "dead_letters is 0"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(PropertyError) as error:
        eddyline.open(**options)
    assert str(error.value).startswith(message)


# --------------------------------------------------------------------------------------------- streams


def test_a_stream_may_be_declared_from_example_rows_or_a_frame():
    engine = eddyline.open()
    assert repr(engine.stream("a", [{"x": 1, "t": "a"}])) == "<stream a (x BIGINT, t STRING)>"
    assert repr(engine.stream("b", pd.DataFrame({"x": [1.5]}))) == "<stream b (x DOUBLE)>"
    assert repr(engine.stream("c", {"x": "date"})) == "<stream c (x DATE)>"
    assert [stream.name for stream in engine.streams()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a-b", {}, "'a-b' cannot be the name of a stream\nhint: Use letters, digits and underscores."),
        ("", {}, "'' cannot be the name of a stream"),
        ("1a", {}, "'1a' cannot be the name of a stream"),
        (
            "s",
            {"time": "tz"},
            "stream s has no column tz, which is given as its time\nhint: Known: id, name, ts.",
        ),
        (
            "s",
            {"key": ["idd"]},
            "stream s has no column idd, which is given as its key\nhint: Did you mean id?",
        ),
        (
            "s",
            {"time": "name"},
            "column name cannot be the time of stream s: it is STRING\n"
            "hint: Time is a TIMESTAMP or TIMESTAMP_NTZ; or a number, with time_unit = 's', 'ms', 'us' or 'ns';",
        ),
    ],
)
def test_a_stream_that_cannot_be_is_refused(name, options, message):
    with pytest.raises(SchemaError) as error:
        eddyline.open().stream(name, "id INT, name STRING, ts TIMESTAMP", **options)
    assert str(error.value).startswith(message)


def test_a_lateness_that_is_no_duration_is_refused():
    with pytest.raises(PropertyError):
        eddyline.open().stream("s", "ts TIMESTAMP", time="ts", lateness="a while")


def test_the_key_of_a_stream_is_one_of_its_columns():
    with pytest.raises(SchemaError) as error:
        eddyline.open().stream("quotes", "sym STRING, bid DOUBLE", key="symbol")
    assert str(error.value) == (
        "stream quotes has no column symbol, which is given as its key\nhint: Did you mean sym?"
    )


def test_unknown_streams_are_refused_with_the_nearest_name(engine):
    for use in (lambda: engine.push("trade", []), lambda: engine.drop_stream("trade")):
        with pytest.raises(UnknownNameError) as error:
            use()
        assert str(error.value) == "there is no stream trade\nhint: Did you mean trades?"
    with pytest.raises(UnknownNameError) as error:
        eddyline.open().push("trades", [])
    assert str(error.value) == "there is no stream trades\nhint: There is no stream yet."


# --------------------------------------------------------------------------------------------- pushing


def test_every_kind_of_data_is_pushed_alike(engine):
    cheap = engine.query("SELECT sym FROM trades WHERE price < 10")
    table = pa.Table.from_pylist(rows(("A", 5.0), ("B", 50.0)))
    for data in (
        rows(("A", 5.0), ("B", 50.0)),
        table,
        table.to_pandas(),
        pl.DataFrame(table),
        table.to_batches()[0],
    ):
        assert engine.push("trades", data).count == 1
        assert cheap.results() == [{"sym": "A"}]


def test_a_push_tells_its_round_and_matches(engine):
    engine.query("SELECT sym FROM trades WHERE price < 10")
    first = engine.push("trades", rows(("A", 5.0)))
    second = engine.push("TRADES", rows(("A", 5.0), ("B", 50.0)))
    assert (first.round_number, second.round_number) == (1, 2)
    assert (first.version, second.count, second.n_dead, second.n_late) == (2, 1, 0, 0)
    assert repr(second) == "<round 2: 2 rows, 1 matches>"


def test_one_round_may_bring_rows_of_several_streams(engine):
    engine.stream("quotes", "sym STRING, bid DOUBLE")
    dear = engine.query("SELECT sym FROM trades WHERE price > 1")
    thin = engine.query("SELECT sym FROM quotes WHERE bid < 1")
    matches = engine.push({"trades": rows(("A", 5.0)), "quotes": [{"sym": "B", "bid": 0.5}]})
    assert matches.count == 2
    assert [r.round_number for r in dear.results() + thin.results()] == [1, 1]
    assert [(s.name, s.n_rows) for s in engine.streams()] == [("trades", 1), ("quotes", 1)]


def test_a_push_of_several_streams_takes_them_in_one_dict(engine):
    with pytest.raises(SchemaError) as error:
        engine.push({"trades": []}, [])
    assert (
        str(error.value)
        == "push takes either a stream and its rows, or a dict of streams\nhint: Put all into the dict."
    )
    with pytest.raises(SchemaError) as error:
        engine.push({"trades": [], "TRADES": []})
    assert str(error.value) == "stream trades is there twice in this push"


def test_a_push_that_is_refused_leaves_nothing_behind(engine):
    query = engine.query("SELECT sym FROM trades")
    engine.stream("quotes", "sym STRING")
    with pytest.raises(SchemaError):
        engine.push({"trades": rows(("A", 1.0)), "quotes": pa.table({"nope": [1]})})
    assert query.results() == []
    assert [stream.n_rows for stream in engine.streams()] == [0, 0]
    assert engine.push("trades", rows(("A", 1.0))).round_number == 1


def test_a_round_that_fails_at_work_leaves_nothing_behind(engine, monkeypatch):
    query = engine.query("SELECT sym FROM trades")
    engine.push("trades", rows(("A", 1.0)))
    with monkeypatch.context() as patched:
        patched.setattr("eddyline.filters.stage.FilterStage.push", lambda *a: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.push("trades", rows(("B", 1.0)), token="t")
    assert engine.streams()[0].n_rows == 1
    retried = engine.push("trades", rows(("B", 1.0)), token="t")
    assert (retried.round_number, retried.is_repeat) == (2, False)
    assert [(r["sym"], r.arrival) for r in query.results()] == [("A", 1), ("B", 2)]


def test_empty_pushes_and_ticks_are_rounds(engine):
    query = engine.query("SELECT sym FROM trades")
    assert engine.push("trades", []).count == 0
    assert engine.tick().round_number == 2
    assert query.results() == []
    assert repr(engine.tick()) == "<round 3: 0 rows, 0 matches>"


# --------------------------------------------------------------------------------------------- tokens and arrival


def test_a_token_seen_before_returns_its_round_and_does_nothing(engine):
    query = engine.query("SELECT sym FROM trades")
    first = engine.push("trades", rows(("A", 1.0)), token="batch 1")
    other = engine.push("trades", rows(("B", 1.0)), token="batch 2")
    again = engine.push("trades", rows(("A", 1.0), ("C", 1.0)), token="batch 1")
    assert (first.is_repeat, other.is_repeat, again.is_repeat) == (False, False, True)
    assert (again.round_number, again.count) == (1, 1)
    assert repr(again) == "<round 1: 1 rows, 1 matches, seen before>"
    assert again.to_arrow(query).to_pylist() == [{"sym": "A"}]
    assert query.results() == [{"sym": "A"}, {"sym": "B"}]
    assert engine.streams()[0].n_rows == 2


def test_rows_are_numbered_in_the_order_they_arrive(engine):
    query = engine.query("SELECT sym FROM trades WHERE price > 0")
    engine.push("trades", rows(("A", 1.0), ("B", -1.0), ("C", 1.0)))
    engine.push("trades", rows(("D", 1.0)))
    assert [(r["sym"], r.arrival) for r in query.results()] == [("A", 1), ("C", 3), ("D", 4)]


def test_an_arrival_column_gives_the_order_across_streams(engine):
    engine.stream("quotes", "sym STRING")
    trades, quotes = engine.query("SELECT sym FROM trades"), engine.query("SELECT sym FROM quotes")
    engine.push({
        "trades": pa.table({"sym": ["B", "A"], "price": [1.0, 1.0], "_arrival": [30, 10]}),
        "quotes": [{"sym": "Q", "_arrival": 20}],
    })  # fmt: skip
    engine.push("quotes", [{"sym": "R"}])
    heard = sorted((r.arrival, r["sym"]) for r in trades.results() + quotes.results())
    assert heard == [(10, "A"), (20, "Q"), (30, "B"), (31, "R")]


def test_arrival_numbers_only_grow(engine):
    engine.push("trades", pa.table({"sym": ["A"], "price": [1.0], "_arrival": [7]}))
    with pytest.raises(SchemaError) as error:
        engine.push("trades", pa.table({"sym": ["A"], "price": [1.0], "_arrival": [7]}))
    assert str(error.value) == (
        "_arrival 7 is not after the rows already seen\n"
        "detail: The last row had 7.\n"
        "hint: Arrival numbers only grow; leave the column out to have rows numbered as they come."
    )


def test_arrival_numbers_are_for_all_streams_of_a_push_or_for_none(engine):
    engine.stream("quotes", "sym STRING")
    with pytest.raises(SchemaError) as error:
        engine.push(
            {"trades": pa.table({"sym": ["A"], "price": [1.0], "_arrival": [7]}), "quotes": [{"sym": "B"}]}
        )
    assert str(error.value) == (
        "some streams of this push have an _arrival column and some do not\n"
        "detail: Without: quotes.\n"
        "hint: Number the rows of all of them, or of none."
    )
    with pytest.raises(SchemaError) as error:
        engine.push({"trades": [{"sym": "A", "_arrival": 7}], "quotes": [{"sym": "B", "_arrival": 7}]})
    assert str(error.value) == "_arrival 7 is there in two streams\nhint: Every row needs its own."


# --------------------------------------------------------------------------------------------- time


def at(second: float) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=second)


def test_late_rows_are_counted_marked_and_still_meet_filters():
    engine = eddyline.open()
    stream = engine.stream("s", "n INT, ts TIMESTAMP", time="ts", lateness="5 seconds")
    query = engine.query("SELECT n FROM s")
    assert stream.watermark_us is None
    assert stream.push([(1, at(100)), (2, at(0))]).n_late == 0  # within one round nothing is late
    assert stream.watermark_us == int(at(95).timestamp() * 1e6)
    matches = stream.push([(3, at(95)), (4, at(94.999999)), (5, None)])
    assert matches.n_late == 1
    assert repr(matches) == "<round 2: 3 rows, 3 matches, 1 late rows>"
    assert [(r["n"], r.is_late) for r in query.results()] == [
        (1, False),
        (2, False),
        (3, False),
        (4, True),
        (5, False),
    ]
    assert (stream.n_rows, stream.n_late) == (5, 1)


def test_the_watermark_never_goes_back():
    engine = eddyline.open()
    stream = engine.stream("s", "ts BIGINT", time="ts")
    stream.push([(100,)])
    stream.push([(50,)])
    assert stream.watermark_us == 100
    stream.push([(None,)])
    assert stream.watermark_us == 100


def test_a_row_is_late_only_against_its_own_stream():
    engine = eddyline.open()
    fast, slow = engine.stream("fast", "ts BIGINT", time="ts"), engine.stream("slow", "ts BIGINT", time="ts")
    fast.push([(1_000,)])
    assert slow.push([(1,)]).n_late == 0


def test_the_clock_of_the_engine_is_what_now_says_and_never_goes_back():
    times = iter([5_000_000, 9_000_000, 7_000_000, 20_000_000])
    engine = eddyline.open(clock=lambda: next(times))
    engine.stream("s", "n INT")
    query = engine.query("SELECT now() AS t FROM s")  # takes the first reading
    for n in range(2):
        engine.push("s", [(n,)])
    assert [r["t"].timestamp() for r in query.results()] == [9.0, 9.0]


def test_a_tick_may_set_the_time():
    engine = eddyline.open(clock=lambda: 1_000_000)
    engine.stream("s", "n INT")
    query = engine.query("SELECT now() AS t FROM s")
    engine.tick(now=60_000_000)
    engine.push("s", [(1,)])
    assert query.results()[0]["t"].timestamp() == 60.0


# --------------------------------------------------------------------------------------------- dead letters


def test_dead_letters_say_which_row_which_query_and_why(engine):
    engine.query("SELECT sym FROM trades WHERE 1 / price > 0", name="inverse")
    matches = engine.push("trades", rows(("A", 0.0), ("B", 2.0)))
    assert (matches.count, matches.n_dead) == (1, 1)
    assert repr(matches) == "<round 1: 2 rows, 1 matches, 1 dead letters>"
    (letter,) = engine.dead_letters()
    assert (letter.stream, letter.query, letter.error) == ("trades", "inverse", "DIVIDE_BY_ZERO")
    assert (letter.row, letter.round_number, letter.arrival) == ({"sym": "A", "price": 0.0}, 1, 1)


def test_a_row_that_does_not_fit_is_a_dead_letter_of_its_stream(engine):
    query = engine.query("SELECT sym FROM trades")
    matches = engine.push("trades", [{"sym": "A", "price": "dear"}, {"sym": "B", "price": 1.0}])
    assert (matches.count, matches.n_dead) == (1, 1)
    (letter,) = engine.dead_letters(stream="TRADES")
    assert (letter.query, letter.error) == (None, "ROW_DOES_NOT_FIT")
    assert letter.message == "column price: 'dear' is not DOUBLE"
    assert letter.row == {"sym": "A", "price": "dear"}
    assert query.results() == [{"sym": "B"}]
    assert engine.dead_letters(query=query) == []


def test_dead_letters_are_bounded_and_counted():
    engine = eddyline.open(dead_letters=3)
    engine.stream("s", "n INT")
    bad = engine.query("SELECT 1 / n AS x FROM s", name="bad")
    engine.query("SELECT 2 / n AS x FROM s", name="worse")
    matches = engine.push("s", [(0,)] * 10)
    assert matches.n_dead == 20
    letters = engine.dead_letters()
    assert (len(letters), letters.total) == (3, 20)
    assert engine.dead_letters(query=bad).total == 10
    assert "dead       10 rows could not be decided: see dead_letters()" in str(bad.explain())


# --------------------------------------------------------------------------------------------- events


def test_rounds_are_announced(engine):
    heard = []
    engine.on_event(heard.append)
    engine.query("SELECT sym FROM trades")
    engine.push("trades", rows(("A", 1.0), ("B", 1.0)))
    (event,) = engine.events()
    assert heard == [event]
    assert isinstance(event, RoundCommitted)
    assert (event.round_number, event.version, event.n_rows, event.n_results, event.n_dead) == (1, 2, 2, 2, 0)


# --------------------------------------------------------------------------------------------- statements


def test_statements_make_streams_and_queries():
    engine = eddyline.open()
    stream, query, select = engine.sql(
        "CREATE TABLE s (n INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '5 seconds');"
        "CREATE VIEW small AS SELECT n FROM s WHERE n < 10; SELECT n FROM s"
    )
    assert repr(stream) == "<stream s (n INT, ts TIMESTAMP)>"
    assert (query.name, query.text) == ("small", "SELECT n FROM s WHERE n < 10")
    assert select.text == "SELECT n FROM s"
    engine.push("s", [(1, None)])
    assert query.results() == [{"n": 1}]


def test_a_table_that_is_there_is_not_created_again():
    engine = eddyline.open()
    (stream,) = engine.sql("CREATE TABLE s (n INT)")
    (same,) = engine.sql("CREATE TABLE IF NOT EXISTS s (other INT)")
    assert same.schema == stream.schema
    with pytest.raises(SchemaError) as error:
        engine.sql("CREATE TABLE s (n INT)")
    assert str(error.value) == (
        "stream s already exists\n"
        "hint: Write CREATE OR REPLACE TABLE to change it, or CREATE TABLE IF NOT EXISTS."
    )
    (wider,) = engine.sql("CREATE OR REPLACE TABLE s (n INT, m INT)")
    assert wider.schema.names == ["n", "m"]


def test_views_are_created_replaced_altered_and_dropped():
    engine = eddyline.open()
    engine.sql("CREATE TABLE s (n INT); CREATE VIEW v AS SELECT n FROM s WHERE n > 0")
    view = engine.get("v")
    engine.sql("CREATE VIEW v AS SELECT n FROM s WHERE n > 0")  # the same text: nothing happens
    assert view.generation == 1
    (kept,) = engine.sql("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS one FROM s")
    assert kept.text == "SELECT n FROM s WHERE n > 0"
    with pytest.raises(EddylineError) as error:
        engine.sql("CREATE VIEW v AS SELECT n FROM s")
    assert str(error.value) == (
        "query v already exists, with another text\nhint: Write CREATE OR REPLACE VIEW to change it."
    )
    engine.sql("CREATE OR REPLACE VIEW v AS SELECT n FROM s WHERE n > 1")
    assert (view.text, view.generation) == ("SELECT n FROM s WHERE n > 1", 2)
    engine.sql("ALTER VIEW v AS SELECT n FROM s WHERE n > 2.5")
    assert (view.text, view.generation) == ("SELECT n FROM s WHERE n > 2.5", 3)
    engine.sql("ALTER VIEW v SET TBLPROPERTIES (enabled = 'false')")
    assert view.state == "paused"
    engine.sql("ALTER VIEW v UNSET TBLPROPERTIES (enabled)")
    assert view.state == "running"
    engine.push("s", [(3,)])
    assert view.latest() == [{"n": 3}]
    engine.sql("DROP VIEW v")
    assert view.state == "dropped"
    engine.sql("DROP VIEW IF EXISTS v; DROP TABLE s; DROP TABLE IF EXISTS s")
    with pytest.raises(UnknownNameError, match="there is no query v"):
        engine.sql("DROP VIEW v")
    with pytest.raises(UnknownNameError, match="there is no stream s"):
        engine.sql("DROP TABLE s")
    with pytest.raises(UnknownNameError, match="there is no query v"):
        engine.sql("ALTER VIEW v AS SELECT 1")


def test_nothing_is_done_if_one_statement_cannot_be_read():
    engine = eddyline.open()
    with pytest.raises(EddylineError):
        engine.sql("CREATE TABLE s (n INT); CREATE VEIW v AS SELECT n FROM s")
    assert engine.streams() == []


# --------------------------------------------------------------------------------------------- functions


def test_functions_are_counted_and_shared():
    calls = []

    @eddyline.udf(returns="bigint", name="counted_in_engine")
    def counted(n):
        calls.append(len(n))
        return n

    engine = eddyline.open()
    engine.stream("s", "n BIGINT")
    first = engine.query("SELECT counted_in_engine(n) AS m FROM s WHERE counted_in_engine(n) > 1")
    engine.query("SELECT n FROM s WHERE counted_in_engine(n) < 100 AND n > 2")
    engine.push("s", [(1,), (2,), (3,)])
    assert sum(calls) == 3  # at most once per row, for all queries and places
    assert engine.functions()["counted_in_engine"].n_rows == 3
    assert first.results() == [{"m": 2}, {"m": 3}]
    assert "calls      counted_in_engine version" in str(first.explain())


def test_a_function_is_called_only_on_rows_still_undecided():
    seen = []

    @eddyline.udf(returns="boolean", name="expensive_in_engine")
    def expensive(n: int) -> bool:
        seen.append(n)
        return True

    engine = eddyline.open()
    engine.stream("s", "n INT")
    engine.query("SELECT n FROM s WHERE expensive_in_engine(n) AND n > 8")
    engine.push("s", [(n,) for n in range(10)])
    assert seen == [9]


def test_arguments_of_declared_types_are_coerced_and_checked():
    @eddyline.udf(returns="double", name="typed_in_engine", takes=["double", "string"])
    def typed(x: float, label: str) -> float:
        assert isinstance(x, float)
        return x / 2

    engine = eddyline.open()
    engine.stream("s", "n INT, t STRING")
    query = engine.query("SELECT typed_in_engine(n, t) AS half FROM s")
    engine.push("s", [(3, "a")])
    assert query.results() == [{"half": 1.5}]
    for call in ("typed_in_engine(t, t)", "typed_in_engine(n)", "typed_in_engine(n, t, t)"):
        with pytest.raises(TypeMismatchError) as error:
            engine.query(f"SELECT {call} AS half FROM s")
        assert "typed_in_engine" in str(error.value)


def test_setup_cache_and_batch_work_from_sql():
    made, seen = [], []

    def load_model() -> dict[str, float]:
        made.append(1)
        return {"factor": 10.0}

    @eddyline.udf(
        returns="double", name="modelled", setup=load_model, cache="10 minutes", batch=2, scalar=True
    )
    def modelled(model, n):
        seen.append(n)
        return model["factor"] * n

    engine = eddyline.open()
    engine.stream("s", "n INT")
    query = engine.query("SELECT modelled(n) AS m FROM s WHERE modelled(n) > 10")
    engine.push("s", [(n,) for n in (1, 2, 2, 3)])
    engine.push("s", [(3,), (4,)])
    assert [r["m"] for r in query.results()] == [20.0, 20.0, 30.0, 30.0, 40.0]
    assert (len(made), seen) == (1, [1, 2, 3, 4])
    assert engine.functions()["modelled"].n_cached >= 1


def test_a_pandas_udf_works_from_sql():
    functions, types = pytest.importorskip("pyspark.sql.functions"), pytest.importorskip("pyspark.sql.types")

    def with_tax(price):
        return price * 1.25

    with_tax.__annotations__ = {"price": pd.Series, "return": pd.Series}
    eddyline.from_pandas_udf(functions.pandas_udf(with_tax, types.DoubleType()))
    engine = eddyline.open()
    engine.stream("s", "price DOUBLE")
    query = engine.query("SELECT with_tax(price) AS p FROM s WHERE with_tax(price) > 2")
    engine.push("s", [(1.0,), (2.0,), (None,)])
    assert query.results() == [{"p": 2.5}]


def test_a_function_that_is_not_deterministic_is_called_for_every_place_on_its_own():
    numbers = iter(range(100))

    @eddyline.udf(returns="int", name="ticket", deterministic=False, scalar=True)
    def ticket(n):
        return next(numbers)

    engine = eddyline.open()
    engine.stream("s", "n INT")
    queries = [engine.query("SELECT ticket(n) AS a, ticket(n) AS b FROM s") for _ in range(2)]
    queries.append(engine.query("SELECT ticket(n) AS a FROM s WHERE n > 0"))
    engine.push("s", [(1,), (1,)])
    drawn = [value for query in queries for row in query.results() for value in row.values()]
    assert len(drawn) == len(set(drawn)) == 10


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda n: 1 / 0, "function misbehaves raised ZeroDivisionError: division by zero"),
        (lambda n: n.slice(1), "function misbehaves returned 0 values for 1 row"),
        (lambda n: ["x"] * len(n), "function misbehaves returned values that are not INT"),
    ],
    ids=["raises", "wrong length", "wrong type"],
)
def test_a_function_that_misbehaves_costs_only_its_own_queries(result, message):
    @eddyline.udf(returns="int", name="misbehaves")
    def misbehaves(n):
        return result(n)

    engine = eddyline.open()
    engine.stream("s", "n INT")
    bad, good = engine.query("SELECT n FROM s WHERE misbehaves(n) = 1"), engine.query("SELECT n FROM s")
    engine.push("s", [(1,), (2,)])
    assert (bad.results(), good.results()) == ([], [{"n": 1}, {"n": 2}])
    assert [letter.message[: len(message)] for letter in engine.dead_letters(query=bad)] == [message] * 2


def test_a_query_keeps_the_version_of_a_function_until_it_is_registered_anew():
    engine = eddyline.open()
    engine.stream("s", "n INT")

    @eddyline.udf(returns="int", name="evolving")
    def first(n: int) -> int:
        return n + 1

    old = engine.query("SELECT evolving(n) AS m FROM s", name="old")

    @eddyline.udf(returns="int", name="evolving")
    def second(n: int) -> int:
        return n + 100

    new = engine.query("SELECT evolving(n) AS m FROM s", name="new")
    engine.push("s", [(1,)])
    assert (old.results(), new.results()) == ([{"m": 2}], [{"m": 101}])
    engine.query("SELECT evolving(n) AS m FROM s", name="old")  # the same text means the new function now
    engine.push("s", [(1,)])
    assert old.results() == [{"m": 101}]
    assert old.generation == 2


# --------------------------------------------------------------------------------------------- closing


def test_a_closed_engine_refuses_everything():
    with eddyline.open() as engine:
        engine.stream("s", "n INT")
        query = engine.query("SELECT n FROM s")
    for use in (
        lambda: engine.push("s", [(1,)]),
        lambda: engine.query("SELECT n FROM s"),
        lambda: engine.query_many(["SELECT n FROM s"]),
        lambda: engine.stream("t", "n INT"),
        lambda: engine.tick(),
        lambda: engine.queries(),
        lambda: engine.get(1),
        lambda: engine.explain("SELECT n FROM s"),
        lambda: engine.drop_stream("s"),
        lambda: engine.sql("SELECT n FROM s"),
        lambda: query.results(),
        lambda: query.results(timeout=5),
        lambda: query.latest(),
        lambda: query.pause(),
        lambda: query.drop(),
        lambda: query.text,
    ):
        with pytest.raises(ClosedError) as error:
            use()
        assert str(error.value) == "this engine was closed\nhint: Open another with eddyline.open()."
    engine.close()


def test_a_notebook_shows_streams_rows_and_queries(engine):
    engine.query("SELECT sym FROM trades")
    engine.push("trades", rows(("A", 1.0)))
    html = engine._repr_html_()
    assert "version 2, 1 queries" in html
    assert "<tr><td>trades</td><td>1</td><td>1</td></tr>" in html


def test_the_pairs_of_a_push_are_offsets_and_ids(engine):
    a, b = engine.query("SELECT sym FROM trades WHERE price < 10"), engine.query("SELECT sym FROM trades")
    matches = engine.push("trades", rows(("A", 50.0), ("B", 5.0), ("C", None)))
    offsets, ids = matches.pairs()
    assert offsets.tolist() == [0, 1, 3, 4]
    by_row = [sorted(each.tolist()) for each in np.split(ids, offsets[1:-1])]
    assert by_row == [[b.id], [a.id, b.id], [b.id]]
    assert matches.rows().tolist() == [0, 1, 1, 2]
    assert offsets.dtype == np.int64
    assert {query.id for query in matches.queries()} == {a.id, b.id}
    assert matches.to_arrow(a).to_pylist() == [{"sym": "B"}]
    assert matches.to_arrow(b)["sym"].to_pylist() == ["A", "B", "C"]


def test_the_matches_of_a_round_stay_as_they_were_when_queries_change(engine):
    changed, dropped = engine.query("SELECT sym FROM trades"), engine.query("SELECT price FROM trades")
    matches = engine.push("trades", rows(("A", 5.0)))
    changed.replace("SELECT price, sym FROM trades")
    dropped.drop()
    assert matches.to_arrow(changed).to_pylist() == [{"sym": "A"}]
    assert [(query.id, query.state) for query in matches.queries()] == [
        (changed.id, "running"), (dropped.id, "dropped"),
    ]  # fmt: skip


def test_pairs_of_a_round_without_matches_and_of_several_streams(engine):
    engine.stream("quotes", "sym STRING")
    assert [part.tolist() for part in engine.push("trades", rows(("A", 1.0))).pairs()] == [[0, 0], []]
    both = engine.push({"trades": [], "quotes": []})
    with pytest.raises(UnknownNameError) as error:
        both.pairs()
    assert str(error.value) == "this round has rows of 2 streams\nhint: Name one: trades, quotes."
    assert both.pairs("Trades")[0].tolist() == [0]
    with pytest.raises(UnknownNameError) as error:
        both.pairs("quote")
    assert str(error.value) == "this round has no rows of stream quote\nhint: Did you mean quotes?"
    with pytest.raises(UnknownNameError) as error:
        engine.tick().pairs()
    assert str(error.value) == "this round has rows of 0 streams\nhint: A tick has no rows."
    assert engine.tick().queries() == []


def test_pairs_of_old_rounds_with_a_token_are_no_longer_kept(engine):
    query = engine.query("SELECT sym FROM trades")
    for n in range(65):
        engine.push("trades", rows((str(n), 1.0)), token=f"t{n}")
    old = engine.push("trades", [], token="t0")
    assert (old.count, old.is_repeat) == (1, True)
    with pytest.raises(EddylineError) as error:
        old.to_arrow(query)
    assert str(error.value) == (
        "the pairs of round 1 are no longer kept\nhint: Its results can still be read from the queries."
    )
    assert engine.push("trades", [], token="t64").to_arrow(query).to_pylist() == [{"sym": "64"}]


@pytest.mark.parametrize("has_home", [False, True], ids=["in memory", "with a home"])
def test_tokens_are_known_as_long_as_the_glossary_says(tmp_path, monkeypatch, has_home):
    """In memory the newest, of which there are few here; a home knows those of all rounds it keeps."""
    monkeypatch.setattr(eddyline.engine.push_tokens, "REMEMBERED_TOKENS", 3)
    monkeypatch.setattr(eddyline.engine.push_tokens, "REMEMBERED_OUTPUTS", 2)
    with eddyline.open(tmp_path / "home" if has_home else None) as engine:
        engine.stream("s", "n INT")
        for k in range(70):  # more than one look at what is past retention
            engine.push("s", [(k,)], token=f"t{k}")
        repeats = [k for k in reversed(range(70)) if engine.push("s", [(k,)], token=f"t{k}").is_repeat]
        assert repeats == (list(reversed(range(70))) if has_home else [69, 68, 67])
