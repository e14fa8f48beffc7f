"""now() in HAVING: which groups time alone may bring into an answer, or out of it.

A comparison of a TIMESTAMP aggregate with now() changes once while its group does not: at the value of the aggregate and a
distance, `HAVING max(ts) < now() - INTERVAL 10 MINUTES` one microsecond after max(ts) + 10 min. Per aggregate the groups lie in a
calendar by its value. A round visits only groups with a comparison that changes between the round before and now.

    the comparison                          changes at
    A > now() - d    A <= now() - d         A + d
    A >= now() - d   A < now() - d          A + d + 1 us

How a structure uses it: `moved` for entries whose values a round changes or removes, then `flips`; each entry that flips and
that no row changed is an entry of EntryChanges with equal rows before and after. Filters that read them decide with the now() of
the round before, and with that of the round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from eddyline.aggregates.calendar import Calendar
from eddyline.aggregates.rows import Ints
from eddyline.model import NO_TIME


class Absences:
    """Entries, as the queries of one epoch see them, by the values of aggregates that are compared with now()."""

    def __init__(self) -> None:
        self._calendars: dict[str, Calendar] = {}  # by the name of the call

    def build(self, distances_us: Mapping[str, Iterable[int]]) -> frozenset[str]:
        """Adopt the comparisons of a version, between rounds: by the name of a call how long after its value they change.

        Returns the calls that were not compared before: their values are to be given to `moved`, for all entries.
        """
        new = frozenset(distances_us) - frozenset(self._calendars)
        self._calendars = {name: self._calendars.get(name, Calendar()) for name in distances_us}
        for name, calendar in self._calendars.items():
            calendar.build(distances_us[name])
        return new

    @property
    def names(self) -> tuple[str, ...]:
        """The calls whose values `moved` needs."""
        return tuple(self._calendars)

    @property
    def n_visited(self) -> int:
        """Groups that were visited because a comparison changes, over all rounds, once for each call."""
        return sum(calendar.n_visited for calendar in self._calendars.values())

    def moved(self, entries: Ints, values: Mapping[str, Ints]) -> None:
        """Entries, all different, have other values; NO_TIME: the value is NULL, or the entry has left."""
        for name, calendar in self._calendars.items():
            calendar.put(entries, values[name])

    def left(self, entries: Ints) -> None:
        """Entries have left."""
        for calendar in self._calendars.values():
            calendar.remove(entries)

    def flips(self, now_before_us: int | None, now_us: int) -> Ints:
        """Entries with a comparison that changes in (now_before, now], ascending; none in the first round of all."""
        if now_before_us is None:
            return np.empty(0, np.int64)
        passed = [calendar.pass_time(now_before_us, now_us) for calendar in self._calendars.values()]
        return np.unique(np.concatenate([np.empty(0, np.int64), *passed]))

    def next_deadline(self, now_us: int) -> int | None:
        """A time after now before which no comparison changes; None: none ever does."""
        deadlines = [calendar.next_deadline(now_us) for calendar in self._calendars.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def commit(self) -> None:
        for calendar in self._calendars.values():
            calendar.commit()

    def rollback(self) -> None:
        for calendar in self._calendars.values():
            calendar.rollback()

    @property
    def nbytes(self) -> int:
        return sum(calendar.nbytes for calendar in self._calendars.values())

    def check(self) -> None:
        for calendar in self._calendars.values():
            calendar.check()


def instants_of(values: pa.Array) -> Ints:
    """Timestamps in microseconds, NO_TIME where NULL."""
    micros = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).fill_null(NO_TIME)
    return np.asarray(micros.to_numpy(zero_copy_only=False), dtype=np.int64)
