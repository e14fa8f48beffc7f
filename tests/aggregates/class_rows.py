"""Rows of a class and entries that came of them, as plain Python values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import types
from eddyline.aggregates import ClassRows, EntryChanges
from eddyline.model import NO_TIME, AggregateCall

COUNT = AggregateCall("count", (), (), pa.int64())
SUM = AggregateCall("sum", ("x",), (pa.int64(),), pa.int64())
MIN = AggregateCall("min", ("x",), (pa.int64(),), pa.int64())
MAX = AggregateCall("max", ("x",), (pa.int64(),), pa.int64())
LAST_TIME = AggregateCall("max", ("ts",), (types.TIMESTAMP,), types.TIMESTAMP)
KEYS = pa.schema([("#k0", pa.string())])


@dataclass(frozen=True)
class Row:
    """A row as it came; two rows are the same only if they have one number."""

    number: int
    key: str | None
    ts: int | None
    x: int | None
    epoch: int
    is_late: bool = False
    sign: int = 1
    until: int | None = None  # a second time


def class_rows(rows: Sequence[Row]) -> ClassRows:
    columns = {
        "#k0": pa.array([row.key for row in rows], pa.string()),
        "x": pa.array([row.x for row in rows], pa.int64()),
        "ts": pa.array([row.ts for row in rows], pa.int64()).cast(types.TIMESTAMP),
        "until": pa.array([row.until for row in rows], pa.int64()).cast(types.TIMESTAMP),
    }
    return ClassRows(
        pa.record_batch(columns),
        np.array([NO_TIME if row.ts is None else row.ts for row in rows], np.int64),
        np.array([row.number for row in rows], np.int64),
        np.array([row.sign for row in rows], np.int8),
        np.array([row.is_late for row in rows], dtype=bool),
        np.array([row.epoch for row in rows], np.int64),
    )


def values_of(rows: Iterable[Row], calls: Sequence[AggregateCall]) -> tuple[Any, ...]:
    """By definition: what aggregates of rows are."""
    rows = list(rows)
    xs = [row.x for row in rows if row.x is not None]
    times = [row.ts for row in rows if row.ts is not None]
    found = {
        COUNT.name: len(rows),
        SUM.name: sum(xs) if xs else None,
        MIN.name: min(xs, default=None),
        MAX.name: max(xs, default=None),
        LAST_TIME.name: max(times, default=None),
    }
    return tuple(found[call.name] for call in calls)


def plain_rows(batch: pa.RecordBatch, calls: Sequence[AggregateCall]) -> list[tuple[Any, ...]]:
    """Key, window if there is one, values: times in microseconds."""
    columns = [batch["#k0"].to_pylist()] if "#k0" in batch.schema.names else []
    if "window" in batch.schema.names:
        columns += [batch["window"].field(at).cast(pa.int64()).to_pylist() for at in range(2)]
    for call in calls:
        column = batch[call.name]
        columns.append((column.cast(pa.int64()) if call.type == types.TIMESTAMP else column).to_pylist())
    return list(zip(*columns, strict=True)) if columns else []


def images(changes: EntryChanges, calls: Sequence[AggregateCall]) -> list[tuple[Any, Any]]:
    """Of each entry its rows before and after, None where there is none; order and pairing are checked."""
    rows = plain_rows(changes.columns, calls)
    assert len(rows) == len(changes.is_after) == len(changes.entry)
    assert (np.diff(changes.entry) >= 0).all()
    found: dict[int, list[Any]] = {}
    for row, is_after, entry in zip(rows, changes.is_after.tolist(), changes.entry.tolist(), strict=True):
        pair = found.setdefault(entry, [None, None])
        assert pair[is_after] is None
        assert is_after or pair[1] is None
        pair[is_after] = row
    return [(before, after) for before, after in found.values()]
