"""View properties: the same words and values in SQL, Python, TOML and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eddyline.choices import SEVERITIES
from eddyline.durations import amount, duration_text, duration_us
from eddyline.errors import PropertyError, UnknownNameError, did_you_mean
from eddyline.model import Properties

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
_EMITS = ("changes", "final", "request")


def properties(values: Mapping[str, Any]) -> Properties:
    """The properties of a view from names and values as users write them. `for` may be spelt `for_`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
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


def size_bytes(value: Any) -> int:
    """Bytes of a size: '64 MB', or a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if not isinstance(value, str):
        raise PropertyError(f"{value!r} is not a size", hint="Write a size such as '64 MB'.")
    return round(amount(value, _UNITS_BYTES, "a size", "64 MB"))


def _flag(value: Any) -> bool:
    word = str(value).lower()
    if word not in ("true", "false"):
        raise PropertyError(f"{value!r} is neither true nor false")
    return word == "true"


def _positive_duration(value: Any) -> int:
    us = duration_us(value)
    if not us:
        raise PropertyError(f"{value!r} is no time", hint="Write a duration such as '30 days'.")
    return us


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
    "keep": ("keep_us", _positive_duration),
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
