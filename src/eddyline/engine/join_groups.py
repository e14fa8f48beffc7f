"""Which streams are joined with each other, and how far each of them can be taken to have come.

A group is what joins connect, directly or over others. What is kept of one stream depends on the watermarks of its partners:

  own        the largest event time of the stream's committed rows, less its lateness
  ordered    where all rows of a group so far came with numbers of their own (`_arrival`) and times that never fall, what is to
             come of any of its streams is not below the latest time of all, less that stream's lateness

Where no rows come, `event_clock.py` says how far a stream has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from eddyline.joins.plan import Arrived
from eddyline.model import NO_TIME, Signature, Stream, StreamProgress


def groups_of(signatures: Iterable[Signature]) -> list[frozenset[str]]:
    """The streams that joins connect, by name in lower case, each in one group."""
    groups: list[set[str]] = []
    for signature in signatures:
        mine = {name.lower() for name in signature.streams}
        for other in [group for group in groups if group & mine]:
            mine |= other
            groups.remove(other)
        groups.append(mine)
    return [frozenset(group) for group in groups]


class JoinClock:
    """Watermarks of streams that are joined."""

    def __init__(self) -> None:
        self._unordered: set[str] = (
            set()
        )  # streams whose rows do not come in order, or whose past is not known

    def note(
        self,
        groups: Iterable[frozenset[str]],
        streams: Mapping[str, Stream],
        arrived: Mapping[str, Arrived],
        with_rows: AbstractSet[str],
        before: Mapping[str, StreamProgress],
        *,
        is_numbered: bool,
    ) -> None:
        """Rows came of the streams `with_rows`, those that joins know are in `arrived`; `before` is where the streams stood."""
        for group in groups:
            waited_for = _waited_for(group, streams)
            came = waited_for & with_rows
            is_known = is_numbered and came <= arrived.keys()
            if came and not (
                is_known and _is_in_order([arrived[n] for n in came], [before[n] for n in waited_for])
            ):
                self._unordered |= came

    def forget(self, stream: str) -> None:
        """The stream was dropped: another of its name has no past."""
        self._unordered.discard(stream)

    def distrust(self, streams: Iterable[str]) -> None:
        """What came of these streams earlier is not known."""
        self._unordered |= set(streams)

    def watermarks(
        self,
        groups: Iterable[frozenset[str]],
        streams: Mapping[str, Stream],
        progress: Mapping[str, StreamProgress],
    ) -> dict[str, int | None]:
        """Below which no row of a stream counts any more."""
        found = {name: progress[name].watermark_us for name in streams}
        for group in (_waited_for(each, streams) for each in groups):
            times = [t for name in group if (t := progress[name].max_time_us) is not None]
            if times and not group & self._unordered and all(streams[n].time is not None for n in group):
                for name in group:
                    own = found[name]
                    ordered = max(times) - streams[name].lateness_us
                    found[name] = ordered if own is None else max(own, ordered)
        return found


def _waited_for(group: frozenset[str], streams: Mapping[str, Stream]) -> frozenset[str]:
    """The streams of a group without a key: what is kept of others does not depend on how far a table has come."""
    return frozenset(name for name in group if not streams[name].is_keyed)


def _is_in_order(came: Sequence[Arrived], before: Iterable[StreamProgress]) -> bool:
    arrival = np.concatenate([rows.batch.arrival for rows in came])
    times = np.concatenate([rows.time_us for rows in came])[np.argsort(arrival)]
    latest = max((at.max_time_us for at in before if at.max_time_us is not None), default=NO_TIME)
    if not len(times):  # changes of a table that changed nothing
        return True
    return bool(times[0] >= latest and (np.diff(times) >= 0).all() and times[0] != NO_TIME)
