"""Values of one type as values of another, with ANSI errors: what CAST does, and TRY_CAST with NULL for errors.

Enters: an Arrow array and a type. Leaves: the array in that type, NULL on the rows that cannot be converted, and which rows
those are, by Spark's error class.
"""

from __future__ import annotations

import pyarrow as pa

from eddyline.expressions.conversions import numbers, text, times
from eddyline.expressions.conversions.conversion import Conversion
from eddyline.expressions.frame import Context
from eddyline.types import BINARY, BOOLEAN, NULL, STRING, is_numeric, is_temporal


def convert(array: pa.Array, to: pa.DataType, context: Context, *, is_try: bool = False) -> Conversion:
    """The array in type `to`; the binder has checked that SQL has this cast. With `is_try` a bad item of a list is NULL."""
    source = array.type
    if source == to:
        return Conversion(array)
    if source == NULL:
        return Conversion(pa.nulls(len(array), to))
    if pa.types.is_list(source):
        return _convert_lists(array, to, context, is_try=is_try)
    if to == STRING:
        return times.to_text(array, context) if is_temporal(source) else text.to_text(array)
    if source == STRING:
        return times.from_text(array, to, context) if is_temporal(to) else text.from_text(array, to)
    if is_temporal(source) and is_temporal(to):
        return times.between(array, to, context)
    if is_temporal(source):
        return times.to_number(array, to)
    if is_temporal(to):
        return times.from_number(array, to)
    assert is_numeric(source) or source in (BOOLEAN, BINARY), f"no cast from {source} to {to}"
    return numbers.between(array, to)


def _convert_lists(array: pa.Array, to: pa.DataType, context: Context, *, is_try: bool) -> Conversion:
    """Item by item; a list with a bad item is bad as a whole, unless the item may be NULL instead."""
    compact = pa.concat_arrays([array])
    items = convert(compact.flatten(), to.value_type, context, is_try=is_try)
    if is_try:
        items = Conversion(items.values)
    lengths = compact.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return items.in_lists(lengths, compact.is_valid(), to)
