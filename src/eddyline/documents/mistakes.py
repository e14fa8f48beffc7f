"""What is wrong with a file the user wrote: every mistake with its file, line and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eddyline.errors import EddylineError


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file the user wrote; lines and columns are counted from 1."""

    file: Path
    line: int
    column: int
    text: str = ""  # the line, as far as it may be shown
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing to mend."""

    place: Place
    problem: str
    detail: str | None = None
    hint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For programs that read `--json`."""
        return {
            "file": str(self.place.file),
            "line": self.place.line,
            "column": self.place.column,
            "problem": self.problem,
            "detail": self.detail,
            "hint": self.hint,
        }

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.problem}"]
        if self.place.text:
            lines.append(f"  {self.place.text}")
            lines.append("  " + " " * (self.place.column - 1) + "^" * self.place.width)
        if self.detail:
            lines.append(f"  detail: {self.detail}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class PipelineError(EddylineError):
    """A pipeline file with mistakes: all of them are in `mistakes`, in the order of the file."""

    def __init__(self, file: Path, mistakes: Sequence[Mistake]) -> None:
        n = len(mistakes)
        super().__init__(f"{file} has {n} mistake{'s' if n != 1 else ''}")
        self.file = file
        self.mistakes = tuple(
            sorted(mistakes, key=lambda m: (str(m.place.file), m.place.line, m.place.column))
        )

    def __str__(self) -> str:
        return "\n".join([self.problem, *map(str, self.mistakes)])


class RulesError(EddylineError):
    """Rules with mistakes, so that none was applied; all of them are in `mistakes`."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        n = len(mistakes)
        super().__init__(
            f"the rules have {n} mistake{'s' if n != 1 else ''}, so nothing was changed",
        )
        self.mistakes = tuple(
            sorted(mistakes, key=lambda m: (str(m.place.file), m.place.line, m.place.column))
        )

    def __str__(self) -> str:
        return "\n".join([self.problem, *map(str, self.mistakes)])
