"""window(), session_window() and the frames of OVER as a text writes them: durations in microseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from eddyline.durations import duration_us
from eddyline.errors import ParseError, PropertyError, Span, TypeMismatchError, UnsupportedError
from eddyline.model import WINDOW_TYPE, Expression, GroupWindow, OverFrame, SessionWindow, TimeWindow
from eddyline.sql import syntax

_SIGNATURES = {
    "window": "window(ts, '10 minutes'), or window(ts, size, slide, offset)",
    "session_window": "session_window(ts, '5 minutes')",
}
GROUP_WINDOWS = frozenset(_SIGNATURES)
_MOST_ARGUMENTS = {"window": 4, "session_window": 2}
_MICROSECOND = timedelta(microseconds=1)
_MOST_WINDOWS = 1_440  # that hold one row, where each change of each of them is a result

LiteralValue = Callable[[int], Any]  # the value of a constant of the text, which is pinned by this


def group_window(node: syntax.CallNode, time: Expression | None, literal_value: LiteralValue) -> GroupWindow:
    """The window that a call in GROUP BY is, given its first argument."""
    name = node.name.lower()
    amounts = [_duration(argument, name, literal_value) for argument in node.arguments[1:]]
    if time is None or not 1 < len(node.arguments) <= _MOST_ARGUMENTS[name]:
        n = len(node.arguments)
        raise TypeMismatchError(
            f"{name} does not take {n} argument{'s' if n != 1 else ''}",
            span=node.span,
            hint=f"Write {_SIGNATURES[name]}.",
        )
    size = amounts[0]
    if size <= 0:
        what = "gap" if name == "session_window" else "size"
        raise UnsupportedError(
            f"the {what} of {name} must be more than 0",
            span=node.arguments[1].span,
            hint=f"Write {_SIGNATURES[name]}.",
        )
    if name == "session_window":
        return GroupWindow(WINDOW_TYPE, time, SessionWindow(size), span=node.span)
    slide, offset = (*amounts[1:], *[size, 0][len(amounts) - 1 :])
    _check_slide(node.arguments, size, slide, offset)
    return GroupWindow(WINDOW_TYPE, time, TimeWindow(size, slide, offset), span=node.span)


def _check_slide(arguments: Sequence[syntax.Node], size: int, slide: int, offset: int) -> None:
    if not 0 < slide <= size:
        raise UnsupportedError(
            "the slide of a window must be more than 0 and at most its size",
            span=arguments[2].span,
            detail="Otherwise there are rows between windows that are in none."
            if slide > 0
            else "Windows begin that far apart.",
            hint="Write a slide up to the size, or leave it out: one window begins where the one before ends.",
        )
    if abs(offset) >= slide:
        raise UnsupportedError(
            "the offset of a window must be less than its slide",
            span=arguments[3].span,
            detail="Windows begin at the offset plus a multiple of the slide.",
            hint="Take the slide off as often as needed: the windows are the same.",
        )


def refuse_many_windows(window: TimeWindow, span: Span | None) -> None:
    """Refuse windows of which one row would change more than there may be."""
    n = -(-window.size_us // window.slide_us)
    if n > _MOST_WINDOWS:
        raise UnsupportedError(
            f"a row would be in {n:,} windows; at most {_MOST_WINDOWS:,} are accepted",
            span=span,
            detail="Each of them would change with each row.",
            hint="Write a longer slide or emit = 'final'; or OVER with RANGE BETWEEN INTERVAL … PRECEDING AND CURRENT ROW.",
        )


def _duration(node: syntax.Node, name: str, literal_value: LiteralValue) -> int:
    """Microseconds of a duration that is written as text."""
    hint = f"Write {_SIGNATURES[name]}, in units up to weeks."
    value = literal_value(node.number) if isinstance(node, syntax.ConstantNode) else None
    if not isinstance(value, str):
        raise ParseError(f"expected a duration in quotes in {name}", span=node.span, hint=hint)
    text = value.strip()
    is_negative = text.startswith("-")
    try:
        us = duration_us(text[is_negative:])
    except PropertyError as error:
        raise ParseError(error.problem, span=node.span, hint=hint) from None
    return -us if is_negative else us


# ------------------------------------------------------------------------------------------------ frames


def frame(node: syntax.OverNode, literal_value: LiteralValue) -> OverFrame:
    """The frame of OVER. One that ends after the current row, or before it, is refused."""
    if node.frame is None:
        return OverFrame()
    start, end = node.frame
    for bound in (start, end):
        if bound.direction == "FOLLOWING":
            raise UnsupportedError(
                "a frame cannot look forward",
                span=bound.span,
                detail="The rows after a row have not come yet, and results are never revised.",
                hint="End the frame with CURRENT ROW.",
            )
    if end.direction:
        raise UnsupportedError(
            "a frame ends with CURRENT ROW",
            span=end.span,
            hint="Write BETWEEN … PRECEDING AND CURRENT ROW; lag(x, 1) gives the value of the row before.",
        )
    unit = node.unit.lower()
    if start.amount is None:
        return OverFrame() if start.direction else OverFrame(unit, 0)
    return OverFrame(unit, _preceding(start, unit, literal_value))


def _preceding(bound: syntax.FrameBound, unit: str, literal_value: LiteralValue) -> int:
    amount = literal_value(bound.amount.number) if isinstance(bound.amount, syntax.ConstantNode) else None
    if unit == "rows" and isinstance(amount, int) and not isinstance(amount, bool):
        return amount
    if unit == "range" and isinstance(amount, timedelta) and amount >= timedelta(0):
        return amount // _MICROSECOND
    written = "ROWS BETWEEN 10" if unit == "rows" else "RANGE BETWEEN INTERVAL 10 MINUTES"
    raise UnsupportedError(
        "ROWS takes a number of rows" if unit == "rows" else "RANGE takes an interval in units up to weeks",
        span=bound.span,
        hint=f"Write {written} PRECEDING AND CURRENT ROW.",
    )
