"""Entries as they were and as they are, beside each other: what has changed, in canonical order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.aggregates.call_states import CallStates
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.rows import EntryChanges, Ints, Mask
from eddyline.model import OVERFLOW, WINDOW, WINDOW_TYPE, AggregateCall
from eddyline.types import TIMESTAMP, is_floating, is_nested


@dataclass(frozen=True, slots=True)
class Places:
    """Where entries are in an answer: by the numbers of their keys."""

    key: Ints

    def __len__(self) -> int:
        return len(self.key)

    def take(self, at: Ints) -> Places:
        return Places(self.key[at])

    def order(self, keys: Keys) -> Ints:
        """Canonical: by key."""
        return keys.order(self.key)

    def columns(self, keys: Keys) -> dict[str, pa.Array]:
        """The columns that tell entries apart, by name."""
        batch = keys.columns(self.key)
        return dict(zip(batch.schema.names, batch.columns, strict=True))


@dataclass(frozen=True, slots=True)
class WindowPlaces(Places):
    """By key and window."""

    start_us: Ints
    end_us: Ints

    def take(self, at: Ints) -> WindowPlaces:
        return WindowPlaces(self.key[at], self.start_us[at], self.end_us[at])

    def order(self, keys: Keys) -> Ints:
        """Canonical: by window start, window end, key."""
        return keys.order(self.key, self.start_us, self.end_us)

    def columns(self, keys: Keys) -> dict[str, pa.Array]:
        bounds = [pa.array(times).cast(TIMESTAMP) for times in (self.start_us, self.end_us)]
        window = pa.StructArray.from_arrays(bounds, fields=list(WINDOW_TYPE))
        return Places.columns(self, keys) | {WINDOW: window}


@dataclass(frozen=True, slots=True)
class Side:
    """The values of entries at one time, and which of them are there."""

    values: Mapping[str, pa.Array]
    is_there: Mask


def side(states: CallStates, calls: Sequence[AggregateCall], is_there: Mask | None = None) -> Side:
    """The values of these calls; entries are there if they have rows, or as is said."""
    entries = np.arange(states.n)
    values = states.values(entries)
    if is_there is None:
        is_there = states.n_rows(entries) > 0
    return Side({name: values[name] for name in value_names(calls)}, is_there)


def value_names(calls: Sequence[AggregateCall]) -> list[str]:
    """Names of the columns of calls, each with whether it overflows behind it."""
    return [name for c in calls for name in ((c.name, c.name + OVERFLOW) if c.can_overflow else (c.name,))]


def entry_changes(epoch: int, keys: Keys, at: Places, before: Side, after: Side) -> EntryChanges | None:
    """The entries that differ, each as it was and as it is; None: there are none."""
    differs = before.is_there != after.is_there
    both = np.flatnonzero(before.is_there & after.is_there)
    for name, values in before.values.items():
        both = both[~differs[both]]
        differs[both] |= are_distinct(values.take(pa.array(both)), after.values[name].take(pa.array(both)))
    changed = np.flatnonzero(differs)
    changed = changed[at.take(changed).order(keys)]
    rows = np.stack([changed, changed + len(differs)], axis=1)
    is_row = np.stack([before.is_there[changed], after.is_there[changed]], axis=1)
    if not is_row.any():
        return None
    entry, is_after = np.nonzero(is_row)
    joined = {n: pa.concat_arrays([v, after.values[n]]) for n, v in before.values.items()}
    batch = _batch(keys, at.take(changed[entry]), joined, rows[is_row])
    return EntryChanges(epoch, batch, is_after.astype(bool), entry)


def entries_once(
    epoch: int, keys: Keys, at: Places, values: Side, *, is_after: bool, reason: str = ""
) -> EntryChanges | None:
    """Entries that are only as they were, or only as they are; None: there are none."""
    there = np.flatnonzero(values.is_there)
    if not len(there):
        return None
    batch, n = answer(keys, at, values), len(there)
    return EntryChanges(epoch, batch, np.full(n, is_after), np.arange(n), reason)


def answer(keys: Keys, at: Places, values: Side) -> pa.RecordBatch:
    """The entries that are there, in canonical order."""
    there = np.flatnonzero(values.is_there)
    there = there[at.take(there).order(keys)]
    return _batch(keys, at.take(there), values.values, there)


def _batch(keys: Keys, at: Places, values: Mapping[str, pa.Array], rows: Ints) -> pa.RecordBatch:
    places = pa.array(rows)
    columns = at.columns(keys) | {name: column.take(places) for name, column in values.items()}
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def are_distinct(left: pa.Array, right: pa.Array) -> Mask:
    """Where values differ: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0."""
    t = left.type
    if pa.types.is_null(t):
        return np.zeros(len(left), dtype=bool)
    one_null = np.asarray(pc.xor(left.is_null(), right.is_null()))
    if pa.types.is_struct(t):
        inside = np.zeros(len(left), dtype=bool)
        for at in range(t.num_fields):
            inside |= are_distinct(left.field(at), right.field(at))
        return np.asarray(one_null | (inside & np.asarray(left.is_valid())))
    if is_nested(t):  # Arrow does not compare them
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.array([repr(a) != repr(b) for a, b in pairs], dtype=bool)
    if is_floating(t):
        a, b = (np.asarray(values.fill_null(0.0)) for values in (left, right))
        return np.asarray(one_null | ~((a == b) | (np.isnan(a) & np.isnan(b))))
    return np.asarray(one_null | np.asarray(pc.not_equal(left, right).fill_null(False)))
