"""Which SQL type do these values have?

    whole numbers              BIGINT, so that rows to come fit as well; DECIMAL beyond 64 bits
    and numbers with a point   DOUBLE
    text                       TIMESTAMP or DATE where all of it is, else STRING
    lists, objects             ARRAY, STRUCT
    values of several kinds    STRING, with a note: some will not fit
    only NULL                  STRING, with a note

Texts, as in CSV, are looked at the same way, for numbers and truth values too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eddyline.types import BIGINT, BOOLEAN, DATE, DOUBLE, MAX_PRECISION, STRING, TIMESTAMP

_BIGGEST = 2**63
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)(Z|[+-]\d{2}:\d{2})?|\d{4}-\d{2}-\d{2}"
)
_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN|-?Infinity")
_PADDED = re.compile(r"[+-]?0\d+")
_TRUTH = re.compile(r"true|false", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Guess:
    """A type, and what there is to say about it."""

    type: pa.DataType
    note: str | None = None


def guess_of_values(values: Sequence[Any]) -> Guess:
    """The type of values as JSON has them."""
    present = [value for value in values if value is not None]
    if not present:
        return Guess(STRING, "always NULL here")
    kinds = _kinds(present)
    if kinds == {"text"}:
        return Guess(_type_of_text(present))
    t = _type(present)
    if t is not None:
        return Guess(t, "always empty here" if _is_always_empty(present) else None)
    if len(kinds) == 1:
        return Guess(STRING, f"{kinds.pop()} that no one type holds: rows where it is not text will not fit")
    counts = ", ".join(f"{kind} {sum(_kind(v) == kind for v in present)} times" for kind in sorted(kinds))
    return Guess(STRING, f"{counts}: rows where it is not text will not fit")


def guess_of_text(texts: Sequence[str | None]) -> Guess:
    """The type of values as CSV has them: all are text."""
    present = [text for text in texts if text is not None]
    if not present:
        return Guess(STRING, "always NULL here")
    if _all(_WHOLE.fullmatch, present):
        if any(_PADDED.fullmatch(text) for text in present):
            return Guess(STRING, "digits, kept as text because some begin with a zero")
        return Guess(_whole_type([int(text) for text in present]))
    if _all(_NUMBER.fullmatch, present):
        return Guess(DOUBLE)
    if _all(_TRUTH.fullmatch, present):
        return Guess(BOOLEAN)
    return Guess(_type_of_text(present))


# --------------------------------------------------------------------------------------------- inside


def _all(holds: Callable[[str], Any], texts: Sequence[str]) -> bool:
    return all(holds(text) is not None for text in texts)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth values"
    if isinstance(value, (int, float)):
        return "numbers"
    return "text" if isinstance(value, str) else "lists" if isinstance(value, list) else "objects"


def _kinds(values: Sequence[Any]) -> set[str]:
    return {_kind(value) for value in values}


def _type(values: Sequence[Any]) -> pa.DataType | None:
    """The type of values at any depth, none of them NULL; None if there is no one type for them."""
    kinds = _kinds(values)
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    if kind == "truth values":
        return BOOLEAN
    if kind == "text":
        return STRING
    if kind == "numbers":
        return DOUBLE if any(isinstance(value, float) for value in values) else _whole_type(values)
    if kind == "lists":
        items = [item for value in values for item in value if item is not None]
        item_type = _type(items) if items else STRING
        return None if item_type is None else pa.list_(item_type)
    return _struct(values)


def _struct(values: Sequence[dict[str, Any]]) -> pa.DataType | None:
    names = list(dict.fromkeys(name for value in values for name in value))
    if not names:
        return pa.map_(STRING, STRING)
    fields = []
    for name in names:
        inside = [value[name] for value in values if value.get(name) is not None]
        t = _type(inside) if inside else STRING
        if t is None or not (name.isascii() and name.isidentifier()):
            return None
        fields.append(pa.field(name, t))
    return pa.struct(fields)


def _whole_type(values: Sequence[int]) -> pa.DataType:
    if all(-_BIGGEST <= value < _BIGGEST for value in values):
        return BIGINT
    n_digits = max(len(str(abs(value))) for value in values)
    return pa.decimal128(n_digits, 0) if n_digits <= MAX_PRECISION else DOUBLE


def _type_of_text(texts: Sequence[str]) -> pa.DataType:
    if _all(_DAY.fullmatch, texts):
        return DATE
    return TIMESTAMP if _all(_MOMENT.fullmatch, texts) else STRING


def _is_always_empty(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (list, dict)) and not value for value in values)
