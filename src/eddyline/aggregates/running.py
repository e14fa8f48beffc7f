"""Running groups: a table by group that all rows of a class go into, and the global aggregate, which is the group of no key.

A group has an entry for each epoch that is read and has rows. A query reads those of its own epoch and of newer ones; they are
merged from the newest down, so that the answers of all epochs take one merge per entry. Groups with `keep` are forgotten before
the rows of a round count. Aggregations that differ in it have entries of their own: their groups start anew at other times.

Over tables all queries see all rows, so there is one epoch, and a group leaves with its last row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.aggregates.call_states import CallStates
from eddyline.aggregates.changes import Places, Side, answer, entries_once, entry_changes, side
from eddyline.aggregates.entries import TABLE_EPOCH, Entries
from eddyline.aggregates.partials import PartialRows, folded, merged_lines
from eddyline.aggregates.rows import ClassRows, EntryChanges, Ints, Mask
from eddyline.aggregates.seen import SeenTimes
from eddyline.aggregates.structure import GONE, Reader, RoundTime
from eddyline.kernels import NOTHING
from eddyline.model import FORGOTTEN, AggregateCall, Aggregation

FOR_EVER = -1  # the mark of groups without `keep`; of others it is what they keep
SEEN = "#seen"  # a column of saved entries
_NONE: Ints = np.empty(0, np.int64)


class RunningGroups:
    """The running groups of one class of rows, or its global aggregate if there are no keys."""

    def __init__(self, keys: pa.Schema, *, reads_table: bool = False) -> None:
        self._entries = Entries(keys, is_signed=reads_table)
        self._reads_table = reads_table
        self._is_global = not len(keys)
        self._readers: tuple[Reader, ...] = ()
        self._epochs: dict[int, Ints] = {}  # by mark: those that are read, ascending
        self._seen: dict[int, SeenTimes] = {}  # by mark; not of FOR_EVER
        self._begin(0)

    def _begin(self, now_us: int) -> None:
        self._now_us = now_us  # of the running round
        # by mark: entries that it looked at since they were not seen for long
        self._due: dict[int, Ints] = {}
        self._fed: dict[int, Ints] = {}  # by mark: entries that it brings rows, each once

    # ------------------------------------------------------------------------------------------- readers

    def build(self, readers: Sequence[Reader]) -> None:
        """Adopt the readers of a version, between rounds. State that none of them reads goes."""
        self._readers = tuple(readers)
        self._set_calls([call for reader in readers for call in reader.calls])
        by_mark: dict[int, set[int]] = {}
        for reader in readers:
            mine = by_mark.setdefault(_mark(reader.aggregation), set())
            mine.update({TABLE_EPOCH} if self._reads_table else reader.epochs)
        before, self._epochs = self._epochs, {mark: np.array(sorted(e)) for mark, e in by_mark.items()}
        for mark, epochs in before.items():
            if not np.isin(epochs, self._epochs.get(mark, _NONE)).all():
                self._fold_epochs(mark)
        for mark in self._epochs:
            if mark != FOR_EVER:
                self._seen.setdefault(mark, SeenTimes())

    def _set_calls(self, calls: Sequence[AggregateCall]) -> None:
        held = self._entries
        is_new = self._reads_table and set(calls) - held.states.calls and len(held.live)
        assert not is_new, "over a table, calls that are new need a structure that all its rows are pushed to"
        held.set_calls(calls)

    def _fold_epochs(self, mark: int) -> None:
        """Merge the entries of epochs that none reads any more into older ones."""
        entries, epochs = self._of_mark(mark), self._epochs.get(mark, _NONE)
        if not len(epochs):
            self._entries.drop(entries)
            self._seen.pop(mark, None)
            return
        keys, _, own = self._entries.identity(entries)
        times = self._seen[mark].seen(entries) if mark in self._seen else _NONE
        self._entries.fold_epochs(epochs, entries)
        if mark in self._seen:
            place = np.searchsorted(epochs, own, side="right") - 1
            into = self._find(keys, mark, epochs[place])
            into[place < 0] = NOTHING
            self._set_seen(mark, into, times)

    def _set_seen(self, mark: int, entries: Ints, times_us: Ints) -> None:
        """Begin the log of a mark anew: these were seen then, the latest counts; NOTHING is passed over."""
        there = entries != NOTHING
        order = np.argsort(times_us[there], kind="stable")
        entries, times_us = entries[there][order], times_us[there][order]
        _, last = np.unique(entries[::-1], return_index=True)
        last = np.sort(len(entries) - 1 - last)
        self._seen[mark] = SeenTimes()
        self._seen[mark].see(entries[last], times_us[last])

    def _of_mark(self, mark: int) -> Ints:
        live = self._entries.live
        return live[self._entries.identity(live)[1] == mark]

    def _find(self, keys: Ints, mark: int, epochs: Ints | int) -> Ints:
        marks = np.full(len(keys), mark)
        return self._entries.find(keys, marks, np.broadcast_to(epochs, len(keys)))

    # ------------------------------------------------------------------------------------------- rounds

    def beyond(self, rows: ClassRows, now_us: int, most_groups: int) -> Mask:
        """Which rows would begin a group when there are so many."""
        return self._entries.keys.beyond(rows.columns, most_groups)

    def partial(self, rows: ClassRows) -> PartialRows:
        return folded(rows, self._entries.keys.schema, np.zeros(len(rows), np.int64), self._entries.states)

    def merge(self, parts: Sequence[tuple[pa.RecordBatch, int]], epoch: int) -> PartialRows:
        return merged_lines(parts, self._entries.keys.schema, epoch, self._entries.states)

    def push(self, rows: ClassRows, time: RoundTime) -> Iterator[tuple[Aggregation, EntryChanges]]:
        """The net changes of a round, once for each round, also without rows; all of it must be taken."""
        self._begin(time.now_us)
        oldest = min((int(epochs[0]) for epochs in self._epochs.values()), default=None)
        if oldest is None:
            return
        if not self._reads_table:
            rows = rows.take(np.flatnonzero(rows.epoch >= oldest))
        keys = self._entries.keys.number(rows.columns)
        for mark, epochs in self._epochs.items():
            n_before = len(self._entries.touched)
            self._forget(mark, epochs)
            self._feed(mark, epochs, keys, rows)
            touched = self._entries.touched[n_before:]
            self._remove_empty(touched)
            yield from self._changes(mark, np.unique(self._entries.identity(touched)[0]))

    def _feed(self, mark: int, epochs: Ints, keys: Ints, rows: ClassRows) -> None:
        """Take rows into entries."""
        if self._is_global:
            self._begin_epochs(mark, epochs)
        place = np.zeros(len(rows), np.int64)
        if not self._reads_table:
            place = np.searchsorted(epochs, rows.epoch, side="right") - 1
            visible = np.flatnonzero(place >= 0)
            rows, keys, place = rows.take(visible), keys[visible], place[visible]
        entries = self._entries.number(keys, np.full(len(keys), mark), epochs[place])
        self._entries.add(entries, rows)
        if mark in self._seen:
            self._fed[mark] = np.unique(entries)

    def _remove_empty(self, entries: Ints) -> None:
        """Entries without rows leave, but for the global aggregate."""
        if not self._is_global:
            n_rows = self._entries.scratch.n_rows(self._entries.hold(entries))
            self._entries.remove(entries[n_rows == 0])

    def _begin_epochs(self, mark: int, epochs: Ints) -> None:
        """Give epochs of a global aggregate that are new their entry: it is there from now on, with or without rows."""
        one = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
        keys = np.repeat(self._entries.keys.number(one), len(epochs))
        entries = self._entries.number(keys, np.full(len(keys), mark), epochs)
        self._entries.hold(entries[~self._entries.is_committed(entries)])

    def _forget(self, mark: int, epochs: Ints) -> None:
        """Empty the entries of groups that were not seen for too long.

        For a query a group is forgotten when no entry that it reads was seen. An older query may still read these entries with
        one that was, so they are merged into that.
        """
        if mark not in self._seen:
            return
        seen, limit_us = self._seen[mark], self._now_us - mark
        due = self._due[mark] = seen.due(limit_us)
        keys = np.unique(self._entries.identity(due)[0])
        heir = np.full(len(keys), NOTHING)  # the newest entry that was seen, and its epoch
        heir_epoch = np.full(len(keys), NOTHING)
        for epoch in epochs[::-1]:
            entries = self._find(keys, mark, epoch)
            there = np.flatnonzero((entries != NOTHING) & (heir == NOTHING))
            there = there[seen.seen(entries[there]) > limit_us]
            heir[there], heir_epoch[there] = entries[there], epoch
        for epoch in epochs:
            entries = self._find(keys, mark, epoch)
            expired = (entries != NOTHING) & (heir_epoch < epoch)
            self._bequeath(entries[expired], heir[expired])

    def _bequeath(self, entries: Ints, heirs: Ints) -> None:
        """Empty entries; what was in them goes into their heirs, if they have one."""
        moved = np.flatnonzero(heirs != NOTHING)
        states = self._entries.gathered(entries[moved], is_after=True)
        into = self._entries.hold(heirs[moved])
        self._entries.scratch.merge(into, states, np.arange(len(moved)))
        self._entries.scratch.clear(self._entries.hold(entries))

    def _changes(self, mark: int, keys: Ints) -> Iterator[tuple[Aggregation, EntryChanges]]:
        if not len(keys):
            return
        views = zip(
            self._views(mark, keys, is_after=False), self._views(mark, keys, is_after=True), strict=True
        )
        for (epoch, states_before, was_there), (_, states_after, is_there) in views:
            for reader in self._readers:
                epochs = reader.epochs if self._reads_table else {epoch} & set(reader.epochs)
                if _mark(reader.aggregation) != mark or not epochs:
                    continue
                before = side(states_before, reader.calls, was_there)
                after = side(states_after, reader.calls, is_there)
                for changes in self._reported(mark, keys, before, after):
                    for number in epochs:
                        yield reader.aggregation, replace(changes, epoch=number)

    def _reported(self, mark: int, keys: Ints, before: Side, after: Side) -> Iterator[EntryChanges]:
        """What has changed; groups that leave though their rows do not are forgotten."""
        at, table = Places(keys), self._entries.keys
        if mark != FOR_EVER:
            gone = Side(before.values, before.is_there & ~after.is_there)
            forgotten = entries_once(0, table, at, gone, is_after=False, reason=FORGOTTEN)
            if forgotten is not None:
                yield forgotten
            before = Side(before.values, before.is_there & after.is_there)
        changes = entry_changes(0, table, at, before, after)
        if changes is not None:
            yield changes

    def _views(
        self, mark: int, keys: Ints, *, is_after: bool
    ) -> Iterator[tuple[int, CallStates, Mask | None]]:
        """By epoch, the newest first: what its queries see of these keys, and which of them are there if it is not their rows."""
        newer: CallStates | None = None
        for epoch in self._epochs[mark][::-1]:
            entries = self._find(keys, mark, epoch)
            states = self._entries.gathered(entries, is_after=is_after)
            if newer is not None:
                states.merge(np.arange(len(keys)), newer, np.arange(len(keys)))
            is_there = None
            if self._is_global:
                is_there = np.full(len(keys), True) if is_after else self._entries.is_committed(entries)
            yield int(epoch), states, is_there
            newer = states

    def current(self, aggregation: Aggregation, epoch: int) -> pa.RecordBatch:
        """All entries as the queries of an epoch see them after the `push` of the running round, in canonical order."""
        mark = _mark(aggregation)
        calls = next(reader.calls for reader in self._readers if reader.aggregation == aggregation)
        keys = np.unique(self._entries.identity(self._of_mark(mark))[0])
        own = TABLE_EPOCH if self._reads_table else epoch
        states, is_there = next((s, t) for e, s, t in self._views(mark, keys, is_after=True) if e == own)
        return answer(self._entries.keys, Places(keys), side(states, calls, is_there))

    def next_deadline(self) -> int | None:
        """When the next group is forgotten, as of the last round that committed."""
        firsts = ((mark, seen.first_us()) for mark, seen in self._seen.items())
        return min((first + mark for mark, first in firsts if first is not None), default=None)

    def commit(self) -> None:
        """Keep what the round did."""
        gone = self._entries.gone
        for mark, seen in self._seen.items():
            seen.retire(self._due.get(mark, _NONE))  # what leaves is among them, now or before
            fed = np.setdiff1d(self._fed.get(mark, _NONE), gone)
            seen.see(fed, np.full(len(fed), self._now_us))
        self._entries.commit()
        self._begin(self._now_us)

    def rollback(self) -> None:
        """Forget it."""
        self._entries.rollback()
        self._begin(self._now_us)

    # ------------------------------------------------------------------------------------------- storage

    def save(self) -> pa.RecordBatch | None:
        """The entries that the running round changes, each whole, with GONE where one leaves; None: it changes nothing."""
        saved = self._entries.save()
        if saved is None:
            return None
        entries, batch = saved
        times = np.append(np.zeros(len(batch) - len(entries), np.int64), self._seen_with_round(entries))
        return batch.append_column(SEEN, pa.array(times))

    def whole(self) -> pa.RecordBatch | None:
        """All entries, as `save` would give them."""
        live = np.setdiff1d(self._entries.live, self._entries.gone)
        if not len(live):
            return None
        batch = self._entries.batch(live, is_after=True)
        return batch.append_column(SEEN, pa.array(self._seen_with_round(live)))

    def _seen_with_round(self, entries: Ints) -> Ints:
        """When these were last seen, the running round included; 0 if that is of no account."""
        marks, times = self._entries.identity(entries)[1], np.zeros(len(entries), np.int64)
        for mark, seen in self._seen.items():
            mine = marks == mark
            is_fed = np.isin(entries[mine], self._fed.get(mark, _NONE))
            times[mine] = np.where(is_fed, self._now_us, seen.seen(entries[mine]))
        return times

    def load(self, saved: Sequence[pa.RecordBatch]) -> None:
        """Entries as they were saved, the oldest first: of each the newest counts. Readers are known."""
        times: Ints = np.zeros(0, np.int64)
        for batch in saved:
            there = batch.filter(pa.compute.invert(batch.column(GONE)))
            entries = self._entries.load(batch)
            times = np.append(times, np.zeros(self._entries.states.n - len(times), np.int64))
            times[entries] = np.asarray(there.column(SEEN))
        for mark in np.unique(self._entries.identity(self._entries.live)[1]).tolist():
            if mark != FOR_EVER:
                entries = self._of_mark(mark)
                self._set_seen(mark, entries, times[entries])
            self._fold_epochs(mark)

    # ------------------------------------------------------------------------------------------- for explain and tests

    @property
    def nbytes(self) -> int:
        return self._entries.nbytes + sum(seen.nbytes for seen in self._seen.values())

    def snapshot(self) -> dict[str, Any]:
        """Numbers for explain."""
        return {"groups": len(self._entries.keys), "entries": len(self._entries.table), "bytes": self.nbytes}

    def check(self) -> None:
        """Assert the invariants, between rounds."""
        self._entries.check()
        live = self._entries.live
        _, marks, epochs = self._entries.identity(live)
        for mark in np.unique(marks).tolist():
            of_mark = np.unique(epochs[marks == mark])
            assert mark in self._epochs, f"entries that are kept {mark} have no reader"
            assert np.isin(of_mark, self._epochs[mark]).all(), f"epochs {of_mark} are not all read"
        for seen in self._seen.values():
            seen.check()
        if not self._is_global:
            assert (self._entries.states.n_rows(live) > 0).all(), "a group without rows"


def _mark(aggregation: Aggregation) -> int:
    return FOR_EVER if aggregation.keep_us is None else aggregation.keep_us
