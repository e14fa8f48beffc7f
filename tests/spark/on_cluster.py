"""A program that runs a pipeline on a small cluster of this machine, one of whose executors is killed by a task it runs.

python -m tests.spark.on_cluster FOLDER      prints what came of it, as JSON
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import eddyline
from eddyline.api import PipelineRunner
from eddyline.events import RoundFailed, RoundMeasured
from eddyline.pipeline import read_pipeline
from eddyline.spark.workers import SparkWorkers

MASTER = "local-cluster[2,1,1024]"
ROWS_PER_FILE = 1_000_000  # more than the 8 MB of a task
N_FILES = 4
EVERY = 20_000  # one row in so many is a result
LETHAL = 1_240_007  # of the second file
PIPELINE = """
[streams.trades]
schema = "n BIGINT, price DOUBLE"
source = { type = "files", path = "in", format = "parquet" }
[rules]
files = ["rules.sql"]
[limits]
job_from_bytes = 0
"""
RULES = f"CREATE OR REPLACE VIEW picked AS SELECT lethal(n) AS n FROM trades WHERE n % {EVERY} = 7"


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def executor_of(pid: int) -> int:
    """The Java process that a Python worker belongs to: its daemon's parent."""
    executor = parent_of(parent_of(pid))
    command = Path(f"/proc/{executor}/cmdline").read_bytes()
    assert b"CoarseGrainedExecutorBackend" in command, command
    return executor


def executors(driver: int) -> list[int]:
    """The executors below a driver's Python: children of its Java."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_executor = b"CoarseGrainedExecutorBackend" in (path / "cmdline").read_bytes()
            if is_executor and driver in (parent := parent_of(int(path.name)), parent_of(parent)):
                found.append(int(path.name))
        except OSError:  # it has ended
            continue
    return sorted(found)


def write(folder: Path, number: int) -> None:
    first = number * ROWS_PER_FILE
    prices = np.random.default_rng(number).uniform(0, 100, ROWS_PER_FILE)
    table = pa.table({"n": np.arange(first, first + ROWS_PER_FILE), "price": prices})
    pq.write_table(table, folder / f".{number}.parquet", row_group_size=ROWS_PER_FILE)
    (folder / f".{number}.parquet").rename(folder / f"{number}.parquet")


def main(folder: Path) -> None:
    killed = folder / "killed"

    @eddyline.udf(returns="bigint", name="lethal")
    def lethal(n: int) -> int:
        if n == LETHAL and not killed.exists():
            executor = executor_of(os.getpid())
            killed.write_text(str(executor))
            os.kill(executor, signal.SIGKILL)
            time.sleep(60)  # the task ends with its executor, not by itself
        return n

    (folder / "in").mkdir()
    (folder / "rules.sql").write_text(RULES)
    for number in range(N_FILES - 1):
        write(folder / "in", number)
    events: list[object] = []
    with SparkWorkers(master=MASTER, confs={"spark.driver.memory": "1g"}) as workers:
        context = workers.session.sparkContext
        left = Path(context._jvm.System.getenv("SPARK_HOME")) / "work" / context.applicationId
        before = executors(os.getpid())
        pipeline = read_pipeline(PIPELINE, folder / "eddyline.toml")

        def more(progress: object) -> bool:
            """After the first round one more file, after the second the end."""
            n_rounds = sum(isinstance(event, RoundMeasured) for event in events)
            if n_rounds == 1:
                write(folder / "in", N_FILES - 1)
            return n_rounds == 2

        with PipelineRunner(pipeline, on_event=events.append, workers=workers) as runner:
            summary = runner.run(until=more)
            numbers = [
                int(n)
                for _, part in runner.engine.rounds.durable.results()
                for n in part.rows.column("n").to_pylist()
            ]
            unlisted = set(runner.engine.rounds.durable.store.names()) - {
                file.name for file in runner.engine.rounds.durable.rounds.files.all()
            }
    shutil.rmtree(left, ignore_errors=True)  # local-cluster keeps its executors' logs beside Spark's jars
    found = {
        "executors": before,
        "killed": int(killed.read_text()),
        "n_rows": summary.n_rows,
        "n_tasks": [event.n_tasks for event in events if isinstance(event, RoundMeasured)],
        "failed": [event.message for event in events if isinstance(event, RoundFailed)],
        "numbers": numbers,
        "left": sorted(name.split("/")[0] for name in unlisted),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
