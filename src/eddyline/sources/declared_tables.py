"""Declarations of static tables: what a user says of one, as the stream it is kept as and the table that loads it.

A static table is a keyed stream whose declaration says where its rows are: the property `static`, the option `path`, and the
format as its source.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eddyline.errors import PropertyError, did_you_mean
from eddyline.model import Stream
from eddyline.sources.formats import FileFormat
from eddyline.sources.ingestion import infer_schema
from eddyline.sources.static_tables import TABLE_FORMATS, StaticTable
from eddyline.stream_properties import STATIC

PATH = "path"  # the option that says where the rows are


def static_table(
    name: str, source: Any, *, key: Sequence[str], schema: Any, file_format: str | None, time_zone: str
) -> tuple[Stream, StaticTable]:
    """A table, and the stream that it is declared as. Raises PropertyError, SchemaError, and SourceError if there is nothing."""
    if not key:
        raise PropertyError(
            f"table {name} has no key",
            detail="Joins find a row by its key, and a new version is compared with the old one by it.",
            hint='Name the column or columns that tell rows apart: key="sym".',
        )
    if file_format is not None and file_format not in TABLE_FORMATS:
        raise PropertyError(
            f"the format of table {name} is {file_format!r}",
            hint=did_you_mean(file_format, TABLE_FORMATS, noun="format"),
        )
    if not isinstance(source, (str, os.PathLike)) and callable(getattr(source, "toArrow", None)):
        source = source.toArrow()  # a DataFrame of Spark
    options: tuple[tuple[str, str], ...] = ()
    if isinstance(source, (str, os.PathLike)):
        source = Path(source).expanduser().absolute()
        options = ((PATH, str(source)),)
    table = StaticTable(
        name,
        source,
        schema=None if schema is None else infer_schema(schema),
        key=key,
        file_format=None if file_format is None else FileFormat(file_format),
        time_zone=time_zone,
    )
    declared = Stream(
        name,
        table.schema,
        key=table.key,
        source=file_format or "",
        options=options,
        properties=((STATIC, "true"),),
    )
    return declared, table


def table_of(stream: Stream, time_zone: str) -> tuple[Stream, StaticTable]:
    """The table of a declaration that says where its rows are, as SQL states it. Raises PropertyError, SchemaError."""
    options = {name.lower(): value for name, value in stream.options}
    if PATH not in options:
        raise PropertyError(
            f"table {stream.name} does not say where its rows are",
            hint="Write OPTIONS (path 'rates.parquet'), or leave out static.",
        )
    return static_table(
        stream.name,
        options[PATH],
        key=stream.key,
        schema=stream.schema,
        file_format=stream.source.lower() or None,
        time_zone=time_zone,
    )


def beside(stream: Stream, folder: Path) -> Stream:
    """The declaration of a static table with its path from this folder on."""
    options = tuple((k, str(folder / v) if k.lower() == PATH else v) for k, v in stream.options)
    return replace(stream, options=options)
