"""Plain Spark SQL judges results of queries with UNION ALL: the whole text, over rows of the part that gave them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from eddyline.proof import checksum_of
from eddyline.spark.judge import prove
from tests.receipts.test_unions import QUERIES, at, judged, opened, pushed, receipts, registered

pytestmark = pytest.mark.spark

# what DuckDB does not judge: columns of several types, NULL, functions
OTHERS = {
    "wider": "SELECT k, x, NULL AS side FROM a WHERE x > 3 UNION ALL SELECT k + 0.5D, y, upper('b') FROM b",
    "nested": "SELECT w.v FROM (SELECT v + 1 AS v FROM (SELECT x AS v FROM a UNION ALL SELECT y FROM b) i"
    " UNION ALL SELECT k FROM a) w",
    "outer": "SELECT a.x, t.name FROM a LEFT JOIN t ON t.k = a.k"
    " UNION ALL SELECT y, 'none' FROM b WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = b.k)",
    "of wider": "SELECT k FROM wider WHERE side IS NULL",
}


def test_spark_proves_results_of_every_part_and_no_other(spark, tmp_path):
    with opened(tmp_path) as engine:
        registered(engine)
        for name, text in OTHERS.items():
            engine.query(text, name=name)
        pushed(engine)
        engine.push({"a": [(8, 9, at(4))], "b": [(8, 9, at(4))]})
        for name in (*QUERIES, *OTHERS):
            by_part = {receipt["part"]: receipt for receipt in receipts(engine, name)}
            assert len(by_part) > 1 or name == "of wider", name
            for part, receipt in by_part.items():
                proof = prove(receipt, session=spark)
                assert proof.is_proven, f"{name}, {part}: {proof}"
        first, second, _ = {receipt["part"]: receipt for receipt in receipts(engine, "streams")}.values()
        forged = {**first, "result": second["result"]}
        assert not prove({**forged, "checksum": checksum_of(forged)}, session=spark).is_proven


def test_spark_audits_unions(spark, tmp_path):
    with opened(tmp_path) as engine:
        for name in ("streams", "u", "reader"):
            engine.query(QUERIES[name], name=name, params={"most": 50} if name == "u" else None)
        engine.push({"a": [(1, 7, at(0)), (2, 3, at(0))], "b": [(1, 8, at(0))]})
        counters = judged(engine)
        assert (counters.n_queries, counters.n_differences, counters.skipped) == (3, 0, {})
        assert counters.n_pairs == 5 + 3 + 3
