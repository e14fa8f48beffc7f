"""Data as users have it (Arrow, pandas, Polars, dicts) into the schema of a stream.

A column that can never fit is refused with the whole push. A value that does not fit costs only its row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.errors import SchemaError, did_you_mean
from eddyline.model import Stream
from eddyline.sources.columns import column_in_type
from eddyline.sources.rows import ARRIVAL, rows_in_schema
from eddyline.sources.schema_changes import UNCHANGED, SchemaChange
from eddyline.types import canonical, parse_fields, python_rows, type_name


@dataclass(frozen=True, slots=True)
class Misfit:
    """A row that does not fit, as it came, and why."""

    row: dict[str, Any]
    message: str
    error: str = "ROW_DOES_NOT_FIT"


PUSHED = ""  # the lane of rows whose source has no partitions


@dataclass(frozen=True, slots=True)
class Lanes:
    """The partitions of a source, each in an order of its own."""

    runs: tuple[
        tuple[str, int], ...
    ] = ()  # lane and number of rows, in the order of the rows; none: all PUSHED
    behind: frozenset[str] = frozenset()  # those of which more lies ready
    known: frozenset[str] | None = None  # all the source has now; None: it has none, or does not say

    def of(self, n_rows: int) -> tuple[tuple[str, int], ...]:
        """The lanes of so many rows."""
        assert not self.runs or sum(n for _, n in self.runs) == n_rows, (self.runs, n_rows)
        return self.runs or ((PUSHED, n_rows),)

    def without(self, dropped: npt.NDArray[np.int64]) -> Lanes:
        """The same after some rows were taken out."""
        if not self.runs:
            return self
        ends = np.cumsum([n for _, n in self.runs])
        dropped_counts = np.bincount(np.searchsorted(ends, dropped, side="right"), minlength=len(ends))
        return replace(
            self,
            runs=tuple((lane, n - int(k)) for (lane, n), k in zip(self.runs, dropped_counts, strict=True)),
        )


ONE_LANE = Lanes()


@dataclass(frozen=True, slots=True)
class IngestedRows:
    """Rows in the stream's schema; `arrival` gives their order if the data had an `_arrival` column."""

    rows: pa.RecordBatch
    arrival: npt.NDArray[np.int64] | None = None
    misfits: list[Misfit] = field(default_factory=list)
    change: SchemaChange = UNCHANGED  # how they were written otherwise
    left_out: frozenset[str] = (
        frozenset()
    )  # columns that were not read, since no query asked for them: NULL here
    is_delete: npt.NDArray[np.bool_] | None = (
        None  # of a keyed stream: which rows delete; None: not known yet
    )
    lanes: Lanes = ONE_LANE


def ingest(stream: Stream, data: Any, time_zone: str) -> IngestedRows:
    """Take `data` for `stream`: Arrow, pandas, Polars, a dict of columns, one row or a list of rows as dicts or tuples."""
    rows = _as_it_is(stream, data)
    if rows is not None:
        return IngestedRows(rows)
    _refuse_spark(stream, data)
    table = as_table(data)
    if table is None:
        unknown: set[str] = set()
        rows, arrival, misfits = rows_in_schema(stream, _as_rows(stream, data), time_zone, unknown=unknown)
        _refuse_unknown(stream, sorted(unknown))
        return ordered_rows(stream, rows, arrival, [Misfit(row, message) for row, message in misfits])
    return _from_table(stream, table, time_zone)


def _as_it_is(stream: Stream, data: Any) -> pa.RecordBatch | None:
    """Data that comes just as the stream has it; None if it is to be looked at column by column."""
    if isinstance(data, pa.Table) and data.schema.equals(stream.schema):
        batches = data.to_batches()
        data = batches[0] if len(batches) == 1 else None
    if not isinstance(data, pa.RecordBatch) or not data.schema.equals(stream.schema):
        return None
    if any(
        not f.nullable and column.null_count for f, column in zip(stream.schema, data.columns, strict=True)
    ):
        return None
    return data


def _refuse_spark(stream: Stream, data: Any) -> None:
    if not type(data).__module__.startswith("pyspark."):
        return
    if getattr(data, "isStreaming", False):
        raise SchemaError(
            f"a streaming DataFrame cannot be pushed to {stream.name}: it has no end",
            hint=f'Feed it: running = engine.start(spark); running.feed("{stream.name}", frame) (docs/spark.md).',
        )
    raise SchemaError(
        f"a DataFrame of Spark cannot be pushed to {stream.name} as it is",
        detail="A push is one round in this process; all rows would come to the driver.",
        hint=f'If they are few: engine.push("{stream.name}", frame.toArrow()). If not, write them to files and read these'
        " with a source (docs/pipeline.md).",
    )


def _refuse_unknown(stream: Stream, unknown: Sequence[str]) -> None:
    """One rule for rows and for columnar data: a column the stream lacks refuses the push; one it has may be left out."""
    if unknown:
        raise SchemaError(
            f"stream {stream.name} has no column {unknown[0]}",
            detail=None if len(unknown) == 1 else f"Nor has it {', '.join(unknown[1:6])}.",
            hint=did_you_mean(unknown[0], stream.schema.names, noun="column")
            + f" Or leave it out of the data, or declare stream {stream.name} again with it, nullable.",
        )


def as_table(data: Any) -> pa.Table | None:
    """Columnar data as an Arrow table; None for rows."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if type(data).__module__.partition(".")[0] == "pandas" and type(data).__name__ == "DataFrame":
        try:
            return pa.Table.from_pandas(data, preserve_index=False)
        except (pa.ArrowException, OverflowError, ValueError) as error:
            raise SchemaError(
                "the DataFrame has a column of values that have no common type",
                detail=". ".join(map(str, error.args)),
                hint="Convert the column, or push its rows as dicts: then a wrong value costs only its row.",
            ) from None
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return pa.table(data)
        except pa.ArrowInvalid:  # a column without a name, such as a Series
            return None
    return None


def infer_schema(data: Any) -> pa.Schema:
    """The schema of example rows, of columnar data, of a DDL string, or of a mapping from names to types."""
    if isinstance(data, pa.Schema):
        schema = data
    elif isinstance(data, str):
        try:
            schema = pa.schema([pa.field(name, t, nullable) for name, t, nullable in parse_fields(data)])
        except ValueError as error:
            raise SchemaError(
                "the schema cannot be read",
                detail=str(error),
                hint='Write "sym STRING, price DOUBLE, ts TIMESTAMP".',
            ) from None
    elif isinstance(data, Mapping) and data and all(isinstance(t, (str, pa.DataType)) for t in data.values()):
        schema = infer_schema(
            ", ".join(
                f"`{n}` {t}" if isinstance(t, str) else f"`{n}` {type_name(t)}" for n, t in data.items()
            )
        )
    else:
        schema = _schema_of_examples(data)
    return _canonical_schema(schema)


def _schema_of_examples(data: Any) -> pa.Schema:
    table = as_table(data)
    if table is not None:
        return table.schema
    rows = [data] if isinstance(data, Mapping) else data
    if not isinstance(rows, Sequence) or isinstance(rows, (str, bytes)) or not rows:
        raise SchemaError(
            f"a schema cannot be read from {type(data).__name__}",
            hint='Give a pyarrow schema, "sym STRING, price DOUBLE", example rows, or a DataFrame.',
        )
    if not all(isinstance(row, Mapping) for row in rows):
        raise SchemaError("example rows must be dicts", hint='Write [{"sym": "A", "price": 9.5}].')
    try:
        schema = pa.Table.from_pylist([dict(row) for row in rows]).schema
    except (pa.ArrowTypeError, OverflowError, ValueError) as error:
        raise SchemaError("the example rows do not agree on a type", detail=str(error)) from None
    unknown = [f.name for f in schema if pa.types.is_null(f.type)]
    if unknown:
        raise SchemaError(
            f"the example rows say nothing about the type of {', '.join(unknown)}",
            hint="Give a row where it is not NULL, or a schema.",
        )
    return schema


def _canonical_schema(schema: pa.Schema) -> pa.Schema:
    fields, earlier_names = [], set()
    for f in schema:
        if f.name == ARRIVAL:
            continue
        t = canonical(f.type)
        if t is None:
            raise SchemaError(
                f"column {f.name} has type {f.type}, which SQL does not have", hint="Cast it before pushing."
            )
        if f.name.lower() in earlier_names:
            raise SchemaError(f"column {f.name} is there twice", hint="Names are not case-sensitive.")
        earlier_names.add(f.name.lower())
        fields.append(pa.field(f.name, t, f.nullable))
    if not fields:
        raise SchemaError("a stream needs at least one column", hint='Write "sym STRING, price DOUBLE".')
    return pa.schema(fields)


def _as_rows(stream: Stream, data: Any) -> list[dict[str, Any]]:
    """Rows as dicts."""
    if isinstance(data, Mapping):
        if data and all(
            isinstance(v, (list, tuple, np.ndarray, pa.Array, pa.ChunkedArray)) for v in data.values()
        ):
            names = [str(name) for name in data]
            columns = [
                v.to_pylist() if isinstance(v, (pa.Array, pa.ChunkedArray)) else list(v)
                for v in data.values()
            ]
            lists = {f.name.lower() for f in stream.schema if pa.types.is_list(f.type)}
            is_one_row = bool(lists) and all(n.lower() in lists for n in names if n != ARRIVAL)
            if not is_one_row:
                if len({len(c) for c in columns}) > 1:
                    raise SchemaError(
                        f"the columns pushed to {stream.name} have different lengths",
                        detail=", ".join(f"{n}: {len(c)}" for n, c in zip(names, columns, strict=True)),
                    )
                return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return [dict(data)]
    if isinstance(data, (str, bytes)) or not hasattr(data, "__iter__"):
        raise SchemaError(
            f"{type(data).__name__} cannot be pushed to {stream.name}",
            hint="Push an Arrow table, a pandas or Polars DataFrame, or a list of dicts.",
        )
    rows = []
    for at, row in enumerate(data):
        if isinstance(row, Mapping):
            rows.append(dict(row))
        elif isinstance(row, (tuple, list)):
            if len(row) != len(stream.schema):
                raise SchemaError(
                    f"row {at} pushed to {stream.name} has {len(row)} values, the stream {len(stream.schema)} columns",
                    hint=f"Columns are {', '.join(stream.schema.names)}.",
                )
            rows.append(dict(zip(stream.schema.names, row, strict=True)))
        else:
            raise SchemaError(
                f"row {at} pushed to {stream.name} is {type(row).__name__}, not a dict",
                hint="Push an Arrow table, a pandas or Polars DataFrame, or a list of dicts.",
            )
    return rows


def _from_table(stream: Stream, table: pa.Table, time_zone: str) -> IngestedRows:
    arrival = None
    if ARRIVAL in table.schema.names:
        arrival = _arrival_numbers(stream, table.column(ARRIVAL))
        table = table.drop_columns([ARRIVAL])
    names = {name.lower(): name for name in table.schema.names}
    if len(names) != len(table.schema.names):
        raise SchemaError(
            f"the data for {stream.name} has a column twice", hint="Names are not case-sensitive."
        )
    known = {f.name.lower() for f in stream.schema}
    _refuse_unknown(stream, [name for folded, name in names.items() if folded not in known])
    columns: list[pa.Array] = []
    bad: dict[int, str] = {}
    for f in stream.schema:
        if f.name.lower() in names:
            column = table.column(names[f.name.lower()])
        else:  # as a key that a dict does not have
            column = pa.chunked_array([pa.nulls(table.num_rows, f.type)])
        values, wrong = column_in_type(stream, f, column, time_zone)
        columns.append(values)
        for row, message in wrong.items():
            bad.setdefault(row, message)
    rows = pa.RecordBatch.from_arrays(columns, schema=stream.schema)
    misfits = []
    if bad:
        misfits = [
            Misfit(python_rows(table.slice(row, 1))[0], message) for row, message in sorted(bad.items())
        ]
        fine = np.setdiff1d(np.arange(rows.num_rows), np.fromiter(bad, np.int64))
        rows = rows.take(pa.array(fine))
        arrival = None if arrival is None else arrival[fine]
    return ordered_rows(stream, rows, arrival, misfits)


def _arrival_numbers(stream: Stream, column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    if not pa.types.is_integer(column.type) or column.null_count:
        raise SchemaError(
            f"{ARRIVAL} of the data for {stream.name} must be whole numbers without NULL",
            hint="Leave the column out to have rows numbered in the order they come.",
        )
    return np.asarray(column.to_numpy()).astype(np.int64)


def ordered_rows(
    stream: Stream, rows: pa.RecordBatch, arrival: npt.NDArray[np.int64] | None, misfits: list[Misfit]
) -> IngestedRows:
    """Rows in the order of their arrival numbers."""
    if arrival is None or not len(arrival):
        return IngestedRows(rows, arrival, misfits)
    order = np.argsort(arrival, kind="stable")
    arrival = arrival[order]
    if (np.diff(arrival) == 0).any():
        twice = int(arrival[np.flatnonzero(np.diff(arrival) == 0)[0]])
        raise SchemaError(
            f"{ARRIVAL} {twice} is there twice in the data for {stream.name}", hint="Every row needs its own."
        )
    return IngestedRows(rows.take(pa.array(order)), arrival, misfits)
