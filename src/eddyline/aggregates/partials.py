"""Partial results on their way: what the rows of a class come to in a place that holds no state, for the place that does.

A task folds its rows into lines, one for each key and slice, or piece of a session. A line stands for its rows: it goes into
entries as they would, by merging what they come to. Lines are folded like rows, so what a task folds in several steps becomes
one line again; how large it is depends on keys and slices, not on rows.

In a task arrival numbers count from 0. The place that merges lines knows the number of the task's first row, and adds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.aggregates.call_states import CallStates
from eddyline.aggregates.key_table import KeyTable, fixed_words
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.rows import ClassRows, Ints, TakesRows

_START, _LAST = "#start", "#last"  # columns of stored lines: the times of the first row and of the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialRows(ClassRows):
    """Lines with partial results, where `ClassRows` has rows. Of a line the time is where its slice or piece begins."""

    states: CallStates
    places: Ints  # of the lines, in the states
    ends: Ints  # the time of the last row; where only the slice matters, its start

    @property
    def last_us(self) -> Ints:
        return self.ends

    @property
    def n_rows(self) -> int:
        return int(self.states.n_rows(self.places).sum())

    def add_to(self, states: TakesRows, entries: Ints) -> None:
        states.merge(entries, self.states, self.places)

    def take(self, rows: Ints) -> PartialRows:
        columns = self.columns.take(pa.array(rows))
        return partial_rows(
            columns, self.time_us[rows], self.ends[rows], self.states, self.places[rows], self.epoch[rows]
        )


def partial_rows(
    keys: pa.RecordBatch, starts: Ints, ends: Ints, states: CallStates, places: Ints, epoch: Ints
) -> PartialRows:
    """Lines of rows that took part; what took no part is in none."""
    n = len(places)
    return PartialRows(
        keys,
        starts,
        np.zeros(n, np.int64),
        np.ones(n, np.int8),
        np.zeros(n, dtype=bool),
        epoch,
        states=states,
        places=places,
        ends=ends,
    )


def folded(rows: ClassRows, keys: pa.Schema, marks: Ints, empty: CallStates) -> PartialRows:
    """A line for each key and mark, which becomes its time; in the order in which they first come."""
    table, numbers = KeyTable(), Keys(keys)
    lines = table.number(fixed_words(numbers.number(rows.columns), marks))
    key, mark = table.words_of(np.arange(table.n_numbers)).words.reshape(-1, 2).T
    return folded_lines(rows, lines, numbers.columns(key), mark, mark, empty)


def folded_lines(
    rows: ClassRows, lines: Ints, keys: pa.RecordBatch, starts: Ints, ends: Ints, empty: CallStates
) -> PartialRows:
    """Row k goes into lines[k]. All rows are of one epoch."""
    n = len(starts)
    states = empty.like(n)
    rows.add_to(states, lines)
    return partial_rows(keys, starts, ends, states, np.arange(n), np.full(n, rows.epoch.max(initial=0)))


def joined_lines(parts: Sequence[PartialRows]) -> PartialRows:
    """Lines one behind the other."""
    states, end = parts[0].states.like(sum(map(len, parts))), 0
    for part in parts:
        states.copy(np.arange(end, end + len(part)), part.states, part.places)
        end += len(part)
    starts, ends, epoch = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("time_us", "ends", "epoch")
    )
    keys = pa.concat_batches([part.columns for part in parts])
    return partial_rows(keys, starts, ends, states, np.arange(end), epoch)


def stored_lines(rows: PartialRows) -> pa.RecordBatch:
    """Lines as columns, to be handed on. The epoch is not among them: it is that of the round."""
    columns = dict(zip(rows.columns.schema.names, rows.columns.columns, strict=True))
    columns |= {_START: pa.array(rows.time_us), _LAST: pa.array(rows.ends)}
    states = rows.states.to_batch(rows.places)
    return pa.RecordBatch.from_pydict(columns | dict(zip(states.schema.names, states.columns, strict=True)))


def merged_lines(
    stored: Sequence[tuple[pa.RecordBatch, int]], keys: pa.Schema, epoch: int, empty: CallStates
) -> PartialRows:
    """The inverse of `stored_lines`, of several tasks one behind the other; with each the arrival number of its first row."""
    batches = [batch for batch, _ in stored]
    n = sum(batch.num_rows for batch in batches)
    states, end = empty.like(n), 0
    for batch, first in stored:
        places = np.arange(end, end + batch.num_rows)
        states.load(places, batch)
        states.renumber(places, first)
        end += batch.num_rows
    starts, ends = (
        np.concatenate([np.empty(0, np.int64), *(np.asarray(batch.column(name)) for batch in batches)])
        for name in (_START, _LAST)
    )
    return partial_rows(
        pa.concat_batches([batch.select(keys.names) for batch in batches]),
        starts,
        ends,
        states,
        np.arange(n),
        np.full(n, epoch),
    )
