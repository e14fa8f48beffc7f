"""Files of any format that a folder may hold, from rows as dicts."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.types import parse_type


def write(folder: Path, name: str, rows: list[dict], **types: str) -> None:
    """A file of rows in the format of its ending; columns are those of the first row, with these types."""
    format = name.rsplit(".", 1)[1]
    if format == "json":
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    if format == "csv":
        lines = [
            ",".join(rows[0]),
            *(",".join("" if v is None else str(v) for v in r.values()) for r in rows),
        ]
        (folder / name).write_text("\n".join([*lines, ""]))
        return
    guessed = {str: "STRING", float: "DOUBLE", int: "BIGINT", bool: "BOOLEAN"}
    types = {column: types.get(column) or guessed[type(value)] for column, value in rows[0].items()}
    schema = pa.schema([(column, _arrow_type(t)) for column, t in types.items()])
    if format == "avro":
        fastavro = pytest.importorskip("fastavro")
        fields = [{"name": column, "type": ["null", _avro_type(t)]} for column, t in types.items()]
        with open(folder / name, "wb") as file:
            fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, rows)
    elif format == "parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / name)
    else:
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            writer.write_table(pa.Table.from_pylist(rows, schema))


def _arrow_type(t: str) -> pa.DataType:
    return pa.time64("us") if t == "TIME" else parse_type(t)


def _avro_type(t: str) -> object:
    if t == "TIME":
        return {"type": "long", "logicalType": "time-micros"}
    return {"DOUBLE": "double", "BIGINT": "long", "INT": "int"}.get(t, t.lower())
