"""A feed whose group waits for workers does not hold up the other feeds of a run."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

from eddyline.api import PipelineRunner
from eddyline.engine import ProbeTask, Task, TaskResult
from eddyline.events import RoundCommitted
from eddyline.pipeline import read_pipeline
from tests.on_workers import elsewhere

DEADLINE_S = 60.0
# rows of a keyed stream are never read by workers: each changes the table, which is here
TEXT = """
[streams.trades]
schema = "k BIGINT, v BIGINT"
source = { type = "files", path = "trades", format = "json" }

[streams.names]
schema = "k BIGINT, v BIGINT"
key = "k"
source = { type = "files", path = "names", format = "json" }

[streams.others]
schema = "k BIGINT, v BIGINT"
key = "k"
source = { type = "files", path = "others", format = "json" }

[limits]
job_from_bytes = 1
"""


class PatientWorkers:
    """Workers whose job ends only when others got its round."""

    n_cores = 2

    def __init__(self) -> None:
        self.others_came = threading.Event()
        self.was_in_time: list[bool] = []

    def run(self, tasks: Sequence[Task | ProbeTask]) -> list[TaskResult]:
        self.was_in_time.append(self.others_came.wait(DEADLINE_S))
        return elsewhere(tasks)


def test_a_feed_whose_group_is_busy_is_passed_over_and_its_rows_come_after_the_job(tmp_path: Path) -> None:
    for name, v in (("trades", 1), ("names", 2), ("others", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps({"k": 7, "v": v}) + "\n")
    workers, committed = PatientWorkers(), []

    def note(event: object) -> None:
        if isinstance(event, RoundCommitted) and event.n_rows:
            committed.append(event.round_number)
            workers.others_came.set()

    pipeline = read_pipeline(TEXT, tmp_path / "eddyline.toml")
    with PipelineRunner(pipeline, on_event=note, workers=workers) as runner:
        engine = runner.engine
        engine.query("SELECT t.v AS tv, n.v AS nv FROM trades t JOIN names n ON t.k = n.k", name="joined")
        others = engine.query("SELECT v FROM others", name="plain")
        assert runner.run(once=True).n_rows == 3
        assert [tuple(each.values()) for each in others.latest(1)] == [(3,)]
    assert workers.was_in_time == [True]
    assert len(committed) == 3
