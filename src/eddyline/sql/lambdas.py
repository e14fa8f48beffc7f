"""Calls that take a function, such as exists(tags, t -> t LIKE 'a%'): what is written, what its variables are."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline import types
from eddyline.errors import TypeMismatchError, UnsupportedError
from eddyline.expressions import FUNCTIONS
from eddyline.model import LAMBDA, Call, Expression, UserCall, Variable
from eddyline.sql import syntax

_N_VARIABLES = {"exists": 1, "filter": 2, "forall": 1, "transform": 2}  # of the functions they take, at most


def array_and_function(node: syntax.CallNode, name: str) -> tuple[syntax.Node, syntax.LambdaNode]:
    """The arguments of such a call, unless it is none that is known here."""
    if name not in _N_VARIABLES:
        raise UnsupportedError(
            f"{node.name} of a function is not supported",
            span=node.span,
            hint=f"What takes one is {', '.join(_N_VARIABLES)}. Anything else a function of your own can do, "
            "which takes the whole array (docs/functions.md).",
        )
    array, function = (*node.arguments, None)[:2]
    if (
        len(node.arguments) != 2
        or not isinstance(function, syntax.LambdaNode)
        or isinstance(array, syntax.LambdaNode)
        or array is None
    ):
        raise TypeMismatchError(
            f"{name} takes an array and a function",
            span=node.span,
            hint=f"Write {FUNCTIONS[name].signature}.",
        )
    return array, function


def variables_of(
    function: syntax.LambdaNode, array: Expression, name: str, n_outer: int
) -> tuple[Variable, ...]:
    """The element, and perhaps its index, under the names the function gives them."""
    if not pa.types.is_list(array.type):
        raise TypeMismatchError(
            f"{name} takes an ARRAY, found {types.type_name(array.type)}", span=array.span
        )
    names = [parameter.lower() for parameter in function.parameters]
    if len(names) > _N_VARIABLES[name] or len(set(names)) < len(names):
        takes = "x -> …" if _N_VARIABLES[name] == 1 else "x -> … or (x, i) -> …"
        raise TypeMismatchError(f"the function of {name} is written {takes}", span=function.span)
    kinds = zip((array.type.value_type, types.INT), function.parameters, strict=False)
    return tuple(Variable(t, n_outer + at, parameter) for at, (t, parameter) in enumerate(kinds))


def bound_function(function: syntax.LambdaNode, body: Expression, variables: Sequence[Variable]) -> Call:
    """The function as an argument. One of the user's may not be called in it: it is given whole columns."""
    for each in body.walk():
        if isinstance(each, UserCall):
            raise UnsupportedError(
                f"{each.function} cannot be called for each element of an array",
                span=each.span,
                hint="Let the function take the whole array (docs/functions.md).",
            )
    return Call(body.type, LAMBDA, (body, *variables), span=function.span)
