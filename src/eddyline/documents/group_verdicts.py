"""Why a group is in an answer or not, and which groups came nearest: queries with aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eddyline.documents.quantities import plural
from eddyline.documents.verdicts import ClauseVerdict, Why, WhyNot, shown_value, text_of


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """A group, window or row over its frame: its aggregates, and what each condition on them says.

    `rows` are the newest of the rows it is made of that are retained.
    """

    group: dict[str, Any]  # what is grouped by, and the window; of OVER the row
    values: dict[str, Any]  # its aggregates
    is_result: bool
    clauses: tuple[ClauseVerdict, ...]
    error: str = ""
    rows: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The same as text."""
        verdict = f"in error: {self.error}" if self.error else "a result" if self.is_result else "no result"
        lines = [f"{_pairs(self.group) or 'all rows'}: {_pairs(self.values)}; {verdict}"]
        lines += [f"  {each}" for each in (*self.clauses, *self.notes)]
        lines += [f"  row      {_pairs(row)}" for row in self.rows]
        return lines


@dataclass(frozen=True)
class GroupWhy(Why):
    """What WHERE says about a row, and the groups or windows it is in: `clauses` has both, those of the first group."""

    noun: str = "group"  # or window, session; row: a row over its frame
    groups: tuple[GroupVerdict, ...] = ()

    def __str__(self) -> str:
        n_below = len(self.clauses) - (len(self.groups[0].clauses) if self.groups else 0)
        lines = [*self.notes, *map(str, self.clauses[:n_below])]
        lines += [line for group in self.groups for line in group.lines()]
        return text_of(self._group_head(), lines, self.others)

    def _group_head(self) -> str:
        if self.error:
            return f"the row is in the dead letters of {self.query}: {self.error}"
        if self.noun == "row":
            return f"the row {'matches' if self.matches else 'does not match'} {self.query}"
        if not self.groups:
            return f"the row is in no {self.noun} of {self.query}"
        n_results = sum(group.is_result for group in self.groups)
        if len(self.groups) == 1:
            return f"the row is in a {self.noun} that is {'a result' if n_results else 'no result'} of {self.query}"
        return (
            f"the row is in {len(self.groups)} {self.noun}s, of which {n_results} are results of {self.query}"
        )


@dataclass(frozen=True)
class GroupWhyNot(WhyNot):
    """How groups, windows or rows over frames fared with the conditions on them: they are the rows that are counted here."""

    noun: str = "group"  # or window, session, row
    below: WhyNot | None = None  # how the last rows of the stream fared with WHERE
    groups: tuple[GroupVerdict, ...] = ()  # those that came nearest, the nearest first

    def __str__(self) -> str:
        is_rows = self.noun == "row"
        counted = f"the last {plural(self.n_rows, 'row')}" if is_rows else plural(self.n_rows, self.noun)
        head = f"{self.query}: {self.n_matched} of {counted} {'matched' if is_rows else 'in the answer'}"
        lines = [*self.notes]
        if self.below is not None:
            lines.append(f"{self.below.n_matched} of the last {plural(self.below.n_rows, 'row')} take part")
            lines += [
                f"stopped {n:>6d}   {text}"
                for text, n in zip(self.below.conditions, self.below.stopped, strict=True)
            ]
        lines += [
            f"stopped {n:>6d}, alone {alone:>6d}   {text}"
            for text, n, alone in zip(self.conditions, self.stopped, self.stopped_alone, strict=True)
        ]
        if self.n_in_error:
            lines.append(f"{plural(self.n_in_error, self.noun)} in error")
        if self.groups:
            lines.append(f"nearest {plural(len(self.groups), self.noun)}:")
            lines += [f"  {line}" for group in self.groups for line in group.lines()]
        return text_of(f"{head}; deployed since {self.since}", lines, self.others)


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {shown_value(value)}" for name, value in values.items())
