"""What does a round on Spark cost, beside handing the same rows to Python and back?

Claim     a round of 1,000 rows at the workers, with 10,000 queries standing and committed to the home, takes at most 1.5 times
          as long as the same rows through an identity mapInArrow and collect; without a job, in the driver: reported
Claim     10,000 queries over Parquet files that workers read themselves: 3 times the rows per CPU second of an identity
          mapInArrow over the same files read by Spark
Baseline  identity functions over Arrow batches, which do nothing but pass through Python. The 1,000 rows are cached, so
          nothing is read; the frame is made anew for each turn, as for each round of a stream. Reported as well: over the file,
          and again and again with the same frame. The many rows go to Spark's noop sink
Control   one query over the same files as Spark's own filter, counted: no Python at all, and nothing to share, so at least 0.3 of
          its rows per CPU second

The queries are the keyed set of benchmarks/filters/_workloads.py, over an INT and two DOUBLEs. Ours begins with the look for
new files and ends with the commit. Seconds of the first claim are on the clock, the others CPU seconds of all processes: driver,
Java, Python workers. Medians of interleaved turns, after some that do not count.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.filters._workloads import keyed
from benchmarks.harness import Benchmark, main, wall, warmed_up
from benchmarks.spark._home import Home, written
from benchmarks.spark._patterns import ddl, filtered
from benchmarks.spark._processes import cpu_of_tree
from benchmarks.spark._session import described, session
from eddyline.engine import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

N_FILES = 16
WARM_UP_S = 20.0  # Java compiles what it meets often
CLOCK_S = 0.01  # what CPU seconds are counted in


def passed_on(frame: DataFrame, schema: str) -> DataFrame:
    """A frame through Python and back."""

    def identity(batches: Iterator[Any]) -> Iterator[Any]:
        return batches

    return frame.mapInArrow(identity, schema)  # a function within one: workers need not import this module


def measure_latency(bench: Benchmark, spark: SparkSession, folder: Path) -> None:
    n_rows = bench.size(full=1_000, quick=200)
    workload = keyed(bench.size(full=10_000, quick=500), bench.seed)
    files = written(workload, n_rows, 1, folder / "rows")
    schema = ddl(workload)
    rows = spark.read.schema(schema).parquet(str(folder / "rows"))
    cached = spark.createDataFrame(rows.toArrow()).coalesce(1).cache()
    repeated = passed_on(cached, schema)
    expected = workload.queries.satisfied_by(workload.rows(n_rows)).sum(axis=0)
    with Home(spark, workload, folder / "ours") as home:
        for found in (home.by_rule(home.job_round(files)), home.by_rule(home.driver_round(files))):
            assert np.array_equal(found, expected), "a round did not find the right matches"

        def n_rows_of(outcome: Outcome) -> int:
            assert outcome.n_results == expected.sum(), (outcome.n_results, expected.sum())
            return sum(outcome.round.n_rows.values())

        contenders: dict[str, Callable[[], int]] = {
            "job round": lambda: n_rows_of(home.job_round(files)),
            "identity": lambda: len(passed_on(cached, schema).collect()),
            "identity of file": lambda: len(
                passed_on(spark.read.schema(schema).parquet(str(folder / "rows")), schema).collect()
            ),
            "identity again": lambda: len(repeated.collect()),
            "driver round": lambda: n_rows_of(home.driver_round(files)),
        }
        for contender in contenders.values():
            warmed_up(contender, calls=bench.size(full=40, quick=1), at_most_s=WARM_UP_S)
        timed = bench.interleaved(contenders, repetitions=bench.size(full=41, quick=1), clock=wall, same=int)
    cached.unpersist()
    for who, each in timed.items():
        bench.row(
            what="latency",
            queries=len(workload.queries),
            rows=n_rows,
            who=who,
            wall_ms=1e3 * each.median_s,
            fastest_ms=1e3 * min(each.seconds),
            slowest_ms=1e3 * max(each.seconds),
        )
    ours = timed["job round"].median_s
    bench.claim("round_1000_rows_10k_queries_over_identity", ours / timed["identity"].median_s, "<= 1.5")
    over_file = ours / timed["identity of file"].median_s
    bench.claim("round_1000_rows_10k_queries_over_identity_of_file", over_file, "reported")
    over_again = ours / timed["identity again"].median_s
    bench.claim("round_1000_rows_10k_queries_over_identity_again", over_again, "reported")
    bench.claim("small_round_in_driver_ms", 1e3 * timed["driver round"].median_s, "reported")


def measure_cpu(bench: Benchmark, spark: SparkSession, folder: Path) -> None:
    n_rows = bench.size(full=8_000_000, quick=64_000)
    many, one = keyed(bench.size(full=10_000, quick=500), bench.seed), keyed(1, bench.seed)
    files = written(many, n_rows, N_FILES, folder / "rows")
    schema = ddl(many)
    rows = spark.read.schema(schema).parquet(str(folder / "rows"))
    native = filtered(spark, one, folder / "rows")

    def identity() -> int:
        passed_on(rows, schema).write.format("noop").mode("overwrite").save()
        return n_rows

    def native_filter() -> int:
        assert native.run() == n_of_one
        return n_rows

    with Home(spark, many, folder / "many") as home, Home(spark, one, folder / "one") as home_of_one:
        (n_of_one,) = home_of_one.by_rule(home_of_one.job_round(files))
        assert passed_on(rows, schema).count() == n_rows
        contenders: dict[str, Callable[[], int]] = {
            "worker read": lambda: sum(home.job_round(files).round.n_rows.values()),
            "identity": identity,
            "worker read, one query": lambda: sum(home_of_one.job_round(files).round.n_rows.values()),
            "filter, one query": native_filter,
        }
        for contender in contenders.values():
            warmed_up(contender, calls=bench.size(full=4, quick=1), at_most_s=WARM_UP_S)
        timed = bench.interleaved(
            contenders, repetitions=bench.size(full=7, quick=1), clock=cpu_of_tree, same=int
        )
    cpu_s = {who: max(each.median_s, CLOCK_S) for who, each in timed.items()}
    for who, each in timed.items():
        bench.row(
            what="CPU",
            queries=1 if "one" in who else len(many.queries),
            rows=n_rows,
            who=who,
            cpu_s=cpu_s[who],
            spread=each.spread,
            rows_per_cpu_s=n_rows / cpu_s[who],
        )
    ratio = cpu_s["identity"] / cpu_s["worker read"]
    bench.claim("keyed_10k_worker_read_vs_identity_mapinarrow", ratio, ">= 3")
    ratio = cpu_s["filter, one query"] / cpu_s["worker read, one query"]
    bench.claim("control_one_query_worker_read_vs_filter", ratio, ">= 0.3")


def run(bench: Benchmark) -> None:
    with session() as spark, tempfile.TemporaryDirectory(prefix="eddyline-rounds-") as folder:
        bench.row(what=described(spark))
        measure_latency(bench, spark, Path(folder) / "latency")
        measure_cpu(bench, spark, Path(folder) / "cpu")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
