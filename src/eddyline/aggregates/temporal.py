"""Groups of rows that pass a temporal filter: rows enter and leave them as now() goes on.

All filters of a class share its rows. For each TIMESTAMP column that filters compare with now() the rows lie in a calendar by its
value e; a comparison changes at e and the filter's distance, so one calendar serves all distances. A round visits the rows with a
comparison that changes, and those it brings: what of them enters or leaves a filter goes, with its sign, into the running groups
of that filter. A row of a table that leaves is a row with a negative sign: it passes when the row it takes away passes. If that
is kept, both are let go at once.

Rows are what is saved; groups are computed from them when they are loaded.

Invariants: a row is kept if and only if it passes a filter that sees it, or will; groups hold the rows that pass now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.aggregates.absence import instants_of
from eddyline.aggregates.calendar import Calendar, distances_of
from eddyline.aggregates.entries import Entries
from eddyline.aggregates.kept_rows import NOWHERE, KeptRows, joined_rows, no_rows
from eddyline.aggregates.rows import ClassRows, EntryChanges, Ints, Mask
from eddyline.aggregates.structure import GONE, Reader, RoundTime
from eddyline.aggregates.timed_groups import TimedGroups
from eddyline.model import NO_TIME, Aggregation, TemporalBound

Bounds = tuple[TemporalBound, ...]
Instants = Mapping[str, Ints]  # by column
_ID, _NOW = "#row", "#now"  # columns of saved rows; of an epoch that has begun the id is -1 - epoch
_ARRAYS = {"time_us": "#time", "arrival": "#arrival", "sign": "#sign", "is_late": "#late", "epoch": "#epoch"}
_NOTHING = np.empty(0, np.int64)


class _PassingGroups(TimedGroups):
    """Running groups whose rows leave again."""

    def __init__(self, keys: pa.Schema, *, reads_table: bool) -> None:
        super().__init__(keys, reads_table=reads_table)
        self._entries = Entries(keys, is_signed=True)


@dataclass(slots=True)
class _TemporalRound:
    """What the running round does to rows."""

    time: RoundTime
    moved: Ints = field(default_factory=_NOTHING.copy)  # numbers of rows that came, entered or left
    gone: Ints = field(default_factory=_NOTHING.copy)  # of those that are not kept any more


class TemporalGroups:
    """The structure of all aggregations over a class that have temporal filters."""

    def __init__(self, keys: pa.Schema, *, reads_table: bool = False) -> None:
        self._keys = keys
        self._reads_table = reads_table
        self._readers: tuple[Reader, ...] = ()
        self._groups: dict[Bounds, _PassingGroups] = {}
        self._oldest: dict[Bounds, int] = {}  # the oldest epoch that reads
        self._calendars: dict[str, Calendar] = {}  # numbers of rows by a column
        self._rows = KeptRows()
        self._begun: frozenset[int] = frozenset()  # epochs that had a round
        self._unsaved: list[Ints] = []  # ids of rows that left without a round
        self._now_us: int | None = None  # of the last round that committed
        self._round: _TemporalRound | None = None

    # ------------------------------------------------------------------------------------------- readers

    def build(self, readers: Sequence[Reader]) -> None:
        """Adopt the readers of a version; rows that pass no filter of theirs go."""
        self._readers = tuple(readers)
        by_bounds: dict[Bounds, list[Reader]] = {}
        for reader in readers:
            by_bounds.setdefault(reader.aggregation.bounds, []).append(reader)
        is_new = self._reads_table and self._rows.n_live and not by_bounds.keys() <= self._groups.keys()
        assert not is_new, (
            "over a table, filters that are new need a structure that all its rows are pushed to"
        )
        self._groups = {bounds: self._groups.get(bounds) or self._no_groups() for bounds in by_bounds}
        for bounds, groups in self._groups.items():
            groups.build(by_bounds[bounds])
        self._oldest = {b: min(e for each in mine for e in each.epochs) for b, mine in by_bounds.items()}
        distances = distances_of([bound for bounds in by_bounds for bound in bounds])
        self._calendars = {column: self._calendars.get(column, Calendar()) for column in distances}
        for column, calendar in self._calendars.items():
            calendar.build(distances[column])
        self._purge()

    def _no_groups(self) -> _PassingGroups:
        return _PassingGroups(self._keys, reads_table=self._reads_table)

    def _purge(self) -> None:
        """Let rows go that pass no filter any more, between rounds."""
        live = self._rows.live
        rows, ids = self._rows.take(live)
        is_needed = self._may_pass(self._instants(live), rows.epoch, self._now_us)
        self._unsaved.append(ids[~is_needed])
        self._let_go(live[~is_needed])

    def _let_go(self, numbers: Ints) -> None:
        self._rows.remove(numbers)
        for calendar in self._calendars.values():
            calendar.remove(numbers)
            calendar.commit()
        if self._rows.is_sparse:
            packed = self._rows.pack()
            self._calendars = {column: each.renumbered(packed) for column, each in self._calendars.items()}

    # ------------------------------------------------------------------------------------------- filters

    def _instants(self, numbers: Ints) -> dict[str, Ints]:
        return {column: calendar.numbers(numbers) for column, calendar in self._calendars.items()}

    def _may_pass(self, instants: Instants, epoch: Ints, now_us: int | None) -> Mask:
        """Rows that some filter that sees them lets pass, now or later."""
        found = np.zeros(len(epoch), dtype=bool)
        for bounds, oldest in self._oldest.items():
            is_seen = np.ones(len(epoch), dtype=bool) if self._reads_table else epoch >= oldest
            found |= is_seen & (True if now_us is None else _ends_after(bounds, instants, now_us))
        return found

    # ------------------------------------------------------------------------------------------- rounds

    def beyond(self, rows: ClassRows, now_us: int, most_groups: int) -> Mask:
        """Which rows would begin a group of some filter when it has so many; those that pass none begin none.

        A group that a kept row will begin later has its place already.
        """
        instants = {column: instants_of(rows.columns.column(column)) for column in self._calendars}
        found = self._may_pass(instants, rows.epoch, now_us)
        passing = rows.take(np.flatnonzero(found))
        refused = []
        for bounds, groups in self._groups.items():
            waiting = self._waiting(bounds, passing)
            both = passing if waiting is None else joined_rows([waiting, passing])
            refused.append(groups.beyond(both, now_us, most_groups)[len(both) - len(passing) :])
        found[found] = np.logical_or.reduce(refused) if refused else False
        return found

    def _waiting(self, bounds: Bounds, rows: ClassRows) -> ClassRows | None:
        """Kept rows that have not entered a filter yet, with the columns of others; None if it has no upper bound."""
        if self._now_us is None or not len(rows) or all(bound.enter_us is None for bound in bounds):
            return None
        live = self._rows.live
        instants = self._instants(live)
        is_waiting = _ends_after(bounds, instants, self._now_us) & ~_passes(bounds, instants, self._now_us)
        kept, _ = self._rows.take(live[is_waiting])
        if not len(kept):
            return None
        return replace(kept, columns=kept.columns.select(self._keys.names)) if self._keys.names else None

    def push(self, rows: ClassRows, time: RoundTime) -> Iterator[tuple[Aggregation, EntryChanges]]:
        """The net changes of a round: the groups of each filter, from the rows that enter and leave it."""
        held = self._round = _TemporalRound(time)
        self._rows.begin()
        passed = [calendar.pass_time(self._now_us, time.now_us) for calendar in self._calendars.values()]
        due = np.unique(np.concatenate([_NOTHING, *passed]))
        new = {column: instants_of(rows.columns.column(column)) for column in self._calendars}
        due_rows, _ = self._rows.take(due)
        was_due = self._instants(due)
        held.gone = due[~self._may_pass(was_due, due_rows.epoch, time.now_us)]
        came = self._keep(rows, new, time.now_us)
        moved = np.zeros(len(due), dtype=bool)
        for bounds, groups in self._groups.items():
            is_passing = _passes(bounds, was_due, time.now_us)
            was_passing = (
                is_passing & False if self._now_us is None else _passes(bounds, was_due, self._now_us)
            )
            moved |= is_passing != was_passing
            entering = due_rows.take(np.flatnonzero(is_passing & ~was_passing))
            leaving = due_rows.take(np.flatnonzero(was_passing & ~is_passing))
            arriving = rows.take(np.flatnonzero(_passes(bounds, new, time.now_us)))
            changes = joined_rows([arriving, entering, replace(leaving, sign=-leaving.sign)])
            order = np.argsort(changes.sign < 0, kind="stable")  # rows come before they leave
            yield from groups.push(changes.take(order), time)
        held.moved = np.union1d(due[moved], came)

    def _keep(self, rows: ClassRows, instants: Instants, now_us: int) -> Ints:
        """Keep the rows that pass or will; a row of a table that leaves takes the kept one with it. Returns new numbers."""
        may_pass = self._may_pass(instants, rows.epoch, now_us)
        came = self._append(rows, instants, np.flatnonzero(may_pass & (rows.sign > 0)))
        leaving = np.flatnonzero(may_pass & (rows.sign < 0))
        if not len(leaving):
            return came
        taken = self._rows.find(rows.arrival[leaving])
        is_found = taken != NOWHERE
        for column, calendar in self._calendars.items():
            is_found[is_found] = calendar.numbers(taken[is_found]) == instants[column][leaving[is_found]]
        assert self._round is not None
        self._round.gone = np.union1d(self._round.gone, taken[is_found])
        return np.append(came, self._append(rows, instants, leaving[~is_found]))

    def _append(self, rows: ClassRows, instants: Instants, places: Ints) -> Ints:
        numbers = self._rows.append(rows.take(places))
        for column, calendar in self._calendars.items():
            calendar.put(numbers, instants[column][places])
        return numbers

    def current(self, aggregation: Aggregation, epoch: int) -> pa.RecordBatch:
        return self._groups[aggregation.bounds].current(aggregation, epoch)

    def next_deadline(self) -> int | None:
        """When the next row enters or leaves, or a comparison in HAVING changes."""
        now_us = self._now_us if self._round is None else self._round.time.now_us
        deadlines = [groups.next_deadline() for groups in self._groups.values()]
        if now_us is not None:
            deadlines += [calendar.next_deadline(now_us) for calendar in self._calendars.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def commit(self) -> None:
        held = self._round
        assert held is not None, "no round is running"
        for groups in self._groups.values():
            groups.commit()
        for calendar in self._calendars.values():
            calendar.commit()
        self._let_go(held.gone)
        self._begun = self._read_epochs()
        self._now_us, self._round, self._unsaved = held.time.now_us, None, []

    def rollback(self) -> None:
        if self._round is not None:
            for part in self._parts():
                part.rollback()
            self._round = None

    def _read_epochs(self) -> frozenset[int]:
        return frozenset(epoch for reader in self._readers for epoch in reader.epochs)

    def _parts(self) -> list[KeptRows | Calendar | _PassingGroups]:
        return [self._rows, *self._calendars.values(), *self._groups.values()]

    # ------------------------------------------------------------------------------------------- storage

    def save(self) -> pa.RecordBatch | None:
        """Rows that came, entered or left in the round, GONE where they are not kept any more."""
        held = self._round
        assert held is not None, "no round is running"
        gone = np.concatenate([*self._unsaved, self._rows.take(held.gone)[1]])
        epochs = np.array(sorted(self._read_epochs() - self._begun), np.int64)
        rows, ids = self._rows.take(np.setdiff1d(held.moved, held.gone))
        if not len(gone) and not len(epochs) and not len(ids):
            return None
        return _saved(rows, ids, gone, epochs, held.time.now_us)

    def whole(self) -> pa.RecordBatch | None:
        held, begun = self._round, self._begun
        now_us, live = self._now_us, self._rows.live
        if held is not None:
            now_us, live, begun = held.time.now_us, np.setdiff1d(live, held.gone), self._read_epochs()
        if now_us is None:
            return None
        return _saved(*self._rows.take(live), _NOTHING, np.array(sorted(begun), np.int64), now_us)

    def load(self, saved: Sequence[pa.RecordBatch]) -> None:
        """Rows as they were saved, and the groups of those that passed then; `build` has named the readers."""
        if not saved:
            return
        table = pa.concat_tables([pa.table(each) for each in saved], promote_options="default")
        batch = table.combine_chunks().to_batches()[0]
        ids = batch[_ID].to_numpy()
        self._now_us = int(batch[_NOW].to_numpy().max())
        self._begun = frozenset((-1 - ids[ids < 0]).tolist())
        _, from_behind = np.unique(ids[::-1], return_index=True)
        newest = len(ids) - 1 - from_behind
        live = newest[(ids[newest] >= 0) & ~np.asarray(batch[GONE])[newest]]
        rows = _loaded(batch.take(pa.array(live)))
        numbers = self._rows.append(rows, ids[live])
        for column, calendar in self._calendars.items():
            if column in rows.columns.schema.names:  # no filter that sees older rows asks for it otherwise
                calendar.put(numbers, instants_of(rows.columns.column(column)))
                calendar.commit()
        self._load_groups(rows, numbers, self._now_us)
        self._purge()

    def _load_groups(self, rows: ClassRows, numbers: Ints, now_us: int) -> None:
        """Let the epochs that have begun see the rows that pass; for others the next round is the first."""
        for bounds, groups in self._groups.items():
            mine = [reader for reader in self._readers if reader.aggregation.bounds == bounds]
            begun = [replace(r, epochs=tuple(e for e in r.epochs if e in self._begun)) for r in mine]
            passing = rows.take(np.flatnonzero(_passes(bounds, self._instants(numbers), now_us)))
            order = np.argsort(passing.sign < 0, kind="stable")
            groups.build([reader for reader in begun if reader.epochs])
            typed = joined_rows([no_rows(_schema(self._keys, mine)), passing.take(order)])
            for _ in groups.push(typed, RoundTime(now_us, None, None)):
                pass  # a result before it was saved
            groups.commit()
            groups.build(mine)

    # ------------------------------------------------------------------------------------------- for explain and tests

    @property
    def n_visited(self) -> int:
        """Rows that were visited since a comparison of theirs changes, over all rounds, once for each column."""
        return sum(calendar.n_visited for calendar in self._calendars.values())

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts())

    def snapshot(self) -> dict[str, Any]:
        groups = sum(each.snapshot()["groups"] for each in self._groups.values())
        return {"groups": groups, "entries": self._rows.n_live, "bytes": self.nbytes}

    def check(self) -> None:
        """Assert the invariants, between rounds."""
        for part in self._parts():
            part.check()
        live = self._rows.live
        rows, _ = self._rows.take(live)
        instants = self._instants(live)
        is_needed = self._may_pass(instants, rows.epoch, self._now_us)
        assert is_needed.all(), f"rows are kept that no filter lets pass: {live[~is_needed]}"


def _passes(bounds: Bounds, instants: Instants, now_us: int) -> Mask:
    """Rows with enter <= now < leave."""
    passing = _ends_after(bounds, instants, now_us)
    for bound in bounds:
        if bound.enter_us is not None:
            passing &= instants[bound.column] <= now_us - bound.enter_us
    return passing


def _ends_after(bounds: Bounds, instants: Instants, now_us: int) -> Mask:
    """Rows with now < leave; those without a time pass never."""
    found = np.ones(len(instants[bounds[0].column]), dtype=bool)
    for bound in bounds:
        found &= instants[bound.column] != NO_TIME
        if bound.leave_us is not None:
            found &= instants[bound.column] > now_us - bound.leave_us
    return found


def _schema(keys: pa.Schema, readers: Sequence[Reader]) -> pa.Schema:
    """The columns of rows that groups need."""
    fields = dict(zip(keys.names, keys.types, strict=True))
    for call in (call for reader in readers for call in reader.calls):
        fields |= dict(zip(call.arguments, call.types, strict=True))
        fields |= {} if call.filter is None else {call.filter: pa.bool_()}
    return pa.schema(list(fields.items()))


def _saved(rows: ClassRows, ids: Ints, gone: Ints, epochs: Ints, now_us: int) -> pa.RecordBatch:
    """Rows, ids of those that are gone, and epochs that have begun."""
    columns = dict(zip(rows.columns.schema.names, rows.columns.columns, strict=True))
    columns |= {name: pa.array(getattr(rows, array)) for array, name in _ARRAYS.items()}
    others = np.concatenate([gone, -1 - epochs])
    is_gone = np.arange(len(others)) < len(gone)
    parts = [
        pa.table(columns | {_ID: pa.array(ids), GONE: pa.repeat(False, len(ids))}),
        pa.table({_ID: pa.array(others), GONE: pa.array(is_gone)}),
    ]
    table = pa.concat_tables(parts, promote_options="default")
    table = table.append_column(_NOW, pa.repeat(now_us, len(table)))
    return table.combine_chunks().to_batches()[0]


def _loaded(batch: pa.RecordBatch) -> ClassRows:
    arrays = {array: np.asarray(batch[name]) for array, name in _ARRAYS.items()}
    internal = {_ID, _NOW, GONE, *_ARRAYS.values()}
    columns = batch.select([name for name in batch.schema.names if name not in internal])
    return ClassRows(columns=columns, **arrays)
