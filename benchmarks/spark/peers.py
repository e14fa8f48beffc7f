"""How much faster than what Spark users do today does the engine answer many rules, on the same session and the same rows?

Claim     rules of two or three ranges, 200,000 rows: 12 times the rows a second of a broadcast join with 1,000 rules, 40
          times with 10,000
Claim     5 times those of 20 StreamingQueries, one for each of 20 rules; 10 times those of a foreachBatch that goes through
          100 rules in a loop
Claim     against a hash join on a grid made by hand, and against one select with 100 rules written out: reported
Baseline  benchmarks/spark/_patterns.py says what each of them is, and in which form; as many matches of each rule asserted
Control   one rule as Spark's own filter over the same files: nothing to share, so at least 0.3 of its rows a second

Ours is a whole round: new Parquet files noticed, planned, read and filtered by the session's workers, all matches written and
synced, and committed to the home. The others have their input cached where that can be, and count their matches or collect them;
nothing of theirs lasts. A rule matches one row in a thousand. Ratios are of medians on the clock, of interleaved turns after one
that does not count; each of ours has another round before it, because Spark ends Python workers after a minute without work.
Before everything the session runs some dozens of small rounds and joins, because Java compiles what has run often, and rounds go
on for days.
CPU seconds are of all processes: driver, Java and Python workers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.filters._workloads import ranges
from benchmarks.harness import Benchmark, main
from benchmarks.spark._home import Home, written
from benchmarks.spark._patterns import Joins, LoopInBatch, OneSelect, QueryPerRule, filtered
from benchmarks.spark._session import described, session
from benchmarks.spark._turns import Turns, taken_turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_FILES = 8


class Peers:
    """Measures one pattern after the other, each on rows and a home of its own."""

    def __init__(self, bench: Benchmark, spark: SparkSession, folder: Path) -> None:
        self._bench = bench
        self._spark = spark
        self._folder = folder
        self._n_cases = 0

    def warm_up(self, n_rounds: int, n_joins: int) -> None:
        """Small rounds and joins, so that Java has compiled what all of them use."""
        workload, folder = ranges(100, self._bench.seed), self._next()
        files = written(workload, 8_000, N_FILES, folder / "rows")
        joins = Joins(self._spark, workload, folder / "rows")
        try:
            with Home(self._spark, workload, folder / "ours") as home:
                for _ in range(n_rounds):
                    home.job_round(files)
            join = joins.broadcast()
            for _ in range(n_joins):
                join.ready()
                join.run()
                join.done()
        finally:
            joins.close()

    def joins(
        self, n_rules: int, n_rows: int, *, repetitions: int, is_bucketed: bool = False
    ) -> dict[str, Turns]:
        workload, folder = ranges(n_rules, self._bench.seed), self._next()
        files = written(workload, n_rows, N_FILES, folder / "rows")
        joins = Joins(self._spark, workload, folder / "rows")
        try:
            with Home(self._spark, workload, folder / "ours") as home:
                contenders = {"engine": home.contender(files), "broadcast join": joins.broadcast()}
                if is_bucketed:
                    contenders["bucketed join"] = joins.bucketed()
                return taken_turns(
                    self._bench, contenders, repetitions=repetitions, n_rows=n_rows, rules=n_rules
                )
        finally:
            joins.close()

    def streams(self, n_rules: int, n_rows: int, *patterns: type, repetitions: int) -> dict[str, Turns]:
        workload, folder = ranges(n_rules, self._bench.seed), self._next()
        files = written(workload, n_rows, N_FILES, folder / "rows")
        with Home(self._spark, workload, folder / "ours") as home:
            contenders = {"engine": home.contender(files)}
            for pattern in patterns:
                streams = pattern(self._spark, workload, files, folder / pattern.__name__)
                contenders[_words(pattern.__name__)] = streams.contender()
            return taken_turns(self._bench, contenders, repetitions=repetitions, n_rows=n_rows, rules=n_rules)

    def one_rule(self, n_rows: int, *, repetitions: int) -> dict[str, Turns]:
        workload, folder = ranges(1, self._bench.seed), self._next()
        files = written(workload, n_rows, N_FILES, folder / "rows")
        with Home(self._spark, workload, folder / "ours") as home:
            contenders = {
                "engine": home.contender(files),
                "filter": filtered(self._spark, workload, folder / "rows"),
            }
            return taken_turns(self._bench, contenders, repetitions=repetitions, n_rows=n_rows, rules=1)

    def _next(self) -> Path:
        self._n_cases += 1
        return self._folder / f"case{self._n_cases}"


def _words(name: str) -> str:
    """QueryPerRule as one would say it."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def times_faster(found: dict[str, Turns], peer: str) -> float:
    return found[peer].median_s / found["engine"].median_s


def run(bench: Benchmark) -> None:
    a_thousand, ten_thousand = bench.size(full=1_000, quick=100), bench.size(full=10_000, quick=300)
    n_joined = bench.size(full=200_000, quick=8_000)
    a_million = bench.size(full=1_000_000, quick=16_000)
    with session() as spark, tempfile.TemporaryDirectory(prefix="eddyline-peers-") as folder:
        bench.row(who=described(spark))
        peers = Peers(bench, spark, Path(folder))
        peers.warm_up(n_rounds=bench.size(full=60, quick=1), n_joins=bench.size(full=60, quick=1))
        few = peers.joins(a_thousand, n_joined, repetitions=5)
        bench.claim("vs_broadcast_join_1k_rules", times_faster(few, "broadcast join"), ">= 12")
        if not bench.is_quick:  # nothing new in small
            longer = peers.joins(a_thousand, a_million, repetitions=3)
            ratio = times_faster(longer, "broadcast join")
            bench.claim("vs_broadcast_join_1k_rules_1m_rows", ratio, "reported")
        many = peers.joins(ten_thousand, n_joined, repetitions=3, is_bucketed=True)
        bench.claim("vs_broadcast_join_10k_rules", times_faster(many, "broadcast join"), ">= 40")
        bench.claim("vs_hand_bucketed_join", times_faster(many, "bucketed join"), "reported")

        twenty = peers.streams(bench.size(full=20, quick=4), a_million, QueryPerRule, repetitions=5)
        bench.claim("vs_streamingquery_per_rule_20", times_faster(twenty, "query per rule"), ">= 5")
        n = bench.size(full=100, quick=10)
        hundred = peers.streams(n, a_million, LoopInBatch, OneSelect, repetitions=5)
        bench.claim("vs_foreachbatch_loop_100", times_faster(hundred, "loop in batch"), ">= 10")
        bench.claim("vs_one_select_100", times_faster(hundred, "one select"), "reported")

        one = peers.one_rule(a_million, repetitions=7)
        bench.claim("control_one_rule_vs_filter", times_faster(one, "filter"), ">= 0.3")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
