"""Durations and other amounts as users write them: '5 minutes', '1 hour 30 seconds', '64 MB'."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from eddyline.errors import PropertyError

SECOND_US, MINUTE_US, HOUR_US, DAY_US = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
_UNITS_US = {
    **dict.fromkeys(("us", "microsecond"), 1),
    **dict.fromkeys(("ms", "milli", "millisecond"), 1_000),
    **dict.fromkeys(("s", "sec", "second"), SECOND_US),
    **dict.fromkeys(("m", "min", "minute"), MINUTE_US),
    **dict.fromkeys(("h", "hr", "hour"), HOUR_US),
    **dict.fromkeys(("d", "day"), DAY_US),
    **dict.fromkeys(("w", "week"), 7 * DAY_US),
}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*(?:,|and\b)?", re.IGNORECASE)


def duration_us(value: Any) -> int:
    """Microseconds of a duration: '5 minutes', '1 hour 30 seconds', '500 ms', a timedelta, or a number of seconds."""
    if isinstance(value, bool):
        raise PropertyError(f"{value} is not a duration", hint="Write a duration such as '5 minutes'.")
    if isinstance(value, timedelta):
        us = value // timedelta(microseconds=1)
    elif isinstance(value, (int, float)):
        us = round(value * 1_000_000)
    elif isinstance(value, str):
        us = round(amount(value.strip().removeprefix("INTERVAL "), _UNITS_US, "a duration", "5 minutes"))
    else:
        raise PropertyError(f"{value!r} is not a duration", hint="Write a duration such as '5 minutes'.")
    if us < 0:
        raise PropertyError(f"{value!r} is negative", hint="Write a duration such as '5 minutes'.")
    return us


def duration_text(us: int) -> str:
    """5 minutes, not 300000000 microseconds."""
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        if us % _UNITS_US[unit] == 0:
            n = us // _UNITS_US[unit]
            return f"{n} {unit}{'s' if n != 1 else ''}"
    raise AssertionError(us)


def span_text(seconds: float) -> str:
    """3 h 12 min, not 11520 s."""
    if seconds < 0:
        return f"-{span_text(-seconds)}"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def amount(text: str, units: Mapping[str, int], what: str, example: str) -> float:
    """The sum of the amounts that a text names, each with one of these units."""
    total, at = 0.0, 0
    for match in _AMOUNT.finditer(text):
        unit = match[2].lower()
        factor = units.get(unit) or units.get(unit.removesuffix("s"))
        if match.start() != at or factor is None:
            break
        total += float(match[1]) * factor
        at = match.end()
    if not at or text[at:].strip():
        raise PropertyError(f"{text!r} is not {what}", hint=f"Write {what} such as '{example}'.")
    return total
