"""The types of SQL values. A type is an Arrow type; this page names the ones SQL has and says what Spark calls them.

TIMESTAMP is an instant, kept in UTC; TIMESTAMP_NTZ is a wall-clock time without a zone; INTERVAL DAY TO SECOND is a
duration. INTERVAL YEAR TO MONTH is Arrow's month interval, which only literals have.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import pyarrow as pa

from eddyline.nesting import MAX_TYPE_NESTING

NULL = pa.null()
BOOLEAN = pa.bool_()
TINYINT = pa.int8()
SMALLINT = pa.int16()
INT = pa.int32()
BIGINT = pa.int64()
FLOAT = pa.float32()
DOUBLE = pa.float64()
STRING = pa.string()
BINARY = pa.binary()
DATE = pa.date32()
TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
INTERVAL = pa.duration("us")
MONTHS = pa.month_day_nano_interval()

MAX_PRECISION = 38
NARROW_DIGITS = 18  # of a decimal whose unscaled value fits 64 bits

_BY_NAME = {
    "void": NULL,
    "boolean": BOOLEAN,
    "bool": BOOLEAN,
    "tinyint": TINYINT,
    "byte": TINYINT,
    "smallint": SMALLINT,
    "short": SMALLINT,
    "int": INT,
    "integer": INT,
    "bigint": BIGINT,
    "long": BIGINT,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "text": STRING,
    "varchar": STRING,
    "char": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "decimal": pa.decimal128(10, 0),
    "dec": pa.decimal128(10, 0),
    "numeric": pa.decimal128(10, 0),
    "interval": INTERVAL,
}

_NAMES = {
    NULL: "VOID",
    BOOLEAN: "BOOLEAN",
    TINYINT: "TINYINT",
    SMALLINT: "SMALLINT",
    INT: "INT",
    BIGINT: "BIGINT",
    FLOAT: "FLOAT",
    DOUBLE: "DOUBLE",
    STRING: "STRING",
    BINARY: "BINARY",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
    INTERVAL: "INTERVAL DAY TO SECOND",
    MONTHS: "INTERVAL YEAR TO MONTH",
}

INTEGER_RANK = {TINYINT: 0, SMALLINT: 1, INT: 2, BIGINT: 3}
# digits a DECIMAL needs to hold every value of an integer type
INTEGER_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}


def is_integer(t: pa.DataType) -> bool:
    return t in INTEGER_RANK


def is_floating(t: pa.DataType) -> bool:
    return t in (FLOAT, DOUBLE)


def is_decimal(t: pa.DataType) -> bool:
    return bool(pa.types.is_decimal128(t))


def is_wide_decimal(t: pa.DataType) -> bool:
    """Whether values of a type are decimals that do not fit 64 bits."""
    return is_decimal(t) and t.precision > NARROW_DIGITS


def is_numeric(t: pa.DataType) -> bool:
    return is_integer(t) or is_floating(t) or is_decimal(t)


def is_temporal(t: pa.DataType) -> bool:
    return t in (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def is_nested(t: pa.DataType) -> bool:
    return bool(pa.types.is_struct(t) or pa.types.is_list(t) or pa.types.is_map(t))


def type_name(t: pa.DataType) -> str:
    """What Spark SQL calls the type."""
    if t in _NAMES:
        return _NAMES[t]
    if is_decimal(t):
        return f"DECIMAL({t.precision},{t.scale})"
    if pa.types.is_struct(t):
        return "STRUCT<" + ", ".join(f"{f.name}: {type_name(f.type)}" for f in t) + ">"
    if pa.types.is_list(t):
        return f"ARRAY<{type_name(t.value_type)}>"
    if pa.types.is_map(t):
        return f"MAP<{type_name(t.key_type)}, {type_name(t.item_type)}>"
    return str(t)


def canonical(t: pa.DataType) -> pa.DataType | None:
    """The SQL type that holds every value of an Arrow type, or None where SQL has none."""
    if t in _NAMES:
        return t
    if pa.types.is_decimal(t):
        scale = max(0, t.scale)
        precision = max(t.precision - min(0, t.scale), scale)
        return pa.decimal128(precision, scale) if precision <= MAX_PRECISION else None
    if pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return STRING
    if pa.types.is_large_binary(t) or pa.types.is_binary_view(t) or pa.types.is_fixed_size_binary(t):
        return BINARY
    if pa.types.is_dictionary(t):
        return canonical(t.value_type)
    if pa.types.is_uint8(t):
        return SMALLINT
    if pa.types.is_uint16(t):
        return INT
    if pa.types.is_uint32(t):
        return BIGINT
    if pa.types.is_uint64(t):
        return pa.decimal128(20, 0)
    if pa.types.is_float16(t):
        return FLOAT
    if pa.types.is_date64(t):
        return DATE
    if pa.types.is_timestamp(t):
        return TIMESTAMP_NTZ if t.tz is None else TIMESTAMP
    if pa.types.is_duration(t):
        return INTERVAL
    if pa.types.is_struct(t):
        fields = [(f, canonical(f.type)) for f in t]
        if any(c is None for _, c in fields):
            return None
        return pa.struct([pa.field(f.name, c, f.nullable) for f, c in fields])
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        item = canonical(t.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(t):
        key, item = canonical(t.key_type), canonical(t.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    return None


def array_of(values: Iterable[Any], t: pa.DataType, *, from_pandas: bool | None = None) -> pa.Array:
    """Python values as an Arrow array of a type. Raises as `pa.array` does, and ValueError for what `check_decimals` refuses."""
    if has_decimals(t):
        for value in values:
            check_decimals(value, t)
    return pa.array(values, t, from_pandas=from_pandas)


_NOT_IN_PYTHON = (OverflowError, ValueError, LookupError)  # a year, or the name of a time zone


def python_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """The rows as dicts. A time before year 1 or after 9999, which Python does not have, is its number as text."""
    try:
        return list(rows.to_pylist())
    except _NOT_IN_PYTHON:
        columns = [python_values(column) for column in rows.columns]
        return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def python_values(column: pa.Array) -> list[Any]:
    """The values of a column, as in `python_rows`."""
    try:
        return list(column.to_pylist())
    except _NOT_IN_PYTHON:
        return [_python_value(scalar) for scalar in column]


def _python_value(scalar: pa.Scalar) -> Any:
    t = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(t):
        return {f.name: _python_value(scalar[k]) for k, f in enumerate(t)}
    if pa.types.is_map(t):
        return [(_python_value(entry["key"]), _python_value(entry["value"])) for entry in scalar.values]
    if is_nested(t):
        return [_python_value(item) for item in scalar.values]
    try:
        return scalar.as_py()
    except _NOT_IN_PYTHON:
        return str(scalar.value)


def check_decimals(value: Any, t: pa.DataType) -> None:
    """Raises ValueError if the value is, or has inside, a number for a DECIMAL whose scale is too far from the type's.

    Arrow looks a power of ten up by the difference of the two scales and does not check it: 1e-1000000000 ends the process.
    """
    if is_decimal(t):
        if isinstance(value, Decimal) and not _is_near(value, t.scale):
            raise ValueError(f"{value} is not {type_name(t)}")
    elif not has_decimals(t) or not isinstance(value, Iterable):
        return
    elif pa.types.is_list(t):
        for item in value:
            check_decimals(item, t.value_type)
    elif pa.types.is_struct(t):
        _check_fields(value, t)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check_decimals(key, t.key_type)
            check_decimals(item, t.item_type)
    else:
        entries = pa.struct([("key", t.key_type), ("value", t.item_type)])
        for entry in value:
            check_decimals(entry, entries)


def _check_fields(value: Iterable[Any], t: pa.DataType) -> None:
    """Of a struct as Arrow takes it: by name, by (name, value) pairs, or by place."""
    if not isinstance(value, Mapping):
        parts = list(value)
        is_paired = all(isinstance(part, tuple) and len(part) == 2 for part in parts)
        value = dict(parts if is_paired else zip([f.name for f in t], parts, strict=False))
    for f in t:
        check_decimals(value.get(f.name), f.type)


def _is_near(value: Decimal, scale: int) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and abs(exponent + scale) <= MAX_PRECISION


def has_decimals(t: pa.DataType) -> bool:
    """Whether values of the type are, or have inside, numbers with a decimal point of their own."""
    return is_decimal(t) or any(has_decimals(t.field(k).type) for k in range(t.num_fields))


def exact_decimal(value: Decimal, t: pa.DataType) -> Decimal:
    """The same number with the scale of a DECIMAL type. Raises ArithmeticError if it has more digits than the type."""
    return value.quantize(Decimal((0, (1,), -t.scale)), context=_exactly(t.precision))


@functools.cache
def _exactly(precision: int) -> Context:
    return Context(prec=precision, traps=[Inexact, InvalidOperation])


def decimal(precision: int, scale: int) -> pa.DataType:
    """DECIMAL(precision, scale), cut to 38 digits the way Spark does: integral digits first, at least 6 of the scale."""
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    integral = precision - scale
    kept_scale = min(scale, 6)
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - integral, kept_scale))


_TOKEN = re.compile(r"\s*(`[^`]+`|[A-Za-z_][\w]*|\d+|[<>(),:])")


def parse_type(text: str) -> pa.DataType:
    """The type a DDL string names, such as 'decimal(10,2)' or 'array<struct<a: int>>'. Raises ValueError."""
    reader = _TypeReader(text)
    t = reader.type()
    if reader.at < len(reader.tokens):
        raise ValueError(f"{text!r} is not a type: {reader.next!r} was not expected")
    return t


def parse_fields(text: str) -> list[tuple[str, pa.DataType, bool]]:
    """Columns of a DDL string 'name TYPE [NOT NULL], …' as (name, type, nullable). Raises ValueError."""
    reader = _TypeReader(text)
    fields: list[tuple[str, pa.DataType, bool]] = []
    while reader.at < len(reader.tokens):
        name = reader.take()
        if not reader.next:
            raise ValueError(f"column {name!r} has no type")
        reader.skip(":")
        t = reader.type()
        nullable = [w.lower() for w in reader.tokens[reader.at : reader.at + 2]] != ["not", "null"]
        reader.at += 0 if nullable else 2
        fields.append((name.strip("`"), t, nullable))
        if reader.next and not reader.skip(","):
            raise ValueError(f"{reader.next!r} was not expected after column {name!r}")
    return fields


def nesting(t: pa.DataType) -> int:
    """How many types of arrays, maps and structs lie in each other."""
    if pa.types.is_struct(t):
        return 1 + max((nesting(f.type) for f in t), default=0)
    if pa.types.is_map(t):
        return 1 + max(nesting(t.key_type), nesting(t.item_type))
    return 1 + nesting(t.value_type) if pa.types.is_list(t) else 0


class _TypeReader:
    """Reads types from a DDL string."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0
        self._depth = 0

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def skip(self, symbol: str) -> bool:
        is_here = self.next == symbol
        self.at += is_here
        return is_here

    def _expect(self, symbol: str) -> None:
        if not self.skip(symbol):
            raise ValueError(f"{self.text!r} is not a type: expected {symbol!r}")

    def type(self) -> pa.DataType:
        if not self.next:
            raise ValueError(f"{self.text!r} is not a type")
        name = self.take()
        word = name.lower()
        if word in ("array", "map", "struct"):
            self._expect("<")
            self._depth += 1
            if self._depth > MAX_TYPE_NESTING:
                raise ValueError(f"the type is nested deeper than {MAX_TYPE_NESTING} levels")
            t = {"array": self._array, "map": self._map, "struct": self._struct}[word]()
            self._depth -= 1
            self._expect(">")
            return t
        if word not in _BY_NAME:
            raise ValueError(f"{name!r} is not a type of Spark SQL")
        if word in ("decimal", "dec", "numeric") and self.skip("("):
            return self._decimal()
        if word in ("varchar", "char") and self.skip("("):
            self.at += 1
            self._expect(")")
            return STRING
        return _BY_NAME[word]

    def _array(self) -> pa.DataType:
        return pa.list_(self.type())

    def _map(self) -> pa.DataType:
        key = self.type()
        self._expect(",")
        return pa.map_(key, self.type())

    def _struct(self) -> pa.DataType:
        fields = []
        while self.next and self.next != ">":
            name = self.take()
            self.skip(":")
            fields.append(pa.field(name.strip("`"), self.type()))
            self.skip(",")
        return pa.struct(fields)

    def _decimal(self) -> pa.DataType:
        numbers = []
        while self.next and self.next != ")":
            numbers.append(self.take())
        self._expect(")")
        numbers = [token for token in numbers if token != ","]
        if not numbers or len(numbers) > 2 or not all(n.isascii() and n.isdigit() for n in numbers):
            raise ValueError(f"{self.text!r} is not a type: DECIMAL takes a precision and a scale")
        is_short = all(len(n) <= 9 for n in numbers)
        precision, scale = (
            (int(numbers[0]), int(numbers[-1]) if len(numbers) == 2 else 0) if is_short else (0, 0)
        )
        if not 1 <= precision <= MAX_PRECISION or scale > precision:
            raise ValueError(f"DECIMAL({','.join(numbers)}) is out of range: at most {MAX_PRECISION} digits")
        return pa.decimal128(precision, scale)


def _tokens(text: str) -> list[str]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        hit = _TOKEN.match(text, at)
        if hit is None:
            raise ValueError(f"{text!r} is not a type: {text[at:].strip()[:10]!r} was not expected")
        tokens.append(hit.group(1))
        at = hit.end()
    return tokens
