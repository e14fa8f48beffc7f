"""Rows of plain values as the columns a structure is probed with, and what it gives as plain lists."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from eddyline.batch import ListHits
from eddyline.filters.keys import KeyColumn
from tests.oracles.sparse_structures import Row


def columns_of(rows: Sequence[Row], n_columns: int) -> list[KeyColumn]:
    columns = []
    for k in range(n_columns):
        values = [row[k] for row in rows]
        is_null = np.array([value is None for value in values], np.bool_)
        keys = np.array([0 if value is None else value for value in values], np.int64)
        columns.append(KeyColumn(keys, is_null if is_null.any() else None))
    return columns


def per_row(hits: ListHits) -> list[list[int]]:
    """Ids of each row, ascending; one id twice would show."""
    ids, offsets = hits.ids.tolist(), hits.offsets.tolist()
    assert offsets[0] == 0
    assert offsets[-1] == len(ids)
    return [sorted(ids[start:end]) for start, end in itertools.pairwise(offsets)]
