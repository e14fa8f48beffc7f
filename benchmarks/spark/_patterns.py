"""What Spark users do today about many rules over one stream, each in the best form that was found.

    broadcast join     rules as a table with a lower and an upper end per column, broadcast; the ranges are the condition, so
                       Spark compares every row with every rule. Both tables cached before. A join per combination of columns
                       that rules ask about compares less and takes as long: many small joins
    bucketed join      what one can do by hand about that: unit squares of a grid over two of a rule's columns as an equality
                       key, so that a hash join finds the rules near a row; the ranges are checked after it
    query per rule     a StreamingQuery for each rule, all over the same folder. They were started before, and have had a file
    loop in a batch    one StreamingQuery whose foreachBatch caches the batch and collects the rows of one rule after the other
    one select         one StreamingQuery whose plan has all rules written out: an array of those a row satisfies
    filter             one rule as a filter over the same files: what Spark is made for

The streams begin when files are there, all at once, and end when the last query has committed its batch. Spark looks for files
every 10 ms unless told, with which 20 queries that wait take the cores from those that work; here every 250 ms.
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 -- as everybody who writes such frames does

from benchmarks.filters._workloads import NONE, Queries, Workload
from benchmarks.spark._turns import Contender, Counts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

GRID = 32  # squares of a side: 16 compares twice as much, 64 has four times as many rules to look up
POLLING = "spark.sql.streaming.pollingDelay"
POLLING_MS = 250


def conditions_of(queries: Queries) -> list[str]:
    """Each query's condition as SQL."""
    return [queries.text(number).partition(" WHERE ")[2] for number in range(len(queries))]


def ddl(workload: Workload) -> str:
    """The stream's columns, all of them numbers, as Spark is told them."""
    types = {pa.int32(): "INT", pa.float64(): "DOUBLE"}
    return ", ".join(f"{field.name} {types[field.type]}" for field in workload.schema)


# --------------------------------------------------------------------------------------------- joins


class Joins:
    """A workload of ranges as joins with its rules."""

    def __init__(self, session: SparkSession, workload: Workload, folder: Path) -> None:
        self._session = session
        self._queries = workload.queries
        self._columns = [condition.column for condition in workload.queries.conditions]
        n_tasks = session.sparkContext.defaultParallelism
        self._rows = _cached(session.read.schema(ddl(workload)).parquet(str(folder)).coalesce(n_tasks))
        self._rules = _cached(session.createDataFrame(workload.queries.table()))
        self._is_inside: Column = functools.reduce(
            operator.and_,
            [F.col(name).between(F.col(f"{name}_low"), F.col(f"{name}_high")) for name in self._columns],
        )

    def broadcast(self) -> Contender:
        return self._contender(self._rows.join(F.broadcast(self._rules), self._is_inside))

    def bucketed(self) -> Contender:
        squares = self._session.createDataFrame(_squares(self._queries))
        near = _cached(squares.join(self._rules, "id").coalesce(1))

        def place(name: str) -> Column:
            return F.floor(F.col(name) * GRID)

        pairs = enumerate(itertools.combinations(self._columns, 2))
        keys = [((F.lit(k * GRID) + place(a)) * GRID + place(b)).cast("int") for k, (a, b) in pairs]
        rows = self._rows.withColumn("square", F.explode(F.array(*keys)))
        return self._contender(rows.join(F.broadcast(near), "square").where(self._is_inside))

    def _contender(self, joined: DataFrame) -> Contender:
        def by_rule() -> Counts:
            counts = np.zeros(len(self._queries), np.int64)
            for row in joined.groupBy("id").count().collect():
                counts[row["id"]] = row["count"]
            return counts

        return Contender(run=joined.count, by_rule=by_rule)

    def close(self) -> None:
        self._session.catalog.clearCache()


def _squares(queries: Queries) -> pa.Table:
    """Rules by the squares of the grid they reach into, on the first two columns each of them asks about."""
    ids, squares = [], []
    pair_numbers = {
        pair: k for k, pair in enumerate(itertools.combinations(range(len(queries.conditions)), 2))
    }
    asked = np.column_stack([condition.operator != NONE for condition in queries.conditions])
    for rule in range(len(queries)):
        first, second = np.flatnonzero(asked[rule])[:2].tolist()
        along, across = _reach(queries, first, rule), _reach(queries, second, rule)
        for a, b in itertools.product(along, across):
            ids.append(rule)
            squares.append((pair_numbers[first, second] * GRID + a) * GRID + b)
    return pa.table({"id": pa.array(ids, pa.int32()), "square": pa.array(squares, pa.int32())})


def _reach(queries: Queries, column: int, rule: int) -> range:
    """The places of the grid a rule's range touches; values are below 1."""
    condition = queries.conditions[column]
    return range(int(condition.low[rule] * GRID), min(GRID - 1, int(condition.high[rule] * GRID)) + 1)


def _cached(frame: DataFrame) -> DataFrame:
    kept = frame.cache()
    kept.count()
    return kept


# --------------------------------------------------------------------------------------------- one filter


def filtered(session: SparkSession, workload: Workload, folder: Path) -> Contender:
    """The one rule of a workload over files, counted."""
    (condition,) = conditions_of(workload.queries)
    frame = session.read.schema(ddl(workload)).parquet(str(folder)).where(condition)
    return Contender(run=frame.count, by_rule=lambda: np.array([frame.count()]))


# --------------------------------------------------------------------------------------------- streams


class Streams(ABC):
    """Streaming queries over one folder, made anew for each turn: nothing of ours runs beside them, nor they beside us."""

    def __init__(
        self, session: SparkSession, workload: Workload, files: Sequence[Path], folder: Path
    ) -> None:
        self._session = session
        self._schema = ddl(workload)
        self._files = files
        self._folder = folder
        self._n_turns = 0
        self._n_offered = 0
        self._running: list[StreamingQuery] = []
        self.conditions = conditions_of(workload.queries)

    @abstractmethod
    def writers(self, rows: DataFrame) -> list[DataStreamWriter]:
        """The queries, ready to be started."""

    @abstractmethod
    def counts(self) -> Counts:
        """Matches of the rules since the queries began."""

    def contender(self) -> Contender:
        def by_rule() -> Counts:
            self._meet(self._files)
            return self.counts() - self._before

        return Contender(
            run=lambda: self._meet(self._files),
            n_matches=lambda _: int((self.counts() - self._before).sum()),
            by_rule=by_rule,
            ready=self._begin,
            done=self._end,
        )

    @property
    def running(self) -> Sequence[StreamingQuery]:
        return self._running

    def _begin(self) -> None:
        self._n_turns += 1
        self._inbox.mkdir(parents=True)
        self._polling = self._session.conf.get(POLLING)
        self._session.conf.set(POLLING, POLLING_MS)
        rows = self._session.readStream.schema(self._schema).parquet(f"{self._inbox}/*")
        for number, writer in enumerate(self.writers(rows)):
            folder = str(self._turn / f"checkpoint{number}")
            self._running.append(writer.option("checkpointLocation", folder).start())
        self._meet(self._files[:1])
        self._before = self.counts()

    def _end(self) -> None:
        for query in self._running:
            query.stop()
        self._running = []
        self._session.conf.set(POLLING, self._polling)

    def _meet(self, files: Sequence[Path]) -> None:
        """Files appear, and are worked on by all."""
        self._n_offered += 1
        hidden = self._turn / "coming"
        hidden.mkdir()
        for file in files:
            os.link(file, hidden / file.name)
        hidden.rename(self._inbox / f"{self._n_offered:08d}")
        for query in self._running:
            query.processAllAvailable()

    @property
    def _turn(self) -> Path:
        return self._folder / f"turn{self._n_turns}"

    @property
    def _inbox(self) -> Path:
        return self._turn / "inbox"


class QueryPerRule(Streams):
    def writers(self, rows: DataFrame) -> list[DataStreamWriter]:
        n_passed = F.count(F.lit(1)).alias("n")
        frames = [rows.where(condition).observe("passed", n_passed) for condition in self.conditions]
        return [frame.writeStream.format("noop") for frame in frames]

    def counts(self) -> Counts:
        return np.array([_observed(query) for query in self.running], np.int64)


class LoopInBatch(Streams):
    def writers(self, rows: DataFrame) -> list[DataStreamWriter]:
        self._counts = np.zeros(len(self.conditions), np.int64)

        def each(batch: DataFrame, number: int) -> None:
            batch.persist()
            for rule, condition in enumerate(self.conditions):
                self._counts[rule] += batch.where(condition).toArrow().num_rows
            batch.unpersist()

        return [rows.writeStream.foreachBatch(each)]

    def counts(self) -> Counts:
        return self._counts.copy()


class OneSelect(Streams):
    def writers(self, rows: DataFrame) -> list[DataStreamWriter]:
        self._counts = np.zeros(len(self.conditions), np.int64)
        cases = [F.when(F.expr(condition), F.lit(rule)) for rule, condition in enumerate(self.conditions)]
        matched = F.array_compact(F.array(*cases))

        def each(batch: DataFrame, number: int) -> None:
            found = batch.withColumn("rules", matched).where(F.size("rules") > 0).toArrow()
            rules = found.column("rules").combine_chunks().flatten()
            self._counts += np.bincount(rules.to_numpy(), minlength=len(self._counts))

        return [rows.writeStream.foreachBatch(each)]

    def counts(self) -> Counts:
        return self._counts.copy()


def _observed(query: StreamingQuery) -> int:
    metrics = (progress["observedMetrics"].get("passed") for progress in query.recentProgress)
    return sum(each["n"] for each in metrics if each is not None)
