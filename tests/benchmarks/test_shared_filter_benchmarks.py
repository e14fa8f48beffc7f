"""The recipes of the paper on shared filters run, in small, and claim what they should."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.harness import UNGATED, Benchmark
from benchmarks.papers.shared_filters import (
    correlation,
    precompute,
    simulated_adaptivity_gap,
    simulated_overhead,
    simulated_sharing,
    small_instances,
)
from benchmarks.papers.shared_filters._decision_trees import in_order, while_needed
from benchmarks.papers.shared_filters._instances import (
    calls_by_filter,
    calls_in_order,
    gap,
    one_row,
    random_instance,
)
from eddyline.routing.shared_greedy import SharedGreedy
from tests.oracles import shared_filters as oracle

SEED = 7


def claims_of(script) -> dict[str, tuple[float, str, bool]]:
    bench = Benchmark("papers/shared_filters/small", seed=SEED, is_quick=True)
    script.run(bench)
    assert bench.rows
    return {claim.name: (claim.value, claim.bound, claim.holds) for claim in bench.claims}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "bounds"),
    [
        (
            simulated_adaptivity_gap,
            {
                "theorem37_greedy_n32_measured": "= 1 ± 0.02",
                "theorem37_fixed_n10": "= 4.14 ± 0.05",
                "theorem37_fixed_n32": "= 12.2 ± 0.2",
                "theorem37_one_decision_worst": "<= 5",
            },
        ),
        (
            small_instances,
            {
                "shared_vs_optimum_small": "<= 1.1",
                "shared_vs_optimum_smaller": "<= 1.1",
                "bounds_above_optimum": "= 0",
            },
        ),
        (
            simulated_sharing,
            {"calls_saved_vs_per_query": ">= 5", "control_nothing_shared_calls_saved": "= 1 ± 0.02"},
        ),
        (simulated_overhead, {}),
        (precompute, {}),
        (
            correlation,
            {"bound_above_optimum_hidden_state": "= 0", "bound_above_optimum_independent": "= 0"},
        ),
    ],
    ids=lambda value: value.__name__.rpartition(".")[2] if hasattr(value, "run") else "",
)
def test_a_recipe_claims_what_it_should_and_what_needs_no_size_holds(script, bounds):
    found = claims_of(script)
    assert {name: bound for name, (_, bound, _) in found.items() if bound not in UNGATED} == bounds
    missed = [name for name, (_, bound, holds) in found.items() if not holds and "±" not in bound]
    assert not missed


@pytest.mark.thorough
def test_precompute_stores_the_best_nodes():
    found = claims_of(precompute)
    names = ("overhead_grew", "off_the_best_nodes", "more_than_2m_plus_1_choices")
    assert [found[f"precompute_{name}"][:2] for name in names] == [(0, "recomputed")] * 3


def test_rows_that_walk_together_make_the_calls_of_each_alone():
    instance = random_instance(np.random.default_rng(SEED), 6, 8, (1, 4))
    rows = instance.rows(50, np.random.default_rng(SEED))
    policy = SharedGreedy(instance.filters, **instance.known)
    choice = while_needed(instance.filters, policy.next)
    alone = [one_row(instance.filters, choice, row.tolist()) for row in rows]
    assert calls_by_filter(instance.filters, choice, rows).tolist() == [
        sum(j in ran for ran in alone) for j in range(6)
    ]


def test_a_fixed_order_makes_the_calls_of_each_row_alone():
    instance = random_instance(np.random.default_rng(SEED), 6, 100, (1, 4))
    rows = instance.rows(50, np.random.default_rng(SEED))
    order = (3, 1, 5, 0, 2, 4)
    ran = [oracle.fixed_order_run(instance.queries, order, row.tolist()) for row in rows]
    expected = [sum(j in filters for filters in ran) for j in range(6)]
    assert calls_in_order(instance.filters, order, rows).tolist() == expected
    assert calls_by_filter(instance.filters, in_order(instance.filters, order), rows).tolist() == expected


def test_queries_alone_cost_what_each_does():
    instance = gap(2)  # filters 0 and 1 are free and pass half; 2 and 3 cost 1 and drop everything
    assert instance.alone() == (4 * 0.5, 4 * 1.5)
