"""Comparisons: NULL passes none; NaN equals itself and is above all numbers; -0.0 equals 0.0; text goes by code point."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import TypeMismatchError
from eddyline.expressions.buffers import Mask, arrow, numbers, operands, valid
from eddyline.expressions.coercion import coerce, coerce_all, common_type, incompatible
from eddyline.expressions.frame import ErrorCodes, Evaluation, Frame, as_mask, merge_errors
from eddyline.expressions.function import function
from eddyline.expressions.lazy import Evaluate
from eddyline.model import Call, Expression
from eddyline.types import BOOLEAN, MONTHS, NULL, is_floating, is_nested, type_name

FloatTest = Callable[[npt.NDArray[np.floating], npt.NDArray[np.floating]], Mask]


def _comparable(operator: str) -> Callable[[Sequence[Expression]], tuple[Sequence[Expression], pa.DataType]]:
    def typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
        coerced, common = coerce_all(arguments, operator)
        _check_comparable(common, operator)
        return coerced, BOOLEAN

    return typing


# a < b says what b > a does
FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INSTEAD = (
    (pa.types.is_list, "Compare elements: a[0] = 1, or exists(a, x -> x = 1)."),
    (pa.types.is_map, "Compare values: m['key'] = 1."),
    (pa.types.is_struct, "Compare fields: s.x = 1."),
)


def _check_comparable(t: pa.DataType, operator: str) -> None:
    if is_nested(t) or t == MONTHS:
        way = next(
            (hint for is_it, hint in _INSTEAD if is_it(t)), "Add both to a date, and compare the dates."
        )
        raise TypeMismatchError(f"{operator} does not compare {type_name(t)}", hint=way)


# ------------------------------------------------------------------------------------- floats, where NaN is a number


def _equal_floats(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> Mask:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def _less_floats(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> Mask:
    return (a < b) | (np.isnan(b) & ~np.isnan(a))


_FLOATS: dict[str, FloatTest] = {
    "=": _equal_floats,
    "!=": lambda a, b: ~_equal_floats(a, b),
    "<": _less_floats,
    "<=": lambda a, b: (a <= b) | np.isnan(b),
    ">": lambda a, b: _less_floats(b, a),
    ">=": lambda a, b: (a >= b) | np.isnan(a),
}

_OTHERS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def compare(operator: str, a: Evaluation, b: Evaluation, frame: Frame) -> pa.Array | pa.Scalar:
    """The truth of `a operator b` on each row, both of one type; NULL where one is."""
    t = a.values.type
    if t == NULL:
        return pa.scalar(None, BOOLEAN)
    if is_floating(t):
        (x, y), mask = operands([a, b], frame)
        truth = np.broadcast_to(_FLOATS[operator](x, y), frame.n_rows)
        return arrow(truth, mask, BOOLEAN)
    return _OTHERS[operator](a.values, b.values)


def _register(operator: str, *names: str, summary: str) -> None:
    @function(
        operator,
        *names,
        typing=_comparable(operator),
        arguments=2,
        signature=f"a {operator} b",
        summary=summary,
        is_operator=True,
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        return Evaluation(compare(operator, arguments[0], arguments[1], frame))


_register("=", "==", summary="Equal.")
_register("!=", "<>", summary="Not equal.")
_register("<", summary="Less.")
_register("<=", summary="Less or equal.")
_register(">", summary="Greater.")
_register(">=", summary="Greater or equal.")


@function(
    "<=>",
    "equal_null",
    typing=_comparable("<=>"),
    arguments=2,
    signature="a <=> b",
    summary="Equal, and NULL equals NULL; also equal_null(a, b).",
    is_operator=True,
    null_propagates=False,
)
def _equal_null(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    a, b = arguments
    both_null = pc.and_(pc.is_null(a.values), pc.is_null(b.values))
    return Evaluation(pc.if_else(both_null, True, pc.fill_null(compare("=", a, b, frame), False)))


# ------------------------------------------------------------------------------------- IN


def _in_typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    first = arguments[0]
    if len(arguments) == 2 and pa.types.is_list(arguments[1].type) and not pa.types.is_list(first.type):
        common = common_type([first.type, arguments[1].type.value_type])
        if common is None:
            raise incompatible(arguments, "IN")
        _check_comparable(common, "IN")
        return [coerce(first, common), coerce(arguments[1], pa.list_(common))], BOOLEAN
    coerced, common = coerce_all(arguments, "IN")
    _check_comparable(common, "IN")
    return coerced, BOOLEAN


@function(
    "in",
    typing=_in_typing,
    arguments=(2, None),
    signature="a IN (b, …)",
    summary="True where the value equals one of the list; NULL where it does not and the list holds NULL.",
    is_operator=True,
    null_propagates=False,
    lazy=True,
)
def _in(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
    value = evaluate(expression.arguments[0], frame)
    options = [evaluate(option, frame) for option in expression.arguments[1:]]
    if value.values.type == NULL:
        return Evaluation(pa.scalar(None, BOOLEAN), value.errors)
    x = frame.array(value)
    if expression.arguments[1].type != expression.arguments[0].type:
        found, has_null = _in_list(x, options[0].values)
        errors = options[0].errors
    else:
        found, has_null, errors = _in_options(x, options, frame)
    known = x.is_valid().to_numpy(zero_copy_only=False)
    found = found & known
    if errors is not None:  # an option that has no value matters only where no other one decides
        errors = np.where(found | ~known, np.int32(0), errors)
    return _membership(found, known & (found | ~has_null), merge_errors(value.errors, errors), frame)


@function(
    "not in",
    typing=_in_typing,
    arguments=(2, None),
    signature="a NOT IN (b, …)",
    summary="What a != b AND … says as a condition: where an option is equal or NULL, errors of the others do not count.",
    is_operator=True,
    null_propagates=False,
    lazy=True,
)
def _not_in(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
    value = evaluate(expression.arguments[0], frame)
    options = [evaluate(option, frame) for option in expression.arguments[1:]]
    if value.values.type == NULL:
        return Evaluation(pa.scalar(None, BOOLEAN), value.errors)
    x = frame.array(value)
    found, has_null, errors = _in_options(x, options, frame)
    known = x.is_valid().to_numpy(zero_copy_only=False)
    found = found & known
    is_decided = found | has_null | ~known
    if value.errors is not None:  # a comparison asks for its constant first
        constants = [
            option
            for each, option in zip(expression.arguments[1:], options, strict=True)
            if each.facts.is_constant
        ]
        _, is_refuted, _ = _in_options(x, constants, frame)
        is_decided = np.where(value.errors != 0, is_refuted, is_decided)
    errors = merge_errors(value.errors, errors)
    if errors is not None:
        errors = np.where(is_decided, np.int32(0), errors)
    return _membership(~found, known & (found | ~has_null), errors, frame)


def _membership(found: Mask, known: Mask, errors: ErrorCodes | None, frame: Frame) -> Evaluation:
    if errors is not None:
        known = known & (errors == 0)
    return Evaluation(arrow(np.broadcast_to(found, frame.n_rows), known, BOOLEAN), errors)


def _in_options(
    x: pa.Array, options: Sequence[Evaluation], frame: Frame
) -> tuple[Mask, Mask, ErrorCodes | None]:
    """Where `x` equals an option, where an option is NULL and not in error, and the errors of options."""
    n = frame.n_rows
    constants = [o.values for o in options if o.is_scalar and o.errors is None]
    found, has_null = np.zeros(n, bool), np.zeros(n, bool)
    if constants:
        found, some_null = _in_set(x, _gather(constants))
        has_null |= some_null
    for option in options:
        if not option.is_scalar or option.errors is not None:
            found |= as_mask(compare("=", Evaluation(x), option, frame), n)
            here = valid(frame.array(option))
            if here is not None:
                has_null |= ~here if option.errors is None else ~here & (option.errors == 0)
    return found, has_null, merge_errors(*(option.errors for option in options))


def _gather(scalars: Sequence[pa.Scalar]) -> pa.Array:
    return pa.concat_arrays([pa.repeat(scalar, 1) for scalar in scalars])


def _in_list(x: pa.Array, lists: pa.Array | pa.Scalar) -> tuple[Mask, Mask]:
    """Where `x` is in its list (one for all rows, or one per row), and where that list holds NULL."""
    n = len(x)
    if isinstance(lists, pa.Scalar):
        if not lists.is_valid:
            return np.zeros(n, bool), np.ones(n, bool)
        found, has_null = _in_set(x, lists.values)
        return found, np.full(n, has_null)
    # Different lists were copied to their rows already, so one pass over all items costs no more than telling the
    # distinct lists apart would.
    is_list = lists.is_valid().to_numpy(zero_copy_only=False)
    items, parents = lists.flatten(), pc.list_parent_indices(lists).to_numpy()
    frame = Frame(len(items), {})
    equal = as_mask(compare("=", Evaluation(items), Evaluation(x.take(pa.array(parents))), frame), len(items))
    found, has_null = np.zeros(n, bool), ~is_list
    found[parents[equal]] = True
    item_known = valid(items)
    if item_known is not None:
        has_null[parents[~item_known]] = True
    return found, has_null


def _in_set(x: pa.Array, options: pa.Array) -> tuple[Mask, bool]:
    """Where `x` is one of the options, by hashing, and whether an option is NULL."""
    has_null = options.null_count > 0
    found = pc.is_in(_hashable(x), value_set=_hashable(options.drop_null()))
    return found.to_numpy(zero_copy_only=False), has_null


def _hashable(array: pa.Array) -> pa.Array:
    """Floats with one zero and one NaN, so that what is equal has equal bits."""
    if not is_floating(array.type):
        return array
    values = numbers(array) + array.type.to_pandas_dtype()(0)
    return arrow(np.where(np.isnan(values), np.nan, values), valid(array), array.type)
