"""How much does it matter, to rows pushed to the engine, that filters are known to be correlated?

Claim     engine_convergence                   A-Greedy's calls, once settled, are at most 1.02 times those of greed's order on
                                               the same rows, for any number of filters (fig. 9)
          engine_convergence_by_selectivity    the same for any selectivity (fig. 10)
          engine_convergence_by_correlation    and any size of a group (fig. 11)
          engine_fixed_off                     a fixed order makes the calls that the simulator counts, to the last one
Baseline  Independent, from its worst first order: each group whole before the next
Control   groups of one, and one group of all: nothing is to be gained there
Paper     "Adaptive Ordering of Pipelined Stream Filters": A-Greedy is ahead of Independent throughout, by more the more filters
          there are (fig. 9), most at middle selectivities (fig. 10), and first more, then less the larger groups are (fig. 11).
          It prints curves of tuples a second without values

The filters of simulated_tables.py through `engine.push`: each is a Python function that counts. Figures are calls a row that rows
needed in the second half; those for sampled rows are beside them. All selectivities are equal, so Independent sees only ties, and
chance decides where it goes. `rows_per_s` is measured apart, with functions of 2 us, by the wall.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Benchmark, main
from benchmarks.papers.filter_ordering._on_engine import cost_of, pushed, throughput, whole_pushes
from benchmarks.papers.filter_ordering._workload import Filters

NUMBERS = (2, 3, 4, 5, 6, 8, 10, 12)
PASS_RATES = (0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88)
GROUP_SIZES = (1, 2, 3, 4, 6, 7, 8)


def measured(bench: Benchmark, figure: str, filters: Filters, **varied: float) -> tuple[float, float]:
    """A row of the table: A-Greedy by greed, and how far a fixed order is from the simulator's count."""
    n_rows = bench.size(full=200_000, quick=40_000)
    passes = ~filters.drops(n_rows, np.random.default_rng(bench.seed))
    half, worst, best = whole_pushes(n_rows), filters.by_group(), filters.best_order()
    found = {
        policy: pushed(passes, policy, start=best if policy == "fixed" else worst, seed=bench.seed).from_row(
            half
        )
        for policy in ("a_greedy", "independent", "fixed")
    }
    greedy = cost_of(filters.greedy_order(), passes[half:])
    speeds = {
        f"{name}_rows_per_s": throughput(bench, filters, policy, start)
        for name, policy, start in (
            ("a_greedy", "a_greedy", worst),
            ("independent", "independent", worst),
            ("optimal", "fixed", best),
        )
    }
    bench.row(
        figure=figure,
        **varied,
        optimal=found["fixed"].needed_cost(),
        greedy=greedy,
        a_greedy=found["a_greedy"].needed_cost(),
        a_greedy_sampled=found["a_greedy"].extra_cost(),
        independent=found["independent"].needed_cost(),
        worst=cost_of(worst, passes[half:]),
        **speeds,
    )
    off = abs(found["fixed"].needed_cost() - cost_of(best, passes[half:])) * (n_rows - half)
    return found["a_greedy"].needed_cost() / greedy, round(off)


def run(bench: Benchmark) -> None:
    by_number = [measured(bench, "9", Filters.alike(n, 2), n=n) for n in NUMBERS]
    bench.claim("engine_convergence", max(ratio for ratio, _ in by_number), "<= 1.02")
    by_rate = [measured(bench, "10", Filters.alike(8, 2, rate), pass_rate=rate) for rate in PASS_RATES]
    bench.claim("engine_convergence_by_selectivity", max(ratio for ratio, _ in by_rate), "<= 1.02")
    by_size = [measured(bench, "11", Filters.alike(8, size), group_size=size) for size in GROUP_SIZES]
    bench.claim("engine_convergence_by_correlation", max(ratio for ratio, _ in by_size), "<= 1.02")
    bench.claim("engine_fixed_off", max(off for _, off in (*by_number, *by_rate, *by_size)), "= 0")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
