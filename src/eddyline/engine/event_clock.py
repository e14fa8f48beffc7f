"""How event time goes on where no rows come.

    lanes     a partition that falls silent leaves the minimum of its stream (event_time.py)
    idle      a stream with a property `idle` that has brought no row for that long is lifted to the least of the streams it is
              joined with that are not; what comes below that afterwards is late
    silence   if no stream of a group is left, each goes on with the clock: its watermark is its largest time, plus the time since
              its last row, less its lateness; one that has never brought a row is taken to be with the least of the others

A stream without joins is a group of its own. The clock is now() of the round, which is committed with what follows from it.

Silent is not unread: a stream of which rows lie ready, or whose source cannot be asked, is waited for. Nor is it silent at once
after a home is opened, since what would have come meanwhile is not known: for that it has to be silent while it is watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from eddyline.engine.event_time import lanes_watermark, with_watermark
from eddyline.model import Stream, StreamProgress
from eddyline.stream_properties import idle_us

_NOTHING = StreamProgress()


class EventClock:
    """Lifts the watermarks of streams and partitions that are silent."""

    def __init__(self) -> None:
        self._watched_us: dict[str, int] = {}  # by stream: now() of the first round that knew it

    def watch(self, stream: str, now_us: int) -> int:
        """Watch a stream from this round on, unless it is watched; gives since when."""
        return self._watched_us.setdefault(stream, now_us)

    def watched_us(self, stream: str) -> int | None:
        """Since when this process watches a stream, if it does."""
        return self._watched_us.get(stream)

    def forget(self, stream: str) -> None:
        """The stream was dropped: another of its name has no past."""
        self._watched_us.pop(stream, None)

    def lifted(
        self,
        groups: Iterable[frozenset[str]],
        streams: Mapping[str, Stream],
        progress: Mapping[str, StreamProgress],
        now_us: int,
        unread: AbstractSet[str],
    ) -> dict[str, StreamProgress]:
        """The assumed progress of streams, of those for which it differs from the present one.

        `streams` are those with a time and no key, by name in lower case; `unread` those that are not silent.
        """
        found: dict[str, StreamProgress] = {}
        for name, stream in streams.items():
            watched_us = self.watch(name, now_us)
            if name in progress and len(progress[name].lanes) > 1 and name not in unread:
                mark = lanes_watermark(stream, progress[name], now_us, watched_us)
                found[name] = with_watermark(progress[name], mark)
        assumed_progress = {name: found.get(name) or progress.get(name, _NOTHING) for name in streams}
        joined: set[str] = set()
        for group in groups:
            joined |= group
            self._lift(sorted(group & streams.keys()), streams, assumed_progress, now_us, unread)
        for name in streams.keys() - joined:
            self._lift([name], streams, assumed_progress, now_us, unread)
        return {name: at for name, at in assumed_progress.items() if at is not progress.get(name, _NOTHING)}

    def _lift(
        self,
        group: list[str],
        streams: Mapping[str, Stream],
        assumed_progress: dict[str, StreamProgress],
        now_us: int,
        unread: AbstractSet[str],
    ) -> None:
        idle = [
            n for n in group if n not in unread and self._is_idle(streams[n], assumed_progress[n], n, now_us)
        ]
        if not idle:
            return
        marks: dict[str, int | None]
        if len(idle) < len(group):
            busy = [assumed_progress[name].watermark_us for name in group if name not in idle]
            least = None if None in busy else min(mark for mark in busy if mark is not None)
            marks = dict.fromkeys(idle, least)
        else:
            by_clock = {
                n: t
                for n in idle
                if (t := self._by_clock(streams[n], assumed_progress[n], n, now_us)) is not None
            }
            marks = {name: by_clock.get(name, min(by_clock.values(), default=None)) for name in idle}
        for name, mark in marks.items():
            assumed_progress[name] = with_watermark(assumed_progress[name], mark)

    def _silent_us(self, progress: StreamProgress, name: str, now_us: int) -> int:
        """How long ago its last row came, as far as that is known."""
        last = progress.last_row_us
        return now_us - (self._watched_us[name] if last is None else last)

    def _is_idle(self, stream: Stream, progress: StreamProgress, name: str, now_us: int) -> bool:
        limit = idle_us(stream)
        if limit is None:
            return False
        return min(self._silent_us(progress, name, now_us), now_us - self._watched_us[name]) > limit

    def _by_clock(self, stream: Stream, progress: StreamProgress, name: str, now_us: int) -> int | None:
        if progress.max_time_us is None:
            return None
        return progress.max_time_us + self._silent_us(progress, name, now_us) - stream.lateness_us
