"""The text of an alert's message: `"{sym} fell to {price:.2f}"` over the columns of the result.

Fields and format specifications are Python's, but fields are names alone: no attribute, no index, no field inside another.
A column is found whatever its case. What is wrong with a template for every row is refused when the query is registered; what is
wrong with it for one row leaves that row's message as the template is written.
"""

from __future__ import annotations

import datetime
import decimal
import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eddyline.errors import PropertyError, UnknownNameError, did_you_mean
from eddyline.types import is_decimal, is_integer, type_name

EXTRAS = ("query", "key", "severity", "n_rows", "since")  # besides the columns, which come first
LONGEST_TEMPLATE = 2_000
LONGEST_VALUE = 1_000  # characters of one value that are shown
_WIDE = re.compile(r"\d{4}")  # no message needs a field of a thousand characters


class _Null:
    """NULL, however it is to be shown."""

    def __format__(self, specification: str) -> str:
        return "NULL"

    def __str__(self) -> str:
        return "NULL"

    __repr__ = __str__


_NULL = _Null()


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    """A template that was checked: pieces of text, each followed by a field or not."""

    text: str
    pieces: tuple[tuple[str, str | None, str, str], ...]  # text, name of the value, conversion, specification

    def format(self, row: Mapping[str, Any], extras: Mapping[str, Any], zone: datetime.tzinfo) -> str | None:
        """The message over a row, instants in the session's zone; None if a value cannot be shown as the template says."""
        shown = []
        try:
            for text, name, conversion, specification in self.pieces:
                shown.append(text)
                if name is not None:
                    value = _format_value(row[name] if name in row else extras[name], zone)
                    shown.append(format(_CONVERSIONS[conversion](value), specification))
        except (ValueError, TypeError, OverflowError, ArithmeticError):
            return None
        return "".join(shown)


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"": lambda value: value, "s": str, "r": repr, "a": ascii}


def message_template(text: str, columns: pa.Schema) -> MessageTemplate:
    """Read a template for results with these columns. Raises PropertyError or UnknownNameError."""
    if not text.strip():
        raise PropertyError(
            "property message is empty", hint="Write a text such as 'price of {sym}', or leave it out."
        )
    if len(text) > LONGEST_TEMPLATE:
        raise PropertyError(
            f"property message has {len(text):,} characters",
            hint=f"Up to {LONGEST_TEMPLATE:,} are taken; the row is sent along.",
        )
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as error:
        raise PropertyError(
            f"property message cannot be read: {error}",
            hint="Fields stand in braces, as in '{sym}'; a brace itself is written twice.",
        ) from None
    by_folded = {name.lower(): name for name in [*EXTRAS, *columns.names]}
    pieces: list[tuple[str, str | None, str, str]] = []
    for literal, field, specification, conversion in parsed:
        if field is None:
            pieces.append((literal, None, "", ""))
            continue
        name = _name(field, by_folded)
        _check_specification(name, specification or "", conversion or "", columns)
        pieces.append((literal, name, conversion or "", specification or ""))
    return MessageTemplate(text, tuple(pieces))


def _name(field: str, by_folded: Mapping[str, str]) -> str:
    found = by_folded.get(field.lower())
    if found is not None:
        return found
    if not field or field.isdigit():
        raise PropertyError(
            f"property message has a field without a name: {{{field}}}",
            hint="Name a column of the result, as in '{sym}'.",
        )
    base = re.split(r"[.\[]", field, maxsplit=1)[0]
    if base != field and base.lower() in by_folded:
        raise PropertyError(
            f"property message looks into {base}: {{{field}}}",
            hint=f"Fields are names alone. Select what is meant as a column of its own: {field} AS …",
        )
    raise UnknownNameError(
        f"property message names {field}, which is not a column of the result",
        hint=did_you_mean(field, by_folded.values(), noun="column"),
    )


def _check_specification(name: str, specification: str, conversion: str, columns: pa.Schema) -> None:
    """Refuse what no value of the column can be shown with."""
    how = (f"!{conversion}" if conversion else "") + (f":{specification}" if specification else "")
    shown = f"{{{name}{how}}}"
    if conversion not in _CONVERSIONS:
        raise PropertyError(
            f"property message has the conversion !{conversion} in {shown}", hint="Leave it out."
        )
    if "{" in specification or _WIDE.search(specification):
        raise PropertyError(
            f"property message cannot show {name} like this: {shown}",
            hint="Write a format such as {price:.2f} or {n:>8}, with numbers below 1000 and no field inside.",
        )
    if not specification:
        return
    in_result = name in columns.names
    sample = _sample(columns.field(name).type) if in_result else 1 if name == "n_rows" else "a"
    try:
        format(_CONVERSIONS[conversion](sample), specification)
    except (ValueError, TypeError, OverflowError) as error:
        kind = f", which is {type_name(columns.field(name).type)}" if in_result else ""
        raise PropertyError(
            f"property message cannot show {name}{kind}, like this: {shown}",
            detail=f"{error}.",
            hint="Formats are those of Python: {price:.2f} for numbers, {ts:%H:%M} for times, {sym:>8} for texts.",
        ) from None


def _sample(t: pa.DataType) -> Any:
    """Some value of a type, as rows have it."""
    if pa.types.is_boolean(t):
        return True
    if is_integer(t):
        return 1
    if pa.types.is_floating(t):
        return 1.0
    if is_decimal(t):
        return decimal.Decimal(1)
    if pa.types.is_timestamp(t):
        return datetime.datetime(2024, 1, 1)
    if pa.types.is_date(t):
        return datetime.date(2024, 1, 1)
    return "a"  # texts; all else is shown as one


def _format_value(value: Any, zone: datetime.tzinfo) -> Any:
    """The value a format specification meets: what has no formats of its own as text, what is long cut."""
    if value is None:
        return _NULL
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(zone).replace(tzinfo=None)
    if isinstance(value, (bool, int, float, decimal.Decimal, datetime.date)):
        return value
    text = value if isinstance(value, str) else f"{value}"
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
