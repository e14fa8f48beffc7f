"""Do rows that are pushed to the engine fall into the traps that the paper lays for simpler policies?

Claim     engine_example6_greedy         A-Greedy needs 1.49 calls a row in the independence trap, the best there is
          engine_example6_independent    Independent needs 0.49 n + 0.51 there
          engine_example7_greedy         A-Greedy needs 1 + 1/n in the local trap
          engine_example7_local_swaps    LocalSwaps stays at (n + 1) / 2
Baseline  each other: the same rows, the same first order
Control   before the change of the local trap every order makes (n + 1) / 2 calls, and nothing is reordered
Paper     examples 6 and 7

The rows of simulated_traps.py through `engine.push`: the values 1 to 100 again and again, a push for each hundred. All are
sampled, so that nothing is left to chance; `auto`, which is reported, samples as many as it likes. Counted is what the rows of
the last push needed.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Benchmark, main
from benchmarks.papers._pushed import CountedEngine, Pushes, declared
from benchmarks.papers.filter_ordering.simulated_traps import (
    SIZES,
    VALUES,
    independence_trap,
    local_trap,
    slices,
)
from eddyline.routing.policy import BoolMatrix

POLICIES = ("a_greedy", "independent", "local_swaps", "auto")


def settled(policy: str, *phases: BoolMatrix, cycles: int) -> Pushes:
    """The phases in turn, each repeated, from the order in which the filters are numbered."""
    n = phases[0].shape[1]
    rows = np.concatenate([np.tile(phase, (cycles, 1)) for phase in phases])
    with CountedEngine(n, declared(policy, None if policy == "auto" else 1.0)) as counted:
        return counted.ask(range(n)).push(~rows, push_rows=len(VALUES))


def run(bench: Benchmark) -> None:
    cycles = bench.size(full=200, quick=60)
    last = len(VALUES) * (cycles - 1)
    for n in SIZES[: bench.size(full=3, quick=2)]:
        for policy in POLICIES:
            calls = settled(policy, independence_trap(n), cycles=cycles).from_row(last).needed_cost()
            expected = 0.49 * n + 0.51 if policy == "independent" else 1.49
            bench.row(trap="independence", n=n, policy=policy, calls=calls, paper=expected)
            if policy != "local_swaps":
                name = policy.removeprefix("a_")
                bound = "reported" if policy == "auto" else f"= {expected:.2f}"
                bench.claim(f"engine_example6_{name}_n{n}", round(calls, 9), bound)
        for policy in POLICIES:
            found = settled(policy, slices(n), local_trap(n), cycles=cycles)
            calls = found.from_row(last + len(VALUES) * cycles).needed_cost()
            before = found.from_row(0, len(VALUES) * cycles).needed_cost()
            expected = (n + 1) / 2 if policy == "local_swaps" else 1 + 1 / n
            paper = None if policy == "independent" else expected
            bench.row(trap="local", n=n, policy=policy, calls=calls, paper=paper, before=before)
            if policy != "independent":
                name = policy.removeprefix("a_")
                bound = "reported" if policy == "auto" else f"= {round(expected, 2)}"
                bench.claim(f"engine_example7_{name}_n{n}", round(calls, 9), bound)


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
