"""How far each partition of a stream's source has come: where to look if event time lags behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eddyline.engine import RoundEngine
from eddyline.engine.event_time import is_idle_lane
from eddyline.model import iso_time


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition by itself. One that is idle is not waited for; rows that were pushed are a partition without a name."""

    name: str
    watermark_us: int | None  # its largest event time, less the lateness of the stream
    last_row_us: int  # now() of its last round with rows
    is_idle: bool


def partitions_of(rounds: RoundEngine, stream: str) -> list[Partition]:
    """The partitions that have brought rows, the one furthest behind first. The lock is held."""
    declared, progress = rounds.catalog.stream(stream), rounds.progress.get(stream.lower())
    if progress is None:
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


def partition_lines(partitions: Sequence[Partition]) -> Iterator[str]:
    """For explain: those furthest behind, of several."""
    if len(partitions) > 1:
        shown = [
            f"{each.name or 'pushed'} at {'no time' if each.watermark_us is None else iso_time(each.watermark_us)}"
            + (" (idle)" if each.is_idle else "")
            for each in partitions[:3]
        ]
        more = len(partitions) - len(shown)
        yield f"  partitions {', '.join(shown)}{f' and {more} more, which are further' if more else ''}"
