"""The versions of a table's rows: which one of a key was current when, and which can still be reached.

An *owner* is a primary key that has rows. Its versions hang in a chain, latest first: `latest` is the head of each owner's chain
and `older` the version behind each row (kernels/table_versions.py). A version that no chain leads to is unreachable; it keeps its
row number until `renumber`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eddyline.joins.probe_matches import Ints, Mask
from eddyline.joins.table_changes import TableChanges
from eddyline.joins.table_rows import GrowingArray
from eddyline.kernels import (
    NOTHING,
    cut_before,
    cut_superseded,
    hang_versions,
    mark_reachable,
    unhang_versions,
    versions_as_of,
    versions_at,
    versions_known_from,
)
from eddyline.model import NO_TIME

ALWAYS = 1 << 62  # the version of a round that every query sees


class VersionChains:
    """What a table knows of its versions besides their columns, by row number, and the chain of each owner.

    Invariant: the versions of an owner hang in one chain, by time and then arrival, latest first; rows ascend by arrival.
    """

    def __init__(self) -> None:
        self.arrival = GrowingArray(np.int64)
        self.time_us = GrowingArray(np.int64)  # NO_TIME where there is none
        self.is_delete = GrowingArray(np.bool_)
        self.round_version = GrowingArray(np.int64)  # of the catalog in the round it came in
        self.owner = GrowingArray(np.int64)
        self.older = GrowingArray(np.int64)
        self.latest = GrowingArray(np.int64)  # by owner
        self._was_current = GrowingArray(np.bool_)  # False: an older row that came late
        self.n_unreachable = 0
        self._n_committed = 0
        self._n_owners_committed = 0

    def __len__(self) -> int:
        """Row numbers in use, those of unreachable versions among them."""
        return len(self.arrival)

    @property
    def n_reachable(self) -> int:
        """Versions that a look-up may still ask for, deletes among them."""
        return len(self.arrival) - self.n_unreachable

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in (*self._marks(), self.latest))

    def _marks(self) -> tuple[GrowingArray[Any], ...]:
        """The arrays by row number."""
        return (
            self.arrival,
            self.time_us,
            self.is_delete,
            self.round_version,
            self._was_current,
            self.owner,
            self.older,
        )

    # ----------------------------------------------------------------------------------------- the changes of a round

    def append(self, changes: TableChanges, time_us: Ints, group: Ints, owners: Ints) -> tuple[Ints, Ints]:
        """Hang changes in, one or more, each the next row number; returns the versions behind and above each, -1 for none.

        Change k belongs to `owners[group[k]]`; where that is -1, to a new owner.
        """
        first, n = len(self.arrival), len(changes)
        is_new = np.zeros(len(owners), dtype=bool)
        is_new[group] = True
        is_new &= owners < 0
        owners = owners.copy()
        owners[is_new] = len(self.latest) + np.arange(is_new.sum())
        self.latest.extend(np.full(is_new.sum(), NOTHING))
        self.arrival.extend(changes.arrival)
        self.time_us.extend(time_us)
        self.is_delete.extend(changes.is_delete)
        unknown = np.full(n, ALWAYS, np.int64)
        self.round_version.extend(unknown if changes.round_version is None else changes.round_version)
        self.owner.extend(owners[group])
        self._was_current.resize(first + n)
        self.older.resize(first + n)
        behind, above = np.empty(n, np.int64), np.empty(n, np.int64)
        hang_versions(
            first,
            self.owner.values,
            self.time_us.values,
            self.latest.values,
            self.older.values,
            self._was_current.values,
            behind,
            above,
        )
        return behind, above

    def commit(self) -> None:
        """What was appended stays."""
        self._n_committed = len(self.arrival)
        self._n_owners_committed = len(self.latest)

    def rollback(self) -> int:
        """Take out what was appended since the last commit; returns how many row numbers remain."""
        n = self._n_committed
        touched = np.unique(self.owner.values[n:])
        unhang_versions(n, touched, self.latest.values, self.older.values)
        self.latest.resize(self._n_owners_committed)
        for mark in self._marks():
            mark.resize(n)
        return n

    def assert_committed(self) -> None:
        assert self._n_committed == len(self.arrival), (
            f"{len(self.arrival) - self._n_committed} changes are neither committed nor rolled back"
        )

    # ----------------------------------------------------------------------------------------- expiry

    def cut_superseded(self, *, is_everywhere: bool = False) -> None:
        """Cut what is behind the latest version of each owner that changed since the last commit, or of every owner."""
        changed = self.owner.values[self._n_committed :]
        self.n_unreachable += cut_superseded(
            np.arange(len(self.latest)) if is_everywhere else np.unique(changed),
            self.time_us.values,
            self.is_delete.values,
            NO_TIME,
            self.latest.values,
            self.older.values,
        )

    def cut_before(self, horizon_us: int) -> None:
        """Cut what no look-up at this event time or a later one reaches, and deletes before it."""
        self.n_unreachable += cut_before(
            horizon_us, self.time_us.values, self.is_delete.values, self.latest.values, self.older.values
        )

    def renumber(self) -> Mask:
        """Give reachable versions, and owners that have any, new numbers in the same order; returns which rows remain."""
        is_reachable = self.reachable_mask()
        rows = np.flatnonzero(is_reachable)
        number = np.full(len(is_reachable) + 1, NOTHING, np.int64)  # the last one is that of -1
        number[rows] = np.arange(len(rows))
        owners = self.owners_with_versions()
        owner_number = np.full(len(self.latest), NOTHING, np.int64)
        owner_number[owners] = np.arange(len(owners))
        self.latest.replace(number[self.latest.values[owners]])
        self.older.replace(number[self.older.values[rows]])
        self.owner.replace(owner_number[self.owner.values[rows]])
        for mark in (self.arrival, self.time_us, self.is_delete, self.round_version, self._was_current):
            mark.replace(mark.values[rows])
        self.n_unreachable = 0
        return is_reachable

    # ----------------------------------------------------------------------------------------- look-ups

    def owners_with_versions(self) -> Ints:
        """Owners that have a version, ascending."""
        return np.flatnonzero(self.latest.values >= 0)

    def reachable_mask(self) -> Mask:
        """Which rows hang in a chain."""
        is_reachable = np.zeros(len(self.arrival), dtype=bool)
        mark_reachable(self.latest.values, self.older.values, is_reachable)
        return is_reachable

    def versions_at(self, owners: Ints, arrival: Ints, *, includes_own: bool) -> Ints:
        """The version of each owner that was current just before an arrival number, or just after it; -1 for none."""
        versions = np.empty(len(owners), np.int64)
        latest, older, came = self.latest.values, self.older.values, self.arrival.values
        is_delete, was_current = self.is_delete.values, self._was_current.values
        versions_at(owners, arrival, includes_own, latest, older, came, is_delete, was_current, versions)
        return versions

    def versions_as_of(self, owners: Ints, time_us: Ints, arrival: Ints) -> Ints:
        """The version of each owner that was the latest at an event time, by what came before an arrival number; -1 for none."""
        versions = np.empty(len(owners), np.int64)
        latest, older, came = self.latest.values, self.older.values, self.arrival.values
        times, is_delete = self.time_us.values, self.is_delete.values
        versions_as_of(owners, time_us, arrival, latest, older, came, times, is_delete, NO_TIME, versions)
        return versions

    def known_versions(self, rows: Ints, time_us: Ints, arrival: Ints) -> Ints:
        """The versions of queries up to which it is known that these were the latest rows of their keys at an event time.

        A query begins with the latest row of each key. What there was before that one's time is not known to it, since others
        may have been superseded and removed by then.
        """
        found = np.full(len(rows), ALWAYS, np.int64)
        chains = self.owner.values, self.latest.values, self.older.values
        marks = self.arrival.values, self.time_us.values, self.round_version.values
        versions_known_from(rows, time_us, arrival, *chains, *marks, found)
        return found

    # ----------------------------------------------------------------------------------------- by arrival number

    def rows_by_arrival(self, arrival: Ints) -> Ints:
        """The numbers of the rows that came with these arrival numbers, all of which are there."""
        came = self.arrival.values
        rows = np.searchsorted(came, arrival)
        assert (came[rows] == arrival).all(), f"no rows came as {arrival[came[rows] != arrival]}"
        return rows

    def owners(self, arrival: Ints) -> Ints:
        """The owner of each change with these arrival numbers, all of which are there."""
        return self.owner.values[self.rows_by_arrival(arrival)]

    def replaced(self, arrival: Ints) -> Ints:
        """The arrival numbers of the rows that left with changes of these numbers; one left with each. Before the commit."""
        rows = self.versions_at(self.owners(arrival), arrival, includes_own=False)
        assert (rows >= 0).all(), f"nothing left with {arrival[rows < 0]}"
        return self.arrival.values[rows]

    def is_current_at(self, rows: Ints, arrival: Ints, *, includes_own: bool = False) -> Mask:
        """Whether each row was current just before an arrival number, or just after it."""
        return self.versions_at(self.owner.values[rows], arrival, includes_own=includes_own) == rows

    # ----------------------------------------------------------------------------------------- invariant

    def check(self) -> None:
        """Assert that arrays are equally long, counts are right, and chains are in order and of one owner each."""
        lengths = [len(mark) for mark in self._marks()]
        assert lengths == [len(self)] * len(lengths), f"{lengths} rows"
        is_reachable = self.reachable_mask()
        assert is_reachable.sum() == self.n_reachable, (
            f"{is_reachable.sum()} reachable, {self.n_reachable} counted"
        )
        owners = self.owners_with_versions()
        assert (self.owner.values[self.latest.values[owners]] == owners).all(), "a head of another owner"
        newer = np.flatnonzero(is_reachable & (self.older.values >= 0))
        older = self.older.values[newer]
        assert (self.owner.values[older] == self.owner.values[newer]).all(), "a chain of two owners"
        places = np.stack([self.time_us.values, self.arrival.values], axis=1)
        assert all(tuple(places[a]) > tuple(places[b]) for a, b in zip(newer, older, strict=True)), (
            "out of order"
        )
