"""Why a row matched or did not, and how the last rows fared: the verdict of each condition of a query."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from eddyline.documents.quantities import plural
from eddyline.documents.times import iso_text
from eddyline.notebook import html_rows, html_table


@dataclass(frozen=True, slots=True)
class ClauseVerdict:
    """One condition on one row: `verdict` is true, false, null or error; `values` are the columns it looked at."""

    condition: str
    verdict: str
    values: dict[str, Any]
    message: str = ""

    def __str__(self) -> str:
        sign = {"true": "yes", "false": "no", "null": "no, NULL", "error": "error"}[self.verdict]
        values_text = ", ".join(f"{name} = {shown_value(value)}" for name, value in self.values.items())
        return (
            f"{sign:8s} {self.condition}"
            + (f"   ({values_text})" if values_text else "")
            + (f": {self.message}" if self.message else "")
        )


@dataclass(frozen=True, slots=True)
class Why:
    """What each condition of a query says about one row; of a query with UNION ALL, of the part nearest to a match."""

    query: str
    matches: bool
    clauses: tuple[ClauseVerdict, ...]
    error: str = ""
    notes: tuple[str, ...] = ()
    part: str = ""  # of a union: which part, such as "part 2 of UNION ALL, line 3"
    others: tuple[Why, ...] = ()  # what the other parts say, the nearest first

    def __str__(self) -> str:
        details = (*self.notes, *self.clauses)
        return text_of(self._head("the row", "matches", "does not match", "is"), details, self.others)

    def _head(self, rows: str, match: str, do_not: str, are: str) -> str:
        of = f"{self.query}, {self.part}" if self.part else self.query
        if self.error:
            return f"{rows} {are} in the dead letters of {of}: {self.error}"
        head = f"{rows} {match if self.matches else do_not} {of}"
        return head if self.clauses else f"{head}, which has no conditions"

    def __bool__(self) -> bool:
        return self.matches

    def _repr_html_(self) -> str:
        head, *_ = str(self).split("\n", 1)
        rows = [
            (
                c.verdict,
                c.condition,
                ", ".join(f"{n} = {shown_value(v)}" for n, v in c.values.items()),
                c.message,
            )
            for c in self.clauses
        ]
        return html_table(" ".join((head, *self.notes)), ("verdict", "condition", "values", "message"), rows)


@dataclass(frozen=True, slots=True)
class WhyNot:
    """How the last rows fared with a query: `stopped[k]` rows were not let through by condition k."""

    query: str
    n_rows: int
    n_matched: int
    n_in_error: int
    conditions: tuple[str, ...]
    stopped: tuple[int, ...]
    stopped_alone: tuple[int, ...]  # rows that this condition alone kept out
    nearest: Why | None
    nearest_row: dict[str, Any] | None
    since: str
    notes: tuple[str, ...] = ()
    distance: float | None = None  # of the nearest row: up to 1 for each condition that stopped it
    part: str = ""  # of a union: which part, such as "part 2 of UNION ALL, line 3"
    others: tuple[WhyNot, ...] = ()  # how rows fared with the other parts, the nearest first

    def __str__(self) -> str:
        return text_of(
            self._head(f"{self.n_matched} of the last {self.n_rows} rows"), self._details(), self.others
        )

    def _head(self, matched: str) -> str:
        of = f"{self.query}, {self.part}" if self.part else self.query
        return f"{of}: {matched} matched; deployed since {self.since}"

    def _details(self) -> list[str]:
        lines = list(self.notes)
        for condition, n, alone in zip(self.conditions, self.stopped, self.stopped_alone, strict=True):
            lines.append(f"stopped {n:>6d}, alone {alone:>6d}   {condition}")
        if self.n_in_error:
            lines.append(f"{self.n_in_error} rows are in the dead letters")
        if self.nearest is not None and self.nearest_row is not None:
            row = ", ".join(f"{k}={shown_value(v)}" for k, v in self.nearest_row.items())
            lines.append(f"nearest miss: {row}")
            lines += [f"  {c}" for c in self.nearest.clauses if c.verdict != "true"]
        return lines

    def _repr_html_(self) -> str:
        head, *_ = str(self).split("\n", 1)
        rows = list(zip(self.conditions, self.stopped, self.stopped_alone, strict=True))
        shown = html_table(" ".join((head, *self.notes)), ("condition", "stopped", "alone"), rows)
        if self.nearest is None or self.nearest_row is None:
            return shown
        return shown + html_rows("nearest miss", [self.nearest_row]) + self.nearest._repr_html_()


@dataclass(frozen=True)
class JoinWhy(Why):
    """What each condition of a join says about one row of each of its inputs."""

    def __str__(self) -> str:
        details = (*self.clauses, *self.notes)
        return text_of(self._head("the rows", "match", "do not match", "are"), details, self.others)


@dataclass(frozen=True, slots=True)
class InputWhyNot:
    """How the last rows of one input fared before they met others."""

    input: str
    n_rows: int
    n_passed: int  # by its own conditions
    conditions: tuple[str, ...]
    stopped: tuple[int, ...]
    without_partner: dict[str, int]  # by input: rows that passed and whose key no row there that passed has

    def lines(self) -> list[str]:
        found = [f"{self.input}: {self.n_passed} of the last {self.n_rows} rows pass its own conditions"]
        found += [
            f"  stopped {n:>6d}   {text}" for text, n in zip(self.conditions, self.stopped, strict=True)
        ]
        found += [
            f"  {plural(n, 'row')} found no partner in {other}"
            for other, n in self.without_partner.items()
            if n
        ]
        return found


@dataclass(frozen=True)
class JoinWhyNot(WhyNot):
    """How the last rows of its streams fared with a join: rows here are pairs that the equalities let meet."""

    inputs: tuple[InputWhyNot, ...] = ()

    def __str__(self) -> str:
        head = self._head(f"{self.n_matched} of {plural(self.n_rows, 'pair')} of the last rows")
        lines = [line for each in self.inputs for line in each.lines()]
        return text_of(head, [*lines, *self._details()], self.others)


def text_of(head: str, details: Iterable[object], others: Iterable[object]) -> str:
    """An answer as lines: what it says, indented what it is made of, and the answers about other parts."""
    return "\n".join([head, *(f"  {line}" for line in details), *map(str, others)])


def shown_value(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {shown_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, datetime.datetime):
        return iso_text(value)
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
