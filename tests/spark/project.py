"""A folder with a pipeline whose rows Spark's workers read."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.api import PipelineRunner
from eddyline.pipeline import read_pipeline
from eddyline.runtime import RunSummary
from eddyline.spark.workers import SparkWorkers

TRADES = """
[streams.trades]
schema = "n BIGINT, price DOUBLE"
source = { type = "files", path = "in", format = "parquet" }
"""
REST = """
[rules]
files = ["rules.sql"]
[[sinks]]
type = "file"
path = "out"
[limits]
job_from_bytes = 0
"""


class Project:
    """Trades 0 to 99 in the file `1.parquet`, and one rule: those that cost less than 10."""

    def __init__(self, folder: Path, workers: SparkWorkers) -> None:
        self.folder = folder
        self.workers = workers
        self.events: list = []
        self.write("1", *range(100))
        self.rules("CREATE OR REPLACE VIEW cheap AS SELECT n FROM trades WHERE price < 10")

    def rules(self, text: str) -> None:
        (self.folder / "rules.sql").write_text(text)

    def write(self, name: str, *numbers: int, into: str = "in") -> Path:
        """A file of trades; number n costs n modulo 20."""
        (self.folder / into).mkdir(exist_ok=True)
        table = pa.table({"n": pa.array(numbers, pa.int64()), "price": [float(n % 20) for n in numbers]})
        path = self.folder / into / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=30)
        return path

    def runner(
        self, *, streams: str = TRADES, rest: str = REST, on_spark: bool = True, **options
    ) -> PipelineRunner:
        pipeline = read_pipeline(streams + rest, self.folder / "eddyline.toml")
        workers = self.workers if on_spark else None
        return PipelineRunner(pipeline, workers=workers, **{"on_event": self.events.append, **options})

    def run(self, **options) -> RunSummary:
        with self.runner(**options) as runner:
            return runner.run(once=True)

    def results(self) -> list[dict]:
        files = sorted((self.folder / "out").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def told(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]


def cheap(numbers) -> list[int]:
    return [n for n in numbers if n % 20 < 10]
