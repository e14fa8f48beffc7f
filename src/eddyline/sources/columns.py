"""One Arrow column into the type of a stream's column; values that do not fit cost their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import SchemaError
from eddyline.expressions import to_local, to_utc
from eddyline.model import Stream
from eddyline.types import (
    TIMESTAMP,
    TIMESTAMP_NTZ,
    canonical,
    is_decimal,
    is_floating,
    is_integer,
    python_values,
    type_name,
)


def column_in_type(
    stream: Stream, field: pa.Field, column: pa.ChunkedArray, time_zone: str
) -> tuple[pa.Array, dict[int, str]]:
    """The column in the field's type, and (row, message) for the values that do not fit (NULL there)."""
    values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    if values.type != field.type:
        values, wrong = _converted_column(stream, field, values, time_zone)
    else:
        wrong = {}
    if not field.nullable and values.null_count:
        for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)):
            wrong.setdefault(int(row), f"column {field.name} is NULL, which the stream does not allow")
        if wrong:
            values = pc.fill_null(
                values, _filler(values, field.type)
            )  # these rows leave; the schema says not null
    return values, wrong


def _converted_column(
    stream: Stream, field: pa.Field, values: pa.Array, time_zone: str
) -> tuple[pa.Array, dict[int, str]]:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), field.type), {}
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    source = canonical(values.type)
    if source is None or not _may_become(source, field.type):
        raise SchemaError(
            f"column {field.name} of the data is {values.type}, stream {stream.name} has {type_name(field.type)}",
            hint="Cast the column before pushing, or declare the stream with its type.",
        )
    if source == TIMESTAMP_NTZ and field.type == TIMESTAMP:
        return _zoned_times(values.cast(TIMESTAMP_NTZ, safe=False), TIMESTAMP, to_utc, time_zone), {}
    if source == TIMESTAMP and field.type == TIMESTAMP_NTZ:
        return _zoned_times(values.cast(TIMESTAMP, safe=False), TIMESTAMP_NTZ, to_local, time_zone), {}
    if pa.types.is_temporal(values.type):
        return values.cast(source, safe=False).cast(
            field.type, safe=False
        ), {}  # nanoseconds are cut, as Spark does
    if is_decimal(source):
        values = values.cast(
            source
        )  # a scale of SQL's, since Arrow does not check how far it is from the next
    if is_decimal(field.type) and pa.types.is_integer(values.type):
        values = values.cast(
            pa.decimal128(20, 0)
        )  # Arrow wants room for every value of the type, not of the column
    try:
        return values.cast(field.type), {}
    except pa.ArrowInvalid:
        return _row_by_row(field, values)


def may_become(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a column of an Arrow type is taken for one of a stream's types; some of its values may still not fit."""
    known = canonical(source)
    return pa.types.is_null(source) or (known is not None and _may_become(known, target))


def _may_become(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type can replace values of the other without a change of meaning."""
    if source == target:
        return True
    if is_integer(source) or is_decimal(source):
        return is_integer(target) or is_decimal(target) or (is_floating(target) and is_integer(source))
    if is_floating(source):
        return is_floating(target) and source.bit_width <= target.bit_width
    zoned = {TIMESTAMP, TIMESTAMP_NTZ}
    if source in zoned and target in zoned:
        return True
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return [f.name for f in source] == [f.name for f in target] and all(
            _may_become(a.type, b.type) for a, b in zip(source, target, strict=True)
        )
    if pa.types.is_list(source) and pa.types.is_list(target):
        return _may_become(source.value_type, target.value_type)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _may_become(source.key_type, target.key_type) and _may_become(
            source.item_type, target.item_type
        )
    return False


def _row_by_row(field: pa.Field, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Halve until the values that do not fit stand alone."""
    wrong: dict[int, str] = {}

    def convert(start: int, stop: int) -> list[pa.Array]:
        try:
            return [values.slice(start, stop - start).cast(field.type)]
        except pa.ArrowInvalid:
            if stop - start == 1:
                wrong[start] = (
                    f"column {field.name}: {_value_text(values[start])} does not fit {type_name(field.type)}"
                )
                return [pa.nulls(1, field.type)]
            middle = (start + stop) // 2
            return convert(start, middle) + convert(middle, stop)

    return pa.concat_arrays(convert(0, len(values))), wrong


def _value_text(value: pa.Scalar) -> str:
    return str(python_values(pa.array([value]))[0])


def _zoned_times(values: pa.Array, target: pa.DataType, shift: object, time_zone: str) -> pa.Array:
    """Wall-clock times to instants or back, in the session's zone."""
    numbers = values.view(pa.int64())
    shifted = shift(np.asarray(numbers.fill_null(0).to_numpy(zero_copy_only=False)), time_zone)  # type: ignore[operator]
    is_null = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    return pa.array(shifted, pa.int64(), mask=is_null).view(target)


def _filler(values: pa.Array, t: pa.DataType) -> pa.Scalar:
    present = values.drop_null()
    return present[0] if len(present) else pa.scalar({pa.string(): "", pa.binary(): b""}.get(t, 0), t)
