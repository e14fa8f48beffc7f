"""How rows of a table are found by a key: its own, or any that a look-up has, each with an index.

An index leads from codes to owners. Which version of an owner is meant, the version chains decide; whether that one has the key,
its code does and, where keys are hashed, its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from eddyline.joins.keys import Codes, codes_of, same
from eddyline.joins.probe_matches import Evaluate, Ints, Key, Mask, ProbeMatches
from eddyline.joins.table_index import TableIndex
from eddyline.joins.table_rows import HeldRows
from eddyline.joins.version_chains import VersionChains
from eddyline.kernels import NOTHING
from eddyline.model import Column


class TableLookUps:
    """The indexes over a table's rows: one for its own key, and one for each other key that look-ups have.

    Invariant: every index has all row numbers, and finds the owner of each reachable row by that row's code, unless it is NULL.
    """

    def __init__(
        self, key: tuple[str, ...], evaluate: Evaluate, rows: HeldRows, versions: VersionChains
    ) -> None:
        self._key = key
        self._evaluate = evaluate
        self._rows = rows
        self._versions = versions
        self._primary = TableIndex()
        self._indexes: dict[Key, TableIndex] = {}

    @property
    def keys(self) -> tuple[Key, ...]:
        """The look-up keys that have an index, without the table's own."""
        return tuple(self._indexes)

    @property
    def n_entries(self) -> int:
        """Entries of the index that has most."""
        return max(index.n_entries for index in self._every_index())

    @property
    def nbytes(self) -> int:
        return sum(index.nbytes for index in self._every_index())

    def _every_index(self) -> tuple[TableIndex, ...]:
        return (self._primary, *self._indexes.values())

    # ----------------------------------------------------------------------------------------- upkeep

    def set_keys(self, keys: Iterable[Key]) -> None:
        """Have an index for each of these look-up keys and no other. The table's own key needs none."""
        needed = [key for key in keys if key and self._primary_order(key) is None]
        self._indexes = {key: self._indexes.get(key) or self._new_index(key) for key in needed}

    def _new_index(self, key: Key) -> TableIndex:
        index = TableIndex()
        pieces = [self._codes(key, rows) for rows in self._rows.pieces()]
        if pieces:
            is_null = [np.zeros(len(c), dtype=bool) if c.is_null is None else c.is_null for c in pieces]
            codes = Codes(np.concatenate([c.codes for c in pieces]), np.concatenate(is_null), is_exact=False)
            beside = np.full(len(codes), NOTHING, np.int64)
            index.add(codes, self._versions.is_delete.values, self._versions.older.values, beside)
        return index

    def add(self, own: Codes, rows: pa.RecordBatch, is_delete: Mask, behind: Ints, above: Ints) -> None:
        """Take the next rows, given the codes of the table's own key and the versions next to each in its chain."""
        nothing = np.zeros(len(own), dtype=bool)  # a delete has the key of what it deletes
        self._primary.add(own, nothing, behind, above)
        for key, index in self._indexes.items():
            index.add(self._codes(key, rows), is_delete, behind, above)

    def truncate(self, n: int) -> None:
        """Remove the rows that have numbers from `n` on."""
        for index in self._every_index():
            index.truncate(n)

    def keep(self, rows: Ints) -> None:
        """Keep these rows, which the version chains have already numbered anew from 0 on."""
        for index in self._every_index():
            index.keep(rows, self._versions.older.values)

    # ----------------------------------------------------------------------------------------- owners and rows

    def own_codes(self, rows: pa.RecordBatch) -> Codes:
        """The codes of the table's own key."""
        return codes_of([rows.column(name) for name in self._key])

    def owners(self, codes: Codes, keys: Sequence[pa.Array], first: Ints) -> Ints:
        """The owners of primary keys, -1 for those that have no version; key k is row `first[k]` of these columns."""
        owners = np.full(len(first), NOTHING, np.int64)
        asked_codes = Codes(codes.codes[first], None, codes.is_exact)
        found = self._primary.owners(asked_codes, self._versions.owner.values)
        probes, candidates = found.probes, found.rows
        heads = self._versions.latest.values[candidates]
        there = np.flatnonzero(heads >= 0)  # an owner without versions is about to be removed
        probes, candidates, heads = probes[there], candidates[there], heads[there]
        if not codes.is_exact and len(probes):
            held_rows = self._rows.take(heads, self._key)
            is_same = same(keys, first[probes], held_rows.columns, np.arange(len(heads)))
            probes, candidates = probes[is_same], candidates[is_same]
        owners[probes] = candidates
        return owners

    def probe(
        self,
        key: Key,
        arrays: Sequence[pa.Array],
        arrival: Ints,
        time_us: Ints | None,
        *,
        includes_own: bool,
    ) -> ProbeMatches:
        """Rows with these keys, current at an arrival number or, given times, the latest at an event time.

        Pairs are by probe, then by the arrival of the row. An empty key asks for all rows.
        """
        order = self._primary_order(key)
        if order is not None:  # look-up by its own key, perhaps with the columns in another order
            key, arrays = tuple(key[k] for k in order), [arrays[k] for k in order]
        index = self._primary if order is not None else self._indexes[key] if key else None
        if index is None:
            codes = None
            n, owners = len(arrival), self._versions.owners_with_versions()
            found = ProbeMatches(np.repeat(np.arange(n), len(owners)), np.tile(owners, n))
        else:
            codes = codes_of(arrays)
            found = index.owners(codes, self._versions.owner.values)
        probes = found.probes
        if time_us is None:
            rows = self._versions.versions_at(found.rows, arrival[probes], includes_own=includes_own)
        else:
            rows = self._versions.versions_as_of(found.rows, time_us[probes], arrival[probes])
        is_match = rows >= 0
        if index is not None and codes is not None:
            is_match &= index.has_code(np.maximum(rows, 0), codes.codes[probes])
        probes, rows = probes[is_match], rows[is_match]
        if codes is not None and not codes.is_exact and len(rows):
            is_same = same(arrays, probes, self._values(key, rows), np.arange(len(rows)))
            probes, rows = probes[is_same], rows[is_same]
        return self._in_order(probes, rows)

    def _in_order(self, probes: Ints, rows: Ints) -> ProbeMatches:
        """Pairs by probe and arrival, each once: an owner that had a key, lost it and got it again is found twice."""
        if (np.diff(probes) > 0).all():
            return ProbeMatches(probes, rows)
        order = np.lexsort((self._versions.arrival.values[rows], probes))
        probes, rows = probes[order], rows[order]
        is_first = np.ones(len(rows), dtype=bool)
        is_first[1:] = (np.diff(probes) > 0) | (np.diff(rows) != 0)
        return ProbeMatches(probes[is_first], rows[is_first])

    def _primary_order(self, key: Key) -> list[int] | None:
        """The places of the columns of the table's own key in a look-up key, if it consists of them."""
        names = [part.name for part in key if isinstance(part, Column)]
        if len(names) != len(key) or sorted(names) != sorted(self._key):
            return None
        return [names.index(name) for name in self._key]

    def _codes(self, key: Key, rows: pa.RecordBatch) -> Codes:
        return codes_of([self._evaluate(part, rows) for part in key])

    def _values(self, key: Key, rows: Ints) -> list[pa.Array]:
        """What a look-up key is on some rows."""
        names = {node.name for part in key for node in part.walk() if isinstance(node, Column)}
        held_rows = self._rows.take(
            rows, [name for name in self._rows.schema.names if name in names] or self._key
        )
        return [
            held_rows.column(part.name) if isinstance(part, Column) else self._evaluate(part, held_rows)
            for part in key
        ]

    # ----------------------------------------------------------------------------------------- invariant

    def check(self) -> None:
        """Assert that every index has all row numbers and finds the owner of each reachable row by its code."""
        versions = self._versions
        rows = np.flatnonzero(versions.reachable_mask())
        for index in self._every_index():
            assert len(index) == len(versions), f"{len(index)} codes, {len(versions)} rows"
            codes, is_null = index.codes_of(rows)
            found = index.owners(Codes(codes, is_null, is_exact=False), versions.owner.values)
            known = set(zip(found.probes.tolist(), found.rows.tolist(), strict=True))
            for place in np.flatnonzero(~is_null).tolist():
                owner = int(versions.owner.values[rows[place]])
                assert (place, owner) in known, f"row {rows[place]} of owner {owner} is not found by its code"
