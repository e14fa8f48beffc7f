"""A keyed stream as a table: the latest row of every key, as any later row found it.

The *latest* row of a key is the one with the largest event time and, of those, the last to arrive; without event times simply the
last to arrive. So an older row that comes late does not replace a newer one. A delete is a version like any other, after which
there is no row. One without a time comes just behind what it deletes.

Versions stay as long as a look-up can reach them. All of a round are there until it commits, since each row of another stream
sees the table as it was when that row came. After that only the latest is kept, or also, for look-ups at an event time, what was
the latest at some time that may still be asked for (`forget`).

    arrival    1            2            3            4            5
    change     A, 10:00     B, 10:05     C, 10:02     D, 10:03     delete, 10:07
    latest     A            B            B            B            none
    as of 10:04, at arrival 4: C; at arrival 5: D

Invariant: the versions of a key hang in one chain, by time and then arrival, latest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.joins.keys import Codes, codes_of, same
from eddyline.joins.stem import Evaluate, Ints, Key, Mask, ProbeMatches
from eddyline.joins.table_changes import ComparedChanges, Deltas, TableChanges, groups
from eddyline.joins.table_index import TableIndex
from eddyline.joins.table_rows import GrowingArray, HeldRows
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
from eddyline.model import NO_TIME, Column

FEW = 1024  # rows that are gone, before it is worth while to clear them away
ALWAYS = 1 << 62  # the version of a round that every query sees
SMALL = 4096  # versions of a table that is looked through whenever some of it may be forgotten


class KeyedTable:
    """The rows of a keyed stream.

    Versions have row numbers, by which `arrival` and `time_us` are indexed. They hold until the next apply, rollback, commit or
    forget.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: tuple[str, ...],
        evaluate: Evaluate,
        *,
        keeps_history_us: int | None = None,
    ) -> None:
        """`evaluate` gives what an expression is on every row of a batch, NULL where it is in error."""
        assert key, "a table has a key"
        assert set(key) <= set(schema.names), f"key {key} of columns {schema.names}"
        self.key = key
        self._evaluate = evaluate
        self._history_us = keeps_history_us
        self._rows = HeldRows(schema)
        self._arrival = GrowingArray(np.int64)
        self._time_us = GrowingArray(np.int64)
        self._is_delete = GrowingArray(np.bool_)
        self._round_version = GrowingArray(np.int64)  # of the catalog in the round it came in
        self._was_current = GrowingArray(np.bool_)  # False: an older row that came late
        self._owner = GrowingArray(np.int64)
        self._older = GrowingArray(np.int64)
        self._latest = GrowingArray(np.int64)  # by owner
        self._primary = TableIndex()
        self._indexes: dict[Key, TableIndex] = {}
        self._n_unreachable = 0  # rows that hang in no chain any more
        self._n_committed = 0
        self._n_owners_committed = 0
        self._n_swept = 0  # versions that were left when it was last swept

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    @property
    def arrival(self) -> Ints:
        """By row number."""
        return self._arrival.values

    @property
    def time_us(self) -> Ints:
        """By row number; NO_TIME where there is none."""
        return self._time_us.values

    @property
    def n_rows(self) -> int:
        """Keys that have a row."""
        return len(self.current())

    @property
    def n_versions(self) -> int:
        """Versions that may still be asked for, deletes among them."""
        return len(self._arrival) - self._n_unreachable

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(self._indexes)

    @property
    def nbytes(self) -> int:
        grown = sum(each.nbytes for each in (*self._marks(), self._latest))
        return self._rows.nbytes + grown + sum(index.nbytes for index in self._every_index())

    # ----------------------------------------------------------------------------------------- what is wanted of it

    def set_keys(self, keys: Iterable[Key]) -> None:
        """Have an index for each of these look-up keys and no other. Its own key needs none. Between rounds."""
        self._assert_committed()
        wanted = [key for key in keys if key and self._primary_order(key) is None]
        self._indexes = {key: self._indexes.get(key) or self._new_index(key) for key in wanted}

    def _new_index(self, key: Key) -> TableIndex:
        index = TableIndex()
        pieces = [self._codes(key, rows) for rows in self._rows.pieces()]
        if pieces:
            is_null = [np.zeros(len(c), dtype=bool) if c.is_null is None else c.is_null for c in pieces]
            codes = Codes(np.concatenate([c.codes for c in pieces]), np.concatenate(is_null), is_exact=False)
            beside = np.full(len(codes), NOTHING, np.int64)
            index.add(codes, self._is_delete.values, self._older.values, beside)
        return index

    def reshape(self, schema: pa.Schema) -> None:
        """Have these columns from now on; a new one is NULL on rows already held. Between rounds."""
        self._assert_committed()
        assert set(self.key) <= set(schema.names), f"key {self.key} of columns {schema.names}"
        self._rows.reshape(schema)

    def keep_history(self, history_us: int | None) -> None:
        """Keep superseded versions, from now on, for look-ups this long before the horizon; None: none. Between rounds."""
        self._assert_committed()
        was_kept, self._history_us = self._history_us is not None, history_us
        if was_kept and history_us is None:
            self._n_unreachable += self._cut_superseded(np.arange(len(self._latest)))
            self._clear_away()

    # ----------------------------------------------------------------------------------------- changes

    def apply(self, changes: TableChanges) -> Deltas:
        """Let changes happen: look-ups see them at once, and `rollback` undoes them."""
        assert changes.rows.schema.names == self.schema.names, f"{changes.rows.schema} for {self.schema}"
        last = self.arrival[-1:]
        assert (np.diff(changes.arrival, prepend=last) > 0).all(), f"{changes.arrival} behind {last}"
        codes = codes_of(self._key_columns(changes.rows))
        misfits = np.empty(0, np.int64)
        if codes.is_null is not None and codes.is_null.any():
            misfits = np.flatnonzero(codes.is_null)
            fitting = np.flatnonzero(~codes.is_null)
            changes = changes.take(fitting)
            codes = Codes(codes.codes[fitting], None, codes.is_exact)
        group, owners = self._owners_of(codes, self._key_columns(changes.rows))
        met = self._compared_changes(changes, group, owners)
        stored = np.flatnonzero(met.is_change if self._history_us is None else met.is_change | ~met.is_latest)
        self._store(changes.take(stored), met.time_us[stored], codes, stored, group, owners)
        return met.deltas(misfits)

    def _owners_of(self, codes: Codes, columns: Sequence[pa.Array]) -> tuple[Ints, Ints]:
        """For each change the number of its key among those of the changes; for each such key its owner, -1 if it has none."""
        group, first = groups(codes, columns)
        owners = np.full(len(first), NOTHING, np.int64)
        wanted = Codes(codes.codes[first], None, codes.is_exact)
        found = self._primary.owners(wanted, self._owner.values)
        probes, candidates = found.probes, found.rows
        heads = self._latest.values[candidates]
        there = np.flatnonzero(heads >= 0)  # what has no version left is on its way out
        probes, candidates, heads = probes[there], candidates[there], heads[there]
        if not codes.is_exact and len(probes):
            held = self._rows.take(heads, self.key)
            is_same = same(columns, first[probes], held.columns, np.arange(len(heads)))
            probes, candidates = probes[is_same], candidates[is_same]
        owners[probes] = candidates
        return group, owners

    def _compared_changes(self, changes: TableChanges, group: Ints, owners: Ints) -> ComparedChanges:
        """The changes beside the versions they meet."""
        heads = np.full(len(owners), NOTHING, np.int64)
        known = np.flatnonzero(owners >= 0)
        heads[known] = self._latest.values[owners[known]]
        held = heads[known]
        return ComparedChanges(
            changes,
            group,
            heads,
            TableChanges(
                self._rows.take(held), self.arrival[held], self.time_us[held], self._is_delete.values[held]
            ),
            len(self._arrival),
        )

    def _store(
        self, changes: TableChanges, time_us: Ints, codes: Codes, places: Ints, group: Ints, owners: Ints
    ) -> None:
        """Hang changes in; they stand at these places among all that came."""
        first, n = len(self._arrival), len(changes)
        if not n:
            return
        fresh = np.zeros(len(owners), dtype=bool)
        fresh[group[places]] = True
        fresh &= owners < 0
        owners = owners.copy()
        owners[fresh] = len(self._latest) + np.arange(fresh.sum())
        self._latest.extend(np.full(fresh.sum(), NOTHING))
        self._rows.append(changes.rows)
        self._arrival.extend(changes.arrival)
        self._time_us.extend(time_us)
        self._is_delete.extend(changes.is_delete)
        unknown = np.full(n, ALWAYS, np.int64)
        self._round_version.extend(unknown if changes.round_version is None else changes.round_version)
        self._owner.extend(owners[group[places]])
        self._was_current.resize(first + n)
        self._older.resize(first + n)
        behind, above = np.empty(n, np.int64), np.empty(n, np.int64)
        hang_versions(
            first,
            self._owner.values,
            self._time_us.values,
            self._latest.values,
            self._older.values,
            self._was_current.values,
            behind,
            above,
        )
        nothing = np.zeros(n, dtype=bool)  # a delete has the key of what it deletes
        self._primary.add(Codes(codes.codes[places], None, codes.is_exact), nothing, behind, above)
        for key, index in self._indexes.items():
            index.add(self._codes(key, changes.rows), changes.is_delete, behind, above)

    def commit(self) -> None:
        """What was applied stays; versions it superseded go, unless history is kept."""
        if self._history_us is None:
            self._n_unreachable += self._cut_superseded(np.unique(self._owner.values[self._n_committed :]))
        self._n_committed = len(self._arrival)
        self._clear_away()

    def rollback(self) -> None:
        """As if nothing had been applied since the last commit."""
        n = self._n_committed
        touched = np.unique(self._owner.values[n:])
        unhang_versions(n, touched, self._latest.values, self._older.values)
        self._latest.resize(self._n_owners_committed)
        for index in self._every_index():
            index.truncate(n)
        for mark in self._marks():
            mark.resize(n)
        self._rows.truncate(n)

    def forget(self, horizon_us: int) -> None:
        """No look-up asks for a time below this, less the history that is kept, any more: what that leaves unreachable may go.

        So may a delete before it: a still older row that comes later then counts as new. Large tables are cleared now and then.
        """
        self._assert_committed()
        if SMALL < self.n_versions < self._n_swept + self._n_swept // 4:
            return
        self._n_unreachable += cut_before(
            max(horizon_us - (self._history_us or 0), NO_TIME),
            self._time_us.values,
            self._is_delete.values,
            self._latest.values,
            self._older.values,
        )
        self._n_swept = self.n_versions
        self._clear_away()

    def stored_changes(self) -> TableChanges:
        """All versions that may still be asked for, what was applied included: applied to an empty table, they make this one."""
        rows = np.flatnonzero(self._is_held())
        rows = rows[np.argsort(self.arrival[rows])]
        return TableChanges(
            self._rows.take(rows),
            self.arrival[rows],
            self.time_us[rows],
            self._is_delete.values[rows],
            self._round_version.values[rows],
        )

    # ----------------------------------------------------------------------------------------- look-ups

    def probe_at(
        self, key: Key, arrays: Sequence[pa.Array], arrival: Ints, *, includes_own: bool = False
    ) -> ProbeMatches:
        """Rows with these keys as they were current just before an arrival number, or just after it (`includes_own`).

        The two differ only for numbers at which this table itself changes. An empty key asks for all rows. Pairs stand by probe,
        then by the arrival of the row.
        """
        return self._probe(key, arrays, arrival, None, includes_own=includes_own)

    def probe_as_of(self, key: Key, arrays: Sequence[pa.Array], time_us: Ints, arrival: Ints) -> ProbeMatches:
        """Rows with these keys that were the latest at an event time, by what had come before an arrival number."""
        return self._probe(key, arrays, arrival, time_us, includes_own=False)

    def known_versions(self, rows: Ints, time_us: Ints, arrival: Ints) -> Ints:
        """The versions of queries up to which it is known that these were the latest rows of their keys at an event time.

        A query begins with the latest row of each key. What there was before that one's time is not known to it, since others
        may have been superseded and gone by then.
        """
        found = np.full(len(rows), ALWAYS, np.int64)
        chains = self._owner.values, self._latest.values, self._older.values
        marks = self._arrival.values, self._time_us.values, self._round_version.values
        versions_known_from(rows, time_us, arrival, *chains, *marks, found)
        return found

    def current(self) -> Ints:
        """The numbers of the latest rows, ascending."""
        heads = self._latest.values[self._latest.values >= 0]
        return np.sort(heads[~self._is_delete.values[heads]])

    def is_current_at(self, rows: Ints, arrival: Ints, *, includes_own: bool = False) -> Mask:
        """Whether each row was current just before an arrival number, or just after it."""
        owners = self._owner.values[rows]
        return self._versions(owners, arrival, None, includes_own=includes_own) == rows

    def rows_by_arrival(self, arrival: Ints) -> Ints:
        """The numbers of the rows that came with these arrival numbers, all of which are there."""
        rows = np.searchsorted(self.arrival, arrival)
        assert (self.arrival[rows] == arrival).all(), (
            f"no rows came as {arrival[self.arrival[rows] != arrival]}"
        )
        return rows

    def take(self, rows: Ints, columns: Sequence[str]) -> list[pa.Array]:
        """These columns of the rows with these numbers, in this order."""
        return list(self._rows.take(rows, columns).columns) if columns else []

    def _probe(
        self,
        key: Key,
        arrays: Sequence[pa.Array],
        arrival: Ints,
        time_us: Ints | None,
        *,
        includes_own: bool,
    ) -> ProbeMatches:
        order = self._primary_order(key)
        if order is not None:  # look-up by its own key, perhaps with the columns in another order
            key, arrays = tuple(key[k] for k in order), [arrays[k] for k in order]
        index = self._primary if order is not None else self._indexes[key] if key else None
        if index is None:
            wanted = None
            n, owners = len(arrival), np.flatnonzero(self._latest.values >= 0)
            found = ProbeMatches(np.repeat(np.arange(n), len(owners)), np.tile(owners, n))
        else:
            wanted = codes_of(arrays)
            found = index.owners(wanted, self._owner.values)
        probes = found.probes
        rows = self._versions(
            found.rows,
            arrival[probes],
            None if time_us is None else time_us[probes],
            includes_own=includes_own,
        )
        is_match = rows >= 0
        if index is not None and wanted is not None:
            is_match &= index.has_code(np.maximum(rows, 0), wanted.codes[probes])
        probes, rows = probes[is_match], rows[is_match]
        if wanted is not None and not wanted.is_exact and len(rows):
            is_same = same(arrays, probes, self._values(key, rows), np.arange(len(rows)))
            probes, rows = probes[is_same], rows[is_same]
        return self._in_order(probes, rows)

    def _versions(self, owners: Ints, arrival: Ints, time_us: Ints | None, *, includes_own: bool) -> Ints:
        """The version of each owner that is asked for, -1 for none."""
        versions = np.empty(len(owners), np.int64)
        latest, older, came = self._latest.values, self._older.values, self._arrival.values
        is_delete = self._is_delete.values
        if time_us is None:
            was_current = self._was_current.values
            versions_at(owners, arrival, includes_own, latest, older, came, is_delete, was_current, versions)
        else:
            times = self._time_us.values
            versions_as_of(owners, time_us, arrival, latest, older, came, times, is_delete, NO_TIME, versions)
        return versions

    def _in_order(self, probes: Ints, rows: Ints) -> ProbeMatches:
        """Pairs by probe and arrival, each once: an owner that had a key, lost it and got it again is found twice."""
        if (np.diff(probes) > 0).all():
            return ProbeMatches(probes, rows)
        order = np.lexsort((self.arrival[rows], probes))
        probes, rows = probes[order], rows[order]
        is_first = np.ones(len(rows), dtype=bool)
        is_first[1:] = (np.diff(probes) > 0) | (np.diff(rows) != 0)
        return ProbeMatches(probes[is_first], rows[is_first])

    # ----------------------------------------------------------------------------------------- keys

    def _key_columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(name) for name in self.key]

    def _primary_order(self, key: Key) -> list[int] | None:
        """Where in a look-up key the columns of the table's own key stand, if that is what it is."""
        names = [part.name for part in key if isinstance(part, Column)]
        if len(names) != len(key) or sorted(names) != sorted(self.key):
            return None
        return [names.index(name) for name in self.key]

    def _codes(self, key: Key, rows: pa.RecordBatch) -> Codes:
        return codes_of([self._evaluate(part, rows) for part in key])

    def _values(self, key: Key, rows: Ints) -> list[pa.Array]:
        """What a look-up key is on some rows."""
        names = {node.name for part in key for node in part.walk() if isinstance(node, Column)}
        held = self._rows.take(rows, [name for name in self.schema.names if name in names] or self.key)
        return [
            held.column(part.name) if isinstance(part, Column) else self._evaluate(part, held) for part in key
        ]

    # ----------------------------------------------------------------------------------------- what is held

    def _marks(self) -> tuple[GrowingArray[Any], ...]:
        return (
            self._arrival,
            self._time_us,
            self._is_delete,
            self._round_version,
            self._was_current,
            self._owner,
            self._older,
        )

    def _every_index(self) -> tuple[TableIndex, ...]:
        return (self._primary, *self._indexes.values())

    def _assert_committed(self) -> None:
        assert self._n_committed == len(self._arrival), (
            f"{len(self._arrival) - self._n_committed} changes are neither committed nor rolled back"
        )

    def _is_held(self) -> Mask:
        """Which rows hang in a chain."""
        is_held = np.zeros(len(self._arrival), dtype=bool)
        mark_reachable(self._latest.values, self._older.values, is_held)
        return is_held

    def _cut_superseded(self, owners: Ints) -> int:
        return cut_superseded(
            owners,
            self._time_us.values,
            self._is_delete.values,
            NO_TIME,
            self._latest.values,
            self._older.values,
        )

    def _clear_away(self) -> None:
        """Number what is held anew, if enough is gone or an index has far more entries than rows."""
        n = self.n_versions
        n_entries = max(index.n_entries for index in self._every_index())
        if self._n_unreachable > max(FEW, n // 2) or n_entries > FEW + 2 * n:
            self._renumber()
        self._n_committed = len(self._arrival)
        self._n_owners_committed = len(self._latest)

    def _renumber(self) -> None:
        is_held = self._is_held()
        rows = np.flatnonzero(is_held)
        number = np.full(len(is_held) + 1, NOTHING, np.int64)  # the last one is that of -1
        number[rows] = np.arange(len(rows))
        owners = np.flatnonzero(self._latest.values >= 0)
        owner_number = np.full(len(self._latest), NOTHING, np.int64)
        owner_number[owners] = np.arange(len(owners))
        self._latest.replace(number[self._latest.values[owners]])
        self._older.replace(number[self._older.values[rows]])
        self._owner.replace(owner_number[self._owner.values[rows]])
        own = (self._arrival, self._time_us, self._is_delete, self._round_version, self._was_current)
        for mark in own:
            mark.replace(mark.values[rows])
        self._rows.keep(is_held)
        for index in self._every_index():
            index.keep(rows, self._older.values)
        self._n_unreachable = 0

    # ----------------------------------------------------------------------------------------- to look at

    def snapshot(self) -> dict[str, Any]:
        """What it holds, for explain and the dashboard."""
        return {
            "rows": self.n_rows,
            "versions": self.n_versions,
            "nbytes": self.nbytes,
            "keys": len(self._indexes),
            "history_us": self._history_us,
        }

    def check(self) -> None:
        """Assert that chains, marks, columns and indexes tell of the same versions."""
        n = len(self._arrival)
        lengths = [len(self._rows), *map(len, self._marks())]
        assert lengths == [n] * len(lengths), f"{lengths} rows"
        is_held = self._is_held()
        assert is_held.sum() == self.n_versions, f"{is_held.sum()} held, {self.n_versions} counted"
        owners = np.flatnonzero(self._latest.values >= 0)
        assert (self._owner.values[self._latest.values[owners]] == owners).all(), "a head of another owner"
        newer = np.flatnonzero(is_held & (self._older.values >= 0))
        older = self._older.values[newer]
        assert (self._owner.values[older] == self._owner.values[newer]).all(), "a chain of two owners"
        places = np.stack([self.time_us, self.arrival], axis=1)
        assert all(tuple(places[a]) > tuple(places[b]) for a, b in zip(newer, older, strict=True)), (
            "out of order"
        )
        self._check_indexes(np.flatnonzero(is_held))

    def _check_indexes(self, rows: Ints) -> None:
        for index in self._every_index():
            assert len(index) == len(self._arrival), f"{len(index)} codes, {len(self._arrival)} rows"
            codes, is_null = index.codes_of(rows)
            found = index.owners(Codes(codes, is_null, is_exact=False), self._owner.values)
            known = set(zip(found.probes.tolist(), found.rows.tolist(), strict=True))
            for place in np.flatnonzero(~is_null).tolist():
                owner = int(self._owner.values[rows[place]])
                assert (place, owner) in known, f"row {rows[place]} of owner {owner} is not found by its code"
