"""The words of an SQL text and their positions, so that some can be replaced without touching strings or comments.

What is replaced for a judge, by position, is said in `spark_text`. All else is run as the user wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NAME = r"[^\W\d]\w*"
_BACKQUOTED = r"`(?:[^`]|``)+`"
_TOKEN = re.compile(
    r"(?:\s+|--[^\n]*|/\*.*?\*/)*(?:"
    r"""(?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w*|(?<![\w\])`])\.\d+(?:[eE][+-]?\d+)?\w*)"
    rf"|(?P<word>{_NAME})"
    rf"|(?P<name>{_BACKQUOTED})"
    rf"""|(?P<path>(?<=[\w`\])]):(?!:)(?:{_NAME}|{_BACKQUOTED})"""
    rf"""(?:\.(?:\w+|{_BACKQUOTED})|\[\s*(?:\d+|'[^']*'|"[^"]*")\s*\])*)"""
    rf"|(?P<parameter>(?<![\w`\])]):{_NAME})"
    r"|(?P<symbol>::|<=>|<=|>=|<>|!=|==|\|\||\S)"
    r"|\Z)",
    re.DOTALL,
)
_STEP = re.compile(r"""[:.](?:(\w+)|`((?:[^`]|``)+)`)|\[\s*(?:(\d+)|'([^']*)'|"([^"]*)")\s*\]""")


@dataclass(frozen=True, slots=True)
class SqlWord:
    """A piece of the text: a string, number, word, backquoted name, path, parameter or symbol."""

    kind: str
    text: str
    start: int
    end: int

    def says(self, *words: str) -> bool:
        """Whether it is one of these words or symbols, in whatever case."""
        return self.kind in ("word", "symbol") and self.text.upper() in words

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "name")

    @property
    def name(self) -> str:
        """The name, without its backquotes."""
        return self.text[1:-1].replace("``", "`") if self.kind == "name" else self.text


@dataclass(frozen=True, slots=True)
class Edit:
    """Another text for a part of it."""

    start: int
    end: int
    text: str


def words_of(text: str) -> list[SqlWord]:
    """All words of a text, in order."""
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind is not None:
            found.append(SqlWord(kind, match[kind], *match.span(kind)))
    return found


def edited_text(text: str, edits: Iterable[Edit]) -> str:
    """The text with these parts replaced."""
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def from_at(words: Sequence[SqlWord]) -> int | None:
    """The place of the word FROM that names the stream: not one inside of a function, nor of IS DISTINCT FROM."""
    depth = 0
    for at, word in enumerate(words):
        if word.says("(", "["):
            depth += 1
        elif word.says(")", "]"):
            depth -= 1
        elif depth == 0 and word.says("FROM") and not words[at - 1].says("DISTINCT"):
            return at
    return None


def json_path(path: str) -> str:
    """The JSON path that `:a.b[0]` means: $.a.b[0]; keys that are no plain words in brackets."""
    steps = ["$"]
    for plain, backquoted, index, single, double in _STEP.findall(path):
        key = backquoted.replace("``", "`") or single or double
        steps.append(f"[{index}]" if index else f"['{key}']" if key else f".{plain}")
    return "".join(steps)
