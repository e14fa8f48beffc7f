"""`[streams.NAME]` of a pipeline file: declarations, and where rows come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.engine import checked_stream
from eddyline.errors import EddylineError, PropertyError, SchemaError, did_you_mean
from eddyline.model import Stream
from eddyline.pipeline.generated import read_generator
from eddyline.pipeline.kafka import read_topic, topic_of_ddl
from eddyline.pipeline.locate import Located
from eddyline.pipeline.model import (
    GATHER_US,
    POLL_US,
    FileSource,
    KafkaTopic,
    SourceSettings,
    StdinSource,
    StreamSettings,
)
from eddyline.pipeline.tables import Table, TomlDocument
from eddyline.sources import (
    ARRIVAL,
    FORMATS,
    FRAMINGS,
    MESSAGE_FORMATS,
    OF_THE_MESSAGE,
    FileFormat,
    infer_schema,
    unfit_for_csv,
)
from eddyline.sql import CreateStream, parse_statements, refuse_unbuilt
from eddyline.time_properties import TIME_PROPERTIES, with_time

_SAID_OF_JOINS = ("window", "idle", "delete")
STREAM_KEYS = (
    *("schema", "ddl", "time", *TIME_PROPERTIES, "lateness", "key"),
    *(*_SAID_OF_JOINS, "source", "rows_per_second"),
)
_SOURCES = {
    "files": ("type", "path", "format", "glob", "poll", "columns", "delimiter", "on_change"),
    "stdin": ("type", "format", "columns", "delimiter", "every", "on_change"),
    "generator": ("type", "columns", "rate", "rows", "seed", "on_change"),
    "kafka": (
        *("type", "servers", "topic", "format", "start", "on_gone", "poll", "options", "on_change"),
        *("columns", "delimiter", "avro_schema", "framing", "schema_id"),
    ),
}
SOURCE_TYPES = tuple(_SOURCES)
ON_CHANGE = ("refuse", "continue", "restart")
_ELSEWHERE = {
    **{key: f"a source of type {kind}" for kind, keys in _SOURCES.items() for key in keys},
    **dict.fromkeys([key for key in STREAM_KEYS if key != "source"], "[streams.NAME]"),
}


def read_streams(table: Table | None, time_zone: str) -> list[StreamSettings]:
    """All streams that have no mistake."""
    if table is None:
        return []
    found: list[StreamSettings] = []
    spelling: dict[str, str] = {}
    stdin: str | None = None
    for name in table.values:
        each = table.table(name, f"[streams.{name}]")
        if each is None:
            continue
        if name.lower() in spelling:
            problem = f"stream {name} is there twice, as {spelling[name.lower()]} too"
            table.document.wrong(each.at, problem, hint="Names are not case-sensitive.", of_key=True)
            continue
        spelling[name.lower()] = name
        stream = _stream(name, each)
        rows_per_second = each.number("rows_per_second", None, above=0)
        source: SourceSettings | None = None
        if stream is not None and stream.source:
            source = _source_of_ddl(each, stream, time_zone)
        elif stream is not None:
            source = _source(each, stream, time_zone)
        else:
            _source_of_kind(each, name)
        if isinstance(source, StdinSource):
            if stdin is not None:
                hint = "Let the other read files, or have no source."
                each.wrong("source", f"stream {stdin} reads standard input already", hint=hint)
            stdin = stdin or name
        if stream is not None:
            found.append(
                StreamSettings(
                    stream,
                    source,
                    each.document.place(each.at, of_key=True),
                    rows_per_second,
                )
            )
    return found


# --------------------------------------------------------------------------------------------- declarations


def _stream(name: str, table: Table) -> Stream | None:
    table.only(STREAM_KEYS)
    if table.has("ddl"):
        return _stream_from_ddl(name, table)
    n_mistakes = len(table.document.mistakes)
    schema = read_schema(table)
    lateness_us = table.duration_us("lateness", 0)
    if table.has("lateness") and not table.has("time"):
        table.wrong(
            "lateness", f"stream {name} has a lateness but no time", hint='Name the column: time = "ts".'
        )
    stream = None if schema is None else Stream(name, schema, lateness_us=lateness_us)
    time, key = table.text("time"), table.names("key")
    if stream is None or not is_accepted(table, None, stream):
        return None
    time_properties = [(word, value) for word in TIME_PROPERTIES if (value := table.text(word)) is not None]
    try:
        stream = with_time(dataclasses.replace(stream, properties=tuple(time_properties)), time)
    except EddylineError as error:
        table.wrong_as("time", error)
        return None
    if (time is not None or time_properties) and not is_accepted(
        table, time_properties[0][0] if time_properties else "time", stream
    ):
        return None
    stream = dataclasses.replace(stream, key=key)
    if key and not is_accepted(table, "key", stream):
        return None
    for word in _SAID_OF_JOINS:
        value = table.text(word)
        if value is not None:
            stream = dataclasses.replace(stream, properties=(*stream.properties, (word, value)))
            if not is_accepted(table, word, stream):
                return None
    return checked_stream(stream) if len(table.document.mistakes) == n_mistakes else None


def is_accepted(table: Table, key: str | None, stream: Stream) -> bool:
    """Whether the stream can be declared so; if not, it is the fault of this key."""
    try:
        refuse_unbuilt(stream=checked_stream(stream))
        return True
    except EddylineError as error:
        at = table.at if key is None else (*table.at, key)
        table.document.wrong_as(at, error, of_key=key is None)
        return False


def read_schema(table: Table) -> pa.Schema | None:
    """The columns a table of the file states."""
    stated = table.values.get("schema")
    if stated is None:
        table.missing("schema", hint='Write schema = "sym STRING, price DOUBLE", or ddl = "FILE.sql".')
        return None
    if isinstance(stated, dict):
        return _schema_of_columns(stated, table)
    text = table.text("schema")
    if text is None:
        return None
    try:
        return infer_schema(text)
    except EddylineError as error:
        table.wrong_as("schema", error)
        return None


def _schema_of_columns(stated: Mapping[str, Any], table: Table) -> pa.Schema | None:
    fields = []
    columns = Table(table.document, (*table.at, "schema"), stated, "schema")
    for column in stated:
        t = columns.text(column)
        if t is None:
            continue
        try:
            if "`" in column:
                raise SchemaError(f"{column!r} cannot be the name of a column")
            fields.append(infer_schema({column: t}).field(0))
        except EddylineError as error:
            columns.wrong_as(column, error)
    if len(fields) < len(stated):
        return None
    try:
        return infer_schema(pa.schema(fields))
    except EddylineError as error:
        table.wrong_as("schema", error)
        return None


def _stream_from_ddl(name: str, table: Table) -> Stream | None:
    for key in ("schema", "time", *TIME_PROPERTIES, "lateness", "key", *_SAID_OF_JOINS):
        if table.has(key):
            table.wrong(
                key,
                f"{key} of stream {name} is declared by its DDL file",
                hint="Leave it out, or leave out ddl.",
            )
    file_name = table.text("ddl")
    if file_name is None:
        return None
    file = table.document.folder / Path(file_name).expanduser()
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        table.wrong(
            "ddl",
            f"cannot read {file_name}",
            detail=error.strerror,
            hint="Paths start at the folder of this file.",
        )
        return None
    except UnicodeDecodeError:
        table.wrong("ddl", f"{file_name} is not UTF-8", hint="Save the file as UTF-8.")
        return None
    try:
        statements = [s for s in parse_statements(text) if isinstance(s, CreateStream)]
    except EddylineError as error:
        table.document.wrong_in(file, text, error)
        return None
    streams = [s.stream for s in statements if s.stream.name.lower() == name.lower()]
    if len(streams) != 1:
        hint = did_you_mean(name, [s.stream.name for s in statements], noun="CREATE TABLE in it")
        table.wrong(
            "ddl", f"{file_name} declares stream {name} {len(streams)} times, expected once", hint=hint
        )
        return None
    if streams[0].source.lower() not in ("", "kafka"):
        hint = f"Leave USING out, and declare the source: [streams.{name}.source]."
        table.wrong("ddl", f"{file_name} gives stream {name} a source with USING", hint=hint)
        return None
    return checked_stream(streams[0]) if is_accepted(table, "ddl", streams[0]) else None


# --------------------------------------------------------------------------------------------- sources


def _source_of_ddl(table: Table, stream: Stream, time_zone: str) -> KafkaTopic | None:
    if table.has("source"):
        hint = "Leave out USING, or leave out source."
        table.wrong("source", f"the source of stream {stream.name} is declared by its DDL file", hint=hint)
        return None
    return topic_of_ddl(
        stream, table, time_zone, lambda problem, hint: table.wrong("ddl", problem, hint=hint or None)
    )


def source_settings(
    stream: Stream, declared: Mapping[str, Any], folder: Path, time_zone: str
) -> SourceSettings:
    """The source of a stream given in Python, in the words of a pipeline file; relative paths start at `folder`.

    Raises PropertyError with everything that is wrong with it.
    """
    document = TomlDocument(folder / "sources of engine.start", "", Located())
    source = _source(Table(document, (), {"source": _plain(declared)}, "the stream"), stream, time_zone)
    if source is None or document.mistakes:
        first, *others = document.mistakes
        detail = [first.detail or "", *(f"Also: {each.problem}." for each in others)]
        raise PropertyError(
            f"the source of stream {stream.name} cannot be used: {first.problem}",
            detail=" ".join(filter(None, detail)) or None,
            hint=first.hint,
        )
    return source


def _plain(value: Any) -> Any:
    """A value as TOML would give it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def _source(table: Table, stream: Stream, time_zone: str) -> SourceSettings | None:
    found = _source_of_kind(table, stream.name)
    if found is None:
        return None
    source, kind = found
    ways = (
        ON_CHANGE if kind != "kafka" else ("refuse", "restart")
    )  # offsets of one topic say nothing about another
    on_change = source.choice("on_change", ways, "refuse") or "refuse"
    if kind == "generator":
        return read_generator(source, stream, on_change, time_zone)
    if kind == "kafka":
        return read_topic(source, stream, _payload(source, stream), on_change, time_zone)
    if kind == "stdin":
        line_format = source.choice("format", ("json", "csv"), "json") or "json"
        columns, delimiter = _csv_options(source, stream, line_format)
        every_us = source.duration_us("every", GATHER_US)
        return StdinSource(line_format, columns, delimiter, every_us, on_change, source.place())
    file_format = source.choice("format", FORMATS, needed=True)
    path = source.text_with_secrets("path", needed='Name the folder of the files: path = "in".')
    glob = source.text("glob")
    if glob is not None and ("/" in glob or "**" in glob):
        source.wrong(
            "glob", f"glob {glob!r} reaches into other folders", hint='Write a pattern for names: "*.json".'
        )
    columns, delimiter = _csv_options(source, stream, file_format or "json")
    poll_us = source.duration_us("poll", POLL_US)
    if path is None or file_format is None:
        return None
    place = source.place("path")
    return FileSource(path, file_format, glob, poll_us, columns, delimiter, on_change, place)


def _source_of_kind(table: Table, name: str) -> tuple[Table, str] | None:
    """The source a stream states and its type: what can be checked without the columns of the stream."""
    source = table.table("source", f"the source of stream {name}")
    kind = None if source is None else source.choice("type", SOURCE_TYPES, needed=True)
    if source is None or kind is None:
        return None
    source.title = f"a source of type {kind}"
    source.only(_SOURCES[kind], _ELSEWHERE)
    return source, kind


def _payload(source: Table, stream: Stream) -> FileFormat | None:
    """How messages are written."""
    name = source.choice("format", MESSAGE_FORMATS, needed=True)
    if name is None:
        return None
    own = [f.name for f in stream.schema if f.name.lower() in OF_THE_MESSAGE]
    inside = dataclasses.replace(stream, schema=pa.schema([f for f in stream.schema if f.name not in own]))
    columns, delimiter = _csv_options(source, inside, name)
    if name != "avro":
        for key in ("avro_schema", "framing", "schema_id"):
            if source.has(key):
                source.wrong(key, f"{key} goes with Avro, and the format is {name}", hint="Leave it out.")
        return FileFormat(name, columns, delimiter)
    file_name = source.text(
        "avro_schema", needed='Name the file with the schema: avro_schema = "trades.avsc".'
    )
    framing = source.choice("framing", FRAMINGS, "none") or "none"
    schema_id = source.whole("schema_id", -1, least=0)
    try:
        text = None if file_name is None else (source.document.folder / file_name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "It is not UTF-8."
        hint = "Paths start at the folder of this file."
        source.wrong("avro_schema", f"cannot read {file_name}", detail=why, hint=hint)
        return None
    if text is None:
        return None
    return FileFormat(name, avro_schema=text, framing=framing, schema_id=None if schema_id < 0 else schema_id)


def _csv_options(source: Table, stream: Stream, line_format: str) -> tuple[tuple[str, ...], str]:
    columns = source.names("columns")
    delimiter = source.text("delimiter", ",") or ","
    if line_format != "csv":
        for key in ("columns", "delimiter"):
            if source.has(key):
                source.wrong(
                    key, f"{key} goes with CSV, and the format is {line_format}", hint="Leave it out."
                )
        return (), ","
    if len(delimiter.encode()) != 1 or delimiter in '"\r\n':
        source.wrong(
            "delimiter", f"{delimiter!r} cannot separate fields", hint='Give one character, such as ";".'
        )
    known = {f.name.lower() for f in stream.schema}
    names: set[str] = set()
    for number, column in enumerate(columns):
        at = (*source.at, "columns", number)
        if column.lower() not in known and column != ARRIVAL:
            hint = did_you_mean(column, stream.schema.names, noun="column")
            source.document.wrong(at, f"there is no column {column} in stream {stream.name}", hint=hint)
        if column.lower() in names:
            source.document.wrong(at, f"column {column} is there twice")
        names.add(column.lower())
    missing = [f.name for f in stream.schema if not f.nullable and f.name.lower() not in names]
    if columns and missing:
        hint = "Add it, or declare the column without NOT NULL."
        source.wrong("columns", f"column {missing[0]} is missing, and may not be NULL", hint=hint)
    for column in unfit_for_csv(stream):
        problem = f"CSV cannot hold column {column} of stream {stream.name}"
        source.wrong("format", problem, hint="Use JSON, Parquet or Arrow for nested values.")
    return columns, delimiter
