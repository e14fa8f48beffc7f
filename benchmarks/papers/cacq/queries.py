"""What do more queries bring, shared and each by itself?

Claim     shared_over_private_at_20      of 20 queries one dataflow gives at least twice the results a second of one for each
          results_per_s_at_50_over_20    and with 50 queries at least 0.9 times as many as with 20: they stay, or rise
Baseline  `private`: an engine per query, each given every row
Control   one query, where there is nothing to share
Paper     fig. 6a: shared, results a second rise sharply up to about 20 queries and then stay, up to 50 and beyond; private, they
          are highest at 5 queries and about half of that

Queries of the paper's random workload over one stream of five attributes. Results are (row, query) pairs, counted by the engine
and listed. Rounds of 8,192 rows, fewer where 100,000 queries match. CPU seconds.
"""

from __future__ import annotations

import numpy as np

from benchmarks.filters._contenders import Answer, Standing
from benchmarks.filters._workloads import Workload, dense_int
from benchmarks.harness import Benchmark, main, warmed_up

SIZES = (1, 2, 5, 10, 20, 50, 100, 1_000, 10_000, 100_000)
PRIVATE_AT_MOST = 100
REPETITIONS = 5


def alone(workload: Workload, query: int) -> Workload:
    """The same rows and one of the queries."""
    return Workload(
        workload.name,
        workload.queries.take(np.array([query])),
        workload.columns,
        workload.seed,
        is_dense=workload.is_dense,
    )


def together(answers: list[Answer]) -> Answer:
    return lambda: sum(answer() for answer in answers)


def run(bench: Benchmark) -> None:
    sizes = [n for n in SIZES if n <= bench.size(full=SIZES[-1], quick=20)]
    gained: dict[int, float] = {}
    shared_rates: dict[int, float] = {}
    private: list[Standing] = []
    largest = dense_int(min(PRIVATE_AT_MOST, sizes[-1]), bench.seed)
    for n in sizes:
        workload = dense_int(n, bench.seed)
        if n <= len(largest.queries):
            workload = Workload("dense_int", largest.queries.take(np.arange(n)), largest.columns, bench.seed)
        rows = workload.rows(bench.size(full=workload.batch_rows, quick=1_024))
        shared = Standing(workload)
        contenders = {"shared": shared.pushes([rows])}
        if n <= PRIVATE_AT_MOST:
            private += [Standing(alone(largest, k)) for k in range(len(private), n)]
            contenders["private"] = together([each.pushes([rows]) for each in private])
        for answer in contenders.values():
            warmed_up(answer, calls=20, at_most_s=1.0)
        found = bench.interleaved(
            contenders, repetitions=REPETITIONS, at_least_s=0.05, same=lambda n_pairs: n_pairs
        )
        n_results = found["shared"].result or 0
        for who, timed in found.items():
            bench.row(
                who=who,
                queries=n,
                rows_per_s=rows.num_rows / timed.median_s,
                results_per_s=n_results / timed.median_s,
                results_per_row=n_results / rows.num_rows,
                spread=timed.spread,
            )
        shared_rates[n] = n_results / found["shared"].median_s
        if "private" in found:
            gained[n] = found["private"].median_s / found["shared"].median_s
        shared.close()
    for each in private:
        each.close()
    for n, times in gained.items():
        if n in (1, 5, 20, 50, 100):
            bench.claim(f"shared_over_private_at_{n}", times, ">= 2" if n == 20 else "reported")
    if 50 in shared_rates:
        bench.claim("results_per_s_at_50_over_20", shared_rates[50] / shared_rates[20], ">= 0.9")
    bench.claim(
        f"results_per_s_at_{sizes[-1]}_over_20", shared_rates[sizes[-1]] / shared_rates[20], "reported"
    )


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
