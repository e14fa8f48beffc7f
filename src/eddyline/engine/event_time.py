"""When rows happened, which of them are late, and how far that brings their stream."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model import Stream, StreamProgress
from eddyline.types import TIMESTAMP, TIMESTAMP_NTZ


def event_times(stream: Stream, rows: pa.RecordBatch) -> pa.Array | None:
    """The stream's time column as microseconds; numbers stand for themselves."""
    if stream.time is None:
        return None
    column = rows.column(stream.time)
    return column.view(pa.int64()) if column.type in (TIMESTAMP, TIMESTAMP_NTZ) else column.cast(pa.int64())


def late_rows(times: pa.Array | None, watermark_us: int | None, n_rows: int) -> npt.NDArray[np.bool_]:
    """Which rows are behind the watermark; one without a time is not."""
    if times is None or watermark_us is None:
        return np.zeros(n_rows, dtype=bool)
    return np.asarray(pc.less(times, watermark_us).fill_null(False).to_numpy(zero_copy_only=False))


def latest(times: pa.Array | None, before: int | None) -> int | None:
    """The newest time so far."""
    if times is None or len(times) == times.null_count:
        return before
    newest = int(pc.max(times).as_py())
    return newest if before is None else max(before, newest)


def _above(before: int | None, max_time_us: int | None, lateness_us: int) -> int | None:
    """A watermark never falls: one of an idle stream may have been lifted, and lateness may have grown."""
    now = None if max_time_us is None else max_time_us - lateness_us
    return now if before is None else before if now is None else max(before, now)


def advanced(
    before: StreamProgress, stream: Stream, n_rows: int, n_late: int, max_time_us: int | None
) -> StreamProgress:
    """Where a stream stands after a round with so many rows, whose newest time, with all before, is this."""
    return StreamProgress(
        n_rows=before.n_rows + n_rows,
        max_time_us=max_time_us,
        watermark_us=_above(before.watermark_us, max_time_us, stream.lateness_us),
        n_late=before.n_late + n_late,
    )
