"""Rows of a class and changes of entries, written and read by tests of structures of aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.aggregates import ClassRows, EntryChanges
from eddyline.model import NO_TIME, AggregateCall

COUNT = AggregateCall("count", (), (), pa.int64())
SUM = AggregateCall("sum", ("x",), (pa.int64(),), pa.int64())
MAX = AggregateCall("max", ("y",), (pa.float64(),), pa.float64())
LAST = AggregateCall("last", ("x",), (pa.int64(),), pa.int64())
ALL_CALLS = (COUNT, SUM, MAX, LAST)

Key = tuple[Any, ...]
Entry = tuple[Any, ...]  # key columns, window if there is one: what tells entries apart


@dataclass(frozen=True)
class Row:
    """A row as a test writes it."""

    key: Key
    x: int | None = None
    y: float | None = None
    time: int | None = None
    epoch: int = 0
    sign: int = 1
    arrival: int = 0
    is_late: bool = False


def class_rows(rows: Sequence[Row], names: Sequence[str] = ("k",)) -> ClassRows:
    """Rows with text keys of these names, and columns x BIGINT and y DOUBLE."""
    columns = [pa.array([row.key[place] for row in rows], pa.string()) for place in range(len(names))]
    columns += [
        pa.array([row.x for row in rows], pa.int64()),
        pa.array([row.y for row in rows], pa.float64()),
    ]
    return ClassRows(
        pa.RecordBatch.from_arrays(columns, names=[*names, "x", "y"]),
        np.array([NO_TIME if row.time is None else row.time for row in rows], np.int64),
        np.array([row.arrival for row in rows], np.int64),
        np.array([row.sign for row in rows], np.int8),
        np.array([row.is_late for row in rows], dtype=bool),
        np.array([row.epoch for row in rows], np.int64),
    )


def values_of(rows: Iterable[Row], calls: Sequence[AggregateCall]) -> tuple[Any, ...]:
    """What these calls give for rows, recomputed from all of them."""
    rows = list(rows)
    xs, ys = [r.x for r in rows if r.x is not None], [r.y for r in rows if r.y is not None]
    last = max(rows, key=lambda r: (NO_TIME if r.time is None else r.time, r.arrival), default=None)
    found = {
        COUNT: len(rows),
        SUM: sum(xs) if xs else None,
        MAX: max(ys, default=None),
        LAST: None if last is None else last.x,
    }
    return tuple(found[call] for call in calls)


Told = dict[Entry, tuple[Any, Any]]  # by entry: values before and after, None where it is not there


def read_answer(batch: pa.RecordBatch, calls: Sequence[AggregateCall], n_keys: int) -> dict[Entry, Any]:
    """The entries of an answer; asserts that none is there twice."""
    rows = _read(batch, calls, n_keys)
    assert len({entry for entry, _ in rows}) == len(rows), f"an entry twice: {rows}"
    return dict(rows)


def read_changes(changes: EntryChanges, calls: Sequence[AggregateCall], n_keys: int) -> Told:
    """Changes by entry; asserts that the two rows of one stand together, and that entries ascend."""
    told: Told = {}
    rows = _read(changes.columns, calls, n_keys)
    assert (np.diff(changes.entry) >= 0).all()
    for number in range(int(changes.entry.max()) + 1):
        at = np.flatnonzero(changes.entry == number)
        assert len({rows[k][0] for k in at}) == 1, "rows of one entry are those of several"
        assert changes.is_after[at].tolist() in ([False], [True], [False, True])
        by_time = {bool(changes.is_after[k]): rows[k][1] for k in at}
        assert rows[at[0]][0] not in told, "an entry has two numbers"
        told[rows[at[0]][0]] = by_time.get(False), by_time.get(True)
    assert list(told) == sorted(told, key=canonical), f"not in canonical order: {list(told)}"
    return told


def canonical(entry: Entry) -> Any:
    """Sorts as the specification says: window, then keys with NULL first."""
    *keys, window = entry
    return window or (), [(key is not None, key or "") for key in keys]


def _read(batch: pa.RecordBatch, calls: Sequence[AggregateCall], n_keys: int) -> list[tuple[Entry, Any]]:
    names = [*batch.schema.names[:n_keys], *[c.name for c in calls]]
    has_window = "window" in batch.schema.names
    found = []
    columns = [batch.column(name).to_pylist() for name in names]
    windows: list[Any] = [None] * len(batch)
    if has_window:
        bounds = batch.column("window").flatten()
        windows = list(zip(*[b.cast(pa.int64()).to_pylist() for b in bounds], strict=True))
    for at in range(len(batch)):
        values = [column[at] for column in columns]
        found.append(((*values[:n_keys], windows[at]), tuple(values[n_keys:])))
    return found
