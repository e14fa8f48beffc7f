"""The benchmarks of joins run, in small, and the plans they compare with give the same results."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.harness import Benchmark
from benchmarks.joins import many_joins, star_flip, view_chain
from benchmarks.papers.cacq import expensive_join, shared_join
from benchmarks.papers.cacq._stocks import Shared, Stored, Update, pull_up, push_down


def claims_of(script) -> dict[str, float]:
    bench = Benchmark("joins/small", seed=7, is_quick=True)
    script.run(bench)
    assert bench.rows
    return {claim.name: claim.value for claim in bench.claims}


def test_a_probe_finds_every_article_of_a_symbol():
    probing, found = Stored(np.array([3, 1, 3, 2])).probe(np.array([3, 5, 1]))
    assert list(zip(probing.tolist(), found.tolist(), strict=True)) == [(0, 0), (0, 2), (2, 1)]


def test_all_plans_find_the_same_results_with_their_own_number_of_probes():
    """Prices 10, 20, 30 and two articles each: price > 5 is satisfied by three stocks, price > 25 by one."""
    update, limits = Update(np.array([10.0, 20.0, 30.0]), 2), np.array([5.0, 25.0])
    shared = Shared(update, "s.price > :x", {"x": limits})
    ours = shared.run(), shared.run()  # the second update meets none of the articles of the first
    shared.close()
    for found in (*ours, pull_up(update, limits)(), push_down(update, limits)()):
        assert found.n_results == 2 * (3 + 1)
    assert [found.n_probes for found in ours] == [3, 3]
    assert pull_up(update, limits)().n_probes == 3
    assert push_down(update, limits)().n_probes == 3 + 1


def test_stocks_that_satisfy_no_query_do_not_probe():
    update, limits = Update(np.array([10.0, 20.0, 30.0]), 2), np.array([25.0])
    shared = Shared(update, "s.price > :x", {"x": limits})
    assert shared.run().n_probes == 1
    shared.close()


def test_one_shared_join_in_small():
    assert claims_of(shared_join)["probes_beyond_stocks_that_satisfy_some_query"] == 0


def test_functions_of_one_side_of_a_join_in_small():
    found = claims_of(expensive_join)
    assert found["udf_calls_constant_in_articles"] == 1
    assert found["udf_calls_most_over_least"] == 1


@pytest.mark.thorough
def test_the_flip_of_a_star_join_counts_every_probe(monkeypatch):
    monkeypatch.setattr(star_flip, "HALF_ROWS", {20: 400, 2_000: 2_000})
    monkeypatch.setattr(star_flip, "LEAST_HALF", 400)
    assert set(claims_of(star_flip)) == {
        "star_flip_probes_per_row_20",
        "star_flip_rows_to_recover",
        "star_flip_probes_per_row_2000",
    }
    halves = star_flip.pushed("fixed", 500, 4_000, seed=7)
    assert halves.ratios == pytest.approx((1.0, 2.602 / 1.074), rel=0.05)  # the order of the text
    assert halves.rows_to_recover() == 4_000  # it never does


def test_many_joins_in_small():
    assert "ten_thousand_joins_over_one" in claims_of(many_joins)


def test_a_chain_of_views_in_small():
    assert claims_of(view_chain)["push_cost_of_a_view_chain_of_3_over_1"] > 0


@pytest.mark.spark
@pytest.mark.slow
def test_joins_beside_those_of_spark_in_small(spark):
    from benchmarks.joins import spark_peers

    assert "twenty_joins_vs_spark_stream_stream" in claims_of(spark_peers)
