"""Rows of a class as aggregates get them: each with its time, its place in the order of rows, and the epoch that sees it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.aggregates import ClassRows
from eddyline.batch import TupleBatch
from eddyline.engine.aggregate_plans import PlannedAggregation
from eddyline.engine.event_time import event_times
from eddyline.engine.planned_flow import PlannedFlow
from eddyline.model import END_OF_ARRIVALS, NO_TIME, ROW, VIEW, Round, Stream
from eddyline.operators import ArrivedRows, Numbers, times_of

NO_EPOCH = -1
MOST_DERIVED = 1 << 26  # rows of a class in one round: those of the next have greater numbers


def class_rows(
    flow: PlannedFlow, name: str, rows: ArrivedRows | None, round_: Round, time_zone: str
) -> ClassRows:
    """The rows of a class that a round has brought; none if there are None."""
    readers = flow.aggregates.classes[name]
    stream = flow.views.by_name[name].stream
    if rows is None:
        none = np.empty(0, np.int64)
        empty = pa.RecordBatch.from_pylist([], stream.schema)
        return ClassRows(empty, none, none, none.astype(np.int8), none.astype(bool), none)
    batch = rows.batch
    seen_since = np.full(len(batch), round_.version, np.int64)
    if rows.version is not None:
        seen_since = np.minimum(rows.version, round_.version)
    epoch = epochs_of(seen_since, readers)
    time_us, arrival = rows.time_us, batch.arrival
    if readers[0].aggregation.reads_table:
        time_us = times_of(event_times(stream, batch.rows, time_zone), len(batch))
        arrival = components_of(batch.rows, stream).max(axis=1)
    elif readers[0].joins_streams:  # they have several times
        time_us = np.full(len(batch), NO_TIME, np.int64)
    if is_derived(stream, batch):
        assert len(batch) <= MOST_DERIVED, f"{len(batch)} rows of {name} in one round"
        arrival = round_.number * MOST_DERIVED + np.arange(len(batch))
    sign = np.sign(batch.sign).astype(np.int8)
    found = ClassRows(batch.rows, time_us, arrival, sign, batch.is_late, epoch)
    return found.take(np.flatnonzero(epoch != NO_EPOCH)) if (epoch == NO_EPOCH).any() else found


def epochs_of(versions: Numbers, readers: Sequence[PlannedAggregation]) -> Numbers:
    """The newest epoch of a class whose queries see rows of each of these versions; NO_EPOCH: none do."""
    epochs = np.unique(np.concatenate([each.first.versions for each in readers]))
    place = np.searchsorted(epochs, versions, side="right") - 1
    found: Numbers = np.where(place < 0, NO_EPOCH, epochs[place])
    return found


def components_of(columns: pa.RecordBatch, stream: Stream) -> Numbers:
    """The numbers of the rows that rows of a class are made of, which stand in its columns; 0 of aggregates."""
    if f"{ROW}0" not in columns.schema.names:
        return np.zeros((columns.num_rows, 1), np.int64)
    return np.stack([np.asarray(columns.column(f"{ROW}{k}")) for k in range(stream.n_components)], axis=1)


def is_derived(stream: Stream, rows: TupleBatch) -> bool:
    """Whether rows of a class that only come are no rows that arrived, and may have one number together."""
    is_at_end = len(rows) > 0 and int(rows.arrival[-1]) >= END_OF_ARRIVALS
    return stream.source == VIEW and (stream.n_components > 1 or is_at_end)
