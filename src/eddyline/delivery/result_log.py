"""The result log in memory: the last results of every query, within a bound for each and for all.

A round appends its matches as they left the filters, nothing per query. Only when somebody reads are a query's results
looked up and projected. When the log outgrows its bytes it is rewritten to what the rings promise: the newest results of each
query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import PartMatches
from eddyline.storage.outbox import StoredPart

ENTRY_BYTES = 2_000  # what an entry costs besides its arrays
KEPT_SHARE = 0.5  # of the byte limit, after the oldest had to go


class Result(dict[str, Any]):
    """A row of a query's answer: a dict of its columns, with where it came from as attributes.

    `change` is `insert` for a row that appeared and `delete` for one that left; `arrival` is the arrival number of the input row,
    which together with query and generation identifies the result.
    """

    __slots__ = ("arrival", "change", "generation", "is_late", "query", "query_id", "round_number")

    def __init__(
        self,
        row: dict[str, Any],
        *,
        query: str,
        query_id: int,
        generation: int,
        round_number: int,
        arrival: int,
        change: str,
        is_late: bool,
    ) -> None:
        super().__init__(row)
        self.query = query
        self.query_id = query_id
        self.generation = generation
        self.round_number = round_number
        self.arrival = arrival
        self.change = change
        self.is_late = is_late

    @property
    def cursor(self) -> str:
        """Where to go on reading after this result: `query.results(after=cursor)`, also in another process."""
        return f"{self.round_number}-{self.arrival}"


@dataclass(slots=True)
class Entry:
    """Matches of one segment in one round; `number` orders entries."""

    number: int
    round_number: int
    version: int
    part: PartMatches | StoredPart
    nbytes: int
    is_compact: bool = False
    _order: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    _sorted_ids: npt.NDArray[np.int32] | None = field(default=None, repr=False)

    def pairs_of(self, query_id: int) -> npt.NDArray[np.int64]:
        """Pairs of one query, in order of arrival."""
        if self._sorted_ids is None or self._order is None:
            ids = self.part.query_ids
            self._order = np.lexsort((self.part.arrivals, ids))
            self._sorted_ids = ids[self._order]
        low, high = np.searchsorted(self._sorted_ids, [query_id, query_id + 1])
        return self._order[low:high]


class ResultLog:
    """Results by query: at most `per_query` of each and `max_bytes` in all."""

    def __init__(self, per_query: int, max_bytes: int) -> None:
        self.per_query = per_query
        self.max_bytes = max_bytes
        self._entries: list[Entry] = []
        self._next_entry = 0
        self._nbytes = 0
        self._counted_batches: dict[int, int] = {}  # id of a batch -> entries that hold it
        self._produced = np.zeros(1024, np.int64)
        self.n_dropped = 0

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @property
    def end(self) -> int:
        """The number of the entry to come: where a new reader starts."""
        return self._next_entry

    def append(self, round_number: int, version: int, part: PartMatches | StoredPart) -> int:
        """Take a round's matches; returns how many results left to make room."""
        ids = part.query_ids
        top = int(ids.max()) + 1
        if top > len(self._produced):
            self._produced = np.concatenate(
                [self._produced, np.zeros(max(top, len(self._produced)), np.int64)]
            )
        self._produced[:top] += np.bincount(ids, minlength=top)
        self._push(Entry(self._next_entry, round_number, version, part, part.nbytes + ENTRY_BYTES))
        self._next_entry += 1
        return self._make_room() if self._nbytes > self.max_bytes else 0

    def produced(self, query_id: int) -> int:
        """How many results the query has had."""
        return int(self._produced[query_id]) if query_id < len(self._produced) else 0

    def kept(self, query_id: int) -> int:
        """How many of them can still be read."""
        return min(self.per_query, sum(len(entry.pairs_of(query_id)) for entry in self._entries))

    def dropped(self, query_id: int) -> int:
        return self.produced(query_id) - self.kept(query_id)

    def read(
        self, query_id: int, *, since: int = 0, newest: int | None = None
    ) -> Iterator[tuple[Entry, pa.RecordBatch, npt.NDArray[np.int64]]]:
        """Results of a query from entry `since` on, oldest first, at most the `newest` ones (and never more than the ring)."""
        wanted = self.per_query if newest is None else min(newest, self.per_query)
        found: list[tuple[Entry, npt.NDArray[np.int64]]] = []
        for entry in reversed(self._entries):
            if entry.number < since or wanted <= 0:
                break
            pairs = entry.pairs_of(query_id)
            if len(pairs):
                found.append((entry, pairs[-wanted:]))
                wanted -= len(found[-1][1])
        for entry, pairs in reversed(found):
            yield entry, entry.part.project(pairs), pairs

    def forget(self, query_id: int) -> None:
        """A dropped query's results go with the next rewrite; its counter ends now."""
        if query_id < len(self._produced):
            self._produced[query_id] = 0

    # ----------------------------------------------------------------------------------------- inside

    def _push(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._nbytes += entry.nbytes
        if isinstance(entry.part, PartMatches):  # parts of one round share their batch: it counts once
            batch = id(entry.part.batch)
            if self._counted_batches.setdefault(batch, 0) == 0:
                self._nbytes += entry.part.batch.nbytes
            self._counted_batches[batch] += 1

    def _make_room(self) -> int:
        """Rewrite the log to each query's newest results; if that is still too much, the oldest rounds go."""
        before = sum(len(entry.part) for entry in self._entries)
        seen = np.zeros(len(self._produced), np.int64)
        kept: list[Entry] = []
        for entry in reversed(self._entries):
            smaller = self._compacted(entry, seen)
            if smaller is not None:
                kept.append(smaller)
        self._refill(reversed(kept))
        while self._nbytes > self.max_bytes * KEPT_SHARE and len(self._entries) > 1:
            self._refill(iter(self._entries[max(1, len(self._entries) // 8) :]))
        dropped = before - sum(len(entry.part) for entry in self._entries)
        self.n_dropped += dropped
        return dropped

    def _refill(self, entries: Iterator[Entry]) -> None:
        entries = iter(list(entries))
        self._entries, self._nbytes, self._counted_batches = [], 0, {}
        for entry in entries:
            self._push(entry)

    def _compacted(self, entry: Entry, seen: npt.NDArray[np.int64]) -> Entry | None:
        """The entry without results beyond their query's ring, holding only the rows it needs. Counts into `seen`."""
        part = entry.part
        ids = part.query_ids
        order = np.lexsort((-part.arrivals, ids))  # newest of each query first
        sorted_ids = ids[order]
        starts = np.searchsorted(sorted_ids, sorted_ids)
        rank = np.arange(len(order)) - starts
        keep = np.sort(order[seen[sorted_ids] + rank < self.per_query])
        seen += np.bincount(ids, minlength=len(seen))
        if not len(keep):
            return None
        if entry.is_compact and len(keep) == len(part):
            return entry
        smaller = part.narrowed(keep)
        return Entry(
            entry.number,
            entry.round_number,
            entry.version,
            smaller,
            smaller.nbytes + ENTRY_BYTES,
            is_compact=True,
        )
