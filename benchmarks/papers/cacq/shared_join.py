"""What does one shared join do for many queries, beside plans that are grouped by selection or by join?

Claim     stocks that probe the articles: those that satisfy some query, each once, whatever the number of queries
Baseline  PushDown and PullUp of NiagaraCQ (benchmarks/papers/cacq/_stocks.py says what they are), in NumPy; equal numbers of
          results asserted
Control   one query: nothing to share; its seconds are what a round costs beside arrays
Paper     CACQ, fig. 11a: its eddy is faster than PullUp for few queries and slightly slower for many; PushDown is the slowest
          throughout. One of the thresholds selects everything, so with the paper's queries every stock probes; `high` has only
          thresholds above 90, where selecting first saves probes

An update of 2,250 stocks meets the articles stored before it. Seconds are CPU seconds. Queries stand before, and
articles are stored anew in every turn. Ours are two whole rounds of an engine that could be asked for every pair afterwards; the
baselines hold arrays and nothing else. Ours selects twice: stocks before the join, so that those nobody wants do not probe, and
rows of the join, which one index decides for all queries with their windows and whatever else they say. The paper's eddy carries
the first decision along with the tuple; here only expensive conditions are carried (expensive_join.py).
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Benchmark, main, warmed_up
from benchmarks.papers.cacq._stocks import (
    N_STOCKS,
    Shared,
    Update,
    pull_up,
    push_down,
    thresholds,
)

PAPER = {  # seconds of its fig. 11a, in order
    "one": "eddy < PullUp < PushDown",
    "few": "eddy < PullUp < PushDown",
    "many": "PullUp < eddy < PushDown",
}


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    n_stocks = bench.size(full=N_STOCKS, quick=300)
    repetitions = bench.size(full=9, quick=3)
    cases = {
        "one": (thresholds(1, rng), 1),
        "few": (thresholds(10, rng), 1),
        "many": (thresholds(200, rng), 1),
        "ten articles": (thresholds(100, rng), 10),
        "high": (rng.uniform(90, 100, 100), 10),
    }
    n_wrong_probes = 0
    ratios: dict[str, dict[str, float]] = {}
    for case, (limits, per_stock) in cases.items():
        update = Update.of(n_stocks, per_stock, rng)
        shared = Shared(update, "s.price > :x", {"x": limits})
        warmed_up(shared.run, calls=3, at_most_s=5.0)
        contenders = {
            "ours": shared.run,
            "pull up": pull_up(update, limits),
            "push down": push_down(update, limits),
        }
        taken = bench.interleaved(contenders, repetitions=repetitions, same=lambda found: found.n_results)
        shared.close()
        n_satisfying = int((update.prices > limits.min()).sum())
        ratios[case] = {name: each.median_s / taken["ours"].median_s for name, each in taken.items()}
        for name, each in taken.items():
            found = each.result
            assert found is not None
            if name == "ours":
                n_wrong_probes += abs(found.n_probes - n_satisfying)
            bench.row(
                case=case,
                queries=len(limits),
                articles_per_stock=per_stock,
                plan=name,
                results=found.n_results,
                probes=found.n_probes,
                tuples_selected=found.n_selected,
                cpu_s=each.median_s,
                over_ours=ratios[case][name],
                paper=PAPER.get(case, ""),
            )
    bench.claim("probes_beyond_stocks_that_satisfy_some_query", n_wrong_probes, "= 0")
    for case in ("one", "many", "ten articles"):
        name = case.replace(" ", "_")
        bench.claim(f"pull_up_over_ours_{name}", ratios[case]["pull up"], "reported")
        bench.claim(f"push_down_over_ours_{name}", ratios[case]["push down"], "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=9)
