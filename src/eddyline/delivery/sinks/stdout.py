"""Results as lines on standard output."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import TextIO

from eddyline.delivery.sinks.batches import MARKS, ResultBatch
from eddyline.delivery.sinks.sink import SinkClosedError, SinkError
from eddyline.delivery.sinks.texts import json_lines, text_columns

STDOUT_FORMATS = ("jsonl", "text")


class StdoutSink:
    """`jsonl`: an object per result with its marks. `text`: the query and its columns, for people."""

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

    def write(self, round_number: int, batches: Sequence[ResultBatch]) -> None:
        lines: list[str] = []
        for batch in batches:
            lines += json_lines(batch.rows) if self._format == "jsonl" else self._texts(batch)
        self._check_reader()
        self._is_dirty = True
        try:
            self._file.write("\n".join(lines) + "\n")
        except OSError as error:
            raise self._broken(error) from None

    def _texts(self, batch: ResultBatch) -> list[str]:
        names = batch.columns.names
        columns = [column.to_pylist() for column in text_columns(batch.rows, self._time_zone).columns]
        queries, values = columns[0], columns[len(MARKS) :]
        shown = [
            ", ".join(f"{name}={_shown(value)}" for name, value in zip(names, row, strict=True))
            for row in (zip(*values, strict=True) if values else [()] * len(batch))
        ]
        changes = batch.rows.column("_change").to_pylist()
        return [
            f"{'+' if change == 'insert' else '-'} {query}: {row}".rstrip()
            for change, query, row in zip(changes, queries, shown, strict=True)
        ]

    def is_due(self) -> bool:
        return self._is_dirty

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

    def close(self) -> None:
        """Standard output belongs to the process."""

    def _broken(self, error: OSError) -> SinkError:
        if isinstance(error, BrokenPipeError):
            self._has_reader = False
            self._silence()
            return _gone()
        return SinkError("standard output cannot be written to", detail=error.strerror)

    def _check_reader(self) -> None:
        if not self._has_reader:
            raise _gone()

    def _silence(self) -> None:
        """What is left in the buffer goes nowhere, or Python would complain once more when it ends."""
        try:
            descriptor = self._file.fileno()
        except (OSError, io.UnsupportedOperation):
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _shown(value: str | None) -> str:
    return "NULL" if value is None else value


def _gone() -> SinkClosedError:
    return SinkClosedError("whoever read standard output has gone")
