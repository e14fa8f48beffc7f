"""How far each partition of a stream's source has come: where to look if event time lags behind."""

from __future__ import annotations

from eddyline.documents import Partition
from eddyline.engine import RoundEngine, is_idle_lane


def partitions_of(rounds: RoundEngine, stream: str) -> list[Partition]:
    """The partitions that have brought rows, the one furthest behind first; a view has none. The lock is held."""
    declared, progress = rounds.catalog.find_stream(stream), rounds.progress.get(stream.lower())
    if declared is None or progress is None:
        return []
    now_us = rounds.last_now_us
    watched_us = rounds.event_clock.watched_us(stream.lower())
    found = [
        Partition(
            name,
            None if lane.max_time_us is None else lane.max_time_us - declared.lateness_us,
            lane.last_row_us,
            is_idle_lane(declared, lane, now_us, now_us if watched_us is None else watched_us),
        )
        for name, lane in progress.lanes.items()
    ]
    return sorted(found, key=lambda each: (each.watermark_us or 0, len(each.name), each.name))
