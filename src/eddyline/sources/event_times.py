"""Rows whose time cannot be read do not fit their stream, as rows do not whose values are of another type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.expressions import read_times, unreadable_words
from eddyline.model import Stream
from eddyline.sources.ingestion import IngestedRows, Misfit
from eddyline.time_properties import time_format, time_unit
from eddyline.types import python_rows


def with_read_times(stream: Stream, ingested: IngestedRows, time_zone: str) -> IngestedRows:
    """The rows without those whose time cannot be read, which become misfits."""
    if time_format(stream) is None and time_unit(stream) is None:
        return ingested  # any value of the column is a time
    found = read_times(stream, ingested.rows, time_zone)
    if found is None or not len(found.unreadable):
        return ingested
    bad = [ingested.rows.slice(row, 1) for row in found.unreadable.tolist()]
    misfits = [Misfit(python_rows(row)[0], unreadable_words(stream, row)) for row in bad]
    fine = np.setdiff1d(np.arange(ingested.rows.num_rows), found.unreadable)
    return replace(
        ingested,
        rows=ingested.rows.take(pa.array(fine)),
        arrival=None if ingested.arrival is None else ingested.arrival[fine],
        misfits=[*ingested.misfits, *misfits],
        is_delete=None if ingested.is_delete is None else ingested.is_delete[fine],
        lanes=ingested.lanes.without(found.unreadable),
    )
