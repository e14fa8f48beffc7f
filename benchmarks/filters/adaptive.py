"""Does letting policies compete pay when what filters do changes, and what does it cost where nothing does?

Claim     on each drift trace `auto` spends at most 1.05 times what the best of its four competitors spends that runs alone from
          the first row to the last: best in hindsight, since nobody knows before which one that is
Claim     on neutral data `auto` spends at most 3 % more than the order it began with
Baseline  A-Greedy, Sweep, shared Greedy and the first order for ever, each alone; beside them the best order of every segment,
          which no policy can know
Control   `neutral`: alike, independent filters; adapting can only cost there
Reported  evaluations made only for sampled rows; DuckDB and Spark running the same conditions, as regular expressions, in the
          order of the text

Work is counted as evaluations times declared cost, with the evaluations of sampled rows and a stated overhead of each row
(benchmarks/filters/_routed.py): rows go through the engine's own executor and router, answers are looked up, and the clock
advances by what each evaluation is declared to cost. Traces are those of benchmarks/filters/_drift.py, each with one query of
eight filters and with twenty queries over twelve. A ratio is the worst over five seeds and both. Only the peers are timed, by the
wall, on one core.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.filters._drift import (
    DRIFTING,
    UNIT_S,
    Made,
    Trace,
    best_order_per_segment_s,
    conjunction,
    neutral,
    permutation,
    shared,
)
from benchmarks.filters._routed import BATCH_ROWS, Spent
from benchmarks.filters._routed import run as routed
from benchmarks.harness import Benchmark, main, wall
from eddyline.routing import AUTO, Router
from eddyline.routing.router import COMPETING

SETTINGS = ("one query", "shared")


def trace_of(made: Made, setting: str, n_rows: int, seed: int) -> Trace:
    rng = np.random.default_rng(seed)
    return made(conjunction() if setting == "one query" else shared(rng), n_rows, rng)


def run(bench: Benchmark) -> None:
    n_rows = bench.size(full=1_200_000, quick=60_000)
    seeds = range(bench.seed, bench.seed + bench.size(full=5, quick=1))
    ratios: dict[str, list[float]] = {}
    for made in (*DRIFTING, neutral):
        for setting in SETTINGS:
            found = [measured(bench, made, setting, n_rows, seed, seeds[0]) for seed in seeds]
            ratios.setdefault(made.__name__, []).extend(hindsight for hindsight, _ in found)
            if made is neutral:
                extra = [100 * (over_fixed - 1) for _, over_fixed in found]
                name = "overhead_on_neutral" if setting == "one query" else "overhead_on_neutral_shared"
                bench.claim(name, max(extra), "<= 3")
    drifting = {made.__name__: max(ratios[made.__name__]) for made in DRIFTING}
    bench.claim("auto_vs_best_in_hindsight", max(drifting.values()), "<= 1.05")
    for name, worst in drifting.items():
        bench.claim(f"auto_vs_best_in_hindsight_{name}", worst, "<= 1.05")
        bench.claim(f"auto_vs_best_in_hindsight_{name}_mean", statistics.mean(ratios[name]), "reported")
    compare_with_peers(bench)


def measured(
    bench: Benchmark, made: Made, setting: str, n_rows: int, seed: int, shown: int
) -> tuple[float, float]:
    """What auto spends by what the best competitor does, and by what the first order does."""
    trace = trace_of(made, setting, n_rows, seed)
    spent = {name: routed(trace, Router(name), seed=seed) for name in (AUTO, *COMPETING)}
    best = min(COMPETING, key=lambda name: spent[name].total_s)
    for name, each in spent.items() if seed == shown else [(AUTO, spent[AUTO])]:
        bench.row(
            trace=trace.name,
            setting=setting,
            seed=seed,
            policy=name,
            cost_per_row=each.total_s / n_rows / UNIT_S,
            over_best=each.total_s / spent[best].total_s,
            extra_share=each.extra_s / each.total_s,
            extra_evaluations=each.n_extra,
            overhead_share=each.overhead_s / each.total_s,
            switches=each.n_switches if name == AUTO else None,
            note=_decided(each) if name == AUTO else "best" if name == best else None,
        )
    if seed == shown:
        by_segment = best_order_per_segment_s(trace, np.random.default_rng(seed))
        bench.row(
            trace=trace.name,
            setting=setting,
            seed=seed,
            policy="best order of each segment",
            cost_per_row=by_segment / n_rows / UNIT_S,
            over_best=by_segment / spent[best].total_s,
            note=f"{len(trace.ends)} segments; no sampling, no overhead",
        )
    return spent[AUTO].total_s / spent[best].total_s, spent[AUTO].total_s / spent["fixed"].total_s


def _decided(spent: Spent) -> str:
    total = sum(spent.decides.values())
    return ", ".join(f"{name} {100 * n / total:.0f} %" for name, n in spent.decides.items())


# --------------------------------------------------------------------------------------------- peers

TEXT_LETTERS = 120
PATTERN = "k[^z]*[aeiou][^z]*q"


def texts_of(passes: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """A column of text for each filter, with the pattern in it where the filter passes; either has to be read to the end."""
    letters = rng.choice(list("bcdfghkaeiou"), (64, TEXT_LETTERS - 1))
    starts = ["k" + "".join(line) for line in letters]
    columns = {}
    for k in range(passes.shape[1]):
        which = rng.integers(0, len(starts), len(passes))
        texts = np.array([start + end for end in ("y", "q") for start in starts])
        columns[f"t{k}"] = pa.array(texts[which + len(starts) * passes[:, k]])
    return pa.table({"id": np.arange(len(passes)), **columns})


def compare_with_peers(bench: Benchmark) -> None:
    """The same conditions as SQL, in the order of the text, over a stream on which that order is best and then worst."""
    n_rows = bench.size(full=100_000, quick=5_000)
    rng = np.random.default_rng(bench.seed)
    trace = permutation(conjunction(), n_rows, rng)
    rows = texts_of(trace.passes, rng)
    names = [f"t{k}" for k in range(trace.filters.n_filters)]
    expected = int(trace.passes.all(axis=1).sum())
    contenders: dict[str, Callable[[], int]] = {
        "eddyline, auto": lambda: _pushed(rows, names, AUTO),
        "eddyline, order of the text": lambda: _pushed(rows, names, "fixed"),
        "DuckDB": lambda: _in_duckdb(rows, names),
    }
    with contextlib.ExitStack() as stack:
        if not bench.is_quick:  # a session takes longer to start than all the rest of a quick run
            contenders["Spark"] = stack.enter_context(_in_spark(rows, names))
        found = bench.interleaved(
            contenders, repetitions=3, clock=wall, same=lambda n: n == expected or f"{n}, expected {expected}"
        )
    ours = found["eddyline, auto"].median_s
    for who, timed in found.items():
        bench.row(
            trace="permutation, as text",
            policy=who,
            rows_per_s=n_rows / timed.median_s,
            over_ours=timed.median_s / ours,
            spread=timed.spread,
        )
    bench.claim("text_order_over_auto", found["eddyline, order of the text"].median_s / ours, "reported")
    bench.claim("duckdb_over_auto", found["DuckDB"].median_s / ours, "reported")
    if "Spark" in found:
        bench.claim("spark_over_auto", found["Spark"].median_s / ours, "reported")


def _pushed(rows: pa.Table, names: list[str], routing: str) -> int:
    engine = eddyline.open(routing=routing, results_per_query=1)
    engine.stream("s", rows.schema)
    where = " AND ".join(f"{name} RLIKE '{PATTERN}'" for name in names)
    engine.query(f"SELECT id FROM s WHERE {where}", name="all")
    return sum(
        engine.push("s", rows.slice(first, BATCH_ROWS)).count for first in range(0, len(rows), BATCH_ROWS)
    )


def _in_duckdb(rows: pa.Table, names: list[str]) -> int:
    """One core. DuckDB orders conditions anew while it runs, too, by what they took."""
    where = " AND ".join(f"regexp_matches({name}, '{PATTERN}')" for name in names)
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("s", rows)
        counted = connection.execute(f"SELECT count(id) FROM s WHERE {where}").fetchone()
    assert counted is not None
    return int(counted[0])


@contextlib.contextmanager
def _in_spark(rows: pa.Table, names: list[str]) -> Iterator[Callable[[], int]]:
    """One partition, so one core; its rows are in Spark's memory before the clock starts."""
    from benchmarks.spark._session import session

    with session() as running:
        running.createDataFrame(rows).coalesce(1).createOrReplaceTempView("s")
        running.sql("CACHE TABLE s")
        where = " AND ".join(f"{name} RLIKE '{PATTERN}'" for name in names)

        def counted() -> int:
            found: Any = running.sql(f"SELECT count(id) FROM s WHERE {where}").collect()
            return int(found[0][0])

        counted()
        yield counted
        running.sql("UNCACHE TABLE s")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
