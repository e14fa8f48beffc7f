"""The inputs of a join as they are written in its text, and the text over just the rows of one result.

A result of a join follows from one row of each input. A judge is given one table for each input that holds just this row: also
where a stream is joined with itself. The name of a stream, with the `recent(…)` around it, gives way to the name of its table;
all else is run as the user wrote it. Windows of a count or of arrival time are nothing a judge could find: the receipt states
the position of the row.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eddyline.errors import ProofError
from eddyline.proof.words import Edit, SqlWord, from_at, words_of

_ENDS = ("WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "LIMIT", "WINDOW", ";")
_NO_ALIAS = frozenset(
    [
        *[*_ENDS, "ON", "USING", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "ANTI", "SEMI", "ASOF"],
        *["OUTER", "NATURAL", "AND", "OR", "AS"],
    ]
)


@dataclass(frozen=True, slots=True)
class WrittenInput:
    """An input: the stream and its name in the text, from `start` to `end`."""

    stream: str
    alias: str
    start: int
    end: int


def inputs_in(text: str, streams: Collection[str]) -> list[WrittenInput]:
    """The inputs of a text over these streams, in order. Raises ProofError if the text has anything else there."""
    words = words_of(text)
    known = {name.lower() for name in streams}
    start = from_at(words)
    found: list[WrittenInput] = []
    at = len(words) if start is None else start + 1
    while at < len(words):
        entry, at = _input(words, at, known, text)
        found.append(entry)
        at = _next_input(words, at)
    return found


def _input(words: Sequence[SqlWord], at: int, known: Collection[str], text: str) -> tuple[WrittenInput, int]:
    first = words[at]
    if first.says("STREAM") and _names(words, at + 1, known):
        at += 1
    is_recent = words[at].says("RECENT") and at + 1 < len(words) and words[at + 1].says("(")
    name_at = at + 2 if is_recent else at
    if not _names(words, name_at, known):
        raise ProofError("this text reads something else than streams", text=text)
    stream, last = words[name_at].name, name_at
    if is_recent:
        while last < len(words) and not words[last].says(")"):
            last += 1
    alias, after = stream, last + 1
    has_as = after < len(words) and words[after].says("AS")
    after += has_as
    if after < len(words) and words[after].is_name and not _starts_clause(words[after]):
        alias, last, after = words[after].name, after, after + 1
    return WrittenInput(stream, alias, first.start, words[last].end), after


def _names(words: Sequence[SqlWord], at: int, known: Collection[str]) -> bool:
    return at < len(words) and words[at].is_name and words[at].name.lower() in known


def _starts_clause(word: SqlWord) -> bool:
    return word.kind == "word" and word.text.upper() in _NO_ALIAS


def _next_input(words: Sequence[SqlWord], at: int) -> int:
    """The word behind the next comma or JOIN of the FROM clause; the end of the text if there is none."""
    depth = 0
    while at < len(words):
        word = words[at]
        depth += word.says("(", "[") - word.says(")", "]")
        if depth == 0 and word.says(*_ENDS):
            return len(words)
        at += 1
        if depth == 0 and word.says(",", "JOIN"):
            return at
    return at


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def table_edits(text: str, streams: Collection[str], tables: Sequence[str]) -> list[Edit]:
    """What is to be replaced so that the text reads these tables, one for each input, by what it calls them.

    ASOF is left out: of the rows of one result each table has the one that was found.
    """
    inputs = inputs_in(text, streams)
    if len(inputs) != len(tables):
        raise ProofError(
            f"this text reads {len(inputs)} streams, and the result is made of {len(tables)} rows", text=text
        )
    edits = [
        Edit(entry.start, entry.end, f"`{table}` AS {_quoted(entry.alias)}")
        for entry, table in zip(inputs, tables, strict=True)
    ]
    words = words_of(text)
    edits += [
        Edit(word.start, after.start, "")
        for word, after in itertools.pairwise(words)
        if word.says("ASOF") and after.says("JOIN")
    ]
    return edits
