"""Constant folding: what depends on literals alone is computed once, when a query is bound."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

import pyarrow as pa

from eddyline.errors import LimitError, Span
from eddyline.expressions.evaluation import evaluate
from eddyline.expressions.frame import Budget, Context, Failure, Frame, TooMuchForConstants
from eddyline.expressions.function import call
from eddyline.expressions.limits import CONSTANT_BYTES, OVER_A_LIMIT
from eddyline.model import Call, Expression, Literal, UserCall
from eddyline.nesting import deep
from eddyline.types import is_nested


@deep
def fold(expression: Expression, *, time_zone: str | None = None) -> Expression:
    """The expression with every deterministic call on literals replaced by its value.

    A call that errors stays, so that its rows err when they are met. So does one that asks for the time, or for the
    session's time zone while `time_zone` is unknown, or for a function of the user. One that goes over a limit is refused, and
    so are all together if they take more than constants may (`constants_within`).
    """
    return _fold(expression, time_zone, _budget.get())


def _fold(expression: Expression, time_zone: str | None, budget: Budget | None) -> Expression:
    if not isinstance(expression, Call):
        return expression
    arguments = tuple(_fold(argument, time_zone, budget) for argument in expression.arguments)
    if any(new is not old for new, old in zip(arguments, expression.arguments, strict=True)):
        expression = Call(expression.type, expression.function, arguments, span=expression.span)
    if not all(isinstance(argument, Literal) for argument in arguments) or not _can_be_literal(
        expression.type
    ):
        return expression
    frame = Frame(1, {}, context=_Unbound(time_zone), budget=budget)
    try:
        result = evaluate(expression, frame)
    except _NotConstantError:
        return expression
    except (TooMuchForConstants, MemoryError):
        raise refused_constants(expression.span) from None
    if result.errors is not None and result.errors.any():
        refuse_over_a_limit(frame.failure(int(result.errors[0])), expression.span)
        return expression
    scalar = result.values if isinstance(result.values, pa.Scalar) else result.values[0]
    return Literal(expression.type, literal_value(scalar), span=expression.span)


_budget: ContextVar[Budget | None] = ContextVar("budget of constants", default=None)


@contextlib.contextmanager
def constants_within(budget: Budget) -> Iterator[None]:
    """Let everything that is folded inside spend from one budget."""
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


def refuse_over_a_limit(failure: Failure, span: Span | None, who: str = "") -> None:
    """Refuse constants that go over a limit of a function; other failures are those of the rows that meet them."""
    if failure.error in OVER_A_LIMIT:
        raise LimitError(
            f"the constants of this text go over a limit{who}: {failure.message}",
            detail="What depends on constants alone is computed when a query is registered.",
            hint="Write a shorter text or a smaller number (docs/sql.md, Limits).",
            span=span,
        )


def refused_constants(span: Span | None, most: int = CONSTANT_BYTES) -> LimitError:
    return LimitError(
        "the constants of this text take too much to compute",
        detail=f"What its calls on constants are given and make may have {most:,} bytes, all together.",
        hint="Write the values themselves into the text, or shorter ones (docs/sql.md, Limits).",
        span=span,
    )


def constant_calls(expression: Expression) -> Iterator[Call]:
    """The largest parts that calls make of constants of a query alone, the same in every round."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        is_constant = node.facts.is_constant and not node.facts.has_variables
        if isinstance(node, Call) and is_constant and not is_volatile(node):
            yield node
        else:
            waiting.extend(reversed(node.children))


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
