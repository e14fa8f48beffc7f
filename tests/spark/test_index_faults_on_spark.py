"""On Spark: a query with which the index cannot be built is suspended, and the others see every row."""

from __future__ import annotations

import eddyline
from eddyline.expressions import limits
from eddyline.spark.jobs import spark_runner
from tests.faulty_queries import FAULTY, TIMES, armed
from tests.on_workers import opener


def test_workers_go_on_without_the_query_at_fault_and_limits_hold_there(spark, tmp_path):
    engine: eddyline.Engine = opener(tmp_path, spark_runner(spark), n_pieces=2)()
    engine.stream("trades", "sym STRING, price DOUBLE")
    engine.query("SELECT sym FROM trades WHERE price < 5", name="before")
    faulty = engine.query(FAULTY.format(n=TIMES), name="faulty")
    engine.query(
        "SELECT sym FROM trades WHERE length(replace(sym, 'a', repeat('b', 1000000))) > 0", name="grows"
    )
    rows = [{"sym": "A", "price": 1.0}, {"sym": "a" * 100, "price": 2.0}]
    with armed():
        engine.push("trades", rows)
        engine.push("trades", rows)
    assert faulty.suspended == "the predicate index cannot be built with it: MemoryError"
    assert [len(engine.get(name).results()) for name in ("before", "grows", "faulty")] == [4, 2, 0]
    letters = engine.dead_letters()
    assert [(letter.query, letter.error) for letter in letters] == [("grows", limits.TOO_LONG)] * 2
