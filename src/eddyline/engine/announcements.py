"""What an engine announces: events, kept for a while and handed to listeners. The caller holds the engine's lock.

Some things are announced once and not every round: columns of a source that are not read, and times that cannot be meant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from eddyline.engine.event_time import LaneTimes
from eddyline.engine.plausible_times import implausible
from eddyline.events import CallbackFailed, ColumnIgnored, Event, TimeImplausible
from eddyline.model import Round, Stream
from eddyline.sources import MOST_IGNORED, shown_name
from eddyline.time_properties import time_format, time_unit

EVENTS_KEPT = 1_000


class Announcements:
    """The events of one engine, its listeners, and the warnings the next push raises."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self.warnings: deque[str] = deque(maxlen=EVENTS_KEPT)
        self._listeners: list[Callable[[Event], None]] = []
        self._ignored_columns: dict[str, set[str]] = {}  # by stream: those that were announced
        # streams, by how their time is read, whose implausible times were announced
        self._implausible: set[tuple[str, str | None, str | None]] = set()

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with every event from now on."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Event], None]) -> None:
        """Call it no more; nothing happens if it does not listen."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def announce(self, event: Event) -> None:
        """Keep an event and hand it to all listeners; a listener's fault is kept as an event of its own."""
        self.events.append(event)
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception as error:  # the round has happened: a listener's fault is only kept
                error_text = f"{type(error).__name__}: {error}"
                self.events.append(CallbackFailed(event.round_number, "", error_text))

    def announce_ignored(self, round_number: int, stream: str, ignored: Mapping[str, str]) -> None:
        """Announce columns that are not read, each once and only the first of very many."""
        announced = self._ignored_columns.setdefault(stream.lower(), set())
        for column, why in ignored.items():
            if column not in announced and len(announced) < MOST_IGNORED:
                announced.add(column)
                self.announce(ColumnIgnored(round_number, stream, shown_name(column), why))

    def announce_implausible(self, round_: Round, stream: Stream, times: LaneTimes) -> None:
        """Announce implausible times, once for a stream as it is declared."""
        declared = (stream.name.lower(), time_unit(stream), time_format(stream))
        if declared in self._implausible:
            return
        found = implausible(stream, times.oldest_us, times.latest_us, round_.now_us)
        if found is not None:
            assert stream.time is not None
            self._implausible.add(declared)
            self.announce(TimeImplausible(round_.number, stream.name, stream.time, found.message))
            if found.likely_unit is not None:
                self.warnings.append(found.message)

    def forget_stream(self, name: str) -> None:
        """Announce the columns of a stream of this name anew."""
        self._ignored_columns.pop(name, None)
