"""Expressions over a frame: each distinct one is computed once, errors stay with their rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.frame import (
    CallResult,
    ErrorCodes,
    Evaluation,
    Frame,
    TooMuchAtOnce,
    merge_errors,
    scalar_bytes,
    without_errors,
)
from eddyline.expressions.function import FUNCTIONS, Function
from eddyline.model import Call, Column, Expression, Literal, Slot, UserCall, Variable
from eddyline.nesting import SHALLOW, deep_recursion


def evaluate(expression: Expression, frame: Frame) -> Evaluation:
    """The value of `expression` on every row of the frame, with per-row errors.

    Rows that would make too much at once on the way to it are taken in halves.
    """
    if expression.facts.depth > SHALLOW:
        with deep_recursion():
            return _as_much_at_once_as_may_be(expression, frame)
    return _as_much_at_once_as_may_be(expression, frame)


def _as_much_at_once_as_may_be(expression: Expression, frame: Frame) -> Evaluation:
    try:
        return _evaluate(expression, frame)
    except TooMuchAtOnce:
        if frame.variables:  # elements of arrays: those of fewer rows may not
            raise
        known = frame.computed_values[expression] = _by_halves(expression, frame)
        return known


def _by_halves(expression: Expression, frame: Frame) -> Evaluation:
    parts, codes = [], []
    for rows in np.array_split(np.arange(frame.n_rows), 2):
        some = frame.take(rows)
        result = evaluate(expression, some)
        remember_calls(frame, some, rows)
        parts.append(some.array(result))
        codes.append(np.zeros(len(rows), np.int32) if result.errors is None else result.errors)
    errors = np.concatenate(codes)
    return Evaluation(pa.concat_arrays(parts), errors if errors.any() else None)


def _evaluate(expression: Expression, frame: Frame) -> Evaluation:
    if isinstance(expression, Column):
        return Evaluation(frame.columns[expression.input, expression.name])
    if isinstance(expression, Slot):
        return Evaluation(frame.slots[expression.index])
    if isinstance(expression, Literal):
        return Evaluation(_constant(expression))
    if isinstance(expression, Variable):
        return Evaluation(frame.variables[expression.number])
    known = frame.computed_values.get(expression)
    if known is None:
        known = _compute(expression, frame)
        frame.computed_values[expression] = known
    return known


def _compute(expression: Expression, frame: Frame) -> Evaluation:
    if isinstance(expression, UserCall):
        return _call_user_function(expression, frame)
    assert isinstance(expression, Call), f"{type(expression).__name__} is not a scalar expression"
    entry = FUNCTIONS[expression.function]
    if entry.lazy is not None:
        return entry.lazy(expression, frame, _evaluate)
    assert entry.lowering is not None
    arguments = [_evaluate(argument, frame) for argument in expression.arguments]
    if all(argument.is_scalar for argument in arguments):
        result = _compute_once(entry, arguments, expression, frame)
    else:
        result = entry.lowering(arguments, expression, frame)
    if frame.budget is not None:
        frame.budget.spend(expression, sum(_nbytes(each) for each in (*arguments, result)))
    errors = merge_errors(_argument_errors(entry, arguments, expression), result.errors)
    if errors is None or not errors.any():
        return Evaluation(result.values)
    return Evaluation(without_errors(frame.array(result), errors), errors)


def _nbytes(value: Evaluation) -> int:
    return scalar_bytes(value.values) if isinstance(value.values, pa.Scalar) else int(value.values.nbytes)


def _is_null(value: Evaluation) -> npt.NDArray[np.bool_] | bool:
    if isinstance(value.values, pa.Scalar):
        return not value.values.is_valid
    return np.asarray(value.values.is_null().to_numpy(zero_copy_only=False), bool)


def _argument_errors(entry: Function, arguments: Sequence[Evaluation], expression: Call) -> ErrorCodes | None:
    """The errors of the arguments. Where one is NULL that decides the value, those asked for after it do not count."""
    if all(argument.errors is None for argument in arguments) or not entry.null_propagates:
        return merge_errors(*(argument.errors for argument in arguments))
    first = (at for at in entry.asked_first if at < len(arguments))
    merged: ErrorCodes | None = None
    is_decided: npt.NDArray[np.bool_] | bool = False
    for argument, e in zip(arguments, expression.arguments, strict=True):
        if e.facts.is_constant and not e.facts.has_variables:
            is_decided = is_decided | (_is_null(argument) & (argument.errors is None or argument.errors == 0))
    for at in dict.fromkeys((*first, *range(len(arguments)))):
        if arguments[at].errors is not None:
            merged = merge_errors(merged, np.where(is_decided, np.int32(0), arguments[at].errors))
        is_decided = is_decided | _is_null(arguments[at])
    return merged


def _compute_once(
    entry: Function, arguments: Sequence[Evaluation], expression: Call, frame: Frame
) -> Evaluation:
    """The value all rows share, because no argument differs from row to row."""
    assert entry.lowering is not None
    one = frame.single()
    result = entry.lowering([Evaluation(a.values) for a in arguments], expression, one)
    scalar = result.values if isinstance(result.values, pa.Scalar) else result.values[0]
    if result.errors is None or not result.errors[0]:
        return Evaluation(scalar)
    return Evaluation(
        pa.scalar(None, expression.type), np.full(frame.n_rows, result.errors[0], dtype=np.int32)
    )


def _call_user_function(expression: UserCall, frame: Frame) -> Evaluation:
    """Call the user's function on the rows that it has not seen and whose arguments have no error."""
    assert frame.context.call_function is not None, f"no function registry for {expression.function}"
    arguments = [_evaluate(argument, frame) for argument in expression.arguments]
    argument_errors = merge_errors(*(a.errors for a in arguments))
    wanted_mask = np.ones(frame.n_rows, dtype=bool) if argument_errors is None else argument_errors == 0
    before = frame.call_results.get(expression)
    if before is not None:
        wanted_mask &= ~before.rows
    rows = np.flatnonzero(wanted_mask)
    codes = np.zeros(frame.n_rows, np.int32) if argument_errors is None else argument_errors.copy()
    values = pa.nulls(frame.n_rows, expression.type)
    if len(rows) or before is None:
        results, failed = _called_on(expression, [frame.array(a) for a in arguments], rows, frame)
        for position, message in failed:
            codes[rows[position]] = frame.code("FUNCTION_FAILED", message)
        values = spread(results, rows, frame.n_rows)
    if before is not None:
        values = pc.if_else(pa.array(before.rows), before.values, values)
        codes = np.where(before.rows, before.errors, codes).astype(np.int32)
    values = without_errors(values, codes)
    frame.call_results[expression] = CallResult(np.ones(frame.n_rows, dtype=bool), values, codes)
    return Evaluation(values, codes if codes.any() else None)


def _called_on(
    call: UserCall, columns: Sequence[pa.Array], rows: npt.NDArray[np.int64], frame: Frame
) -> tuple[pa.Array, list[tuple[int, str]]]:
    """What the function gives on some rows of the frame; rows that give it the same arguments are shown to it once."""
    assert frame.context.call_function is not None
    if frame.alike is None:
        if len(rows) < frame.n_rows:
            columns = [column.take(pa.array(rows)) for column in columns]
        return frame.context.call_function(call, columns, len(rows))
    _, first, back = np.unique(frame.alike(call)[rows], return_index=True, return_inverse=True)
    columns = [column.take(pa.array(rows[first])) for column in columns]
    results, failed = frame.context.call_function(call, columns, len(first))
    messages = dict(failed)
    everywhere = [(at, messages[one]) for at, one in enumerate(back.tolist()) if one in messages]
    return results.take(pa.array(back)), everywhere


def spread(values: pa.Array, rows: npt.NDArray[np.int64], n_rows: int) -> pa.Array:
    """An array of `n_rows` with `values` at the positions `rows`, NULL elsewhere."""
    if len(rows) == n_rows:
        return values
    positions = np.full(n_rows, -1)
    positions[rows] = np.arange(len(rows))
    return values.take(pa.array(positions, mask=positions < 0))


def remember_calls(frame: Frame, some: Frame, positions: npt.NDArray[np.int64]) -> None:
    """Keep in `frame` what users' functions gave on the rows `some` was made of."""
    for call, called in some.call_results.items():
        before = frame.call_results.get(call)
        has_result = np.zeros(frame.n_rows, dtype=bool) if before is None else before.rows.copy()
        errors = np.zeros(frame.n_rows, np.int32) if before is None else before.errors.copy()
        new = np.zeros(frame.n_rows, dtype=bool)
        new[positions] = called.rows
        values = spread(called.values, positions, frame.n_rows)
        if before is not None:
            values = pc.if_else(pa.array(new), values, before.values)
        errors[positions] = np.where(called.rows, called.errors, errors[positions])
        now = CallResult(has_result | new, values, errors)
        frame.call_results[call] = now if frame.alike is None else now.wherever_alike(frame.alike(call))


# ------------------------------------------------------------------------------------- long lists of constants

_LISTS_KEPT = 256
_lists: OrderedDict[int, tuple[Any, pa.Scalar]] = OrderedDict()


def _constant(literal: Literal) -> pa.Scalar:
    if not pa.types.is_list(literal.type):
        return pa.scalar(literal.value, literal.type)
    # A list of 100,000 constants takes longer to bring to Arrow than a batch takes to look up. The value is kept beside
    # the scalar, so that its address stays its own.
    known = _lists.get(id(literal.value))
    if known is None or known[0] is not literal.value or known[1].type != literal.type:
        known = literal.value, pa.scalar(literal.value, literal.type)
        _lists[id(literal.value)] = known
        if len(_lists) > _LISTS_KEPT:
            _lists.popitem(last=False)
    return known[1]
