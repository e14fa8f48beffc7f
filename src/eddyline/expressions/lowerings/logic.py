"""Three-valued logic with errors: false decides AND and true decides OR, whatever else is NULL or in error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.coercion import coerce
from eddyline.expressions.frame import Evaluation, Frame, as_mask
from eddyline.expressions.function import function
from eddyline.expressions.lazy import Evaluate, Rows, evaluate_where, needs_care
from eddyline.model import Call, Expression
from eddyline.types import BOOLEAN


def _booleans(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    return [coerce(argument, BOOLEAN) for argument in arguments], BOOLEAN


@function(
    "and",
    typing=_booleans,
    arguments=(2, None),
    signature="a AND b",
    summary="True where all are true. False beats NULL and errors.",
    is_operator=True,
    null_propagates=False,
    lazy=True,
)
def _and(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
    return _decide(expression, frame, evaluate, pc.and_kleene, deciding=False)


@function(
    "or",
    typing=_booleans,
    arguments=(2, None),
    signature="a OR b",
    summary="True where one is true. True beats NULL and errors.",
    is_operator=True,
    null_propagates=False,
    lazy=True,
)
def _or(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
    return _decide(expression, frame, evaluate, pc.or_kleene, deciding=True)


def _decide(
    expression: Call,
    frame: Frame,
    evaluate: Evaluate,
    combine: Callable[[pa.Array, pa.Array], pa.Array],
    *,
    deciding: bool,
) -> Evaluation:
    """Combine the arguments; one that is expensive sees only rows that no earlier one has decided."""
    values: pa.Array | pa.Scalar = pa.scalar(not deciding)
    errors = None
    for argument in sorted(expression.arguments, key=needs_care):  # stable: text order within each kind
        is_open: Rows = True
        if needs_care(argument):
            is_open = ~as_mask(pc.equal(values, deciding), frame.n_rows)
        part = evaluate_where(argument, is_open, frame, evaluate)
        values = combine(values, part.values)
        if part.errors is not None:
            errors = part.errors if errors is None else np.where(errors != 0, errors, part.errors)
    if errors is not None:
        errors = np.where(as_mask(pc.equal(values, deciding), frame.n_rows), np.int32(0), errors)
        if not errors.any():
            errors = None
        else:  # true AND error: the error's NULL already made it NULL
            values = frame.array(values)
    return Evaluation(values, errors)


@function(
    "not",
    typing=_booleans,
    arguments=1,
    signature="NOT a",
    summary="False where true, true where false.",
    is_operator=True,
)
def _not(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return Evaluation(pc.invert(arguments[0].values))


def _any_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    return arguments, BOOLEAN


@function(
    "is null",
    "isnull",
    typing=_any_type,
    arguments=1,
    signature="a IS NULL",
    summary="True where there is no value; also isnull(a).",
    is_operator=True,
    null_propagates=False,
)
def _is_null(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return Evaluation(pc.is_null(arguments[0].values))


@function(
    "is not null",
    "isnotnull",
    typing=_any_type,
    arguments=1,
    signature="a IS NOT NULL",
    summary="True where there is a value; also isnotnull(a).",
    is_operator=True,
    null_propagates=False,
)
def _is_not_null(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return Evaluation(pc.is_valid(arguments[0].values))
