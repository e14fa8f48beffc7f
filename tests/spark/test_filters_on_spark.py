"""Expensive conditions on Spark: the same results as in process, profiles that come back, one order for all tasks."""

from __future__ import annotations

import eddyline
from eddyline.spark.jobs import spark_runner
from tests.engine.test_filters_in_tasks import asked, router_of, rows_of, told
from tests.on_workers import opener


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
    assert all(result.walked is not None and result.walked.n_rows > 0 for result in came[0])
    for tasks in sent:
        assert len({(task.routing.generation, task.routing.policy.standing) for task in tasks}) == 1
    router = router_of(there)
    assert router.totals.n_rows == 3 * 1200
    assert router.totals.n_asked == sum(int(r.walked.asked.sum()) for results in came for r in results)


def test_auto_on_spark_finds_what_it_finds_in_process(spark, tmp_path):
    here = asked(eddyline.open(results_per_query=100_000))
    there = asked(opener(tmp_path, spark_runner(spark), n_pieces=2)(results_per_query=100_000))
    for seed in range(3):
        rows = rows_of(800, 50 + seed)
        here.push("s", rows)
        there.push("s", rows)
    assert told(there) == told(here)
    assert router_of(there).snapshot()["n_rows"] == 2400
