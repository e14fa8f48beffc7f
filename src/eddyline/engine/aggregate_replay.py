"""Aggregates of rows outside of rounds: of rows that a text is tried on, and of those that a result was made of.

The structures are those of rounds (`aggregate_structures.py`), with one reader that sees all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.aggregates import ClassRows, EntryChanges, OverRows, OverValues, Reader, RoundTime
from eddyline.engine.aggregate_structures import as_of, by_partition, new_structure
from eddyline.engine.event_time import event_times
from eddyline.model import Aggregating, Stream
from eddyline.operators import Mask, Numbers, times_of

_EPOCH = 0


@dataclass(frozen=True, slots=True)
class NumberedClassRows:
    """Rows of a class, made of rows of its stream that have these arrival numbers."""

    columns: pa.RecordBatch
    stream_rows: pa.RecordBatch
    arrivals: Numbers
    is_late: Mask

    def __len__(self) -> int:
        return len(self.arrivals)


class AggregateReplay:
    """The aggregates of one query over the rows that are pushed to it."""

    def __init__(self, schema: pa.Schema, aggregating: Aggregating, stream: Stream, time_zone: str) -> None:
        """`schema` is that of the rows of the class, which are made of rows of the stream."""
        self._schema, self._stream, self._time_zone = schema, stream, time_zone
        self._aggregating = aggregating
        reader = Reader(aggregating.aggregation, aggregating.calls, (_EPOCH,), aggregating.deadlines)
        self._readers = list(by_partition(reader))
        self._structures = []
        for each in self._readers:
            structure = new_structure(schema, each.aggregation)
            structure.build([each])
            self._structures.append(structure)

    def push(
        self, rows: NumberedClassRows, time: RoundTime, sign: Numbers | None = None
    ) -> list[EntryChanges]:
        """One round of groups: how their entries change."""
        (structure,) = self._structures
        assert not isinstance(structure, OverRows), self._aggregating.aggregation.name
        changes = [each for _, each in structure.push(self._class_rows(rows, sign), time)]
        structure.commit()
        return changes

    def values(self, rows: NumberedClassRows, time: RoundTime) -> tuple[Numbers, pa.RecordBatch]:
        """One round of rows over frames: the places of those that take part, and they with their values."""
        pushed = self._class_rows(rows, None)
        found: list[OverValues] = []
        for structure in self._structures:
            assert isinstance(structure, OverRows), self._aggregating.aggregation.name
            found += [values for _, values in structure.push(pushed, time)]
            structure.commit()
        places = found[0].rows if found else np.empty(0, np.int64)
        parts = [rows.columns.take(pa.array(places)), *(each.columns for each in found)]
        names = [name for part in parts for name in part.schema.names]
        return places, pa.RecordBatch.from_arrays([c for part in parts for c in part.columns], names=names)

    def entries(self, now_us: int) -> pa.RecordBatch:
        """The groups as they are after the last round, as of this time."""
        (structure,) = self._structures
        assert not isinstance(structure, OverRows), self._aggregating.aggregation.name
        found = structure.current(self._aggregating.aggregation, _EPOCH)
        return as_of(found, self._aggregating.deadlines, now_us)

    def _class_rows(self, rows: NumberedClassRows, sign: Numbers | None) -> ClassRows:
        n = len(rows)
        time_us = times_of(event_times(self._stream, rows.stream_rows, self._time_zone), n)
        signs = np.ones(n, np.int8) if sign is None else sign.astype(np.int8)
        column = self._aggregating.aggregation.window_time
        window_us = None
        if column is not None:
            window_us = times_of(rows.columns.column(column).cast(pa.int64()), n)
        epoch = np.full(n, _EPOCH, np.int64)
        return ClassRows(rows.columns, time_us, rows.arrivals, signs, rows.is_late, epoch, window_us)
