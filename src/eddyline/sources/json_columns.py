"""Lines of JSON straight into columns, by Arrow's reader: many times faster than row by row, and never another answer.

`json_lines` says what a line means. Arrow's reader refuses most of what it would understand differently: repeated names, values
of another kind, numbers out of range, `1.0` for a whole number, rounding of decimals. Names the stream does not have are read
like its columns, as what they are in the first lines, and left out. What is accepted all the same is looked for afterwards:

    two objects in a line, one in two lines   every line begins with { and ends with }, and there is a row for each
    bytes that are not UTF-8                  all text is decoded
    NaN and infinities                        only some spellings are JSON as Python has it: row by row
    whole numbers for a DOUBLE or FLOAT       beyond 2^53 and 2^24 not all can be held, and -0 is 0: row by row
    decimals of too many digits               by Arrow's own validation
    decimals with many places                 Arrow does not survive some of them: row by row
    NULL where there may be none              counted
    times                                     come as text, and are cast if written the same way all through; before 1970 and
                                              after 2037 in a zone with daylight saving: row by row
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from eddyline.durations import DAY_US
from eddyline.expressions import Context, convert
from eddyline.model import Stream
from eddyline.sources.rows import ARRIVAL
from eddyline.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_decimal,
    is_integer,
)

BoolVector = npt.NDArray[np.bool_]

EXAMPLES = 8  # lines, from which the types of unknown names are guessed
MOST_UNKNOWN = 100  # such names
MOST_NESTED = 8  # levels inside them

_MINUS_ZERO = np.iinfo(np.int64).min  # its bits
_DATE = "0000-00-00"
_YEAR_1_US, _YEAR_10000_US = -62_135_596_800_000_000, 253_402_300_800_000_000
_YEAR_2038_US = 2_145_916_800_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31

# A value, bare or as text, with so many decimal places that Arrow's reader may look for a power of ten it does not have and end
# the process: an exponent of -10 or below, 29 digits behind the point, or characters of a number written as escapes.
_MANY_PLACES = re.compile(
    rb':[ \t\r\n]*+"?[-+]?[0-9]*+(?:\.[0-9]{29}|(?:\.[0-9]*+)?'
    rb'(?:[eE]-0*+[1-9][0-9]++["\\,} \t\r\n]|[-+.0-9eE]*+\\u00(?:2[bdeBDE]|3[0-9]|[46]5)))'
)
_LONG_FRACTION = re.compile(rb"\.[0-9]{29}")

# a column as it was read, as the stream has it; in the second, rows of which it is not certain become False
Finish = Callable[[pa.Array, BoolVector], pa.Array]


@dataclass(frozen=True, slots=True)
class ReadAsColumns:
    """A row for each line; `is_certain` is False, if it is there, on those to be read by themselves all the same."""

    rows: pa.RecordBatch
    is_certain: BoolVector | None
    unknown_names: Sequence[str] = ()  # names the stream does not have


class JsonColumns:
    """Reads lines of one stream as columns. `columns_for` says whether that can be."""

    def __init__(self, stream: Stream, time_zone: str) -> None:
        self._stream = stream
        self._read_as = [_read_as(f.type) for f in stream.schema]
        self._finish = [_finish(f.type, time_zone) for f in stream.schema]
        self._unknown_types: dict[str, pa.DataType] = {}
        self._parse = self._parse_options(stream.schema.names)
        self._has_decimals = any(is_decimal(f.type) for f in stream.schema)

    def expect(self, lines: Sequence[bytes]) -> None:
        """Expect lines like these: names as the first spells them, for case does not count, and others the stream has not."""
        examples = [_object(line) for line in lines[:EXAMPLES]]
        spelling = {key.lower(): key for key in examples[0]}
        names = [spelling.get(name.lower(), name) for name in self._stream.schema.names]
        self._unknown_types = _unknown_types(examples, {ARRIVAL, *map(str.lower, names)})
        self._parse = self._parse_options(names)

    def read(self, lines: Sequence[bytes]) -> ReadAsColumns | None:
        """One row for each line, all of which begin with { and end with }; None if the reader refuses one of them."""
        body = b"\n".join(lines)
        if self._has_decimals and _may_have_many_places(body):
            return None
        try:
            if not body.isascii():
                body.decode()
            table = pyarrow.json.open_json(
                pa.BufferReader(body),
                pyarrow.json.ReadOptions(use_threads=False, block_size=len(body) + 1),
                self._parse,
            ).read_all()
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        if table.num_rows != len(lines):
            return None
        columns: list[pa.Array] = []
        is_certain = np.ones(len(lines), bool)
        arrays = [c.chunk(0) if c.num_chunks == 1 else pa.concat_arrays(c.chunks) for c in table.columns]
        n_columns = len(self._stream.schema)
        for f, read, finish in zip(self._stream.schema, arrays[:n_columns], self._finish, strict=True):
            try:
                column = finish(read, is_certain)
            except (pa.ArrowException, ValueError):
                return None
            assert column.type == f.type, (column.type, f.type)
            if column.null_count and not f.nullable:
                is_certain &= column.is_valid().to_numpy(zero_copy_only=False)
            columns.append(column)
        rows = pa.RecordBatch.from_arrays(columns, schema=self._stream.schema)
        unknown = dict(zip(self._unknown_types, arrays[n_columns:], strict=True))
        for column in unknown.values():
            _and_where(is_certain, column, _has_only_finite_numbers)
        written = [name for name, column in unknown.items() if column.null_count < len(column)]
        return ReadAsColumns(rows, None if is_certain.all() else is_certain, written)

    def _parse_options(self, names: Sequence[str]) -> pyarrow.json.ParseOptions:
        columns = [*zip(names, self._read_as, strict=True), *self._unknown_types.items()]
        return pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(columns),
            newlines_in_values=False,
            unexpected_field_behavior="error",
        )


def columns_for(stream: Stream, time_zone: str) -> JsonColumns | None:
    """A reader for the stream, or None if it has a column of which it is not certain that it comes out the same."""
    if any(f.name.lower() == ARRIVAL or not _is_certain(f.type) for f in stream.schema):
        return None
    return JsonColumns(stream, time_zone)


def _may_have_many_places(body: bytes) -> bool:
    """Whether a value may have more decimal places than Arrow's reader survives; at first by what is found fastest."""
    has_signs = any(sign in body for sign in (b"e-", b"E-", b"\\u00")) or _LONG_FRACTION.search(body)
    return bool(has_signs) and _MANY_PLACES.search(body) is not None


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# --------------------------------------------------------------------------------------------- names the stream does not have


def _unknown_types(examples: Sequence[dict[str, Any]], known: set[str]) -> dict[str, pa.DataType]:
    """The other names in some objects, each with a type that its values have there; too many of them are left to be refused."""
    names = dict.fromkeys(key for example in examples for key in example if key.lower() not in known)
    if not _are_plain(names):
        return {}
    types = {name: _common_type([example.get(name) for example in examples], 0) for name in names}
    return {name: t for name, t in types.items() if t is not None}


def _are_plain(names: Collection[str]) -> bool:
    """Not too many, and none that Arrow may not take."""
    return len(names) <= MOST_UNKNOWN and all(map(str.isprintable, names))


def _common_type(values: Sequence[Any], depth: int) -> pa.DataType | None:
    """A type all these values can be read as; None if there is none."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.null()
    if kinds == {int} and all(abs(value) < 1 << 63 for value in values if value is not None):
        return BIGINT
    if kinds <= {int, float}:
        return DOUBLE
    if len(kinds) > 1 or depth == MOST_NESTED:
        return None
    kind = kinds.pop()
    if kind is list:
        item = _common_type([item for value in values if value is not None for item in value], depth + 1)
        return None if item is None else pa.list_(item)
    if kind is dict:
        names = dict.fromkeys(name for value in values if value is not None for name in value)
        if not _are_plain(names):
            return None
        types = [
            (name, _common_type([value.get(name) for value in values if value is not None], depth + 1))
            for name in names
        ]
        return None if any(t is None for _, t in types) else pa.struct(types)
    return BOOLEAN if kind is bool else STRING


# --------------------------------------------------------------------------------------------- types


def _is_certain(t: pa.DataType) -> bool:
    if _is_nested_certain(t):
        return True
    return t in (FLOAT, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ) or is_decimal(t)


def _is_nested_certain(t: pa.DataType) -> bool:
    """Whether values of the type, or with such values inside, are read alike at any depth."""
    if pa.types.is_list(t):
        return t.value_field.nullable and _is_nested_certain(t.value_type)
    if pa.types.is_struct(t):
        names = {f.name for f in t}
        return 0 < t.num_fields == len(names) and all(f.nullable and _is_nested_certain(f.type) for f in t)
    return is_integer(t) or t in (BOOLEAN, STRING, DOUBLE)


def _read_as(t: pa.DataType) -> pa.DataType:
    """What Arrow is asked for: FLOAT is rounded from a DOUBLE, as it is row by row; times and bytes are text in JSON."""
    if t == FLOAT:
        return DOUBLE
    return STRING if t in (BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ) else t


def _finish(t: pa.DataType, time_zone: str) -> Finish:
    if t == FLOAT:
        return _rounded
    if t == BINARY:
        return _from_base64
    if t == DATE:
        return _dates
    if t in (TIMESTAMP, TIMESTAMP_NTZ):
        return lambda column, is_certain: _times(column, t, time_zone, is_certain)
    if is_decimal(t):
        return _validated
    if t == DOUBLE:
        return _exact
    return _with_exact_numbers if _has_doubles(t) else lambda column, is_certain: column


def _has_doubles(t: pa.DataType) -> bool:
    return t == DOUBLE or any(_has_doubles(t.field(k).type) for k in range(t.num_fields))


def _exact(column: pa.Array, is_certain: BoolVector) -> pa.Array:
    """Uncertain: numbers so large that a whole number, written out, may have been rounded, and what is no number."""
    is_certain &= _is_small(column, 2.0**53)
    return column


def _rounded(column: pa.Array, is_certain: BoolVector) -> pa.Array:
    is_certain &= _is_small(column, 2.0**24)
    return column.cast(FLOAT, safe=False)


def _is_small(column: pa.Array, below: float) -> BoolVector:
    """Neither large, nor no number, nor -0, which without a point is 0."""
    values = (column if not column.null_count else column.fill_null(0.0)).to_numpy(zero_copy_only=False)
    return (np.abs(values) < below) & (values.view(np.int64) != _MINUS_ZERO)


def _with_exact_numbers(column: pa.Array, is_certain: BoolVector) -> pa.Array:
    _and_where(is_certain, column, lambda part: _has_only(part, lambda n: bool(_is_small(n, 2.0**53).all())))
    return column


def _has_only_finite_numbers(column: pa.Array) -> bool:
    return _has_only(
        column, lambda n: bool(np.isfinite(n.fill_null(0.0).to_numpy(zero_copy_only=False)).all())
    )


def _and_where(is_certain: BoolVector, column: pa.Array, holds: Callable[[pa.Array], bool]) -> None:
    """Only rows for which something holds stay certain."""
    if not holds(column):
        is_certain &= np.array([holds(column.slice(k, 1)) for k in range(len(column))])


def _has_only(column: pa.Array, holds: Callable[[pa.Array], bool]) -> bool:
    """Whether something holds for all DOUBLE values, however deep inside they are."""
    t = column.type
    if t == DOUBLE:
        return holds(column)
    if pa.types.is_list(t):
        return _has_only(column.flatten(), holds)
    return not pa.types.is_struct(t) or all(_has_only(part, holds) for part in column.flatten())


def _validated(column: pa.Array, is_certain: BoolVector) -> pa.Array:
    column.validate(full=True)
    return column


def _from_base64(column: pa.Array, is_certain: BoolVector) -> pa.Array:
    return pa.array(
        [None if text is None else base64.b64decode(text, validate=True) for text in column.to_pylist()],
        BINARY,
    )


def _dates(column: pa.Array, is_certain: BoolVector) -> pa.Array:
    dates = column.cast(DATE)
    is_certain &= _is_within(dates.view(pa.int32()), _FIRST_DAY, _LAST_DAY + 1)
    return dates


def _times(column: pa.Array, t: pa.DataType, time_zone: str, is_certain: BoolVector) -> pa.Array:
    """Times that are all written like the first: with or without a zone, to the microsecond or finer."""
    written = column if not column.null_count else column.drop_null()
    if not len(written):
        return pa.nulls(len(column), t)
    first = written[0].as_py()
    has_zone = first.endswith("Z") or any(sign in first[len(_DATE) :] for sign in "+-")
    zone = "UTC" if has_zone else None
    try:
        times = column.cast(pa.timestamp("us", zone))
    except pa.ArrowInvalid:  # finer perhaps: what is below a microsecond is cut
        nanoseconds = column.cast(pa.timestamp("ns", zone))
        times = pc.floor_temporal(nanoseconds, unit="microsecond").cast(pa.timestamp("us", zone), safe=False)
    low, below = _YEAR_1_US + DAY_US, _YEAR_10000_US - DAY_US
    if times.type != t and time_zone != "UTC":
        if "/" not in time_zone:  # a short name, which Java and Python may understand differently
            is_certain[:] = False
        low, below = DAY_US, _YEAR_2038_US - DAY_US
    is_certain &= _is_within(times.view(pa.int64()), low, below)
    return times if times.type == t else convert(times, t, Context(time_zone=time_zone)).values


def _is_within(numbers: pa.Array, low: int, below: int) -> BoolVector:
    values = (numbers if not numbers.null_count else numbers.fill_null(low)).to_numpy(zero_copy_only=False)
    return (low <= values) & (values < below)
