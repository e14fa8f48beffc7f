"""Sets over tables the slow way: the answer is computed anew from the rows after each round, and a changelog is folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Row = tuple[Any, ...]
Tables = Mapping[str, Mapping[Any, Row]]  # rows by key, by table
Answer = Callable[[Tables], Iterable[Row]]


def folded(changes: Iterable[tuple[str, Row]]) -> Counter[Row]:
    """What a changelog leaves: how often each row is there. A row that leaves must have been there."""
    rows: Counter[Row] = Counter()
    for change, row in changes:
        if change in ("insert", "update_postimage"):
            rows[row] += 1
        else:
            assert rows[row] > 0, f"{change} of {row}, which is not there"
            rows[row] -= 1
    return +rows


def distinct(rows: Iterable[Row]) -> Counter[Row]:
    return Counter(set(rows))
