"""How much does it matter to know that filters are correlated: by their number, their selectivity, and the size of a group?

Claim     convergence    A-Greedy's orders, once settled, cost at most 1.02 times greed's, for any number of filters (fig. 9)
          correlation    what Independent costs by what A-Greedy costs is that of the exact figures within 2 % (fig. 11)
Baseline  Independent from its worst first order: each group whole before the next. All filters are alike to it; `tied` judges by
          windows so long that chance breaks no tie and stays there, with the paper's settings it comes to some order among them
Control   groups of one, and one group of all: nothing is to be gained there

Filters of the paper: half the rows pass, two of a group agree on 80 % of them, a probe costs 1. Figures are filter evaluations
per row of the orders that stood in the second half of the run, exact for the distribution; the extra ones of sampling are in
overhead.py. The paper prints curves without values: `greedy` and `worst` are the exact figures of its model.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Benchmark, main
from benchmarks.papers.filter_ordering._simulator import tuple_at_a_time
from benchmarks.papers.filter_ordering._workload import Filters
from eddyline.routing import AGreedy, FilterSet, Independent, Statistics

NUMBERS = (2, 3, 4, 5, 6, 8, 10, 12)
PASS_RATES = (0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88)
GROUP_SIZES = (1, 2, 3, 4, 6, 7, 8)
TIED = {"window_rows": 4000, "min_fill": 4000}


def settled_cost(
    kind: type[AGreedy], filters: Filters, n_rows: int, seed: int, *, rate: float, **settings: int
) -> float:
    """What the orders of the second half cost on average, started at the worst order."""
    costs = [1.0] * filters.n
    policy = kind(
        FilterSet.conjunction(filters.n),
        start=filters.by_group(),
        statistics=Statistics.of_costs(costs),
        **settings,
    )
    dropped = filters.drops(n_rows, np.random.default_rng(seed))
    found = tuple_at_a_time(dropped, policy, costs, rate=rate, seed=seed)
    policy.check()
    of_orders = {order: filters.cost(order) for _, order in found.orders}
    return found.mean_of(of_orders, n_rows // 2, n_rows)


def measured(bench: Benchmark, figure: str, filters: Filters, **varied: float) -> tuple[float, float]:
    """A row of a table: A-Greedy by greed, and tied Independent by A-Greedy against the same of the exact figures."""
    n_rows = bench.size(full=400_000, quick=40_000)
    greedy, worst = filters.cost(filters.greedy_order()), filters.cost(filters.by_group())
    best = filters.cost(filters.best_order())
    ours = settled_cost(AGreedy, filters, n_rows, bench.seed, rate=0.01)
    independent = settled_cost(Independent, filters, n_rows, bench.seed, rate=0.005)
    tied = settled_cost(Independent, filters, n_rows, bench.seed, rate=0.02, **TIED)
    bench.row(
        figure=figure,
        **varied,
        optimal=best,
        greedy=greedy,
        a_greedy=ours,
        worst=worst,
        independent=independent,
        tied=tied,
        ratio=tied / ours,
        exact_ratio=worst / greedy,
    )
    return ours / greedy, (tied / ours) / (worst / greedy)


def run(bench: Benchmark) -> None:
    by_number = [measured(bench, "9", Filters.alike(n, 2), n=n) for n in NUMBERS]
    bench.claim("convergence", max(ratio for ratio, _ in by_number), "<= 1.02")
    by_rate = [measured(bench, "10", Filters.alike(8, 2, rate), pass_rate=rate) for rate in PASS_RATES]
    bench.claim("convergence_by_selectivity", max(ratio for ratio, _ in by_rate), "<= 1.02")
    by_size = [measured(bench, "11", Filters.alike(8, size), group_size=size) for size in GROUP_SIZES]
    bench.claim("correlation", max(abs(off - 1) for _, off in by_size), "<= 0.02")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
