"""Plain Spark SQL judges results of joins, over just the rows they are made of."""

from __future__ import annotations

import datetime

import pytest

pytest.importorskip("pyspark")

import eddyline
from eddyline.proof import checksum_of
from eddyline.spark.judge import prove

pytestmark = pytest.mark.spark

DECLARED = """
    CREATE TABLE trades (sym STRING, price DOUBLE, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE news (sym STRING, head STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE quotes (sym STRING PRIMARY KEY, bid DOUBLE, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE marks (id INT PRIMARY KEY, sym STRING, mark DOUBLE)
"""
JOINS = {
    "event time": "SELECT t.*, n.head, length(n.head) AS n FROM trades t JOIN news n ON t.sym = n.sym "
    "AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES WHERE upper(n.head) LIKE 'M%';",
    "a count": "SELECT n.head, t.sym FROM recent(news, 10) AS n JOIN trades t ON t.sym = n.sym",
    "arrival, unnamed": "SELECT head, price FROM trades JOIN recent(news, INTERVAL 1 HOUR) USING (sym)",
    "itself": "SELECT a.price AS low, b.price AS high FROM recent(trades, 9) a JOIN recent(trades, 9) b "
    "ON a.sym = b.sym AND a.price < b.price",
    "latest": "SELECT * FROM trades t JOIN quotes q ON t.sym = q.sym WHERE t.price < q.bid",
    "as of": "SELECT t.sym, q.bid FROM trades t ASOF JOIN quotes q ON t.sym = q.sym",
    "left": "SELECT t.price, n.head FROM trades t LEFT JOIN news n ON t.sym = n.sym "
    "AND n.ts BETWEEN t.ts AND t.ts + INTERVAL 5 SECONDS",
    "anti": "SELECT t.price FROM trades t LEFT ANTI JOIN news n ON t.sym = n.sym "
    "AND n.ts BETWEEN t.ts AND t.ts + INTERVAL 5 SECONDS",
    "right": "SELECT *, sym AS s FROM recent(news, 10) n RIGHT JOIN trades t USING (sym) WHERE t.price < 100",
    "semi": "SELECT * FROM trades t LEFT SEMI JOIN quotes q ON t.sym = q.sym AND q.bid > t.price",
    "using": "SELECT sym, * EXCEPT (sym) FROM trades JOIN quotes USING (sym)",
    "left, of tables": "SELECT q.sym, q.bid, m.mark FROM quotes q LEFT JOIN marks m ON q.sym = m.sym AND m.mark > q.bid",
    "none, of tables": "SELECT q.sym FROM quotes q WHERE NOT EXISTS (SELECT 1 FROM marks m WHERE m.sym = q.sym)",
    "three": "SELECT t.sym, n.head, q.bid, now() AS at FROM trades t JOIN recent(news, 10) n ON t.sym = n.sym "
    "JOIN quotes q ON q.sym = n.sym",
}


def at(seconds: float) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, 9, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)


def test_spark_finds_the_same_and_no_forged_value(spark, tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.sql(DECLARED)
        queries = {name: engine.query(text, name=name) for name, text in JOINS.items()}
        engine.push("marks", [(1, "B", 20.0), (2, "B", 5.0)])
        engine.push("quotes", [("A", 11.0, at(0)), ("B", 12.0, at(0))])
        engine.push("news", [("A", "merger", at(1)), ("B", "fire", at(1))])
        engine.push("trades", [("A", 9.0, at(5)), ("A", 10.0, at(6)), ("C", 7.0, at(7))])
        engine.push({"news": [("Z", "late", at(100))], "trades": [("Z", 0.0, at(100))]})
        engine.push({"news": [("Z", "later", at(200))], "trades": [("Z", 0.0, at(200))]})
        for name, query in queries.items():
            results = query.latest()
            assert results, name
            for result in results[:2]:
                proof = engine.prove(f"{result.round_number}-{result.arrival}-{result.query_id}", spark=spark)
                assert proof.is_proven, f"{name}: {proof}"
        receipt = engine.receipt(queries["event time"].latest()[0])
        forged = {**receipt, "result": {**receipt["result"], "price": 9.5}}
        forged["checksum"] = checksum_of(forged)
        proof = prove(forged, session=spark)
    assert not proof.is_proven
    assert proof.found == receipt["result"]
    assert "price is 9.0, in the result 9.5" in proof.note
