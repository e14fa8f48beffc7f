"""A keyed table the slow way: every version of every key in a list, searched from end to end."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]


@dataclass
class Version:
    time: int | None  # None: it has none, and is older than all that have
    arrival: int
    row: Row | None  # None: a delete
    until: int | None = None  # the arrival that ended its being current; its own if it came late

    @property
    def place(self) -> tuple[bool, int, int]:
        return (self.time is not None, self.time or 0, self.arrival)


@dataclass
class PlainTable:
    """Versions by key. `history` says whether late rows and superseded ones matter."""

    versions: dict[Any, list[Version]] = field(default_factory=dict)
    committed: dict[Any, list[Version]] = field(default_factory=dict)

    def apply(
        self, key: Any, arrival: int, time: int | None, row: Row, is_delete: bool
    ) -> list[tuple[int, Row]]:
        """What one change changes: (sign, row)."""
        mine = self.versions.setdefault(key, [])
        head = max(mine, key=lambda v: v.place, default=None)
        if is_delete and time is None and head is not None:
            time = head.time
        came = Version(time, arrival, None if is_delete else row)
        if head is not None and came.place < head.place:
            came.until = arrival
            mine.append(came)
            return []
        before = None if head is None else head.row
        if head is not None and head.time == came.time and (before == came.row):
            return []
        if head is not None:
            head.until = arrival
        mine.append(came)
        deltas = [] if before is None else [(-1, before)]
        return deltas if came.row is None else [*deltas, (1, came.row)]

    def commit(self) -> None:
        self.committed = copy.deepcopy(self.versions)

    def rollback(self) -> None:
        self.versions = copy.deepcopy(self.committed)

    def forget(self, horizon: int) -> None:
        """Deletes up to the horizon are forgotten, with all that was before them."""
        for key, mine in list(self.versions.items()):
            head = max(mine, key=lambda v: v.place)
            if head.row is None and (head.time is None or head.time <= horizon):
                del self.versions[key]
        self.commit()

    def at(self, arrival: int, *, includes_own: bool) -> list[tuple[int, Row]]:
        """Rows, with the number they came with, that were current just before or just after an arrival number."""
        found = []
        for mine in self.versions.values():
            for v in mine:
                begins = v.arrival <= arrival if includes_own else v.arrival < arrival
                ended = v.until is not None and (v.until <= arrival if includes_own else v.until < arrival)
                if begins and not ended and v.until != v.arrival and v.row is not None:
                    found.append((v.arrival, v.row))
        return sorted(found)

    def as_of(self, time: int | None, arrival: int) -> list[tuple[int, Row]]:
        """Rows that were the latest at a time, by what had come before an arrival number."""
        found = []
        for mine in self.versions.values():
            known = [
                v
                for v in mine
                if v.arrival < arrival and v.time is not None and time is not None and v.time <= time
            ]
            last = max(known, key=lambda v: v.place, default=None)
            if last is not None and last.row is not None:
                found.append((last.arrival, last.row))
        return sorted(found)
