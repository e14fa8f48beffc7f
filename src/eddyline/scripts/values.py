"""Values in a script: read as written, made fit for the column they meet, compared, and written again."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from eddyline.types import BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, is_decimal


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number as written: which number it is depends on the column it meets."""

    text: str


def plain(value: Any) -> Any:
    """A value as Python has it when no column says otherwise: 1 is whole, 1.5 is a float."""
    if isinstance(value, Numeral):
        return int(value.text) if re.fullmatch(r"[+-]?\d+", value.text) else float(value.text)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def typed(value: Any, t: pa.DataType, zone: str) -> Any:
    """A value as a column of type `t` has it in Python; one that does not fit is left as it is."""
    if isinstance(value, Numeral):
        if is_decimal(t):
            return decimal.Decimal(value.text)
        return float(value.text) if pa.types.is_floating(t) else plain(value)
    if isinstance(value, str) and (t in (TIMESTAMP, TIMESTAMP_NTZ, DATE)):
        return _instant(value, t, zone)
    if isinstance(value, str) and t == BINARY:
        return value.encode()
    if isinstance(value, list):
        item = t.value_type if pa.types.is_list(t) else pa.null()
        return [typed(v, item, zone) for v in value]
    if isinstance(value, dict) and pa.types.is_struct(t):
        types = {f.name: f.type for f in t}
        return {key: typed(v, types.get(key, pa.null()), zone) for key, v in value.items()}
    if isinstance(value, dict) and pa.types.is_map(t):
        return [(typed(k, t.key_type, zone), typed(v, t.item_type, zone)) for k, v in value.items()]
    return value


def _instant(text: str, t: pa.DataType, zone: str) -> Any:
    try:
        if t == DATE:
            return datetime.date.fromisoformat(text)
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        return text
    return at.replace(tzinfo=ZoneInfo(zone)) if t == TIMESTAMP and at.tzinfo is None else at


def is_same(expected: Any, actual: Any) -> bool:
    """Whether two values are the same to a reader of results: NaN is NaN, 1 and 1.0 differ, -0.0 and 0.0 differ."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, float) or isinstance(actual, float):
        return type(expected) is type(actual) and repr(expected) == repr(actual)
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        return len(expected) == len(actual) and all(map(is_same, expected, actual))
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(is_same(v, actual[k]) for k, v in expected.items())
    return bool(expected == actual)


def shown(values: Sequence[Any]) -> str:
    """Values as a script has them."""
    return ", ".join(_shown(value) for value in values)


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Numeral):
        return value.text
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime.datetime):
        return f"'{value.isoformat(sep=' ')}'"
    if isinstance(value, (str, datetime.date)):
        return "'" + str(value).replace("'", "''") + "'"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list) and value and all(isinstance(v, tuple) and len(v) == 2 for v in value):
        return "{" + ", ".join(f"{_shown(k)}: {_shown(v)}" for k, v in value) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{shown(value)}]"
    return str(value)
