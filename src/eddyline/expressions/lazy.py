"""Evaluation on some rows only: what a branch not taken would compute, or fail at, does not count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.expressions.evaluation import remember_calls, spread
from eddyline.expressions.frame import Evaluation, Frame
from eddyline.model import Expression, UserCall

Evaluate = Callable[[Expression, Frame], Evaluation]
Rows = npt.NDArray[np.bool_] | OneOf[True]


def needs_care(expression: Expression) -> bool:
    """Whether a row that does not need the value must not be shown to the expression: it calls a user's function."""
    return expression.facts.has_user_calls


def evaluate_where(expression: Expression, rows: Rows, frame: Frame, evaluate: Evaluate) -> Evaluation:
    """The value on the rows in `rows` (True: all). Elsewhere the value is NULL, or real if it comes at no cost."""
    if rows is True or rows.all() or not needs_care(expression) or expression in frame.computed_values:
        result = evaluate(expression, frame)
        if rows is True or result.errors is None:
            return result
        errors = np.where(rows, result.errors, np.int32(0))
        return Evaluation(result.values, errors if errors.any() else None)
    positions = np.flatnonzero(rows)
    if not len(positions):
        return Evaluation(pa.scalar(None, expression.type))
    some = frame.take(positions, {node for node in expression.walk() if isinstance(node, UserCall)})
    result = evaluate(expression, some)
    remember_calls(frame, some, positions)
    values = spread(some.array(result), positions, frame.n_rows)
    if result.errors is None:
        return Evaluation(values)
    errors = np.zeros(frame.n_rows, np.int32)
    errors[positions] = result.errors
    return Evaluation(values, errors)
