"""Rows that were captured in the store, because what they came from can not be read twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eddyline.errors import StoreError
from eddyline.model import Stream
from eddyline.sources.ingest import Ingested, ingest
from eddyline.sources.references import Reference, UnreadableReference
from eddyline.storage.outbox import read_capture
from eddyline.storage.store import Store, StoredFile

CAPTURE = "capture"


def capture_reference(folder: Path, file: StoredFile) -> Reference:
    """The rows of a captured file."""
    what = {"store": str(folder), "name": file.name, "nbytes": file.nbytes, "checksum": file.checksum}
    return Reference(CAPTURE, what, file.nbytes)


def read_capture_file(reference: Reference, stream: Stream, time_zone: str) -> Iterator[Ingested]:
    what = reference.what
    try:
        buffer = Store(Path(what["store"]), 0).read(
            StoredFile(what["name"], what["nbytes"], what["checksum"])
        )
    except StoreError as error:
        raise UnreadableReference(f"{error.problem}: {error.detail}") from error
    for _, rows in read_capture(buffer):
        yield ingest(stream, rows, time_zone)
