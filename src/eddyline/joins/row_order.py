"""The order of rows that joins make: by the row that made them, which is their latest, then by lineage.

Lineage is compared input by input, in the order of the signature. How partners were found, and in which order inputs were probed,
has no part in it.
"""

from __future__ import annotations

import numpy as np

from eddyline.operators import Numbers


def lineage_order(latest: Numbers, components: Numbers) -> Numbers | None:
    """The order of rows by their latest row, then by lineage, one row of `components` each; None if they have it.

    Rows alike stay in the order they have.
    """
    columns = [latest, *components.T]
    return np.lexsort(columns[::-1]) if _is_unordered(columns) else None


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
