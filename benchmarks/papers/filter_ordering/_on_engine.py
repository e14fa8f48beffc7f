"""The paper's filters, one query of all of them, in an engine, by each of its algorithms and by fixed orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.harness import Benchmark
from benchmarks.papers._pushed import PUSH_ROWS, CountedEngine, Pushes, declared, with_share
from benchmarks.papers.filter_ordering._simulator import walked
from benchmarks.papers.filter_ordering._workload import Filters
from eddyline.routing.policy import BoolMatrix

SAMPLED = {"a_greedy": 0.01, "sweep": 0.01, "local_swaps": 0.01, "independent": 0.005}  # the paper's shares
SPUN_S = 2e-6  # a call where throughput is measured


def pushed(
    passes: BoolMatrix,
    policy: str,
    *,
    start: Sequence[int] | None = None,
    costs: Sequence[float] | None = None,
    rate: float | None = None,
    seed: int,
) -> Pushes:
    """The rows through the engine; the query has the filters in the order `start`."""
    n = passes.shape[1]
    sampled = SAMPLED.get(policy) if rate is None else rate
    with CountedEngine(n, declared(policy, sampled), costs=costs, seed=seed) as counted:
        return counted.ask(range(n) if start is None else start).push(passes)


def cost_of(order: Sequence[int], passes: BoolMatrix, costs: Sequence[float] | None = None) -> float:
    """What a row costs on average that walks this order, by the simulator."""
    return float(walked(~passes, order, costs or [1.0] * passes.shape[1])[0].mean())


def whole_pushes(n_rows: int) -> int:
    """Half of the rows, in whole pushes."""
    return n_rows // 2 // PUSH_ROWS * PUSH_ROWS


def throughput(
    bench: Benchmark, filters: Filters, policy: str, start: Sequence[int], *, rate: float | None = None
) -> float:
    """Rows a second with functions that take their time, by the wall and measured costs; the first half is for learning."""
    n_rows = bench.size(full=40_000, quick=8_000)
    passes = ~filters.drops(n_rows, np.random.default_rng(bench.seed))
    options = with_share(policy, SAMPLED.get(policy) if rate is None else rate)
    with CountedEngine(filters.n, options, spins_s=SPUN_S, seed=bench.seed) as counted:
        return counted.ask(start).push(passes).from_row(whole_pushes(n_rows)).rows_per_s
