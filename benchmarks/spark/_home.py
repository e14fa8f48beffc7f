"""An engine with a home and all queries of a workload standing, fed by the files of one folder: at the workers, or here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import eddyline
from benchmarks.filters._contenders import registered
from benchmarks.filters._workloads import STREAM, Workload
from benchmarks.spark._turns import Contender, Counts
from eddyline.engine import Outcome
from eddyline.engine.shared_work import SharedRounds
from eddyline.model import ExecutionChoices
from eddyline.runtime.feeds import TASKS_PER_CORE
from eddyline.sources import FileFormat, FolderSource
from eddyline.spark.jobs import pack_functions, spark_runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERYTHING = 1 << 40  # rows or bytes of a round: all that lies ready


class Home:
    """Each round sees its files as new ones: they are linked into the folder under new names, which is part of the round."""

    def __init__(self, session: SparkSession | None, workload: Workload, folder: Path) -> None:
        self._inbox = folder / "inbox"
        self._inbox.mkdir(parents=True)
        self._n_files = 0
        self.engine = eddyline.open(folder / "home")
        self.engine.warm_up()
        self.engine.stream(STREAM, workload.schema)
        self._ids = registered(self.engine, workload.queries)
        rounds = self.engine.rounds
        self._source = FolderSource(
            self._inbox, FileFormat("parquet"), rounds.catalog.stream(STREAM), rounds.time_zone, poll_s=0.0
        )
        if session is not None:  # as a Runner has them
            most_tasks = TASKS_PER_CORE * session.sparkContext.defaultParallelism
            run = spark_runner(session)
            self._shared = SharedRounds(
                rounds, run, pack_functions, choices=ExecutionChoices(most_tasks=most_tasks)
            )

    def __enter__(self) -> Home:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.close()
        self.engine.close()

    def offer(self, files: Sequence[Path]) -> None:
        for file in files:
            self._n_files += 1
            os.link(file, self._inbox / f"{self._n_files:08d}.parquet")

    def job_round(self, files: Sequence[Path]) -> Outcome:
        """Files that have just come, read and filtered by the workers; ends when the round is committed."""
        self.offer(files)
        planned = self._source.plan(EVERYTHING, EVERYTHING)
        assert planned is not None, "there is nothing in the folder"
        reached: list[object] = []

        def position_of(name: str, at: object) -> object:
            reached.append(at)
            return at

        outcome = self._shared.run_round({STREAM: planned}, position_of=position_of)
        self._source.move_to(reached[-1])
        return outcome

    def driver_round(self, files: Sequence[Path]) -> Outcome:
        """The same without a job, as a Runner does it with little."""
        self.offer(files)
        taken = self._source.take(EVERYTHING, EVERYTHING)
        assert taken is not None
        return self.engine.rounds.run_round({STREAM: taken.rows}, positions={STREAM: taken.position})

    def by_rule(self, outcome: Outcome) -> Counts:
        """How many results of a round each query has, in the order of the workload."""
        assert not outcome.n_dead, f"{outcome.n_dead} dead letters"
        durable, number = self.engine.rounds.durable, outcome.round.number
        assert durable is not None
        ids = [part.query_ids for found, part in durable.results(after_round=number - 1) if found == number]
        counts = np.bincount(np.concatenate([np.empty(0, np.int32), *ids]), minlength=self._ids.max() + 1)
        assert counts.sum() == outcome.n_results, (counts.sum(), outcome.n_results)
        return counts[self._ids]

    def contender(self, files: Sequence[Path]) -> Contender:
        """Job rounds. One before each turn, since Spark ends workers that had nothing to do for a minute."""
        return Contender(
            run=lambda: self.job_round(files),
            n_matches=lambda outcome: outcome.n_results,
            by_rule=lambda: self.by_rule(self.job_round(files)),
            ready=lambda: self.job_round(files),
        )


def written(workload: Workload, n_rows: int, n_files: int, folder: Path) -> list[Path]:
    """Rows as Parquet files of equal size. No dictionaries: values hardly repeat, and Spark looks for a filter's constants in
    whole dictionaries, which took it longer than reading the rows."""
    folder.mkdir(parents=True)
    files = [folder / f"{number:04d}.parquet" for number in range(n_files)]
    for number, file in enumerate(files):
        rows = pa.Table.from_batches([workload.rows(n_rows // n_files, number)])
        pyarrow.parquet.write_table(rows, file, use_dictionary=False)
    return files
