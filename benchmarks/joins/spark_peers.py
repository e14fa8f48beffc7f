"""How much faster than Spark's own stream-stream joins does the engine answer twenty joins of the same streams?

Claim     twenty_joins_vs_spark_stream_stream    20 queries that differ in a limit: five times as fast as 20 StreamingQueries that
          have a join each
Baseline  one StreamingQuery per rule: both streams with a watermark, joined on the symbol and within ten minutes, the limit
          pushed below the join, state in memory (Spark's default, quicker than RocksDB), as many partitions as cores
Baseline  `one join`: what one can do by hand while rules differ only in what stands above the join: one StreamingQuery without
          limits, all rules written out above it. Reported
Control   one rule: nothing to share. Reported

Trades and news come as Parquet files, a batch being ten minutes of both; all have met some batches before those that count.
Spark's queries count what they find and keep nothing. Ours is a round of an engine with a home, in this process: new files
noticed, read, joined, results written and synced, the round committed. Seconds on the clock, the median over batches; as many
results of every rule asserted, over all batches. Memory is what Spark says of its state, and ours of its windows.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import functions as F  # noqa: N812 -- as everybody who writes such frames does

import eddyline
from benchmarks.harness import Benchmark, main, wall
from benchmarks.spark._patterns import POLLING, POLLING_MS
from benchmarks.spark._processes import cpu_of_tree
from benchmarks.spark._session import described, session
from eddyline.sources import FileFormat, FolderSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

N_SYMBOLS = 1_000
MINUTES = 10
N_FILES = 2  # of each stream in a batch
STREAMS = {"trades": "sym INT, price DOUBLE, ts TIMESTAMP", "news": "sym INT, score INT, ts TIMESTAMP"}
EVERYTHING = 1 << 40
PARTITIONS = "spark.sql.shuffle.partitions"

Counts = npt.NDArray[np.int64]


def written(folder: Path, n_batches: int, n_trades: int, seed: int) -> list[dict[str, list[Path]]]:
    """Files of each batch, by stream: ten minutes of trades, and a tenth as many news."""
    rng = np.random.default_rng(seed)
    batches: list[dict[str, list[Path]]] = []
    for number in range(n_batches):
        files: dict[str, list[Path]] = {}
        for stream, n_rows in (("trades", n_trades), ("news", n_trades // 10)):
            times = np.sort(rng.integers(0, MINUTES * 60_000_000, n_rows)) + number * MINUTES * 60_000_000
            second = (
                {"price": rng.uniform(0, 1, n_rows)}
                if stream == "trades"
                else {"score": rng.integers(0, 100, n_rows)}
            )
            table = pa.table(
                {
                    "sym": pa.array(rng.integers(0, N_SYMBOLS, n_rows), pa.int32()),
                    **{
                        name: pa.array(v, pa.float64() if name == "price" else pa.int32())
                        for name, v in second.items()
                    },
                    "ts": pa.array(1_700_000_000_000_000 + times, pa.timestamp("us", tz="UTC")),
                }
            )
            for part in range(N_FILES):
                file = folder / f"{stream}-{number:03d}-{part}.parquet"
                first, last = (n_rows * at // N_FILES for at in (part, part + 1))
                pyarrow.parquet.write_table(table.slice(first, last - first), file)
                files.setdefault(stream, []).append(file)
        batches.append(files)
    return batches


@dataclass
class Found:
    """What a contender took for each batch, what it found of each rule in all, and what it held in the end."""

    counts: Counts
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    nbytes: int = 0

    @property
    def median_s(self) -> float:
        return statistics.median(self.wall_s)


def timed_batches(
    batches: Sequence[dict[str, list[Path]]], n_warm: int, meet: Callable[[dict[str, list[Path]]], None]
) -> tuple[list[float], list[float]]:
    """Seconds on the clock, and CPU seconds of all processes, of the batches that count."""
    wall_s, cpu_s = [], []
    for number, files in enumerate(batches):
        cpu, began = cpu_of_tree(), wall()
        meet(files)
        if number >= n_warm:
            wall_s.append(wall() - began)
            cpu_s.append(cpu_of_tree() - cpu)
    return wall_s, cpu_s


# --------------------------------------------------------------------------------------------- ours


def ours(
    folder: Path, limits: Sequence[float], batches: Sequence[dict[str, list[Path]]], n_warm: int
) -> Found:
    """Rounds of an engine with a home, fed by two folders."""
    engine = eddyline.open(folder / "home")
    engine.warm_up()
    sources = {}
    for stream, columns in STREAMS.items():
        (folder / stream).mkdir(parents=True)
        engine.stream(stream, columns, time="ts", lateness="10 seconds")
        declared, zone = engine.rounds.catalog.stream(stream), engine.rounds.time_zone
        sources[stream] = FolderSource(folder / stream, FileFormat("parquet"), declared, zone, poll_s=0.0)
    queries = engine.query_many(
        "SELECT t.sym, t.price, n.score FROM trades t JOIN news n ON t.sym = n.sym "
        f"AND t.ts BETWEEN n.ts AND n.ts + INTERVAL {MINUTES} MINUTES WHERE t.price < :x",
        params={"x": list(limits)},
    )
    n_offered = 0

    def meet(files: dict[str, list[Path]]) -> None:
        nonlocal n_offered
        n_offered += 1
        taken = {}
        for stream, given in files.items():
            for file in given:
                os.link(file, folder / stream / f"{n_offered:08d}-{file.name}")
            taken[stream] = sources[stream].take(EVERYTHING, EVERYTHING)
        engine.rounds.run_round(
            {stream: each.rows for stream, each in taken.items() if each is not None},
            positions={stream: each.position for stream, each in taken.items() if each is not None},
        )

    wall_s, cpu_s = timed_batches(batches, n_warm, meet)
    assert engine.rounds.durable is not None
    ids = [part.query_ids for _, part in engine.rounds.durable.results()]
    counts = np.bincount(np.concatenate([np.empty(0, np.int32), *ids]), minlength=max(queries.ids) + 1)
    nbytes = sum(facts["nbytes"] for facts in engine.joins().values())
    for source in sources.values():
        source.close()
    engine.close()
    return Found(counts[list(queries.ids)], wall_s, cpu_s, nbytes)


# --------------------------------------------------------------------------------------------- Spark's


class Streaming:
    """Streaming queries over two folders."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._n_offered = 0
        self._before = {name: spark.conf.get(name) for name in (POLLING, PARTITIONS)}
        self.running: list[StreamingQuery] = []
        for stream in STREAMS:
            (folder / stream).mkdir(parents=True)
        spark.conf.set(POLLING, POLLING_MS)
        spark.conf.set(PARTITIONS, spark.sparkContext.defaultParallelism)

    def joined(self, condition: str = "TRUE") -> DataFrame:
        """The join, with a condition on trades below it."""
        streams = {
            name: self._spark.readStream.schema(columns)
            .parquet(f"{self._folder / name}/*")
            .withWatermark("ts", "10 seconds")
            for name, columns in STREAMS.items()
        }
        trades, news = streams["trades"].where(condition).alias("t"), streams["news"].alias("n")
        within = f"t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL {MINUTES} MINUTES"
        return trades.join(news, F.expr(within)).select("t.sym", "t.price", "n.score")

    def start(self, frame: DataFrame) -> None:
        checkpoint = str(self._folder / f"checkpoint{len(self.running)}")
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        self.running.append(writer.start())

    def meet(self, files: dict[str, list[Path]]) -> None:
        """A batch appears, and is worked on by all."""
        self._n_offered += 1
        for stream, given in files.items():
            hidden = self._folder / f"coming-{stream}"
            hidden.mkdir()
            for file in given:
                os.link(file, hidden / file.name)
            hidden.rename(self._folder / stream / f"{self._n_offered:08d}")
        for query in self.running:
            query.processAllAvailable()

    def observed(self, name: str, n: int) -> Counts:
        """What an observation of each query counted in all, summed over its batches."""
        counts = np.zeros((len(self.running), n), np.int64)
        for at, query in enumerate(self.running):
            for progress in query.recentProgress:
                metrics = progress["observedMetrics"].get(name)
                if metrics is not None:
                    counts[at] += [metrics[f"n{k}"] or 0 for k in range(n)]
        return counts

    def state_bytes(self) -> int:
        last = [query.lastProgress for query in self.running]
        return sum(each["memoryUsedBytes"] for progress in last for each in progress["stateOperators"])

    def close(self) -> None:
        for query in self.running:
            query.stop()
        for name, value in self._before.items():
            self._spark.conf.set(name, value)


def query_per_rule(
    spark: SparkSession,
    folder: Path,
    limits: Sequence[float],
    batches: Sequence[dict[str, list[Path]]],
    n_warm: int,
) -> Found:
    streaming = Streaming(spark, folder)
    try:
        for limit in limits:
            frame = streaming.joined(f"price < {limit!r}D")
            streaming.start(frame.observe("passed", F.count(F.lit(1)).alias("n0")))
        wall_s, cpu_s = timed_batches(batches, n_warm, streaming.meet)
        return Found(streaming.observed("passed", 1)[:, 0], wall_s, cpu_s, streaming.state_bytes())
    finally:
        streaming.close()


def one_join(
    spark: SparkSession,
    folder: Path,
    limits: Sequence[float],
    batches: Sequence[dict[str, list[Path]]],
    n_warm: int,
) -> Found:
    streaming = Streaming(spark, folder)
    try:
        counted = [F.count_if(F.expr(f"price < {x!r}D")).alias(f"n{k}") for k, x in enumerate(limits)]
        streaming.start(streaming.joined().observe("passed", *counted))
        wall_s, cpu_s = timed_batches(batches, n_warm, streaming.meet)
        return Found(streaming.observed("passed", len(limits))[0], wall_s, cpu_s, streaming.state_bytes())
    finally:
        streaming.close()


# --------------------------------------------------------------------------------------------- both


def compared(
    bench: Benchmark, spark: SparkSession, folder: Path, n_rules: int, *, repetitions: int, has_one_join: bool
) -> dict[str, float]:
    """Medians on the clock of each, over all batches of all repetitions."""
    n_trades = bench.size(full=50_000, quick=2_000)
    n_warm, n_counted = bench.size(full=3, quick=1), bench.size(full=5, quick=1)
    folder.mkdir()
    batches = written(folder, n_warm + n_counted, n_trades, bench.seed)
    limits = np.linspace(0.01, 0.03, n_rules).tolist()
    taken: dict[str, list[Found]] = {}
    for number in range(repetitions):
        at = folder / f"turn{number}"
        taken.setdefault("engine", []).append(ours(at / "ours", limits, batches, n_warm))
        found = query_per_rule(spark, at / "per rule", limits, batches, n_warm)
        taken.setdefault("stream-stream joins", []).append(found)
        if has_one_join:
            found = one_join(spark, at / "one", limits, batches, n_warm)
            taken.setdefault("one join", []).append(found)
    expected = taken["engine"][0].counts
    for name, turns in taken.items():
        for each in turns:
            assert (each.counts == expected).all(), f"{name}: {each.counts}, not {expected}"
    medians = {
        name: statistics.median([s for each in turns for s in each.wall_s]) for name, turns in taken.items()
    }
    for name, turns in taken.items():
        bench.row(
            rules=n_rules,
            who=name,
            rows=n_trades + n_trades // 10,
            results=int(expected.sum()) // len(batches),
            wall_s=medians[name],
            cpu_s=statistics.median([s for each in turns for s in each.cpu_s]),
            over_engine=medians[name] / medians["engine"],
            state_bytes=turns[-1].nbytes,
        )
    return medians


def run(bench: Benchmark) -> None:
    with session() as spark, tempfile.TemporaryDirectory(prefix="eddyline-joins-") as folder:
        bench.row(who=described(spark))
        n_rules, repetitions = bench.size(full=20, quick=3), bench.size(full=2, quick=1)
        twenty = compared(
            bench, spark, Path(folder) / "twenty", n_rules, repetitions=repetitions, has_one_join=True
        )
        ratio = twenty["stream-stream joins"] / twenty["engine"]
        bench.claim("twenty_joins_vs_spark_stream_stream", ratio, ">= 5")
        bench.claim("twenty_joins_vs_one_join_by_hand", twenty["one join"] / twenty["engine"], "reported")
        one = compared(bench, spark, Path(folder) / "one", 1, repetitions=repetitions, has_one_join=False)
        bench.claim("one_join_vs_spark_stream_stream", one["stream-stream joins"] / one["engine"], "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=13)
