"""The benchmarks on Spark run, everybody in them finds the same matches, and they claim what they should."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from benchmarks.filters._workloads import STREAM, ranges
from benchmarks.harness import Benchmark
from benchmarks.spark._processes import cpu_of_tree
from benchmarks.spark._turns import Contender, taken_turns

pytest.importorskip("pyspark")


def quick(name: str) -> Benchmark:
    return Benchmark(name, seed=7, is_quick=True)


def test_cpu_seconds_are_those_of_this_process_and_of_all_below_it():
    busy = "import time\nwhile time.process_time() < 0.3: pass\n"
    below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}], check=True)"
    before = cpu_of_tree()
    subprocess.run([sys.executable, "-c", below], check=True)
    assert 0.3 <= cpu_of_tree() - before < 30


def test_contenders_take_turns_are_made_ready_and_compared():
    told = []

    def contender(name):
        def tell(what):
            told.append(f"{name} {what}")
            return 3

        return Contender(
            run=lambda: tell("runs"),
            by_rule=lambda: np.array([1, 2]),
            ready=lambda: tell("is ready"),
            done=lambda: tell("is done"),
        )

    bench = quick("spark/some")
    found = taken_turns(bench, {"a": contender("a"), "b": contender("b")}, repetitions=9, n_rows=10, rules=2)
    turn = ["a is ready", "a runs", "a is done", "b is ready", "b runs", "b is done"]
    assert told == ["a is ready", "a is done", "b is ready", "b is done", *turn]
    assert len(found["a"].wall_s) == len(found["b"].cpu_s) == 1
    assert [(row["who"], row["rules"], row["matches"]) for row in bench.rows] == [("a", 2, 3), ("b", 2, 3)]


def test_contenders_that_find_other_matches_are_not_compared():
    three = Contender(run=lambda: 3, by_rule=lambda: np.array([1, 2]))
    swapped = Contender(run=lambda: 3, by_rule=lambda: np.array([2, 1]))
    fewer = Contender(run=lambda: 2)
    with pytest.raises(
        AssertionError, match="a and b differ in 2 rules, the first of them 0: 1 and 2 matches"
    ):
        taken_turns(quick("spark/some"), {"a": three, "b": swapped}, repetitions=1, n_rows=10)
    with pytest.raises(AssertionError, match="b found 2 matches, not 3"):
        taken_turns(quick("spark/some"), {"a": three, "b": fewer}, repetitions=1, n_rows=10)


def test_rounds_in_the_driver_have_the_matches_of_each_rule_in_the_order_of_the_workload(tmp_path):
    from benchmarks.spark._home import Home, written

    workload = ranges(50, 7)
    files = written(workload, 4_000, 2, tmp_path / "rows")
    expected = sum(workload.queries.satisfied_by(workload.rows(2_000, at)).sum(axis=0) for at in range(2))
    with Home(None, workload, tmp_path / "home") as home:
        for _ in range(2):
            outcome = home.driver_round(files)
            assert outcome.round.n_rows == {STREAM: 4_000}
            assert home.by_rule(outcome).tolist() == expected.tolist()


def test_a_rule_lies_in_every_square_of_the_grid_that_it_reaches_into():
    from benchmarks.spark._patterns import GRID, _squares

    queries = ranges(40, 7).queries
    squares = _squares(queries).to_pylist()
    for rule in range(len(queries)):
        asked = [c for c in queries.conditions if c.operator[rule]][:2]
        sides = [c.high[rule] - c.low[rule] for c in asked]
        n = sum(each["id"] == rule for each in squares)
        assert (
            np.prod([np.floor(side * GRID) for side in sides])
            <= n
            <= np.prod([side * GRID + 2 for side in sides])
        )


@pytest.mark.slow
def test_the_benchmark_of_rounds_runs_and_claims_what_it_should(spark):
    from benchmarks.spark import rounds

    bench = quick("spark/rounds")
    rounds.run(bench)
    assert {claim.name: claim.bound for claim in bench.claims} == {
        "round_1000_rows_10k_queries_over_identity": "<= 1.5",
        "round_1000_rows_10k_queries_over_identity_of_file": "reported",
        "round_1000_rows_10k_queries_over_identity_again": "reported",
        "small_round_in_driver_ms": "reported",
        "keyed_10k_worker_read_vs_identity_mapinarrow": ">= 3",
        "control_one_query_worker_read_vs_filter": ">= 0.3",
    }


@pytest.mark.slow
def test_the_benchmark_of_peers_runs_and_claims_what_it_should(spark):
    from benchmarks.spark import peers

    bench = quick("spark/peers")
    peers.run(bench)
    assert {claim.name: claim.bound for claim in bench.claims} == {
        "vs_broadcast_join_1k_rules": ">= 12",
        "vs_broadcast_join_10k_rules": ">= 40",
        "vs_hand_bucketed_join": "reported",
        "vs_streamingquery_per_rule_20": ">= 5",
        "vs_foreachbatch_loop_100": ">= 10",
        "vs_one_select_100": "reported",
        "control_one_rule_vs_filter": ">= 0.3",
    }
    assert not spark.streams.active


@pytest.mark.slow
@pytest.mark.spark
def test_a_new_process_gets_its_first_result():
    from benchmarks.spark import start

    bench = quick("spark/start")
    start.run(bench)
    (claim,) = bench.claims
    assert (claim.name, claim.bound) == ("warm_start_to_first_result_s", "reported")
    assert claim.value > 0
