"""Constant folding: what depends on literals alone is computed once, when a query is bound."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa

from eddyline.expressions.evaluate import evaluate
from eddyline.expressions.frame import Context, Frame
from eddyline.expressions.function import call
from eddyline.model import Call, Expression, Literal, UserCall
from eddyline.types import is_nested


def fold(expression: Expression, *, time_zone: str | None = None) -> Expression:
    """The expression with every deterministic call on literals replaced by its value.

    A call that errors stays, so that its rows err when they are met. So does one that asks for the time, or for the
    session's time zone while `time_zone` is unknown, or for a function of the user.
    """
    if not isinstance(expression, Call):
        return expression
    arguments = tuple(fold(argument, time_zone=time_zone) for argument in expression.arguments)
    if any(new is not old for new, old in zip(arguments, expression.arguments, strict=True)):
        expression = Call(expression.type, expression.function, arguments, span=expression.span)
    if not all(isinstance(argument, Literal) for argument in arguments) or not _can_be_literal(
        expression.type
    ):
        return expression
    frame = Frame(1, {}, context=_Unbound(time_zone))
    try:
        result = evaluate(expression, frame)
    except _NotConstantError:
        return expression
    if result.errors is not None and result.errors.any():
        return expression
    scalar = result.values if isinstance(result.values, pa.Scalar) else result.values[0]
    return Literal(expression.type, literal_value(scalar), span=expression.span)


def is_volatile(expression: Expression) -> bool:
    """Whether the value may change from round to round on the same row: it asks for the time, or calls a user's function
    that is not deterministic."""
    return any(
        (isinstance(node, UserCall) and not node.is_deterministic)
        or (isinstance(node, Call) and not node.arguments and _asks_for_time(node.function))
        for node in expression.walk()
    )


@cache
def _asks_for_time(function: str) -> bool:
    """Whether a function without arguments reads the clock, which is found out by calling it."""
    try:
        evaluate(call(function, ()), Frame(1, {}, context=_Unbound("UTC")))
    except _NotConstantError:
        return True
    return False


def literal_value(scalar: pa.Scalar) -> Any:
    """The hashable Python value that stands for an Arrow scalar in a Literal."""
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(scalar.type) or pa.types.is_date(scalar.type):
        try:
            return scalar.as_py()
        except (ValueError, OverflowError):  # before year 1 or after 9999: Arrow takes the number as well
            return scalar.value
    if pa.types.is_list(scalar.type):
        return tuple(literal_value(item) for item in scalar.values)
    return scalar.as_py()


def _can_be_literal(t: pa.DataType) -> bool:
    return not is_nested(t) or (pa.types.is_list(t) and not is_nested(t.value_type))


class _NotConstantError(Exception):
    """The value is not known before a round."""


class _Unbound(Context):
    """The context before any round: it has no time, and a zone only if one was given."""

    def __init__(self, zone: str | None) -> None:
        super().__init__()
        object.__setattr__(self, "zone", zone)

    def __getattribute__(self, name: str) -> Any:
        if name == "now_us":
            raise _NotConstantError(name)
        if name == "time_zone":
            zone = object.__getattribute__(self, "zone")
            if zone is None:
                raise _NotConstantError(name)
            return zone
        return object.__getattribute__(self, name)
