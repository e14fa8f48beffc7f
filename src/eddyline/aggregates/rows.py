"""Rows of a class on their way into aggregates, and what comes out: entries as they were before a round, and after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class TakesRows(Protocol):
    """Partial results by entry."""

    def add(self, entries: Ints, rows: ClassRows) -> None: ...

    def merge(self, into: Ints, other: Any, which: Ints) -> None: ...


@dataclass(frozen=True, slots=True)
class ClassRows:
    """Rows of one class in a round, in order of arrival."""

    columns: pa.RecordBatch  # keys, arguments and FILTER conditions by name
    time_us: Ints  # NO_TIME where there is none
    arrival: Ints
    sign: npt.NDArray[np.int8]  # negative: the row leaves; only over tables
    is_late: Mask
    epoch: Ints  # the newest epoch whose queries see the row
    window_us: Ints | None = None  # the time whose windows hold the row, NO_TIME: none do; None: its own time

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def windowed_us(self) -> Ints:
        """The time whose windows hold each row."""
        return self.time_us if self.window_us is None else self.window_us

    @property
    def last_us(self) -> Ints:
        """The time of the last row of each line."""
        return self.time_us

    @property
    def n_rows(self) -> int:
        return len(self)

    def add_to(self, states: TakesRows, entries: Ints) -> None:
        """Line k goes into entries[k]."""
        states.add(entries, self)

    def take(self, rows: Ints) -> ClassRows:
        """The rows at these places."""
        return ClassRows(
            self.columns.take(pa.array(rows)),
            self.time_us[rows],
            self.arrival[rows],
            self.sign[rows],
            self.is_late[rows],
            self.epoch[rows],
            None if self.window_us is None else self.window_us[rows],
        )


@dataclass(frozen=True, slots=True)
class EntryChanges:
    """Entries that a round changed, as the queries of one epoch see them.

    Each entry has one row as it was, unless it is new, and behind it one as it is, unless it has left. Rows are in canonical
    order: window start, window end, key.
    """

    epoch: int
    columns: (
        pa.RecordBatch
    )  # keys, window, aggregates by name, and those that can overflow with OVERFLOW behind
    is_after: Mask  # by row: as it is after the round
    entry: Ints  # by row: the same for both rows of one entry, ascending
    reason: str = ""  # CLOSED, FORGOTTEN: why entries leave that no row takes away; a closed one is no result
