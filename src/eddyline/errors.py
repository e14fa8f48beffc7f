"""What users can meet: every refusal says what is wrong, where, why, and what to do next."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of characters in the text a user wrote."""

    start: int
    end: int

    def shifted(self, by: int) -> Span:
        return Span(self.start + by, self.end + by)

    def to(self, other: Span | None) -> Span:
        """The smallest span that covers both."""
        if other is None:
            return self
        return Span(min(self.start, other.start), max(self.end, other.end))


class EddylineError(Exception):
    """Base of all errors a caller may want to catch.

    `problem` is one sentence without a full stop; `detail` says why, `hint` what to do next. With `text` and `span` the
    message shows the line of the user's text and points at the part that is meant.
    """

    def __init__(
        self,
        problem: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        span: Span | None = None,
        text: str | None = None,
    ) -> None:
        problem = _shortened(problem)
        super().__init__(problem)
        self.problem = problem
        self.detail = detail
        self.hint = hint
        self.span = span
        self.text = text

    def located(self, text: str) -> EddylineError:
        """The same error, located in the user's text (the innermost text wins)."""
        if self.text is None:
            self.text = text
        return self

    @property
    def position(self) -> tuple[int, int] | None:
        """Line and column of the problem in the user's text, both counted from 1."""
        if self.span is None or self.text is None:
            return None
        before = self.text[: self.span.start]
        return before.count("\n") + 1, self.span.start - (before.rfind("\n") + 1) + 1

    def __str__(self) -> str:
        lines = [self.problem]
        if self.span is not None and self.text is not None:
            lines += _pointer(self.text, self.span)
        if self.detail:
            lines.append(f"detail: {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


_POINTER_WIDTH = 100
_PROBLEM_WIDTH = 400


def _shortened(problem: str) -> str:
    """A sentence without the middle of what is very long in it: a number of 4,000 digits, a name of 10,000 letters."""
    if len(problem) <= _PROBLEM_WIDTH:
        return problem
    return f"{problem[: _PROBLEM_WIDTH // 2]}…{problem[1 - _PROBLEM_WIDTH // 2 :]}"


def _pointer(text: str, span: Span) -> list[str]:
    start = min(max(span.start, 0), len(text))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    line, column = text[line_start:line_end], start - line_start
    width = max(1, min(span.end, line_end) - start)
    if len(line) > _POINTER_WIDTH:  # keep the part that is meant in view
        cut = max(0, min(column - _POINTER_WIDTH // 3, len(line) - _POINTER_WIDTH))
        shown = line[cut : cut + _POINTER_WIDTH]
        prefix, suffix = ("…" if cut else ""), ("…" if cut + _POINTER_WIDTH < len(line) else "")
        line, column = prefix + shown + suffix, column - cut + len(prefix)
        width = min(width, len(line) - column) or 1
    line = line.replace("\t", " ")
    where = [] if "\n" not in text else [f"  line {text.count(chr(10), 0, start) + 1}:"]
    return [*where, f"  {line}", "  " + " " * column + "^" * width]


class SqlError(EddylineError):
    """The text of a query or statement cannot be accepted."""


class ParseError(SqlError):
    """The text is not SQL."""


class UnknownNameError(SqlError):
    """A stream, column, function, parameter or property that does not exist."""


class AmbiguousNameError(SqlError):
    """A column name that more than one stream of the query has."""


class TypeMismatchError(SqlError):
    """An operator or function does not take values of these types."""


class LimitError(SqlError):
    """Text too long, nested too deep, or with too many predicates."""


class NotBuiltError(SqlError):
    """Understood, but this version does not do it yet."""


class UnsupportedError(SqlError):
    """Valid Spark SQL that has no meaning for a standing query, or is outside the supported list."""


class SchemaError(EddylineError):
    """Data or a changed declaration does not fit the schema of a stream."""


class StreamChangedError(SchemaError):
    """A stream was declared anew between reading rows and running their round; reading them again helps."""


class RoundOvertakenError(EddylineError):
    """A stream changed its times while a round of it was worked on; planning it again helps."""


class GroupBusyError(EddylineError):
    """A push from within a round, to streams of which workers have a round; it has not happened."""


class QueryStateError(EddylineError):
    """A query that was dropped, or is in a state that does not allow this."""


class IndexBuildError(EddylineError):
    """The predicate index of a stream cannot be built; nothing of the round has happened. `whys` says of each query at fault, by
    id, why; without any, it is not a query's fault."""

    def __init__(
        self, problem: str, *, detail: str | None, hint: str | None, whys: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(problem, detail=detail, hint=hint)
        self.whys = dict(whys or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(IndexBuildError, detail=self.detail, hint=self.hint, whys=self.whys), (
            self.problem,
        )


class FunctionError(EddylineError):
    """A user's function is declared wrongly, or misbehaves."""


class PropertyError(EddylineError):
    """An option or property has a value that cannot be used."""


class HomeError(EddylineError):
    """A home that cannot be opened: held by another process, not writable, damaged, or from a newer version."""


class StoreError(EddylineError):
    """A file of the store cannot be written, is gone, or is damaged."""


class BackupError(EddylineError):
    """A backup that cannot be written, is damaged, or is none."""


class AccessError(EddylineError):
    """The request has no valid token, or one whose role does not allow this."""


class RequestError(EddylineError):
    """A request to a server that cannot be read, is too large, or comes too often."""


class ReceiptError(EddylineError):
    """A result whose receipt cannot be written any more: its row, or the query it was of, is gone."""


class ProofError(EddylineError):
    """A result that no independent engine can judge here; it says why, or what to install."""


class ResultsDroppedWarning(UserWarning):
    """Results left the memory of an engine without a home before they were read."""


class ClosedError(EddylineError):
    """The engine was closed."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name a user most likely meant, or None."""
    by_folded = {k.lower(): k for k in known}
    hits = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.6)
    return by_folded[hits[0]] if hits else None


def did_you_mean(name: str, known: Iterable[str], *, noun: str) -> str:
    """A hint: the nearest known name, or the list of what there is."""
    known = sorted(known)
    near = nearest(name, known)
    if near is not None:
        return f"Did you mean {near}?"
    if not known:
        return f"There is no {noun} yet."
    shown = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    return f"Known: {shown}."


class MemoryLimitError(EddylineError):
    """There is not enough memory for a round; nothing of it has happened. `holders` are what holds most, with bytes."""

    def __init__(self, problem: str, *, holders: tuple[tuple[str, int], ...] = (), **details: Any) -> None:
        super().__init__(problem, **details)
        self.holders = holders
