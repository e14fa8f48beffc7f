"""Rows whose time cannot be read do not fit their stream, as rows do not whose values are of another type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.expressions.stream_times import read_times, unreadable_words
from eddyline.model import Stream
from eddyline.sources.ingest import Ingested, Misfit
from eddyline.time_properties import time_format, time_unit
from eddyline.types import python_rows


def with_read_times(stream: Stream, taken: Ingested, time_zone: str) -> Ingested:
    """The rows without those whose time cannot be read, which become misfits."""
    if time_format(stream) is None and time_unit(stream) is None:
        return taken  # any value of the column is a time
    found = read_times(stream, taken.rows, time_zone)
    if found is None or not len(found.unreadable):
        return taken
    bad = [taken.rows.slice(row, 1) for row in found.unreadable.tolist()]
    misfits = [Misfit(python_rows(row)[0], unreadable_words(stream, row)) for row in bad]
    fine = np.setdiff1d(np.arange(taken.rows.num_rows), found.unreadable)
    return replace(
        taken,
        rows=taken.rows.take(pa.array(fine)),
        arrival=None if taken.arrival is None else taken.arrival[fine],
        misfits=[*taken.misfits, *misfits],
        is_delete=None if taken.is_delete is None else taken.is_delete[fine],
        lanes=taken.lanes.without(found.unreadable),
    )
