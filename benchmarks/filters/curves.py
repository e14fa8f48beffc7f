"""How many rows a second go through, as queries grow from one to a million?

Claim     reported, not bounded: the bounded figures at single sizes are in benchmarks/filters/claims.py
Baseline  the same queries and rows through NumPy, DuckDB and Polars, one thread; benchmarks/filters/_contenders.py says in
          which form
Control   one query, where there is nothing to share, and the kernel beside the engine at every size

Every set of benchmarks/filters/_workloads.py at 1, 10, 100, … queries. The columns `engine` to `polars` are rows a second:
`engine` for push, count and pairs on an engine in memory, `kernel` for its filter stage alone and the decoding of pairs. Pairs of
some rows are judged cell by cell; the number of pairs of each peer must be the engine's. Batches have 8,192 rows, but 1,024
and 128 where 100,000 and a million queries match thousands of times each. CPU seconds of all threads.

A peer that would take minutes is given less, which `note` says, and its time is multiplied: NumPy a part of the queries (its
time is their sum), DuckDB and Polars a part of the rows. Where too few rows would be left, or no one join answers the set, it
is left out.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.filters._contenders import Answer, DuckDb, Polars, Standing, numpy_loop
from benchmarks.filters._workloads import SETS, Workload
from benchmarks.harness import Benchmark, main, timed, warmed_up

SIZES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1, 100, 1_000)
NUMPY_QUERIES = 20_000  # at most, of larger sets
PAIRS_AT_MOST = {  # rows x queries where there is no key
    DuckDb: 1_000_000_000,  # half a minute
    Polars: 20_000_000,  # some of its forms hold every pair at once
}
FEWEST_ROWS = 100  # of which one can still speak as a batch
LONG_S = 2.0  # what takes longer is measured once
REPETITIONS = 7
TURN_S = 0.1  # what is shorter is repeated in its turn


@dataclass(frozen=True)
class Contender:
    """Who answers, how many pairs it must find, and by how much its time is to be multiplied."""

    answer: Answer
    n_expected: int
    times: float = 1.0
    note: str = ""


def run(bench: Benchmark) -> None:
    sizes = QUICK_SIZES if bench.is_quick else SIZES
    for name in bench.options["set"] or SETS:
        reached = {}
        for n in sizes:
            reached[n] = measure(bench, SETS[name](n, bench.seed))
        bench.claim(f"{name}_rows_per_s_at_{sizes[-1]}", reached[sizes[-1]], "reported")


def measure(bench: Benchmark, workload: Workload) -> float:
    """A row with what every contender reached; the engine's rows a second."""
    n_rows = min(workload.batch_rows, 512) if bench.is_quick else workload.batch_rows
    standing = Standing(workload)
    rows = workload.rows(n_rows)
    standing.judge(rows)
    offsets, ids = standing.pairs(rows)
    contenders = {
        "engine": Contender(standing.pushes([rows]), len(ids)),
        "kernel": Contender(standing.probes([rows]), len(ids)),
        "numpy": by_numpy(standing, rows, ids),
        "duckdb": by_join(DuckDb, workload, rows, offsets),
        "polars": by_join(Polars, workload, rows, offsets),
    }
    present = {who: contender for who, contender in contenders.items() if contender is not None}
    rows_per_s = {
        who: n_rows / (contender.times * median_s(contender, bench.size(full=REPETITIONS, quick=1)))
        for who, contender in present.items()
    }
    bench.row(
        set=workload.name,
        queries=len(workload.queries),
        batch=n_rows,
        matches_per_row=len(ids) / n_rows,
        **{who: rows_per_s.get(who) for who in contenders},
        index_mb=None if standing.nbytes is None else standing.nbytes / 2**20,
        build_s=standing.build_s,
        note="; ".join(f"{who} {contender.note}" for who, contender in present.items() if contender.note),
    )
    standing.close()
    return rows_per_s["engine"]


def by_numpy(standing: Standing, rows: pa.RecordBatch, ids: npt.NDArray[np.int32]) -> Contender:
    queries = standing.workload.queries
    if len(queries) <= NUMPY_QUERIES:
        return Contender(numpy_loop(queries, [rows]), len(ids))
    part = np.arange(0, len(queries), -(-len(queries) // NUMPY_QUERIES))
    n_expected = int(np.isin(ids, standing.ids[part]).sum())
    answer = numpy_loop(queries.take(part), [rows])
    return Contender(answer, n_expected, len(queries) / len(part), f"{len(part):,} of the queries")


def by_join(
    kind: type[DuckDb | Polars], workload: Workload, rows: pa.RecordBatch, offsets: npt.NDArray[np.int64]
) -> Contender | None:
    """A peer that joins; None where it cannot take part."""
    queries, n_rows = workload.queries, rows.num_rows
    if workload.name == "mixed":  # some queries have a key and some have not: no one join answers them
        return None
    n_fit = n_rows if queries.key else min(n_rows, PAIRS_AT_MOST[kind] // len(queries))
    if n_fit < FEWEST_ROWS:
        return None
    peer = kind(queries, rows.slice(0, n_fit), has_nulls=workload.has_nulls)
    notes = [peer.form] if len(peer.forms) > 1 else []
    if n_fit < n_rows:
        notes.append(f"{n_fit:,} of the rows")
    answer = peer.joins([rows.slice(0, n_fit)])
    return Contender(answer, int(offsets[n_fit]), n_rows / n_fit, ", ".join(notes))


def median_s(contender: Contender, repetitions: int) -> float:
    """CPU seconds, after a first run that does not count unless it is long."""
    took, n = timed(contender.answer)
    assert n == contender.n_expected, f"{n} pairs, the engine has {contender.n_expected}"
    if took > LONG_S:
        return took
    warmed_up(contender.answer, calls=10, at_most_s=1.0)
    return statistics.median(timed(contender.answer, at_least_s=TURN_S)[0] for _ in range(repetitions))


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", action="append", choices=SETS, help="only this set; may be repeated")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7, options=options)
