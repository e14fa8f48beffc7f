"""How much less processor time than Spark's own streaming aggregation do twenty windowed counts of one stream take on Spark?

Claim     vs_spark_streaming_aggregate    20 queries that count the rows of each card in windows of 1 to 20 minutes: a fifth of
          the processor time of Structured Streaming in update mode, in the better of its two forms
Baseline  `query each`: one StreamingQuery for each window, as such rules are written
Baseline  `one query`: what one can do by hand while rules differ in nothing but their window: a row goes into the windows of all
          sizes (explode), and one StreamingQuery counts by size, card and window
Control   one window: nothing to share. Reported

Rows come as Parquet files, a batch being ten minutes of them; all have met some batches before those that count. Spark's queries
keep state in memory (its default, quicker than RocksDB), have as many partitions as cores, and count what they give without
keeping it. Ours runs by `engine.start` on the same session, a round for each batch: new files noticed, planned, read and folded
by the session's workers, merged, all changes written and synced, the round committed to the home. Processor seconds are of all
processes: driver, Java and Python workers; the median over batches. That in each batch as many windows of each size changed, with
the same sum of counts, is asserted.
"""

from __future__ import annotations

import os
import queue
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyspark.sql import functions as F  # noqa: N812 -- as everybody who writes such frames does

import eddyline
from benchmarks.harness import Benchmark, main
from benchmarks.joins.spark_peers import PARTITIONS, Counts, Found, timed_batches
from benchmarks.spark._patterns import POLLING, POLLING_MS
from benchmarks.spark._session import described, session
from eddyline.events import Event, RoundCommitted, RoundFailed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

STREAM, COLUMNS = "auths", "card INT, amount DOUBLE, ts TIMESTAMP"
N_CARDS = 1_000
MINUTES = 10
MINUTE_US = 60_000_000
N_FILES = 4  # of a batch
POLL_MS = (
    100  # how often our source looks for files; Spark's looks whenever it is asked to process all there is
)
ROUND_S = 300.0  # that a round takes longer is a fault
Batches = Sequence[dict[str, list[Path]]]


def written(folder: Path, n_batches: int, n_rows: int, seed: int) -> Batches:
    """Files of each batch, in order of time."""
    rng = np.random.default_rng(seed)
    batches = []
    for number in range(n_batches):
        times = np.sort(rng.integers(0, MINUTES * MINUTE_US, n_rows)) + number * MINUTES * MINUTE_US
        table = pa.table(
            {
                "card": pa.array(rng.integers(0, N_CARDS, n_rows), pa.int32()),
                "amount": pa.array(rng.uniform(0, 100, n_rows)),
                "ts": pa.array(1_699_999_200_000_000 + times, pa.timestamp("us", tz="UTC")),
            }
        )
        files = []
        for part in range(N_FILES):
            files.append(folder / f"{number:03d}-{part}.parquet")
            first, last = (n_rows * at // N_FILES for at in (part, part + 1))
            pyarrow.parquet.write_table(table.slice(first, last - first), files[-1])
        batches.append({STREAM: files})
    return batches


# --------------------------------------------------------------------------------------------- ours


def ours(spark: SparkSession, folder: Path, sizes: Sequence[int], batches: Batches, n_warm: int) -> Found:
    """An engine with a home that runs on the session; a batch is met once its round is committed."""
    engine = eddyline.open(folder / "home")
    engine.warm_up()
    inbox = folder / "inbox"
    inbox.mkdir(parents=True)
    engine.stream(STREAM, COLUMNS, time="ts", lateness="10 seconds")
    ids = [
        engine.query(
            f"SELECT card, window.start AS at, count(*) AS n FROM {STREAM} GROUP BY card, window(ts, '{size} minutes')",
            name=f"{size} minutes",
        ).id
        for size in sizes
    ]
    happened: queue.Queue[Event] = queue.Queue()
    running = engine.start(
        spark,
        sources={STREAM: {"type": "files", "path": str(inbox), "format": "parquet", "poll": f"{POLL_MS} ms"}},
        job_from_bytes=1,
        on_event=happened.put,
    )

    def meet(files: dict[str, list[Path]]) -> None:
        hidden = [inbox / f".{file.name}" for file in files[STREAM]]  # such names are not read
        for file, name in zip(files[STREAM], hidden, strict=True):
            os.link(file, name)
        for name in hidden:
            name.rename(inbox / name.name[1:])
        while not (isinstance(found := happened.get(timeout=ROUND_S), RoundCommitted) and found.n_rows):
            assert not isinstance(found, RoundFailed), found
        n_rows = sum(pyarrow.parquet.read_metadata(file).num_rows for file in files[STREAM])
        assert found.n_rows == n_rows, f"a round of {found.n_rows} rows, not of the {n_rows} of its batch"

    try:
        wall_s, cpu_s = timed_batches(batches, n_warm, meet)
    finally:
        running.stop()
    rounds = engine.rounds
    counts = np.zeros((len(sizes), 2), np.int64)
    assert rounds.durable is not None
    for _, part in rounds.durable.results():
        for at, query_id in enumerate(ids):
            mine = (part.query_ids == query_id) & (part.signs > 0)
            counts[at] += mine.sum(), pc.sum(part.rows.column("n").filter(pa.array(mine))).as_py() or 0
    nbytes = sum(facts["nbytes"] for facts in engine.explain_aggregates())
    engine.close()
    return Found(counts, wall_s, cpu_s, nbytes)


# --------------------------------------------------------------------------------------------- Spark's


def query_each(
    spark: SparkSession, folder: Path, sizes: Sequence[int], batches: Batches, n_warm: int
) -> Found:
    def counted(rows: DataFrame, size: int) -> DataFrame:
        return rows.groupBy("card", F.window("ts", f"{size} minutes")).agg(F.count("*").alias("n"))

    told = [F.count("*").alias("n_0"), F.sum("n").alias("s_0")]
    frames = [(lambda rows, size=size: counted(rows, size).observe("told", *told)) for size in sizes]
    return streamed(spark, folder, frames, len(sizes), batches, n_warm)


def one_query(
    spark: SparkSession, folder: Path, sizes: Sequence[int], batches: Batches, n_warm: int
) -> Found:
    def windows() -> Column:
        micros = F.unix_micros("ts")
        each = [
            F.struct(F.lit(size).alias("size"), (micros - micros % (size * MINUTE_US)).alias("at"))
            for size in sizes
        ]
        return F.explode(F.array(*each))

    def counted(rows: DataFrame) -> DataFrame:
        found = rows.select("card", windows().alias("w")).groupBy("card", "w").agg(F.count("*").alias("n"))
        told = []
        for at, size in enumerate(sizes):
            is_mine = F.col("w.size") == size
            told += [F.count_if(is_mine).alias(f"n_{at}")]
            told += [F.sum(F.when(is_mine, F.col("n"))).alias(f"s_{at}")]
        return found.observe("told", *told)

    return streamed(spark, folder, [counted], len(sizes), batches, n_warm)


def streamed(
    spark: SparkSession,
    folder: Path,
    frames: Sequence[object],
    n_sizes: int,
    batches: Batches,
    n_warm: int,
) -> Found:
    """A StreamingQuery for each frame, all over one folder; what they observed of each size, in all batches."""
    inbox, before = folder / "inbox", {name: spark.conf.get(name) for name in (POLLING, PARTITIONS)}
    inbox.mkdir(parents=True)
    spark.conf.set(POLLING, POLLING_MS)
    spark.conf.set(PARTITIONS, spark.sparkContext.defaultParallelism)
    running: list[StreamingQuery] = []

    def meet(files: dict[str, list[Path]]) -> None:
        hidden = folder / f"coming {files[STREAM][0].stem}"
        hidden.mkdir()
        for file in files[STREAM]:
            os.link(file, hidden / file.name)
        hidden.rename(inbox / files[STREAM][0].stem)
        for query in running:
            query.processAllAvailable()

    try:
        for number, frame in enumerate(frames):
            rows = spark.readStream.schema(COLUMNS).parquet(f"{inbox}/*").withWatermark("ts", "10 seconds")
            writer = frame(rows).writeStream.format("noop").outputMode("update")  # type: ignore[operator]
            running.append(writer.option("checkpointLocation", str(folder / f"checkpoint{number}")).start())
        wall_s, cpu_s = timed_batches(batches, n_warm, meet)
        counts: Counts = np.zeros((n_sizes, 2), np.int64)
        for number, query in enumerate(running):
            for progress in query.recentProgress:
                told = progress["observedMetrics"].get("told")
                for at in range(n_sizes) if len(running) == 1 else [number]:
                    name = at if len(running) == 1 else 0
                    counts[at] += (0, 0) if told is None else (told[f"n_{name}"], told[f"s_{name}"] or 0)
        last = [query.lastProgress for query in running]
        nbytes = sum(each["memoryUsedBytes"] for progress in last for each in progress["stateOperators"])
        return Found(counts, wall_s, cpu_s, nbytes)
    finally:
        for query in running:
            query.stop()
        for name, value in before.items():
            spark.conf.set(name, value)


# --------------------------------------------------------------------------------------------- both


def compared(bench: Benchmark, spark: SparkSession, folder: Path, sizes: Sequence[int]) -> dict[str, float]:
    """Medians of processor seconds of a batch of each, over all repetitions."""
    n_rows = bench.size(full=100_000, quick=2_000)
    n_warm, n_counted = bench.size(full=3, quick=1), bench.size(full=4, quick=1)
    folder.mkdir()
    batches = written(folder, n_warm + n_counted, n_rows, bench.seed)
    contenders = {"engine": ours, "query each": query_each, "one query": one_query}
    taken: dict[str, list[Found]] = {name: [] for name in contenders}
    for number in range(bench.size(full=2, quick=1)):
        for name, contender in contenders.items():
            taken[name].append(contender(spark, folder / f"{name} {number}", sizes, batches, n_warm))
    expected = taken["engine"][0].counts
    for name, turns in taken.items():
        for each in turns:
            assert (each.counts == expected).all(), f"{name}: {each.counts}, not {expected}"
    medians = {
        name: statistics.median([s for each in turns for s in each.cpu_s]) for name, turns in taken.items()
    }
    for name, turns in taken.items():
        bench.row(
            windows=len(sizes),
            who=name,
            rows=n_rows,
            changes=int(expected[:, 0].sum()) // len(batches),
            cpu_s=medians[name],
            wall_s=statistics.median([s for each in turns for s in each.wall_s]),
            over_engine=medians[name] / medians["engine"],
            state_bytes=turns[-1].nbytes,
        )
    return medians


def run(bench: Benchmark) -> None:
    with session() as spark, tempfile.TemporaryDirectory(prefix="eddyline-aggregates-") as folder:
        bench.row(who=described(spark))
        sizes = range(1, bench.size(full=20, quick=3) + 1)
        twenty = compared(bench, spark, Path(folder) / "twenty", sizes)
        best = min(twenty["query each"], twenty["one query"])
        bench.claim("vs_spark_streaming_aggregate", best / twenty["engine"], ">= 5")
        bench.claim("vs_a_spark_query_each", twenty["query each"] / twenty["engine"], "reported")
        bench.claim("vs_one_spark_query_by_hand", twenty["one query"] / twenty["engine"], "reported")
        one = compared(bench, spark, Path(folder) / "one", [MINUTES])
        bench.claim("one_window_vs_spark_streaming_aggregate", one["query each"] / one["engine"], "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=17)
