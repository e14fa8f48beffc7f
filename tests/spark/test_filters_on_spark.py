"""Expensive conditions on Spark: the same results as in process, profiles that come back, one order for all tasks."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.errors import SqlError
from eddyline.spark.jobs import spark_runner
from tests import nasty_texts
from tests.engine.test_filters_in_tasks import (
    DECLARED,
    asked,
    calls_a_row,
    one_query,
    router_of,
    rows_of,
    told,
)
from tests.on_workers import elsewhere, opener


def test_workers_follow_one_order_and_tell_what_their_rows_told(spark, tmp_path):
    run_on_spark = spark_runner(spark)
    sent, came = [], []

    def run(tasks):
        sent.append(list(tasks))
        came.append(list(run_on_spark(tasks)))
        return came[-1]

    here = asked(eddyline.open(routing="a_greedy", results_per_query=100_000))
    there = asked(opener(tmp_path, run, n_pieces=3)(routing="a_greedy", results_per_query=100_000))
    for seed in range(3):
        rows = rows_of(1200, seed)
        here.push("s", rows)
        there.push("s", rows)
    assert told(there) == told(here)
    assert [len(tasks) for tasks in sent] == [3, 3, 3]
    assert all(result.output.walked["s"].n_rows > 0 for result in came[0])
    for tasks in sent:
        assert len({(task.routing.generation, task.routing.policy.current_order) for task in tasks}) == 1
    router = router_of(there)
    assert router.totals.n_rows == 3 * 1200
    assert router.totals.n_asked_rows == sum(
        int(r.output.walked["s"].asked_rows.sum()) for results in came for r in results
    )


def test_workers_learn_an_order_by_counts_alone(spark, tmp_path):
    """As tasks in this process do: what was sampled and counted, and so each decision, is the same."""
    found = []
    for run in (spark_runner(spark), elsewhere):
        engine = one_query(opener(tmp_path, run, n_pieces=3)(routing=DECLARED))
        n_calls = [calls_a_row(engine, range(k, k + 1), n_rows=1_200) for k in range(8)]
        found.append((n_calls, list(router_of(engine).history)))
        assert n_calls[0] == pytest.approx(2.86, abs=0.15)
        assert n_calls[-1] == pytest.approx(1.38, abs=0.1)
        assert "task_bit_3" in router_of(engine).keys[router_of(engine).incumbent.current_order[0]]
    assert found[0] == found[1]


def test_auto_on_spark_finds_what_it_finds_in_process(spark, tmp_path):
    here = asked(eddyline.open(results_per_query=100_000))
    there = asked(opener(tmp_path, spark_runner(spark), n_pieces=2)(results_per_query=100_000))
    for seed in range(3):
        rows = rows_of(800, 50 + seed)
        here.push("s", rows)
        there.push("s", rows)
    assert told(there) == told(here)
    assert router_of(there).snapshot()["n_rows"] == 2400


def test_large_and_deep_texts_are_worked_on_by_workers_as_in_process(spark, tmp_path):
    texts = [
        *nasty_texts.nested(190).values(),
        *nasty_texts.ACCEPTED.values(),
        *nasty_texts.many(60).values(),
    ]
    found = []
    for open_engine in (eddyline.open, opener(tmp_path, spark_runner(spark), n_pieces=2)):
        with open_engine() as engine:
            engine.stream("s", nasty_texts.SCHEMA)
            queries = [engine.query(f"SELECT a FROM s WHERE {text}") for text in texts]
            engine.push("s", [nasty_texts.ROW, {**nasty_texts.ROW, "a": 3, "flag": False}])
            found.append(([[r["a"] for r in query.results()] for query in queries], engine.dead_letters()))
            assert str(engine.explain_index())
            for query in queries:
                said = query.explain(), query.why(nasty_texts.ROW), query.why_not()
                assert all(map(str, said))
            with pytest.raises(SqlError):
                engine.query(f"SELECT a FROM s WHERE {nasty_texts.REFUSED['groups of patterns']}")
    assert found[0] == found[1]
    assert [letter.error for letter in found[0][1]] == ["DATETIME_OVERFLOW"]
