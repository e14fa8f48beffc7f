"""Receipts and proofs of rows that leave tables: the row that left, and what made it leave."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest

import eddyline
from eddyline.errors import ReceiptError
from eddyline.proof import checksum_of
from eddyline.receipts import Audit, Receipt, prove
from eddyline.receipts import departures as departures_module
from eddyline.receipts import receipts as receipts_module
from tests.on_workers import through_tasks

pytestmark = pytest.mark.usefixtures("no_session")  # DuckDB judges audits here

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PLACES = ("in process", "in tasks", "workers join")
QUERIES = {
    "low": "SELECT k, v FROM t WHERE v < 5",
    "view": "SELECT k, v FROM t WHERE v > 1",
    "reader": "SELECT v + 1 AS w FROM view WHERE v <> 7",
    "joined": "SELECT s.k, t.v, s.v AS w FROM t JOIN s ON t.k = s.v WHERE t.v > 2",
    "itself": "SELECT o.k, p.v FROM t o JOIN t p ON o.v = p.k",
    "with view": "SELECT s.k, w.v FROM view w JOIN s ON w.k = s.v",
    "parts": "SELECT k, v FROM t WHERE v < 3 UNION ALL SELECT k, v FROM s WHERE v > 2",
    "kinds": "SELECT DISTINCT v FROM t WHERE v > 2",
    "matched": "SELECT k, v FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.v AND t.v > 1)",
    "of kinds": "SELECT v FROM kinds WHERE v < 7",
    "with kinds": "SELECT s.k, w.v FROM s JOIN kinds w ON w.v = s.v",
    "in from": "SELECT d.v FROM (SELECT DISTINCT v FROM t WHERE v > 2) d WHERE d.v < 8",
    "united": "SELECT u.v FROM (SELECT v FROM t WHERE v > 4 UNION SELECT v FROM s) u",
    "timed": "SELECT k, v FROM e WHERE v > 4",
}
PLAIN = [name for name in QUERIES if name != "matched"]  # DuckDB does not judge EXISTS


def opened(folder, place: str = PLACES[0]) -> eddyline.Engine:
    engine = eddyline.open(folder / "home", results_per_query=10_000)
    if not engine.streams():
        for name in "st":
            engine.sql(f"CREATE TABLE {name} (k INT PRIMARY KEY, v INT)")
        engine.stream("e", "k INT, v INT, ts TIMESTAMP, gone BOOLEAN", key="k", time="ts", delete="gone")
    if place != PLACES[0]:
        through_tasks(engine, n_pieces=2, join_from_rows=1 if place == PLACES[2] else 1_000_000)
    return engine


@pytest.fixture
def engine(tmp_path):
    with opened(tmp_path) as engine:
        yield engine


@pytest.fixture
def no_spark(monkeypatch):
    monkeypatch.setattr(receipts_module, "is_installed", lambda: False)


def last(engine: eddyline.Engine, name: str, change: str) -> Receipt:
    results = [each for each in engine.get(name).latest(1_000) if each.change == change]
    receipt = engine.receipt(results[-1])
    assert receipt.is_intact
    return receipt


def rows_of(receipt: Receipt) -> list[tuple[int, Any]]:
    return [(row["arrival"], row["row"]["v"]) for row in receipt["rows"]]


def changes_of(receipt: Receipt) -> list[tuple[int, Any]]:
    return [
        (each["arrival"], "deleted" if each["is_delete"] else each["row"]["v"]) for each in receipt["changes"]
    ]


def test_a_row_that_is_replaced_by_one_that_does_not_match(engine, no_spark):
    engine.query(QUERIES["low"], name="low")
    engine.push("t", [(1, 4), (2, 3)])
    engine.push("t", [(2, 9)])
    receipt = last(engine, "low", "delete")
    assert (rows_of(receipt), changes_of(receipt)) == ([(2, 3)], [(3, 9)])
    assert receipt["result"] == {"k": 2, "v": 3}
    assert "  left by   t 3: " in str(receipt)
    proof = prove(receipt)
    assert proof.is_proven
    assert proof.note.endswith("After row 3 of t it gives no result.")


def test_a_row_that_is_deleted(engine, no_spark):
    engine.query(QUERIES["low"], name="low")
    engine.push("t", [(1, 4)])
    engine.push("t", [{"k": 1, "_change_type": "delete"}])
    receipt = last(engine, "low", "delete")
    assert (rows_of(receipt), changes_of(receipt)) == ([(1, 4)], [(2, "deleted")])
    assert "  left by   t 2: a delete" in str(receipt)
    proof = prove(receipt)
    assert (proof.is_proven, proof.note) == (True, "After the delete 2 of t it gives no result.")


def test_both_images_of_an_update(engine, no_spark):
    engine.query(QUERIES["low"], name="low")
    engine.push("t", [(1, 4)])
    engine.push("t", [(1, 9), (1, 2)])  # in one round the last one counts
    before, after = last(engine, "low", "update_preimage"), last(engine, "low", "update_postimage")
    assert (rows_of(before), changes_of(before)) == ([(1, 4)], [(3, 2)])
    assert rows_of(after) == [(3, 2)]
    assert "changes" not in after
    proof = prove(before)
    assert (proof.is_proven, proof.note) == (True, 'After row 3 of t it gives {"k": 1, "v": 2}.')
    assert prove(after).is_proven


def test_results_name_the_row_that_left(engine):
    query = engine.query(QUERIES["low"], name="low")
    engine.push("t", [(1, 4)])
    engine.push("t", [(1, 2)])
    engine.push("t", [(1, 9)])
    assert [(each.change, each.arrivals) for each in query.latest(9)] == [
        ("insert", (1,)),
        ("update_preimage", (1,)),
        ("update_postimage", (2,)),
        ("delete", (2,)),
    ]


def test_an_older_row_does_not_make_one_leave(engine, no_spark):
    engine.query(QUERIES["timed"], name="timed")

    def row(v: int, seconds: int, gone: bool = False) -> dict[str, Any]:
        return {"k": 1, "v": v, "ts": START + datetime.timedelta(seconds=seconds), "gone": gone}

    engine.push("e", [row(8, 10)])
    engine.push("e", [row(1, 20), row(9, 5)])
    receipt = last(engine, "timed", "delete")
    assert (rows_of(receipt), changes_of(receipt)) == ([(1, 8)], [(2, 1)])
    assert prove(receipt).is_proven
    engine.push("e", [row(7, 30)])
    engine.push("e", [row(0, 40, gone=True)])
    assert changes_of(last(engine, "timed", "delete")) == [(5, "deleted")]


def tampered(receipt: Receipt, **changes) -> Receipt:
    body = Receipt({**receipt, **changes})
    body["checksum"] = checksum_of(body)
    return body


def test_what_would_still_be_a_result_is_not_proven_to_have_left(engine, no_spark):
    engine.query(QUERIES["low"], name="low")
    engine.push("t", [(1, 4)])
    engine.push("t", [(1, 9)])
    receipt = last(engine, "low", "delete")
    (change,) = receipt["changes"]
    forged = tampered(receipt, changes=[change | {"row": {"k": 1, "v": 2}}])
    proof = prove(forged)
    assert not proof.is_proven
    assert proof.note.endswith('it gives {"k": 1, "v": 2}.')
    assert not prove(tampered(receipt, change="update_preimage")).is_proven
    (row,) = receipt["rows"]
    assert not prove(tampered(receipt, rows=[row | {"row": {"k": 1, "v": 7}}])).is_proven


def test_why_of_a_result_with_which_a_row_left_asks_about_that_row(engine):
    query = engine.query(QUERIES["low"], name="low")
    engine.push("t", [(1, 4)])
    engine.push("t", [(1, 9)])
    left = query.latest()[-1]
    assert left.change == "delete"
    assert query.why(left).matches


def lived(engine: eddyline.Engine, seed: int) -> None:
    rng = random.Random(seed)
    for at in range(30):
        rows: dict[str, list[Any]] = {}
        for name in "st":
            changed = [{"k": rng.randint(0, 3), "v": rng.randint(0, 8)} for _ in range(rng.randint(0, 3))]
            rows[name] = [
                row | {"_change_type": "delete" if rng.random() < 0.2 else "insert"} for row in changed
            ]
        rows["e"] = [
            {
                "k": rng.randint(0, 2),
                "v": rng.randint(0, 8),
                "ts": START + datetime.timedelta(seconds=at + rng.randint(-2, 2)),
                "gone": rng.random() < 0.2,
            }
            for _ in range(rng.randint(0, 3))
        ]
        engine.push({name: found for name, found in rows.items() if found})


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_every_change_of_every_query_is_proven(engine, no_spark, seed):
    for name, text in QUERIES.items():
        engine.query(text, name=name)
    lived(engine, seed)
    for name in PLAIN:
        results = engine.get(name).latest(10_000)
        assert {"insert", "delete"} <= {result.change for result in results}, name
        for result in results:
            proof = prove(engine.receipt(result))
            assert proof.is_proven, f"{name}: {result.change} {proof}"


@pytest.mark.thorough
def test_receipts_are_the_same_in_every_place_and_after_a_restart(tmp_path):
    found = {}
    for place in PLACES:
        with opened(tmp_path / place, place) as engine:
            for name, text in QUERIES.items():
                engine.query(text, name=name)
            lived(engine, 7)
        with opened(tmp_path / place, place) as engine:
            receipts = [engine.receipt(each) for name in QUERIES for each in engine.get(name).latest(10_000)]
            found[place] = [
                (each["id"], each["change"], each["rows"], each.get("changes"), each["result"])
                for each in receipts
            ]
    assert found[PLACES[0]] == found[PLACES[1]] == found[PLACES[2]]
    assert sum(each[3] is not None for each in found[PLACES[0]]) > 20


def test_the_audit_looks_at_rows_that_leave(engine):
    engine.query(QUERIES["low"], name="low")
    engine.push("t", [(1, 4)])
    engine.push("t", [(1, 9)])
    audit = Audit(engine, 0.0)
    audit.judge(2)
    audit.close()
    assert (audit.counters.n_pairs, audit.counters.n_differences, audit.counters.skipped) == (1, 0, {})


def test_a_row_whose_change_is_not_known_any_more_is_told(engine, monkeypatch):
    engine.query(QUERIES["low"], name="low")
    engine.push("t", [(1, 4)])
    engine.push("t", [(1, 9)])
    monkeypatch.setattr(departures_module, "change_of_key", lambda *_: None)
    with pytest.raises(ReceiptError, match=r"what made the row of result 2-.* leave is not among the rows"):
        last(engine, "low", "delete")


def test_a_row_that_leaves_an_outer_join_because_a_match_came_names_the_match(engine):
    query = engine.query("SELECT t.k, s.v FROM t LEFT JOIN s ON s.k = t.k", name="outer")
    engine.query("SELECT k FROM outer WHERE v IS NULL", name="above")
    engine.push("t", [(1, 5)])
    engine.push("s", [(1, 7), (2, 8)])
    came, _, left = query.latest(10)
    assert [row["row"] for row in engine.receipt(came)["rows"]] == [{"k": 1, "v": 5}, None]
    for result in (left, engine.get("above").latest(10)[-1]):
        assert result.change == "delete"
        receipt = engine.receipt(result)
        assert [row["row"] for row in receipt["rows"]] == [{"k": 1, "v": 5}, None]
        assert [(each["stream"], each["row"]) for each in receipt["changes"]] == [("s", {"k": 1, "v": 7})]
        assert receipt["is_outer"]


def test_a_row_that_leaves_an_outer_join_with_its_match_names_what_became_of_that(engine):
    query = engine.query("SELECT t.k, s.v FROM t LEFT JOIN s ON s.k = t.k AND s.v > 3", name="outer")
    engine.push({"t": [(1, 5)], "s": [(1, 7)]})
    engine.push("s", [(1, 2)])
    left, came = query.latest(2)
    if left.change == "insert":
        left, came = came, left
    receipt = engine.receipt(left)
    assert (rows_of(receipt), changes_of(receipt)) == ([(1, 5), (2, 7)], [(3, 2)])
    assert [row["row"] for row in engine.receipt(came)["rows"]] == [{"k": 1, "v": 5}, None]
    engine.push("t", [{"k": 1, "_change_type": "delete"}])
    receipt = last(engine, "outer", "delete")
    assert changes_of(receipt) == [(4, "deleted")]
