"""What is wrong with a pipeline file: every mistake with its file, line and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eddyline.errors import EddylineError, Span


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a file the user wrote; lines and columns are counted from 1."""

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
    """A pipeline file with mistakes: all of them are in `mistakes`, in the order they stand in the file."""

    def __init__(self, file: Path, mistakes: Sequence[Mistake]) -> None:
        n = len(mistakes)
        super().__init__(f"{file} has {n} mistake{'s' if n != 1 else ''}")
        self.file = file
        self.mistakes = tuple(
            sorted(mistakes, key=lambda m: (str(m.place.file), m.place.line, m.place.column))
        )

    def __str__(self) -> str:
        return "\n".join([self.problem, *map(str, self.mistakes)])


def place_of(file: Path, text: str, span: Span, *, hides_value: bool = False) -> Place:
    """The place of a span. With `hides_value` the line is shown only up to where the span ends: what follows may be secret."""
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.start)
    end = len(text) if end < 0 else end
    if end > start and text[end - 1] == "\r":
        end -= 1
    shown = text[start : span.end] + " …" if hides_value else text[start:end]
    width = max(1, min(span.end, end) - span.start)
    return Place(
        file, text.count("\n", 0, span.start) + 1, span.start - start + 1, shown.replace("\t", " "), width
    )
