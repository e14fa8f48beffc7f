"""Errors as JSON has them, and back: the same on the socket of a home, over HTTP and after `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eddyline import errors
from eddyline.documents.mistakes import Mistake, PipelineError, Place, RulesError
from eddyline.errors import EddylineError, Span


def error_to(error: EddylineError) -> dict[str, Any]:
    """An error as JSON has it."""
    body: dict[str, Any] = {
        "kind": type(error).__name__,
        "problem": error.problem,
        "detail": error.detail,
        "hint": error.hint,
        "span": None if error.span is None else [error.span.start, error.span.end],
        "text": error.text,
    }
    if isinstance(error, (RulesError, PipelineError)):
        body["mistakes"] = [
            m.as_dict() | {"text": m.place.text, "width": m.place.width} for m in error.mistakes
        ]
        body["file"] = str(error.file) if isinstance(error, PipelineError) else None
    return body


def error_from(body: Mapping[str, Any]) -> EddylineError:
    """The same error again."""
    if "mistakes" in body:
        mistakes = [
            Mistake(
                Place(Path(m["file"]), m["line"], m["column"], m["text"], m["width"]),
                m["problem"],
                m["detail"],
                m["hint"],
            )
            for m in body["mistakes"]
        ]
        return PipelineError(Path(body["file"]), mistakes) if body["file"] else RulesError(mistakes)
    kind = getattr(errors, str(body.get("kind")), EddylineError)
    if not (isinstance(kind, type) and issubclass(kind, EddylineError)):
        kind = EddylineError
    span = body.get("span")
    return kind(
        body["problem"],
        detail=body.get("detail"),
        hint=body.get("hint"),
        span=None if span is None else Span(*span),
        text=body.get("text"),
    )
