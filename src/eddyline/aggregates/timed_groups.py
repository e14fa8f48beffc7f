"""Running groups whose HAVING may ask for now(): groups that time alone brings into answers, or out of them, are entries as well.

Per aggregation and epoch the groups lie in `Absences` by the values that are compared with now(). An entry of which only a
comparison changes has the same row before and after: the filters that decide HAVING ask the first with the now() of the round
before, the second with that of the round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.aggregates.absence import Absences, instants_of
from eddyline.aggregates.calendar import distances_of
from eddyline.aggregates.changes import Places, answer, side
from eddyline.aggregates.entries import TABLE_EPOCH
from eddyline.aggregates.rows import ClassRows, EntryChanges, Ints
from eddyline.aggregates.running import FOR_EVER, RunningGroups
from eddyline.aggregates.structure import Reader, RoundTime
from eddyline.model import NO_TIME, Aggregation

_View = tuple[str, int]  # an aggregation, by name, and an epoch


class TimedGroups(RunningGroups):
    """Running groups, and which of them time moves."""

    def __init__(self, keys: pa.Schema, *, reads_table: bool = False) -> None:
        super().__init__(keys, reads_table=reads_table)
        self._absences: dict[_View, Absences] = {}
        self._last_us: int | None = None  # now() of the last round that committed
        self._round_us: int | None = None  # of the running one

    @property
    def n_visited(self) -> int:
        """Groups that were visited only because time goes on, over all rounds."""
        return sum(absences.n_visited for absences in self._absences.values())

    def build(self, readers: Sequence[Reader]) -> None:
        super().build(readers)
        before, self._absences = self._absences, {}
        for reader in readers:
            for epoch in reader.epochs if reader.deadlines else ():
                view = (reader.aggregation.name, epoch)
                absences = self._absences[view] = before.get(view, Absences())
                if absences.build(distances_of(reader.deadlines)):
                    self._fill(reader, epoch)

    def _fill(self, reader: Reader, epoch: int) -> None:
        """Take up all groups that the queries of an epoch see, between rounds."""
        if len(self._entries.live):
            self._move(reader.aggregation.name, epoch, self.current(reader.aggregation, epoch))
            self._absences[reader.aggregation.name, epoch].commit()

    def _move(self, name: str, epoch: int, groups: pa.RecordBatch) -> Ints:
        """These groups have other values; returns their numbers."""
        absences, numbers = self._absences[name, epoch], self._entries.keys.find(groups)
        absences.moved(numbers, {call: instants_of(groups.column(call)) for call in absences.names})
        return numbers

    # ------------------------------------------------------------------------------------------- rounds

    def push(self, rows: ClassRows, time: RoundTime) -> Iterator[tuple[Aggregation, EntryChanges]]:
        """The net changes of a round, then the groups that only time moves."""
        if time.now_before_us is not None:
            self._last_us = time.now_before_us
        self._round_us = time.now_us
        changed: dict[_View, list[Ints]] = {}
        for aggregation, changes in super().push(rows, time):
            view = (aggregation.name, changes.epoch)
            if view in self._absences:
                changed.setdefault(view, []).append(self._follow(view, changes))
            yield aggregation, changes
        for reader in self._readers:
            for epoch in reader.epochs if reader.deadlines else ():
                view = (reader.aggregation.name, epoch)
                flips = self._absences[view].flips(self._last_us, time.now_us)
                flips = np.setdiff1d(flips, np.concatenate([flips[:0], *changed.get(view, [])]))
                if len(flips):
                    yield reader.aggregation, self._unchanged(reader, epoch, flips)

    def _follow(self, view: _View, changes: EntryChanges) -> Ints:
        """Move groups to their values after the round; returns the numbers of all that changed."""
        after = self._move(*view, changes.columns.filter(pa.array(changes.is_after)))
        numbers = np.unique(self._entries.keys.find(changes.columns))
        self._absences[view].left(np.setdiff1d(numbers, after))
        return numbers

    def _unchanged(self, reader: Reader, epoch: int, keys: Ints) -> EntryChanges:
        """These groups with equal rows before and after."""
        groups = self._answer(reader, epoch, keys)
        entry = np.repeat(np.arange(len(groups)), 2)
        is_after = np.tile([False, True], len(groups))
        return EntryChanges(epoch, groups.take(pa.array(entry)), is_after, entry)

    def _answer(self, reader: Reader, epoch: int, keys: Ints) -> pa.RecordBatch:
        """These groups as the queries of an epoch see them with the running round."""
        mark = FOR_EVER if reader.aggregation.keep_us is None else reader.aggregation.keep_us
        own = TABLE_EPOCH if self._reads_table else epoch
        views = self._views(mark, keys, is_after=True)
        states, is_there = next((states, is_there) for e, states, is_there in views if e == own)
        return answer(self._entries.keys, Places(keys), side(states, reader.calls, is_there))

    def next_deadline(self) -> int | None:
        """When a group is forgotten or falls silent; after a restart, until there was a round, that may be in the past."""
        times = (self._round_us, self._last_us, NO_TIME)
        now_us = next(time_us for time_us in times if time_us is not None)
        deadlines = [super().next_deadline()]
        deadlines += [absences.next_deadline(now_us) for absences in self._absences.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def commit(self) -> None:
        super().commit()
        for absences in self._absences.values():
            absences.commit()
        self._last_us, self._round_us = self._round_us, None

    def rollback(self) -> None:
        super().rollback()
        for absences in self._absences.values():
            absences.rollback()
        self._round_us = None

    def load(self, saved: Sequence[pa.RecordBatch]) -> None:
        super().load(saved)
        for reader in self._readers:
            for epoch in reader.epochs if reader.deadlines else ():
                self._fill(reader, epoch)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"visited": self.n_visited}

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(absences.nbytes for absences in self._absences.values())

    def check(self) -> None:
        super().check()
        for absences in self._absences.values():
            absences.check()
