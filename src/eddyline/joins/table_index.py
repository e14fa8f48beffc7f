"""Which rows of a table have a key: a hash table over codes, from which the newest rows can be taken out again.

It leads to *owners*, primary keys that have rows (kernels/table_versions.py), not to single versions: a version that follows
another of the same code needs no entry of its own. Which version of an owner is meant, and whether that one has the code, is for
the caller to check.
"""

from __future__ import annotations

import numpy as np

from eddyline.joins.keys import Codes
from eddyline.joins.probe_matches import Ints, Mask, ProbeMatches
from eddyline.joins.table_rows import GrowingArray
from eddyline.kernels import NOTHING, find_owners, link_entries, unlink_entries

LEAST_BUCKETS = 64  # at least 2


class TableIndex:
    """The codes of one key, by row number, and the owners that have them."""

    def __init__(self) -> None:
        self._codes = GrowingArray(np.int64)
        self._is_null = GrowingArray(np.bool_)
        self._rows = GrowingArray(np.int64)  # by entry
        self._chain = GrowingArray(np.int64)  # by entry
        self._buckets = np.full(LEAST_BUCKETS, NOTHING, np.int64)

    def __len__(self) -> int:
        """How many rows it has codes of."""
        return len(self._codes)

    @property
    def n_entries(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        grown = (self._codes, self._is_null, self._rows, self._chain)
        return sum(each.nbytes for each in grown) + int(self._buckets.nbytes)

    def add(self, codes: Codes, is_delete: Mask, older: Ints, newer: Ints) -> None:
        """Take the next rows, given the versions next to each in the chain of its owner, -1 for none."""
        first = len(self)
        is_null = is_delete if codes.is_null is None else codes.is_null | is_delete
        self._codes.extend(codes.codes)
        self._is_null.extend(is_null)
        needs_entry = ~is_null
        for beside in (older, newer):
            needs_entry &= ~self._is_alike(first, beside)
        self._enter(first + np.flatnonzero(needs_entry))

    def _is_alike(self, first: int, beside: Ints) -> Mask:
        """Which of the rows from `first` on have the code of the row beside them."""
        there = np.maximum(beside, 0)
        codes, is_null = self._codes.values, self._is_null.values
        return (beside >= 0) & ~is_null[there] & (codes[there] == codes[first:])

    def _enter(self, rows: Ints) -> None:
        first = self.n_entries
        self._rows.extend(rows)
        self._chain.resize(self.n_entries)
        if self.n_entries > len(self._buckets):
            n_buckets = 1 << int(2 * self.n_entries - 1).bit_length()
            self._buckets, first = np.full(n_buckets, NOTHING, np.int64), 0
        link_entries(self._codes.values, self._rows.values, first, self._buckets, self._chain.values)

    def truncate(self, n: int) -> None:
        """Remove the rows that have numbers from `n` on."""
        first = int(np.searchsorted(self._rows.values, n))
        unlink_entries(self._codes.values, self._rows.values, first, self._buckets, self._chain.values)
        for each in (self._rows, self._chain):
            each.resize(first)
        for mark in (self._codes, self._is_null):
            mark.resize(n)

    def keep(self, rows: Ints, older: Ints) -> None:
        """Keep these rows, ascending, under new numbers from 0 on, given the version behind each under its new number."""
        codes = Codes(self._codes.values[rows], self._is_null.values[rows], is_exact=False)
        new_index = TableIndex()
        new_index.add(codes, np.zeros(len(rows), dtype=bool), older, np.full(len(rows), NOTHING, np.int64))
        for name in ("_codes", "_is_null", "_rows", "_chain", "_buckets"):
            setattr(self, name, getattr(new_index, name))

    def owners(self, wanted_codes: Codes, owner: Ints) -> ProbeMatches:
        """Owners that may have one of these codes, once or several times each; `owner` is that of each row."""
        is_null = (
            np.zeros(len(wanted_codes), dtype=bool) if wanted_codes.is_null is None else wanted_codes.is_null
        )
        codes, room = wanted_codes.codes, 2 * len(wanted_codes) + 16
        while True:
            probes, found = np.empty(room, np.int64), np.empty(room, np.int64)
            n = find_owners(
                codes if codes.flags.writeable else codes.copy(),  # kernels are compiled for arrays like this
                is_null,
                self._codes.values,
                self._rows.values,
                self._buckets,
                self._chain.values,
                owner,
                probes,
                found,
            )
            if n <= room:
                return ProbeMatches(probes[:n], found[:n])
            room = n

    def has_code(self, rows: Ints, wanted_codes: Ints) -> Mask:
        """Which of these rows have the code beside them."""
        return (self._codes.values[rows] == wanted_codes) & ~self._is_null.values[rows]

    def codes_of(self, rows: Ints) -> tuple[Ints, Mask]:
        """Codes of these rows, and which of them mean nothing."""
        return self._codes.values[rows], self._is_null.values[rows]
