"""Avro into the schema of a stream: one record per message, or a file of records, which holds its own schema.

    in Avro                                     for a column of type
    int, long, float, double, boolean, string   the one of that name, or a wider one
    enum, string of a uuid                      STRING
    bytes, fixed                                BINARY
    date                                        DATE
    timestamp-millis, timestamp-micros          TIMESTAMP
    local-timestamp-millis, …-micros            TIMESTAMP_NTZ
    decimal                                     DECIMAL
    array, record, map                          ARRAY, STRUCT, MAP
    a union with null                           what it holds besides, and NULL

Names are compared without regard to case. A field of messages that the stream has no column for refuses their schema as a whole;
what becomes of one in a file is reported by `schema_changes`. A record that does not fit costs its row.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa

from eddyline.errors import SchemaError
from eddyline.model import Stream
from eddyline.sources.formats import FileFormat
from eddyline.sources.ingestion import IngestedRows, Misfit, ordered_rows
from eddyline.sources.lines import SHOWN_BYTES, Broken, Line, LinePlaces
from eddyline.sources.positions import SourceError
from eddyline.sources.rows import checked_columns, rows_in_schema, soundly_numbered
from eddyline.sources.schema_changes import UNCHANGED, FileColumn, SchemaChange
from eddyline.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MAX_PRECISION,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    canonical,
    type_name,
)

NOT_READABLE = "MESSAGE_CANNOT_BE_READ"
_FRAME = struct.Struct(">bI")  # a zero, then the id the schema has in a registry


class UnreadableAvro(Exception):
    """A file is not Avro, or not from here on; the text says why."""


def check_library() -> None:
    """Raises SourceError if Avro cannot be read here."""
    try:
        import fastavro  # noqa: F401
    except ImportError:
        raise SourceError(
            "Avro needs the package fastavro", hint='Install it: pip install "eddyline[avro]".'
        ) from None


# --------------------------------------------------------------------------------------------- messages


class AvroMessages:
    """One record per message, all written with one schema."""

    def __init__(self, stream: Stream, time_zone: str, payload: FileFormat) -> None:
        """Raises SchemaError if the schema cannot be read, or its fields cannot be columns of the stream."""
        check_library()
        if payload.avro_schema is None:
            raise SchemaError(
                f"messages of stream {stream.name} are Avro, and nothing says with which schema they were written",
                hint="Name the file that holds it.",
            )
        if payload.framing == "confluent" and payload.schema_id is None:
            raise SchemaError(
                f"messages of stream {stream.name} begin with the id of a schema, and nothing says which it is",
                hint="Give the id the schema has in the registry: schema_id = 7.",
            )
        self._schema = writer_schema(payload.avro_schema)
        self._schema_id = payload.schema_id if payload.framing == "confluent" else None
        self._records = RecordRows(stream, time_zone, self._schema)

    def rows(
        self, lines: Sequence[Line], first: int, where: str, places: Sequence[str] | None = None
    ) -> IngestedRows:
        at = LinePlaces(lines, first, where, places)
        records: list[dict[str, Any]] = []
        numbers: list[int] = []
        misfits: list[Misfit] = []
        for number, line in enumerate(lines):
            try:
                records.append(self._record(line))
                numbers.append(number)
            except UnreadableAvro as error:
                begins = line.beginning if isinstance(line, Broken) else line
                shown = {"_bytes": begins[:SHOWN_BYTES].hex()}
                misfits.append(Misfit(shown, f"{error} ({at[number]})", NOT_READABLE))
        found = self._records.rows(records, [at[number] for number in numbers])
        return IngestedRows(found.rows, found.arrival, [*misfits, *found.misfits])

    def _record(self, message: Line) -> dict[str, Any]:
        """The record of a message. Raises UnreadableAvro."""
        import fastavro

        if isinstance(message, Broken):
            raise UnreadableAvro(message.problem)
        start = 0
        if self._schema_id is not None:
            start = _FRAME.size
            if len(message) < start or message[0] != 0:
                raise UnreadableAvro("the message does not begin with a zero and the id of a schema")
            _, schema_id = _FRAME.unpack_from(message)
            if schema_id != self._schema_id:
                raise UnreadableAvro(f"the message is of schema {schema_id}, expected {self._schema_id}")
        file = io.BytesIO(message)
        file.seek(start)
        try:
            record: Any = fastavro.schemaless_reader(file, self._schema, None)
        except Exception as error:  # whatever the library meets in bytes that are something else
            raise UnreadableAvro(f"the message is not a record of the schema: {_error_text(error)}") from None
        if file.tell() != len(message):
            n_left = len(message) - file.tell()
            raise UnreadableAvro(f"the message is not a record of the schema: {n_left} bytes are left over")
        return record


class RecordRows:
    """Records written with one schema, as rows of a stream."""

    def __init__(
        self, stream: Stream, time_zone: str, schema: Any, change: SchemaChange | None = None
    ) -> None:
        """Raises SchemaError if the fields of the schema cannot be columns of the stream and no `change` says how they differ."""
        if change is None:
            checked_columns(stream, [field["name"] for field in schema["fields"]])
        self._change = change or UNCHANGED
        self._unread = {*self._change.missing, *self._change.ignored}
        self._stream = stream
        self._time_zone = time_zone
        self._has_uuids = '"uuid"' in json.dumps(schema)

    def rows(self, records: Sequence[dict[str, Any]], places: Sequence[str]) -> IngestedRows:
        """Their rows; `places` say where each message was."""
        rows = [_with_text_for_uuids(record) for record in records] if self._has_uuids else list(records)
        place = {id(row): k for k, row in enumerate(rows)}
        rows, unnumbered = soundly_numbered(rows)
        batch, arrival, unfit = rows_in_schema(
            self._stream, rows, self._time_zone, unknown=set(), unread=self._unread
        )
        misfits = [
            Misfit(row, f"{message} ({places[place[id(row)]]})") for row, message in [*unnumbered, *unfit]
        ]
        return replace(ordered_rows(self._stream, batch, arrival, misfits), change=self._change)


def _with_text_for_uuids(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return {key: _with_text_for_uuids(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_for_uuids(item) for item in value]
    return value


# --------------------------------------------------------------------------------------------- files


class AvroFile:
    """The records of a file, block by block."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises UnreadableAvro, and SchemaError if the file does not hold records."""
        check_library()
        import fastavro

        try:
            self._blocks = fastavro.block_reader(file)
        except Exception as error:  # whatever the library meets in a file that is something else
            raise UnreadableAvro(f"it is not Avro: {_error_text(error)}") from None
        self.schema = writer_schema(json.dumps(self._blocks.writer_schema))

    def records(self, from_row: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
        """Each record from a row on, and about how many bytes it takes. Raises UnreadableAvro."""
        n_read = 0
        try:
            for block in self._blocks:
                if n_read + block.num_records <= from_row:
                    n_read += block.num_records
                    continue
                nbytes = block.size // max(1, block.num_records)
                for record in block:
                    n_read += 1
                    if n_read > from_row:
                        yield record, nbytes  # type: ignore[misc]
        except Exception as error:  # whatever the library meets in damaged bytes
            raise UnreadableAvro(f"damaged after record {n_read}: {_error_text(error)}") from None


# --------------------------------------------------------------------------------------------- schemas


def writer_schema(text: str) -> Any:
    """The schema a text holds, as the library wants it. Raises SchemaError."""
    check_library()
    import fastavro

    try:
        stated = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError("the Avro schema is not JSON", detail=str(error)) from None
    try:
        schema: Any = fastavro.parse_schema(stated)
    except Exception as error:  # the library has no one kind for what is wrong with a schema
        raise SchemaError("the Avro schema cannot be used", detail=_error_text(error)) from None
    if not isinstance(schema, dict) or schema.get("type") != "record" or not schema.get("fields"):
        raise SchemaError(
            "the Avro schema is not that of a record",
            hint='Its type has to be "record", with the columns as fields.',
        )
    if not all(isinstance(field["name"], str) for field in schema["fields"]):
        raise SchemaError("the Avro schema has a field whose name is not text")
    return schema


def sql_schema(schema: Any) -> tuple[pa.Schema, dict[str, str]]:
    """The columns a stream needs for records of this schema; by column, what SQL has no type for (STRING there)."""
    fields: list[pa.Field] = []
    strange: dict[str, str] = {}
    for field in schema["fields"]:
        kinds, nullable = _kinds(field["type"])
        t = _sql_type(kinds, schema.get("__named_schemas", {}), ())
        if t is None:
            strange[field["name"]] = " or ".join(map(_kind_name, kinds)) or "null"
        fields.append(pa.field(field["name"], STRING if t is None else t, nullable))
    return pa.schema(fields), strange


def written_columns(schema: Any) -> list[FileColumn]:
    """The columns of records of this schema."""
    columns, strange = sql_schema(schema)
    types = {name: NULL if kind == "null" else None for name, kind in strange.items()}
    return [
        FileColumn(f.name, types.get(f.name, f.type), strange.get(f.name) or type_name(f.type))
        for f in columns
    ]


_PLAIN = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BINARY,
    "string": STRING,
    "enum": STRING,
    "fixed": BINARY,
}
_LOGICAL = {
    ("int", "date"): DATE,
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): TIMESTAMP_NTZ,
    ("long", "local-timestamp-micros"): TIMESTAMP_NTZ,
}


def _kinds(t: Any) -> tuple[list[Any], bool]:
    """What a value may be besides NULL, and whether it may be NULL."""
    kinds = t if isinstance(t, list) else [t]
    return [kind for kind in kinds if kind != "null"], "null" in kinds


def _kind_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind.get("logicalType") or kind["type"])


def _sql_type(kinds: list[Any], named: dict[str, Any], inside: tuple[str, ...]) -> pa.DataType | None:
    types = [_sql_type_of(kind, named, inside) for kind in kinds]
    if len(types) == 1:
        return types[0]
    if types and all(t in (INT, BIGINT) for t in types):
        return BIGINT
    return DOUBLE if types and all(t in (INT, BIGINT, FLOAT, DOUBLE) for t in types) else None


def _sql_type_of(kind: Any, named: dict[str, Any], inside: tuple[str, ...]) -> pa.DataType | None:
    if isinstance(kind, str):
        if kind in _PLAIN or kind not in named or kind in inside:  # a record within itself has no end
            return _PLAIN.get(kind)
        kind = named[kind]
    name, logical = kind["type"], kind.get("logicalType")
    if name == "record":
        return _struct(kind, named, (*inside, kind["name"]))
    if name in ("array", "map"):
        kinds, _ = _kinds(kind["items" if name == "array" else "values"])
        item = _sql_type(kinds, named, inside)
        return None if item is None else pa.list_(item) if name == "array" else pa.map_(STRING, item)
    if logical == "decimal":
        precision, scale = kind.get("precision", 0), kind.get("scale", 0)
        is_known = 0 < precision <= MAX_PRECISION and abs(scale) <= MAX_PRECISION
        return canonical(pa.decimal128(precision, scale)) if is_known else None
    if logical in ("time-millis", "time-micros"):
        return None
    return _LOGICAL.get((name, logical), _PLAIN.get(name))


def _struct(record: Any, named: dict[str, Any], inside: tuple[str, ...]) -> pa.DataType | None:
    fields = [
        (field["name"], _sql_type(_kinds(field["type"])[0], named, inside)) for field in record["fields"]
    ]
    if not fields or any(t is None for _, t in fields):
        return None
    return pa.struct(fields)


def _error_text(error: Exception) -> str:
    """What an error of the library says, or what it is where it says nothing."""
    text = str(error).splitlines()[0] if str(error) else ""
    if isinstance(error, EOFError):
        return "it ends early"
    return text[:200] or type(error).__name__
