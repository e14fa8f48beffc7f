"""Joins as users see them: explain, results, receipts and proof, why, alerts, warnings, the audit."""

from __future__ import annotations

import datetime

import pytest

import eddyline
from eddyline.errors import SchemaError, UnknownNameError
from eddyline.explain.size_history import HISTORY_POINTS
from eddyline.model import FIRST_DERIVED
from eddyline.proof import checksum_of
from eddyline.receipts.receipts import _prove_plainly
from eddyline.server.metrics import metrics_text

DECLARED = """
    CREATE TABLE trades (sym STRING, price DOUBLE, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '5 seconds');
    CREATE TABLE news (sym STRING, head STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '5 seconds');
    CREATE TABLE quotes (sym STRING PRIMARY KEY, bid DOUBLE)
"""
HOT = (
    "SELECT t.sym, t.price, n.head FROM trades t JOIN news n ON t.sym = n.sym "
    "AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES WHERE t.price > 5"
)
NEWEST = "SELECT t.sym, n.head FROM trades t JOIN recent(news, 100) n ON t.sym = n.sym"
LATEST = "SELECT t.*, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym WHERE t.price < q.bid"


def at(seconds: float) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, 9, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home") as opened:
        opened.sql(DECLARED)
        yield opened


def push_some(engine: eddyline.Engine) -> None:
    engine.push("quotes", [("A", 11.0), ("B", 1.0)])
    engine.push("news", [("A", "merger", at(0)), ("B", "fire", at(1))])
    engine.push("trades", [("A", 10.0, at(5)), ("B", 3.0, at(6)), ("C", 7.0, at(7))])


# --------------------------------------------------------------------------------------------- what is kept, and how


def test_a_join_is_explained_in_the_words_of_its_text(engine):
    query = engine.query(HOT, name="hot")
    engine.query(HOT.replace("> 5", "> 50"), name="rare")
    push_some(engine)
    lines = str(query.explain()).splitlines()
    assert "  input      trades t: until the watermark of news n passes its time" in lines
    assert "  input      news n: until the watermark of trades t passes its time + 10 minutes" in lines
    assert "  join       t.sym = n.sym" in lines
    assert "  executed   as one join with 1 other query" in lines
    texts = [condition["text"] for condition in query.explain().as_dict()["conditions"]]
    assert texts == ["t.ts >= n.ts", "t.ts <= n.ts + INTERVAL 10 MINUTES", "t.price > 5"]
    held = {entry["alias"]: entry["held"] for entry in query.explain().as_dict()["join"]["inputs"]}
    assert (held["t"]["rows"], held["t"]["n_queries"]) == (2, 2)  # B at 3 is wanted by nobody
    assert (held["n"]["rows"], held["n"]["n_queries"]) == (2, 2)


@pytest.mark.parametrize(
    ("text", "kept", "conditions"),
    [
        (NEWEST, "the newest 100 rows", ["n is among the newest 100 rows of news"]),
        (
            NEWEST.replace("100", "INTERVAL 5 MINUTES"),
            "5 minutes from arrival",
            ["n arrived less than 5 minutes ago"],
        ),
        (NEWEST.replace("100", "1"), "the newest row", ["n is the newest row of news"]),
    ],
)
def test_windows_are_said_in_words(engine, text, kept, conditions):
    facts = engine.query(text).explain().as_dict()
    by_alias = {entry["alias"]: entry["kept"] for entry in facts["join"]["inputs"]}
    assert by_alias == {"t": "not kept: its rows meet what came before them", "n": kept}
    assert [condition["text"] for condition in facts["conditions"]] == conditions


def test_a_text_is_explained_before_any_query_of_its_join_stands(engine):
    facts = engine.explain(HOT).as_dict()
    assert facts["streams"] == ["trades", "news"]
    assert facts["join"]["n_queries"] == 0
    assert [origin["why"] for origin in facts["join"]["origins"]] == [None, None]


def test_what_joins_keep_is_told_by_stream_and_by_join(engine):
    engine.query(HOT)
    engine.query(NEWEST)
    push_some(engine)
    found = engine.joins()
    assert found["news"]["rows"] == 2
    assert found["news"]["found_by"] == ["sym"]
    assert (found["news"]["n_queries"], found["news"]["n_signatures"]) == (2, 2)
    assert (found["trades"]["rows"], found["trades"]["n_queries"]) == (2, 1)
    assert [each["words"] for each in found.signatures] == ["news with trades", "news with trades"]
    assert [each["keys"] for each in found.signatures] == [["news.sym = trades.sym"]] * 2
    (origin,) = found.signatures[1]["origins"]
    assert (origin["name"], origin["order"], origin["n_drivers"], origin["n_combinations"]) == (
        *("trades", ["news"]),
        *(3, 2),
    )
    assert "trades: window, 2 rows" in str(found)
    assert found.as_dict()["streams"]["news"]["rows"] == 2


def test_streams_count_the_queries_that_join_them(engine):
    engine.query(HOT)
    engine.query("SELECT sym FROM trades WHERE price > 1")
    assert {stream.name: stream.n_queries for stream in engine.streams()} == {
        "trades": 2,
        "news": 1,
        "quotes": 0,
    }


@pytest.mark.thorough
def test_sizes_over_time_stay_few_however_long_it_runs():
    now = [0]
    with eddyline.open(clock=lambda: now[0]) as engine:
        engine.sql(DECLARED)
        engine.query(NEWEST)
        for k in range(3 * HISTORY_POINTS):
            now[0] += 1_000_000
            engine.push("news", [("A", "x", at(k))])
        points = engine.join_history.points()
    assert HISTORY_POINTS / 2 < len(points) <= HISTORY_POINTS + 1
    rounds = [point["round"] for point in points]
    assert rounds == sorted(set(rounds))
    assert rounds[-1] == 3 * HISTORY_POINTS
    assert points[-1]["streams"]["news"]["rows"] == 100


def test_metrics_have_the_rows_and_bytes_of_each_stream(engine):
    engine.query(NEWEST)
    push_some(engine)
    lines = metrics_text(engine).decode().splitlines()
    assert 'eddyline_join_kept_rows{stream="news"} 2.0' in lines
    assert "eddyline_joins 1.0" in lines
    assert "eddyline_join_joined_rows_total 2.0" in lines


def test_dead_letters_of_a_join_are_in_the_words_of_its_query(engine):
    query = engine.query(NEWEST + " WHERE t.price / length(n.head) > 1 AND 1 / (length(n.head) - 4) >= 0")
    engine.push("news", [("A", "fire", at(0))])
    engine.push("trades", [("A", 10.0, at(5))])
    (letter,) = engine.dead_letters(stream="news")
    assert letter.stream == "trades, news"
    assert letter.query_id == query.id
    assert (letter.row["t.price"], letter.row["n.head"]) == (10.0, "fire")


# --------------------------------------------------------------------------------------------- receipts and proof


def test_a_receipt_of_a_join_holds_the_row_of_each_input_and_its_round(engine):
    query = engine.query(NEWEST)
    push_some(engine)
    result = query.latest()[0]
    receipt = engine.receipt(result)
    assert result.arrival == FIRST_DERIVED  # no query takes the two changes of quotes before it
    assert [(row["alias"], row["arrival"], row["round"]) for row in receipt["rows"]] == [
        ("t", 5, 3),
        ("n", 3, 2),
    ]
    assert result.arrivals == (5, 3)
    assert receipt["rows"][1]["row"]["head"] == "merger"
    assert receipt["rows"][1]["window"] == {"n_rows": 100, "n_behind_at_most": 1}
    assert receipt.is_intact
    assert "of round 2, at most 1 later row of news, among the newest 100" in str(receipt)


@pytest.mark.parametrize("text", [HOT, NEWEST, LATEST])
def test_duckdb_proves_a_join_over_its_rows_and_finds_a_forged_value(engine, text):
    query = engine.query(text)
    push_some(engine)
    receipt = engine.receipt(query.latest()[0])
    proof = _prove_plainly(receipt)
    assert proof.is_proven, proof
    forged = {**receipt, "result": {**receipt["result"], "sym": "forged"}}
    forged["checksum"] = checksum_of(forged)
    assert not _prove_plainly(forged).is_proven


def test_a_forged_row_does_not_match_any_more(engine):
    query = engine.query(HOT)
    push_some(engine)
    forged = dict(engine.receipt(query.latest()[0]))
    trade, headline = forged["rows"]
    forged["rows"] = [trade, {**headline, "row": {**headline["row"], "sym": "B"}}]
    forged["checksum"] = checksum_of(forged)
    proof = _prove_plainly(forged)
    assert not proof.is_proven
    assert proof.found is None
    assert "Rows 5, 3 do not match." in proof.note


def test_a_stream_that_is_joined_with_itself_has_a_table_for_each_side(engine):
    query = engine.query(
        "SELECT a.price AS low, b.price AS high FROM recent(trades, 10) a JOIN recent(trades, 10) b "
        "ON a.sym = b.sym AND a.price < b.price"
    )
    engine.push("trades", [("A", 1.0, at(0)), ("A", 2.0, at(1))])
    (result,) = query.latest()
    assert (dict(result), result.arrivals) == ({"low": 1.0, "high": 2.0}, (1, 2))
    assert _prove_plainly(engine.receipt(result)).is_proven


def test_receipts_are_found_after_the_home_was_opened_again(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.sql(DECLARED)
        engine.query(HOT, name="hot")
        push_some(engine)
    with eddyline.open(tmp_path / "home") as engine:
        (result,) = engine.get("hot").latest()
        rows = engine.receipt(result)["rows"]
    assert [(row["alias"], row["row"]["sym"], row["arrival"]) for row in rows] == [
        ("t", "A", 5),
        ("n", "A", 3),
    ]


def test_the_audit_judges_results_of_joins_over_the_rows_they_are_made_of(engine):
    engine.query(HOT)
    engine.query(LATEST)
    engine.start_audit(1.0)
    push_some(engine)
    assert engine.finish_audit(60)
    counters = engine.audited()
    assert (counters.n_differences, dict(counters.skipped)) == (0, {})
    assert counters.n_pairs == 2
    assert counters.n_queries == 2


# --------------------------------------------------------------------------------------------- why


def test_why_asks_a_join_about_one_row_of_each_input(engine):
    query = engine.query(HOT, name="hot")
    found = query.why(
        {"t": {"sym": "A", "price": 3.0, "ts": at(5)}, "n": {"sym": "B", "head": "x", "ts": at(0)}}
    )
    assert not found
    assert [(clause.condition, clause.verdict) for clause in found.clauses] == [
        ("t.sym = n.sym", "false"),
        ("t.ts >= n.ts", "true"),
        ("t.ts <= n.ts + INTERVAL 10 MINUTES", "true"),
        ("t.price > 5", "false"),
    ]
    assert found.clauses[0].values == {"n.sym": "B", "t.sym": "A"}
    assert str(found).startswith("the rows do not match hot")


def test_why_takes_columns_behind_their_alias_and_says_what_only_arrival_can_say(engine):
    found = engine.query(NEWEST).why({"t.sym": "A", "N.sym": "A"})
    assert found
    assert found.notes == ("also, which depends on when they arrive: n is among the newest 100 rows of news",)


def test_why_of_a_result_asks_about_the_rows_it_is_made_of(engine):
    query = engine.query(HOT)
    push_some(engine)
    assert query.why(query.latest()[0])


def test_why_names_what_is_no_input(engine):
    query = engine.query(HOT)
    with pytest.raises(UnknownNameError) as error:
        query.why({"price": 3.0})
    assert error.value.problem == "price is none of the inputs of this join"
    assert error.value.hint == 'Write {"t": {…}, "n": {…}}.'
    with pytest.raises(SchemaError) as misfit:
        query.why({"t": {"prize": 1.0}})
    assert misfit.value.problem == "stream trades has no column prize"


def test_why_not_says_what_stops_each_stream_and_then_pairs(engine):
    query = engine.query(HOT.replace("10 MINUTES", "3 SECONDS"))
    push_some(engine)
    found = query.why_not()
    trades, headlines = found.inputs
    assert (trades.input, trades.n_rows, trades.n_passed) == ("trades t", 3, 2)
    assert (trades.conditions, trades.stopped) == (("t.price > 5",), (1,))
    assert trades.without_partner == {"news n": 1}  # C
    assert headlines.without_partner == {"trades t": 1}  # B, whose trade was stopped
    assert (found.n_rows, found.n_matched) == (1, 0)
    assert dict(zip(found.conditions, found.stopped, strict=True)) == {
        "t.ts >= n.ts": 0,
        "t.ts <= n.ts + INTERVAL 3 SECONDS": 1,
    }
    assert found.nearest_row["t.price"] == 10.0


# --------------------------------------------------------------------------------------------- alerts and warnings


def test_alerts_fire_by_columns_of_several_streams(engine):
    engine.query(HOT, name="hot", per="sym", message="{sym} at {price} after {head}", resolve="1 minute")
    push_some(engine)
    (message,) = engine.messages()
    assert (message.status, message.message) == ("firing", "A at 10.0 after merger")
    assert [row["alias"] for row in engine.receipt(message.result)["rows"]] == ["t", "n"]
    (alert,) = engine.alerts()
    assert alert.key == {"sym": "A"}


def test_registration_warns_of_very_many_results_for_each_row(engine):
    engine.push("news", [("ABC"[k % 3], "x", at(k / 10)) for k in range(600)])
    asked = HOT.replace("10 MINUTES", "6 MINUTES")
    (warning,) = engine.explain(asked).as_dict()["warnings"]
    assert warning == (
        "about 1,200 results for each row of trades t: did you mean the latest row of news n? "
        "Declare a key, or narrow its window"
    )
    assert engine.query(asked).warnings == [warning]
    assert engine.query(HOT.replace("10 MINUTES", "10 SECONDS")).warnings == []
    assert engine.query(NEWEST).warnings == []


def test_nothing_is_warned_of_while_little_is_known(engine):
    engine.push("news", [("A", "x", at(0))] * 10)
    assert engine.query(NEWEST.replace("100", "100000")).warnings == []
    assert engine.query(LATEST).warnings == []
