"""View properties: the same words and values in SQL, Python, TOML and JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from eddyline.errors import PropertyError, UnknownNameError, did_you_mean
from eddyline.model import Properties

_UNITS_US = {
    **dict.fromkeys(("us", "microsecond"), 1),
    **dict.fromkeys(("ms", "milli", "millisecond"), 1_000),
    **dict.fromkeys(("s", "sec", "second"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute"), 60_000_000),
    **dict.fromkeys(("h", "hr", "hour"), 3_600_000_000),
    **dict.fromkeys(("d", "day"), 86_400_000_000),
    **dict.fromkeys(("w", "week"), 604_800_000_000),
}
_UNITS_BYTES = {
    "b": 1,
    "byte": 1,
    "kb": 1 << 10,
    "mb": 1 << 20,
    "gb": 1 << 30,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*(?:,|and\b)?", re.IGNORECASE)
_EMITS = ("changes", "final", "request")
SEVERITIES = ("info", "warning", "error", "critical")


def properties(given: Mapping[str, Any]) -> Properties:
    """The properties of a view from names and values as users write them. `for` may be spelt `for_`."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        word = name.lower().removesuffix("_")
        reader = _READERS.get(word)
        if reader is None:
            raise UnknownNameError(
                f"there is no property {name}", hint=did_you_mean(word, list(_READERS), noun="property")
            )
        field, read = reader
        if value is None:
            continue
        try:
            found[field] = read(value)
        except PropertyError as error:
            raise PropertyError(f"property {word}: {error.problem}", hint=error.hint) from None
    return Properties(**found)


def duration_us(value: Any) -> int:
    """Microseconds of a duration: '5 minutes', '1 hour 30 seconds', '500 ms', a timedelta, or a number of seconds."""
    if isinstance(value, bool):
        raise PropertyError(f"{value} is not a duration", hint="Write a duration such as '5 minutes'.")
    if isinstance(value, timedelta):
        us = value // timedelta(microseconds=1)
    elif isinstance(value, (int, float)):
        us = round(value * 1_000_000)
    elif isinstance(value, str):
        us = round(_amount(value.strip().removeprefix("INTERVAL "), _UNITS_US, "a duration", "5 minutes"))
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


def size_bytes(value: Any) -> int:
    """Bytes of a size: '64 MB', or a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if not isinstance(value, str):
        raise PropertyError(f"{value!r} is not a size", hint="Write a size such as '64 MB'.")
    return round(_amount(value, _UNITS_BYTES, "a size", "64 MB"))


def _amount(text: str, units: Mapping[str, int], what: str, example: str) -> float:
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


def _flag(value: Any) -> bool:
    word = str(value).lower()
    if word not in ("true", "false"):
        raise PropertyError(f"{value!r} is neither true nor false")
    return word == "true"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise PropertyError(f"{value!r} is not a text")
    return value


def _names(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(n, str) and n.strip() for n in names):
        raise PropertyError(
            f"{value!r} is not a list of names", hint="Write names separated by commas, such as 'a, b'."
        )
    return tuple(n.strip() for n in names)


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        word = str(value).lower()
        if word not in words:
            raise PropertyError(
                f"{value!r} is not one of {', '.join(words)}", hint=did_you_mean(word, words, noun="value")
            )
        return word

    return read


_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "owner": ("owner", _text),
    "enabled": ("is_enabled", _flag),
    "per": ("per", _names),
    "cooldown": ("cooldown_us", duration_us),
    "for": ("for_us", duration_us),
    "resolve": ("resolve_us", duration_us),
    "emit": ("emit", _one_of(*_EMITS)),
    "within": ("within_us", duration_us),
    "deliver": ("deliver", _names),
    "message": ("message", _text),
    "severity": ("severity", _one_of(*SEVERITIES)),
    "since": ("since", _text),
    "memory": ("memory_bytes", size_bytes),
}
PROPERTY_NAMES = tuple(_READERS)
_DEFAULT = Properties()
FIELDS = {field: word for word, (field, _) in _READERS.items()}


def stated(declared: Properties) -> dict[str, Any]:
    """The properties that differ from what they are by themselves, in the words and values users give them."""
    found: dict[str, Any] = {}
    for field, word in FIELDS.items():
        value = getattr(declared, field)
        if value == getattr(_DEFAULT, field):
            continue
        if field.endswith("_us"):
            value = duration_text(value)
        elif field == "memory_bytes":
            value = f"{value} bytes"
        found[word] = value
    return found
