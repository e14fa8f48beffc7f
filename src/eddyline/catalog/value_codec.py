"""Types and constants as JSON: exact, whatever the type."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa

from eddyline.types import DATE, INTERVAL, MONTHS, TIMESTAMP, TIMESTAMP_NTZ, is_decimal, parse_type, type_name

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_COUNTED = (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    INTERVAL,
)  # kept as days or microseconds: Python's own end at the year 9999
_NAMED = {type_name(INTERVAL): INTERVAL, type_name(MONTHS): MONTHS}


def type_from(name: str) -> pa.DataType:
    return _NAMED.get(name) or parse_type(name)


def value_to(value: Any, t: pa.DataType) -> Any:
    """A constant as JSON has it: exact, whatever the type."""
    if value is None:
        return None
    if isinstance(value, pa.Scalar):
        value = value.value if t in _COUNTED else value.as_py()
    if value is None:
        return None
    if pa.types.is_list(t):
        return [value_to(item, t.value_type) for item in value]
    if pa.types.is_floating(t):
        return float(value).hex()
    if is_decimal(t):
        return str(value)
    if pa.types.is_binary(t):
        return value.hex()
    if t == DATE:
        return value if isinstance(value, int) else value.toordinal() - _EPOCH.toordinal()
    if t in (TIMESTAMP, TIMESTAMP_NTZ):
        return value if isinstance(value, int) else (_naive(value) - _EPOCH) // _MICROSECOND
    if t == INTERVAL:
        return value if isinstance(value, int) else value // _MICROSECOND
    if t == MONTHS:
        return list(value)
    return value


def value_from(stored: Any, t: pa.DataType) -> Any:
    """The inverse of `value_to`: a value `pa.scalar(value, t)` accepts."""
    if stored is None:
        return None
    if pa.types.is_list(t):
        return tuple(value_from(item, t.value_type) for item in stored)
    if pa.types.is_floating(t):
        return float.fromhex(stored)
    if is_decimal(t):
        return decimal.Decimal(stored)
    if pa.types.is_binary(t):
        return bytes.fromhex(stored)
    if t in _COUNTED:
        return stored  # Arrow takes days and microseconds as numbers
    if t == MONTHS:
        return pa.MonthDayNano(stored)
    return stored


def _naive(value: datetime.datetime) -> datetime.datetime:
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


def natural_value(value: Any, t: pa.DataType) -> Any:
    """The value as the binder has it: dates and times as Python's, unless they are beyond those."""
    if t not in _COUNTED:
        return value
    try:
        return pa.scalar(value, t).as_py()
    except (ValueError, OverflowError):
        return value
