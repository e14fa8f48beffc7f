"""Joins with views over tables: what they find, what they keep, what is said of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import eddyline
from eddyline.catalog import suspend_queries
from eddyline.receipts import Audit

pytestmark = pytest.mark.usefixtures("no_session")  # DuckDB judges audits here


def results(engine: eddyline.Engine, name: str) -> list[Any]:
    return engine.get(name).latest(100_000)


def quotes(engine: eddyline.Engine) -> None:
    engine.sql("CREATE TABLE trades (sym STRING, price DOUBLE)")
    engine.sql("CREATE TABLE quotes (sym STRING PRIMARY KEY, bid DOUBLE)")
    engine.query("SELECT sym, bid FROM quotes WHERE bid > 10", name="high")


def values(engine: eddyline.Engine, name: str) -> list[Any]:
    return [(result.change, *result.values()) for result in results(engine, name)]


def test_a_row_of_a_stream_meets_the_rows_that_the_view_had_before_its_round():
    with eddyline.open() as engine:
        quotes(engine)
        engine.push("quotes", [("A", 20.0), ("B", 5.0)])
        engine.query("SELECT t.sym, h.bid FROM trades t JOIN high h ON t.sym = h.sym", name="met")
        engine.push({"quotes": [("A", 30.0), ("B", 50.0)], "trades": [("A", 1.0), ("B", 1.0)]})
        engine.push("trades", [("A", 2.0), ("B", 2.0)])
        assert values(engine, "met") == [("insert", "A", 20.0), ("insert", "A", 30.0), ("insert", "B", 50.0)]


def test_a_result_names_the_rows_that_the_row_of_the_view_is_made_of():
    with eddyline.open() as engine:
        quotes(engine)
        engine.push("quotes", [("A", 20.0)])
        engine.query("SELECT t.sym, h.bid FROM trades t JOIN high h ON t.sym = h.sym", name="met")
        engine.push("trades", [("A", 1.0)])
        engine.push("quotes", [("A", 30.0)])
        engine.push("trades", [("A", 1.0)])
        assert [result.arrivals for result in results(engine, "met")] == [(2, 1), (4, 3)]


def test_a_value_of_several_rows_is_made_of_none_of_them():
    with eddyline.open() as engine:
        quotes(engine)
        engine.query("SELECT DISTINCT bid FROM quotes", name="bids")
        engine.push("quotes", [("A", 20.0), ("B", 20.0)])
        engine.query("SELECT t.sym FROM trades t JOIN bids b ON t.price = b.bid", name="met")
        engine.push("trades", [("C", 20.0)])
        assert [result.arrivals for result in results(engine, "met")] == [(3, 0)]


def test_an_update_of_a_view_is_an_update_of_its_join_with_a_table():
    with eddyline.open() as engine:
        quotes(engine)
        engine.sql("CREATE TABLE names (sym STRING PRIMARY KEY, name STRING)")
        engine.push({"quotes": [("A", 20.0)], "names": [("A", "Acme")]})
        engine.query("SELECT n.name, h.bid FROM high h JOIN names n ON n.sym = h.sym", name="named")
        engine.push("quotes", [("A", 30.0)])
        engine.push({"quotes": [("A", 40.0)], "names": [("A", "Ajax")]})
        engine.push("quotes", [("A", 5.0)])
        assert values(engine, "named") == [
            ("insert", "Acme", 30.0),
            ("update_preimage", "Acme", 30.0),
            ("update_postimage", "Ajax", 40.0),
            ("delete", "Ajax", 40.0),
        ]


def test_a_view_is_kept_once_for_all_joins_and_only_while_some_join_reads_it():
    with eddyline.open() as engine:
        quotes(engine)
        engine.push("quotes", [("A", 20.0), ("B", 30.0)])
        for number in range(3):
            text = f"SELECT t.sym FROM trades t JOIN high h ON t.sym = h.sym AND t.price > {number}"
            engine.query(text, name=f"q{number}")
        engine.query("SELECT h.sym FROM high h JOIN quotes q ON h.bid = q.bid", name="other")
        engine.tick()
        kept = engine.rounds.flow.view_tables.tables
        assert list(kept) == ["high"]
        assert engine.joins()["high"]["rows"] == 2
        for name in ("q0", "q1", "q2", "other"):
            engine.drop(name)
        engine.tick()
        assert not kept


@pytest.mark.parametrize("is_reopened", [False, True], ids=["running", "reopened"])
def test_a_row_that_leaves_and_returns_in_one_round_is_the_new_one_for_joins_with_views(
    tmp_path, is_reopened
):
    engine = eddyline.open(tmp_path / "home")
    quotes(engine)
    engine.query("SELECT t.sym, h.bid FROM trades t JOIN high h ON t.sym = h.sym", name="met")
    engine.push("quotes", [("A", 20.0)])
    engine.push("quotes", [("A", 5.0), ("A", 20.0)])
    assert values(engine, "high") == [("insert", "A", 20.0)]
    if is_reopened:
        engine.close()
        engine = eddyline.open(tmp_path / "home")
    engine.push("trades", [("A", 1.0)])
    assert [result.arrivals for result in results(engine, "met")] == [(4, 3)]
    engine.close()


def test_a_set_over_a_set_loses_its_rows_also_in_the_round_in_which_it_gets_a_reader():
    with eddyline.open() as engine:
        quotes(engine)
        engine.query("SELECT DISTINCT sym, bid FROM quotes", name="pairs")
        engine.query("SELECT DISTINCT bid FROM pairs", name="bids")
        engine.push("quotes", [("A", 20.0), ("B", 20.0), ("C", 30.0)])
        engine.query("SELECT bid FROM bids WHERE bid > 1", name="reader")
        engine.push("quotes", [{"sym": sym, "_change_type": "delete"} for sym in "AB"])
        assert values(engine, "bids") == [("insert", 20.0), ("insert", 30.0), ("delete", 20.0)]
        assert values(engine, "reader") == [("insert", 30.0)]


def test_a_view_that_is_replaced_is_kept_anew():
    with eddyline.open() as engine:
        quotes(engine)
        engine.query("SELECT t.sym, h.bid FROM trades t JOIN high h ON t.sym = h.sym", name="met")
        engine.push("quotes", [("A", 20.0), ("B", 5.0)])
        engine.query("SELECT sym, bid + 0.5 AS bid FROM quotes WHERE bid < 10", name="high")
        engine.push("trades", [("A", 1.0), ("B", 1.0)])
        assert values(engine, "met") == [("insert", "B", 5.5)]
        engine.get("high").pause()
        engine.push("quotes", [("C", 6.0)])
        engine.get("high").resume()
        engine.push("trades", [("B", 1.0), ("C", 1.0)])
        assert values(engine, "met")[1:] == [("insert", "B", 5.5), ("insert", "C", 6.5)]


def test_an_alert_over_a_join_of_a_table_with_a_view_resolves_when_the_row_leaves_the_view():
    with eddyline.open() as engine:
        quotes(engine)
        engine.sql("CREATE TABLE names (sym STRING PRIMARY KEY, name STRING)")
        text = "SELECT n.name, h.bid FROM high h JOIN names n ON n.sym = h.sym"
        engine.query(text, name="named", per="name", deliver="ops")
        engine.push({"quotes": [("A", 20.0)], "names": [("A", "Acme")]})
        engine.push("quotes", [("A", 30.0)])
        assert [alert.state for alert in engine.alerts()] == ["firing"]
        engine.push("quotes", [("A", 1.0)])
        assert not engine.alerts()


def test_an_error_in_a_join_with_a_view_is_a_dead_letter_without_hidden_columns():
    with eddyline.open() as engine:
        quotes(engine)
        engine.sql("CREATE TABLE limits (id INT PRIMARY KEY, most DOUBLE)")
        engine.query("SELECT h.sym FROM high h JOIN limits l ON CAST(h.sym AS INT) = l.id", name="keyed")
        engine.push("quotes", [("A", 20.0), ("7", 20.0)])
        (letter,) = engine.dead_letters()
        assert (letter.row, letter.arrival) == ({"sym": "A", "bid": 20.0}, None)


REFUSED = {
    "SELECT t.sym FROM trades t JOIN recent(high, 3) h ON t.sym = h.sym": (
        "recent does not take high, a view over tables"
    ),
    "SELECT t.sym FROM trades t ASOF JOIN high h ON t.sym = h.sym": (
        "ASOF JOIN does not take high, a view over tables"
    ),
    "SELECT t.sym FROM trades t JOIN fresh f ON t.sym = f.sym": (
        "fresh cannot be joined: it asks for now(), or calls a function that is not deterministic"
    ),
    "SELECT t.sym FROM trades t JOIN above f ON t.sym = f.sym": (
        "above cannot be joined: it asks for now(), or calls a function that is not deterministic"
    ),
    "SELECT h.sym FROM high h LEFT JOIN trades t ON t.sym = h.sym": (
        "LEFT JOIN of high, a view over tables, takes a right side that is a table too"
    ),
    "SELECT h.sym FROM high h JOIN trades t ON TRUE": "no condition connects trades t to the rest of the query",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_join_cannot_do_with_a_view_over_tables_is_refused_by_name(text):
    with eddyline.open() as engine:
        quotes(engine)
        engine.query("SELECT sym FROM quotes WHERE bid > 10 AND now() > TIMESTAMP '2020-01-01'", name="fresh")
        engine.query("SELECT sym FROM fresh", name="above")
        with pytest.raises(eddyline.EddylineError) as caught:
            engine.query(text)
        assert caught.value.problem == REFUSED[text]
        assert caught.value.span is not None
        assert caught.value.hint


@pytest.mark.parametrize("kind", ["stream", "table"])
def test_a_suspended_view_gives_joins_no_rows_and_stops_no_round(kind):
    with eddyline.open() as engine:
        quotes(engine)
        engine.query("SELECT sym, price FROM trades WHERE price > 0", name="priced")
        view = {"stream": "priced v JOIN quotes q", "table": "high v JOIN trades q"}[kind]
        engine.query(f"SELECT v.sym FROM {view} ON v.sym = q.sym", name="met")
        engine.push("quotes", [("A", 20.0)])
        engine.push("trades", [("A", 1.0)])
        with engine.rounds.lock:
            names = [engine.get(name).id for name in ("priced", "high")]
            suspend_queries(engine.rounds.catalog, dict.fromkeys(names, "a test"), 0)
        engine.push("trades", [("A", 2.0)])
        assert len(results(engine, "met")) == 1
        assert "reads      view" in str(engine.get("met").explain())
        engine.get("priced").resume()
        engine.get("high").resume()
        engine.push("trades", [("A", 3.0)])
        assert len(results(engine, "met")) == 2


def test_explain_says_what_is_kept_of_a_view_and_what_it_reads():
    with eddyline.open() as engine:
        quotes(engine)
        engine.push("quotes", [("A", 20.0)])
        engine.query("SELECT t.sym, h.bid FROM trades t JOIN high h ON t.sym = h.sym", name="met")
        engine.push("trades", [("A", 1.0)])
        shown = str(engine.get("met").explain())
        assert "input      high h: its rows, as they were before the round\n    held     1 row" in shown
        assert (
            "reads      view high: SELECT sym, bid FROM quotes WHERE bid > 10\n  reads        table quotes"
            in shown
        )
        joins = engine.joins()
        assert (joins["high"]["kind"], joins["high"]["found_by"]) == ("table", ["sym"])
        assert "high: at its latest rows, 1 row" in str(joins)


def test_results_of_joins_with_views_over_tables_are_proven_down_to_the_rows_of_tables(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        quotes(engine)
        engine.sql("CREATE TABLE names (sym STRING PRIMARY KEY, name STRING)")
        engine.query("SELECT q.sym, q.bid, n.name FROM quotes q JOIN names n ON q.sym = n.sym", name="named")
        met = engine.query("SELECT t.sym, h.bid FROM trades t JOIN high h ON t.sym = h.sym", name="met")
        both = engine.query("SELECT h.bid, n.name FROM high h JOIN named n ON h.sym = n.sym", name="both")
        engine.push({"quotes": [("A", 20.0)], "names": [("A", "Acme")]})
        engine.push("trades", [("A", 1.0)])
        receipt = engine.receipt(met.latest(1)[0])
        assert [(row["stream"], row["arrival"]) for row in receipt["rows"]] == [("trades", 3), ("quotes", 1)]
        assert "(SELECT sym, bid FROM quotes WHERE bid > 10\n) AS `h`" in receipt["written_out"]["text"]
        arrivals = [row["arrival"] for row in engine.receipt(both.latest(1)[0])["rows"]]
        assert arrivals == [1, 1, 2]
        rows = {"t": {"sym": "A", "price": 1.0}, "h": {"sym": "A", "bid": 5.0}}
        assert "no       view high: bid > 10" in str(met.why(rows))
        audit = Audit(engine, 0.0)
        for number in range(1, engine.rounds.last_round + 1):
            audit.judge(number)
        audit.close()
        assert (audit.counters.n_differences, audit.counters.skipped) == (0, {})


def test_a_value_of_a_union_names_no_part_of_it_also_through_another_view(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        quotes(engine)
        engine.sql("CREATE TABLE limits (sym STRING PRIMARY KEY, most DOUBLE)")
        engine.query("SELECT bid AS v FROM quotes UNION SELECT most AS v FROM limits", name="united")
        engine.query("SELECT v FROM united WHERE v > 1", name="above")
        engine.query("SELECT t.sym FROM trades t JOIN above a ON t.price = a.v", name="met")
        engine.push("limits", [("A", 20.0)])
        engine.push("quotes", [("A", 20.0)])
        engine.push("trades", [("A", 20.0)])
    with eddyline.open(tmp_path / "home") as engine:
        engine.push("trades", [("A", 20.0)])
        assert [result.arrivals for result in results(engine, "met")] == [(3, 0, 0), (4, 0, 0)]
        receipts = [engine.receipt(result) for result in results(engine, "met")]
        assert [[row["stream"] for row in each["rows"]] for each in receipts] == [["trades", "quotes"]] * 2


def test_a_receipt_of_a_join_with_a_set_has_a_row_in_which_its_value_occurred(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        quotes(engine)
        engine.query("SELECT DISTINCT bid FROM quotes", name="bids")
        engine.query("SELECT bid FROM bids WHERE bid > 1", name="some")
        met = engine.query("SELECT t.sym FROM trades t JOIN some b ON t.price = b.bid", name="met")
        engine.push("quotes", [("A", 20.0), ("B", 30.0), ("D", 20.0)])
        engine.push("trades", [("C", 20.0)])

        def rows() -> list[tuple[str, int]]:
            return [(row["stream"], row["arrival"]) for row in engine.receipt(met.latest(1)[0])["rows"]]

        assert rows() == [("trades", 4), ("quotes", 3)]
        engine.push("quotes", [("D", 50.0), ("B", 20.0)])  # what came later was not there
        assert rows() == [("trades", 4), ("quotes", 1)]
        engine.push("quotes", [("A", 60.0)])  # of rows that have left it is the newest
        assert rows() == [("trades", 4), ("quotes", 3)]


def test_a_view_is_not_replaced_by_what_its_joins_could_not_read():
    with eddyline.open() as engine:
        quotes(engine)
        engine.query("SELECT t.sym, h.bid FROM trades t JOIN high h ON t.sym = h.sym", name="met")
        for text in (
            "SELECT sym, bid FROM quotes WHERE now() > TIMESTAMP '2020-01-01'",
            "SELECT sym, price AS bid FROM trades",
        ):
            with pytest.raises(eddyline.EddylineError) as caught:
                engine.query(text, name="high")
            assert "met could not" in caught.value.detail
        engine.push("quotes", [("A", 20.0)])
        engine.push("trades", [("A", 1.0)])
        assert values(engine, "met") == [("insert", "A", 20.0)]


@pytest.mark.parametrize("of", ["trades", "quotes"])
def test_a_view_replaced_by_one_of_more_rows_has_these_in_its_joins(of):
    with eddyline.open() as engine:
        quotes(engine)
        engine.sql("CREATE TABLE limits (sym STRING PRIMARY KEY, most DOUBLE)")
        engine.query(f"SELECT sym FROM {of}", name="v")
        engine.query("SELECT l.sym FROM v JOIN limits l ON v.sym = l.sym", name="met")
        engine.query(f"SELECT t.sym FROM {of} t JOIN quotes q ON t.sym = q.sym", name="v")
        engine.push("limits", [("A", 20.0)])
        engine.push("quotes", [("A", 20.0)])
        engine.push("trades", [("A", 20.0)])
        assert [result.arrivals for result in results(engine, "met")] == [
            {"trades": (3, 2, 1), "quotes": (2, 2, 1)}[of]
        ]
