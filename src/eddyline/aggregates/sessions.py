"""Sessions of groups: rows at most a gap apart, for all gaps and all epochs of a class over one list of pieces per group.

Per group and epoch there is a list of pieces that were cut at the smallest gap; pieces.py says how sessions of larger gaps, and
of older queries, are runs of them. A round cuts its rows, sorted by group and time, into pieces, and joins these with the pieces
of the groups it touches: a join leaves one piece less, so there are never more of them than rows. Sessions of a reader change
where they hold a piece that the round changed. A calendar of pieces by their last row says which groups to visit when the
watermark goes on: a session is closed when the watermark is above its end, and pieces go when the session of the largest gap
that the oldest queries see is closed.

Invariants: pieces of a group and epoch are more than the smallest gap apart; no piece is in a session that is closed for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.aggregates.call_states import CallStates
from eddyline.aggregates.changes import Side, answer, entries_once, value_names
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.partials import PartialRows, folded_lines, merged_lines
from eddyline.aggregates.pieces import (
    UNCHANGED,
    Pieces,
    SessionList,
    chained,
    firsts,
    joined_pieces,
    ordered_codes,
    segments,
    sessions_of,
)
from eddyline.aggregates.rows import ClassRows, EntryChanges, Ints, Mask
from eddyline.aggregates.session_changes import SessionRows, session_changes
from eddyline.aggregates.stored_pieces import StoredPieces
from eddyline.aggregates.structure import Reader, RoundTime
from eddyline.model import CLOSED, NO_TIME, Aggregation, SessionWindow

_NOTHING = np.empty(0, np.int64)
_NO_PIECES = Pieces(*(_NOTHING for _ in range(6)))


@dataclass(slots=True)
class _SessionRound:
    """What the running round does to pieces."""

    time: RoundTime
    states: CallStates  # of the pieces that it changes
    groups: Ints = field(default_factory=_NOTHING.copy)  # that its rows touch, ascending
    before: Pieces = _NO_PIECES  # of these groups
    after: Pieces = _NO_PIECES
    unused: Ints = field(default_factory=_NOTHING.copy)  # slots of pieces that were joined to others
    closed: Ints = field(default_factory=_NOTHING.copy)  # slots of pieces that no reader needs any more

    @property
    def changed(self) -> Pieces:
        return self.after.take(self.after.changed != UNCHANGED)


class Sessions:
    """The structure of all session windows over a class."""

    def __init__(self, keys: pa.Schema) -> None:
        self.n_merges = 0  # of a piece with another one, over all rounds
        self._readers: tuple[Reader, ...] = ()
        self._epochs = _NOTHING  # with live queries, ascending
        self._gaps: list[int] = []  # of live readers, ascending
        self._stored = StoredPieces(keys)
        self._unsaved = _NOTHING  # slots that changed without a round
        self._watermark_us: int | None = None  # as it stood after the last round
        self._round: _SessionRound | None = None
        self._n_merges_before = 0

    # ------------------------------------------------------------------------------------------- readers

    def build(self, readers: Sequence[Reader]) -> None:
        """Adopt the readers of a version; pieces of epochs that lost theirs join those of the next older one."""
        self._readers = tuple(readers)
        self._epochs = np.array(sorted({e for reader in readers for e in reader.epochs}), np.int64)
        self._gaps = sorted({_gap(reader.aggregation) for reader in readers})
        calls = [call for reader in readers for call in reader.calls]
        self._stored.build(calls, [gap + 1 for gap in self._gaps])
        self._settle()

    def _settle(self) -> None:
        """Make pieces what they would be if only the present readers had ever been there."""
        pieces = self._stored.all()
        epoch_at = np.searchsorted(self._epochs, pieces.epoch, side="right") - 1
        unread, is_read = pieces.slot[epoch_at < 0], epoch_at >= 0
        pieces, epochs = pieces.take(is_read), self._epochs[epoch_at[is_read]]
        moved = pieces.slot[epochs != pieces.epoch]
        self._stored.set_epochs(pieces.slot, epochs)
        self._stored.free(unread)
        joined = self._join_stored()
        closed = self._closed(self._stored.all(), self._watermark_us)
        self._stored.free(closed)
        self._unsaved = np.unique(np.concatenate([self._unsaved, unread, moved, joined, closed]))

    def _join_stored(self) -> Ints:
        """Join stored pieces of one group and epoch that are not more than the smallest gap apart; all slots of these."""
        pieces = self._stored.all()
        if not len(pieces):
            return _NOTHING
        number = self._chains(pieces)
        several = np.flatnonzero(np.bincount(number)[number] > 1)
        pieces, number = pieces.take(several), segments(number[several])
        if len(pieces):
            self._stored.join(pieces, number, firsts(number))
        return pieces.slot

    def _chains(self, pieces: Pieces) -> Ints:
        return chained(segments(pieces.group, pieces.epoch), pieces.start, pieces.last, self._gaps[0])

    # ------------------------------------------------------------------------------------------- rounds

    def beyond(self, rows: ClassRows, now_us: int, most_groups: int) -> Mask:
        """Which rows would begin a group when there are so many; those without a session begin none."""
        found = (rows.time_us != NO_TIME) & ~rows.is_late
        found[found] = self._stored.keys.beyond(rows.columns.filter(pa.array(found)), most_groups)
        return found

    def partial(self, rows: ClassRows) -> PartialRows:
        """Pieces that are cut at the smallest gap."""
        rows = rows.take(np.flatnonzero(~rows.is_late & (rows.time_us != NO_TIME)))
        numbers = Keys(self._stored.keys.schema)
        rows, group, piece = self._cut(rows, numbers.number(rows.columns))
        first = firsts(piece)
        ends = np.maximum.reduceat(rows.last_us, first) if len(first) else _NOTHING
        keys = numbers.columns(group[first])
        return folded_lines(rows, piece, keys, rows.time_us[first], ends, self._stored.states)

    def _cut(self, rows: ClassRows, group: Ints) -> tuple[ClassRows, Ints, Ints]:
        """Rows by group, epoch and time, with their groups, and the piece of each."""
        order = np.lexsort((rows.arrival, rows.time_us, rows.epoch, group))
        rows, group = rows.take(order), group[order]
        segment = segments(group, rows.epoch)
        return rows, group, chained(segment, rows.time_us, rows.last_us, self._gaps[0])

    def merge(self, parts: Sequence[tuple[pa.RecordBatch, int]], epoch: int) -> PartialRows:
        return merged_lines(parts, self._stored.keys.schema, epoch, self._stored.states)

    def push(self, rows: ClassRows, time: RoundTime) -> Iterator[tuple[Aggregation, EntryChanges]]:
        """The net changes of a round: of sessions its rows changed, then of those that the watermark closes."""
        self._stored.begin()
        self._n_merges_before = self.n_merges
        held = self._round = _SessionRound(time, self._stored.states.like(0))
        self._take(rows, held)
        for reader in self._readers:
            if not reader.aggregation.is_final and len(held.groups):
                yield from self._changes(reader, held)
        if time.after_us is not None:
            yield from self._closings(held, time.after_us)

    def _take(self, rows: ClassRows, held: _SessionRound) -> None:
        """Cut the rows that take part into pieces, and join these with the pieces of their groups."""
        epoch_at = np.searchsorted(self._epochs, rows.epoch, side="right") - 1
        part = np.flatnonzero(~rows.is_late & (rows.time_us != NO_TIME) & (epoch_at >= 0))
        if not len(part):
            return
        rows, epoch = rows.take(part), self._epochs[epoch_at[part]]
        rows = replace(rows, epoch=epoch)
        rows, group, piece = self._cut(rows, self._stored.keys.number(rows.columns))
        first = firsts(piece)
        starts, last = rows.time_us[first], np.maximum.reduceat(rows.last_us, first)
        numbers = np.arange(len(first))
        new = Pieces(group[first], rows.epoch[first], starts, last, np.full(len(first), -1), numbers)
        held.groups = np.unique(group)
        held.before = self._stored.of(held.groups)
        joined = self._join(new, held)
        rows.add_to(held.states, joined[piece])
        self._stored.index(held.changed, held.unused)

    def _join(self, new: Pieces, held: _SessionRound) -> Ints:
        """Join new pieces with those before, whose states alone are taken up; the number of each among the changed ones."""
        both = joined_pieces([held.before, new])
        chain = self._chains(both)
        first, is_new = firsts(chain), both.changed != UNCHANGED
        self.n_merges += len(both) - len(first)
        holds_new = np.zeros(len(first), dtype=bool)
        holds_new[chain[is_new]] = True
        changed = np.where(holds_new, np.cumsum(holds_new) - 1, UNCHANGED)
        slot = np.full(len(first), UNCHANGED)
        slot[chain[~is_new][::-1]] = both.slot[~is_new][::-1]  # that of the first
        slot[slot == UNCHANGED] = self._stored.take_slots(int((slot == UNCHANGED).sum()))
        last = np.maximum.reduceat(both.last, first)
        held.after = Pieces(both.group[first], both.epoch[first], both.start[first], last, slot, changed)
        held.states.resize(int(holds_new.sum()))
        old = np.flatnonzero(~is_new & holds_new[chain])
        held.states.merge(changed[chain[old]], self._stored.states, both.slot[old])
        held.unused = both.slot[old[slot[chain[old]] != both.slot[old]]]
        joined = np.empty(len(new), np.int64)
        joined[both.changed[is_new]] = changed[chain[is_new]]
        return joined

    def _changes(self, reader: Reader, held: _SessionRound) -> Iterator[tuple[Aggregation, EntryChanges]]:
        """Sessions that hold a changed piece, and those before the round that are in them now."""
        gap = _gap(reader.aggregation)
        for epoch in reader.epochs:
            before, after = sessions_of(held.before, epoch, gap), sessions_of(held.after, epoch, gap)
            was, now = _identities(before, after)
            is_changed = after.holds(after.pieces.changed != UNCHANGED)
            in_changed = is_changed[np.searchsorted(now, was, side="right") - 1]
            old = self._rows(reader, before.take(in_changed), was[in_changed])
            new = self._rows(reader, after.take(is_changed), now[is_changed])
            changes = session_changes(epoch, self._stored.keys, old, new)
            if changes is not None:
                yield reader.aggregation, changes

    def _closings(self, held: _SessionRound, after_us: int) -> Iterator[tuple[Aggregation, EntryChanges]]:
        """Sessions that close now: the rows of final ones, and the last rows of the others."""
        before_us = held.time.before_us if self._watermark_us is None else self._watermark_us
        passed = self._stored.calendar.pass_time(self._watermark_us, after_us)  # all, after a restart
        if not len(passed):
            return
        pieces = self._pieces(np.unique(self._stored.groups.numbers(passed)))
        for reader in self._readers:
            for epoch in reader.epochs:
                sessions = sessions_of(pieces, epoch, _gap(reader.aggregation))
                is_open = (
                    np.ones(len(sessions), dtype=bool) if before_us is None else sessions.end >= before_us
                )
                closing = sessions.take(is_open & (sessions.end < after_us))
                rows, is_final = self._rows(reader, closing), reader.aggregation.is_final
                reason = "" if is_final else CLOSED
                changes = entries_once(
                    epoch, self._stored.keys, rows.at, _all(rows), is_after=is_final, reason=reason
                )
                if changes is not None:
                    yield reader.aggregation, changes
        held.closed = self._closed(pieces, after_us)

    def _closed(self, pieces: Pieces, watermark_us: int | None) -> Ints:
        """Slots of pieces in sessions that are closed for all: those of the largest gap that the oldest queries see."""
        if watermark_us is None or not self._gaps:
            return _NOTHING
        sessions = sessions_of(pieces, int(self._epochs[0]), self._gaps[-1])
        return sessions.pieces.slot[(sessions.end < watermark_us)[sessions.number]]

    def current(self, aggregation: Aggregation, epoch: int) -> pa.RecordBatch:
        """All sessions that were not closed before the running round."""
        reader = next(each for each in self._readers if each.aggregation == aggregation)
        sessions = sessions_of(self._pieces(self._stored.keys.table.live), epoch, _gap(aggregation))
        before_us = self._watermark_us if self._round is None else self._round.time.before_us
        if before_us is not None:
            sessions = sessions.take(sessions.end >= before_us)
        rows = self._rows(reader, sessions)
        return answer(self._stored.keys, rows.at, _all(rows))

    def next_deadline(self) -> int | None:
        """None: watermarks move with rows."""
        return None

    def commit(self) -> None:
        held = self._round
        assert held is not None, "no round is running"
        self._stored.commit(held.changed, held.states, np.concatenate([held.unused, held.closed]))
        if held.time.after_us is not None:
            self._watermark_us = held.time.after_us
        self._round, self._unsaved = None, _NOTHING

    def rollback(self) -> None:
        if self._round is not None:
            self._stored.rollback()
            self._round, self.n_merges = None, self._n_merges_before

    # ------------------------------------------------------------------------------------------- values

    def _pieces(self, groups: Ints) -> Pieces:
        """The pieces of these groups as they are in the running round."""
        held = self._round
        if held is None:
            return self._stored.of(groups)
        mine = held.after.take(np.isin(held.after.group, groups))
        return joined_pieces([self._stored.of(np.setdiff1d(groups, held.groups)), mine])

    def _rows(self, reader: Reader, sessions: SessionList, identity: Ints = _NOTHING) -> SessionRows:
        values = self._values(sessions)
        mine = {name: values[name] for name in value_names(reader.calls)}
        return SessionRows(identity, sessions.group, sessions.start, sessions.end, mine)

    def _values(self, sessions: SessionList) -> Mapping[str, pa.Array]:
        """Of a session of several pieces their states are merged."""
        pieces = sessions.pieces
        if len(pieces) == len(sessions):
            if (pieces.changed == UNCHANGED).all():
                return self._stored.states.values(pieces.slot)
            if self._round is not None and (pieces.changed != UNCHANGED).all():
                return self._round.states.values(pieces.changed)
        return self._merged(pieces, sessions.number, len(sessions)).values(np.arange(len(sessions)))

    def _merged(self, pieces: Pieces, number: Ints, n: int) -> CallStates:
        """The states of pieces by a number each; those that the round changes come behind the others."""
        states = self._stored.states.like(n)
        is_changed = pieces.changed != UNCHANGED
        states.merge(number[~is_changed], self._stored.states, pieces.slot[~is_changed])
        if self._round is not None:
            states.merge(number[is_changed], self._round.states, pieces.changed[is_changed])
        return states

    # ------------------------------------------------------------------------------------------- storage

    def save(self) -> pa.RecordBatch | None:
        held = self._round
        assert held is not None, "no round is running"
        slots = np.concatenate([held.changed.slot, held.unused, held.closed, self._unsaved])
        return self._saved(np.unique(slots)) if len(slots) else None

    def whole(self) -> pa.RecordBatch | None:
        slots = self._stored.groups.items
        return self._saved(slots) if len(slots) else None

    def _saved(self, slots: Ints) -> pa.RecordBatch:
        """These slots as they are with the running round."""
        groups = np.unique(self._stored.groups.numbers(slots))
        pieces = self._pieces(groups[groups != NO_TIME])
        closed = _NOTHING if self._round is None else self._round.closed
        pieces = pieces.take(np.isin(pieces.slot, np.setdiff1d(slots, closed)))
        states = self._merged(pieces, np.arange(len(pieces)), len(pieces))
        return self._stored.saved(slots, pieces, states)

    def load(self, saved: Sequence[pa.RecordBatch]) -> None:
        """Pieces as they were saved; `build` has named the readers."""
        if saved:
            self._stored.load(saved)
            self._settle()

    # ------------------------------------------------------------------------------------------- for explain and tests

    @property
    def nbytes(self) -> int:
        return self._stored.nbytes

    def snapshot(self) -> dict[str, Any]:
        return {"groups": len(self._stored.keys), "entries": len(self._stored), "bytes": self.nbytes}

    def check(self) -> None:
        """Assert the invariants, between rounds."""
        self._stored.check()
        pieces = self._stored.all()
        if len(pieces):
            number = segments(pieces.group, pieces.epoch)
            apart = (pieces.start[1:] - pieces.last[:-1])[number[1:] == number[:-1]]
            assert (apart > self._gaps[0]).all(), f"pieces are {apart.min()} apart"
            assert np.isin(pieces.epoch, self._epochs).all(), "a piece of an epoch that no query reads"
            assert not len(self._closed(pieces, self._watermark_us)), "a piece of a session that is closed"


def _all(rows: SessionRows) -> Side:
    return Side(rows.values, np.ones(len(rows), dtype=bool))


def _gap(aggregation: Aggregation) -> int:
    assert isinstance(aggregation.window, SessionWindow), f"{aggregation.name} has no session window"
    return aggregation.window.gap_us


def _identities(before: SessionList, after: SessionList) -> tuple[Ints, Ints]:
    """Numbers for group and start, ascending with them."""
    group = np.concatenate([before.group, after.group])
    start = np.concatenate([before.start, after.start])
    number = ordered_codes(group, start)
    return number[: len(before)], number[len(before) :]
