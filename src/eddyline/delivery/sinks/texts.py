"""Results as text: JSON lines as Spark's to_json writes values, and columns of text for CSV."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions import Context, can_cast, convert
from eddyline.model import iso_text
from eddyline.types import (
    BINARY,
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_decimal,
    is_integer,
    python_values,
)

_quoted = json.JSONEncoder(ensure_ascii=False).encode


def json_lines(rows: pa.RecordBatch) -> list[str]:
    """One JSON object per row. NULL is null; NaN and the infinities are text; a DECIMAL keeps its digits."""
    if not rows.num_columns:
        return ["{}"] * rows.num_rows
    names = [f"{_quoted(name)}: " for name in rows.schema.names]
    columns = [_json_texts(column) for column in rows.columns]
    return [
        "{" + ", ".join(name + text for name, text in zip(names, row, strict=True)) + "}"
        for row in zip(*columns, strict=True)
    ]


def text_columns(rows: pa.RecordBatch, time_zone: str) -> pa.Table:
    """Every column as SQL casts it to STRING; what SQL has no such cast for, as JSON."""
    context = Context(time_zone=time_zone)
    columns = []
    for column in rows.columns:
        if can_cast(column.type, STRING) and column.type != BINARY:
            columns.append(convert(column, STRING, context).values)
        else:
            texts = pa.array(_json_texts(column), STRING)
            columns.append(pc.if_else(column.is_valid(), texts, pa.scalar(None, STRING)))
    return pa.table(columns, names=rows.schema.names)


def _json_texts(column: pa.Array) -> list[str]:
    encode = _encoder(column.type)
    return ["null" if value is None else encode(value) for value in python_values(column)]


@lru_cache(maxsize=1_000)
def _encoder(t: pa.DataType) -> Callable[[Any], str]:
    """How a value of a type is written; NULL is not asked for."""
    if t == STRING:
        return _quoted
    if is_integer(t):
        return str
    if pa.types.is_boolean(t):
        return lambda value: "true" if value else "false"
    if pa.types.is_floating(t):
        return _number
    if is_decimal(t):
        return lambda value: format(value, "f")
    if t in (TIMESTAMP, TIMESTAMP_NTZ):
        return lambda value: f'"{_instant(value)}"'
    if t == DATE:
        return lambda value: f'"{value if isinstance(value, str) else value.isoformat()}"'
    if t == BINARY:
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    return _nested_encoder(t)


def _nested_encoder(t: pa.DataType) -> Callable[[Any], str]:
    if pa.types.is_list(t):
        item = _nullable(_encoder(t.value_type))
        return lambda value: "[" + ", ".join(map(item, value)) + "]"
    if pa.types.is_struct(t):
        fields = [(f.name, _nullable(_encoder(f.type))) for f in t]
        return lambda value: (
            "{" + ", ".join(f"{_quoted(name)}: {encode(value[name])}" for name, encode in fields) + "}"
        )
    if pa.types.is_map(t):
        key, item = _encoder(t.key_type), _nullable(_encoder(t.item_type))
        return lambda value: "{" + ", ".join(f"{_key(key(k))}: {item(v)}" for k, v in value) + "}"
    return lambda value: _quoted(_plain(value))


def _nullable(encode: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "null" if value is None else encode(value)


def _key(text: str) -> str:
    return text if text.startswith('"') else f'"{text}"'


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _instant(value: datetime.datetime | str) -> str:
    """Text: a time Python does not have, which stays as it is."""
    return value if isinstance(value, str) else iso_text(value)


def _plain(value: Any) -> str:
    if isinstance(value, datetime.timedelta):
        seconds = decimal.Decimal(value // datetime.timedelta(microseconds=1)) / 1_000_000
        return f"PT{seconds.normalize():f}S"
    return str(value)
