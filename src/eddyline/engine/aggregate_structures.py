"""Which structure has the rows of an aggregation, and what its entries are told apart by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from eddyline.aggregates import (
    MergingStructure,
    OverRows,
    Reader,
    Sessions,
    SlicedWindows,
    Structure,
    TemporalGroups,
    TimedGroups,
)
from eddyline.engine.aggregate_files import Form
from eddyline.model import (
    NOW,
    OVER,
    RUNNING,
    SESSIONS,
    TEMPORAL,
    WINDOW,
    WINDOWS,
    Aggregation,
    TemporalBound,
)
from eddyline.types import TIMESTAMP


def new_structure(schema: pa.Schema, aggregation: Aggregation) -> Structure | OverRows:
    """An empty structure for rows of a class, which have this schema."""
    if aggregation.kind == OVER:
        return OverRows()
    if aggregation.kind == TEMPORAL:
        return TemporalGroups(_key_schema(schema, aggregation), reads_table=aggregation.reads_table)
    return merging_structure(schema, aggregation)


def merging_structure(schema: pa.Schema, aggregation: Aggregation) -> MergingStructure:
    """An empty structure that partial results of such rows can be merged into."""
    keys = _key_schema(schema, aggregation)
    if aggregation.kind == RUNNING:
        return TimedGroups(keys, reads_table=aggregation.reads_table)
    if aggregation.kind == WINDOWS:
        return SlicedWindows(keys, reads_table=aggregation.reads_table)
    assert aggregation.kind == SESSIONS, aggregation.kind
    return Sessions(keys)


def _key_schema(schema: pa.Schema, aggregation: Aggregation) -> pa.Schema:
    return pa.schema([schema.field(name) for name in aggregation.keys])


def needs_of(reader: Reader) -> frozenset[object]:
    """What has to be computed of all rows of a table: aggregates, and which rows pass conditions on now()."""
    return frozenset((*reader.calls, reader.aggregation.bounds))


def as_of(entries: pa.RecordBatch, deadlines: Sequence[TemporalBound], now_us: int) -> pa.RecordBatch:
    """Entries with the time at which they are asked of, where that is compared."""
    if not deadlines:
        return entries
    return entries.append_column(NOW, pa.repeat(pa.scalar(now_us, pa.int64()), len(entries)).cast(TIMESTAMP))


def by_partition(reader: Reader) -> Iterator[Reader]:
    """A reader of rows over frames, for each PARTITION BY by itself; others as they are."""
    aggregation = reader.aggregation
    if not aggregation.is_over:
        yield reader
        return
    for keys in dict.fromkeys(aggregation.keys if each.keys is None else each.keys for each in reader.calls):
        calls = (
            each for each in reader.calls if (aggregation.keys if each.keys is None else each.keys) == keys
        )
        yield replace(reader, aggregation=replace(aggregation, keys=keys), calls=tuple(calls))


def form_of(aggregation: Aggregation) -> Form:
    """The class of an aggregation, and the kind of structure that has its rows; of OVER, one for each PARTITION BY."""
    kind = aggregation.kind
    if aggregation.is_over:
        kind += f" by {', '.join(aggregation.keys)}"
    elif aggregation.window_time is not None:
        kind += f" of {aggregation.window_time}"
    return aggregation.rows.lower(), kind


def identity_columns(aggregation: Aggregation) -> list[str]:
    """What tells the entries of an aggregation apart."""
    return [*aggregation.keys, *(() if aggregation.window is None else (WINDOW,))]
