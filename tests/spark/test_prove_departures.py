"""Plain Spark SQL judges results with which rows leave tables: results before the round, and none after it."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from eddyline.spark.judge import prove
from tests.receipts.test_departures import QUERIES, lived, opened, tampered

pytestmark = pytest.mark.spark


def test_spark_proves_that_rows_left(spark, tmp_path):
    with opened(tmp_path) as engine:
        for name, text in QUERIES.items():
            engine.query(text, name=name)
        lived(engine, 1)
        for name in QUERIES:
            results = engine.get(name).latest(10_000)
            newest = {result.change: result for result in results}
            assert "delete" in newest, name
            for change, result in newest.items():
                receipt = engine.receipt(result)
                proof = prove(receipt, session=spark)
                assert proof.is_proven, f"{name}, {change}: {proof}"
        receipt = engine.receipt(engine.get("low").latest(1)[0])
        (change,) = receipt.get("changes", [receipt["rows"][0] | {"is_delete": False}])
        stays = change | {"row": {"k": 1, "v": 2}, "is_delete": False}
        forged = tampered(receipt, change="delete", changes=[stays], is_set=False)
        assert not prove(forged, session=spark).is_proven
