"""What a selection does with every row, errors included, one row at a time in plain Python.

A condition is not true (false or NULL), in error, or true. AND takes the least of its sides in this order, OR the greatest. NOT
is pushed down to what is neither AND nor OR nor NOT; there it turns true into false and leaves NULL and error as they are. So
false beats error, and in an OR true beats error, whatever the order of the text. In any other operator NULL beats the errors of
what is asked for after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracles.tree import Column, Constant, Node, Operation, Selection

NOT_TRUE, ERROR, TRUE = 0, 1, 2
_RANGE = {"bigint": 2**63, "int": 2**31}


class SqlFailure(Exception):
    """The value of an expression on a row is an error."""


def judged(selection: Selection, row: Mapping[str, Any]) -> tuple[str, tuple[Any, ...] | None]:
    """("match", values), ("none", None) or ("dead", None)."""
    verdict = TRUE if selection.condition is None else condition(selection.condition, row)
    if verdict == NOT_TRUE:
        return "none", None
    if verdict == ERROR:
        return "dead", None
    try:
        outputs = [value(node, row) for node in selection.outputs]
    except SqlFailure:
        return "dead", None
    return "match", tuple(outputs) if selection.outputs else tuple(row.values())


def condition(node: Node, row: Mapping[str, Any], *, negated: bool = False) -> int:
    if isinstance(node, Operation):
        if node.operator == "not":
            return condition(node.arguments[0], row, negated=not negated)
        if node.operator in ("and", "or"):
            sides = [condition(side, row, negated=negated) for side in node.arguments]
            return min(sides) if (node.operator == "and") != negated else max(sides)
        if node.operator in ("between", "not between"):  # x >= low AND x <= high
            x, low, high = node.arguments
            inside = Operation(
                "and",
                (Operation(">=", (x, low), "boolean"), Operation("<=", (x, high), "boolean")),
                "boolean",
            )
            return condition(inside, row, negated=negated != (node.operator == "not between"))
    try:
        truth = value(node, row)
    except SqlFailure:
        return ERROR
    return TRUE if truth is not None and truth != negated else NOT_TRUE


def value(node: Node, row: Mapping[str, Any]) -> Any:
    if isinstance(node, Column):
        return row[node.name]
    if isinstance(node, Constant):
        return node.value
    if node.operator in ("case", "if"):
        test, then, otherwise = node.arguments
        return value(then if value(test, row) is True else otherwise, row)
    if node.operator == "coalesce":
        for argument in node.arguments:
            first = value(argument, row)
            if first is not None:
                return first
        return None
    if node.operator in ("and", "or", "not"):
        return _boolean(node, row)
    if node.operator == "is null":
        return value(node.arguments[0], row) is None
    if node.operator == "is not null":
        return value(node.arguments[0], row) is not None
    if node.operator in ("in", "not in"):
        return _membership(node.operator, [value(argument, row) for argument in node.arguments])
    if any(_is_null_constant(argument) for argument in node.arguments):
        return None
    found: dict[int, Any] = {}
    for at in _asked(node):  # where one is NULL, the others are not asked for
        found[at] = value(node.arguments[at], row)
        if found[at] is None:
            return None
    return _on_values(node, [found[at] for at in range(len(node.arguments))])


def _asked(node: Operation) -> list[int]:
    """The order in which arguments are asked for: divisors, then from left to right."""
    is_division = node.operator in ("/", "div", "%")
    return sorted(range(len(node.arguments)), key=lambda at: -at if is_division else at)


def _is_null_constant(node: Node) -> bool:
    """Whether it is NULL on every row, which is known before any row is asked."""
    if _has_columns(node):
        return False
    try:
        return value(node, {}) is None
    except SqlFailure:
        return False


def _has_columns(node: Node) -> bool:
    if isinstance(node, Operation):
        return any(map(_has_columns, node.arguments))
    return isinstance(node, Column)


def _boolean(node: Operation, row: Mapping[str, Any]) -> bool | None:
    """A condition inside an expression: a value, with a decided side settling it."""
    if node.operator == "not":
        inner = value(node.arguments[0], row)
        return None if inner is None else not inner
    deciding = node.operator == "or"
    sides: list[Any] = []
    for side in node.arguments:
        try:
            sides.append(value(side, row))
        except SqlFailure as failure:
            sides.append(failure)
    if any(side is deciding for side in sides):
        return deciding
    for side in sides:
        if isinstance(side, SqlFailure):
            raise side
    return None if any(side is None for side in sides) else not deciding


def _membership(operator: str, arguments: Sequence[Any]) -> bool | None:
    x, *items = arguments
    if x is None:
        return None
    if x in [item for item in items if item is not None]:
        return operator == "in"
    return None if any(item is None for item in items) else operator == "not in"


def _on_values(node: Operation, arguments: Sequence[Any]) -> Any:
    operator = node.operator
    if operator in _COMPARISONS:
        return _COMPARISONS[operator](*arguments)
    if operator in ("/", "div", "%"):
        return _division(node, *arguments)
    if operator in ("to int", "try to int"):
        return _integer(arguments[0], is_try=operator == "try to int")
    if operator in ("between", "not between"):
        x, low, high = arguments
        return (low <= x <= high) == (operator == "between")
    return _in_range(_ARITHMETIC[operator](*arguments), node.type)


_COMPARISONS = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "negate": lambda a: -a,
    "abs": abs,
}


def _division(node: Operation, a: int, b: int) -> Any:
    if b == 0:
        raise SqlFailure("DIVIDE_BY_ZERO")
    if node.operator == "/":
        return a / b
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # towards zero
    return _in_range(quotient, node.type) if node.operator == "div" else a - b * quotient


def _in_range(number: Any, kind: str) -> Any:
    if kind in _RANGE and not -_RANGE[kind] <= number < _RANGE[kind]:
        raise SqlFailure("ARITHMETIC_OVERFLOW")
    return number


def _integer(text: str, *, is_try: bool) -> int | None:
    number = int(text) if re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) else None
    if number is not None and -(2**31) <= number < 2**31:
        return number
    if is_try:
        return None
    raise SqlFailure("CAST_INVALID_INPUT")
