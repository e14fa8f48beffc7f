"""CASE and its relatives: each row has the value, and the errors, of the branch it takes and of no other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import TypeMismatchError
from eddyline.expressions.buffers import Mask, arrow, operands
from eddyline.expressions.coercion import coerce, coerce_all, common_type, incompatible
from eddyline.expressions.frame import (
    ErrorCodes,
    Evaluation,
    Frame,
    as_mask,
    merge_errors,
    without_errors,
)
from eddyline.expressions.function import function
from eddyline.expressions.lazy import Evaluate, evaluate_where
from eddyline.expressions.lowerings.comparisons import compare
from eddyline.model import Call, Expression, Literal
from eddyline.types import BOOLEAN, DOUBLE, FLOAT, MONTHS, NULL, is_nested, is_numeric, type_name

Typed = tuple[Sequence[Expression], pa.DataType]


# ------------------------------------------------------------------------------------- CASE, if


def _case_typing(arguments: Sequence[Expression]) -> Typed:
    parts = list(arguments)
    if len(parts) % 2 == 0:
        parts.append(Literal(NULL, None))
    conditions = [coerce(e, BOOLEAN) for e in parts[:-1:2]]
    results, common = coerce_all([*parts[1::2], parts[-1]], "CASE")
    ordered: list[Expression] = []
    for condition, result in zip(conditions, results, strict=False):
        ordered += [condition, result]
    return [*ordered, results[-1]], common


@function(
    "case",
    "if",
    typing=_case_typing,
    arguments=(2, None),
    signature="CASE WHEN a THEN b … ELSE c END",
    summary="The result of the first condition that is true; also if(a, b, c).",
    is_operator=True,
    null_propagates=False,
    lazy=True,
)
def _case(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
    *pairs, otherwise = expression.arguments
    is_open = np.ones(frame.n_rows, dtype=bool)
    errors: ErrorCodes | None = None
    branches: list[tuple[Expression, Mask]] = []
    for condition, result in zip(pairs[::2], pairs[1::2], strict=True):
        truth = evaluate_where(condition, is_open, frame, evaluate)
        is_true = is_open & as_mask(truth.values, frame.n_rows)
        is_open = is_open & ~is_true
        if truth.errors is not None:
            errors = merge_errors(errors, truth.errors)
            is_open = is_open & (truth.errors == 0)
        branches.append((result, is_true))
    branches.append((otherwise, is_open))
    return _assembled_branches(expression.type, branches, errors, frame, evaluate)


def _assembled_branches(
    to: pa.DataType,
    branches: Sequence[tuple[Expression, Mask]],
    errors: ErrorCodes | None,
    frame: Frame,
    evaluate: Evaluate,
) -> Evaluation:
    """Each row's value from the branch that takes it, NULL where none does. A branch without rows is not looked at."""
    values: pa.Array | pa.Scalar = pa.scalar(None, to)
    for result, rows in branches:
        if not rows.any():
            continue
        part = evaluate_where(result, rows, frame, evaluate)
        errors = merge_errors(errors, part.errors)
        values = part.values if rows.all() else pc.if_else(pa.array(rows), part.values, values)
    return Evaluation(frame.array(values), errors)


# ------------------------------------------------------------------------------------- NULL


@function(
    "coalesce",
    "ifnull",
    "nvl",
    typing=lambda arguments: coerce_all(arguments, "coalesce"),
    arguments=(1, None),
    signature="coalesce(a, b, …)",
    summary="The first value that is not NULL; also ifnull(a, b) and nvl(a, b).",
    null_propagates=False,
    lazy=True,
)
def _coalesce(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
    is_open = np.ones(frame.n_rows, dtype=bool)
    values: pa.Array | pa.Scalar = pa.scalar(None, expression.type)
    errors: ErrorCodes | None = None
    for argument in expression.arguments:
        part = evaluate_where(argument, is_open, frame, evaluate)
        values = pc.if_else(pa.array(is_open), part.values, values)
        errors = merge_errors(errors, part.errors)
        is_open = is_open & ~as_mask(pc.is_valid(part.values), frame.n_rows)
        if errors is not None:
            is_open = is_open & (errors == 0)
        if not is_open.any():
            break
    return Evaluation(frame.array(values), errors)


def _nvl2_typing(arguments: Sequence[Expression]) -> Typed:
    results, common = coerce_all(arguments[1:], "nvl2")
    return [arguments[0], *results], common


@function(
    "nvl2",
    typing=_nvl2_typing,
    arguments=3,
    signature="nvl2(a, b, c)",
    summary="b where a is not NULL, otherwise c.",
    null_propagates=False,
    lazy=True,
)
def _nvl2(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
    tested, if_value, if_null = expression.arguments
    test = evaluate(tested, frame)
    has_value = as_mask(pc.is_valid(test.values), frame.n_rows)
    has_none = ~has_value if test.errors is None else ~has_value & (test.errors == 0)
    return _assembled_branches(
        expression.type, [(if_value, has_value), (if_null, has_none)], test.errors, frame, evaluate
    )


def _nullif_typing(arguments: Sequence[Expression]) -> Typed:
    a, b = arguments
    common = common_type([a.type, b.type])
    if common is None:
        raise incompatible(arguments, "nullif")
    _check_ordered(common, "nullif")
    return [a, coerce(a, common), coerce(b, common)], a.type


@function(
    "nullif",
    typing=_nullif_typing,
    arguments=2,
    signature="nullif(a, b)",
    summary="NULL where a equals b, otherwise a.",
    null_propagates=False,
    lazy=True,
)
def _nullif(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
    value, a, b = (evaluate(argument, frame) for argument in expression.arguments)
    is_equal = pa.array(as_mask(compare("=", a, b, frame), frame.n_rows))
    values = frame.array(pc.if_else(is_equal, pa.scalar(None, expression.type), value.values))
    errors = b.errors
    if errors is not None:  # b is not asked for where a is NULL
        errors = np.where(as_mask(pc.is_null(value.values), frame.n_rows), np.int32(0), errors)
    errors = merge_errors(value.errors, a.errors, errors)
    return Evaluation(without_errors(values, errors), errors)


# ------------------------------------------------------------------------------------- extremes


def _check_ordered(t: pa.DataType, what: str) -> None:
    if is_nested(t) or t == MONTHS:
        raise TypeMismatchError(f"{what} does not compare {type_name(t)}")


def _register_extreme(name: str, operator: str, summary: str) -> None:
    def typing(arguments: Sequence[Expression]) -> Typed:
        coerced, common = coerce_all(arguments, name)
        _check_ordered(common, name)
        return coerced, common

    @function(
        name,
        typing=typing,
        arguments=(2, None),
        signature=f"{name}(a, b, …)",
        summary=summary,
        null_propagates=False,
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        best = arguments[0]
        for other in arguments[1:]:
            is_better = as_mask(compare(operator, other, best, frame), frame.n_rows)
            is_better = is_better | as_mask(pc.is_null(best.values), frame.n_rows)
            best = Evaluation(pc.if_else(pa.array(is_better), other.values, best.values))
        return best


_register_extreme("greatest", ">", "The largest value that is not NULL.")
_register_extreme("least", "<", "The smallest value that is not NULL.")


# ------------------------------------------------------------------------------------- NaN


def _floating_typing(arguments: Sequence[Expression], what: str) -> tuple[list[Expression], pa.DataType]:
    for e in arguments:
        if e.type != NULL and not is_numeric(e.type):
            raise TypeMismatchError(f"{what} takes numbers, not {type_name(e.type)}", span=e.span)
    common = FLOAT if {e.type for e in arguments} in ({FLOAT}, {FLOAT, NULL}) else DOUBLE
    return [coerce(e, common) for e in arguments], common


@function(
    "isnan",
    typing=lambda arguments: (_floating_typing(arguments, "isnan")[0], BOOLEAN),
    arguments=1,
    signature="isnan(a)",
    summary="True where the value is NaN, false where it is NULL.",
    null_propagates=False,
)
def _isnan(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    (values,), known = operands(arguments, frame)
    is_nan = np.broadcast_to(np.isnan(values), frame.n_rows)
    return Evaluation(arrow(is_nan if known is None else is_nan & known, None, BOOLEAN))


@function(
    "nanvl",
    typing=lambda arguments: _floating_typing(arguments, "nanvl"),
    arguments=2,
    signature="nanvl(a, b)",
    summary="a where it is not NaN, otherwise b.",
    null_propagates=False,
    lazy=True,
)
def _nanvl(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
    value = evaluate(expression.arguments[0], frame)
    (numbers,), known = operands([value], frame)
    is_nan = np.broadcast_to(np.isnan(numbers), frame.n_rows)
    is_nan = is_nan if known is None else is_nan & known
    other = evaluate_where(expression.arguments[1], is_nan, frame, evaluate)
    values = pc.if_else(pa.array(is_nan), other.values, value.values)
    return Evaluation(frame.array(values), merge_errors(value.errors, other.errors))
