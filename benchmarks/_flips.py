"""Streams whose conditions change places in the middle, so that the best order turns round: what rows take by what they need.

Shared by benchmarks of filters and of joins. Rows go through `engine.push`, or lie in files that workers of Spark read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import eddyline
from benchmarks.harness import Benchmark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECOVERED = 1.15
WINDOW_ROWS = 1_000
SPARK_ROUNDS, SPARK_FILES, SPARK_FILE_ROWS = 12, 4, 5_000  # a half, a round, a file
SPARK_FROM = 4  # rounds after the flip that are not counted

Passing = tuple[float, ...]  # the share of rows each condition passes
Columns = dict[str, np.ndarray]
RowsOf = Callable[[int, Passing, np.random.Generator], Columns]


def steps_of_a_row(passing: Passing) -> float:
    """Conditions that a row meets, if they come in this order."""
    return float(np.cumprod((1.0, *passing[:-1])).sum())


@dataclass
class Halves:
    """Rows and steps of each push, or of a few, before the flip and after it."""

    optimum: float  # steps of a row in the best order
    before: list[tuple[int, int]] = field(default_factory=list)
    after: list[tuple[int, int]] = field(default_factory=list)

    @property
    def ratios(self) -> tuple[float, float]:
        """Steps of a row by those of the best order, of both halves."""
        return self.ratio(self.before), self.ratio(self.after)

    def ratio(self, spans: list[tuple[int, int]]) -> float:
        return sum(steps for _, steps in spans) / sum(n for n, _ in spans) / self.optimum

    def rows_to_recover(self) -> int:
        """After how many rows since the flip the last 1,000 took about what the best order takes."""
        n_rows, recent = 0, list[tuple[int, int]]()
        for span in self.after:
            n_rows += span[0]
            recent.append(span)
            while sum(n for n, _ in recent[1:]) >= WINDOW_ROWS:
                recent.pop(0)
            if n_rows >= WINDOW_ROWS and self.ratio(recent) <= RECOVERED:
                return n_rows
        return n_rows


@dataclass(frozen=True)
class Flip:
    """A stream of an engine, what its rows are, and how many steps they have taken so far."""

    engine: eddyline.Engine
    stream: str
    rows_of: RowsOf
    n_steps: Callable[[], int]
    passing: Passing  # before the flip; after it the other way round

    def pushed(self, per_push: int, half_rows: int, seed: int, *, counted_rows: int = 1) -> Halves:
        """So many rows of either half, counted after so many or more."""
        rng, halves = np.random.default_rng(seed), Halves(steps_of_a_row(self.passing))
        for passing, half in self._halves(halves):
            n_rows, before = 0, self.n_steps()
            for number in range(half_rows // per_push):
                self.engine.push(self.stream, self.rows_of(per_push, passing, rng))
                n_rows += per_push
                if n_rows >= counted_rows or number == half_rows // per_push - 1:
                    half.append((n_rows, (now := self.n_steps()) - before))
                    n_rows, before = 0, now
        return halves

    def on_spark(self, session: SparkSession, inbox: Path, n_rounds: int, seed: int) -> Halves:
        """Rounds over files that the workers read; the engine counts."""
        from benchmarks.spark._home import EVERYTHING
        from eddyline.engine.shared_work import SharedRounds
        from eddyline.sources import FileFormat, FolderSource
        from eddyline.spark.jobs import pack_functions, spark_runner

        rng, halves = np.random.default_rng(seed), Halves(steps_of_a_row(self.passing))
        inbox.mkdir(parents=True)
        rounds = self.engine.rounds
        stream = rounds.catalog.stream(self.stream)
        source = FolderSource(inbox, FileFormat("parquet"), stream, rounds.time_zone, poll_s=0.0)
        shared = SharedRounds(rounds, spark_runner(session), pack_functions)
        for passing, half in self._halves(halves):
            for _ in range(n_rounds):
                for _ in range(SPARK_FILES):
                    table = pa.table(self.rows_of(SPARK_FILE_ROWS, passing, rng))
                    pa.parquet.write_table(table, inbox / f"{len(list(inbox.iterdir())):08d}.parquet")
                before = self.n_steps()
                planned = source.plan(EVERYTHING, EVERYTHING)
                assert planned is not None, "there is nothing in the folder"
                reached: list[object] = []
                shared.run_round({self.stream: planned}, position_of=_noting(reached))
                source.move_to(reached[-1])
                half.append((SPARK_FILES * SPARK_FILE_ROWS, self.n_steps() - before))
        source.close()
        return halves

    def _halves(self, halves: Halves) -> Iterator[tuple[Passing, list[tuple[int, int]]]]:
        yield self.passing, halves.before
        yield self.passing[::-1], halves.after


def _noting(reached: list[object]) -> Callable[[str, object], object]:
    def position_of(name: str, at: object) -> object:
        reached.append(at)
        return at

    return position_of


def report(bench: Benchmark, what: str, seed: int, halves: Halves, **more: float) -> None:
    """A line of the table."""
    before, after = halves.ratios
    n_rows = halves.rows_to_recover()
    bench.row(what=what, seed=seed, before=before, after=after, rows_to_recover=n_rows, **more)
