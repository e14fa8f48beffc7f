"""`[tables.NAME]` of a pipeline file: static tables."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from eddyline.errors import EddylineError
from eddyline.pipeline.model import StreamSettings, TableFile
from eddyline.pipeline.streams import is_accepted, read_schema
from eddyline.pipeline.tables import Table
from eddyline.sources import TABLE_FORMATS, static_table

TABLE_KEYS = ("path", "key", "format", "schema")


def read_tables(table: Table | None, streams: Collection[str], time_zone: str) -> list[StreamSettings]:
    """All tables that have no mistake; `streams` are the names that are taken, in lower case.

    Without a schema, a table has the columns of its files, which must be there then.
    """
    found: list[StreamSettings] = []
    kind_of_name = dict.fromkeys(streams, "a stream")
    for name in () if table is None else table.values:
        assert table is not None
        each = table.table(name, f"[tables.{name}]")
        if each is None:
            continue
        if name.lower() in kind_of_name:
            problem = f"table {name} already exists, as {kind_of_name[name.lower()]}"
            hint = "Names are not case-sensitive, and tables are streams."
            table.document.wrong(each.at, problem, hint=hint, of_key=True)
            continue
        kind_of_name[name.lower()] = f"table {name}"
        settings = _table(name, each, time_zone)
        if settings is not None:
            found.append(settings)
    return found


def _table(name: str, table: Table, time_zone: str) -> StreamSettings | None:
    table.only(TABLE_KEYS)
    n_mistakes = len(table.document.mistakes)
    written = table.text("path", needed='Name its file, or the folder of its files: path = "rates.parquet".')
    key = table.names("key")
    if not table.has("key"):
        table.missing("key", hint='Name the columns that identify its rows: key = "sym".')
    file_format = table.choice("format", TABLE_FORMATS)
    schema = read_schema(table) if table.has("schema") else None
    if written is None or len(table.document.mistakes) > n_mistakes:
        return None
    path = table.document.folder / Path(written).expanduser()
    try:
        stream, _ = static_table(
            name, path, key=key, schema=schema, file_format=file_format, time_zone=time_zone
        )
    except EddylineError as error:
        table.wrong_as("key" if error.problem.endswith("to be its key") else "path", error)
        return None
    if not is_accepted(table, None, stream):
        return None
    place = table.document.place(table.at, of_key=True)
    return StreamSettings(stream, place=place, table=TableFile(path, written, table.place("path")))
