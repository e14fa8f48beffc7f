"""Parts of a UNION ALL in words: `part 2 of UNION ALL, line 3`."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.errors import Span
from eddyline.model import UnionPart, ViewText
from eddyline.sql.lexer import span_places


def part_words(text: str, parts: Sequence[UnionPart], views: Sequence[ViewText] = (), *, of: str = "") -> str:
    """The parts that a branch of a text reads. `views` are written out in it; `of` is the view whose text it is, if any."""
    places = span_places(text, [part.tokens for part in parts if part.tokens is not None])
    found = []
    for part in parts:
        words = f"part {part.number} of UNION ALL"
        if part.tokens is not None:
            view, line = _line(text, places[part.tokens], views)
            name = of if view is None else view.name
            words += f", line {line}" + (f" of view {name}" if name else "")
        found.append(words)
    return "; ".join(found)


def _line(text: str, place: Span, views: Sequence[ViewText]) -> tuple[ViewText | None, int]:
    """The innermost view that a place is in, and its line there, as if the views before it were not written out."""
    around = [view for view in views if view.start <= place.start and place.end <= view.end]
    inner = min(around, key=lambda view: view.end - view.start, default=None)
    start = 0 if inner is None else inner.start
    before = [view for view in views if start <= view.start and view.end <= place.start and view is not inner]
    outermost = [
        view
        for view in before
        if not any(
            other is not view and other.start <= view.start and view.end <= other.end for other in before
        )
    ]
    # a view that is written out ends with a line of its own
    n_written = sum(text.count("\n", view.start, view.end) + 1 for view in outermost)
    return inner, 1 + text.count("\n", start, place.start) - n_written
