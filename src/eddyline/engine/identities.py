"""What tells the rows of a table apart, as one column of bytes: the same in every round, and in every life of a home.

relation                identity of a row
keyed stream            the values of its key
join of tables          the identities of its rows, without those that a semi join only looks up
SELECT DISTINCT         its values
view                    that of the row it was made of
UNION ALL               the branch, and the identity there

Values are equal where SQL groups them together: NULL with NULL, NaN with NaN, -0.0 with 0.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model import Shape, ViewRelation
from eddyline.operators import Identity, Numbers
from eddyline.types import BINARY, MONTHS, STRING, is_floating, is_nested, python_values

_NULL = b"-"  # no length begins so


def of_columns(rows: pa.RecordBatch, names: Sequence[str]) -> Identity:
    """The identities of rows that these columns tell apart."""
    return lambda places: encoded([rows.column(name).take(pa.array(places)) for name in names])


def in_branch(identity: Identity, branch: int) -> Identity:
    """The identities of rows of a union that come from one of its branches."""
    return lambda places: encoded([pa.repeat(branch, len(places)), identity(places)])


def at_rows(identity: Identity, rows: Numbers) -> Identity:
    """The identities of rows of a view, made of these rows of the batch below."""
    return lambda places: identity(rows[places])


def behind(parts: Sequence[tuple[int, Identity]]) -> Identity:
    """The identities of rows of several batches, one behind the other, each given with its length."""
    first = np.cumsum([0, *(n for n, _ in parts)])

    def found(places: Numbers) -> pa.Array:
        part = np.searchsorted(first, places, side="right") - 1
        arrays = [identity(places[part == at] - first[at]) for at, (_, identity) in enumerate(parts)]
        order = np.argsort(np.argsort(part, kind="stable"), kind="stable")
        return pa.concat_arrays(arrays).take(pa.array(order))

    return found


def encoded(columns: Sequence[pa.Array]) -> pa.Array:
    """Columns side by side as one of bytes: each value behind its length, so that no two rows look alike."""
    parts: list[pa.Array | bytes] = []
    for column in columns:
        value = _bytes(column)
        size = pc.binary_length(value).cast(STRING).cast(BINARY)
        parts.append(pc.fill_null(pc.binary_join_element_wise(size, value, b":"), _NULL))
    return pc.binary_join_element_wise(*parts, b"") if len(parts) > 1 else parts[0]


def _bytes(column: pa.Array) -> pa.Array:
    """Each value as bytes that no other value has."""
    t = column.type
    if pa.types.is_dictionary(t):
        return _bytes(column.dictionary_decode())
    if t == BINARY:
        return column
    if is_nested(t) or t == MONTHS:
        values = [None if value is None else repr(_plain(value)) for value in python_values(column)]
        return pa.array(values, STRING).cast(BINARY)
    if pa.types.is_timestamp(t) or pa.types.is_duration(t):
        column = column.view(pa.int64())
    elif pa.types.is_date32(t):
        column = column.view(pa.int32())
    elif is_floating(t):
        nan = pa.scalar(float("nan"), t)
        column = pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, t)))
    return column.cast(STRING).cast(BINARY)


def _plain(value: Any) -> object:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return value


# ------------------------------------------------------------------------------------------------ lineage


def lasting_components(shape: Shape, views: Mapping[str, ViewRelation]) -> tuple[bool, ...]:
    """Which of the components of a view's rows stay the same as long as the row is there, in the order of its text.

    A value of SELECT DISTINCT, and a match of a semi join, may lose the row it was found in and still be there.
    """
    hidden = frozenset[int]() if shape.join is None else shape.join.signature.hidden_places
    found: list[bool] = []
    for place in shape.written_order:
        below = _lasting_below(views.get(shape.inputs[place].stream.lower()), views)
        found += [each and place not in hidden and not shape.is_distinct for each in below]
    return tuple(found)


def _lasting_below(view: ViewRelation | None, views: Mapping[str, ViewRelation]) -> tuple[bool, ...]:
    if view is None:
        return (True,)
    branches = [lasting_components(feed.shape, views) for feed in view.feeds]
    n = view.stream.n_components
    found = [all(each[k] for each in branches if k < len(each)) for k in range(n)]
    if view.is_union:  # the last one says which branch, which may change where all of them are one set
        found[-1] = not view.feeds[0].shape.is_one_set
    return tuple(found)
