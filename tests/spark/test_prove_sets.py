"""Plain Spark SQL judges results of joins with sets, and rows that leave them or outer joins of tables."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from eddyline.receipts import Audit
from eddyline.spark.judge import prove
from tests.engine.test_table_views_oracle import declare
from tests.lives_of_tables import PLACES, opened_in
from tests.receipts.test_departures import tampered
from tests.receipts.test_sets import QUERIES, lived

pytestmark = pytest.mark.spark

PROVEN = [
    *["sets", "of_sets", "three", "semi_of", "left_view", "view_anti", "of_any", "left_any", "of_united"],
    *["subquery", "left_subquery", "met_subquery", "unmet", "met_any", "ranges"],
]


def test_spark_proves_results_of_joins_with_sets_and_of_outer_joins_of_tables(spark, tmp_path):
    n_left = 0
    with opened_in(tmp_path, PLACES[0], declare) as engine:
        lived(engine, 3)
        assert set(PROVEN) <= QUERIES.keys()
        for name in PROVEN:
            newest = {result.change: result for result in engine.get(name).latest(10_000)}
            for change, result in newest.items():
                proof = prove(engine.receipt(result), session=spark)
                assert proof.is_proven, f"{name}, {change}: {proof}"
                n_left += change == "delete"
        assert n_left > 5
        audit = Audit(engine, 0.0)
        audit.judge(engine.rounds.last_round)
        audit.close()
        assert audit.counters.n_differences == 0
        assert audit.counters.n_queries > 0
        assert not audit.counters.skipped


def test_a_row_in_which_the_value_of_the_set_does_not_occur_proves_nothing(spark, tmp_path):
    with opened_in(tmp_path, PLACES[0], declare) as engine:
        query = engine.query(
            "SELECT s.n FROM s JOIN (SELECT DISTINCT k FROM a WHERE x > 2) q ON q.k = s.k", name="q"
        )
        engine.push("a", [(1, 7, 5)])
        engine.push("s", [(7, 9)])
        receipt = engine.receipt(query.latest(1)[0])
        assert prove(receipt, session=spark).is_proven
        own, other = receipt["rows"]
        for row in ({"id": 1, "k": 7, "x": 2}, {"id": 1, "k": 8, "x": 5}):
            assert not prove(tampered(receipt, rows=[own, other | {"row": row}]), session=spark).is_proven


def test_a_row_without_a_match_is_not_proven_to_have_left_by_a_row_that_does_not_match(spark, tmp_path):
    with opened_in(tmp_path, PLACES[0], declare) as engine:
        engine.query("SELECT a.id, b.y FROM a LEFT JOIN b ON b.k = a.k", name="shown")
        engine.query(
            "SELECT a.id FROM a LEFT JOIN b ON b.k = a.k", name="hidden"
        )  # equal with a match and without
        engine.push("a", [(1, 7, 5)])
        engine.push("b", [(1, 7, 3)])
        engine.push("b", [(1, 8, 3)])
        for name in ("shown", "hidden"):
            alone, matched = [each for each in engine.get(name).latest(9) if each.change == "delete"]
            for result, other in ((alone, {"id": 1, "k": 8, "y": 3}), (matched, {"id": 1, "k": 7, "y": 3})):
                receipt = engine.receipt(result)
                assert prove(receipt, session=spark).is_proven, name
                (change,) = receipt["changes"]
                assert change["stream"] == "b"
                forged = tampered(receipt, changes=[change | {"row": other}])
                assert not prove(forged, session=spark).is_proven, name
