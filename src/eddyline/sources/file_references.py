"""Files of a folder by reference: which pieces of which files a round takes, and reading a piece elsewhere.

A piece is a whole file, or row groups of a large Parquet file. It says how large the file was and when it had been written, and a
file that is not so any more is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet

from eddyline.errors import SchemaError
from eddyline.model import Stream
from eddyline.sources.formats import FileFormat
from eddyline.sources.ingestion import IngestedRows
from eddyline.sources.positions import FilePlace, FileState
from eddyline.sources.readers import UNREADABLE, UnreadableFile, open_file
from eddyline.sources.references import Reference, UnreadableReference
from eddyline.sources.schema_changes import SchemaChanged

FILE = "file"
PIECE_BYTES = 8 << 20  # a larger Parquet file is cut between row groups
ROWS_AT_ONCE = 1 << 17
BYTES_AT_ONCE = 16 << 20
HAS_CHANGED = "it is no longer what it was when it was planned"


def pieces(
    folder: Path, file_format: FileFormat, state: FileState, place: FilePlace
) -> Iterator[tuple[Reference, FilePlace | None]]:
    """What is left of a file behind a place, and the place behind each piece; None behind the last. Raises UnreadableFile."""
    if file_format.name != "parquet" or state.nbytes <= PIECE_BYTES:
        yield _reference(folder, file_format, state, place, None, state.nbytes), None
        return
    try:
        with pyarrow.parquet.ParquetFile(folder / state.name) as file:
            groups = [
                (file.metadata.row_group(k).num_rows, file.metadata.row_group(k).total_byte_size)
                for k in range(file.metadata.num_row_groups)
            ]
    except UNREADABLE as error:
        raise UnreadableFile(str(error).splitlines()[0]) from None
    total, end = sum(n for n, _ in groups), 0
    first = place.n_rows
    n_bytes = 0
    for n, size in groups:
        end += n
        if end <= first:
            continue
        n_bytes += size
        if n_bytes >= PIECE_BYTES or end == total:
            behind = None if end == total else FilePlace(n_rows=end)
            yield (
                _reference(folder, file_format, state, FilePlace(n_rows=first), end - first, n_bytes),
                behind,
            )
            first, n_bytes = end, 0
    if total <= place.n_rows:  # nothing is left but the end of the file
        yield _reference(folder, file_format, state, place, 0, 0), None


def _reference(
    folder: Path, file_format: FileFormat, state: FileState, place: FilePlace, n_rows: int | None, nbytes: int
) -> Reference:
    what: dict[str, Any] = {
        "folder": str(folder.absolute()),
        "format": file_format,
        "state": state,
        "place": place,
        "n_rows": n_rows,
    }
    return Reference(FILE, what, nbytes)


def name_of(reference: Reference) -> str:
    """The file a reference belongs to."""
    return str(reference.what["state"].name)


def state_of(path: Path) -> FileState | None:
    """A file as it is now, or None if it is gone."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return FileState(path.name, stat.st_size, stat.st_mtime_ns)


def read_file_piece(
    reference: Reference, stream: Stream, time_zone: str, needed: frozenset[str] | None = None
) -> Iterator[IngestedRows]:
    """The rows of a piece; see `reading.read`."""
    what = reference.what
    path, state, n_remaining = Path(what["folder"]) / what["state"].name, what["state"], what["n_rows"]
    if state_of(path) != state:
        raise UnreadableReference("it is gone" if state_of(path) is None else HAS_CHANGED)
    try:
        reader = open_file(path, what["format"], stream, time_zone, what["place"], needed, n_remaining)
        try:
            while n_remaining is None or n_remaining > 0:
                before = reader.place.n_rows
                rows = reader.read(
                    ROWS_AT_ONCE if n_remaining is None else min(ROWS_AT_ONCE, n_remaining), BYTES_AT_ONCE
                )
                if rows is None:
                    break
                yield rows
                n_remaining = None if n_remaining is None else n_remaining - (reader.place.n_rows - before)
        finally:
            reader.close()
    except SchemaChanged as changed:
        raise UnreadableReference(changed.problem, changed.change) from None
    except UnreadableFile as error:
        raise UnreadableReference(str(error).replace(f"{path.parent}/", "")) from None
    except SchemaError as error:
        error_text = " ".join(part for part in (error.problem + ".", error.detail, error.hint) if part)
        raise UnreadableReference(error_text) from None
    if state_of(path) != state:
        raise UnreadableReference(HAS_CHANGED)
