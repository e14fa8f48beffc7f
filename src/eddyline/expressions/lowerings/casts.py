"""CAST and TRY_CAST."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from eddyline.errors import TypeMismatchError
from eddyline.expressions.coercion import can_cast
from eddyline.expressions.conversions import convert
from eddyline.expressions.conversions.conversion import INVALID, OVERFLOW
from eddyline.expressions.frame import Evaluation, Frame, merge_errors
from eddyline.expressions.function import function
from eddyline.model import Call, Expression
from eddyline.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    is_nested,
    parse_type,
    type_name,
)


def _built_by_cast(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    raise AssertionError("a cast needs its target type: build it with expressions.cast")


@function(
    "cast",
    typing=_built_by_cast,
    arguments=1,
    signature="CAST(a AS type)",
    summary="The value in another type; an error where it has none there. Also a::type.",
    is_operator=True,
)
def _cast(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    array = frame.array(arguments[0])
    converted = convert(array, expression.type, frame.context)
    errors = None
    for mask, error in converted.problems:
        describe = partial(_message, array, error, expression.type, frame)
        errors = merge_errors(errors, frame.fail_each(mask, error, describe))
    return Evaluation(converted.values, errors)


def _message(array: pa.Array, error: str, to: pa.DataType, frame: Frame, row: int) -> str:
    value = array[row : row + 1]
    shown = str(value) if is_nested(value.type) else convert(value, STRING, frame.context).values[0].as_py()
    if value.type == STRING:
        shown = f"'{shown}'"
    if len(shown) > 100:
        shown = shown[:99] + "…"
    if error == INVALID:
        return f"{shown} is no {type_name(to)}"
    if error == OVERFLOW:
        return f"{shown} is out of the range of {type_name(to)}"
    return f"{shown} does not fit into {type_name(to)}"


@function(
    "try_cast",
    typing=_built_by_cast,
    arguments=1,
    signature="TRY_CAST(a AS type)",
    summary="The value in another type; NULL where it has none there.",
    is_operator=True,
)
def _try_cast(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return Evaluation(convert(frame.array(arguments[0]), expression.type, frame.context, is_try=True).values)


def _register(t: pa.DataType) -> None:
    name = type_name(t).split("(")[0].lower()

    def typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
        if not can_cast(arguments[0].type, t):
            raise TypeMismatchError(
                f"cannot cast {type_name(arguments[0].type)} to {type_name(t)}", span=arguments[0].span
            )
        return arguments, t

    function(
        name,
        typing=typing,
        arguments=1,
        signature=f"{name}(a)",
        summary=f"The same as CAST(a AS {type_name(t)}).",
    )(_cast)


for _type in (BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, parse_type("decimal"), STRING, BINARY):
    _register(_type)
