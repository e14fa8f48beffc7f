"""Plain Spark SQL judges results of queries that read views, over rows of declared streams alone."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import eddyline
from eddyline.events import AuditDifference
from eddyline.proof import checksum_of
from eddyline.receipts import Audit
from eddyline.spark.judge import prove
from eddyline.storage import outbox

pytestmark = pytest.mark.spark

WITHIN = "INTERVAL 4 SECONDS"
DECLARED = """
    CREATE TABLE a (k INT, x INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE b (k INT, y INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE quotes (k INT PRIMARY KEY, bid DOUBLE)
"""
VIEWS = {
    "va": "SELECT k, x + 1 AS x, ts FROM a WHERE x > :low -- of a",
    "vva": "SELECT k, ts, x, current_date AS day FROM va WHERE x < :low;",
    "three deep": "SELECT * FROM vva WHERE ts < now()",
    "ab": f"SELECT a.k, a.x, b.y, b.ts FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + {WITHIN}",
    "of ab": "SELECT x, y FROM ab WHERE x <> y",
    "diamond": f"SELECT v.x, v.y, b.y AS z FROM ab v JOIN b ON v.k = b.k AND b.ts BETWEEN v.ts AND v.ts + {WITHIN}",
    "self": f"SELECT o.x, p.x AS z FROM va o JOIN va p ON o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + {WITHIN}",
    "base": f"SELECT v.ts, a.x FROM vva v JOIN a ON v.k = a.k AND a.ts BETWEEN v.ts - {WITHIN} AND v.ts",
    "of joins": f"SELECT v.*, w.x AS z FROM ab v JOIN ab w ON v.k = w.k AND w.ts BETWEEN v.ts AND v.ts + {WITHIN}",
    "renamed": "SELECT r.a1 FROM recent(vva, INTERVAL 1 HOUR) AS r(a1, t1, x1, d1) JOIN b ON r.a1 = b.k",
    "recent of a join": "SELECT r.x FROM recent(ab, INTERVAL 1 HOUR) r JOIN b ON r.k = b.k",
    "high": "SELECT k, bid FROM quotes WHERE bid > 1",
    "middle": "SELECT bid FROM high WHERE bid < 50",
    "priced": "SELECT a.k, q.bid FROM a JOIN quotes q ON a.k = q.k WHERE q.bid > 1",
    "of priced": "SELECT bid, k FROM priced WHERE k = :k AND bid IN (:bids)",
    "some": f"SELECT v.x, n.y FROM va v LEFT JOIN b n ON v.k = n.k AND n.ts BETWEEN v.ts AND v.ts + {WITHIN}",
    "none": "SELECT x FROM some WHERE y IS NULL",
    "nested": "WITH w AS (SELECT k, x FROM va) SELECT w.x FROM w WHERE k IN (1, 9)",
    "without": "SELECT b.y FROM b WHERE NOT EXISTS "
    f"(SELECT 1 FROM va v WHERE v.k = b.k AND v.ts BETWEEN b.ts AND b.ts + {WITHIN})",
}
PARAMS = {"va": {"low": 2}, "vva": {"low": 70}, "of priced": {"k": 1, "bids": [2.0, 3.0]}}


def at(seconds: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)


def registered(engine: eddyline.Engine) -> None:
    engine.sql(DECLARED)
    for name, text in VIEWS.items():
        engine.query(text, name=name, params=PARAMS.get(name))
    engine.query("SELECT k AS own, x FROM a", name="va", owner="ann")
    engine.query("SELECT own FROM va WHERE x > 1", name="of ann", owner="ann")
    engine.query("SELECT own FROM ann.va WHERE x > 1", name="of all")


def pushed(engine: eddyline.Engine) -> None:
    engine.push("quotes", [(1, 2.0), (2, 60.0)])
    engine.push({"a": [(1, 5, at(0)), (2, 9, at(0))], "b": [(1, 7, at(0)), (2, 9, at(0)), (3, 1, at(0))]})
    engine.push({"a": [(1, 6, at(1)), (1, 1, at(2)), (8, 4, at(2))], "b": [(1, 8, at(1))]})
    engine.push("quotes", [(2, 40.0)])
    for seconds in (100, 200):
        engine.push({"a": [(9, 6, at(seconds))], "b": [(9, 8, at(seconds))]})


def judged(engine: eddyline.Engine):
    audit = Audit(engine, 0.0)
    for number in range(1, engine.rounds.last_round + 1):
        audit.judge(number)
    audit.close()
    return audit.counters


def test_spark_proves_readers_of_views_down_to_streams_and_no_forged_value(spark, tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        registered(engine)
        pushed(engine)
        readers = [(name, "") for name in VIEWS] + [("of all", ""), ("of ann", "ann")]
        for name, owner in readers:
            results = [r for r in engine.get(name, owner=owner).latest(100) if r.change != "update_preimage"]
            assert results, name
            proof = engine.prove(results[-1], spark=spark)
            assert proof.is_proven, f"{name}: {proof}"
        receipt = engine.receipt(engine.get("three deep").latest()[0])
        forged = {**receipt, "result": {**receipt["result"], "x": 77}}
        forged["checksum"] = checksum_of(forged)
        proof = prove(forged, session=spark)
        assert not proof.is_proven
        assert "x is 6, in the result 77" in proof.note
        (row,) = receipt["rows"]
        no_match = {**receipt, "rows": [{**row, "row": {**row["row"], "x": 1}}]}
        no_match["checksum"] = checksum_of(no_match)
        assert prove(no_match, session=spark).found is None  # a condition of a view


def test_the_audit_judges_readers_of_views_and_finds_a_tampered_result(spark, tmp_path, monkeypatch):
    with eddyline.open(tmp_path / "home") as engine:
        engine.sql(DECLARED)
        engine.query(VIEWS["va"], name="va", params={"low": 2})
        engine.query("SELECT x * 10 / (k - 5) AS part, k FROM va", name="divided")
        reader = engine.query("SELECT k FROM divided WHERE part > 0 OR k = 5", name="reader")
        silent = engine.query("SELECT k FROM va WHERE x > 1000", name="silent")
        engine.query(VIEWS["ab"], name="ab")
        joined = engine.query(VIEWS["of ab"], name="of ab")
        engine.push("a", [(6, 5, at(0)), (5, 5, at(0)), (1, 1, at(0)), (7, 9, at(1))])
        assert [dict(result) for result in reader.latest()] == [{"k": 6}, {"k": 7}]
        counters = judged(engine)  # the row with k = 5 is a dead letter of the view, and is left out
        assert counters.n_differences == 0, [e for e in engine.events() if isinstance(e, AuditDifference)]
        assert counters.skipped == {}
        assert counters.n_queries == 4  # va, divided, reader and silent
        assert silent.latest() == []

        def forged(part, generations):
            stored = outbox.stored_part(part, generations)
            if len(part) and stored.rows.schema.names == ["x", "y"]:
                rows = stored.rows.set_column(0, "x", pa.array([1000] * len(part), pa.int32()))
                marks = stored.query_ids, stored.generations, stored.arrivals, stored.signs, stored.is_late
                return outbox.StoredPart(*marks, rows, stored.recorded, stored.components)
            return stored

        monkeypatch.setattr("eddyline.engine.durable.stored_part", forged)
        engine.push("b", [(6, 3, at(0))])
        assert len(joined.latest()) == 1
        counters = judged(engine)
        (found,) = [e for e in engine.events() if isinstance(e, AuditDifference)]
        assert (found.query, found.n_different) == ("of ab", 1)
        assert "x is 5, in the result 1000" in found.example
