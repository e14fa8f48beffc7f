"""Views in tasks: a task finds the rows of views over its stream, and hands them on to the place that has their readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.batch import TupleBatch, concatenated
from eddyline.engine.join_tasks import WANTED
from eddyline.engine.view_rows import ViewRows, arrived_view_rows, body_batches, with_branch
from eddyline.filters import FilterOutput
from eddyline.model import ViewRelation
from eddyline.storage import Store, StoredFile, WindowBlock, read_windows, write_windows


@dataclass(frozen=True, slots=True)
class TaskViews:
    """The views over a stream, by the ids of their bodies, the queries that get their dead letters, and of unions the branch."""

    names: Mapping[int, str]
    letter_queries: Mapping[int, Sequence[int]]
    branches: Mapping[int, int]


class HandedOnViews:
    """Rows of views that a task found. Their numbers count from 0."""

    def __init__(self, views: TaskViews) -> None:
        self.views = views
        self._blocks: list[WindowBlock] = []

    def take(self, bodies: FilterOutput) -> None:
        for body_id, batch in body_batches(bodies, self.views.names):
            nothing = np.zeros(len(batch), np.int64)
            branch = nothing + self.views.branches.get(body_id, 0)
            is_late = batch.is_late.astype(np.uint64)[:, None]
            self._blocks.append(
                WindowBlock(
                    batch.stream, batch.rows, batch.arrival, branch, nothing, nothing, nothing, is_late, ()
                )
            )

    def finish(self, store: Store) -> StoredFile | None:
        """The file of what was found, if anything was."""
        return store.put(WANTED, lambda file: write_windows(file, self._blocks)) if self._blocks else None


def shared_view_rows(
    store: Store,
    files: Iterable[tuple[StoredFile, int]],
    views: Mapping[str, ViewRelation],
    is_operator_input: Callable[[str], bool],
    time_zone: str,
) -> Iterator[ViewRows]:
    """Rows of views, given by name in lower case, that tasks found; with each file the arrival number of the task's first row.

    Those of each branch of a union are apart, and ascend.
    """
    found: dict[tuple[str, int], list[TupleBatch]] = {}
    for file, first in files:
        for block in read_windows(store.read(file, is_new=True)):
            batch = TupleBatch(
                block.stream,
                block.rows,
                first + block.arrival,
                np.ones(len(block.arrival), np.int8),
                block.wants[:, 0] != 0,
            )
            found.setdefault((block.stream.lower(), int(block.position[0])), []).append(batch)
    for (name, branch), batches in sorted(found.items(), key=lambda item: item[0]):
        view = views[name]
        feed = next(each for each in view.feeds if each.shape.branch == branch)
        batch = with_branch(concatenated(batches), view, branch)
        arrived = arrived_view_rows(view, batch, time_zone) if is_operator_input(name) else None
        yield ViewRows(view, feed, batch, arrived, None)
