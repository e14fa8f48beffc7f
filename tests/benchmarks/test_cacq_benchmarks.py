"""The benchmarks of the paper on shared eddies and of probe orders run, in small, and are made of what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness import Benchmark
from benchmarks.joins import star_order
from benchmarks.papers.cacq import (
    queries,
    simulated_routing,
    simulated_ticket_adaptation,
    state_size,
    storage_table,
)
from benchmarks.papers.cacq._eddy import (
    CountedTickets,
    Queries,
    any_filter,
    any_needed,
    best_fixed,
    entered_at_random,
    entered_one_by_one,
    expected,
    in_order,
    policy_of,
    statistics_of,
)
from benchmarks.papers.cacq.storage_table import Storage
from eddyline.routing import FilterSet, FixedOrder, RandomChoice

SEED = 7
VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "shared_eddies.json").read_text())
NESTED = Queries.nested(90, 70, 50, 30, 10)


def claims_of(script) -> dict[str, tuple[float, str]]:
    bench = Benchmark("papers/cacq/small", seed=SEED, is_quick=True)
    script.run(bench)
    assert bench.rows
    return {claim.name: (claim.value, claim.bound) for claim in bench.claims}


# --------------------------------------------------------------------------------------------- what they are made of


@pytest.mark.parametrize("case", VECTORS["routing_cases"], ids=lambda case: case["name"])
def test_exact_figures_are_those_of_the_routing_vectors(case):
    names = sorted(case["pass_probability"])
    filters = FilterSet(
        tuple(frozenset(names.index(name) for name in query) for query in case["queries"].values()),
        len(names),
    )
    rates = [case["pass_probability"][name] for name in names]
    told = case["expected"]
    assert expected(filters, rates, in_order(filters)) == pytest.approx(told[f"fixed_{''.join(names)}"])
    assert expected(filters, rates, any_filter(filters)) == pytest.approx(told["random_unpruned"])
    assert expected(filters, rates, any_needed(filters)) == pytest.approx(told["random_pruned"])
    if "best_fixed" in told:
        assert best_fixed(filters, rates) == pytest.approx(told["best_fixed"])


@pytest.mark.parametrize("case", VECTORS["storage_cases"], ids=lambda case: case["parameters"]["queries"])
def test_the_storage_table_is_that_of_the_vectors(case):
    given, told = case["parameters"], case["expected"]
    storage = Storage(given["queries"], given["sources"], given["selections"], given["source_queries"])
    assert told["per_source"] == {
        "queries": storage.source_queries,
        "operators": storage.source_operators,
        "completion_mask": storage.source_masks,
    }
    assert (storage.row, storage.total) == (told["per_tuple"], told["flow_bytes"])


def test_whole_numbers_pass_a_hundredth_less():
    assert NESTED.pass_rates() == (0.1, 0.3, 0.5, 0.7, 0.9)
    assert NESTED.pass_rates(whole=True) == (0.09, 0.29, 0.49, 0.69, 0.89)
    for whole in (False, True):
        dropped = NESTED.drops(100_000, np.random.default_rng(SEED), whole=whole)
        assert 1 - dropped.mean(axis=0) == pytest.approx(NESTED.pass_rates(whole=whole), abs=0.005)


def test_a_row_enters_filters_until_every_query_is_decided():
    filters = NESTED.filters
    #                    a  b  c  d  e
    dropped = np.array([[1, 0, 0, 0, 0],  # no query is left
                        [0, 1, 0, 0, 0],  # the first is delivered, the others are not
                        [0, 0, 0, 0, 0]], bool)  # fmt: skip
    assert entered_one_by_one(policy_of(FixedOrder, filters), filters, dropped) == (1 + 2 + 5) / 3
    lottery = CountedTickets(filters, start=range(5), statistics=statistics_of(filters), seed=SEED)
    assert lottery.take(dropped[2:]) == 5


def test_counts_are_near_the_exact_figures():
    filters, rng = NESTED.filters, np.random.default_rng(SEED)
    dropped = NESTED.drops(5_000, rng)
    assert entered_at_random(filters, dropped, rng) == pytest.approx(3.1216, abs=0.08)
    by_policy = entered_one_by_one(policy_of(RandomChoice, filters, seed=SEED), filters, dropped)
    assert by_policy == pytest.approx(2.6275, abs=0.08)


def test_the_best_orders_of_star_joins_are_counted_exactly():
    #                    0  1  2  3
    matched = np.array([[1, 0, 1, 1],
                        [1, 1, 0, 1],
                        [1, 0, 1, 1]], bool)  # fmt: skip
    assert star_order.n_probed(matched, (0, 1, 2, 3)) == 3 + 3 + 1
    assert star_order.n_probed(matched, (1, 2, 0, 3)) == 3 + 1
    assert star_order.best_order([matched]) == 4
    counters = star_order.probed([matched], "fixed", SEED).counters
    assert (counters.n_drivers, counters.n_probes, counters.n_combinations) == (3, 7, 0)


# --------------------------------------------------------------------------------------------- they run


@pytest.mark.thorough
def test_claims_that_count_hold_in_small():
    for script in (simulated_routing, star_order):
        for name, (value, bound) in claims_of(script).items():
            assert (
                name == "star_join_adaptive_on_neutral"
                or Benchmark("x/y", seed=1).claim(name, value, bound).holds
            )


@pytest.mark.thorough
def test_the_storage_table_stands_beside_what_queries_take():
    claims = claims_of(storage_table)
    assert claims["storage_table"] == (6_839_500, "recomputed")
    assert 0.1 < claims["index_over_table_with_predicates"][0] < 10


@pytest.mark.thorough
def test_throughput_is_told_as_ratios():
    assert set(claims_of(state_size)) == {
        "ours_fall_from_100_to_1000",
        "bitmaps_fall_from_100_to_1000",
        "standing_fall_from_100_to_1000",
    }
    assert "shared_over_private_at_20" in claims_of(queries)


@pytest.mark.thorough
def test_tickets_follow_within_four_periods():
    claims = claims_of(simulated_ticket_adaptation)
    assert claims["tickets_periods_to_steady"][0] <= 5  # of one seed
    assert claims["tickets_w1_most_for"][0] == 4
