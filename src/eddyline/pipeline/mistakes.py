"""The place of a mistake in a pipeline file."""

from __future__ import annotations

from pathlib import Path

from eddyline.documents import Place
from eddyline.errors import Span


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
