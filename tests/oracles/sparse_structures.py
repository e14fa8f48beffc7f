"""Leaf blocks and key lists, and their kernels, one query, row or bit at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Row = Sequence[int | None]  # keys by column, None for NULL
Interval = tuple[int, int]  # both ends belong to it


@dataclass(frozen=True)
class PlainQuery:
    """Wants rows with one of `keys` in column `key_column` (any row where that is None) and all of `intervals`, by column."""

    id: int
    intervals: Mapping[int, Interval]
    key_column: int | None = None
    keys: tuple[int, ...] = ()

    def wants(self, row: Row) -> bool:
        if self.key_column is not None and row[self.key_column] not in self.keys:
            return False
        for column, (low, high) in self.intervals.items():
            value = row[column]
            if value is None or not low <= value <= high:
                return False
        return True


def matches(queries: Iterable[PlainQuery], rows: Sequence[Row]) -> list[list[int]]:
    """Ids of the queries that want each row, ascending."""
    queries = list(queries)
    return [sorted(query.id for query in queries if query.wants(row)) for row in rows]


# ----------------------------------------------------------------------------------------------- kernels


def rank(points: Sequence[int], value: int) -> int:
    return sum(point <= value for point in points)


def boxes_holding(boxes: Sequence[Sequence[Interval]], values: Sequence[int]) -> int:
    """Bit i set where box i, an interval for each value, holds all values."""
    word = 0
    for at, box in enumerate(boxes):
        if all(low <= value <= high for (low, high), value in zip(box, values, strict=True)):
            word |= 1 << at
    return word


def bits(word: int) -> list[int]:
    return [bit for bit in range(64) if word >> bit & 1]


def ids_of_records(
    records: Iterable[tuple[int, int, int]], ids: Sequence[int], n_rows: int
) -> list[list[int]]:
    """Per row the ids of the lanes of its records (row, leaf, mask), record by record."""
    rows: list[list[int]] = [[] for _ in range(n_rows)]
    for row, leaf, mask in records:
        rows[row] += [ids[leaf * 64 + bit] for bit in bits(mask)]
    return rows


def reach(lists: Iterable[range], highs: Sequence[int]) -> list[int]:
    """The greatest high from the start of its list to an entry."""
    return [max(highs[entries.start : entry + 1]) for entries in lists for entry in entries]
