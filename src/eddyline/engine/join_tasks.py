"""What tasks do for joins: they say which of their rows some input wants, and hand those on.

A task knows the local filters of each input of its stream. Rows that an input wants go to a file, with the columns joins need and
a bit for every input; the driver joins them, since it knows what came of all streams. Numbers and positions in the file count
from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.engine.plan_files import PlanNames, ready_stage
from eddyline.joins import ArrivedRows, times_of
from eddyline.model import Round
from eddyline.storage import Store, StoredFile, WindowBlock, read_windows, write_windows

WANTED = "wanted"  # the kind of these files; none is ever listed


@dataclass(frozen=True, slots=True)
class JoinedInputs:
    """What joins want of a stream: columns, and for every input it is the files of its local filters (None: all rows)."""

    columns: tuple[str, ...]
    inputs: tuple[tuple[tuple[str, int], PlanNames | None], ...]

    def names(self) -> list[str]:
        return [name for _, plan in self.inputs if plan is not None for name in plan.names()]


class WantedRows:
    """Collects the rows of a task that some input wants."""

    def __init__(self, stream: str, asked: JoinedInputs, folder: Path, time_zone: str) -> None:
        self._stream = stream
        self._asked = asked
        self._stages = [
            None if names is None else ready_stage(folder, names, time_zone) for _, names in asked.inputs
        ]
        self._blocks: list[WindowBlock] = []
        self.n_counted = 0
        self.n_wanted = 0

    @property
    def columns(self) -> frozenset[str]:
        """Columns that have to be read for them."""
        plans = [ready.standing.plan for ready in self._stages if ready is not None]
        return frozenset(self._asked.columns).union(*(plan.columns for plan in plans))

    def add(self, batch: TupleBatch, times: pa.Array | None, round_: Round) -> None:
        """Take what is wanted of a batch."""
        n, n_words = len(batch), len(self._stages) // 64 + 1
        wants = np.zeros((n, n_words), np.uint64)
        for bit, ready in enumerate(self._stages):
            wanted = np.ones(n, dtype=bool)
            if ready is not None:
                output = ready.stage.push(batch, round_)
                wanted = np.diff(output.offsets) > 0
                wanted[output.dead_pairs.rows] = (
                    True  # not refuted: the join's own filters find the error again
                )
            wants[:, bit // 64] |= wanted.astype(np.uint64) << np.uint64(bit % 64)
        counted = ~batch.is_late
        position = self.n_counted + np.cumsum(counted)
        self.n_counted += int(counted.sum())
        rows = np.flatnonzero(wants.any(axis=1) & counted)
        self.n_wanted += len(rows)
        if len(rows):
            none = np.zeros(len(rows), np.int64)
            self._blocks.append(
                WindowBlock(
                    self._stream,
                    batch.rows.select(list(self._asked.columns)).take(pa.array(rows)),
                    batch.arrival[rows],
                    position[rows],
                    times_of(times, n)[rows],
                    none,
                    none,
                    wants[rows],
                    tuple(who for who, _ in self._asked.inputs),
                )
            )

    def finish(self, store: Store) -> StoredFile | None:
        """The file of what was wanted, if anything was."""
        return store.put(WANTED, lambda file: write_windows(file, self._blocks)) if self._blocks else None


@dataclass(frozen=True, slots=True)
class SharedRows:
    """What tasks found wanted, of all streams of a round."""

    came: dict[str, ArrivedRows]
    wanted: dict[tuple[str, int], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class TaskRows:
    """What one task handed on: its file, the number of its first row, and how many rows counted before it and in it."""

    file: StoredFile | None
    first_arrival: int
    n_before: int
    n_counted: int


def shared_rows(
    store: Store,
    streams: Mapping[str, Sequence[TaskRows]],
    ends: Mapping[str, int],
    inputs: Mapping[str, Sequence[tuple[str, int]]],
    schemas: Mapping[str, pa.Schema],
) -> SharedRows:
    """The wanted rows of a round. `ends` are the arrival numbers behind each stream's rows, `inputs` those it is asked for."""
    came: dict[str, ArrivedRows] = {}
    wanted: dict[tuple[str, int], npt.NDArray[np.bool_]] = {}
    for name, tasks in streams.items():
        blocks = [
            (task, block)
            for task in tasks
            if task.file is not None
            for block in read_windows(store.read(task.file, is_new=True))
        ]
        nothing = np.empty(0, np.int64)
        arrival = np.concatenate([nothing, *(task.first_arrival + block.arrival for task, block in blocks)])
        position = np.concatenate([nothing, *(task.n_before + block.position for task, block in blocks)])
        none = pa.RecordBatch.from_pylist([], schema=schemas[name])
        rows = pa.concat_batches([block.rows for _, block in blocks]) if blocks else none
        n = len(arrival)
        batch = TupleBatch(name, rows, arrival, np.ones(n, np.int8), np.zeros(n, dtype=bool))
        span = tasks[0].first_arrival, ends[name], tasks[0].n_before, tasks[-1].n_before + tasks[-1].n_counted
        times = np.concatenate([nothing, *(block.time_us for _, block in blocks)])
        came[name] = ArrivedRows(batch, times, position, span)
        for bit, who in enumerate(inputs[name]):
            word, shift = bit // 64, np.uint64(bit % 64)
            bits = np.concatenate([np.empty(0, np.uint64), *(block.wants[:, word] for _, block in blocks)])
            wanted[who] = (bits >> shift & np.uint64(1)) != 0
    return SharedRows(came, wanted)
