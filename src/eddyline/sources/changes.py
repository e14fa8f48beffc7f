"""Rows of a keyed stream as changes of a table: which of them upsert, which delete the row of their key, which say nothing.

    property delete = 'gone'       a row in which this column is true deletes; NULL is not true
    property delete = 'null'       a row with nothing but its key, and perhaps its time, deletes, as in a compacted topic
    column _change_type            insert and update_postimage upsert, delete deletes, update_preimage says nothing:
                                   the change feed of a Delta table
    column __op, or __deleted      c, r and u upsert, d deletes; false and true: records of Debezium, flattened

The columns count whether the stream declares them or not. Where it does not, as with Arrow data straight from a change feed, they
are taken off before the rows become those of the stream (`ingest_changes`). `_commit_version` gives the order of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions import mask_of
from eddyline.model import Stream
from eddyline.sources.ingestion import ONE_LANE, IngestedRows, Misfit, as_table, ingest
from eddyline.stream_properties import NULL_DELETES, delete_column
from eddyline.types import BIGINT, STRING, python_rows

COMMIT_VERSION, COMMIT_TIMESTAMP = "_commit_version", "_commit_timestamp"
MISFIT = "UNKNOWN_CHANGE_TYPE"

_UPSERTS, _DELETES, _SAYS_NOTHING = 0, 1, 2
_MARKERS: Mapping[str, Mapping[str, int]] = {
    "_change_type": {
        "insert": _UPSERTS,
        "update_postimage": _UPSERTS,
        "update_preimage": _SAYS_NOTHING,
        "delete": _DELETES,
    },
    "__op": {"c": _UPSERTS, "r": _UPSERTS, "u": _UPSERTS, "d": _DELETES},
    "__deleted": {"false": _UPSERTS, "true": _DELETES},
}

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Effects:
    """What each row of a keyed stream does. One that `says_nothing` neither upserts nor deletes."""

    is_delete: Mask
    says_nothing: Mask
    wrong: Mapping[int, str] = field(
        default_factory=dict
    )  # rows that cannot be read as a change: why. They say nothing


def effects_of(stream: Stream, rows: pa.RecordBatch) -> Effects:
    """What rows in the schema of a keyed stream do."""
    effect = np.zeros(rows.num_rows, np.int8)
    wrong: dict[int, str] = {}
    for name in rows.schema.names:
        known = _MARKERS.get(name.lower())
        if known is not None and rows.schema.field(name).type == STRING:
            _mark(effect, wrong, name, rows.column(name), known)
    how = delete_column(stream)
    if how is not None:
        effect[_delete_mask(stream, rows, how) & (effect == _UPSERTS)] = _DELETES
    return Effects(effect == _DELETES, effect == _SAYS_NOTHING, wrong)


def _mark(
    effect: npt.NDArray[np.int8],
    wrong: dict[int, str],
    name: str,
    values: pa.Array,
    known: Mapping[str, int],
) -> None:
    """Raise effects to what the values of a column mean; NULL means nothing special."""
    for word in pc.unique(values).drop_null().to_pylist():
        rows = np.flatnonzero(pc.fill_null(pc.equal(values, word), False).to_numpy(zero_copy_only=False))
        meaning = known.get(word)
        if meaning is None:
            expected = ", ".join(known)
            wrong.update(dict.fromkeys(rows.tolist(), f"{name} is {word!r}, which is none of {expected}"))
        effect[rows] = np.maximum(effect[rows], _SAYS_NOTHING if meaning is None else meaning)


def _delete_mask(stream: Stream, rows: pa.RecordBatch, how: str) -> Mask:
    flag = next((name for name in rows.schema.names if name.lower() == how.lower()), None)
    if flag is not None:
        return mask_of(pc.fill_null(rows.column(flag), False))
    assert how.lower() == NULL_DELETES, f"stream {stream.name} deletes by {how}, which is no column of it"
    exempt_names = {
        name.lower() for name in (*stream.key, *([stream.time] if stream.time else []), *_MARKERS)
    }
    found = np.ones(rows.num_rows, dtype=bool)
    others = [name for name in stream.schema.names if name.lower() not in exempt_names]
    for name in others:
        found &= mask_of(rows.column(name).is_null())
    return found if others else np.zeros(rows.num_rows, dtype=bool)


# --------------------------------------------------------------------------------------------- before they are rows


def ingest_changes(stream: Stream, data: Any, time_zone: str) -> IngestedRows:
    """Take data for a keyed stream, as `ingest` does, and say which of its rows delete."""
    data, undeclared = _with_markers(stream, data)
    marked = replace(stream, schema=pa.schema([*stream.schema, *undeclared]))
    ingested = as_changes(marked, ingest(marked, data, time_zone))
    if not undeclared:
        return ingested
    rows = ingested.rows.select(stream.schema.names)
    return replace(ingested, rows=pa.RecordBatch.from_arrays(rows.columns, schema=stream.schema))


def as_changes(stream: Stream, ingested: IngestedRows) -> IngestedRows:
    """Rows that are in the schema of a keyed stream, and which of them delete.

    Rows that say nothing are left out, those that cannot be read as a change are misfits. Rows with a `_commit_version` come in
    its order, unless they bring arrival numbers.
    """
    assert stream.is_keyed, f"stream {stream.name} has no key"
    if ingested.is_delete is not None:
        return ingested
    if ingested.arrival is None:
        ingested = _by_version(ingested)
    effects = effects_of(stream, ingested.rows)
    misfits = ingested.misfits + [
        Misfit(python_rows(ingested.rows.slice(row, 1))[0], why, MISFIT)
        for row, why in sorted(effects.wrong.items())
    ]
    effective_rows = np.flatnonzero(~effects.says_nothing)
    rows, arrival = ingested.rows, ingested.arrival
    if len(effective_rows) < rows.num_rows:
        rows, arrival = (
            rows.take(pa.array(effective_rows)),
            None if arrival is None else arrival[effective_rows],
        )
    is_delete = effects.is_delete[effective_rows]
    # nothing waits for a table, however its source is divided
    return replace(ingested, rows=rows, arrival=arrival, misfits=misfits, is_delete=is_delete, lanes=ONE_LANE)


def _with_markers(stream: Stream, data: Any) -> tuple[Any, list[pa.Field]]:
    """The data without what only a change feed has to say, and the columns of it that say what rows do."""
    declared = {name.lower() for name in stream.schema.names}
    marker_types = dict.fromkeys(_MARKERS, STRING) | {COMMIT_VERSION: BIGINT}
    marker_types = {name: t for name, t in marker_types.items() if name not in declared}
    dropped = {COMMIT_TIMESTAMP} - declared
    table = as_table(data)
    if table is not None:
        names = {name.lower(): name for name in table.schema.names}
        dropped_names = [names[name] for name in dropped if name in names]
        found = [pa.field(name, t) for name, t in marker_types.items() if name in names]
        return (
            table.drop_columns(dropped_names) if dropped_names else table
        ) if dropped_names or found else data, found
    if isinstance(data, Mapping):
        names = {str(name).lower(): name for name in data}
        found = [pa.field(name, t) for name, t in marker_types.items() if name in names]
        return {name: v for name, v in data.items() if str(name).lower() not in dropped}, found
    if not isinstance(data, list) or not all(isinstance(row, Mapping) for row in data):
        return data, []
    row_names = {str(name).lower() for row in data for name in row}
    found = [pa.field(name, t) for name, t in marker_types.items() if name in row_names]
    return [{n: v for n, v in row.items() if str(n).lower() not in dropped} for row in data], found


def _by_version(ingested: IngestedRows) -> IngestedRows:
    """Rows in the order of their commits, those without one first."""
    at = next(
        (k for k, name in enumerate(ingested.rows.schema.names) if name.lower() == COMMIT_VERSION), None
    )
    if at is None or ingested.rows.schema.field(at).type != BIGINT:
        return ingested
    versions = pc.fill_null(ingested.rows.column(at), -1).to_numpy()
    if (np.diff(versions) >= 0).all():
        return ingested
    return replace(ingested, rows=ingested.rows.take(pa.array(np.argsort(versions, kind="stable"))))
