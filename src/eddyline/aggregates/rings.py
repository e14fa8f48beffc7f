"""Rings of rows by partition, sorted by (time, arrival), in arrays that all of them share.

A ring has a run of places with room behind it. Rows that come in order are written there; a ring without room, or with rows that
come before others, is written anew in other room (rooms.py), of which a third is left. The old places stay as they are until the
round commits, so a rollback only forgets where the new ones are. When rings use little of what there is, all of them are copied
together. What can be asked of a run of places is said in kernels/over_rings.py.

    begin      first place of a ring's room, which has 2**exponent places
    at         first place with a row; at - 1 belongs to the ring as well
    n_pinned   rows at its beginning that only winners over unbounded frames still need

Invariant: rings do not overlap, times never fall within a ring, prefix columns and nodes are those of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.aggregates.over_lanes import Floats, Layout, RowColumns
from eddyline.aggregates.rooms import Rooms
from eddyline.aggregates.rows import Ints, Mask
from eddyline.kernels import EPOCH, NOTHING, append_rows, build_nodes, merge_rows

MARGIN = 1.5  # room, in terms of rows
LEAST_PLACES = 64
MOST_UNUSED = 6  # places for each row and ring


@dataclass(frozen=True, slots=True)
class TouchedRings:
    """Rings that the rows of a round go to, as they are with them. Rows are sorted by ring, then arrival."""

    rings: Ints
    run: Ints  # rows run[r]:run[r + 1] go to the r-th
    at: Ints
    n: Ints
    begin: Ints
    exponent: Ints
    moves: Mask  # they are in new room
    is_mixed: Mask  # epochs fall somewhere
    is_disordered: Mask  # rows of this round come before others
    places: Ints  # by row

    @property
    def ring_of_row(self) -> Ints:
        """Which of these rings each row goes to."""
        return np.repeat(np.arange(len(self.rings)), np.diff(self.run))


class Rings:
    """All rings of a class."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._set_places(LEAST_PLACES)
        self._set_rings(0)
        self.n_pinned = np.zeros(0, np.int64)
        self._touched: TouchedRings | None = None
        self.n_moved = 0  # rows that were written anew, since it began

    def _set_places(self, n: int) -> None:
        self.time = np.zeros(n, np.int64)
        self.ints = np.zeros((n, self.layout.n_ints), np.int64)
        self.floats: Floats = np.zeros((n, self.layout.n_floats))
        self.is_off = np.zeros(n, dtype=bool)

    def _set_rings(self, n: int) -> None:
        """So many rings without rows and without room."""
        self._rooms = Rooms()
        self.n_rows = self._n_held = 0  # rows, and rings that have some
        self.n, self._begin, self._exponent = (np.zeros(n, np.int64) for _ in range(3))
        self.at = np.ones(n, np.int64)
        self.is_mixed = np.zeros(n, dtype=bool)

    @property
    def nbytes(self) -> int:
        arrays: tuple[npt.NDArray[np.generic], ...] = (
            self.time, self.ints, self.floats, self.is_off,
            self.at, self.n, self._begin, self._exponent, self.n_pinned, self.is_mixed,
        )  # fmt: skip
        return sum(array.nbytes for array in arrays)

    def resize(self, n_rings: int) -> None:
        """More rings, which are empty."""
        if n_rings > len(self.at):
            n = max(n_rings, 2 * len(self.at)) - len(self.at)
            for name in ("at", "n", "_begin", "_exponent", "n_pinned", "is_mixed"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.full(n, name == "at", array.dtype)]))

    # ------------------------------------------------------------------------------------------- rounds

    def push(self, ring: Ints, time: Ints, rows: RowColumns) -> TouchedRings:
        """Put rows into their rings; they are sorted by ring, then arrival."""
        first = np.flatnonzero(np.append(True, ring[1:] != ring[:-1]))[: len(ring)]
        run = np.append(first, len(ring))
        rings, n_new = ring[first], np.diff(run)
        at, n_old, begin, exponent = self.at[rings], self.n[rings], self._begin[rings], self._exponent[rings]
        n = n_old + n_new
        falls = np.append(False, time[1:] < time[:-1])[: len(ring)]
        falls[first] = (n_old > 0) & (time[first] < self.time[at + n_old - 1])
        is_disordered = np.add.reduceat(falls, first) > 0 if len(first) else np.zeros(0, dtype=bool)
        moves = is_disordered | (at + n > begin + (1 << exponent))
        place = np.repeat(at + n_old - first, n_new) + np.arange(len(ring))
        place[np.repeat(moves, n_new)] = NOTHING
        starts = np.repeat(at, n_new)
        exponent[moves] = np.ceil(np.log2(MARGIN * n[moves] + 2)).astype(np.int64)
        begin[moves] = self._rooms.take(exponent[moves])
        at[moves] = begin[moves] + 1
        self._grow(self._rooms.end)
        touched = TouchedRings(
            rings, run, at, n, begin, exponent, moves, self.is_mixed[rings], is_disordered & (n > 1), place
        )
        layout = self.layout
        append_rows(
            place, starts, self.time, self.ints, self.floats, self.is_off, time, rows.ints, rows.floats,
            layout.is_prefix, layout.sums, layout.winners,
        )  # fmt: skip
        self._merge(touched, time, rows)
        self._touched = touched
        return touched

    def _grow(self, n: int) -> None:
        n_places = len(self.time)
        if n > n_places:
            old = self.time, self.ints, self.floats, self.is_off
            self._set_places(max(n, 2 * n_places))
            for array, new in zip(old, (self.time, self.ints, self.floats, self.is_off), strict=True):
                new[:n_places] = array

    def _merge(self, touched: TouchedRings, time: Ints, rows: RowColumns) -> None:
        """Write the rings that move, with their new rows."""
        moved = np.flatnonzero(touched.moves)
        if not len(moved):
            return
        which = np.flatnonzero(np.repeat(touched.moves, np.diff(touched.run)))
        # stable: arrival decides what time does not
        order = np.lexsort((time[which], touched.ring_of_row[which]))
        run = np.append(0, np.cumsum(np.diff(touched.run)[moved]))
        rings, is_mixed, layout = touched.rings[moved], np.zeros(len(moved), dtype=bool), self.layout
        merge_rows(
            self.at[rings], self.n[rings], touched.at[moved], run, which[order],
            self.time, self.ints, self.floats, self.is_off, time, rows.ints, rows.floats,
            layout.is_prefix, layout.sums, layout.winners, touched.places, is_mixed,
        )  # fmt: skip
        touched.is_mixed[moved] = is_mixed
        self.n_moved += int(touched.n[moved].sum())

    def commit(self) -> None:
        self._rooms.commit()
        if self._touched is not None:
            touched, self._touched = self._touched, None
            rings = touched.rings
            self._give_back(rings[touched.moves])
            n_old = self.n[rings]
            self.n_rows += int((touched.n - n_old).sum())
            self._n_held += int(np.count_nonzero(n_old == 0))
            self.at[rings], self.n[rings], self.is_mixed[rings] = touched.at, touched.n, touched.is_mixed
            self._begin[rings], self._exponent[rings] = touched.begin, touched.exponent
        if self._rooms.end > LEAST_PLACES + MOST_UNUSED * (self.n_rows + self._n_held):
            self.adopt(self.layout)

    def rollback(self) -> None:
        self._touched = None
        self._rooms.rollback()

    def _give_back(self, rings: Ints) -> None:
        """The room of these rings, if they have some."""
        rings = rings[self._begin[rings] > 0]
        self._rooms.give_back(self._begin[rings], self._exponent[rings])

    # ------------------------------------------------------------------------------------------- between rounds

    def every_place(self) -> tuple[Ints, Ints]:
        """All places with rows, and the rings they belong to."""
        rings = np.repeat(np.arange(len(self.n)), self.n)
        return places_of(self.at, self.n), rings

    def drop_first(self, n_dropped: Ints, is_pinned: Mask) -> None:
        """Take the pinned rows of rings and n_dropped rows behind them, if there are such, except those that are to be pinned."""
        is_cut = n_dropped > 0
        if self.n_pinned[is_cut].any() or is_pinned.any():
            places, rings = self.every_place()
            is_behind = places - self.at[rings] >= (self.n_pinned + n_dropped)[rings]
            self.keep(is_behind | is_pinned[places] | ~is_cut[rings], is_behind)
        else:
            self.at = self.at + n_dropped
            self.n = self.n - n_dropped
            self._release(np.flatnonzero(is_cut & (self.n == 0)))
            self.n_rows -= int(n_dropped.sum())

    def _release(self, rings: Ints) -> None:
        """Give back the room of rings that have lost their last row."""
        self._give_back(rings)
        self.at[rings], self._begin[rings], self._exponent[rings], self.is_mixed[rings] = 1, 0, 0, False
        self._n_held -= len(rings)

    def keep(self, stays: Mask, is_behind: Mask | None = None) -> None:
        """Only these of all rows; those that are not behind them are pinned."""
        places, rings = self.every_place()
        if is_behind is None:
            is_behind = places - self.at[rings] >= self.n_pinned[rings]
        n_pinned = np.bincount(rings[stays & ~is_behind], minlength=len(self.n))
        self._rewrite(places[stays], np.bincount(rings[stays], minlength=len(self.n)), self.layout)
        self.n_pinned = n_pinned

    def adopt(self, layout: Layout) -> None:
        """All rows together, with the columns of a layout; those that were not there are 0."""
        self._rewrite(self.every_place()[0], self.n, layout)

    def _rewrite(self, places: Ints, n: Ints, layout: Layout) -> None:
        """These rows, in order of rings, with n for each ring."""
        old = self.layout
        contributions = self.contributions(places)
        time, floats = self.time[places], self.floats[places]
        ring = np.repeat(np.arange(len(n)), n)
        self.layout = layout
        rows = RowColumns(
            np.zeros((len(places), layout.n_ints), np.int64), np.zeros((len(places), layout.n_floats))
        )
        rows.ints[:, : EPOCH + 1] = contributions[:, : EPOCH + 1]
        for lane in layout.ints.keys() & old.ints.keys():
            rows.ints[:, layout.ints[lane]] = contributions[:, old.ints[lane]]
        for lane in layout.floats.keys() & old.floats.keys():
            rows.floats[:, layout.floats[lane]] = floats[:, old.floats[lane]]
        self._set_places(LEAST_PLACES)
        self._set_rings(len(n))
        self.push(ring, time, rows)
        self.commit()

    def build_nodes(self) -> None:
        """All nodes anew."""
        held = np.flatnonzero(self.n)
        starts, layout = self.at[held], self.layout
        build_nodes(
            starts, starts + self.n[held], starts, self.ints, self.floats, self.is_off, layout.sums, layout.winners
        )  # fmt: skip

    def contributions(self, places: Ints) -> Ints:
        """What rows have brought: prefix columns without what is before."""
        ints = self.ints[places]
        prefix = self.layout.is_prefix
        ints[:, prefix] -= self.ints[places - 1][:, prefix]
        return ints

    def check(self) -> None:
        """Assert the invariant."""
        assert self._touched is None, "checked in a round"
        assert not self.is_off.any(), "a row is switched off"
        held = np.flatnonzero(self.n)
        assert (len(held), int(self.n.sum())) == (self._n_held, self.n_rows), "rows are counted wrongly"
        begins, ends = self._begin[held], self._begin[held] + (1 << self._exponent[held])
        assert (self.at[held] > begins).all(), "a row before the room of its ring"
        assert (self.at[held] + self.n[held] <= ends).all(), "a row behind the room of its ring"
        free, free_ends = self._rooms.free_runs()
        begins, ends = np.append(begins, free), np.append(ends, free_ends)
        order = np.argsort(begins)
        assert (begins[order][1:] >= ends[order][:-1]).all(), "rooms overlap"
        assert (ends <= self._rooms.end).all(), "a room at places that are not in use"
        places, rings = self.every_place()
        same = rings[1:] == rings[:-1]
        assert (self.time[places][1:] >= self.time[places][:-1])[same].all(), "time falls in a ring"
        falls = (self.ints[places, EPOCH][1:] < self.ints[places, EPOCH][:-1]) & same
        assert self.is_mixed[rings[1:][falls]].all(), "epochs fall in a ring"
        before = self.ints.copy(), self.floats.copy()
        self.build_nodes()
        # nodes that began before the ring did are not asked, and not compared
        is_whole = places - (places & -places) + 1 >= self.at[rings]
        assert (before[0][places] == self.ints[places])[is_whole].all(), (
            "a node of winners is not that of its rows"
        )
        assert (before[1][places] == self.floats[places])[is_whole].all(), (
            "a node of sums is not that of its rows"
        )


def places_of(first: Ints, n: Ints) -> Ints:
    """The places from first[k] on, n[k] of them, one run behind the other."""
    ends = np.cumsum(n)
    return np.repeat(first - (ends - n), n) + np.arange(int(ends[-1]) if len(ends) else 0)
