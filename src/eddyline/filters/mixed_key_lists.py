"""Key lists of queries that compare different attributes besides the key: one look-up of the key for all of them.

An attribute that a query does not ask about has the interval of all keys. Only NULL needs care: it must fail queries that ask and
pass those that do not. So a row with NULL goes through with the lowest key, and of its hits those whose query asks are taken out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from eddyline.batch import ListHits, QueryIds
from eddyline.filters.key_lists import KeyLists
from eddyline.filters.keys import LOWEST, KeyColumn, Keys
from eddyline.model import ascending

AskedBits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class MixedKeyLists:
    """Key lists, and which attributes each query asks about: bit k of its byte is `attributes[k]`."""

    lists: KeyLists
    attributes: tuple[int, ...]
    known_ids: QueryIds  # ascending
    asked_bits: AskedBits  # beside them

    @classmethod
    def build(
        cls,
        ids: QueryIds,
        key_attribute: int,
        keys: Keys,
        attributes: tuple[int, ...],
        lows: Keys,
        highs: Keys,
        asked_bits: AskedBits,
    ) -> Self:
        """As for `KeyLists`; `asked_bits[e]` has a bit for each attribute that the query of entry e asks about."""
        lists = KeyLists.build(ids, key_attribute, keys, attributes, lows, highs)
        known = ascending(ids)
        bits = np.zeros(len(known), np.uint8)
        bits[np.searchsorted(known, ids)] = asked_bits
        return cls(lists, attributes, known, bits)

    @property
    def key_attribute(self) -> int:
        return self.lists.key_attribute

    def probe(self, columns: Sequence[KeyColumn], n_rows: int) -> ListHits:
        """The queries each row satisfies."""
        with_nulls = [k for k, number in enumerate(self.attributes) if columns[number].is_null is not None]
        if not with_nulls:
            return self.lists.probe(columns, n_rows)
        filled = list(columns)
        is_missing = np.zeros(n_rows, np.uint8)
        for k in with_nulls:
            column = columns[self.attributes[k]]
            assert column.is_null is not None
            is_missing |= column.is_null.astype(np.uint8) << np.uint8(k)
            if self.attributes[k] != self.key_attribute:
                filled[self.attributes[k]] = KeyColumn(np.where(column.is_null, LOWEST, column.keys), None)
        found = self.lists.probe(filled, n_rows)
        rows = found.rows
        asked_bits = self.asked_bits[np.searchsorted(self.known_ids, found.ids)]
        passes = (is_missing[rows] & asked_bits) == 0
        offsets = np.zeros(n_rows + 1, np.int64)
        np.cumsum(np.bincount(rows[passes], minlength=n_rows), out=offsets[1:])
        return ListHits(offsets, found.ids[passes])

    def without(self, ids: QueryIds) -> Self:
        return replace(self, lists=self.lists.without(ids))

    @property
    def n_queries(self) -> int:
        return self.lists.n_queries

    def live_ids(self) -> QueryIds:
        return self.lists.live_ids()

    @property
    def nbytes(self) -> int:
        return int(self.lists.nbytes + self.known_ids.nbytes + self.asked_bits.nbytes)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        arrays = self.lists.arrays()
        arrays["mixed.attributes"] = np.array(self.attributes, np.int64)
        arrays["mixed.ids"] = self.known_ids
        arrays["mixed.asked"] = self.asked_bits
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        rest = {name: array for name, array in arrays.items() if not name.startswith("mixed.")}
        attributes = tuple(int(number) for number in arrays["mixed.attributes"])
        return cls(KeyLists.from_arrays(rest), attributes, arrays["mixed.ids"], arrays["mixed.asked"])

    def check(self) -> None:
        self.lists.check()
        assert (np.diff(self.known_ids) > 0).all(), "known ids are not ascending"
        assert len(self.asked_bits) == len(self.known_ids), (len(self.asked_bits), len(self.known_ids))
