"""Do conditional selectivities help Greedy where filters are correlated?

Claim     the bound from sampled rows is never above the optimum; reported: Greedy with marginal and with conditional
          selectivities against the optimum
Baseline  Greedy with marginal selectivities, and the optimum that knows the joint distribution
Control   the same with one hidden state, where filters are independent: both should come out alike
Paper     Greedy carries over to correlated filters with conditional selectivities; nothing is proven of it there

Joint distributions from a hidden variable of two states, each with pass rates of its own (recipe X8): 3 to 5 filters, 2 to 5
queries. The sample is the distribution: 120 rows drawn once, on which everything is evaluated, exactly and smoothed as the engine
does.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Benchmark, main
from benchmarks.papers.shared_filters._decision_trees import while_needed
from benchmarks.papers.shared_filters._independent_bound import independent_bound
from benchmarks.papers.shared_filters._instances import Instance, calls_by_filter, random_instance
from eddyline.routing.lower_bounds import lower_bound
from eddyline.routing.policy import Profile
from eddyline.routing.shared_greedy import SharedGreedy
from tests.oracles import shared_filters as oracle

N_ROWS = 120
KINDS = {
    "marginal": {"is_conditional": False},
    "conditional, exact": {"smoothing": 0.0},
    "conditional, smoothed": {},
}


def rows_of(rng: np.random.Generator, n_filters: int, n_states: int) -> np.ndarray:
    rates = rng.uniform(0.05, 0.95, (n_states, n_filters))
    return rng.random((N_ROWS, n_filters)) < rates[rng.integers(0, n_states, N_ROWS)]


def costs(instance: Instance, rows: np.ndarray) -> dict[str, float]:
    """Per row, by the optimum and by each kind of Greedy that has seen the rows; and the bounds."""
    filters, statistics = instance.filters, instance.known["statistics"]
    sampled = Profile(~rows, np.ones_like(rows))
    found = {"optimum": oracle.optimal_cost_of_rows(instance.queries, rows.tolist(), instance.cost)}
    for name, options in KINDS.items():
        policy = SharedGreedy(
            filters, statistics=statistics, pass_rate=rows.mean(axis=0), window_rows=N_ROWS, **options
        )
        policy.learn(sampled, statistics)
        calls = calls_by_filter(filters, while_needed(filters, policy.next), rows)
        found[name] = float(calls @ np.array(instance.cost)) / len(rows)
    found["bound"] = lower_bound(filters, statistics, sampled)
    found["bound as if independent"] = independent_bound(
        filters, rows.mean(axis=0).tolist(), instance.cost, is_strengthened=False
    )
    return found


def run(bench: Benchmark) -> None:
    n_cases = bench.size(full=87, quick=15)
    for what, n_states in (("hidden state", 2), ("independent", 1)):
        rng = np.random.default_rng(bench.seed)
        found = []
        for _ in range(n_cases):
            instance = random_instance(rng, int(rng.integers(3, 6)), int(rng.integers(2, 6)), (2, 3))
            found.append(costs(instance, rows_of(rng, len(instance.cost), n_states)))
        by_name = {name: np.array([each[name] for each in found]) for name in found[0]}
        optimum, marginal = by_name["optimum"], by_name["marginal"]
        for name in KINDS:
            ratio = by_name[name] / optimum
            bench.row(
                rows=what,
                greedy=name,
                mean_over_optimum=float(ratio.mean()),
                worst=float(ratio.max()),
                better_than_marginal=int((by_name[name] < marginal * (1 - 1e-9)).sum()),
                worse=int((by_name[name] > marginal * (1 + 1e-9)).sum()),
                cases=n_cases,
            )
        distance = optimum / by_name["bound"]
        bench.row(
            rows=what,
            greedy="optimum / bound",
            mean_over_optimum=float(distance.mean()),
            worst=float(distance.max()),
        )
        name = what.replace(" ", "_")
        bench.claim(f"marginal_over_optimum_{name}", float((marginal / optimum).mean()), "reported")
        for kind in ("exact", "smoothed"):
            ratio = by_name[f"conditional, {kind}"] / optimum
            bench.claim(f"conditional_{kind}_over_optimum_{name}", float(ratio.mean()), "reported")
        above = int((by_name["bound"] > optimum * (1 + 1e-7)).sum())
        bench.claim(f"bound_above_optimum_{name}", above, "= 0")
        naive = int((by_name["bound as if independent"] > optimum * (1 + 1e-7)).sum())
        bench.claim(f"independent_lp_above_optimum_{name}", naive, "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
