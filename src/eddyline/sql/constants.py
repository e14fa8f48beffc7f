"""What calls make of the constants of a query, computed once when it is registered: a text is refused rather than its rows.

Constants written out in a shape are folded while it is bound (expressions/fold.py). Those that stand in slots, and parameters,
are known only with each query: what calls make of them is computed here, within the same limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.expressions import (
    CONSTANT_BYTES,
    OVER_A_LIMIT,
    TEMPLATE_BYTES,
    Budget,
    Context,
    Failure,
    Frame,
    TooMuchForConstants,
    constant_calls,
    evaluate,
    refuse_over_a_limit,
    refused_constants,
)
from eddyline.model import Call, Shape

WRITTEN_SHARE = (
    32  # bytes for each that is written out: a digit and a comma become a number, its copy, another type
)
QUERIES_AT_ONCE = 1 << 14


@lru_cache(maxsize=4096)
def _calls(shape: Shape) -> tuple[Call, ...]:
    expressions = (each for branch in shape.all_branches for each in branch.expressions())
    return tuple(dict.fromkeys(part for each in expressions for part in constant_calls(each)))


def slots_of(shape: Shape, values: Sequence[Any]) -> list[pa.Array]:
    """The values of one query as columns, if there is anything to compute of them; else none."""
    if not _calls(shape):
        return []
    return [pa.array([value], slot.type) for value, slot in zip(values, shape.slots, strict=True)]


def over_a_limit(shape: Shape, slots: Sequence[pa.Array], time_zone: str) -> dict[int, tuple[Call, Failure]]:
    """The queries, by place, whose constants go over a limit of a function: the call, and why.

    Raises LimitError if all together take more than constants may.
    """
    found: dict[int, tuple[Call, Failure]] = {}
    calls = _calls(shape)
    if not calls or not slots:
        return found
    n = len(slots[0])
    most = min(n * CONSTANT_BYTES, max(TEMPLATE_BYTES, CONSTANT_BYTES))
    budget = Budget(most + WRITTEN_SHARE * sum(column.nbytes for column in slots))
    for first in range(0, n, QUERIES_AT_ONCE):
        some = [column.slice(first, QUERIES_AT_ONCE) for column in slots]
        frame = Frame(len(some[0]), {}, some, Context(0, time_zone), budget=budget)
        for call in calls:
            try:
                errors = evaluate(call, frame).errors
            except (TooMuchForConstants, MemoryError):
                raise refused_constants(call.span, most) from None
            if errors is None:
                continue
            for at in np.flatnonzero(errors).tolist():
                failure = frame.failure(int(errors[at]))
                if failure.error in OVER_A_LIMIT:
                    found.setdefault(first + at, (_innermost(call, frame, at), failure))
    return found


def _innermost(call: Call, frame: Frame, at: int) -> Call:
    """The call inside this one at which its error began."""
    for node in call.walk():
        known = frame.computed_values.get(node)
        if isinstance(node, Call) and known is not None and known.errors is not None and known.errors[at]:
            call = node
    return call


def check_constants(shape: Shape, slots: Sequence[pa.Array], time_zone: str) -> None:
    """Raises LimitError if the constants of a query go over a limit."""
    for at, (call, failure) in sorted(over_a_limit(shape, slots, time_zone).items()):
        who = f" in row {at + 1} of the parameters" if len(slots[0]) > 1 else ""
        refuse_over_a_limit(failure, call.span, who)
