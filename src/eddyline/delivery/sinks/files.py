"""Results, or messages, as files in a folder: JSON lines, CSV or Parquet.

A file holds the results of a range of rounds and says so in its name:

    alerts-3f9a1c-000000000017-000000000042.jsonl
    alerts-3f9a1c-000000000017-000000000042-8b2e11d0.parquet
    alerts+alerts-3f9a1c-000000000003-000000000009.jsonl

which are the sink, the home the rounds belong to, the first and last round, and, where a file has fixed columns, which columns:
results with the same columns share a file. Of messages it is the ids that are named. A file is written under a name that begins
with a dot, flushed to the disk together with its folder, then renamed: a reader of the folder sees whole files only. After a
crash between the renaming and the cursor's advance the same range is written again, except for the files that are there already,
so no result is there twice.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from eddyline.delivery.sinks.batches import Batch
from eddyline.delivery.sinks.sink import SinkError
from eddyline.delivery.sinks.texts import text_columns
from eddyline.types import MONTHS, STRING

FILE_FORMATS = ("jsonl", "csv", "parquet")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


class FileSink:
    """A file for every few rounds: after `bytes_per_file` bytes, or `every_s` seconds after its first result."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        home_id: str,
        cursor: int,
        takes: str = "results",
        format: str = "jsonl",
        every_s: float = 5.0,
        bytes_per_file: int = 64 << 20,
        time_zone: str = "UTC",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert format in FILE_FORMATS, format
        self.name = name
        self._folder = folder
        kind = "" if takes == "results" else f"+{takes}"  # no name of a sink has a plus here
        self._prefix = f"{_UNSAFE.sub('_', name)}{kind}-{home_id}-"
        self._format = format
        self._every_s = every_s
        self._bytes_per_file = bytes_per_file
        self._time_zone = time_zone
        self._clock = clock
        self._batches: list[Batch] = []
        self._nbytes = 0
        self._since: float | None = None
        self._cursor = cursor
        self._is_sure = True  # that what is known about the folder is so: not after a failure
        # last rounds of ranges that were written, not acknowledged; earliest first
        self._begun = self._prepare()

    def has_room(self, number: int, n_items: int) -> bool:
        return True

    def write(self, number: int, batches: Sequence[Batch]) -> None:
        if not self._is_sure:
            self._begun, self._is_sure = self._prepare(), True
        if self._begun and number > self._begun[0]:
            self._write_range()  # a range that was begun before the crash ends where it ended then
        self._batches += batches
        self._nbytes += sum(batch.rows.nbytes for batch in batches)
        if self._since is None:
            self._since = self._clock()

    def is_due(self) -> bool:
        if self._since is None:
            return False
        return self._nbytes >= self._bytes_per_file or self._clock() - self._since >= self._every_s

    def is_full(self) -> bool:
        return self.is_due()

    def wait_s(self) -> float:
        return math.inf if self._since is None else max(0.0, self._since + self._every_s - self._clock())

    def flush(self) -> bool:
        if self._begun and self._batches and self._batches[-1].number < self._begun[0]:
            return False  # the rest of the range that was begun comes first
        self._write_range()
        return True

    def _write_range(self) -> None:
        """Everything that waits, as the files of one range of rounds."""
        if self._batches:
            first, last = self._batches[0].number, self._batches[-1].number
            stem = f"{self._prefix}{first:012d}-{self._begun[0] if self._begun else last:012d}"
            try:
                for name, write in self._files(stem):
                    self._write_file(name, write)
            except (OSError, pa.ArrowException) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                raise SinkError(f"sink {self.name} cannot write its files", detail=why) from None
            self._begun = self._begun[1:]
        self._clear()

    def forget(self, cursor: int) -> None:
        self._clear()
        self._cursor = cursor
        self._is_sure = False

    def _clear(self) -> None:
        self._batches = []
        self._nbytes = 0
        self._since = None

    def interrupt(self) -> None:
        """Files are written in no time, or the disk is at fault."""

    def close(self) -> None:
        """Nothing is held open between flushes."""

    # ----------------------------------------------------------------------------------------- inside

    def _prepare(self) -> list[int]:
        """Make the folder, clear what a crash left half written, find ranges that were written and not acknowledged."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            begun: set[int] = set()
            for name in os.listdir(self._folder):
                if name.startswith(f".{self._prefix}"):
                    (self._folder / name).unlink(missing_ok=True)
                elif name.startswith(self._prefix):
                    first, last, *_ = re.split(r"[-.]", name[len(self._prefix) :])
                    if first.isdigit() and last.isdigit() and int(first) > self._cursor:
                        begun.add(int(last))
            return sorted(begun)
        except OSError as error:
            raise SinkError(f"sink {self.name} cannot use its folder", detail=error.strerror) from None

    def _files(self, stem: str) -> list[tuple[str, Callable[[BinaryIO], None]]]:
        if self._format == "jsonl":
            return [(f"{stem}.jsonl", partial(_write_json, list(self._batches)))]
        by_columns: dict[pa.Schema, list[pa.RecordBatch]] = {}
        for batch in self._batches:
            by_columns.setdefault(batch.rows.schema, []).append(batch.rows)
        write = self._write_csv if self._format == "csv" else self._write_parquet
        return [
            (f"{stem}-{_identity(schema)}.{self._format}", partial(write, pa.Table.from_batches(rows)))
            for schema, rows in by_columns.items()
        ]

    def _write_csv(self, table: pa.Table, file: BinaryIO) -> None:
        for number, batch in enumerate(table.to_batches()):
            options = pyarrow.csv.WriteOptions(include_header=number == 0)
            pyarrow.csv.write_csv(text_columns(batch, self._time_zone), file, options)

    def _write_parquet(self, table: pa.Table, file: BinaryIO) -> None:
        for at, f in enumerate(table.schema):
            if f.type == MONTHS:  # Parquet has no such type
                texts = [
                    text_columns(batch, self._time_zone).column(0)
                    for batch in table.select([at]).to_batches()
                ]
                chunks = [chunk for column in texts for chunk in column.chunks]
                table = table.set_column(at, f.name, pa.chunked_array(chunks, STRING))
        pyarrow.parquet.write_table(table, file, compression="zstd")

    def _write_file(self, name: str, write: Callable[[BinaryIO], None]) -> None:
        path, hidden = self._folder / name, self._folder / f".{name}"
        if path.exists():
            return
        with open(hidden, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(hidden, path)
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_json(batches: Sequence[Batch], file: BinaryIO) -> None:
    for batch in batches:
        file.write(("\n".join(batch.lines()) + "\n").encode())


def _identity(schema: pa.Schema) -> str:
    """The same for the same names and types, on every machine."""
    return hashlib.sha256(repr([(f.name, str(f.type)) for f in schema]).encode()).hexdigest()[:8]
