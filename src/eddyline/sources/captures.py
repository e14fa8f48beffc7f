"""Rows that were captured in the store, because what they came from can not be read twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from eddyline.errors import StoreError
from eddyline.model import Stream
from eddyline.sources.ingestion import IngestedRows, ingest
from eddyline.sources.references import Reference, UnreadableReference
from eddyline.storage import CAPTURE, Store, StoredFile, read_capture


def capture_reference(folder: Path, file: StoredFile) -> Reference:
    """The rows of a captured file."""
    what = {"store": str(folder), "name": file.name, "nbytes": file.nbytes, "checksum": file.checksum}
    return Reference(CAPTURE, what, file.nbytes)


def read_capture_file(reference: Reference, stream: Stream, time_zone: str) -> Iterator[IngestedRows]:
    what = reference.what
    try:
        buffer = Store(Path(what["store"]), 0).read(
            StoredFile(what["name"], what["nbytes"], what["checksum"])
        )
    except StoreError as error:
        raise UnreadableReference(f"{error.problem}: {error.detail}") from error
    yield from captured_rows(buffer, stream, time_zone)


def captured_rows(buffer: pa.Buffer, stream: Stream, time_zone: str) -> Iterator[IngestedRows]:
    """The rows of a capture in the schema the stream has now."""
    for _, rows in read_capture(buffer):
        yield ingest(stream, with_all_columns(rows, stream), time_zone)


def with_all_columns(rows: pa.RecordBatch, stream: Stream) -> pa.RecordBatch:
    """The rows with NULL in columns that are not there and may be NULL."""
    column_names = {name.lower() for name in rows.schema.names}
    for field in stream.schema:
        if field.nullable and field.name.lower() not in column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows
