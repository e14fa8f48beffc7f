"""Live lanes: which places of a structure still hold a query, and where a query has its places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from eddyline.batch import QueryIds
from eddyline.kernels import read_only
from eddyline.model import ascending

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class LiveLanes:
    """A bit per lane, set while its query lives; the lanes of a query live and die together."""

    words: Words  # lane l is bit l % 64 of words[l // 64]
    n_queries: int  # live
    sorted_ids: QueryIds  # of all lanes
    lanes: npt.NDArray[np.int32]  # of sorted_ids

    @classmethod
    def build(cls, ids: QueryIds) -> Self:
        """All lanes live, lane l with query ids[l]."""
        n_words = -(-len(ids) // 64)
        words = np.full(n_words, ~np.uint64(0))
        if len(ids) % 64:
            words[-1] = (1 << len(ids) % 64) - 1
        lanes = np.argsort(ids).astype(np.int32)
        sorted_ids = ids[lanes]
        n_queries = int(np.count_nonzero(differs_from_last(sorted_ids)))
        return cls(read_only(words), n_queries, read_only(sorted_ids), read_only(lanes))

    def without(self, ids: QueryIds) -> Self:
        """The same lanes, those of these queries dead; ids that are not here are ignored."""
        ids = ascending(np.asarray(ids, np.int32))
        first = np.searchsorted(self.sorted_ids, ids, "left")
        n_lanes = np.searchsorted(self.sorted_ids, ids, "right") - first
        first, n_lanes = first[n_lanes > 0], n_lanes[n_lanes > 0]
        n_died = int(np.count_nonzero(self._is_live(self.lanes[first])))
        before = np.cumsum(n_lanes) - n_lanes
        lanes = self.lanes[np.repeat(first - before, n_lanes) + np.arange(n_lanes.sum())]
        words = self.words.copy()
        np.bitwise_and.at(words, lanes >> 6, ~(np.uint64(1) << (lanes & 63).astype(np.uint64)))
        return replace(self, words=read_only(words), n_queries=self.n_queries - n_died)

    def live_ids(self) -> QueryIds:
        """Each live query once, ascending."""
        return self.sorted_ids[differs_from_last(self.sorted_ids) & self._is_live(self.lanes)]

    def _is_live(self, lanes: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        return (self.words[lanes >> 6] >> (lanes & 63).astype(np.uint64) & np.uint64(1)).astype(np.bool_)

    @property
    def nbytes(self) -> int:
        return int(self.words.nbytes + self.sorted_ids.nbytes + self.lanes.nbytes)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "live": self.words,
            "n_queries": np.array([self.n_queries], np.int64),
            "sorted_ids": self.sorted_ids,
            "lanes": self.lanes,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        words, sorted_ids, lanes = (
            read_only(np.asarray(arrays[name])) for name in ("live", "sorted_ids", "lanes")
        )
        return cls(words, int(arrays["n_queries"][0]), sorted_ids, lanes)

    def check(self, ids: QueryIds) -> None:
        """Assert that this belongs to lanes with these ids."""
        n = len(ids)
        assert len(self.words) == -(-n // 64), f"{len(self.words)} words for {n} lanes"
        assert np.array_equal(np.sort(self.lanes), np.arange(n)), "a lane is missing, or there twice"
        assert np.array_equal(self.sorted_ids, ids[self.lanes]), "ids and lanes do not agree"
        assert n == 0 or (self.sorted_ids[0] >= 1 and bool(np.all(np.diff(self.sorted_ids) >= 0))), (
            "ids out of order"
        )
        is_live = self._is_live(self.lanes)
        assert int(np.bitwise_count(self.words).sum()) == np.count_nonzero(is_live), (
            "a bit behind the last lane"
        )
        same_query = self.sorted_ids[1:] == self.sorted_ids[:-1]
        assert not np.any(same_query & (is_live[1:] != is_live[:-1])), "a query is half alive"
        assert self.n_queries == len(self.live_ids()), (
            f"{self.n_queries} counted, {len(self.live_ids())} alive"
        )


def differs_from_last(ascending: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a number is not the one before it."""
    differs = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=differs[1:])
    return differs
