"""Windows over time: all specifications of a class share slices, and a window is combined from the slices in it.

A row goes into one slice of the newest epoch. Windows whose slices a round touches are combined as they were and as they are; a
window that closes is combined by two stacks (closing.py). Slices leave when the last window that holds them has closed.

Over tables rows come and go, all queries see all rows, nothing is late and nothing closes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.aggregates.changes import (
    Side,
    WindowPlaces,
    answer,
    entries_once,
    entry_changes,
    side,
    value_names,
)
from eddyline.aggregates.closing import ClosedWindow, ClosingWindows, KeySlices
from eddyline.aggregates.entries import TABLE_EPOCH, Entries
from eddyline.aggregates.partials import PartialRows, folded, merged_lines
from eddyline.aggregates.read_windows import ReadWindows, WindowOfEpoch
from eddyline.aggregates.rows import ClassRows, EntryChanges, Ints, Mask
from eddyline.aggregates.slice_store import SliceStore
from eddyline.aggregates.slices import SliceOrder, slice_starts, windows_of
from eddyline.aggregates.structure import Reader, RoundTime
from eddyline.model import CLOSED, NO_TIME, AggregateCall, Aggregation, TimeWindow

_NONE: Ints = np.empty(0, np.int64)


class SlicedWindows:
    """The windows of one class of rows."""

    def __init__(self, keys: pa.Schema, *, reads_table: bool = False) -> None:
        self._slices = SliceStore(keys, is_signed=reads_table)
        self._reads_table = reads_table
        self._read = ReadWindows((), reads_table=reads_table)
        self._closing: dict[WindowOfEpoch, ClosingWindows] = {}
        self._closed_us = NO_TIME  # windows that end then or before are closed
        self._n_rows = 0  # so far
        self._begin(NO_TIME)

    @property
    def _entries(self) -> Entries:
        return self._slices.entries

    @property
    def _order(self) -> SliceOrder:
        return self._slices.order

    def _begin(self, after_us: int) -> None:
        self._after_us = after_us  # the watermark as it will stand after the running round
        self._committed_us = self._closed_us  # what `_closed_us` was before it
        self._counted = self._n_rows, self._slices.n_updates, self._slices.n_combines  # and what was counted

    # ------------------------------------------------------------------------------------------- readers

    def build(self, readers: Sequence[Reader]) -> None:
        """Adopt the readers of a version, between rounds. State that none of them reads goes."""
        calls = [call for reader in readers for call in reader.calls]
        is_new = self._reads_table and set(calls) - self._entries.states.calls and len(self._entries.live)
        assert not is_new, "over a table, calls that are new need a structure that all its rows are pushed to"
        self._entries.set_calls(calls)
        self._closing.clear()
        before, self._read = self._read, ReadWindows(readers, reads_table=self._reads_table)
        if not np.isin(before.epochs, self._read.epochs).all() or before.oldest - self._read.oldest:
            self._drop_unread()

    def _drop_unread(self) -> None:
        """Merge slices of epochs that none reads into older ones; slices that are in no open window any more leave."""
        entries = self._entries
        if len(self._read.epochs):
            entries.fold_epochs(self._read.epochs, entries.live)
        else:
            entries.drop(entries.live)
        self._slices.list_anew()
        past = self._past(entries.live, self._closed_us)
        if len(past):
            entries.drop(past)
            self._slices.list_anew()

    def _past(self, slices: Ints, watermark_us: int) -> Ints:
        """Which of these are in no window that this watermark leaves open."""
        if self._reads_table or watermark_us == NO_TIME:
            return _NONE
        start, epoch = self._order.start[slices], self._order.epoch[slices]
        is_past = np.zeros(len(slices), dtype=bool)
        for number in np.unique(epoch).tolist():
            is_past |= (epoch == number) & (start < self._read.first_open(watermark_us, number))
        return slices[is_past]

    # ------------------------------------------------------------------------------------------- rounds

    def beyond(self, rows: ClassRows, now_us: int, most_groups: int) -> Mask:
        """Which rows would begin a group when there are so many; those without a window begin none."""
        found = (rows.windowed_us != NO_TIME) & ~rows.is_late
        found[found] = self._entries.keys.beyond(rows.columns.filter(pa.array(found)), most_groups)
        return found

    def partial(self, rows: ClassRows) -> PartialRows:
        rows = rows.take(np.flatnonzero((rows.windowed_us != NO_TIME) & ~rows.is_late))
        starts = slice_starts(rows.windowed_us, self._read.edges)
        return folded(rows, self._entries.keys.schema, starts, self._entries.states)

    def merge(self, parts: Sequence[tuple[pa.RecordBatch, int]], epoch: int) -> PartialRows:
        return merged_lines(parts, self._entries.keys.schema, epoch, self._entries.states)

    def push(self, rows: ClassRows, time: RoundTime) -> Iterator[tuple[Aggregation, EntryChanges]]:
        """The net changes of a round, once for each round, also without rows; all of it must be taken."""
        self._begin(NO_TIME if time.after_us is None else time.after_us)
        if not len(self._read.epochs):
            return
        if time.before_us is not None:
            self._closed_us = max(self._closed_us, time.before_us)
        self._feed(rows)
        for (window, epoch), readers in self._read.changing.items():
            yield from self._changes(window, epoch, readers)
        if self._reads_table:
            n_rows = self._entries.scratch.n_rows(np.arange(len(self._entries.touched)))
            self._entries.remove(self._entries.touched[n_rows == 0])
        elif self._after_us != NO_TIME:
            for window_of_epoch, last_us in self._read.closing(self._closed_us, self._after_us):
                yield from self._closed(window_of_epoch, last_us)
            self._expire()

    def _feed(self, rows: ClassRows) -> None:
        """Take rows into their slices: those that have a time and are not late."""
        takes_part = rows.windowed_us != NO_TIME
        if not self._reads_table:
            takes_part &= ~rows.is_late & (rows.epoch >= self._read.epochs[0])
        rows = rows.take(np.flatnonzero(takes_part))
        place = np.searchsorted(self._read.epochs, rows.epoch, side="right") - 1
        starts = slice_starts(rows.windowed_us, self._read.edges)
        self._slices.feed(rows, starts, self._read.epochs[np.maximum(place, 0)])
        self._n_rows += rows.n_rows

    def _changes(
        self, window: TimeWindow, epoch: int, readers: Sequence[Reader]
    ) -> Iterator[tuple[Aggregation, EntryChanges]]:
        """The windows whose slices the round touched, as they were and as they are."""
        if not len(self._entries.touched):
            return
        touched = self._entries.touched
        touched = touched[self._order.epoch[touched] >= epoch]
        anchors, at = self._slices.windows_at(touched, window)
        before, after = self._slices.combined(anchors, at, epoch, window, (False, True))
        for reader in readers:
            sides = side(before, reader.calls), side(after, reader.calls)
            changes = entry_changes(epoch, self._entries.keys, at, *sides)
            if changes is not None:
                for number in reader.epochs if self._reads_table else (epoch,):
                    yield reader.aggregation, replace(changes, epoch=number)

    def _expire(self) -> None:
        """Slices leave that are in no open window any more."""
        last = max(self._read.first_open(self._after_us, epoch) for epoch in self._read.epochs.tolist())
        if not self._order.begins_before(last) and not (self._order.start[self._slices.new] < last).any():
            return
        older = self._slices.between(NO_TIME, last, NO_TIME)
        self._entries.remove(self._past(older, self._after_us))

    def commit(self) -> None:
        """Keep what the round did."""
        self._slices.commit()
        self._closed_us = max(self._closed_us, self._after_us)
        self._begin(NO_TIME)

    def rollback(self) -> None:
        """Forget it."""
        self._slices.rollback()
        self._closed_us = self._committed_us
        self._n_rows, self._slices.n_updates, self._slices.n_combines = self._counted
        self._closing.clear()
        self._begin(NO_TIME)

    def next_deadline(self) -> int | None:
        """None: windows close by watermarks."""
        return None

    # ------------------------------------------------------------------------------------------- closing

    def _closed(
        self, window_of_epoch: WindowOfEpoch, last_us: int
    ) -> Iterator[tuple[Aggregation, EntryChanges]]:
        """The windows that the round closes: all there is of final ones, and the last of those that have changed before."""
        closed = list(self._close(window_of_epoch, last_us))
        if not closed:
            return
        window, epoch = window_of_epoch
        ends = np.repeat([c.end_us for c in closed], [len(c.key) for c in closed])
        at = WindowPlaces(np.concatenate([c.key for c in closed]), ends - window.size_us, ends)
        for reader in self._read.by_window[window_of_epoch]:
            is_final = reader.aggregation.is_final
            reason = "" if is_final else CLOSED
            values = _joined([side(c.states, reader.calls) for c in closed], reader.calls)
            changes = entries_once(epoch, self._entries.keys, at, values, is_after=is_final, reason=reason)
            if changes is not None:
                yield reader.aggregation, changes

    def _close(self, window_of_epoch: WindowOfEpoch, last_us: int) -> Iterator[ClosedWindow]:
        window, epoch = window_of_epoch
        ends = self._ends(window, epoch, last_us)
        stacks = self._closing.get(window_of_epoch)
        if stacks is None:
            stacks = self._closing[window_of_epoch] = ClosingWindows(window, self._entries.states)

        def fetch(low_us: int, high_us: int) -> KeySlices:
            return self._slices.by_key(self._slices.between(low_us, high_us, epoch), is_after=True)

        n_before = stacks.n_combines
        for end_us in ends:
            yield stacks.close(end_us, fetch)
        self._slices.n_combines += stacks.n_combines - n_before

    def _ends(self, window: TimeWindow, epoch: int, last_us: int) -> list[int]:
        """Where the windows end that the round closes and that have slices, ascending."""
        low_us = self._closed_us - window.size_us if self._closed_us != NO_TIME else NO_TIME
        slices = self._slices.between(low_us, last_us, epoch)
        _, starts = windows_of(np.unique(self._order.start[slices]), window)
        ends = np.unique(starts + window.size_us)
        return [int(end) for end in ends[(ends > self._closed_us) & (ends <= last_us)]]

    # ------------------------------------------------------------------------------------------- answers, storage

    def current(self, aggregation: Aggregation, epoch: int) -> pa.RecordBatch:
        """All windows that were open before the running round, as the queries of an epoch see them after its `push`."""
        reader = next(reader for reader in self._read.readers if reader.aggregation == aggregation)
        window, live = aggregation.window, self._entries.live
        assert isinstance(window, TimeWindow)
        own = TABLE_EPOCH if self._reads_table else epoch
        anchors, at = self._slices.windows_at(live[self._order.epoch[live] >= own], window)
        is_open = np.flatnonzero(at.end_us > (NO_TIME if self._reads_table else self._closed_us))
        anchors, at = anchors[is_open], at.take(is_open)
        (states,) = self._slices.combined(anchors, at, own, window, (True,))
        return answer(self._entries.keys, at, side(states, reader.calls))

    def save(self) -> pa.RecordBatch | None:
        """The entries that the running round changes, each whole, with GONE where one leaves; None: it changes nothing."""
        saved = self._entries.save()
        return None if saved is None else saved[1]

    def whole(self) -> pa.RecordBatch | None:
        """All entries, as `save` would give them."""
        live = np.setdiff1d(self._entries.live, self._entries.gone)
        return self._entries.batch(live, is_after=True) if len(live) else None

    def load(self, saved: Sequence[pa.RecordBatch]) -> None:
        """Entries as they were saved, the oldest first: of each the newest counts. Readers are known."""
        for batch in saved:
            self._entries.load(batch)
        self._drop_unread()

    # ------------------------------------------------------------------------------------------- for explain and tests

    @property
    def nbytes(self) -> int:
        return self._slices.nbytes + sum(stacks.nbytes for stacks in self._closing.values())

    def snapshot(self) -> dict[str, Any]:
        """Numbers for explain, and the work so far."""
        return {
            "groups": len(self._entries.keys),
            "slices": len(self._entries.table),
            "bytes": self.nbytes,
            "rows": self._n_rows,
            "updates": self._slices.n_updates,
            "combines": self._slices.n_combines,
        }

    def check(self) -> None:
        """Assert the invariants, between rounds."""
        self._slices.check()
        live = self._entries.live
        assert np.isin(self._order.epoch[live], self._read.epochs).all(), "an epoch is not read"
        past = self._past(live, self._closed_us)
        assert not len(past), f"slices that no open window holds: {self._order.start[past]}"


def _joined(sides: Sequence[Side], calls: Sequence[AggregateCall]) -> Side:
    """One behind the other."""
    values = {name: pa.concat_arrays([s.values[name] for s in sides]) for name in value_names(calls)}
    return Side(values, np.concatenate([s.is_there for s in sides]))
