"""Functions that take a function: x -> … over the elements of an array.

The function is computed once for all elements of all rows, over a frame with a row for each element: the element and its index
are the variables, columns and constants are those of the row it is in. Errors go back to that row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import TypeMismatchError
from eddyline.expressions.buffers import Mask, arrow
from eddyline.expressions.coercion import cast
from eddyline.expressions.frame import (
    MADE_AT_ONCE,
    ErrorCodes,
    Evaluation,
    Frame,
    TooMuchAtOnce,
    as_mask,
    merge_errors,
    without_errors,
)
from eddyline.expressions.function import function
from eddyline.expressions.lazy import Evaluate
from eddyline.expressions.limits import TOO_LONG, lengths, where_fine
from eddyline.expressions.lowerings.collections import an_array
from eddyline.expressions.lowerings.nested import Lists
from eddyline.model import LAMBDA, Call, Column, Expression, Variable
from eddyline.types import BOOLEAN, INT, NULL, type_name

_BYTES_OF_AN_ELEMENT = 16  # the element, its index, and what is made of it
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
def _lambda(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
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
    """The elements of all rows, and what the function gives for them.

    Raises TooMuchAtOnce where the elements of several rows are too much together; those of one row are its error.
    """

    def __init__(self, expression: Call, frame: Frame, evaluate: Evaluate) -> None:
        array, function = expression.arguments
        assert isinstance(function, Call), function
        body, *variables = function.arguments
        columns = {(node.input, node.name) for node in body.walk() if isinstance(node, Column)}
        arrays = evaluate(array, frame)
        self.array_errors = merge_errors(arrays.errors, _too_large(expression, arrays, columns, frame))
        values = frame.array(where_fine(arrays.values, self.array_errors, frame))
        self.lists = Lists.of(values)
        self.items = self.lists.items(values.values)
        inner = frame.take(self.lists.rows, ())
        bound = [self.items, pa.array(self.lists.places, INT)]
        for variable, column in zip(variables, bound, strict=False):
            assert isinstance(variable, Variable), variable
            inner.variables[variable.number] = column
        try:
            result = evaluate(body, inner)
            self.values = inner.array(result)
        except TooMuchAtOnce:
            if frame.n_rows > 1 or frame.variables:
                raise
            self.array_errors = frame.fail(np.ones(1, bool), TOO_LONG, _too_much(expression))
            self.lists = Lists.of(pa.nulls(1, array.type))
            self.items, self.values = self.items[:0], pa.nulls(0, body.type)
            result = Evaluation(self.values)
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


def _too_much(expression: Call) -> str:
    return f"{expression.function} would take more than {MADE_AT_ONCE:,} bytes for the elements of one array"


def _too_large(
    expression: Call, arrays: Evaluation, columns: Collection[tuple[str, str]], frame: Frame
) -> ErrorCodes | None:
    """Errors of the rows for whose elements too much would be copied. Raises TooMuchAtOnce for the others together."""
    sizes = Lists.of(frame.array(arrays)).sizes
    each = np.full(frame.n_rows, _BYTES_OF_AN_ELEMENT, np.int64)
    for column in (*(frame.columns[name] for name in columns), *frame.variables.values()):
        each += _row_bytes(column)
    nbytes = sizes * each
    is_large = nbytes > MADE_AT_ONCE
    frame.check_bytes(int(nbytes[~is_large].sum()))
    return frame.fail(is_large, TOO_LONG, _too_much(expression))


def _row_bytes(column: pa.Array) -> npt.NDArray[np.int64]:
    """About how many bytes each row has."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return lengths(column, len(column))
    if pa.types.is_list(column.type):
        values = column.values
        return Lists.of(column).sizes * max(values.nbytes // max(len(values), 1), 1)
    return np.full(len(column), column.nbytes // max(len(column), 1), np.int64)


def _result(values: pa.Array, errors: ErrorCodes | None) -> Evaluation:
    if errors is None or not errors.any():
        return Evaluation(values)
    return Evaluation(without_errors(values, errors), errors)


@function(
    "transform",
    typing=_transform_typing,
    arguments=2,
    signature="transform(array, x -> value)",
    summary="The function of each element; (x, i) -> … is also given its index, counted from 0.",
    lazy=True,
)
def _transform(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
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
def _filter(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
    elements = _Elements(expression, frame, evaluate)
    is_kept = elements.is_(True)
    kept_items = elements.items.take(pa.array(np.flatnonzero(is_kept)))
    return _result(elements.lists.rebuilt(kept_items, elements.lists.count(is_kept)), elements.errors())


def _register_quantifier(name: str, *, deciding: bool, summary: str) -> None:
    @function(
        name,
        typing=lambda arguments: (_condition(arguments, name), BOOLEAN),
        arguments=2,
        signature=f"{name}(array, x -> condition)",
        summary=summary,
        lazy=True,
    )
    def lowering(expression: Call, frame: Frame, evaluate: Evaluate) -> Evaluation:
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
