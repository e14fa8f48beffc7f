"""Functions that take a function: x -> … over the elements of an array.

The function is computed once for all elements of all rows, over a frame with a row for each element: the element and its index
are the variables, columns and constants are those of the row it stands in. Errors go back to that row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import TypeMismatchError
from eddyline.expressions.buffers import Mask, arrow
from eddyline.expressions.coercion import cast
from eddyline.expressions.frame import ErrorCodes, Evaluated, Frame, as_mask, merge_errors, without_errors
from eddyline.expressions.function import function
from eddyline.expressions.lazy import Evaluate
from eddyline.expressions.lowerings.collections import an_array
from eddyline.expressions.lowerings.nested import Lists
from eddyline.model import LAMBDA, Call, Column, Expression, Variable
from eddyline.types import BOOLEAN, INT, NULL, type_name

Typed = tuple[Sequence[Expression], pa.DataType]


@function(
    LAMBDA,
    typing=lambda arguments: (arguments, arguments[0].type),
    arguments=(2, 3),
    signature="x -> value, or (x, i) -> value",
    summary="A function of an element, or of an element and its index, as an argument.",
    is_operator=True,
    lazy=True,
)
def _lambda(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluated:
    raise AssertionError("a function is an argument, not a value")


def _function_of(arguments: Sequence[Expression], what: str) -> Call:
    an_array(arguments[0])
    found = arguments[1]
    if not isinstance(found, Call) or found.function != LAMBDA:
        raise TypeMismatchError(f"{what} takes a function as its second argument", span=found.span)
    return found


def _condition(arguments: Sequence[Expression], what: str) -> Sequence[Expression]:
    """The array, and the function as one that gives a BOOLEAN."""
    found = _function_of(arguments, what)
    body, *variables = found.arguments
    if body.type not in (BOOLEAN, NULL):
        raise TypeMismatchError(f"{what} needs a condition, found {type_name(body.type)}", span=body.span)
    condition = cast(body, BOOLEAN, span=body.span)
    return arguments[0], Call(BOOLEAN, LAMBDA, (condition, *variables), span=found.span)


def _transform_typing(arguments: Sequence[Expression]) -> Typed:
    found = _function_of(arguments, "transform")
    if found.type == NULL:
        raise TypeMismatchError(
            "the elements would have no type", span=found.span, hint="Write CAST(NULL AS INT)."
        )
    return arguments, pa.list_(found.type)


class _Elements:
    """The elements of all rows, and what the function gives for them."""

    def __init__(self, expression: Call, frame: Frame, evaluate: Evaluate) -> None:
        array, function = expression.arguments
        assert isinstance(function, Call), function
        arrays = evaluate(array, frame)
        values = frame.array(arrays)
        self.array_errors = arrays.errors
        self.lists = Lists.of(values)
        self.items = self.lists.items(values.values)
        body, *variables = function.arguments
        columns = {(node.input, node.name) for node in body.walk() if isinstance(node, Column)}
        inner = frame.take(self.lists.rows, columns)
        bound = [self.items, pa.array(self.lists.places, INT)]
        for variable, column in zip(variables, bound, strict=False):
            assert isinstance(variable, Variable), variable
            inner.variables[variable.number] = column
        result = evaluate(body, inner)
        self.values = inner.array(result)
        self._errors = result.errors

    def errors(self, before: np.ndarray | None = None) -> ErrorCodes | None:
        """The first error of each row: of its array, or of an element before this place (None, -1: of any)."""
        if self._errors is None:
            return self.array_errors
        first = self.lists.first(self._errors != 0)
        counts = first >= 0
        if before is not None:
            counts &= (before < 0) | (first < before)
        codes = np.zeros(len(first), np.int32)
        starts = np.cumsum(self.lists.sizes) - self.lists.sizes
        codes[counts] = self._errors[(starts + first)[counts]]
        return merge_errors(self.array_errors, codes)

    def is_(self, truth: bool) -> Mask:
        return as_mask(pc.equal(self.values, truth), len(self.values))


def _result(values: pa.Array, errors: ErrorCodes | None) -> Evaluated:
    if errors is None or not errors.any():
        return Evaluated(values)
    return Evaluated(without_errors(values, errors), errors)


@function(
    "transform",
    typing=_transform_typing,
    arguments=2,
    signature="transform(array, x -> value)",
    summary="The function of each element; (x, i) -> … is also given its index, counted from 0.",
    lazy=True,
)
def _transform(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluated:
    elements = _Elements(expression, frame, evaluate)
    return _result(elements.lists.rebuilt(elements.values), elements.errors())


@function(
    "filter",
    typing=lambda arguments: (_condition(arguments, "filter"), arguments[0].type),
    arguments=2,
    signature="filter(array, x -> condition)",
    summary="The elements for which the condition is true; (x, i) -> … is also given the index, counted from 0.",
    lazy=True,
)
def _filter(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluated:
    elements = _Elements(expression, frame, evaluate)
    is_kept = elements.is_(True)
    kept = elements.items.take(pa.array(np.flatnonzero(is_kept)))
    return _result(elements.lists.rebuilt(kept, elements.lists.count(is_kept)), elements.errors())


def _register_quantifier(name: str, *, deciding: bool, summary: str) -> None:
    @function(
        name,
        typing=lambda arguments: (_condition(arguments, name), BOOLEAN),
        arguments=2,
        signature=f"{name}(array, x -> condition)",
        summary=summary,
        lazy=True,
    )
    def lowering(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluated:
        elements = _Elements(expression, frame, evaluate)
        lists = elements.lists
        first = lists.first(elements.is_(deciding))  # what comes after it is not asked for
        is_open = lists.count(as_mask(pc.is_null(elements.values), len(elements.values))) > 0
        is_decided = first >= 0
        known = lists.is_known & (is_decided | ~is_open)
        return _result(arrow(is_decided == deciding, known, BOOLEAN), elements.errors(first))


_register_quantifier(
    "exists",
    deciding=True,
    summary="Whether the condition is true for some element; NULL if for none, but NULL for one.",
)
_register_quantifier(
    "forall",
    deciding=False,
    summary="Whether the condition is true for all elements; NULL if false for none, but NULL for one.",
)
