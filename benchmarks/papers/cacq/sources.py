"""What do more sources cost, if the same number of queries stands on them?

Claim     engine_sources_16_over_1    a row takes at most 1.5 times as long on sixteen streams as on one, if 20 queries stand on
                                      them and a push has rows of all
Baseline  one stream with all queries
Control   a push for each stream, which is a round each time: `apart`
Paper     CACQ, fig. 6b: with the number of sources throughput declines somewhat

20 queries with one predicate on `a` each, their source drawn at random; values are whole numbers below 100. Every stream has
8,192 rows in a turn. Results a second fall by themselves: a row of one of many streams meets fewer queries. CPU seconds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, main, warmed_up

SOURCES = (1, 2, 4, 8, 16)
N_QUERIES = 20
OPERATORS = ("<", ">", "<=", ">=")
REPETITIONS = 7


def standing(n_sources: int, rng: np.random.Generator) -> eddyline.Engine:
    """An engine with the queries; every stream has one at least where there are enough."""
    engine = eddyline.open(results_per_query=1)
    engine.warm_up()
    for number in range(n_sources):
        engine.stream(f"s{number}", "seq BIGINT, a INT")
    sources = np.concatenate([np.arange(n_sources), rng.integers(0, n_sources, N_QUERIES)])[:N_QUERIES]
    for source in sources.tolist():
        operator, constant = OPERATORS[rng.integers(4)], int(rng.integers(100))
        engine.query(f"SELECT seq FROM s{source} WHERE a {operator} {constant}")
    return engine


def rounds(
    engine: eddyline.Engine, n_sources: int, n_rows: int, rng: np.random.Generator
) -> tuple[Callable[[], int], Callable[[], int]]:
    """A turn in which all streams have rows of one round, and one in which each has a round of its own; both give results."""
    batches = {
        f"s{number}": pa.table(
            {"seq": np.arange(n_rows), "a": rng.integers(0, 100, n_rows).astype(np.int32)},
        )
        for number in range(n_sources)
    }

    def together() -> int:
        return engine.push(batches).count

    def apart() -> int:
        return sum(engine.push(name, rows).count for name, rows in batches.items())

    return together, apart


def run(bench: Benchmark) -> None:
    n_rows = bench.size(full=8_192, quick=2_048)
    rates: dict[tuple[str, int], float] = {}
    for n_sources in SOURCES:
        rng = np.random.default_rng(bench.seed)
        engine = standing(n_sources, rng)
        together, apart = rounds(engine, n_sources, n_rows, rng)
        contenders = {"together": together, "apart": apart}
        for turn in contenders.values():
            warmed_up(turn, calls=20, at_most_s=1.0)
        found = bench.interleaved(
            contenders, repetitions=REPETITIONS, at_least_s=0.05, same=lambda n_results: n_results
        )
        for who, timed in found.items():
            rates[who, n_sources] = n_sources * n_rows / timed.median_s
            bench.row(
                rounds=who,
                sources=n_sources,
                queries=N_QUERIES,
                rows_per_s=rates[who, n_sources],
                results_per_s=(timed.result or 0) / timed.median_s,
                by_one_source=rates[who, n_sources] / rates[who, 1],
                spread=timed.spread,
            )
        engine.close()
    last = SOURCES[-1]
    bench.claim(f"engine_sources_{last}_over_1", rates["together", 1] / rates["together", last], "<= 1.5")
    bench.claim(f"engine_sources_{last}_over_1_apart", rates["apart", 1] / rates["apart", last], "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
