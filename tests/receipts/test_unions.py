"""Receipts, proofs, why, trials and the audit of queries with UNION ALL, and of readers of views that have it."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import pyarrow as pa
import pytest

import eddyline
from eddyline.api import Commands
from eddyline.errors import NotBuiltError, SchemaError
from eddyline.events import AuditDifference
from eddyline.proof import checksum_of
from eddyline.receipts import Audit, Receipt, prove
from eddyline.receipts import receipts as receipts_module
from eddyline.storage import outbox
from tests.engine import test_unions as random_unions
from tests.on_workers import through_tasks

pytestmark = pytest.mark.usefixtures("no_session")  # DuckDB judges audits here

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PLACES = ("in process", "in tasks", "workers join")
NEAR = "a.ts BETWEEN b.ts AND b.ts + INTERVAL 4 SECONDS"
QUERIES = {
    "streams": "SELECT k, x AS v FROM a WHERE x > 3\nUNION ALL\nSELECT k, y FROM b\n"
    "UNION ALL SELECT k, x + 100 FROM a WHERE x > 5",
    "with a join": f"SELECT k, x AS v FROM a WHERE x = 7 UNION ALL\nSELECT a.k, b.y FROM a JOIN b ON a.k = b.k AND {NEAR}",
    "in FROM": "SELECT u.v, t.name FROM (SELECT k, x AS v FROM a WHERE x > 2\nUNION ALL SELECT k, y FROM b) u "
    "JOIN t ON t.k = u.k",
    "u": "SELECT k, x AS v, ts FROM a WHERE x > 4 UNION ALL\n\nSELECT k, y, ts FROM b WHERE y < :most",
    "reader": "SELECT v FROM u WHERE v > 1",
    "above": "SELECT v, v AS w FROM\nreader\nUNION ALL SELECT k, v FROM u WHERE v <> 8",
    "joined": "SELECT u.v, b.y FROM u JOIN b ON u.k = b.k AND b.ts BETWEEN u.ts AND u.ts + INTERVAL 2 SECONDS",
    "tables": "SELECT k, name FROM t WHERE name < 'd' UNION ALL SELECT k, name FROM s WHERE name > 'b'",
}


def at(seconds: int) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


def opened(folder: Path, place: str = PLACES[0]) -> eddyline.Engine:
    engine = eddyline.open(folder / "home", results_per_query=1_000)
    if not engine.streams():
        for name, column in (("a", "x"), ("b", "y")):
            engine.sql(f"CREATE TABLE {name} (k INT, {column} INT, ts TIMESTAMP) TBLPROPERTIES (time='ts')")
        for name in "st":
            engine.sql(f"CREATE TABLE {name} (k INT PRIMARY KEY, name STRING)")
    if place != PLACES[0]:
        through_tasks(engine, n_pieces=2, join_from_rows=1 if place == PLACES[2] else 1_000_000)
    return engine


def registered(engine: eddyline.Engine) -> eddyline.Engine:
    for name, text in QUERIES.items():
        engine.query(text, name=name, params={"most": 50} if name == "u" else None)
    return engine


def pushed(engine: eddyline.Engine) -> None:
    engine.push({"t": [(1, "c"), (2, "e")], "s": [(1, "c"), (2, "a")]})
    engine.push({"a": [(1, 7, at(0)), (2, 3, at(0)), (1, 4, at(1))], "b": [(1, 8, at(0)), (2, 60, at(1))]})
    engine.push({"a": [(2, 9, at(2))], "b": [(2, 5, at(2)), (1, 9, at(3))]})


@pytest.fixture
def engine(tmp_path):
    with opened(tmp_path) as engine:
        yield engine


def receipts(engine: eddyline.Engine, name: str) -> list[Receipt]:
    found = [engine.receipt(result) for result in engine.get(name).latest(1_000)]
    assert found
    assert all(receipt.is_intact for receipt in found), name
    return found


def based_on(receipt: Receipt) -> list[tuple[str, int]]:
    return [(row["stream"], row["arrival"]) for row in receipt["rows"]]


def judged(engine: eddyline.Engine):
    audit = Audit(engine, 0.0)
    for number in range(1, engine.rounds.last_round + 1):
        audit.judge(number)
    audit.close()
    return audit.counters


# --------------------------------------------------------------------------------------------- receipts


def test_a_receipt_has_the_rows_of_the_part_that_gave_the_result_and_says_which(engine):
    engine.query(QUERIES["streams"], name="q")
    engine.push({"a": [(1, 7, at(0))], "b": [(2, 3, at(0))]})
    found = {receipt["result"]["v"]: receipt for receipt in receipts(engine, "q")}
    assert {v: (receipt["part"], *based_on(receipt)) for v, receipt in found.items()} == {
        7: ("part 1 of UNION ALL, line 1", ("a", 1)),
        3: ("part 2 of UNION ALL, line 3", ("b", 2)),
        107: ("part 3 of UNION ALL, line 4", ("a", 1)),
    }
    third = found[107]
    assert third["format"] == 3
    assert third["text"] == QUERIES["streams"]
    assert [(each["number"], each["stream"], each["row"]) for each in third["other_inputs"]] == [
        (0, "a", None),
        (1, "b", None),
    ]
    assert "  of        part 3 of UNION ALL, line 4" in str(third).splitlines()
    assert third["rows"][0]["row"]["x"] == 7


def test_a_receipt_goes_down_through_views_to_the_part_that_gave_the_row(engine):
    registered(engine)
    pushed(engine)
    found = {(receipt["part"], *based_on(receipt)) for receipt in receipts(engine, "reader")}
    assert found == {
        ("part 1 of UNION ALL, line 1 of view u", ("a", 5)),
        ("part 1 of UNION ALL, line 1 of view u", ("a", 10)),
        ("part 2 of UNION ALL, line 3 of view u", ("b", 8)),
        ("part 2 of UNION ALL, line 3 of view u", ("b", 11)),
        ("part 2 of UNION ALL, line 3 of view u", ("b", 12)),
    }
    parts = {receipt["part"] for receipt in receipts(engine, "above")}
    assert parts == {
        f"part {own} of UNION ALL, line {line}; part {below} of UNION ALL, line {deep} of view u"
        for own, line in ((1, 1), (2, 3))
        for below, deep in ((1, 1), (2, 3))
    }
    joined = {tuple(based_on(receipt)) for receipt in receipts(engine, "joined")}
    assert (("a", 5), ("b", 8)) in joined
    assert (("b", 8), ("b", 8)) in joined


def test_a_star_of_a_part_stands_for_the_columns_there_were_whatever_other_parts_name(engine, no_spark):
    engine.sql("CREATE TABLE c (k INT); CREATE TABLE d (later INT)")
    engine.query("SELECT * FROM c UNION ALL SELECT later FROM d WHERE later > 1", name="q")
    engine.stream("c", "k INT, later INT")
    engine.push({"c": [(1, 2)], "d": [(5,)]})
    first, second = receipts(engine, "q")
    assert [row["seen"] for row in (*first["rows"], *second["rows"])] == [["k"], ["later"]]
    assert prove(first).is_proven
    assert prove(second).is_proven


def test_receipts_are_the_same_in_every_place_and_after_a_restart(tmp_path):
    found = {}
    for place in PLACES:
        folder = tmp_path / place
        with opened(folder, place) as engine:
            pushed(registered(engine))
        with opened(folder, place) as engine:
            found[place] = {
                name: [
                    (receipt["id"], receipt["part"], *based_on(receipt), *receipt["result"].values())
                    for receipt in receipts(engine, name)
                ]
                for name in QUERIES
            }
    assert found[PLACES[0]] == found[PLACES[1]] == found[PLACES[2]]


def test_a_union_view_without_a_row_on_the_side_of_an_outer_join(engine):
    near = "u.ts BETWEEN a.ts AND a.ts + INTERVAL 4 SECONDS"
    engine.query("SELECT k, y AS v, ts FROM b UNION ALL SELECT k, y + 100, ts FROM b WHERE y > 5", name="u")
    engine.query(f"SELECT a.x, u.v FROM a LEFT JOIN u ON u.k = a.k AND {near}", name="left")
    for seconds in (0, 60, 120):
        engine.push({"a": [(1, 7, at(seconds)), (3, 8, at(seconds))], "b": [(1, 9, at(seconds))]})
    found = receipts(engine, "left")
    missing = [receipt for receipt in found if receipt["result"]["v"] is None]
    assert [[row["arrival"] is None for row in receipt["rows"]] for receipt in missing] == [
        [False, True, True]
    ] * len(missing)
    assert missing[0]["part"] == ""
    parts = [receipt["part"] for receipt in found if receipt["result"]["v"] == 109]
    assert set(parts) == {"part 2 of UNION ALL, line 1 of view u"}


def test_what_functions_that_are_not_deterministic_gave_is_told_of_the_part(engine):
    numbers = iter(range(1, 100))

    @eddyline.udf(returns="int", version="1", deterministic=False, scalar=True)
    def union_ticket(x):
        return next(numbers)

    engine.query("SELECT union_ticket(x) AS v FROM a UNION ALL SELECT union_ticket(y) FROM b", name="q")
    engine.push("b", [(1, 5, at(0))])
    (receipt,) = receipts(engine, "q")
    assert [(each["call"], each["value"]) for each in receipt["recorded"]] == [(1, None), (2, 1)]
    assert Commands(engine).why_result(result=receipt["id"])["matches"]


# --------------------------------------------------------------------------------------------- proofs


@pytest.fixture
def no_spark(monkeypatch):
    monkeypatch.setattr(receipts_module, "is_installed", lambda: False)


def prove_plainly(engine: eddyline.Engine, result: eddyline.Result):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receipts_module, "is_installed", lambda: False)
        return prove(engine.receipt(result))


def tampered(receipt: Receipt, **changes) -> Receipt:
    body = Receipt({**receipt, **changes})
    body["checksum"] = checksum_of(body)
    return body


def test_every_result_is_proven_by_the_text_over_the_rows_of_its_part(engine, no_spark):
    registered(engine)
    pushed(engine)
    for name in QUERIES:
        for receipt in receipts(engine, name):
            proof = prove(receipt)
            assert proof.is_proven, f"{name}: {proof}"


def test_a_result_of_another_part_is_not_proven(engine, no_spark):
    engine.query(QUERIES["streams"], name="q")
    engine.push("a", [(1, 7, at(0))])
    first, third = receipts(engine, "q")
    forged = tampered(first, result=third["result"])
    assert prove(forged).found == first["result"]
    row = first["rows"][0]
    other = tampered(first, rows=[row | {"row": row["row"] | {"x": 2}}])
    assert (prove(other).is_proven, prove(other).found) == (False, None)


# --------------------------------------------------------------------------------------------- why


def test_why_asks_each_part_that_the_row_fits_the_nearest_first(engine):
    query = engine.query(QUERIES["streams"], name="q")
    found = query.why({"k": 1, "x": 4})
    assert (found.matches, found.part) == (True, "part 1 of UNION ALL, line 1")
    assert [(other.matches, other.part) for other in found.others] == [(False, "part 3 of UNION ALL, line 4")]
    assert found.notes == ("part 2 of UNION ALL, line 3, is not asked: stream b has no column x",)
    assert str(found).splitlines() == [
        "the row matches q, part 1 of UNION ALL, line 1",
        "  part 2 of UNION ALL, line 3, is not asked: stream b has no column x",
        "  yes      x > 3   (x = 4)",
        "the row does not match q, part 3 of UNION ALL, line 4",
        "  no       x > 5   (x = 4)",
    ]
    assert [each.part for each in (query.why({"k": 1}), *query.why({"k": 1}).others)] == [
        "part 2 of UNION ALL, line 3",  # it has no condition
        "part 1 of UNION ALL, line 1",
        "part 3 of UNION ALL, line 4",
    ]
    with pytest.raises(SchemaError, match="the row fits no part of q") as refused:
        query.why({"z": 1})
    assert "part 2 of UNION ALL, line 3, is not asked: stream b has no column z" in refused.value.detail


def test_why_of_a_result_asks_the_part_that_gave_it(engine):
    registered(engine)
    pushed(engine)
    for name in QUERIES:
        query = engine.get(name)
        for result in query.latest(100):
            found = query.why(result)
            receipt = engine.receipt(result)
            assert found.matches, f"{name}: {found}"
            assert found.others == ()
            answer = Commands(engine).why_result(result=receipt["id"])
            assert (answer["matches"], answer["part"], answer["others"]) == (True, found.part, [])
            assert sorted(found.part.split("; ")) == sorted(receipt["part"].split("; "))


def test_why_not_tells_how_rows_fared_with_each_part_the_nearest_first(engine):
    query = engine.query(
        "SELECT k FROM a WHERE x > 100\nUNION ALL SELECT k FROM b WHERE y > 10\nUNION ALL SELECT k FROM b WHERE y > 90",
        name="q",
    )
    engine.push({"a": [(1, 7, at(0))], "b": [(2, 9, at(0)), (3, 11, at(0))]})
    found = query.why_not()
    assert [each.part for each in (found, *found.others)] == [
        "part 2 of UNION ALL, line 2",
        "part 3 of UNION ALL, line 3",
        "part 1 of UNION ALL, line 1",
    ]
    assert (found.n_rows, found.n_matched, found.nearest_row["y"]) == (2, 1, 9)
    assert [line for line in str(found).splitlines() if line.startswith("q, part 1")]
    engine.query("SELECT k FROM a UNION ALL SELECT b.k FROM b", name="u")
    reader = engine.query("SELECT k FROM u WHERE k > 2", name="reader")
    assert {each.part for each in (reader.why_not(), *reader.why_not().others)} == {
        "part 1 of UNION ALL, line 1 of view u",
        "part 2 of UNION ALL, line 1 of view u",
    }


def test_recent_rows_of_a_union_are_asked_about_in_each_part(engine):
    engine.query(
        f"SELECT k, x AS v FROM a UNION ALL SELECT a.k, b.y FROM a JOIN b ON a.k = b.k AND {NEAR}", name="u"
    )
    reader = engine.query("SELECT r.v FROM recent(u, INTERVAL 1 HOUR) r JOIN t ON r.k = t.k", name="reader")
    streams = engine.query("SELECT r.v FROM recent(u, INTERVAL 1 HOUR) r JOIN b ON r.v = b.y", name="streams")
    pushed(engine)
    for query in (reader, streams):
        for result in query.latest(100):
            assert query.why(result).matches
            assert prove_plainly(engine, result).is_proven
        assert len(query.why_not().others) == 1
    assert "the row of the view is in recent(u, INTERVAL 1 HOUR)" in str(streams.why_not())


def test_a_trial_tries_each_part_and_counts_all_results(engine):
    engine.push({"a": [(1, 7, at(0)), (1, 4, at(0))], "b": [(2, 9, at(0))]})
    found = engine.try_query(QUERIES["streams"])
    assert (found.n_rows, found.n_matched, found.n_in_error) == (3, 4, 0)
    assert [(each.part, each.n_matched) for each in found.parts] == [
        ("part 1 of UNION ALL, line 1", 2),
        ("part 2 of UNION ALL, line 3", 1),
        ("part 3 of UNION ALL, line 4", 1),
    ]
    assert [row["v"] for row in found.samples] == [4, 7, 9, 107]
    assert str(found).splitlines()[:3] == [
        "4 results would have come of the last 3 rows",
        "  part 1 of UNION ALL, line 1: 2 of the last 2 rows would have matched",
        "    stopped      0   x > 3",
    ]
    joined = engine.try_query(QUERIES["with a join"])
    assert [each.n_matched for each in joined.parts] == [1, None]
    engine.query("SELECT k, x AS v FROM a UNION ALL SELECT k, y FROM b", name="u")
    of_view = engine.try_query("SELECT v FROM u WHERE v > 4")
    assert (of_view.n_matched, len(of_view.parts)) == (2, 2)


def test_a_query_of_with_that_is_a_union_and_read_twice_says_why_a_result_is_not_asked(engine):
    query = engine.query(
        "WITH u(k, v, ts) AS (SELECT k, x, ts FROM a UNION ALL SELECT k, y, ts FROM b)"
        " SELECT l.v, r.v AS w FROM u l JOIN u r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 2 SECONDS"
        " WHERE l.v < r.v",
        name="twice",
    )
    engine.push({"a": [(1, 3, at(0))], "b": [(1, 5, at(0))]})
    (result,) = query.latest()
    assert {row["stream"] for row in engine.receipt(result)["rows"]} == {"a", "b"}
    with pytest.raises(NotBuiltError, match="why of a result of twice is not built"):
        query.why(result)


# --------------------------------------------------------------------------------------------- the audit


def test_the_audit_judges_each_part_of_a_union(engine):
    registered(engine)
    engine.query("SELECT k FROM b WHERE y > 1000 UNION ALL SELECT k FROM a WHERE x > 1000", name="silent")
    pushed(engine)
    counters = judged(engine)
    assert (counters.n_differences, counters.skipped) == (0, {})
    # tables and in FROM; then all but tables, and silent, in two rounds
    assert counters.n_queries == 1 + 2 * 8


def test_the_audit_finds_a_result_that_is_missing_in_a_part(engine, monkeypatch):
    engine.query(QUERIES["streams"], name="q")
    engine.push({"a": [(1, 7, at(0)), (1, 4, at(0))], "b": [(1, 1, at(0))]})
    home = engine.rounds.durable
    read = home.parts
    monkeypatch.setattr(home, "parts", lambda file: [part for part in read(file) if part.branch != 2])
    counters = judged(engine)
    assert (counters.n_pairs, counters.n_differences) == (5, 1)
    (found,) = [event for event in engine.events() if isinstance(event, AuditDifference)]
    assert (found.query, found.n_missing, found.example) == ("q", 1, "Rows 1 match and have no result.")


def test_the_audit_finds_another_value_in_a_part_that_is_a_join(engine, monkeypatch):
    engine.query(QUERIES["with a join"], name="q")

    def forged(matches, generations):
        part = outbox.stored_part(matches, generations)
        if part.branch != 1:
            return part
        rows = part.rows.set_column(1, "v", pa.array([77] * len(part), pa.int32()))
        marks = part.query_ids, part.generations, part.arrivals, part.signs, part.is_late
        return outbox.StoredPart(*marks, rows, part.recorded, part.components, part.branch)

    monkeypatch.setattr("eddyline.engine.durable.stored_part", forged)
    engine.push({"a": [(1, 7, at(0))], "b": [(1, 8, at(0))]})
    judged(engine)
    (found,) = [event for event in engine.events() if isinstance(event, AuditDifference)]
    assert (found.n_different, found.example) == (1, "Rows 1, 2: v is 8, in the result 77.")


def test_rows_that_a_part_cannot_decide_are_left_out_of_the_audit(engine):
    engine.query("SELECT k FROM a UNION ALL SELECT k * x * 1000000 FROM a", name="q")
    engine.push("a", [(1, 1, at(0)), (1 << 30, 4, at(0))])
    assert [letter.query for letter in engine.dead_letters()] == ["q"]
    counters = judged(engine)
    assert (counters.n_pairs, counters.n_differences, counters.skipped) == (2, 0, {})


@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES)
def test_the_audit_finds_nothing_wrong_in_random_rows(tmp_path, place):
    rng = random.Random(3)
    with random_unions.opened(tmp_path, place) as engine:
        for name, (text, _) in random_unions.UNIONS.items():
            engine.query(text, name=name)
        for seconds in range(8):
            random_unions.push(engine, rng, seconds)
        counters = judged(engine)
        assert (counters.n_differences, set(counters.skipped)) == (0, {"DuckDB may not judge the text"})
        assert counters.n_pairs > 100
        for name in random_unions.UNIONS:
            assert receipts(engine, name), name
