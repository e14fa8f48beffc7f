"""What does sharing save where queries over common functions are pushed to one engine, beside an engine for each?

Claim     engine_calls_saved       at 100 queries over 20 functions, engines with one query each make at least 5 times the calls
                                   of one engine with all of them, those for sampled rows among them
          engine_greedy_off        that engine makes at most 1.05 times the cost of Greedy that is told all pass rates, once it
                                   has learned: in the second half of the rows
Baseline  an engine per query, its functions in their best order: what one job per rule does
Control   queries that share no function: one engine saves nothing there
Paper     "Optimization of Continuous Queries with Shared Expensive Filters": sharing pays the more the more queries share a
          filter (recipe X5)

Queries of 3 functions of 20 that count their calls; pass rates 0.05 to 0.95, declared costs 1 to 20, as in simulated_sharing.py.
The second half of the rows is counted. `over_bound` is the cost by LP+, which no strategy can be below.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Benchmark, main
from benchmarks.papers._pushed import PUSH_ROWS, CountedEngine, Pushes, declared
from benchmarks.papers.shared_filters._independent_bound import independent_bound
from benchmarks.papers.shared_filters._instances import Instance, random_instance
from benchmarks.papers.shared_filters.simulated_sharing import IN_QUERY, N_FILTERS, N_QUERIES, walked
from eddyline.routing.fixed_greedy import ranked_filters
from eddyline.routing.policy import BoolMatrix
from eddyline.routing.shared_greedy import SharedGreedy

POLICIES = ("shared_greedy", "fixed_greedy", "auto")


def together(instance: Instance, policy: str, passes: BoolMatrix, seed: int) -> Pushes:
    with CountedEngine(len(instance.cost), declared(policy), costs=instance.cost, seed=seed) as counted:
        return counted.ask(*instance.queries).push(passes)


def alone(instance: Instance, passes: BoolMatrix) -> float:
    """Calls a row of engines with one query each."""
    calls = 0
    for query in instance.queries:
        order = ranked_filters(query, instance.pass_rate, instance.cost)
        with CountedEngine(len(instance.cost), declared("fixed"), costs=instance.cost) as counted:
            calls += int(counted.ask(order).push(passes).calls.sum())
    return calls / len(passes)


def measure(bench: Benchmark, what: str, instance: Instance, n_rows: int) -> tuple[float, float]:
    """Calls of queries alone by those of Greedy, and Greedy's cost by that of one that knows all pass rates."""
    passes = instance.rows(n_rows, np.random.default_rng(bench.seed + 1))
    half = n_rows // 2 // PUSH_ROWS * PUSH_ROWS
    n_alone = alone(instance, passes[half : half + PUSH_ROWS])
    bound = independent_bound(instance.filters, instance.pass_rate, instance.cost)
    told_cost, _ = walked(instance, SharedGreedy(instance.filters, **instance.known), passes[half:])
    found = {}
    for policy in POLICIES:
        later = together(instance, policy, passes, bench.seed).from_row(half)
        cost = later.needed_cost(instance.cost) + later.extra_cost(instance.cost)
        n_calls = later.needed_cost() + later.extra_cost()
        found[policy] = n_alone / n_calls, cost / told_cost
        bench.row(
            what=what,
            queries=len(instance.queries),
            mu=instance.mu,
            policy=policy,
            calls_alone=n_alone,
            calls=n_calls,
            calls_saved=n_alone / n_calls,
            over_bound=cost / bound,
            over_told_greedy=cost / told_cost,
            rows_per_s=later.rows_per_s,
        )
    return found["shared_greedy"]


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    n_rows = bench.size(full=80_000, quick=24_000)
    found = {}
    for n_queries in N_QUERIES if not bench.is_quick else N_QUERIES[::2]:
        instance = random_instance(rng, N_FILTERS, n_queries, (IN_QUERY, IN_QUERY))
        found[n_queries] = measure(bench, "sharing", instance, n_rows)
        bench.claim(f"engine_calls_saved_at_{n_queries}_queries", found[n_queries][0], "reported")
    few = random_instance(rng, N_FILTERS, 1, (IN_QUERY, IN_QUERY))
    apart = [list(range(at, at + IN_QUERY)) for at in range(0, N_FILTERS - IN_QUERY + 1, IN_QUERY)]
    control, _ = measure(bench, "nothing shared", Instance(apart, few.pass_rate, few.cost), n_rows)
    bench.claim("engine_calls_saved", found[N_QUERIES[-1]][0], ">= 5")
    bench.claim("engine_greedy_off", max(off for _, off in found.values()), "<= 1.05")
    bench.claim("engine_calls_saved_nothing_shared", control, "= 1 ± 0.05")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
