"""Whole numbers in as many bits as their type has: results as the machine gives them, and where those are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.expressions.buffers import Mask

Vector = npt.NDArray[Any]


def wrapped_result(operator: str, a: Vector, b: Vector) -> tuple[Vector, Mask]:
    """a operator b modulo the width of the type, and where that is not the true result."""
    if operator == "+":
        values = a + b
        return values, ((a ^ values) & (b ^ values)) < 0
    if operator == "-":
        values = a - b
        return values, ((a ^ b) & (a ^ values)) < 0
    values = a * b
    if a.dtype.itemsize < 8:
        return values, a.astype(np.int64) * b != values
    return values, _product_overflows(a, b, values)


def _product_overflows(a: Vector, b: Vector, product: Vector) -> Mask:
    """Where a 64-bit product wrapped around: far from the limit a double tells, near it the division does."""
    estimate = np.abs(a.astype(np.float64) * b)
    doubtful = (estimate > 9.2e18) & (estimate < 9.3e18)
    overflow: Mask = estimate >= 9.3e18
    if doubtful.any():
        by = np.where((b == 0) | (b == -1), 1, b)
        exact = (product % by != 0) | (product // by != a)
        lowest = np.iinfo(np.int64).min
        exact = np.where(b == -1, a == lowest, exact)
        overflow = np.where(doubtful, exact, overflow)
    return overflow
