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
from eddyline.proof.words import Edit, SqlWord, words_of

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


@dataclass(slots=True)
class _Part:
    """What is in one pair of parentheses, or outside of all: a query, or something else."""

    is_query: bool = False
    is_from: bool = False  # in the clause that names inputs
    cte: str = ""  # what WITH calls it


def inputs_in(text: str, streams: Collection[str]) -> list[WrittenInput]:
    """The inputs of a text over these streams, in order, also those of queries inside it.

    Raises ProofError if the text has anything else there, or a query of WITH that is not read once.
    """
    words = words_of(text)
    known = {name.lower() for name in streams}
    found: list[WrittenInput] = []
    reads: dict[str, int] = {}  # of each query of WITH
    parts = [_Part()]
    at = 0
    while at < len(words):
        word, part = words[at], parts[-1]
        at += 1
        if word.says("(", "["):
            parts.append(_Part(cte=_cte_name(words, at - 1)))
        elif word.says(")", "]") and len(parts) > 1:
            ended = parts.pop()
            if ended.is_query and ended.cte:
                reads[ended.cte] = 0
        elif word.says("SELECT", "WITH"):
            part.is_query, part.is_from = True, False
        elif part.is_query and word.says(*_ENDS):
            part.is_from = False
        is_from = part.is_query and word.says("FROM") and not words[at - 2].says("DISTINCT")
        part.is_from = part.is_from or is_from
        if not is_from and not (part.is_from and word.says(",", "JOIN")):
            continue
        if at < len(words) and words[at].says("("):
            continue
        if at < len(words) and words[at].is_name and words[at].name.lower() in reads:
            reads[words[at].name.lower()] += 1
        else:
            entry, at = _input(words, at, known, text)
            found.append(entry)
    for name, n_reads in reads.items():
        if n_reads != 1:
            raise ProofError(
                f"{name}, a query of WITH, is read {n_reads} times; a judge is given the rows of one reading",
                text=text,
            )
    return found


def _cte_name(words: Sequence[SqlWord], opening: int) -> str:
    """The name that WITH gives to the query in these parentheses; nothing if they are not behind AS."""
    at = opening - 1
    if at < 1 or not words[at].says("AS"):
        return ""
    at -= 1
    if words[at].says(")"):  # the names of its columns
        while at > 0 and not words[at].says("("):
            at -= 1
        at -= 1
    return words[at].name.lower() if at >= 0 and words[at].is_name else ""


def _input(words: Sequence[SqlWord], at: int, known: Collection[str], text: str) -> tuple[WrittenInput, int]:
    if at >= len(words):
        raise ProofError("this text reads something else than streams", text=text)
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
