"""The inputs of a join as they are written in its text, and the text over just the rows of one result.

A result of a join follows from one row of each input. A judge is given one table for each input that holds just this row: also
where a stream is joined with itself. The name of a stream, with the `recent(…)` around it, gives way to the name of its table;
all else is run as the user wrote it. Windows of a count or of arrival time are nothing a judge could find: the receipt states
the position of the row.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from eddyline.errors import ProofError
from eddyline.proof.words import Edit, SqlWord, edited_text, words_of

_ENDS = ("WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "LIMIT", "WINDOW", "UNION", ";")
_NO_ALIAS = frozenset(
    [
        *[*_ENDS, "ON", "USING", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "ANTI", "SEMI", "ASOF"],
        *["OUTER", "NATURAL", "AND", "OR", "AS"],
    ]
)


@dataclass(frozen=True, slots=True)
class WrittenInput:
    """An input: the relation and its name in the text, from `start` to `end`."""

    stream: str
    alias: str
    start: int
    end: int
    name_start: int  # the relation alone, without recent(…) and alias
    name_end: int
    window: str = ""  # of recent(stream, …)


@dataclass(frozen=True, slots=True)
class CteReads:
    """How often a query of WITH is read."""

    name: str
    n_reads: int


@dataclass(frozen=True, slots=True)
class WrittenInputs:
    """The inputs of a text in order, also those of queries inside it, and its queries of WITH."""

    inputs: tuple[WrittenInput, ...]
    ctes: tuple[CteReads, ...]


@dataclass(slots=True)
class _Part:
    """What is in one pair of parentheses, or outside of all: a query, or something else."""

    is_query: bool = False
    is_from: bool = False  # in the clause that names inputs
    cte: str = ""  # what WITH calls it
    n_reads: dict[str, int] = field(default_factory=dict)  # of each query of its own WITH


def inputs_in(text: str, streams: Collection[str]) -> tuple[WrittenInput, ...]:
    """The inputs of a text over these streams, in order, also those of queries inside it.

    Raises ProofError if the text has anything else there, or a query of WITH that is not read once.
    """
    found = written_inputs(text, streams)
    for cte in found.ctes:
        if cte.n_reads != 1:
            raise ProofError(
                f"{cte.name}, a query of WITH, is read {cte.n_reads} times; a judge is given the rows of one reading",
                text=text,
            )
    return found.inputs


def written_inputs(text: str, streams: Collection[str]) -> WrittenInputs:
    """The same, however often queries of WITH are read."""
    words = words_of(text)
    known = {name.lower() for name in streams}
    found: list[WrittenInput] = []
    ctes: list[CteReads] = []
    parts = [_Part()]
    at = 0
    while at < len(words):
        word, part = words[at], parts[-1]
        at += 1
        if word.says("(", "["):
            parts.append(_Part(cte=_cte_name(words, at - 1)))
        elif word.says(")", "]") and len(parts) > 1:
            ended = parts.pop()
            ctes += _reads(ended)
            if ended.is_query and ended.cte:
                parts[-1].n_reads[ended.cte] = 0
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
        around = _around(parts, words, at)
        if around is not None:
            around.n_reads[words[at].name.lower()] += 1
        else:
            entry, at = _input(words, at, known, text)
            found.append(entry)
    return WrittenInputs(tuple(found), (*ctes, *_reads(parts[0])))


def _around(parts: Sequence[_Part], words: Sequence[SqlWord], at: int) -> _Part | None:
    """The part whose WITH has the query that this word names; None: it names no such query."""
    if at >= len(words) or not words[at].is_name:
        return None
    is_dotted = at + 1 < len(words) and words[at + 1].says(".")
    name = words[at].name.lower()
    return None if is_dotted else next((part for part in reversed(parts) if name in part.n_reads), None)


def _reads(part: _Part) -> list[CteReads]:
    return [CteReads(name, n_reads) for name, n_reads in part.n_reads.items()]


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
    if first.says("STREAM") and _relation(words, at + 1, known) is not None:
        at += 1
    is_recent = words[at].says("RECENT") and at + 1 < len(words) and words[at + 1].says("(")
    name_at = at + 2 if is_recent else at
    named = _relation(words, name_at, known)
    if named is None:
        raise ProofError("this text reads something else than streams", text=text)
    stream, last = named
    name_end, window = words[last].end, ""
    if is_recent:
        closing = _closing(words, at + 1)
        window = text[words[min(last + 1, closing)].end : words[closing].start].strip()
        last = closing
    alias, after = stream, last + 1
    has_as = after < len(words) and words[after].says("AS")
    after += has_as
    if after < len(words) and words[after].is_name and not _starts_clause(words[after]):
        alias, last, after = words[after].name, after, after + 1
    place = first.start, words[last].end, words[name_at].start, name_end
    return WrittenInput(stream, alias, *place, window), after


def _relation(words: Sequence[SqlWord], at: int, known: Collection[str]) -> tuple[str, int] | None:
    """The relation that is named here, if it is known, and the place of its last word: names may have dots."""
    if at >= len(words) or not words[at].is_name:
        return None
    name = words[at].name
    while at + 2 < len(words) and words[at + 1].says(".") and words[at + 2].is_name:
        name, at = f"{name}.{words[at + 2].name}", at + 2
    return (name, at) if name.lower() in known else None


def _closing(words: Sequence[SqlWord], opening: int) -> int:
    """The place of the parenthesis that ends what this one begins; of the last word if there is none."""
    depth = 0
    for at in range(opening, len(words)):
        depth += words[at].says("(") - words[at].says(")")
        if depth == 0:
            return at
    return len(words) - 1


def _starts_clause(word: SqlWord) -> bool:
    return word.kind == "word" and word.text.upper() in _NO_ALIAS


def quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def texts_with_inner_join(text: str) -> list[str]:
    """The text with JOIN in place of LEFT JOIN or RIGHT JOIN, once for each of these in it."""
    words = words_of(text)
    found = []
    for at, word in enumerate(words):
        join = at + 2 if words[at + 1 : at + 2] and words[at + 1].says("OUTER") else at + 1
        if word.says("LEFT", "RIGHT") and join < len(words) and words[join].says("JOIN"):
            found.append(edited_text(text, [Edit(word.start, words[join].start, "")]))
    return found


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
        Edit(entry.start, entry.end, f"`{table}` AS {quoted(entry.alias)}")
        for entry, table in zip(inputs, tables, strict=True)
    ]
    words = words_of(text)
    edits += [
        Edit(word.start, after.start, "")
        for word, after in itertools.pairwise(words)
        if word.says("ASOF") and after.says("JOIN")
    ]
    return edits
