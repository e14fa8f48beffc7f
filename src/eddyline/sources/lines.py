"""Bytes into lines, and lines into CSV rows, however the bytes are cut."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_LINE_BYTES = 16 << 20  # a line that does not end is not worth all memory
MAX_LINES_PER_ROW = (
    1_000  # a quotation mark that is never closed costs its own line, not the rest of the file
)
SHOWN_BYTES = 500  # of a line that cannot be used


@dataclass(frozen=True, slots=True)
class Broken:
    """Replaces a line that cannot be a row: how long it was, how it began, and what is wrong with it."""

    nbytes: int
    beginning: bytes
    problem: str

    def __len__(self) -> int:
        return self.nbytes


Line = bytes | Broken


class LineQueue:
    """Lines that wait to be taken, within limits."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, lines: Sequence[Line]) -> None:
        self._lines += lines
        self.nbytes += sum(map(len, lines))

    def is_full(self, max_rows: int, max_bytes: int) -> bool:
        return len(self._lines) >= max_rows or self.nbytes >= max_bytes

    def take(self, max_rows: int, max_bytes: int) -> list[Line]:
        """The first lines, as many as the limits allow, but one at least if there is one."""
        if len(self._lines) <= max_rows and self.nbytes <= max_bytes:
            lines, self._lines, self.nbytes = self._lines, [], 0
            return lines
        lines = []
        nbytes = 0
        for line in self._lines[:max_rows]:
            nbytes += len(line)
            if nbytes > max_bytes and lines:
                break
            lines.append(line)
        self._lines = self._lines[len(lines) :]
        self.nbytes -= sum(map(len, lines))
        return lines


def n_lines(rows: Sequence[Line]) -> int:
    """How many lines these rows took."""
    return len(rows) + sum(row.count(b"\n") for row in rows if isinstance(row, bytes))


class LinePlaces:
    """The place of each of some lines, as a dead letter says it: the number of the line, or what the caller knows."""

    def __init__(
        self, lines: Sequence[Line], first: int, where: str, stated: Sequence[str] | None = None
    ) -> None:
        assert stated is None or len(stated) == len(lines), (len(stated), len(lines))
        self._lines = lines
        self._first = first
        self._where = where
        self._stated_places = stated
        self._numbers: list[int] = []

    @property
    def are_stated(self) -> bool:
        """Whether the lines are messages, whose places the caller stated."""
        return self._stated_places is not None

    def __getitem__(self, at: int) -> str:
        if self._stated_places is not None:
            return self._stated_places[at]
        if not self._numbers:  # only now: most lines fit, and then it is not needed
            self._numbers = list(
                itertools.accumulate((n_lines([line]) for line in self._lines), initial=self._first)
            )
        return f"{self._where}, line {self._numbers[at]}"


class LineCutter:
    """Blocks of bytes in, whole lines out, without their line ends (a carriage return stays)."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []  # of a line whose end has not come yet
        self._length = 0

    def feed(self, block: bytes) -> list[Line]:
        """The lines that end in this block."""
        *whole, rest = block.split(b"\n")
        lines: list[Line] = []
        if whole:
            lines = [self._finished_line(whole[0]), *whole[1:]]
            if max(map(len, whole)) > self._max_bytes:
                lines = [_fitting_line(line, self._max_bytes) for line in lines]
        self._length += len(rest)
        self._pieces.append(rest)
        if self._length > self._max_bytes:  # keep its beginning only
            self._pieces = [b"".join(self._pieces)[:SHOWN_BYTES]]
        return lines

    def end(self) -> list[Line]:
        """The last line, if it had no line end."""
        return [self._finished_line(b"")] if self._length else []

    def _finished_line(self, last: bytes) -> Line:
        length = self._length + len(last)
        line = b"".join([*self._pieces, last])
        self._pieces = []
        self._length = 0
        return _overlong(line, length, self._max_bytes) if length > self._max_bytes else line


class RowCutter:
    """Lines in, CSV rows out: a line that ends inside quotation marks goes on in the next one."""

    def __init__(self, delimiter: str = ",") -> None:
        # A field is enclosed in quotation marks, doubled ones inside, or does not begin with one.
        comma = re.escape(delimiter.encode())
        field = rb'(?:"(?:[^"]|"")*+"[ \t]*+|(?!")[^%s]*+)' % comma
        self._whole = re.compile(rb"(?:%s(?:%s|\r?\Z))*+\Z" % (field, comma))
        self._goes_on = re.compile(rb'(?:%s%s)*+"(?:[^"]|"")*+\Z' % (field, comma))
        self._open_lines: list[bytes] = []

    def feed(self, lines: Sequence[Line]) -> list[Line]:
        """The rows that end with these lines."""
        rows: list[Line] = []
        coming = list(reversed(lines))
        while coming:
            line = coming.pop()
            if isinstance(line, Broken) and self._open_lines:
                coming.append(line)
                rows += self._broken_rows(coming)
            elif isinstance(line, Broken) or (not self._open_lines and b'"' not in line):
                rows.append(line)
            else:
                self._open_lines.append(line)
                row = b"\n".join(self._open_lines)
                if self._whole.match(row) is not None:
                    rows.append(row)
                    self._open_lines.clear()
                elif not self._may_go_on(row):
                    rows += self._broken_rows(coming)
        return rows

    def end(self) -> list[Line]:
        """What is left when no more lines come."""
        rows: list[Line] = []
        while self._open_lines:
            again: list[Line] = []
            rows += self._broken_rows(again)
            rows += self.feed(again[::-1])
        return rows

    def _broken_rows(self, coming: list[Line]) -> list[Line]:
        """The first open line is a broken row by itself; the others come again, before what else is coming."""
        if not self._open_lines:
            return []
        first, *others = self._open_lines
        coming.extend(reversed(others))
        self._open_lines.clear()
        is_open = self._goes_on.match(first) is not None
        problem = "a quotation mark is not closed" if is_open else "a quotation mark is where none can be"
        return [Broken(len(first), first[:SHOWN_BYTES], problem)]

    def _may_go_on(self, row: bytes) -> bool:
        if len(self._open_lines) >= MAX_LINES_PER_ROW or len(row) > MAX_LINE_BYTES:
            return False
        return self._goes_on.match(row) is not None


def _fitting_line(line: Line, max_bytes: int) -> Line:
    if isinstance(line, Broken) or len(line) <= max_bytes:
        return line
    return _overlong(line, len(line), max_bytes)


def _overlong(beginning: bytes, nbytes: int, max_bytes: int) -> Broken:
    return Broken(nbytes, beginning[:SHOWN_BYTES], f"the line is longer than {max_bytes >> 20} MB")
