"""Lines on standard input. What was read and not committed when the process ends is gone: a pipe cannot be asked again."""

from __future__ import annotations

import contextlib
import io
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from eddyline.model import Stream
from eddyline.sources.formats import FileFormat
from eddyline.sources.lines import LineCutter, LineQueue, RowCutter, n_lines
from eddyline.sources.payloads import CsvRows, Decoder, JsonLines
from eddyline.sources.positions import SourceBatch, SourceError, SourceProgress
from eddyline.sources.readers import BLOCK_BYTES

WAITING_BLOCKS = 16  # a producer that is faster than we are waits
WHERE = "standard input"


class StdinLines:
    """Rows of one stream from a pipe or terminal. Rows wait at most `every_s` for others to share a round with."""

    def __init__(
        self,
        file: BinaryIO,
        line_format: FileFormat,
        stream: Stream,
        time_zone: str,
        *,
        position: dict[str, int] | None = None,
        every_s: float = 0.1,
        wake: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._format = line_format
        self._stream = stream
        self._time_zone = time_zone
        self._n_rows = (position or {}).get("rows", 0)
        self._every_s = every_s
        self._wake = wake
        self._clock = clock
        self._decoder: Decoder | None = None
        self._columns = list(line_format.columns)
        self._lines_of = LineCutter()
        self._rows_of = RowCutter(line_format.delimiter) if line_format.name == "csv" else None
        self._blocks: queue.Queue[bytes | OSError] = queue.Queue(WAITING_BLOCKS)
        self._pending_lines = LineQueue()
        self._line = 1
        self._since: float | None = None  # when the oldest pending line came
        self._is_end = False
        self._reader: threading.Thread | None = None

    def take(self, max_rows: int, max_bytes: int) -> SourceBatch | None:
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, name="eddyline stdin", daemon=True)
            self._reader.start()
        self._gather(max_rows, max_bytes)
        if not self._pending_lines or not self._is_due(max_rows, max_bytes):
            return None
        decoder = self._decoder_of()
        if decoder is None:
            return None
        lines = self._pending_lines.take(max_rows, max_bytes)
        self._since = self._clock() if self._pending_lines else None
        rows = decoder.rows(lines, self._line, WHERE)
        self._line += n_lines(lines)
        self._n_rows += rows.rows.num_rows + len(rows.misfits)
        return SourceBatch(rows, {"rows": self._n_rows})

    def redeclare(self, stream: Stream) -> None:
        self._stream = stream
        self._decoder = None

    def wait_s(self) -> float:
        if self._since is None:
            return 60.0  # the reader wakes us
        return max(0.0, self._since + self._every_s - self._clock())

    def progress(self) -> SourceProgress:
        return SourceProgress(f"row {self._n_rows:,}", None, "rows")

    @property
    def is_pending(self) -> bool:
        return not self.is_finished

    @property
    def is_finished(self) -> bool:
        return self._is_end and not self._pending_lines

    def close(self) -> None:
        """The reader is left to wait for its pipe; it ends with the process."""

    # ----------------------------------------------------------------------------------------- inside

    def _gather(self, max_rows: int, max_bytes: int) -> None:
        while not self._is_end and not self._pending_lines.is_full(max_rows, max_bytes):
            try:
                block = self._blocks.get_nowait()
            except queue.Empty:
                break
            if isinstance(block, OSError):
                self._is_end = True
                raise SourceError(f"{WHERE} cannot be read", detail=block.strerror)
            lines = self._lines_of.feed(block) if block else self._lines_of.end()
            if self._rows_of is not None:
                lines = [*self._rows_of.feed(lines), *([] if block else self._rows_of.end())]
            self._is_end = not block
            self._pending_lines.add(lines)
        if self._pending_lines and self._since is None:
            self._since = self._clock()

    def _is_due(self, max_rows: int, max_bytes: int) -> bool:
        if self._is_end or self._pending_lines.is_full(max_rows, max_bytes):
            return True
        return self._since is not None and self._clock() - self._since >= self._every_s

    def _decoder_of(self) -> Decoder | None:
        """Made with the first line, which is the header of CSV if no columns are given."""
        if self._decoder is None and self._format.name == "json":
            self._decoder = JsonLines(self._stream, self._time_zone)
        if self._decoder is None:
            if not self._columns:
                header = self._pending_lines.take(1, 1)
                self._line += n_lines(header)
                self._columns = CsvRows.header(header[0], self._format.delimiter)
            header_of = None if self._format.columns else WHERE
            self._decoder = CsvRows(
                self._stream, self._time_zone, self._columns, self._format.delimiter, header_of=header_of
            )
        return self._decoder if self._pending_lines else None

    def _read(self) -> None:
        """In a thread of its own. The descriptor is read directly: a buffered reader's lock would be held at exit."""
        read: Callable[[int], Any] = self._file.read
        with contextlib.suppress(OSError, io.UnsupportedOperation):
            descriptor = self._file.fileno()
            read = lambda n: os.read(descriptor, n)  # noqa: E731
        while True:
            try:
                block: bytes | OSError = read(BLOCK_BYTES)
            except OSError as error:
                block = error
            self._blocks.put(block)
            if self._wake is not None:
                self._wake()
            if not block or isinstance(block, OSError):
                return
