"""Views in tasks: a task finds the rows of views over its stream, and hands them on to the place that has their readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.engine.join_tasks import WANTED
from eddyline.engine.view_rows import body_batches
from eddyline.filters import FilterOutput
from eddyline.storage import Store, StoredFile, WindowBlock, read_windows, write_windows


@dataclass(frozen=True, slots=True)
class TaskViews:
    """The views over a stream, by the ids of their bodies; of those that are paused also the query."""

    names: Mapping[int, str]
    silent: Mapping[int, int]


class HandedOnViews:
    """Rows of views that a task found. Their numbers count from 0."""

    def __init__(self, views: TaskViews) -> None:
        self.views = views
        self._blocks: list[WindowBlock] = []

    def take(self, bodies: FilterOutput) -> None:
        for _, batch in body_batches(bodies, self.views.names):
            nothing = np.zeros(len(batch), np.int64)
            is_late = batch.is_late.astype(np.uint64)[:, None]
            self._blocks.append(
                WindowBlock(
                    batch.stream, batch.rows, batch.arrival, nothing, nothing, nothing, nothing, is_late, ()
                )
            )

    def finish(self, store: Store) -> StoredFile | None:
        """The file of what was found, if anything was."""
        return store.put(WANTED, lambda file: write_windows(file, self._blocks)) if self._blocks else None


def shared_view_rows(store: Store, files: Iterable[tuple[StoredFile, int]]) -> dict[str, TupleBatch]:
    """Rows of views, by name in lower case, that tasks found; with each file the arrival number of the task's first row."""
    found: dict[str, list[TupleBatch]] = {}
    for file, first in files:
        for block in read_windows(store.read(file, is_new=True)):
            batch = TupleBatch(
                block.stream,
                block.rows,
                first + block.arrival,
                np.ones(len(block.arrival), np.int8),
                block.wants[:, 0] != 0,
            )
            found.setdefault(block.stream.lower(), []).append(batch)
    return {name: _concatenated(batches) for name, batches in found.items()}


def _concatenated(batches: list[TupleBatch]) -> TupleBatch:
    return TupleBatch(
        batches[0].stream,
        pa.concat_batches([each.rows for each in batches]),
        np.concatenate([each.arrival for each in batches]),
        np.concatenate([each.sign for each in batches]),
        np.concatenate([each.is_late for each in batches]),
    )
