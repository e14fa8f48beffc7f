"""What every structure of aggregates is to the operator that calls it: one per class of rows and form of grouping.

Queries of different age see different rows of a class. A version in which queries join a class opens an *epoch*, named by that
version. A row is in the newest epoch whose queries see it; a query reads its own epoch and all newer ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from eddyline.aggregates.partials import PartialRows
from eddyline.aggregates.rows import ClassRows, EntryChanges, Mask
from eddyline.model import AggregateCall, Aggregation, TemporalBound

GONE = "#gone"  # a column of saved entries: the entry has left


@dataclass(frozen=True, slots=True)
class Reader:
    """An aggregation that live queries read."""

    aggregation: Aggregation
    calls: tuple[AggregateCall, ...]  # all that some query needs
    epochs: tuple[int, ...]  # those with live queries, ascending
    deadlines: tuple[TemporalBound, ...] = ()  # comparisons of TIMESTAMP calls, by name, with now() in HAVING


@dataclass(frozen=True, slots=True)
class RoundTime:
    """The times of a round, in microseconds; None: there is no watermark yet, or was no round before."""

    now_us: int
    before_us: int | None  # the watermark of the class before the round
    after_us: int | None  # and as it will stand after it
    now_before_us: int | None = None  # that of the round before, also if it was before a restart


class Structure(Protocol):
    """The state of one class for one form of grouping: running groups, windows, sessions, rows of a temporal filter."""

    def build(self, readers: Sequence[Reader]) -> None:
        """Adopt the readers of a version, between rounds. State that none of them reads goes."""

    def beyond(self, rows: ClassRows, now_us: int, most_groups: int) -> Mask:
        """Which rows would begin a group when there are so many, before the `push` of the round; not over tables."""

    def push(self, rows: ClassRows, time: RoundTime) -> Iterator[tuple[Aggregation, EntryChanges]]:
        """The net changes of a round, once for each round, also without rows; all of it must be taken.

        The state stays as it was until the round commits.
        """

    def current(self, aggregation: Aggregation, epoch: int) -> pa.RecordBatch:
        """All entries as the queries of an epoch see them after the `push` of the running round, in canonical order."""

    def next_deadline(self) -> int | None:
        """The first time after that of the last round at which time alone may change an entry."""

    def commit(self) -> None:
        """Keep what the round did."""

    def rollback(self) -> None:
        """Forget it."""

    def save(self) -> pa.RecordBatch | None:
        """The entries that the running round changes, each whole, with GONE where one leaves; None: it changes nothing."""

    def whole(self) -> pa.RecordBatch | None:
        """All entries, as `save` would give them."""

    def load(self, saved: Sequence[pa.RecordBatch]) -> None:
        """Entries as they were saved, the oldest first: of each the newest counts."""

    @property
    def nbytes(self) -> int:
        """What it keeps."""

    def snapshot(self) -> dict[str, Any]:
        """Numbers for explain: groups, entries, bytes."""

    def check(self) -> None:
        """Assert its invariants, between rounds."""


class MergingStructure(Structure, Protocol):
    """A structure that needs no single row: places without state make partial results of rows, and it takes these instead."""

    def partial(self, rows: ClassRows) -> PartialRows:
        """What rows of one epoch, or lines that are partial results of some, come to. It changes nothing."""

    def merge(self, parts: Sequence[tuple[pa.RecordBatch, int]], epoch: int) -> PartialRows:
        """What `partial` has made elsewhere of rows of this epoch, to be pushed; with each part, as it was stored, the arrival
        number of its first row. The same parts in the same order give the same bits."""
