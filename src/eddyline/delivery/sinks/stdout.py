"""Results, or messages, as lines on standard output."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from typing import TextIO

from eddyline.delivery.sinks.batches import Batch
from eddyline.delivery.sinks.sink import SinkClosedError, SinkError

STDOUT_FORMATS = ("jsonl", "text")


class StdoutSink:
    """`jsonl`: an object each, a result with its marks. `text`: the query and its columns, or what an alert says, for people."""

    def __init__(
        self, file: TextIO, *, name: str = "stdout", format: str = "jsonl", time_zone: str = "UTC"
    ) -> None:
        assert format in STDOUT_FORMATS, format
        self.name = name
        self._file = file
        self._format = format
        self._time_zone = time_zone
        self._is_dirty = False
        self._has_reader = True

    def has_room(self, number: int, n_items: int) -> bool:
        return True

    def write(self, number: int, batches: Sequence[Batch]) -> None:
        lines: list[str] = []
        for batch in batches:
            lines += batch.lines() if self._format == "jsonl" else batch.text_lines(self._time_zone)
        self._check_reader()
        self._is_dirty = True
        try:
            self._file.write("\n".join(lines) + "\n")
        except OSError as error:
            raise self._broken(error) from None

    def is_due(self) -> bool:
        return self._is_dirty

    def is_full(self) -> bool:
        return self._is_dirty

    def wait_s(self) -> float:
        return 0.0 if self._is_dirty else math.inf

    def flush(self) -> bool:
        self._check_reader()
        try:
            self._file.flush()
        except OSError as error:
            raise self._broken(error) from None
        self._is_dirty = False
        return True

    def forget(self, cursor: int) -> None:
        self._is_dirty = False

    def interrupt(self) -> None:
        """The reader decides how long it takes."""

    def close(self) -> None:
        """Standard output belongs to the process."""

    def _broken(self, error: OSError) -> SinkError:
        if isinstance(error, BrokenPipeError):
            self._has_reader = False
            self._silence()
            return _closed_error()
        return SinkError("standard output cannot be written to", detail=error.strerror)

    def _check_reader(self) -> None:
        if not self._has_reader:
            raise _closed_error()

    def _silence(self) -> None:
        """What is left in the buffer goes nowhere, or Python would complain once more when it ends."""
        try:
            descriptor = self._file.fileno()
        except (OSError, io.UnsupportedOperation):
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _closed_error() -> SinkClosedError:
    return SinkClosedError("the reader of standard output has gone")
