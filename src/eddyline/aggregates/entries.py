"""Entries of a class: what is kept for a key, a mark and an epoch. The mark of a slice is its start, that of a running group for
how long it is kept.

What a round does is held apart: entries that it touches are copied, changed there, and copied back when it commits. Entries that
are new have a number at once, and no state before the commit.

Invariants: an entry has a key; a key has an entry; between rounds states that no entry owns are empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.aggregates.call_states import CallStates
from eddyline.aggregates.key_table import KeyTable, fixed_words, grown
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.rows import ClassRows, Ints, Mask
from eddyline.aggregates.structure import GONE
from eddyline.kernels import NOTHING
from eddyline.model import AggregateCall

TABLE_EPOCH = 0  # of all rows of tables, which all queries see
MARK, EPOCH = "#mark", "#epoch"  # columns of saved entries
_NONE: Ints = np.empty(0, np.int64)


class Entries:
    """Keys, entries and their states."""

    def __init__(self, schema: pa.Schema, *, is_signed: bool) -> None:
        self.keys = Keys(schema)
        self.table = KeyTable()  # of (key, mark, epoch)
        self.states = CallStates(is_signed=is_signed)
        self._n_of_key: Ints = np.zeros(0, np.int64)  # entries that are committed
        self._is_kept: Mask = np.zeros(0, dtype=bool)  # by entry: it is committed
        self._place: Ints = np.empty(0, np.int64)  # by entry: where it is held apart, from 1 on; 0: nowhere
        self._moved: list[Ints] = []  # entries that were changed between rounds and have not been saved
        self._left: list[pa.RecordBatch] = []  # and those that left
        self._begin()

    def _begin(self) -> None:
        self.scratch = self.states.like(0)
        self.touched = _NONE  # entries that are held apart, in the order of their places
        self.gone = _NONE  # entries that leave with the round

    def set_calls(self, calls: Sequence[AggregateCall]) -> None:
        """Take up the calls of a version, between rounds."""
        self.states.set_calls(calls)
        self._begin()

    # ------------------------------------------------------------------------------------------- which they are

    def number(self, keys: Ints, marks: Ints, epochs: Ints) -> Ints:
        """The entry of each of these, made if there is none."""
        entries = self.table.number(fixed_words(keys, marks, epochs))
        self.states.resize(self.table.n_numbers)
        self._place, self._is_kept = grown(self._place, self.states.n), grown(self._is_kept, self.states.n)
        return entries

    def find(self, keys: Ints, marks: Ints, epochs: Ints) -> Ints:
        """The entry of each of these, or NOTHING."""
        return self.table.find(fixed_words(keys, marks, epochs))

    def identity(self, entries: Ints) -> tuple[Ints, Ints, Ints]:
        """Key, mark and epoch of each entry."""
        key, mark, epoch = self.table.words_of(entries).words.reshape(-1, 3).T
        return key, mark, epoch

    def is_committed(self, entries: Ints) -> Mask:
        """Which of these, or NOTHING, the rounds before have made."""
        found = entries != NOTHING
        found[found] = self._is_kept[entries[found]]
        return found

    @property
    def live(self) -> Ints:
        """All entries, those of the running round included."""
        return self.table.live

    # ------------------------------------------------------------------------------------------- in a round

    def hold(self, entries: Ints) -> Ints:
        """Hold these apart; returns where they are in `scratch`."""
        new = entries[self._place[entries] == 0]
        if len(new):
            self._place[new] = np.arange(1, len(new) + 1)  # of equal ones the last stays
            new = new[self._place[new] == np.arange(1, len(new) + 1)]
            places = np.arange(len(self.touched), len(self.touched) + len(new))
            self.scratch.resize(len(self.touched) + len(new))
            self.scratch.copy(places, self.states, new)
            self._place[new] = places + 1
            self.touched = np.append(self.touched, new)
        return self._place[entries] - 1

    def add(self, entries: Ints, rows: ClassRows) -> None:
        """Row k goes into entries[k]."""
        rows.add_to(self.scratch, self.hold(entries))

    def gathered(self, entries: Ints, *, is_after: bool) -> CallStates:
        """The states of these as they were before the round, or are with it; empty for NOTHING."""
        found = self.states.like(len(entries))
        there = np.flatnonzero(entries != NOTHING)
        if is_after:
            places = self._place[entries[there]] - 1
            held = places >= 0
            found.copy(there[held], self.scratch, places[held])
            there = there[~held]
        found.copy(there, self.states, entries[there])
        return found

    def remove(self, entries: Ints) -> None:
        """These leave with the round; until it commits they can be read."""
        self.gone = np.union1d(self.gone, entries)

    def commit(self) -> None:
        """Keep what the round did."""
        self.states.copy(self.touched, self.scratch, np.arange(len(self.touched)))
        new = self.touched[~self._is_kept[self.touched]]
        self._is_kept[new] = True
        self._count(new, 1)
        self._end()
        gone = self.gone
        self.table.commit()
        self.keys.commit()
        self._begin()
        self._moved, self._left = [], []
        self._discard(gone)

    def rollback(self) -> None:
        """Forget it."""
        self._end()
        self.table.rollback()
        self.keys.rollback()
        self._begin()

    def _end(self) -> None:
        self._place[self.touched] = 0

    def _count(self, entries: Ints, step: int) -> None:
        """So many more entries, or fewer, of each key; keys without entries leave."""
        keys = self.identity(entries)[0]
        self._n_of_key = grown(self._n_of_key, self.keys.table.n_numbers)
        np.add.at(self._n_of_key, keys, step)
        if step < 0:
            keys = np.unique(keys)
            self.keys.remove(keys[self._n_of_key[keys] == 0])

    def _discard(self, entries: Ints) -> None:
        self.states.clear(entries)
        self._is_kept[entries] = False
        self._count(entries, -1)
        self.table.remove(entries)

    # ------------------------------------------------------------------------------------------- between rounds

    def drop(self, entries: Ints) -> None:
        """Take these out at once."""
        if len(entries):
            self._left.append(self._identified(entries))
            self._moved = [moved[~np.isin(moved, entries)] for moved in self._moved]
            self._discard(entries)

    def move(self, entries: Ints, epochs: Ints) -> None:
        """Merge these into the entries of the same key and mark in other epochs, the oldest first."""
        if not len(entries):
            return
        keys, marks, _ = self.identity(entries)
        states = self.gathered(entries, is_after=False)
        into = self.number(keys, marks, epochs)
        self.states.merge(into, states, np.arange(len(into)))
        new = np.unique(into[~self._is_kept[into]])
        self._is_kept[new] = True
        self._count(new, 1)
        self.table.commit()
        self._moved.append(np.unique(into))
        self.drop(entries)

    def fold_epochs(self, live: Ints, entries: Ints) -> None:
        """Merge those of these entries whose epoch none reads into the next older epoch that is read, or drop them."""
        epochs = self.identity(entries)[2]
        order = np.argsort(epochs, kind="stable")
        entries, epochs = entries[order], epochs[order]
        place = np.searchsorted(live, epochs, side="right") - 1
        is_moved = (place >= 0) & (live[place] != epochs)
        self.move(entries[is_moved], live[place[is_moved]])
        self.drop(entries[place < 0])

    # ------------------------------------------------------------------------------------------- in storage

    def _identified(self, entries: Ints) -> pa.RecordBatch:
        keys, marks, epochs = self.identity(entries)
        columns = self.keys.columns(keys)
        return columns.append_column(MARK, pa.array(marks)).append_column(EPOCH, pa.array(epochs))

    def save(self) -> tuple[Ints, pa.RecordBatch] | None:
        """The entries that the round, and what went before it, changes, as they will be; those that leave come first."""
        changed = np.unique(np.concatenate([*self._moved, self.touched]))
        changed = changed[~np.isin(changed, self.gone)]
        was_kept = self.gone[self._is_kept[self.gone]]
        left = [*self._left, self._identified(was_kept)] if len(was_kept) else self._left
        left = [batch for batch in left if len(batch)]
        if not left and not len(changed):
            return None
        gone = pa.concat_batches(left) if left else self._identified(_NONE)
        batch = self.batch(changed, is_after=True)
        nulls = [pa.nulls(len(gone), field.type) for field in batch.schema]
        rows = pa.RecordBatch.from_arrays(nulls, schema=batch.schema)
        for name in gone.schema.names:
            rows = rows.set_column(rows.schema.get_field_index(name), name, gone.column(name))
        rows = rows.set_column(rows.schema.get_field_index(GONE), GONE, pa.repeat(True, len(gone)))
        return changed, pa.concat_batches([rows.cast(batch.schema), batch])

    def batch(self, entries: Ints, *, is_after: bool) -> pa.RecordBatch:
        """These entries whole."""
        states = self.gathered(entries, is_after=is_after).to_batch(np.arange(len(entries)))
        columns = self._identified(entries)
        for name, column in zip(states.schema.names, states.columns, strict=True):
            columns = columns.append_column(name, column)
        return columns.append_column(GONE, pa.repeat(False, len(entries)))

    def load(self, saved: pa.RecordBatch) -> Ints:
        """Entries as they were saved, between rounds; returns those that are there, by the rows that have not left."""
        is_gone = np.asarray(saved.column(GONE).to_numpy(zero_copy_only=False)).astype(bool)
        there, left = saved.filter(pa.array(~is_gone)), saved.filter(pa.array(is_gone))
        old = self.find(self.keys.find(left), *_marks(left))
        self._discard(np.unique(old[old != NOTHING]))
        entries = self.number(self.keys.number(there), *_marks(there))
        self.states.load(entries, there)
        new = entries[~self._is_kept[entries]]
        self._is_kept[new] = True
        self._count(new, 1)
        self.table.commit()
        self.keys.commit()
        return entries

    # ------------------------------------------------------------------------------------------- for explain and tests

    @property
    def nbytes(self) -> int:
        arrays = (self._n_of_key, self._is_kept, self._place)
        return self.keys.nbytes + self.table.nbytes + self.states.nbytes + sum(a.nbytes for a in arrays)

    def check(self) -> None:
        """Assert the invariants, between rounds."""
        self.keys.check()
        self.table.check()
        self.states.check()
        live = self.live
        keys, n = np.unique(self.identity(live)[0], return_counts=True)
        assert (keys == self.keys.table.live).all(), "a key without entries, or an entry without its key"
        assert (self._n_of_key[keys] == n).all(), "entries of a key are miscounted"
        assert self._is_kept[live].all(), "an entry of a round that has ended was not committed"
        owned = np.zeros(self.states.n, dtype=bool)
        owned[live] = True
        assert not self.states.n_rows(np.flatnonzero(~owned)).any(), "states that no entry owns have rows"
        assert not self._place.any(), "an entry is held apart between rounds"


def _marks(saved: pa.RecordBatch) -> tuple[Ints, Ints]:
    marks, epochs = (np.array(saved.column(name), np.int64) for name in (MARK, EPOCH))
    return marks, epochs
