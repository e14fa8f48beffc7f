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

A table has columns (table_rows.py), versions in chains (version_chains.py) and indexes (table_look_ups.py), all by row number.

Invariant: columns, chains and indexes have the same row numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.joins.keys import Codes
from eddyline.joins.probe_matches import Evaluate, Ints, Key, ProbeMatches
from eddyline.joins.table_changes import ComparedChanges, Deltas, TableChanges, groups
from eddyline.joins.table_look_ups import TableLookUps
from eddyline.joins.table_rows import HeldRows
from eddyline.joins.version_chains import VersionChains
from eddyline.kernels import NOTHING
from eddyline.model import NO_TIME

FEW = 1024  # unreachable rows, before it is worth while to clear them away
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
        self.versions = VersionChains()
        self._rows = HeldRows(schema)
        self._look_ups = TableLookUps(key, evaluate, self._rows, self.versions)
        self._history_us = keeps_history_us
        self._n_swept = 0  # versions that remained when it was last swept

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    @property
    def arrival(self) -> Ints:
        """By row number."""
        return self.versions.arrival.values

    @property
    def time_us(self) -> Ints:
        """By row number; NO_TIME where there is none."""
        return self.versions.time_us.values

    @property
    def keys(self) -> tuple[Key, ...]:
        """The look-up keys that have an index, without the table's own."""
        return self._look_ups.keys

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self.versions.nbytes + self._look_ups.nbytes

    # ----------------------------------------------------------------------------------------- what queries need of it

    def set_keys(self, keys: Iterable[Key]) -> None:
        """Have an index for each of these look-up keys and no other. Its own key needs none. Between rounds."""
        self.versions.assert_committed()
        self._look_ups.set_keys(keys)

    def reshape(self, schema: pa.Schema) -> None:
        """Have these columns from now on; a new one is NULL on rows already held. Between rounds."""
        self.versions.assert_committed()
        assert set(self.key) <= set(schema.names), f"key {self.key} of columns {schema.names}"
        self._rows.reshape(schema)

    def keep_history(self, history_us: int | None) -> None:
        """Keep superseded versions, from now on, for look-ups this long before the horizon; None: none. Between rounds."""
        self.versions.assert_committed()
        had_history, self._history_us = self._history_us is not None, history_us
        if had_history and history_us is None:
            self.versions.cut_superseded(is_everywhere=True)
            self._clear_away()

    # ----------------------------------------------------------------------------------------- changes

    def apply(self, changes: TableChanges) -> Deltas:
        """Let changes happen: look-ups see them at once, and `rollback` undoes them."""
        assert changes.rows.schema.names == self.schema.names, f"{changes.rows.schema} for {self.schema}"
        last = self.arrival[-1:]
        assert (np.diff(changes.arrival, prepend=last) > 0).all(), f"{changes.arrival} behind {last}"
        codes = self._look_ups.own_codes(changes.rows)
        misfits = np.empty(0, np.int64)
        if codes.is_null is not None and codes.is_null.any():
            misfits = np.flatnonzero(codes.is_null)
            fitting = np.flatnonzero(~codes.is_null)
            changes = changes.take(fitting)
            codes = Codes(codes.codes[fitting], None, codes.is_exact)
        keys = [changes.rows.column(name) for name in self.key]
        group, first = groups(codes, keys)
        owners = self._look_ups.owners(codes, keys, first)
        compared = self._compared_changes(changes, group, owners)
        is_change = compared.is_change
        stored = np.flatnonzero(is_change if self._history_us is None else is_change | ~compared.is_latest)
        if len(stored):
            added = changes.take(stored)
            self._rows.append(added.rows)
            beside = self.versions.append(added, compared.time_us[stored], group[stored], owners)
            own = Codes(codes.codes[stored], None, codes.is_exact)
            self._look_ups.add(own, added.rows, added.is_delete, *beside)
        return compared.deltas(misfits)

    def _compared_changes(self, changes: TableChanges, group: Ints, owners: Ints) -> ComparedChanges:
        """The changes beside the versions they meet."""
        versions, known = self.versions, np.flatnonzero(owners >= 0)
        rows = versions.latest.values[owners[known]]
        heads = np.full(len(owners), NOTHING, np.int64)
        heads[known] = rows
        is_delete = versions.is_delete.values[rows]
        head_versions = TableChanges(self._rows.take(rows), self.arrival[rows], self.time_us[rows], is_delete)
        return ComparedChanges(changes, group, heads, head_versions, len(versions))

    def commit(self) -> None:
        """What was applied stays; versions it superseded go, unless history is kept."""
        if self._history_us is None:
            self.versions.cut_superseded()
        self.versions.commit()
        self._clear_away()

    def rollback(self) -> None:
        """As if nothing had been applied since the last commit."""
        n = self.versions.rollback()
        self._look_ups.truncate(n)
        self._rows.truncate(n)

    def forget(self, horizon_us: int) -> None:
        """No look-up asks for a time below this, less the history that is kept, any more: what that leaves unreachable may go.

        So may a delete before it: a still older row that comes later then counts as new. Large tables are cleared now and then.
        """
        self.versions.assert_committed()
        if SMALL < self.versions.n_reachable < self._n_swept + self._n_swept // 4:
            return
        self.versions.cut_before(max(horizon_us - (self._history_us or 0), NO_TIME))
        self._n_swept = self.versions.n_reachable
        self._clear_away()

    def _clear_away(self) -> None:
        """Number reachable rows anew, if enough are unreachable or an index has far more entries than rows."""
        n = self.versions.n_reachable
        if self.versions.n_unreachable > max(FEW, n // 2) or self._look_ups.n_entries > FEW + 2 * n:
            is_reachable = self.versions.renumber()
            self._rows.keep(is_reachable)
            self._look_ups.keep(np.flatnonzero(is_reachable))
            self.versions.commit()

    def stored_changes(self) -> TableChanges:
        """All versions that may still be asked for, what was applied included: applied to an empty table, they make this one."""
        versions = self.versions
        rows = np.flatnonzero(versions.reachable_mask())
        rows = rows[np.argsort(self.arrival[rows])]
        return TableChanges(
            self._rows.take(rows),
            self.arrival[rows],
            self.time_us[rows],
            versions.is_delete.values[rows],
            versions.round_version.values[rows],
        )

    # ----------------------------------------------------------------------------------------- look-ups

    def probe_at(
        self, key: Key, arrays: Sequence[pa.Array], arrival: Ints, *, includes_own: bool = False
    ) -> ProbeMatches:
        """Rows with these keys as they were current just before an arrival number, or just after it (`includes_own`).

        The two differ only for numbers at which this table itself changes. An empty key asks for all rows. Pairs are by probe,
        then by the arrival of the row.
        """
        return self._look_ups.probe(key, arrays, arrival, None, includes_own=includes_own)

    def probe_as_of(self, key: Key, arrays: Sequence[pa.Array], time_us: Ints, arrival: Ints) -> ProbeMatches:
        """Rows with these keys that were the latest at an event time, by what had come before an arrival number."""
        return self._look_ups.probe(key, arrays, arrival, time_us, includes_own=False)

    def current(self) -> Ints:
        """The numbers of the latest rows, ascending."""
        latest = self.versions.latest.values
        heads = latest[latest >= 0]
        return np.sort(heads[~self.versions.is_delete.values[heads]])

    def first_change(self, first_arrival: int) -> int:
        """The number of the first change of a round that begins with this arrival number."""
        return first_arrival

    def take(self, rows: Ints, columns: Sequence[str]) -> list[pa.Array]:
        """These columns of the rows with these numbers, in this order."""
        return list(self._rows.take(rows, columns).columns) if columns else []

    # ----------------------------------------------------------------------------------------- to look at

    def snapshot(self) -> dict[str, Any]:
        """What it holds, for explain and the dashboard."""
        return {
            "rows": len(self.current()),
            "versions": self.versions.n_reachable,
            "nbytes": self.nbytes,
            "keys": len(self._look_ups.keys),
            "history_us": self._history_us,
        }

    def check(self) -> None:
        """Assert that chains, columns and indexes hold the same versions."""
        self.versions.check()
        assert len(self._rows) == len(self.versions), f"{len(self._rows)} rows, {len(self.versions)} versions"
        self._look_ups.check()
