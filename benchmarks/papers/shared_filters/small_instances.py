"""How near to the optimum are the strategies, and how near is the lower bound, where an optimum can be found?

Claim     Greedy costs at most 1.1 times the optimum in the mean over random small instances
Baseline  the optimum, by trying each filter at each state; the best adaptive strategy there is
Paper     Greedy is optimal on most instances; the optimum is within about twice the LP; GreedyVariant is always slightly worse
          than Greedy. The last is an observation: on some instances it is cheaper, which is counted here

4 to 8 filters, 2 to 10 queries of 2 to 4 filters, pass rates 0.05 to 0.95, costs 1 to 20 (recipes X2, X3, X4); beside them the
smaller ones of the specification's own figures, 3 to 6 filters and 2 to 7 queries: the larger the instances, the fewer of them
Greedy solves to the last digit. All figures are exact expectations, nothing is sampled but the instances.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks.harness import Benchmark, main
from benchmarks.papers.shared_filters._decision_trees import expected_cost_s, independently
from benchmarks.papers.shared_filters._independent_bound import independent_bound
from benchmarks.papers.shared_filters._instances import Instance, small, smaller
from eddyline.routing.fixed_greedy import FixedGreedy
from eddyline.routing.greedy_variant import GreedyVariant
from eddyline.routing.phased_policy import PhasedPolicy
from eddyline.routing.shared_greedy import SharedGreedy

SAME = 1 + 1e-9
EDGES = (SAME, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 9.0)  # of the histogram; what is below is optimal


def costs(instance: Instance) -> dict[str, float]:
    filters, known = instance.filters, instance.known
    printed = GreedyVariant(filters, skips=False, **known)
    rates = independently(instance.pass_rate)
    return {
        "optimum": instance.optimum,
        "lp": independent_bound(filters, instance.pass_rate, instance.cost, is_strengthened=False),
        "lp_plus": independent_bound(filters, instance.pass_rate, instance.cost),
        "greedy": instance.expected(SharedGreedy(filters, **known)),
        "variant": expected_cost_s(filters, printed.choice, rates, instance.cost),
        "variant_skipping": instance.expected(GreedyVariant(filters, **known)),
        "fixed_greedy": instance.expected(FixedGreedy(filters, **known)),
        "phased": instance.expected(PhasedPolicy(filters, **known)),
    }


def run(bench: Benchmark) -> None:
    n = bench.size(full=350, quick=30)
    found = measure(bench, "small", small(n, bench.seed))
    greedy = found["greedy"] / found["optimum"]
    bench.claim("shared_vs_optimum_small", float(greedy.mean()), "<= 1.1")
    bench.claim("shared_vs_optimum_small_worst", float(greedy.max()), "reported")
    bench.claim("greedy_optimal_share", float((greedy < SAME).mean()), "reported")
    tightness = found["optimum"] / found["lp"]
    bench.claim("optimum_over_lp_mean", float(tightness.mean()), "reported")
    bench.claim("optimum_over_lp_worst", float(tightness.max()), "reported")
    bench.claim("optimum_over_lp_plus_mean", float((found["optimum"] / found["lp_plus"]).mean()), "reported")
    variant = found["variant"] / found["greedy"]
    bench.claim("variant_over_greedy_mean", float(variant.mean()), "reported")
    bench.claim("variant_cheaper_share", float((variant * SAME < 1).mean()), "reported")
    less = measure(bench, "smaller", smaller(n, bench.seed))
    bench.claim(
        "greedy_optimal_share_smaller", float((less["greedy"] < SAME * less["optimum"]).mean()), "reported"
    )
    bench.claim("shared_vs_optimum_smaller", float((less["greedy"] / less["optimum"]).mean()), "<= 1.1")
    above = sum(int((each["lp_plus"] > each["optimum"] * (1 + 1e-7)).sum()) for each in (found, less))
    bench.claim("bounds_above_optimum", above, "= 0")


def measure(bench: Benchmark, what: str, instances: list[Instance]) -> dict[str, np.ndarray]:
    """Costs and bounds by name, one figure an instance; their ratios are rows."""
    each = [costs(instance) for instance in instances]
    found = {name: np.array([of[name] for of in each]) for name in each[0]}
    optimum, greedy = found["optimum"], found["greedy"]
    ratios = {
        f"{name} / optimum": found[name] / optimum
        for name in ("greedy", "variant", "variant_skipping", "fixed_greedy", "phased")
    }
    ratios |= {"optimum / LP": optimum / found["lp"], "optimum / LP+": optimum / found["lp_plus"]}
    ratios["variant / greedy"] = found["variant"] / greedy
    for name, ratio in ratios.items():
        bench.row(
            instances=what,
            ratio=name,
            mean=float(ratio.mean()),
            median=float(np.median(ratio)),
            p90=float(np.quantile(ratio, 0.9)),
            worst=float(ratio.max()),
            share_equal=float((np.abs(ratio - 1) < SAME - 1).mean()),
        )
    for low, high in pairwise(EDGES):
        ratio = greedy / optimum
        bench.row(
            instances=what,
            ratio=f"greedy / optimum from {low:.4g} to {high:.4g}",
            share=float(((ratio >= low) & (ratio < high)).mean()),
        )
    return found


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
