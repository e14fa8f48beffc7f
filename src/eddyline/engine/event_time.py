"""When rows happened, which of them are late, and how far that brings their stream.

The partitions of a source are the lanes of its stream, each in an order of its own; rows that are pushed, and those of a source
without partitions, are one lane. A stream's watermark is the least of its lanes' that are not idle: a lane is idle if it has
brought no row for the stream's `idle`, or for a minute if there is none, unless more of it lies ready. If all are, the largest
counts. A lane that has never brought a row is waited for only if some of it lies ready.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions import read_times
from eddyline.model import LaneProgress, Stream, StreamProgress
from eddyline.sources import PUSHED, Lanes
from eddyline.stream_properties import idle_us

# other lanes wait so long for one that falls silent where the stream says nothing itself: longer than a producer pauses as a
# matter of course, short enough that a partition without keys does not hold up time for good
LANE_IDLE_US = 60_000_000


def event_times(stream: Stream, rows: pa.RecordBatch, time_zone: str) -> pa.Array | None:
    """When rows happened, in microseconds; None if the stream does not say."""
    found = read_times(stream, rows, time_zone)
    return None if found is None else found.us


def late_rows(times: pa.Array | None, watermark_us: int | None, n_rows: int) -> npt.NDArray[np.bool_]:
    """Which rows are behind the watermark; one without a time is not."""
    if times is None or watermark_us is None:
        return np.zeros(n_rows, dtype=bool)
    return np.asarray(pc.less(times, watermark_us).fill_null(False).to_numpy(zero_copy_only=False))


@dataclass(slots=True)
class LaneTimes:
    """The largest time of each lane that rows came of, None where they have none; and the smallest of all."""

    newest_us: dict[str, int | None] = field(default_factory=dict)
    oldest_us: int | None = None

    def add(self, times: pa.Array | None, runs: Iterable[tuple[str, int]]) -> None:
        """Take the times of rows, so many of each lane one after the other."""
        at = 0
        for lane, n in runs:
            if times is not None and n:
                ends = pc.min_max(times.slice(at, n)).as_py()
                self._take(lane, ends["max"], ends["min"])
            at += n

    def merge(self, other: LaneTimes) -> None:
        for lane, newest in other.newest_us.items():
            self._take(lane, newest, other.oldest_us)

    @property
    def latest_us(self) -> int | None:
        """The newest time of all lanes."""
        return max((time for time in self.newest_us.values() if time is not None), default=None)

    def _take(self, lane: str, newest: int | None, oldest: int | None) -> None:
        self.newest_us[lane] = later(self.newest_us.get(lane), newest)
        if oldest is not None:
            self.oldest_us = oldest if self.oldest_us is None else min(self.oldest_us, oldest)


def later(a: int | None, b: int | None) -> int | None:
    """The later of two times that may not be known."""
    return a if b is None else b if a is None else max(a, b)


def advanced(
    before: StreamProgress,
    stream: Stream,
    n_rows: int,
    n_late: int,
    came: LaneTimes,
    lanes: Lanes,
    *,
    now_us: int,
    watched_us: int,
) -> StreamProgress:
    """The progress of a stream after a round with so many rows. This process has watched it since `watched_us`."""
    after = {
        name: lane
        for name, lane in before.lanes.items()
        if lanes.known is None or name in lanes.known or name == PUSHED
    }
    max_time_us = before.max_time_us
    for name, newest in came.newest_us.items():
        known = None if name not in after else after[name].max_time_us
        after[name] = LaneProgress(later(known, newest), now_us)
        max_time_us = later(max_time_us, newest)
    has_rows = bool(n_rows) and stream.time is not None
    found = StreamProgress(
        n_rows=before.n_rows + n_rows,
        max_time_us=max_time_us,
        watermark_us=before.watermark_us,
        n_late=before.n_late + n_late,
        last_row_us=now_us if has_rows else before.last_row_us,
        lanes=after,
    )
    return with_watermark(found, lanes_watermark(stream, found, now_us, watched_us, lanes.behind))


def with_watermark(progress: StreamProgress, watermark_us: int | None) -> StreamProgress:
    """A watermark never falls: one of an idle stream may have been lifted, and lateness may have grown."""
    found = later(progress.watermark_us, watermark_us)
    return progress if found == progress.watermark_us else replace(progress, watermark_us=found)


def lanes_watermark(
    stream: Stream,
    progress: StreamProgress,
    now_us: int,
    watched_us: int,
    behind: frozenset[str] = frozenset(),
) -> int | None:
    """The watermark of a stream by how far its lanes have come; of those `behind` more lies ready."""
    if progress.max_time_us is None:
        return None
    lanes = progress.lanes
    if any(name not in lanes or lanes[name].max_time_us is None for name in behind):
        return None
    waited_for = [
        lane.max_time_us
        for name, lane in lanes.items()
        if lane.max_time_us is not None
        and (name in behind or not is_idle_lane(stream, lane, now_us, watched_us))
    ]
    return min(waited_for, default=progress.max_time_us) - stream.lateness_us


def is_idle_lane(stream: Stream, lane: LaneProgress, now_us: int, watched_us: int) -> bool:
    """Whether a lane has been silent so long that the others no longer wait for it."""
    return now_us - max(lane.last_row_us, watched_us) > (idle_us(stream) or LANE_IDLE_US)
