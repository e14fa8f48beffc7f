"""Pieces of sessions from round to round: each in a slot, found by its group and by the time of its last row.

Indexes take up what a round does at once, and can undo it; epochs, starts and states are written when it commits.

Invariants: a slot is free or holds a piece; a key has a piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from eddyline.aggregates.calendar import Calendar
from eddyline.aggregates.call_states import CallStates
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.ordered_items import OrderedItems
from eddyline.aggregates.pieces import UNCHANGED, Pieces, joined_pieces
from eddyline.aggregates.rows import Ints
from eddyline.aggregates.structure import GONE
from eddyline.model import NO_TIME, AggregateCall

_SLOT, _EPOCH, _START, _LAST = "#slot", "#epoch", "#start", "#last"  # columns of saved pieces
_NOTHING = np.empty(0, np.int64)


class StoredPieces:
    """Pieces by slot."""

    def __init__(self, keys: pa.Schema) -> None:
        self.keys = Keys(keys)
        self.states = CallStates()
        self.groups = OrderedItems()  # slots by group
        self.calendar = Calendar()  # slots by the time of their last row
        self._epoch, self._start = _NOTHING, _NOTHING  # by slot
        self._free = _NOTHING  # slots without a piece
        self._n_slots = 0
        self._undo = (_NOTHING, 0)  # free slots and slots before the round

    def build(self, calls: Sequence[AggregateCall], distances_us: Iterable[int]) -> None:
        self.states.set_calls(calls)
        self.calendar.build(distances_us)

    def __len__(self) -> int:
        return len(self.groups)

    # ------------------------------------------------------------------------------------------- pieces

    def slots_of(self, groups: Ints) -> Ints:
        """The slots with pieces of these groups."""
        return self.groups.within(groups - 1, groups)

    def of(self, groups: Ints) -> Pieces:
        """The pieces of these groups, which the running round has not changed."""
        return self.at(self.slots_of(groups))

    def all(self) -> Pieces:
        return self.at(self.groups.items)

    def at(self, slots: Ints) -> Pieces:
        """The pieces in these slots, which the running round has not changed."""
        group, last = self.groups.numbers(slots), self.calendar.numbers(slots)
        unchanged = np.full(len(slots), UNCHANGED)
        return joined_pieces([Pieces(group, self._epoch[slots], self._start[slots], last, slots, unchanged)])

    # ------------------------------------------------------------------------------------------- rounds

    def begin(self) -> None:
        """What happens from here on can be undone."""
        self._undo = (self._free, self._n_slots)

    def take_slots(self, n: int) -> Ints:
        n_free = min(n, len(self._free))
        taken = self._free[len(self._free) - n_free :]
        self._free = self._free[: len(self._free) - n_free]
        taken = np.concatenate([taken, np.arange(self._n_slots, self._n_slots + n - n_free)])
        self._n_slots += n - n_free
        return taken

    def index(self, changed: Pieces, unused: Ints) -> None:
        """Find pieces where they are now, and others nowhere."""
        self.groups.put(changed.slot, changed.group)
        self.calendar.put(changed.slot, changed.last)
        self._unindex(unused)

    def commit(self, changed: Pieces, states: CallStates, gone: Ints) -> None:
        """Keep pieces that changed, with their states, and free the slots of others."""
        self._lengthen()
        self.states.copy(changed.slot, states, changed.changed)
        self._epoch[changed.slot], self._start[changed.slot] = changed.epoch, changed.start
        self.keys.commit()
        self.free(gone)

    def rollback(self) -> None:
        for part in (self.keys, self.groups, self.calendar):
            part.rollback()
        self._free, self._n_slots = self._undo

    def _lengthen(self) -> None:
        self.states.resize(self._n_slots)
        self._epoch, self._start = (_longer(each, self._n_slots) for each in (self._epoch, self._start))

    def _unindex(self, slots: Ints) -> None:
        self.groups.remove(slots)
        self.calendar.remove(slots)

    # ------------------------------------------------------------------------------------------- between rounds

    def free(self, slots: Ints) -> None:
        """Take out the pieces in these slots, and keys that have none left."""
        groups = np.unique(self.groups.numbers(slots))
        groups = groups[groups != NO_TIME]
        self._unindex(slots)
        self.groups.commit()
        self.calendar.commit()
        self.states.clear(slots)
        self._free = np.concatenate([self._free, slots])
        self.keys.remove(np.setdiff1d(groups, self.groups.numbers(self.slots_of(groups))))

    def set_epochs(self, slots: Ints, epochs: Ints) -> None:
        self._epoch[slots] = epochs

    def join(self, pieces: Pieces, number: Ints, first: Ints) -> None:
        """Pieces with one number become one, in the slot of the first of them."""
        into = pieces.slot[first]
        states = self.states.like(len(first))
        states.merge(number, self.states, pieces.slot)
        self.states.copy(into, states, np.arange(len(first)))
        self.calendar.put(into, np.maximum.reduceat(pieces.last, first))
        self.free(np.setdiff1d(pieces.slot, into))

    # ------------------------------------------------------------------------------------------- storage

    def saved(self, slots: Ints, pieces: Pieces, states: CallStates) -> pa.RecordBatch:
        """These pieces, with states of their own, as the content of slots; GONE for slots that have none of them."""
        gone = np.setdiff1d(slots, pieces.slot)
        numbers = {_SLOT: pieces.slot, _EPOCH: pieces.epoch, _START: pieces.start, _LAST: pieces.last}
        columns = {name: pa.array(column) for name, column in numbers.items()}
        columns |= _named(self.keys.columns(pieces.group)) | _named(states.to_batch(np.arange(len(pieces))))
        columns[GONE] = pa.repeat(False, len(pieces))
        left = {_SLOT: pa.array(gone), GONE: pa.repeat(True, len(gone))}
        return _one_batch([pa.table(columns), pa.table(left)])

    def load(self, saved: Sequence[pa.RecordBatch]) -> None:
        """Take up what was saved, the oldest first, in place of nothing."""
        batch = _one_batch([pa.table(each) for each in saved])
        slots = batch[_SLOT].to_numpy()
        _, from_behind = np.unique(slots[::-1], return_index=True)
        newest = len(slots) - 1 - from_behind
        live = newest[~np.asarray(batch[GONE])[newest]]
        batch, slots = batch.take(pa.array(live)), slots[live]
        self._n_slots = int(slots.max(initial=-1)) + 1
        self._free = np.setdiff1d(np.arange(self._n_slots), slots)
        self._lengthen()
        self.states.load(slots, batch)
        self._epoch[slots], self._start[slots] = batch[_EPOCH].to_numpy(), batch[_START].to_numpy()
        self.groups.put(slots, self.keys.number(batch))
        self.calendar.put(slots, batch[_LAST].to_numpy())
        for part in (self.keys, self.groups, self.calendar):
            part.commit()

    # ------------------------------------------------------------------------------------------- for explain and tests

    @property
    def nbytes(self) -> int:
        parts = (self.keys, self.states, self.groups, self.calendar, self._epoch, self._start)
        return sum(part.nbytes for part in parts)

    def check(self) -> None:
        """Assert the invariants, between rounds."""
        for part in (self.keys, self.states, self.groups, self.calendar):
            part.check()
        slots = np.sort(np.concatenate([self.groups.items, self._free]))
        assert np.array_equal(slots, np.arange(self._n_slots)), "a slot is neither free nor in use"
        groups = np.unique(self.groups.numbers(self.groups.items))
        assert np.array_equal(groups, self.keys.table.live), "a key without pieces"
        n_rows = self.states.n_rows(self._free)
        assert not n_rows.any(), "a free slot has rows"
        assert NO_TIME not in groups


def _longer(array: Ints, n: int) -> Ints:
    if len(array) >= n:
        return array
    longer = np.zeros(max(n, 2 * len(array)), np.int64)
    longer[: len(array)] = array
    return longer


def _named(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _one_batch(tables: Sequence[pa.Table]) -> pa.RecordBatch:
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
