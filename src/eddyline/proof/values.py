"""Values of receipts: as JSON has them, exactly, and back; and whether two engines mean the same value.

TIMESTAMP, TIMESTAMP_NTZ, DATE   text in ISO form; microseconds, or days, since 1970 beyond the year 9999
DECIMAL, BINARY                  digits as text; base 64
DOUBLE, FLOAT                    the fewest digits that say it; "NaN", "Infinity", "-Infinity"
INTERVAL                         microseconds, or months
ARRAY, STRUCT, MAP               a list, an object, a list of pairs
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.types import (
    DATE,
    INTERVAL,
    MONTHS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    canonical,
    is_decimal,
    parse_type,
    type_name,
)

_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_COUNTED = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
_INTERVALS = {type_name(INTERVAL): INTERVAL, type_name(MONTHS): MONTHS}


def to_json(value: pa.Scalar) -> Any:
    """The JSON value for an Arrow scalar."""
    t = value.type
    if not value.is_valid:
        return None
    if t in _COUNTED:
        try:
            at = value.as_py()
        except (OverflowError, ValueError):  # Python's own end at the year 9999
            return value.value
        return at.isoformat(sep=" ") if isinstance(at, datetime.datetime) else at.isoformat()
    if t == INTERVAL:
        return value.value
    if t == MONTHS:
        return value.as_py().months
    if pa.types.is_struct(t):
        return {field.name: to_json(value[k]) for k, field in enumerate(t)}
    if pa.types.is_map(t):
        return [[to_json(key), to_json(item)] for key, item in _entries(value)]
    if pa.types.is_list(t):
        return [to_json(item) for item in value.values]
    plain = value.as_py()
    if isinstance(plain, float):
        return _WORDS.get(str(plain), plain)
    if isinstance(plain, decimal.Decimal):
        return f"{plain:f}"
    return base64.b64encode(plain).decode() if isinstance(plain, bytes) else plain


def _entries(value: pa.Scalar) -> list[tuple[pa.Scalar, pa.Scalar]]:
    entries = value.values  # a struct array of keys and values
    return list(zip(entries.field(0), entries.field(1), strict=True))


def from_json(stored: Any, t: pa.DataType) -> Any:
    """The inverse of `to_json`: a value that `pa.array([value], t)` takes."""
    if stored is None:
        return None
    if t in _COUNTED:
        if isinstance(stored, int):
            return stored
        kind = datetime.date if t == DATE else datetime.datetime
        return kind.fromisoformat(stored)
    if t == MONTHS:
        return pa.MonthDayNano([stored, 0, 0])
    if pa.types.is_struct(t):
        return {field.name: from_json(stored[field.name], field.type) for field in t}
    if pa.types.is_map(t):
        return [(from_json(key, t.key_type), from_json(item, t.item_type)) for key, item in stored]
    if pa.types.is_list(t):
        return [from_json(item, t.value_type) for item in stored]
    if pa.types.is_floating(t):
        return float(stored)
    if is_decimal(t):
        return decimal.Decimal(stored)
    return base64.b64decode(stored) if pa.types.is_binary(t) else stored


def rows_to_json(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Every row as an object."""
    columns = [rows.column(k) for k in range(rows.num_columns)]
    return [
        {name: to_json(column[at]) for name, column in zip(rows.schema.names, columns, strict=True)}
        for at in range(rows.num_rows)
    ]


def rows_from_json(stored: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """The inverse of `rows_to_json`."""
    columns = [pa.array([from_json(row[f.name], f.type) for row in stored], f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def schema_to_text(schema: pa.Schema) -> list[dict[str, Any]]:
    """The columns as JSON has them, types as SQL names them."""
    return [{"name": f.name, "type": type_name(f.type), "nullable": f.nullable} for f in schema]


def schema_from_text(stored: Sequence[Mapping[str, Any]]) -> pa.Schema:
    """The inverse of `schema_to_text`. Raises ValueError for a type no text says, such as an ARRAY of intervals."""
    return pa.schema([pa.field(f["name"], type_from(f["type"]), f["nullable"]) for f in stored])


def type_from(name: str) -> pa.DataType:
    """The type SQL calls so. Raises ValueError."""
    return _INTERVALS.get(name) or parse_type(name)


# --------------------------------------------------------------------------------------------- comparing


def same_type(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether both are the same SQL type, however Arrow holds it."""
    return type_name(canonical(a) or a) == type_name(canonical(b) or b)


def comparable(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Python values: instants, dates and durations as numbers, so that no year is out of range and zones do not matter."""
    t = column.type
    if pa.types.is_timestamp(t) or pa.types.is_duration(t):
        unit = pa.timestamp("us", t.tz) if pa.types.is_timestamp(t) else pa.duration("us")
        return list(column.cast(unit).cast(pa.int64()).to_pylist())
    if pa.types.is_date(t):
        return list(column.cast(pa.date32()).cast(pa.int32()).to_pylist())
    return list(column.to_pylist())


def is_same(a: Any, b: Any, *, ulps: int = 0, is_single: bool = False) -> bool:
    """Equal to the last bit, or to the last `ulps` steps: NaN is NaN, -0.0 is not 0.0, lists and objects by their items."""
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        if a == b:
            return math.copysign(1, a) == math.copysign(1, b)
        if not ulps or math.isinf(a) or math.isinf(b):
            return False
        step = float(np.spacing(np.float32(a))) if is_single else math.ulp(a)
        return abs(a - b) <= ulps * abs(step)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and not isinstance(a, pa.MonthDayNano):
        return len(a) == len(b) and all(is_same(x, y, ulps=ulps) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_same(a[k], b[k], ulps=ulps) for k in a)
    return type(a) is type(b) and bool(a == b)
