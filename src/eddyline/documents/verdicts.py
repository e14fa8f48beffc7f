"""Why a row matched or did not, and how the last rows fared: the verdict of each condition of a query."""

from __future__ import annotations

import datetime
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
        values_text = ", ".join(f"{name} = {_shown(value)}" for name, value in self.values.items())
        return (
            f"{sign:8s} {self.condition}"
            + (f"   ({values_text})" if values_text else "")
            + (f": {self.message}" if self.message else "")
        )


@dataclass(frozen=True, slots=True)
class Why:
    """What each condition of a query says about one row."""

    query: str
    matches: bool
    clauses: tuple[ClauseVerdict, ...]
    error: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.error:
            head = f"the row is in the dead letters of {self.query}: {self.error}"
        else:
            head = f"the row {'matches' if self.matches else 'does not match'} {self.query}"
        if not self.clauses:
            head += ", which has no conditions"
        return "\n".join([head, *(f"  {line}" for line in (*self.notes, *self.clauses))])

    def __bool__(self) -> bool:
        return self.matches

    def _repr_html_(self) -> str:
        head, *_ = str(self).split("\n", 1)
        rows = [
            (c.verdict, c.condition, ", ".join(f"{n} = {_shown(v)}" for n, v in c.values.items()), c.message)
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

    def __str__(self) -> str:
        lines = [
            f"{self.query}: {self.n_matched} of the last {self.n_rows} rows matched; deployed since {self.since}"
        ]
        lines += [f"  {note}" for note in self.notes]
        for condition, n, alone in zip(self.conditions, self.stopped, self.stopped_alone, strict=True):
            lines.append(f"  stopped {n:>6d}, alone {alone:>6d}   {condition}")
        if self.n_in_error:
            lines.append(f"  {self.n_in_error} rows are in the dead letters")
        if self.nearest is not None and self.nearest_row is not None:
            row = ", ".join(f"{k}={_shown(v)}" for k, v in self.nearest_row.items())
            lines.append(f"  nearest miss: {row}")
            lines += [f"    {c}" for c in self.nearest.clauses if c.verdict != "true"]
        return "\n".join(lines)

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
        head = f"the rows {'match' if self.matches else 'do not match'} {self.query}"
        if not self.clauses:
            head += ", which has no conditions"
        if self.error:
            head = f"the rows are in the dead letters of {self.query}: {self.error}"
        return "\n".join([head, *(f"  {line}" for line in (*self.clauses, *self.notes))])


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
        text_lines = super().__str__().splitlines()
        head = (
            f"{self.query}: {self.n_matched} of {plural(self.n_rows, 'pair')} of the last rows matched; "
            f"deployed since {self.since}"
        )
        lines = [f"  {line}" for each in self.inputs for line in each.lines()]
        return "\n".join([head, *lines, *text_lines[1:]])


def _shown(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return iso_text(value)
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
