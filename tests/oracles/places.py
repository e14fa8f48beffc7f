"""Places and patterns by brute force: one value at a time, with Python's own order."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any


def place(value: Any, constants: Sequence[Any]) -> int:
    """2k + 1 where the value equals constant k of ascending ones, 2k in the gap before it."""
    at = bisect_left(constants, value)
    return 2 * at + (at < len(constants) and constants[at] == value)


def word(string: bytes, depth: int) -> int:
    """Eight bytes from `depth` on as one integer, zeros behind the end."""
    return int.from_bytes(string[depth : depth + 8].ljust(8, b"\0"), "big")


def n_shared(a: bytes, b: bytes) -> int:
    """With how many equal bytes both begin."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def float_order(number: float) -> tuple[bool, float]:
    """What sorts numbers the way SQL does: NaN last and equal to itself."""
    return (True, 0.0) if math.isnan(number) else (False, number)
