"""Runs of a ring, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def first_within(times: Sequence[int], row: int, reach: int) -> int:
    """The first row whose time is at most so long before that of a row."""
    return next(k for k in range(row + 1) if times[row] - times[k] <= reach)


def exact_total(numbers: Sequence[float]) -> Fraction:
    return sum(map(Fraction, numbers), Fraction(0))


def winner(keys: Sequence[int], valid: Sequence[bool], low: int, high: int, pick: str) -> int:
    """The row that wins from low to high, of equal keys the last; -1: none is valid."""
    rows = [k for k in range(low, high + 1) if valid[k]]
    if not rows:
        return -1
    if pick in ("earliest", "latest"):
        return rows[0] if pick == "earliest" else rows[-1]
    best = min(keys[k] for k in rows) if pick == "least" else max(keys[k] for k in rows)
    return [k for k in rows if keys[k] == best][-1]
