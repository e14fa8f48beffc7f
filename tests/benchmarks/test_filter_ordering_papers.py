"""The benchmarks of the filter ordering paper run, in small, and what they are made of is what they say."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from benchmarks.harness import Benchmark
from benchmarks.papers.filter_ordering import (
    simulated_adaptivity,
    simulated_overhead,
    simulated_rate_of_change,
    simulated_tables,
    simulated_traps,
    simulated_unequal_costs,
)
from benchmarks.papers.filter_ordering._simulator import in_batches, tuple_at_a_time
from benchmarks.papers.filter_ordering._workload import Filters
from eddyline.routing import AGreedy, FilterSet, LocalSwaps, Statistics, Sweep
from tests.oracles import filter_ordering as oracle

SEED = 7


def claims_of(script) -> dict[str, tuple[float, str]]:
    bench = Benchmark("papers/filter_ordering/small", seed=SEED, is_quick=True)
    script.run(bench)
    assert bench.rows
    return {claim.name: (claim.value, claim.bound) for claim in bench.claims}


# --------------------------------------------------------------------------------------------- what they are made of


@pytest.mark.parametrize(
    ("filters", "greedy", "worst"),
    [  # the exact figures of the recipe: number of filters, selectivity, size of a group
        (Filters.alike(2, 2), 1.5, 1.5),
        (Filters.alike(5, 2), 1.975, 2.26),
        (Filters.alike(8, 2), 2.0595, 2.436),
        (Filters.alike(12, 2), 2.0264, 2.4898),
        (Filters.alike(8, 2, 0.12), 1.136, 1.143),
        (Filters.alike(8, 2, 0.7), 3.307, 3.699),
        (Filters.alike(8, 1), 1.9922, 1.9922),
        (Filters.alike(8, 3), 2.175, 2.7487),
        (Filters.alike(8, 7), 2.5395, 3.2955),
        (Filters.alike(8, 8), 3.2955, 3.2955),
    ],
)
def test_orders_cost_exactly_what_the_recipe_says(filters, greedy, worst):
    assert filters.cost(filters.greedy_order()) == pytest.approx(greedy, abs=6e-4)
    assert filters.cost(filters.by_group()) == pytest.approx(worst, abs=6e-4)


def test_the_best_order_is_found_among_all():
    filters, costs = Filters((0, 1, 0, 1, 2), (0.3, 0.6, 0.8)), [1.0, 2.0, 5.0, 1.0, 3.0]
    least = min(filters.cost(order, costs) for order in permutations(range(5)))
    assert filters.cost(filters.best_order(costs), costs) == pytest.approx(least)


def test_the_rows_drawn_have_the_shares_the_filters_promise():
    filters = Filters((0, 0, 1, 1, 1), (0.3, 0.7))
    dropped = filters.drops(200_000, np.random.default_rng(SEED))
    assert (~dropped).mean(axis=0) == pytest.approx([0.3, 0.3, 0.7, 0.7, 0.7], abs=0.005)
    for a, b in ((0, 1), (2, 3), (3, 4)):
        assert (dropped[:, a] == dropped[:, b]).mean() == pytest.approx(0.8, abs=0.005)
    assert (~dropped).all(axis=1).mean() == pytest.approx(filters.passing(range(5)), abs=0.005)


@pytest.mark.parametrize(
    ("kind", "settings"), [(AGreedy, {"min_fill": 5}), (Sweep, {"stage_rows": 20}), (LocalSwaps, {})]
)
def test_rows_walked_at_once_are_walked_as_one_by_one(kind, settings):
    filters, costs = Filters((0, 0, 1, 1), (0.4, 0.7)), [1.0, 2.0, 1.0, 3.0]
    dropped = filters.drops(3000, np.random.default_rng(SEED))

    def policy():
        return kind(
            FilterSet.conjunction(4),
            start=(3, 2, 1, 0),
            statistics=Statistics.of_costs(costs),
            min_support=2,
            **settings,
        )

    fast = tuple_at_a_time(dropped, policy(), costs, rate=0.2, seed=SEED)
    slow = in_batches(dropped, policy(), costs, n_batch=1, rate=0.2, seed=SEED)
    assert fast.n_reorders > 0
    assert (fast.work == slow.work).all()
    assert (fast.extra, fast.n_emitted, fast.orders) == (slow.extra, slow.n_emitted, slow.orders)
    assert fast.n_emitted == sum(not any(row) for row in dropped)


def test_a_run_costs_what_walking_its_orders_costs():
    filters, costs = Filters.alike(4, 2), [1.0, 2.0, 1.0, 3.0]
    dropped = filters.drops(2000, np.random.default_rng(SEED))
    policy = AGreedy(
        FilterSet.conjunction(4), start=range(4), statistics=Statistics.of_costs(costs), min_fill=1
    )
    found = in_batches(dropped, policy, costs, n_batch=64, rate=0.3, seed=SEED)
    ends = [*(start for start, _ in found.orders[1:]), len(dropped)]
    total = sum(
        (end - start) * oracle.cost(order, dropped[start:end].tolist(), costs)
        for (start, order), end in zip(found.orders, ends, strict=True)
    )
    assert float(total) == pytest.approx(found.work.sum())


# --------------------------------------------------------------------------------------------- the scripts


@pytest.mark.thorough
def test_the_traps_snap_exactly():
    found = claims_of(simulated_traps)
    assert len(found) == 12
    for name, (value, bound) in found.items():
        assert bound == f"= {value:g}", name


@pytest.mark.thorough
def test_settled_orders_are_near_greed_in_small():
    found = claims_of(simulated_tables)
    assert {name: bound for name, (_, bound) in found.items()} == {
        "convergence": "<= 1.02",
        "convergence_by_selectivity": "<= 1.02",
        "correlation": "<= 0.02",
    }
    assert found["convergence"][0] < 1.1


@pytest.mark.thorough
def test_extra_evaluations_are_those_of_the_model_in_small():
    found = claims_of(simulated_overhead)
    assert found["table2_extra_percent_n8_p0.05"][0] == pytest.approx(14.42, rel=0.05)
    assert found["table2_extra_evaluations_standard_errors_off"][0] < 4


@pytest.mark.thorough
def test_dear_filters_take_the_share_of_the_model_in_small():
    assert claims_of(simulated_unequal_costs)["unequal_costs_extra_points_off"][0] < 5


@pytest.mark.thorough
def test_orders_recover_in_small():
    found = claims_of(simulated_adaptivity)
    assert found["adaptivity_tuples_to_recover"][0] <= 120_000
    assert found["adaptivity_tuples_to_recover_own"][0] <= 20_000


@pytest.mark.thorough
def test_changing_filters_are_followed_in_small():
    found = claims_of(simulated_rate_of_change)
    assert found.keys() == {"changing_work_by_sweep", "changing_work_falls", "changing_extra_off"}
