"""What does sharing filters cost besides the filters, and how many calls does the engine save?

Claim     level by level, 100 queries over 30 filters take at most 100 ns of a row besides what filters take
Baseline  a throw-away prototype of the same loop took 69 to 83 ns, its decision tree 240 to 1,208 ns once it was built
Control   loose filters, on which the tree explodes and nearly every filter runs on every row
Reported  the decision tree; pairs brought in and out; what learning takes; calls the whole engine makes against queries that
          each run alone

Queries have 4 to 6 filters; selective filters pass 5 to 30 % of the rows, loose ones 40 to 80 %; batches of 65,536 rows on which
all queries are open. Seconds are CPU seconds of the walk less those of looking up answers, the median of several batches. The
pairs of a row and a query come from the predicate index, and matches go on as pairs: that is reported per pair.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.filters._routed import pool_of
from benchmarks.harness import Benchmark, cpu, main
from benchmarks.papers.shared_filters._instances import Instance, random_instance
from eddyline.filters.shared_strategy import DecisionTree, SharedWalk
from eddyline.routing import AUTO, Router
from eddyline.routing.fixed_order import FixedOrder
from eddyline.routing.policy import FilterSet, Statistics
from eddyline.routing.shared_greedy import SharedGreedy
from eddyline.routing.walk_records import Routing

N_FILTERS, N_QUERIES = 30, 100
IN_QUERY = (4, 6)
RATES = {"selective": (0.05, 0.3), "loose": (0.4, 0.8)}
N_ENGINE_FILTERS, IN_ENGINE_QUERY = 20, 3  # recipe X5
NS = 1e9


@dataclass
class Walks:
    """What walks of batches took, in seconds of a row."""

    overhead_s: list[float] = field(default_factory=list)
    begun_s: list[float] = field(default_factory=list)  # pairs brought in
    told_s: list[float] = field(default_factory=list)  # pairs brought out
    evaluations: float = 0.0


class Batch:
    """Rows on which all queries are open, and the answers of all filters."""

    def __init__(self, filters: FilterSet, pass_rate: np.ndarray, n_rows: int, rng: np.random.Generator):
        self.pool = pool_of(filters, np.full(filters.n_filters, 1e-6))
        self.n_rows = n_rows
        self.passes = [rng.random(n_rows) < rate for rate in pass_rate]
        n = len(filters.queries)
        self.pairs = np.repeat(np.arange(n_rows), n), np.tile(np.arange(n), n_rows)

    def walk(self, routing: Routing, tree: DecisionTree | None, into: Walks) -> None:
        began = cpu()
        walk = SharedWalk(
            self.pool, self.n_rows, [self.pairs], lambda k, rows: (self.passes[k][rows], None), clock=cpu
        )
        begun = cpu()
        walked = walk.run(routing, tree, None)
        ran = cpu()
        walk.survive(*self.pairs)
        into.told_s.append((cpu() - ran) / self.n_rows)
        into.begun_s.append((begun - began) / self.n_rows)
        into.overhead_s.append(walked.overhead_s / self.n_rows)
        into.evaluations = float(walked.asked_rows.sum()) / self.n_rows


def run(bench: Benchmark) -> None:
    n_rows = bench.size(full=65_536, quick=4_096)
    repetitions = bench.size(full=15, quick=3)
    worst = 0.0
    for name, rates in RATES.items():
        rng = np.random.default_rng(bench.seed)
        queries: dict[frozenset[int], None] = {}
        while len(queries) < N_QUERIES:
            size = int(rng.integers(IN_QUERY[0], IN_QUERY[1] + 1))
            queries[frozenset(rng.choice(N_FILTERS, size, replace=False).tolist())] = None
        filters = FilterSet(tuple(queries), N_FILTERS)
        pass_rate = rng.uniform(*rates, N_FILTERS)
        statistics_ = Statistics.of_costs([1e-6] * N_FILTERS)
        greedy = SharedGreedy(filters, statistics=statistics_, pass_rate=pass_rate.tolist())
        fixed = FixedOrder(filters, start=greedy.current_order, statistics=statistics_)
        batches = [Batch(filters, pass_rate, n_rows, rng) for _ in range(3)]
        for policy, what in ((fixed, "level by level"), (greedy, "by tree")):
            tree = None if policy is fixed else DecisionTree(policy)
            routing = Routing(batches[0].pool.keys, filters.queries, policy, 0, 0.0)
            walks = Walks()
            for batch in batches:
                batch.walk(routing, tree, Walks())  # kernels are loaded, nodes are made
            for number in range(repetitions):
                batches[number % len(batches)].walk(routing, tree, walks)
            overhead_ns = NS * statistics.median(walks.overhead_s)
            bench.row(
                filters=name,
                what=what,
                evaluations_per_row=walks.evaluations,
                overhead_ns_per_row=overhead_ns,
                least_ns_per_row=NS * min(walks.overhead_s),
                in_ns_per_pair=NS * statistics.median(walks.begun_s) / N_QUERIES,
                out_ns_per_pair=NS * statistics.median(walks.told_s) / N_QUERIES,
                nodes=None if tree is None else tree.n_nodes,
            )
            if policy is fixed:
                worst = max(worst, overhead_ns)
            else:
                bench.claim(f"tree_overhead_ns_per_row_{name}", overhead_ns, "reported")
    bench.claim("shared_overhead_ns_per_row", worst, "<= 100")
    learning(bench)
    saved(bench)


def learning(bench: Benchmark) -> None:
    """What the router takes for a batch while four policies compete and nothing changes."""
    n_rows = bench.size(full=8_192, quick=1_024)
    rng = np.random.default_rng(bench.seed)
    instance = random_instance(rng, N_ENGINE_FILTERS, 100, (IN_ENGINE_QUERY, IN_ENGINE_QUERY))
    filters = FilterSet(tuple(dict.fromkeys(instance.filters.queries)), N_ENGINE_FILTERS)
    batch = Batch(filters, np.array(instance.pass_rate), n_rows, rng)
    router, took = Router(AUTO), []
    for number in range(bench.size(full=100, quick=10)):
        walk = SharedWalk(
            batch.pool, n_rows, [batch.pairs], lambda k, rows: (batch.passes[k][rows], None), clock=cpu
        )
        routing = router.routing()
        tree = DecisionTree(routing.policy) if routing.policy.name == "shared_greedy" else None
        chosen = rng.random(n_rows) < routing.rate
        walked = walk.run(routing, tree, chosen if chosen.any() else None)
        began = cpu()
        router.learn(walked, number)
        took.append((cpu() - began) / n_rows)
    steady = took[len(took) // 2 :]
    bench.row(filters="X5, 100 queries", what="learning", least_ns_per_row=NS * min(steady))
    bench.claim("learning_ns_per_row", NS * statistics.mean(steady), "reported")


# --------------------------------------------------------------------------------------------- calls of the whole engine

_counted: list[int] = []


def _declare(k: int) -> None:
    """A function that says whether bit k is set, and counts the rows it is shown."""

    @eddyline.udf(returns="boolean", name=f"bench_bit_{k}", takes=["bigint"], version="1")
    def bit(numbers: pa.Array) -> pa.Array:
        _counted[k] += len(numbers)
        return pa.array(np.asarray(numbers) >> k & 1 == 1)


def saved(bench: Benchmark) -> None:
    """Calls of queries that each run alone, in their best order, by calls of the engine."""
    n_rows = bench.size(full=40_000, quick=2_000)
    _counted[:] = [0] * N_ENGINE_FILTERS
    for k in range(N_ENGINE_FILTERS):
        _declare(k)
    rng = np.random.default_rng(bench.seed)
    for n_queries in (5, 10, 20, 50, 100):
        instance = random_instance(rng, N_ENGINE_FILTERS, n_queries, (IN_ENGINE_QUERY, IN_ENGINE_QUERY))
        made, sampled = engine_calls(instance, n_rows, rng)
        _, alone = instance.alone()
        bench.row(
            filters=f"X5, {n_queries} queries",
            what="the engine",
            evaluations_per_row=made / n_rows,
            sampled_share=sampled / made,
            calls_saved=alone * n_rows / made,
        )
        if n_queries == 100:
            bench.claim("calls_saved_by_the_engine", alone * n_rows / made, "reported")


def engine_calls(instance: Instance, n_rows: int, rng: np.random.Generator) -> tuple[int, int]:
    """Rows the functions were shown, and how many of these only to be sampled."""
    engine = eddyline.open(results_per_query=1)
    engine.stream("s", "id BIGINT, bits BIGINT")
    for number, query in enumerate(instance.queries):
        where = " AND ".join(f"bench_bit_{k}(bits)" for k in query)
        engine.query(f"SELECT id FROM s WHERE {where}", name=f"q{number}")
    passes = instance.rows(n_rows, rng)
    bits = passes @ (1 << np.arange(N_ENGINE_FILTERS))
    _counted[:] = [0] * N_ENGINE_FILTERS
    matched = 0
    for first in range(0, n_rows, 4_096):
        ids = np.arange(first, min(first + 4_096, n_rows))
        matched += engine.push("s", pa.table({"id": ids, "bits": bits[ids]})).count
    assert matched == sum(int(passes[:, query].all(axis=1).sum()) for query in instance.queries)
    ((_, stage),) = engine.rounds.stages()
    totals = stage.router.totals
    assert sum(_counted) == totals.n_asked_rows + totals.n_extra, "a call was made twice, or not counted"
    return sum(_counted), totals.n_extra


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
