"""What tasks do for joins: they say which of their rows some input wants, and hand those on.

A task knows the local filters of each input of its stream. Rows that an input wants go to a file, with the columns joins need and
a bit for every input; the driver joins them, since it knows what came of all streams. Numbers and positions in the file count
from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.engine.dataflow import Arrivals
from eddyline.engine.plan_files import PlanNames
from eddyline.operators import (
    ArrivedRows,
    Mask,
    OperatorInput,
    StatelessOperator,
    WantedMasks,
)
from eddyline.routing import Routing
from eddyline.storage import Store, StoredFile, WindowBlock, read_windows, write_windows

WANTED = "wanted"  # the kind of these files; none is ever listed


@dataclass(frozen=True, slots=True)
class InputFilters:
    """The filters that say which rows an input wants, as files, and how expensive ones among them are run."""

    plan: PlanNames
    routing: Routing


@dataclass(frozen=True, slots=True)
class JoinedInputs:
    """What joins want of a stream: columns, and for every input it is the filters of that input (None: all rows)."""

    columns: tuple[str, ...]
    inputs: tuple[tuple[OperatorInput, InputFilters | None], ...]


class HandedOnRows(StatelessOperator):
    """The joins in a task: an operator that takes the rows its inputs want, for the place that joins them."""

    def __init__(self, stream: str, asked: JoinedInputs) -> None:
        self._stream = stream
        self._asked = asked
        self._blocks: list[WindowBlock] = []
        self.n_rows = 0

    @property
    def columns(self) -> frozenset[str]:
        """Columns that the joins need of the rows."""
        return frozenset(self._asked.columns)

    def inputs(self, relation: str) -> Sequence[OperatorInput]:
        return [who for who, _ in self._asked.inputs] if relation == self._stream.lower() else ()

    def partial(self, arrived: Mapping[str, ArrivedRows], wanted: WantedMasks) -> None:
        if self._stream.lower() in arrived:
            self._take(arrived[self._stream.lower()], wanted)

    def _take(self, arrived: ArrivedRows, wanted: WantedMasks) -> None:
        batch, inputs = arrived.batch, self._asked.inputs
        wants = np.zeros((len(batch), len(inputs) // 64 + 1), np.uint64)
        for bit, (who, _) in enumerate(inputs):
            wants[:, bit // 64] |= wanted[who].astype(np.uint64) << np.uint64(bit % 64)
        rows = np.flatnonzero(wants.any(axis=1) & ~batch.is_late)
        self.n_rows += len(rows)
        if len(rows):
            unknown = np.zeros(len(rows), np.int64)  # version and time of the round, until it has them
            self._blocks.append(
                WindowBlock(
                    self._stream,
                    batch.rows.select(list(self._asked.columns)).take(pa.array(rows)),
                    batch.arrival[rows],
                    arrived.position[rows],
                    arrived.time_us[rows],
                    unknown,
                    unknown,
                    wants[rows],
                    tuple(who for who, _ in inputs),
                )
            )

    def finish(self, store: Store) -> StoredFile | None:
        """The file of what was wanted, if anything was."""
        return store.put(WANTED, lambda file: write_windows(file, self._blocks)) if self._blocks else None


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
) -> Arrivals:
    """The wanted rows of a round. `ends` are the arrival numbers behind each stream's rows, `inputs` those it is asked for."""
    arrived: dict[str, ArrivedRows] = {}
    wanted: dict[OperatorInput, Mask] = {}
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
        arrived[name] = ArrivedRows(batch, times, position, span)
        for bit, who in enumerate(inputs[name]):
            word, shift = bit // 64, np.uint64(bit % 64)
            bits = np.concatenate([np.empty(0, np.uint64), *(block.wants[:, word] for _, block in blocks)])
            wanted[who] = (bits >> shift & np.uint64(1)) != 0
    return Arrivals(rows=arrived, wanted=wanted)
