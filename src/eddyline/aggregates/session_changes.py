"""Sessions before and after a round as EntryChanges. A session stays the same with its group and start: its end is a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.aggregates.changes import WindowPlaces, are_distinct
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.rows import EntryChanges, Ints, Mask


@dataclass(frozen=True, slots=True)
class SessionRows:
    """Sessions at one time; an identity is a number for group and start."""

    identity: Ints
    group: Ints
    start_us: Ints
    end_us: Ints
    values: Mapping[str, pa.Array]  # of aggregates, by column

    def __len__(self) -> int:
        return len(self.group)

    @property
    def at(self) -> WindowPlaces:
        return WindowPlaces(self.group, self.start_us, self.end_us)


def session_changes(epoch: int, keys: Keys, before: SessionRows, after: SessionRows) -> EntryChanges | None:
    """What of these sessions is different after the round; None: nothing is."""
    _, was, now = np.intersect1d(before.identity, after.identity, return_indices=True)
    same = ~_differ(before, after, was, now)
    is_change = np.ones(len(before) + len(after), dtype=bool)
    is_change[was[same]] = is_change[len(before) + now[same]] = False
    changes = np.flatnonzero(is_change)
    if not len(changes):
        return None
    both = _joined(before, after)
    _, entry = np.unique(both.identity[changes], return_inverse=True)
    newest = np.empty(int(entry.max()) + 1, np.int64)
    newest[entry] = changes  # sessions as they are come behind those as they were
    rank = np.empty(len(newest), np.int64)
    rank[both.at.take(newest).order(keys)] = np.arange(len(newest))
    order = np.lexsort((changes, rank[entry]))
    changes, entry = changes[order], rank[entry][order]
    columns = both.at.take(changes).columns(keys)
    columns |= {name: values.take(pa.array(changes)) for name, values in both.values.items()}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return EntryChanges(epoch, batch, changes >= len(before), entry)


def _differ(before: SessionRows, after: SessionRows, was: Ints, now: Ints) -> Mask:
    """Which of these pairs of the same sessions have another end or other values."""
    differ = before.end_us[was] != after.end_us[now]
    for name, values in before.values.items():
        differ |= are_distinct(values.take(pa.array(was)), after.values[name].take(pa.array(now)))
    return differ


def _joined(before: SessionRows, after: SessionRows) -> SessionRows:
    values = {name: pa.concat_arrays([v, after.values[name]]) for name, v in before.values.items()}
    return SessionRows(
        np.concatenate([before.identity, after.identity]),
        np.concatenate([before.group, after.group]),
        np.concatenate([before.start_us, after.start_us]),
        np.concatenate([before.end_us, after.end_us]),
        values,
    )
