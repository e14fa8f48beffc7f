"""Do policies that look at filters one by one, or only at neighbours, fall into the traps the paper lays for them?

Claim     example6_greedy          A-Greedy needs 1.49 evaluations per row in the independence trap, the best there is
          example6_independent     Independent needs 0.49 n + 0.51 there
          example7_greedy          A-Greedy needs 1 + 1/n in the local trap
          example7_local_swaps     LocalSwaps stays at (n + 1) / 2
Baseline  each other: the same rows, the same first order
Control   before the change of the local trap every order costs (n + 1) / 2, and nobody reorders

Rows are the values 1 to 100 again and again, all of them sampled, so that nothing is left to chance.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Benchmark, main
from benchmarks.papers.filter_ordering._simulator import Run, in_batches
from eddyline.routing import AGreedy, FilterSet, Independent, LocalSwaps, Statistics, Sweep
from eddyline.routing.in_order import InOrder
from eddyline.routing.policy import BoolMatrix

SIZES = (4, 10, 20)
VALUES = np.arange(1, 101)
POLICIES: tuple[type[InOrder], ...] = (AGreedy, Independent, Sweep, LocalSwaps)


def independence_trap(n: int) -> BoolMatrix:
    """All filters but the last pass 1 to 49, the last passes 50 to 100."""
    return np.stack([*[VALUES >= 50] * (n - 1), VALUES < 50], axis=1)


def slices(n: int) -> BoolMatrix:
    """Each filter drops its own n-th of the values."""
    wide = 100 // n
    return np.stack([(VALUES - 1) // wide == k for k in range(n)], axis=1)


def local_trap(n: int) -> BoolMatrix:
    """The last filter now drops all but the slice of the filter before it."""
    dropped = slices(n)
    dropped[:, -1] = ~dropped[:, -2]
    return dropped


def settled(kind: type[InOrder], *phases: BoolMatrix, cycles: int) -> tuple[Run, InOrder]:
    """A policy over the phases in turn, each repeated, from the order in which the filters are numbered."""
    n = phases[0].shape[1]
    costs = [1.0] * n
    policy = kind(FilterSet.conjunction(n), start=range(n), statistics=Statistics.of_costs(costs))
    rows = np.concatenate([np.tile(phase, (cycles, 1)) for phase in phases])
    return in_batches(rows, policy, costs, n_batch=100, seed=0, rate=1.0), policy


def run(bench: Benchmark) -> None:
    cycles = bench.size(full=400, quick=60)  # Sweep examines nineteen positions for five cycles each
    for n in SIZES:
        for kind in POLICIES:
            found, policy = settled(kind, independence_trap(n), cycles=cycles)
            evaluations = found.mean_work(len(found.work) - 100)
            is_blind = kind is Independent
            expected = 0.49 * n + 0.51 if is_blind else 1.49
            bench.row(trap="independence", n=n, policy=policy.name, evaluations=evaluations, paper=expected)
            if kind in (AGreedy, Independent):
                name = "independent" if is_blind else "greedy"
                bench.claim(f"example6_{name}_n{n}", round(evaluations, 9), f"= {round(expected, 2)}")
    for n in SIZES:
        for kind in POLICIES:
            found, policy = settled(kind, slices(n), local_trap(n), cycles=cycles)
            changed = cycles * 100
            evaluations = found.mean_work(len(found.work) - 100)
            is_local = kind is LocalSwaps
            expected = (n + 1) / 2 if is_local else 1 + 1 / n
            bench.row(
                trap="local",
                n=n,
                policy=policy.name,
                evaluations=evaluations,
                paper=expected if kind in (AGreedy, LocalSwaps) else None,
                before=found.mean_work(0, changed),
            )
            if kind in (AGreedy, LocalSwaps):
                name = "local_swaps" if is_local else "greedy"
                bench.claim(f"example7_{name}_n{n}", round(evaluations, 9), f"= {round(expected, 2)}")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
