"""Dates and times that no calendar of Python has: before year 1 and after 9999. They cost their rows: no reader could show them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, is_nested

_DAYS = (-719_162, 2_932_896)  # 0001-01-01 and 9999-12-31
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
FIRST_US, LAST_US = _MICROSECONDS


def beyond_calendar(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Rows with such a date or time, also inside a nested value; None if there is none."""
    t = column.type
    if t in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        low, high = _DAYS if t == DATE else _MICROSECONDS
        numbers = column.view(pa.int32() if t == DATE else pa.int64())
        extremes = pc.min_max(numbers).as_py()
        if extremes["min"] is None or (low <= extremes["min"] and extremes["max"] <= high):
            return None
        values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        return (values < low) | (values > high)
    if not is_nested(t) or not _has_times(t):
        return None
    if pa.types.is_struct(t):
        masks = [mask for mask in map(beyond_calendar, column.flatten()) if mask is not None]
        return np.logical_or.reduce(masks) if masks else None
    lists = column.cast(pa.list_(pa.struct([t.key_field, t.item_field]))) if pa.types.is_map(t) else column
    inside = beyond_calendar(lists.flatten())
    if inside is None:
        return None
    rows = np.zeros(len(column), bool)
    rows[pc.list_parent_indices(lists).to_numpy()[inside]] = True
    return rows


def _has_times(t: pa.DataType) -> bool:
    return t in (DATE, TIMESTAMP, TIMESTAMP_NTZ) or any(
        _has_times(t.field(k).type) for k in range(t.num_fields)
    )
