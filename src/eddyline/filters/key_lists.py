"""Key lists: queries with an equality on a selective attribute; a row looks only at those that ask for its own key.

An *entry* is a key of a query with the query's intervals on other attributes: one for `=`, one per value for IN. The entries of
a key form a list. In it they ascend by the low of the most selective attribute, and each knows how far the highs up to it reach,
so that in a long list two searches cut off what cannot match; what is left is compared four entries at a time.

A table gives the list of a key: by key where keys are dense, as those of strings are, else a hash table with open addressing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from eddyline.batch import ListHits, QueryIds
from eddyline.filters.keys import KeyColumn, Keys
from eddyline.filters.leaf_blocks import null_rows, passing_shares
from eddyline.filters.live_lanes import LiveLanes, differs_from_last
from eddyline.kernels import (
    LONG_LIST,
    QUAD,
    fill_reach,
    fill_table,
    find_dense_lists,
    find_lists,
    gather_rows,
    match_lists,
    read_only,
)

Int64s = npt.NDArray[np.int64]

DENSE = 4  # keys there may be in the range of keys for each that has a list, for a table by key
# Rows of the same key are taken together where there are two or more for a key on average, each looks at more than 4 KiB, and the
# entries do not stay in the cache anyway: 1.4 to 1.6 times as fast with 13 rows and 200 entries for a key, else slower.
GROUP_ROWS, GROUP_BYTES, CACHED_BYTES = 2, 4 << 10, 4 << 20

FIRST_IDS = 1024  # space for so many ids is made at first, and for one in
FIRST_SHARE = 4  # so many entries looked at

_NO_NULLS = read_only(np.empty(0, np.bool_))
_AS_THEY_COME = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class KeyLists:
    """Entries by key, each with one interval on each of `attributes`; immutable."""

    key_attribute: int
    attributes: tuple[int, ...]  # most selective first
    ids: QueryIds  # of entries
    live: LiveLanes
    bounds: Keys  # [quad, attribute, low or high, entry of the quad]
    spans: Keys  # [entry, 2] flat: low on the first attribute, greatest high so far in the list; empty where no list is long
    first_key: int
    list_starts: npt.NDArray[np.int32]  # table by key, empty where there is a hash table
    table: Int64s  # hash table, empty where there is one by key
    n_keys: int

    @classmethod
    def build(
        cls,
        ids: QueryIds,
        key_attribute: int,
        keys: Keys,
        attributes: tuple[int, ...],
        lows: Keys,
        highs: Keys,
    ) -> Self:
        """Make lists of entries: entry e is for rows with key keys[e] and lows[k, e] <= value <= highs[k, e] on attributes[k].

        It belongs to query ids[e], which may have several entries, but only one for a key.
        Attributes are positions among the columns given to `probe`.
        """
        n = len(ids)
        assert n < 1 << 31, n
        assert keys.shape == (n,), (keys.shape, n)
        assert lows.shape == highs.shape == (len(attributes), n), (lows.shape, highs.shape, attributes, n)
        by_share = np.argsort(passing_shares(lows, highs), kind="stable")
        order = np.lexsort((lows[by_share[0]], keys)) if len(attributes) else np.argsort(keys)
        n_quads = -(-n // QUAD)
        bounds = np.empty((n_quads, len(attributes), 2, QUAD), np.int64)
        filled = np.zeros(n_quads * QUAD, np.int64)  # no row looks at what follows the last entry
        for side, all_bounds in enumerate((lows, highs)):
            for k, attribute in enumerate(by_share):
                filled[:n] = all_bounds[attribute, order]
                bounds[:, k, side] = filled.reshape(n_quads, QUAD)
        sorted_keys = keys[order]
        starts = np.flatnonzero(differs_from_last(sorted_keys))
        ends = np.append(starts[1:], n)[: len(starts)]
        has_long = bool(len(attributes)) and int((ends - starts).max(initial=0)) > LONG_LIST
        spans = np.empty(2 * n if has_long else 0, np.int64)
        if has_long:
            spans[::2] = lows[by_share[0], order]
            fill_reach(starts, ends, highs[by_share[0], order], spans)
        list_starts, table = _tables(sorted_keys[starts], starts, ends)
        sorted_ids = ids[order]
        return cls(
            key_attribute,
            tuple(attributes[k] for k in by_share),
            read_only(sorted_ids),
            LiveLanes.build(sorted_ids),
            read_only(bounds),
            read_only(spans),
            int(sorted_keys[0]) if n else 0,
            read_only(list_starts),
            read_only(table),
            len(starts),
        )

    def probe(self, columns: Sequence[KeyColumn], n_rows: int) -> ListHits:
        """The queries each row satisfies; a row with NULL in the key or one of the attributes satisfies none."""
        used = [columns[attribute] for attribute in self.attributes]
        key_column = columns[self.key_attribute]
        starts, ends = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32)
        n_entries = self._find(key_column, used, starts, ends)
        if not n_entries:
            return ListHits(np.zeros(n_rows + 1, np.int64), np.empty(0, np.int32))
        values = np.empty((n_rows, len(used)), np.int64)
        for k, column in enumerate(used):
            values[:, k] = column.keys
        is_grouped = self._pays_to_group(n_rows, n_entries)
        order = np.argsort(starts) if is_grouped else _AS_THEY_COME
        begins = np.empty(n_rows + 1, np.int64)
        ids = np.empty(min(n_entries, FIRST_IDS + n_entries // FIRST_SHARE), np.int32)
        done = n = 0
        while True:
            done, n = match_lists(
                values.reshape(-1),
                len(used),
                order,
                starts,
                ends,
                self.bounds,
                self.spans,
                self.live.words,
                self.ids,
                done,
                n,
                begins,
                ids,
            )
            if done == n_rows:
                break
            more = np.empty(min(n_entries, 2 * len(ids) + 1), np.int32)
            more[:n] = ids[:n]
            ids = more
        begins[n_rows] = n
        if is_grouped:
            return _in_row_order(begins, order, ids)
        return ListHits(begins, ids[:n].copy() if 2 * n < len(ids) else ids[:n])

    def _find(
        self,
        key_column: KeyColumn,
        used: Sequence[KeyColumn],
        starts: npt.NDArray[np.int32],
        ends: npt.NDArray[np.int32],
    ) -> int:
        """Write where each row's list starts and ends; gives how many entries that is."""
        is_null = null_rows([key_column, *used])
        is_null = _NO_NULLS if is_null is None else read_only(is_null)
        keys = read_only(np.ascontiguousarray(key_column.keys))
        if len(self.list_starts):
            n_entries = find_dense_lists(keys, is_null, self.first_key, self.list_starts, starts, ends)
        else:
            n_entries = find_lists(keys, is_null, _shift(self.table), self.table, starts, ends)
        return int(n_entries)

    def _pays_to_group(self, n_rows: int, n_entries: int) -> bool:
        return (
            n_rows >= GROUP_ROWS * self.n_keys
            and n_entries * len(self.attributes) * 16 >= GROUP_BYTES * n_rows
            and self.bounds.nbytes > CACHED_BYTES
        )

    def without(self, ids: QueryIds) -> Self:
        """The same queries but these; ids that are not here are ignored."""
        return replace(self, live=self.live.without(ids))

    @property
    def n_queries(self) -> int:
        """The number of live queries."""
        return self.live.n_queries

    def live_ids(self) -> QueryIds:
        return self.live.live_ids()

    @property
    def nbytes(self) -> int:
        own = (self.ids, self.bounds, self.spans, self.list_starts, self.table)
        return self.live.nbytes + sum(array.nbytes for array in own)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All that `from_arrays` needs."""
        return {
            "numbers": np.array([self.key_attribute, self.first_key, self.n_keys], np.int64),
            "attributes": np.array(self.attributes, np.int64),
            "ids": self.ids,
            "bounds": self.bounds,
            "spans": self.spans,
            "list_starts": self.list_starts,
            "table": self.table,
            **self.live.arrays(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The structure that gave these arrays, looking into them."""
        key_attribute, first_key, n_keys = arrays["numbers"].tolist()
        ids, bounds, spans, list_starts, table = (
            read_only(np.asarray(arrays[name])) for name in ("ids", "bounds", "spans", "list_starts", "table")
        )
        attributes, live = tuple(arrays["attributes"].tolist()), LiveLanes.from_arrays(arrays)
        return cls(key_attribute, attributes, ids, live, bounds, spans, first_key, list_starts, table, n_keys)

    def check(self) -> None:
        """Assert that lists cover all entries, once each, in the order the searches rely on."""
        n = len(self.ids)
        self.live.check(self.ids)
        starts, ends = self._lists()
        assert len(starts) == self.n_keys, f"{len(starts)} lists, {self.n_keys} keys"
        assert np.array_equal(np.append(starts, n), np.append(0, ends)[: len(starts) + 1]), (
            "lists leave gaps, or overlap"
        )
        is_first = np.zeros(n, np.bool_)
        is_first[starts] = True
        if self.attributes:
            lows, highs = (self.bounds[:, 0, side].reshape(-1)[:n] for side in (0, 1))
            assert bool(np.all(is_first[1:] | (lows[1:] >= lows[:-1]))), "a list is out of order"
            if len(self.spans):
                reach = self.spans[1::2]
                assert np.array_equal(lows, self.spans[::2]), "lows differ"
                assert bool(np.all(is_first[1:] | (reach[1:] >= reach[:-1]))), "a reach shrinks"
                assert bool(np.all(reach >= highs)), "an entry reaches farther"

    def _lists(self) -> tuple[Int64s, Int64s]:
        """Start and end of each list, ascending."""
        if len(self.list_starts):
            starts, ends = self.list_starts[:-1].astype(np.int64), self.list_starts[1:].astype(np.int64)
            return starts[starts < ends], ends[starts < ends]
        packed = self.table.reshape(-1, 2)[:, 1]
        starts = np.sort(packed[packed != 0] & 0xFFFFFFFF)
        ends = np.sort(packed[packed != 0] >> 32)
        return starts, ends


def _shift(table: Int64s) -> int:
    """64 less the number of bits that number the slots of a hash table."""
    return 65 - (len(table) // 2).bit_length()


def _tables(keys: Keys, starts: Int64s, ends: Int64s) -> tuple[npt.NDArray[np.int32], Int64s]:
    """A table by key and a hash table for these keys, which ascend; one of the two is empty."""
    if len(keys) and int(keys[-1]) - int(keys[0]) < DENSE * len(keys):
        n_entries = np.zeros(int(keys[-1]) - int(keys[0]) + 3, np.int64)
        n_entries[keys - keys[0] + 1] = ends - starts
        return np.cumsum(n_entries).astype(np.int32), np.empty(0, np.int64)
    n_slots = 1 << max(1, (2 * len(keys) - 1).bit_length())  # at most half of them taken
    table = np.zeros(2 * n_slots, np.int64)
    fill_table(keys, starts, ends, _shift(table), table)
    return np.empty(0, np.int32), table


def _in_row_order(begins: Int64s, order: Int64s, ids: QueryIds) -> ListHits:
    """Ids that were found for rows in this order, put in the order of rows."""
    ends = begins[np.append(order[1:], len(order))]
    offsets = np.zeros(len(begins), np.int64)
    offsets[order + 1] = ends - begins[order]
    offsets.cumsum(out=offsets)
    in_order = np.empty(offsets[-1], np.int32)
    gather_rows(begins, offsets, ids, in_order)
    return ListHits(offsets, in_order)
