"""The order of rows that joins make: by the row that made them, which is their latest, then by lineage.

Lineage is compared input by input, in the order of the signature. How partners were found, and in which order inputs were probed,
has no part in it.
"""

from __future__ import annotations

import math

import numpy as np

from eddyline.operators import Numbers

LARGEST = np.iinfo(np.int64).max


def lineage_order(latest: Numbers, components: Numbers) -> Numbers | None:
    """The order of rows by their latest row, then by lineage, one row of `components` each; None if they have it.

    Rows alike stay in the order they have.
    """
    columns = [latest, *components.T]
    return _order(columns) if _is_unordered(columns) else None


def _order(columns: list[Numbers]) -> Numbers:
    """The order of rows by columns, the first one first. They are almost in order, most often, which stable sorts make use of."""
    packed = _packed(columns)
    if packed is not None:
        return np.argsort(packed, kind="stable")
    order = np.argsort(columns[-1], kind="stable")
    for column in reversed(columns[:-1]):  # on such rows several times as fast as lexsort
        order = order[np.argsort(column[order], kind="stable")]
    return order


def _packed(columns: list[Numbers]) -> Numbers | None:
    """All columns as one number each row, which compares alike; None if there is none so large."""
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    if math.prod(spans) > LARGEST:
        return None
    packed = columns[0] - lows[0]
    for column, low, span in zip(columns[1:], lows[1:], spans[1:], strict=True):
        packed *= span
        packed += column - low
    return packed


def _is_unordered(columns: list[Numbers]) -> bool:
    """Whether some row is smaller than the one before it, by the first column in which they differ."""
    is_tied = np.ones(max(0, len(columns[0]) - 1), dtype=bool)
    for column in columns:
        before, after = column[:-1], column[1:]
        if (is_tied & (after < before)).any():
            return True
        is_tied &= after == before
        if not is_tied.any():
            break
    return False
