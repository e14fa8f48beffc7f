"""The places of the keys and values of a TOML text.

`tomllib` says what a text means but not where; this reads the same text once more for its structure alone: tables, arrays of
tables, dotted keys, inline tables and arrays. A path is a tuple of keys and, inside arrays, numbers: ("sinks", 0, "path").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from eddyline.errors import Span

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'{3,5}", re.DOTALL)
_PLAIN = re.compile(r"[^,\]}#\n]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


@dataclass(slots=True)
class Located:
    """Spans of keys and values by path, and keys that are given twice."""

    keys: dict[Path, Span] = field(default_factory=dict)
    values: dict[Path, Span] = field(default_factory=dict)
    twice: list[tuple[Path, Span, Span]] = field(default_factory=list)  # path, first place, second place
    statements: list[tuple[int, Path]] = field(default_factory=list)  # where each begins, and its table
    lost_at: int | None = None  # where the text stops being TOML

    def key(self, path: Path) -> Span:
        """The key at the end of a path, or the nearest thing above it that has a place."""
        return self._nearest(path, self.keys, self.values)

    def value(self, path: Path) -> Span:
        return self._nearest(path, self.values, self.keys)

    def _nearest(self, path: Path, first: dict[Path, Span], second: dict[Path, Span]) -> Span:
        while path:
            found = first.get(path) or second.get(path)
            if found is not None:
                return found
            path = path[:-1]
        return Span(0, 0)


def locate(text: str) -> Located:
    """Find every key and value. In a text that is not TOML, those before the first mistake."""
    reader = _Reader(text)
    try:
        reader.document()
    except _Lost:
        reader.found.lost_at = reader.at
    return reader.found


class _Lost(Exception):
    """The text is not TOML from here on."""


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        self._arrays: dict[Path, int] = {}  # how many tables each array of tables has so far
        self._headers: dict[Path, Span] = {}  # tables that were opened by [name]
        self._pairs: set[Path] = set()  # keys that were given a value
        self.found = Located()

    def document(self) -> None:
        table: Path = ()
        while True:
            self._skip(_BLANK)
            if self.at >= len(self._text):
                return
            self.found.statements.append((self.at, table))
            if self._text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)

    # ----------------------------------------------------------------------------------------- tables

    def _header(self) -> Path:
        start = self.at
        is_array = self._text.startswith("[[", start)
        self.at += 2 if is_array else 1
        names = list(self._dotted())
        closing = "]]" if is_array else "]"
        self._expect(closing)
        header = Span(start, self.at)
        path: Path = ()
        for name, span in names[:-1]:
            path = self._inside((*path, name))
            self.found.keys.setdefault(path, span)
        name, span = names[-1]
        path = (*path, name)
        if is_array:
            number = self._arrays.get(path, 0)
            self._arrays[path] = number + 1
            self.found.keys.setdefault(path, span)
            self.found.values.setdefault(path, header)
            path = (*path, number)
        else:
            path = self._inside(path)
            if path in self._headers or path in self._pairs:
                self._headers.setdefault(path, self.found.key(path))
                self.found.twice.append((path, self._headers[path], span))
            self._headers.setdefault(path, span)
        self.found.keys.setdefault(path, span)
        self.found.values.setdefault(path, header)
        return path

    def _inside(self, path: Path) -> Path:
        """The path of a table; a name of an array of tables means its last one."""
        number = self._arrays.get(path)
        return path if number is None else (*path, number - 1)

    def _pair(self, table: Path) -> None:
        path = table
        names = list(self._dotted())
        for name, span in names[:-1]:
            path = (*path, name)
            self.found.keys.setdefault(path, span)
        name, span = names[-1]
        path = (*path, name)
        if path in self.found.values or path in self.found.keys:
            self.found.twice.append((path, self.found.key(path), span))
        self.found.keys.setdefault(path, span)
        self._pairs.add(path)
        self._expect("=")
        self._skip(_SPACE)
        self._value(path)

    # ----------------------------------------------------------------------------------------- values

    def _value(self, path: Path) -> None:
        start = self.at
        first = self._text[start : start + 1]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        elif first in ('"', "'"):
            self._string()
        else:
            self._take(_PLAIN)
        end = self.at
        while end > start and self._text[end - 1] in " \t\r":
            end -= 1
        if end == start:
            raise _Lost
        self.found.values.setdefault(path, Span(start, end))

    def _array(self, path: Path) -> None:
        self.at += 1
        number = 0
        while True:
            self._skip(_BLANK)
            if self._text.startswith("]", self.at):
                self.at += 1
                return
            self._value((*path, number))
            number += 1
            self._skip(_BLANK)
            if self._text.startswith(",", self.at):
                self.at += 1
            elif not self._text.startswith("]", self.at):
                raise _Lost

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self._skip(_BLANK)
            if self._text.startswith("}", self.at):
                self.at += 1
                return
            self._pair(path)
            self._skip(_BLANK)
            if self._text.startswith(",", self.at):
                self.at += 1
            elif not self._text.startswith("}", self.at):
                raise _Lost

    def _string(self) -> None:
        for opening, pattern in (
            ('"""', _LONG_BASIC),
            ("'''", _LONG_LITERAL),
            ('"', _BASIC),
            ("'", _LITERAL),
        ):
            if self._text.startswith(opening, self.at):
                self._take(pattern)
                return

    # ----------------------------------------------------------------------------------------- keys

    def _dotted(self) -> Iterator[tuple[str, Span]]:
        while True:
            self._skip(_SPACE)
            yield self._name()
            self._skip(_SPACE)
            if not self._text.startswith(".", self.at):
                return
            self.at += 1

    def _name(self) -> tuple[str, Span]:
        start = self.at
        first = self._text[start : start + 1]
        if first == '"':
            return _unescaped(self._take(_BASIC)[1:-1]), Span(start, self.at)
        if first == "'":
            return self._take(_LITERAL)[1:-1], Span(start, self.at)
        return self._take(_BARE_KEY), Span(start, self.at)

    # ----------------------------------------------------------------------------------------- characters

    def _skip(self, pattern: re.Pattern[str]) -> None:
        hit = pattern.match(self._text, self.at)
        assert hit is not None, f"{pattern.pattern} matches nothing too"
        self.at = hit.end()

    def _take(self, pattern: re.Pattern[str]) -> str:
        hit = pattern.match(self._text, self.at)
        if hit is None:
            raise _Lost
        self.at = hit.end()
        return hit[0]

    def _expect(self, symbol: str) -> None:
        self._skip(_SPACE)
        if not self._text.startswith(symbol, self.at):
            raise _Lost
        self.at += len(symbol)


def _unescaped(inner: str) -> str:
    def one(hit: re.Match[str]) -> str:
        digits = hit[1] or hit[2]
        return chr(int(digits, 16)) if digits else _ESCAPED.get(hit[3], hit[3])

    return _ESCAPE.sub(one, inner)
