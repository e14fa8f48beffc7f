"""Receipts, why and the audit of queries that read views: down to the rows of declared streams."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

import eddyline
from eddyline.api import Commands
from eddyline.catalog import VersionLog, suspend_queries
from eddyline.errors import NotBuiltError, ProofError, ReceiptError
from eddyline.events import AuditDifference
from eddyline.proof import claim_of
from eddyline.receipts import Audit, Receipt, prove
from eddyline.receipts import receipts as receipts_module
from eddyline.storage import outbox
from tests.on_workers import through_tasks

pytestmark = pytest.mark.usefixtures("no_session")  # tests/spark/test_prove_views.py has audits by Spark

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
WITHIN = "INTERVAL 4 SECONDS"
A_TRADE = {"sym": "A", "price": 20.0, "qty": 10}


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.sql("""
            CREATE TABLE trades (sym STRING, price DOUBLE, qty INT);
            CREATE TABLE a (k INT, x INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
            CREATE TABLE b (k INT, y INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
            CREATE TABLE quotes (sym STRING PRIMARY KEY, bid DOUBLE)
        """)
        yield engine


def trading(engine: eddyline.Engine) -> None:
    engine.query(
        "SELECT sym, price * qty AS value FROM trades WHERE price > :low", name="big", params={"low": 10}
    )
    engine.query("SELECT sym, value FROM big WHERE value > :low -- more", name="rich", params={"low": 100})
    engine.query("SELECT * FROM Rich r WHERE r.sym = 'A';", name="mine")


def at(seconds: int) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


def one(engine: eddyline.Engine, name: str, owner: str = "") -> Receipt:
    """The receipt of the newest result of a query."""
    receipt = engine.receipt(engine.get(name, owner=owner).latest()[-1])
    assert receipt.is_intact
    return receipt


def based_on(receipt: Receipt) -> list[tuple[str, str, int]]:
    """What it calls each row, the stream, and the arrival number."""
    return [(row.get("alias", ""), row["stream"], row["arrival"]) for row in receipt["rows"]]


def flat(text: str) -> str:
    return " ".join(text.split())


# --------------------------------------------------------------------------------------------- receipts


def test_a_receipt_has_the_row_of_the_stream_and_the_text_with_its_views_written_out(engine):
    trading(engine)
    engine.push("trades", [{"sym": "B", "price": 20.0, "qty": 10}, A_TRADE])
    receipt = one(engine, "mine")
    assert based_on(receipt) == [("", "trades", 2)]
    assert receipt["rows"][0]["row"] == A_TRADE
    assert receipt["rows"][0]["seen"] == ["sym", "price", "qty"]
    assert receipt["text"] == "SELECT * FROM Rich r WHERE r.sym = 'A';"
    written = receipt["written_out"]
    assert flat(written["text"]) == (
        "SELECT * FROM (SELECT sym, value FROM (SELECT sym, price * qty AS value FROM trades WHERE price > :v2_low ) "
        "AS `big` WHERE value > :v1_low -- more ) AS `r` WHERE r.sym = 'A'"
    )
    assert written["params"] == {
        "v1_low": {"type": "DOUBLE", "value": 100.0},
        "v2_low": {"type": "DOUBLE", "value": 10.0},
    }
    texts = {view["name"]: written["text"][view["start"] : view["end"]] for view in written["views"]}
    assert flat(texts["big"]) == "SELECT sym, price * qty AS value FROM trades WHERE price > :v2_low"
    assert flat(texts["rich"]).startswith("SELECT sym, value FROM (SELECT sym,")
    assert receipt["result"] == {"sym": "A", "value": 200.0}
    claim = claim_of(receipt)
    assert claim.text == written["text"]
    assert claim.params["v2_low"][1] == 10.0
    assert "  written   SELECT * FROM (SELECT" in str(receipt)
    assert "  :v2_low   10.0 (DOUBLE)" in str(receipt)


def test_a_query_that_reads_no_view_is_not_written_out(engine):
    trading(engine)
    engine.push("trades", [A_TRADE])
    assert "written_out" not in one(engine, "big")


def test_parameters_of_views_never_have_the_name_of_a_parameter_of_the_query(engine):
    engine.query("SELECT qty FROM trades WHERE qty > :x", name="v", params={"x": 1})
    engine.query("SELECT qty FROM v WHERE qty < :v1_x AND qty <> :x", name="r", params={"v1_x": 50, "x": 3})
    engine.push("trades", [A_TRADE])
    receipt = one(engine, "r")
    assert receipt["params"].keys() == {"v1_x", "x"}
    assert receipt["written_out"]["params"] == {"v1_x_": {"type": "BIGINT", "value": 1}}
    assert "qty > :v1_x_\n) AS `v` WHERE qty < :v1_x AND" in receipt["written_out"]["text"]


def test_the_views_are_those_the_round_saw_also_if_they_were_replaced_paused_or_dropped_since(engine):
    trading(engine)
    engine.get("big").pause()
    engine.push("trades", [A_TRADE])
    before = one(engine, "mine")
    engine.query("SELECT sym, price AS value FROM trades", name="big")
    engine.push("trades", [A_TRADE | {"price": 300.0}])
    after = one(engine, "mine")
    assert "price * qty AS value" in before["written_out"]["text"]
    assert "SELECT sym, price AS value FROM trades\n)" in after["written_out"]["text"]
    assert (before["generation"], after["generation"]) == (1, 2)
    engine.sql("DROP VIEW big CASCADE")
    assert engine.receipt(after["id"]) == after
    engine.query("SELECT sym FROM trades", name="big")  # another one of that name
    engine.query("SELECT sym FROM big", name="other", owner="ann")
    assert [engine.receipt(each["id"]) for each in (before, after)] == [before, after]


def test_views_of_owners_and_members_of_templates_are_found_by_the_names_they_had(engine):
    engine.query("SELECT sym AS own FROM trades", name="big", owner="ann")
    engine.query("SELECT qty AS own FROM trades", name="big")
    engine.query("SELECT own FROM big", name="of ann", owner="ann")
    engine.query("SELECT own FROM ann.big", name="of all")
    engine.query("SELECT own FROM `of ann` AS o", name="upon", owner="ann")
    members = engine.query_many(
        "SELECT sym, qty FROM trades WHERE sym = :sym", params=[{"sym": "A"}, {"sym": "B"}], name="only {sym}"
    )
    engine.query("SELECT m.q FROM `only A` m(s, q)", name="of a member")
    readers = engine.query_many(
        "SELECT qty FROM `only A` WHERE qty > :low", params=[{"low": 1}, {"low": 99}], name="above {low}"
    )
    engine.push("trades", [A_TRADE])

    def written(name: str, owner: str = "") -> str:
        return flat(one(engine, name, owner)["written_out"]["text"])

    assert written("of ann", "ann") == "SELECT own FROM (SELECT sym AS own FROM trades ) AS `big`"
    assert written("of all") == "SELECT own FROM (SELECT sym AS own FROM trades ) AS `ann.big`"
    assert written("upon", "ann") == (
        "SELECT own FROM (SELECT own FROM (SELECT sym AS own FROM trades ) AS `big` ) AS `o`"
    )
    member = "(SELECT sym, qty FROM trades WHERE sym = :v1_sym )"
    assert written("of a member") == f"SELECT m.q FROM {member} AS `m`(s, q)"
    assert written("above 1") == f"SELECT qty FROM {member} AS `only A` WHERE qty > :low"
    assert readers[1].latest() == []
    ids = [one(engine, name)["id"] for name in ("of a member", "above 1")]
    engine.drop("of a member")
    for each in (*readers, *members):
        each.drop()
    for result_id in ids:
        assert engine.receipt(result_id)["written_out"]["params"]["v1_sym"]["value"] == "A"


def test_a_star_of_a_view_stands_for_the_columns_there_were(engine):
    engine.query("SELECT * FROM trades", name="every")
    engine.query("SELECT * FROM every WHERE qty > 1", name="some")
    engine.stream("trades", "sym STRING, price DOUBLE, qty INT, later STRING")
    engine.push("trades", [A_TRADE | {"later": "x"}])
    receipt = one(engine, "some")
    assert receipt["rows"][0]["seen"] == ["sym", "price", "qty"]
    assert receipt["result"] == A_TRADE


def joining(engine: eddyline.Engine) -> None:
    engine.query("SELECT k, x + 1 AS x, ts FROM a WHERE x > 2", name="va")
    engine.query(
        f"SELECT a.k, a.x, b.y, b.ts FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + {WITHIN}",
        name="ab",
    )
    engine.query("SELECT x, y FROM ab WHERE x <> y", name="of ab")
    engine.query("SELECT x FROM `of ab`", name="deep")
    engine.query(
        f"SELECT v.x, v.y, b.y AS z FROM ab v JOIN b ON v.k = b.k AND b.ts BETWEEN v.ts AND v.ts + {WITHIN}",
        name="diamond",
    )
    engine.query(
        f"SELECT o.x, p.x AS z FROM va o JOIN va p ON o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + {WITHIN}"
        " AND o.x < p.x",
        name="self",
    )
    engine.query("SELECT r.x FROM recent(ab, INTERVAL 1 HOUR) r JOIN b ON r.k = b.k", name="recent ab")
    engine.query("SELECT r.x FROM recent(va, INTERVAL 1 HOUR) r JOIN b ON r.k = b.k", name="recent va")


@pytest.mark.parametrize("in_tasks", [False, True])
def test_rows_of_joins_over_views_are_those_of_streams_in_the_order_of_the_text(engine, in_tasks):
    if in_tasks:
        through_tasks(engine, n_pieces=2, join_from_rows=1)
    joining(engine)
    engine.push("b", [(1, 7, at(0))])
    engine.push("a", [(1, 5, at(0)), (1, 6, at(1))])
    engine.push("b", [(1, 8, at(2))])
    found = {name: based_on(one(engine, name)) for name in ("deep", "diamond", "self", "recent ab")}
    assert found == {
        "deep": [("a", "a", 3), ("b", "b", 1)],
        "diamond": [("a", "a", 3), ("v_b", "b", 1), ("b", "b", 4)],
        "self": [("o", "a", 2), ("p", "a", 3)],
        "recent ab": [("a", "a", 3), ("r_b", "b", 1), ("b", "b", 4)],
    }
    assert one(engine, "deep")["format"] == 2
    latest, *_ = one(engine, "recent ab")["rows"]
    assert latest["window"]["duration_us"] == 3_600_000_000
    window = one(engine, "recent va")["rows"][0]["window"]
    assert window["duration_us"] == 3_600_000_000
    assert "FROM recent(a, INTERVAL 1 HOUR) WHERE x > 2" in one(engine, "recent va")["written_out"]["text"]


def test_rows_of_a_table_have_receipts_as_they_come_and_as_they_leave(engine):
    engine.query("SELECT sym, bid FROM quotes WHERE bid > 10", name="high")
    engine.query("SELECT sym FROM high WHERE bid < 60", name="middle")
    engine.query("SELECT t.qty, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym", name="priced")
    engine.query("SELECT bid FROM priced WHERE qty > 1", name="many")
    engine.push("quotes", [{"sym": "A", "bid": 5.0}, {"sym": "B", "bid": 50.0}])
    engine.push("quotes", [{"sym": "B", "bid": 55.0}])
    engine.push("trades", [A_TRADE])
    assert based_on(one(engine, "high")) == [("quotes", "quotes", 3)]
    assert based_on(one(engine, "middle")) == [("high", "quotes", 3)]
    assert based_on(one(engine, "many")) == [("t", "trades", 4), ("q", "quotes", 1)]
    engine.push("quotes", [{"sym": "B", "bid": 1.0}])
    for name in ("high", "middle"):
        left = one(engine, name)
        assert (left["change"], left["rows"][0]["arrival"]) == ("delete", 3)
        assert [(each["arrival"], each["row"]) for each in left["changes"]] == [(5, {"sym": "B", "bid": 1.0})]


def test_a_view_that_is_no_longer_known_is_named(engine, monkeypatch):
    trading(engine)
    engine.push("trades", [A_TRADE])
    monkeypatch.setattr("eddyline.receipts.expansion.view_at", lambda *_: None)
    with pytest.raises(
        ReceiptError, match="what rich was in version 7, when mine read it, is no longer known"
    ):
        one(engine, "mine")


def test_results_outlive_what_is_known_of_how_their_streams_were_declared(engine):
    trading(engine)
    engine.push("trades", [A_TRADE])
    receipts = [one(engine, name) for name in ("big", "mine")]
    engine.stream("trades", "sym STRING, price DOUBLE, qty INT, later STRING")
    database = engine.rounds.durable.database
    VersionLog(database).forget(engine.version, results_from=1)
    assert "trades" not in [stream.name for stream in database.streams.at(receipts[1]["round"]["version"])]
    assert [engine.receipt(each["id"]) for each in receipts] == receipts


def test_a_query_of_with_that_hides_a_stream_of_a_view_is_refused(engine):
    trading(engine)
    text = "WITH trades AS (SELECT sym FROM big) SELECT t.sym FROM trades t"
    engine.query(text, name="hiding")
    engine.push("trades", [A_TRADE])
    with pytest.raises(NotBuiltError, match="hiding cannot be written out over streams") as caught:
        one(engine, "hiding")
    assert caught.value.detail == "Its WITH calls a query trades, as a stream is called that view big reads."
    with pytest.raises(NotBuiltError, match="hiding cannot be written out over streams"):
        engine.get("hiding").why({})


def test_functions_of_views_are_named_and_what_is_not_deterministic_there_is_not_proven(engine, monkeypatch):
    @eddyline.udf(returns="double", version="1", deterministic=False, scalar=True)
    def view_drawn(x):
        return x

    @eddyline.udf(returns="double", version="2", scalar=True)
    def view_same(x):
        return x

    engine.query("SELECT view_drawn(price) AS p, qty FROM trades", name="drawn")
    engine.query("SELECT view_same(p) AS p FROM drawn WHERE p > 1", name="reader")
    engine.push("trades", [A_TRADE])
    receipt = one(engine, "reader")
    assert receipt["functions"] == [
        {"name": "view_same", "version": "2", "is_deterministic": True},
        {"name": "view_drawn", "version": "1", "is_deterministic": False},
    ]
    monkeypatch.setattr(receipts_module, "is_installed", lambda: False)
    with pytest.raises(ProofError) as caught:
        prove(receipt)
    assert "function view_drawn is not deterministic, so it cannot be asked again" in caught.value.detail


# --------------------------------------------------------------------------------------------- why


def verdicts(why) -> list[tuple[str, str]]:
    return [(clause.verdict, clause.condition) for clause in why.clauses]


def test_why_asks_a_row_of_the_stream_and_names_the_view_whose_condition_failed():
    with eddyline.open() as engine:
        engine.sql("CREATE TABLE trades (sym STRING, price DOUBLE, qty INT)")
        engine.query("SELECT sym, price * qty AS value FROM trades WHERE price > 10", name="big")
        engine.query("SELECT sym, value FROM big WHERE value > 100", name="rich")
        mine = engine.query("SELECT value FROM rich WHERE sym = 'A'", name="mine")
        found = mine.why({"sym": "A", "price": 5.0, "qty": 100})
        assert verdicts(found) == [
            ("false", "view big: price > 10"),
            ("true", "view rich: value > 100"),
            ("true", "sym = 'A'"),
        ]
        assert str(found).splitlines()[:2] == [
            "the row does not match mine",
            "  no       view big: price > 10   (price = 5.0)",
        ]
        assert mine.why(A_TRADE).matches
        engine.push("trades", [A_TRADE | {"qty": 1}, A_TRADE | {"price": 1.0}, A_TRADE])
        not_found = mine.why_not()
        assert (not_found.n_rows, not_found.n_matched) == (3, 1)
        assert dict(zip(not_found.conditions, not_found.stopped_alone, strict=True)) == {
            "view big: price > 10": 0,
            "view rich: value > 100": 1,
            "sym = 'A'": 0,
        }
        assert not_found.nearest_row == A_TRADE | {"qty": 1}
        assert mine.why_not().notes == ()
        trial = engine.try_query("SELECT sym FROM rich WHERE value < :most", params={"most": 250})
        assert (trial.n_rows, trial.n_matched) == (3, 1)


def test_why_of_a_join_over_views_takes_a_row_of_each_stream(engine):
    joining(engine)
    engine.push("b", [(1, 7, at(0))])
    engine.push("a", [(1, 5, at(0)), (1, 6, at(1))])
    diamond, self_join, deep = (engine.get(name) for name in ("diamond", "self", "deep"))
    assert deep.why(deep.latest()[0]).matches
    assert diamond.why(diamond.latest()[0]).matches
    row_a, row_b = {"k": 1, "x": 5, "ts": at(0)}, {"k": 1, "y": 7, "ts": at(0)}
    found = diamond.why({"a": row_a, "v_b": row_b | {"k": 2}, "b": row_b})
    assert [condition for verdict, condition in verdicts(found) if verdict != "true"] == [
        "view ab: a.k = v_b.k"
    ]
    found = self_join.why({"o": row_a | {"x": 1}, "p": row_a})
    assert ("false", "view va: x > 2") in verdicts(found)
    commands = Commands(engine)
    result = one(engine, "self")
    answer = commands.why_result(result=result["id"])
    assert answer["matches"]
    assert answer["is_join"]
    of_view = [each["values"] for each in answer["clauses"] if each["condition"] == "view va: x > 2"]
    assert of_view == [{"o.x": 5}, {"p.x": 6}]
    counted = self_join.why_not()
    assert [each.input for each in counted.inputs] == ["a o", "a p"]
    assert counted.n_matched == 1


def test_a_query_of_with_that_reads_a_view_may_be_read_twice(engine):
    joining(engine)
    twice = engine.query(
        "WITH w AS (SELECT k, x, ts FROM va) SELECT p.x, q.x AS z FROM w p JOIN w q ON p.k = q.k "
        f"AND q.ts BETWEEN p.ts AND p.ts + {WITHIN} AND p.x < q.x",
        name="twice",
    )
    engine.push("a", [(1, 5, at(0)), (1, 6, at(1))])
    assert based_on(one(engine, "twice")) == [("p", "a", 1), ("q", "a", 2)]
    found = twice.why(twice.latest()[0])
    assert verdicts(found)[0] == (
        "true",
        "p.k = q.k",
    )  # of the query, though both inputs stand in the text of va
    assert ("true", "view va: p.x > 2") in verdicts(found)
    with pytest.raises(ProofError, match="w, a query of WITH, is read 2 times"):
        engine.prove(twice.latest()[0])


def test_a_text_is_tried_with_the_views_of_its_owner(engine):
    engine.query("SELECT qty FROM trades WHERE qty > 100", name="v")
    engine.query("SELECT sym AS own FROM trades WHERE qty > 1", name="v", owner="ann")
    engine.push("trades", [A_TRADE])
    assert engine.try_query("SELECT own FROM v", owner="ann").n_matched == 1
    assert engine.try_query("SELECT qty FROM v").n_matched == 0


def test_why_of_a_result_is_about_the_views_it_was_made_with(engine):
    trading(engine)
    engine.push("trades", [A_TRADE])
    result_id = one(engine, "mine")["id"]
    engine.query("SELECT sym, price AS value FROM trades WHERE price > 1000", name="big")
    answer = Commands(engine).why_result(result=result_id)
    assert answer["matches"]
    assert [clause["condition"] for clause in answer["clauses"]] == [
        "view big: price > 10.0",
        "view rich: price * CAST(qty AS DOUBLE) > 100.0",
        "sym = 'A'",
    ]
    assert not engine.get("mine").why(A_TRADE).matches


def test_recent_rows_of_a_view_over_a_join_are_asked_about_with_a_note(engine):
    joining(engine)
    engine.push("b", [(1, 7, at(0))])
    engine.push("a", [(1, 5, at(0))])
    engine.push("b", [(1, 8, at(2)), (2, 9, at(2))])
    reader = engine.get("recent ab")
    note = "also, which depends on when they arrive: the row of the view is in recent(ab, INTERVAL 1 HOUR)"
    (result,) = reader.latest()
    found = reader.why(result)
    assert (found.matches, found.notes) == (True, (note,))
    answer = Commands(engine).why_result(result=engine.receipt(result)["id"])
    assert (answer["matches"], answer["notes"]) == (True, (note,))
    row_a, row_b = {"k": 1, "x": 5, "ts": at(0)}, {"k": 1, "y": 7, "ts": at(0)}
    found = reader.why({"a": row_a, "r_b": row_b, "b": row_b | {"k": 2}})
    assert [condition for verdict, condition in verdicts(found) if verdict != "true"] == ["a.k = b.k"]
    counted = reader.why_not()
    assert note in counted.notes
    assert [(each.input, each.n_rows) for each in counted.inputs] == [("a", 1), ("b r_b", 3), ("b", 3)]
    trial = engine.try_query(reader.text)
    assert [(each.input, each.n_passed) for each in trial.inputs] == [("a", 1), ("b r_b", 3), ("b", 3)]
    above = engine.query("SELECT x FROM ab WHERE x > 4", name="above ab")
    deep = engine.query(
        "SELECT r.x FROM recent(`above ab`, INTERVAL 1 HOUR) r JOIN b ON r.x = b.y", name="deep recent"
    )
    assert deep.why({}).notes == (note,)
    assert above.why({}).notes == ()


def test_what_is_no_single_query_when_written_out_is_refused_with_the_reason(engine):
    joining(engine)
    engine.query("SELECT k, y AS v, ts FROM b UNION ALL SELECT k, x, ts FROM a", name="u")
    text = f"SELECT a.x, u.v FROM a LEFT JOIN u ON u.k = a.k AND u.ts BETWEEN a.ts AND a.ts + {WITHIN}"
    reader = engine.query(text, name="left")
    engine.push({"a": [(1, 5, at(0))], "b": [(1, 7, at(0))]})
    for question in (lambda: reader.why({}), reader.why_not, lambda: engine.try_query(reader.text)):
        with pytest.raises(
            NotBuiltError, match="cannot be asked about down to the rows of streams"
        ) as caught:
            question()
        assert caught.value.detail.endswith(
            "it is no query that is built: UNION ALL is not supported on the right side of LEFT JOIN."
        )
    assert one(engine, "left").is_intact


def test_a_suspended_view_is_told():
    with eddyline.open() as engine:
        engine.sql("CREATE TABLE trades (sym STRING, price DOUBLE, qty INT)")
        view = engine.query("SELECT sym, price FROM trades", name="v")
        reader = engine.query("SELECT sym FROM v", name="r")
        suspend_queries(engine.rounds.catalog, {view.id: "it is broken"}, engine.rounds.now_us())
        assert reader.why_not().notes[-1] == "view v is suspended, so it gives no rows: it is broken"


# --------------------------------------------------------------------------------------------- the audit


def judged(engine: eddyline.Engine):
    audit = Audit(engine, 0.0)
    for number in range(1, engine.rounds.last_round + 1):
        audit.judge(number)
    audit.close()
    return audit.counters


def test_the_audit_judges_readers_of_views_and_finds_what_is_wrong(engine, monkeypatch):
    trading(engine)
    silent = engine.query("SELECT sym FROM big WHERE value > 1000000.0", name="silent")
    engine.query("SELECT sym, bid FROM quotes WHERE bid > 10.0", name="high")
    engine.query("SELECT sym FROM high WHERE bid < 60.0", name="middle")
    engine.query("SELECT t.qty, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym", name="priced")
    engine.query("SELECT bid FROM priced WHERE qty > 1", name="many")
    engine.push("quotes", [{"sym": "A", "bid": 5.0}, {"sym": "B", "bid": 50.0}])
    engine.push("trades", [A_TRADE, A_TRADE | {"price": 5.0}, A_TRADE | {"qty": 1}])
    counters = judged(engine)
    assert (counters.n_differences, counters.skipped) == (0, {})
    assert counters.n_queries == 2 + 6  # high, middle; big, rich, mine, silent, priced, many
    assert silent.latest() == []

    def forged(part, generations):
        stored = outbox.stored_part(part, generations)
        if stored.rows.schema.names == ["sym", "value"] and engine.get("rich").id in stored.query_ids:
            rows = stored.rows.set_column(1, "value", pa.array([1.0] * len(part)))
            marks = stored.query_ids, stored.generations, stored.arrivals, stored.signs, stored.is_late
            return outbox.StoredPart(*marks, rows)
        return stored

    monkeypatch.setattr("eddyline.engine.durable.stored_part", forged)
    engine.push("trades", [A_TRADE])
    Audit(engine, 0.0).judge(3)
    (found,) = [event for event in engine.events() if isinstance(event, AuditDifference)]
    assert (found.query, found.n_different) == ("rich", 1)
    assert found.example == "Row 6: value is 200.0, in the result 1.0."


def test_rows_that_are_dead_letters_of_a_view_are_left_out_and_a_suspended_view_is_skipped(engine):
    view = engine.query("SELECT k, x FROM a WHERE k * x * 1000000 > 0", name="large")
    engine.query("SELECT k FROM large WHERE x < 5", name="small")
    engine.push("a", [(1, 1, at(0)), (1 << 30, 4, at(0))])
    assert [letter.query for letter in engine.dead_letters()] == ["large"]
    counters = judged(engine)
    assert (counters.n_queries, counters.n_pairs, counters.n_differences) == (2, 2, 0)
    suspend_queries(engine.rounds.catalog, {view.id: "it is broken"}, engine.rounds.now_us())
    engine.push("a", [(1, 1, at(0))])
    view.resume()
    audit = Audit(engine, 0.0)
    audit.judge(2)
    assert audit.counters.skipped == {"a query that reads a suspended view": 1}
    audit.close()


def test_a_receipt_of_a_reader_is_proven_without_spark(engine, monkeypatch):
    monkeypatch.setattr(receipts_module, "is_installed", lambda: False)
    trading(engine)
    joining(engine)
    engine.push("trades", [A_TRADE])
    engine.push("b", [(1, 7, at(0))])
    engine.push("a", [(1, 5, at(0)), (1, 6, at(1))])
    engine.push("b", [(1, 8, at(2))])
    for name in ("rich", "mine", "of ab", "deep", "diamond", "self", "recent va"):
        proof = prove(one(engine, name))
        assert proof.is_proven, f"{name}: {proof}"
        assert proof.engine.startswith("DuckDB")


def test_the_audit_takes_rows_of_tables_one_by_one(engine):
    engine.query("SELECT sym, bid FROM quotes WHERE bid > 10.0", name="high")
    engine.push("quotes", [{"sym": "A", "bid": 5.0}, {"sym": "B", "bid": 50.0}, {"sym": "B", "bid": 60.0}])
    engine.push("quotes", [{"sym": "B", "bid": 55.0}])
    engine.push("quotes", [{"sym": "B", "bid": 1.0}])
    counters = judged(engine)
    # a row that came, both images of an update, and the row that left
    assert (counters.n_pairs, counters.n_differences, counters.skipped) == (4, 0, {})
