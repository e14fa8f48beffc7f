"""A stem as a list of rows, gone through from one end to the other for every question."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any


def are_equal(left: Any, right: Any) -> bool:
    """SQL's equality of two values, true or not: NULL equals nothing, NaN itself, 0.0 equals -0.0, 1.50 equals 1.5."""
    if left is None or right is None:
        return False
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right):
        return True
    assert type(left) is type(right) or {type(left), type(right)} <= {int, float, Decimal}, (left, right)
    return bool(left == right)


@dataclass
class Row:
    """What is known of a stored row."""

    values: dict[str, Any]
    marks: tuple[int, ...]  # arrival, position, time, version, now
    wants: int  # a bit for every input


@dataclass
class ListStem:
    """Rows in order of arrival."""

    rows: list[Row] = field(default_factory=list)
    n_committed: int = 0

    def build(self, rows: Sequence[Row]) -> None:
        self.rows += rows

    def commit(self) -> None:
        self.n_committed = len(self.rows)

    def rollback(self) -> None:
        del self.rows[self.n_committed :]

    def purge(self, stays: Callable[[Row], bool]) -> int:
        n_before = len(self.rows)
        self.rows = [row for row in self.rows if stays(row)]
        self.n_committed = len(self.rows)
        return n_before - len(self.rows)

    def reshape(self, names: Sequence[str]) -> None:
        for row in self.rows:
            row.values = {name: row.values.get(name) for name in names}

    def probe(
        self, key: Callable[[Row], tuple[Any, ...]], asked: Sequence[tuple[Any, ...]]
    ) -> set[tuple[int, int]]:
        """Pairs of a place in what is asked and an arrival number."""
        return {
            (place, row.marks[0])
            for place, wanted in enumerate(asked)
            for row in self.rows
            if all(are_equal(a, b) for a, b in zip(wanted, key(row), strict=True))
        }
