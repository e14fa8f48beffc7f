"""What bitset kernels and bitset blocks must give, one row, one bit and one query at a time in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

NULL = None
Row = Sequence[int | None]  # a key per attribute


@dataclass(frozen=True)
class PlainQuery:
    """`forbidden` and each of `clauses` hold (attribute, low, high) and (attribute, NULL)."""

    id: int
    forbidden: Sequence[tuple[Any, ...]] = ()
    clauses: Sequence[Sequence[tuple[Any, ...]]] = field(default=())

    def matches(self, row: Row) -> bool:
        if any(_is_in(row, condition) for condition in self.forbidden):
            return False
        return all(any(_is_in(row, condition) for condition in clause) for clause in self.clauses)


def _is_in(row: Row, condition: tuple[Any, ...]) -> bool:
    value = row[condition[0]]
    if len(condition) == 2:
        return value is NULL
    return value is not NULL and condition[1] <= value <= condition[2]


def matches(queries: Sequence[PlainQuery], rows: Sequence[Row]) -> list[set[int]]:
    """The ids of the queries each row satisfies."""
    return [{query.id for query in queries if query.matches(row)} for row in rows]


def ranks(keys: Sequence[int | None], cuts: Sequence[int]) -> list[int]:
    """How many cuts are <= each key; -1 for NULL."""
    return [-1 if key is NULL else sum(cut <= key for cut in cuts) for key in keys]


def lanes_set(words: Sequence[int]) -> list[int]:
    """The lanes whose bits are set in the words of a row, ascending."""
    return [64 * w + bit for w, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def decoded(words: Sequence[Sequence[int]], ids: Sequence[int]) -> list[list[int]]:
    """The ids of each row's set bits, by lane."""
    return [[ids[lane] for lane in lanes_set(row)] for row in words]


def lane_counts(words: Sequence[Sequence[int]], n_lanes: int) -> list[int]:
    """In how many rows each lane's bit is set."""
    counts = [0] * n_lanes
    for row in words:
        for lane in lanes_set(row):
            counts[lane] += 1
    return counts


def tables(
    toggles: Sequence[tuple[int, int, int]], n_cuts: Sequence[int], before: Sequence[int]
) -> list[list[int]]:
    """The line of each term at every rank, as numbers of 512 bits, from (term, rank, lane) toggles.

    Term t has the ranks 0 .. n_cuts[t] and begins with before[t].
    """
    return [
        [
            before[term] ^ _xor(1 << lane for of, at, lane in toggles if of == term and at <= rank)
            for rank in range(n_cuts[term] + 1)
        ]
        for term in range(len(n_cuts))
    ]


def _xor(numbers: Any) -> int:
    result = 0
    for number in numbers:
        result ^= number
    return result
