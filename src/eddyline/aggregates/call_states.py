"""Partial results of calls that join and leave while entries stay: sheets of states, one for the calls of each version that
brought new ones. So an aggregate that is new to a class moves no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pyarrow as pa

from eddyline.aggregates.rows import ClassRows, Ints
from eddyline.aggregates.states import States
from eddyline.model import AggregateCall


class CallStates:
    """States of the calls that some query needs. The first sheet has no calls and counts rows."""

    def __init__(self, *, is_signed: bool = False, n: int = 0) -> None:
        self.is_signed = is_signed
        self.n = n
        self._sheets: dict[tuple[AggregateCall, ...], States] = {}
        self._add_sheet(())

    def set_calls(self, calls: Sequence[AggregateCall]) -> None:
        """Take up calls that are new, with empty states, and drop sheets that no call is on."""
        for on_sheet in [on_sheet for on_sheet in self._sheets if on_sheet]:
            if not set(on_sheet) & set(calls):
                del self._sheets[on_sheet]
        new = tuple(call for call in dict.fromkeys(calls) if call not in self.calls)
        if new:
            self._add_sheet(new)

    @property
    def calls(self) -> set[AggregateCall]:
        """All that have states."""
        return {call for on_sheet in self._sheets for call in on_sheet}

    def like(self, n: int) -> CallStates:
        """So many empty entries for the same calls."""
        other = CallStates(is_signed=self.is_signed, n=n)
        other._sheets = {on_sheet: states.like(n) for on_sheet, states in self._sheets.items()}
        return other

    def _add_sheet(self, calls: tuple[AggregateCall, ...]) -> None:
        self._sheets[calls] = states = States(calls, is_signed=self.is_signed)
        states.resize(self.n)

    # ------------------------------------------------------------------------------------------- as States

    def resize(self, n: int) -> None:
        for states in self._sheets.values():
            states.resize(n)
        self.n = n

    def clear(self, entries: Ints) -> None:
        for states in self._sheets.values():
            states.clear(entries)

    def add(self, entries: Ints, rows: ClassRows) -> None:
        for states in self._sheets.values():
            states.add(entries, rows)

    def merge(self, into: Ints, other: Self, which: Ints) -> None:
        for on_sheet, states in self._sheets.items():
            states.merge(into, other._sheets[on_sheet], which)

    def copy(self, into: Ints, other: Self, which: Ints) -> None:
        for on_sheet, states in self._sheets.items():
            states.copy(into, other._sheets[on_sheet], which)

    def subtract(self, into: Ints, other: Self, which: Ints) -> None:
        for on_sheet, states in self._sheets.items():
            states.subtract(into, other._sheets[on_sheet], which)

    def renumber(self, entries: Ints, first: int) -> None:
        for states in self._sheets.values():
            states.renumber(entries, first)

    @property
    def is_invertible(self) -> bool:
        return all(states.is_invertible for states in self._sheets.values())

    def n_rows(self, entries: Ints) -> Ints:
        return self._sheets[()].n_rows(entries)

    def values(self, entries: Ints) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        for on_sheet, states in self._sheets.items():
            if on_sheet:
                columns |= states.values(entries)
        return columns

    def to_batch(self, entries: Ints) -> pa.RecordBatch:
        columns: dict[str, pa.Array] = {}
        for states in self._sheets.values():
            saved = states.to_batch(entries)
            columns = dict(zip(saved.schema.names, saved.columns, strict=True)) | columns
        return pa.RecordBatch.from_pydict(columns)

    def load(self, entries: Ints, batch: pa.RecordBatch) -> None:
        """Entries as they were saved; states of calls that are not in the batch are empty."""
        for states in self._sheets.values():
            states.load(entries, batch)

    @property
    def nbytes(self) -> int:
        return sum(states.nbytes for states in self._sheets.values())

    def check(self) -> None:
        for states in self._sheets.values():
            states.check()
