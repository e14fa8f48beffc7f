"""Engines whose pushes are worked on in tasks, here or on Spark, so that whatever is tested by pushing is tested there too."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

import eddyline
from eddyline.engine import join_replica, plan_files
from eddyline.engine.shared_work import SharedRounds
from eddyline.engine.tasks import Task, TaskResult, run_task
from eddyline.errors import StreamChangedError
from eddyline.model import ExecutionChoices
from eddyline.sources.captures import capture_reference
from eddyline.sources.references import PlannedInput
from eddyline.storage import store as store_module
from eddyline.storage import write_capture

RunTasks = Callable[[Sequence[Task]], Sequence[TaskResult]]
_numbers = itertools.count()


def elsewhere(tasks: Sequence[Task]) -> list[TaskResult]:
    """As a worker would: what is sent and brought back can be pickled."""
    return [pickle.loads(pickle.dumps(run_task(pickle.loads(pickle.dumps(task))))) for task in tasks]


def begin_as_new() -> None:
    """As a new process begins: nothing is held of what tasks have read, and no folder is known to be on the disk."""
    for held in (plan_files._stages, plan_files._bases, join_replica._replicas, join_replica._plans):
        held.clear()
    store_module._flushed.clear()


def opener(
    folder: Path,
    run: RunTasks = elsewhere,
    *,
    n_pieces: int = 3,
    keeps_numbers: bool = True,
    join_from_rows: int | None = None,
) -> Callable[..., eddyline.Engine]:
    """Like eddyline.open, but every engine has a home below the folder, and its rows go through tasks in so many pieces.

    Rows that bring arrival numbers of their own are worked on here, unless these need not be kept; so are those of keyed streams.
    From `join_from_rows` wanted rows on, they are joined there, too.
    """
    shared = {} if join_from_rows is None else {"join_from_rows": join_from_rows}

    def open_engine(home: None = None, **options: Any) -> eddyline.Engine:
        engine = eddyline.open(folder / f"home{next(_numbers)}", **options)
        return through_tasks(engine, run, n_pieces=n_pieces, keeps_numbers=keeps_numbers, **shared)

    return open_engine


def through_tasks(
    engine: eddyline.Engine,
    run: RunTasks = elsewhere,
    *,
    n_pieces: int = 3,
    keeps_numbers: bool = True,
    **options: Any,
) -> eddyline.Engine:
    """From now on the rows pushed to the engine are worked on in tasks."""
    rounds, here = engine.rounds, engine.rounds.run_round
    shared = SharedRounds(rounds, run, _packed, choices=ExecutionChoices(task_bytes=1, **options))

    def run_round(inputs, *, token=None, now_us=None, positions=None):
        if not keeps_numbers:
            inputs = {name: replace(ingested, arrival=None) for name, ingested in inputs.items()}
        is_keyed = any(rounds.catalog.stream(name).is_keyed for name in inputs)
        if not inputs or is_keyed or any(i.arrival is not None and len(i.arrival) for i in inputs.values()):
            return here(inputs, token=token, now_us=now_us, positions=positions)
        for name, ingested in inputs.items():
            stream = rounds.catalog.stream(name)
            if ingested.rows.schema != stream.schema:
                raise StreamChangedError(f"stream {name} has another schema than the rows")
        offered = {name: _offered(rounds, name, i, n_pieces) for name, i in inputs.items()}
        return shared.run_round(offered, token=token, now_us=now_us)

    rounds.run_round = run_round
    return engine


def _packed(functions: Sequence[Any]) -> bytes:
    return cloudpickle.dumps(list(functions))


def _offered(rounds, name: str, ingested, n_pieces: int) -> PlannedInput:
    store, n = rounds.durable.store, ingested.rows.num_rows
    size = max(1, -(-n // n_pieces))
    references, files = [], []
    for first in range(0, n, size):
        rows = ingested.rows.slice(first, size)
        file = store.put("capture", lambda file, rows=rows: write_capture(file, [(name, rows)]))
        references.append(capture_reference(store.folder, file))
        files.append(("capture", file))
    return PlannedInput(
        tuple(references), lambda counts: None, misfits=tuple(ingested.misfits), files=tuple(files)
    )
