"""What trying a query on recent rows found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eddyline.documents.quantities import plural
from eddyline.documents.verdicts import shown_value


@dataclass(frozen=True, slots=True)
class TrialError:
    """A row that could not be decided, and why."""

    message: str
    row: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TrialInput:
    """One stream of a join: how many of its recent rows pass the query's conditions on it alone."""

    input: str
    n_rows: int
    n_passed: int


@dataclass(frozen=True, slots=True)
class Trial:
    """How recent rows would have fared with a query: of `n_rows`, `n_matched` would be results, `n_in_error` dead letters.

    `stopped[k]` rows were not let through by condition k. A join is not tried: `n_matched` is None, `inputs` says what can be.
    """

    n_rows: int
    n_matched: int | None
    n_in_error: int = 0
    samples: tuple[dict[str, Any], ...] = ()  # results, the newest first
    errors: tuple[TrialError, ...] = ()
    conditions: tuple[str, ...] = ()
    stopped: tuple[int, ...] = ()
    inputs: tuple[TrialInput, ...] = ()
    notes: tuple[str, ...] = ()
    part: str = ""  # of a union: which part, such as "part 2 of UNION ALL, line 3"
    parts: tuple[
        Trial, ...
    ] = ()  # of a union: its parts, without samples; the numbers here are of all together
    n_groups: int | None = (
        None  # of groups or windows: how many the rows make, of which `n_matched` would be in the answer
    )
    noun: str = "row"  # what is counted: row, group, window, session

    def __str__(self) -> str:
        lines = [self.headline, *self._details()]
        for each in self.parts:
            lines += [f"  {each.part}: {each.headline}", *(f"  {line}" for line in each._details())]
        lines += [f"  {', '.join(f'{k}={shown_value(v)}' for k, v in row.items())}" for row in self.samples]
        lines += [f"  error: {each.message}" for each in self.errors]
        return "\n".join(lines)

    def _details(self) -> list[str]:
        return [
            *(f"  {note}" for note in self.notes),
            *(
                f"  {each.n_passed:,} of {each.n_rows:,} recent rows of {each.input} pass"
                for each in self.inputs
            ),
            *(f"  stopped {n:>6d}   {text}" for text, n in zip(self.conditions, self.stopped, strict=True)),
        ]

    @property
    def headline(self) -> str:
        """One line: 37 of the last 10,000 rows would have matched."""
        if self.n_matched is None:
            return "a join is not tried on recent rows"
        if not self.n_rows:
            return "there are no recent rows to try it on"
        wrong = f", {self.n_in_error:,} could not be decided" if self.n_in_error else ""
        if self.n_groups is not None:
            of = plural(self.n_groups, self.noun)
            return f"{self.n_matched:,} of {of} of the last {plural(self.n_rows, 'row')} would be in the answer{wrong}"
        rows = "row" if self.n_rows == 1 else "rows"
        if self.parts:
            results = "result" if self.n_matched == 1 else "results"
            return f"{self.n_matched:,} {results} would have come of the last {self.n_rows:,} {rows}{wrong}"
        return f"{self.n_matched:,} of the last {self.n_rows:,} {rows} would have matched{wrong}"


def trial_document(found: Trial) -> dict[str, Any]:
    """The same for programs."""
    return {
        "n_rows": found.n_rows,
        "n_matched": found.n_matched,
        "n_in_error": found.n_in_error,
        "samples": [dict(row) for row in found.samples],
        "errors": [{"message": each.message, "row": each.row} for each in found.errors],
        "conditions": list(found.conditions),
        "stopped": list(found.stopped),
        "inputs": [
            {"input": each.input, "n_rows": each.n_rows, "n_passed": each.n_passed} for each in found.inputs
        ],
        "notes": list(found.notes),
        "part": found.part,
        "n_groups": found.n_groups,
        "noun": found.noun,
        "parts": [trial_document(each) for each in found.parts],
        "shown": str(found),
    }
