"""Aggregates as a text calls them: their names, what they take, and the types of their values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline import types
from eddyline.errors import Span, TypeMismatchError, UnsupportedError
from eddyline.expressions import NeedsLiteral, coerce, common_type, fold
from eddyline.model import Aggregate, Expression, Literal, Slot
from eddyline.sql import syntax

_SAME_AS = {
    "any": "bool_or",
    "any_value": "first",
    "every": "bool_and",
    "first_value": "first",
    "last_value": "last",
    "mean": "avg",
    "some": "bool_or",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
}
_VARIANCES = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
_TRUTHS = ("bool_and", "bool_or", "count_if")
_FIRSTS = ("first", "last")
_BY = ("min_by", "max_by")
ESTIMATES = ("approx_count_distinct",)
DEFAULT_RELATIVE_ERROR = 0.05  # as in Spark
_LEAST_ERROR, _LARGEST_ERROR = 0.001, 0.39  # 2,097,152 registers, and 16
_GROUPED = frozenset(
    ("count", "sum", "avg", "min", "max", *_BY, *_FIRSTS, *_VARIANCES, *_TRUTHS, *ESTIMATES, *_SAME_AS)
)
NAMES = _GROUPED | {"lag"}
# Spark's, of which not even the type is known here.
OTHER_NAMES = frozenset(
    (
        *("approx_percentile", "array_agg", "bit_and", "bit_or", "bit_xor"),
        *("collect_list", "collect_set", "corr", "count_distinct", "covar_pop", "covar_samp", "cume_dist"),
        *(
            "dense_rank",
            "grouping",
            "grouping_id",
            "histogram_numeric",
            "kurtosis",
            "lead",
            "listagg",
            "median",
        ),
        *("mode", "nth_value", "ntile", "percent_rank", "percentile", "percentile_approx", "percentile_cont"),
        *("percentile_disc", "rank", "row_number", "skewness", "string_agg", "try_avg", "try_sum"),
    )
)
WAY_OUT = 'Aggregate in Spark, and bring the rows with running.feed (docs/spark.md, "Aggregates").'
_ARGUMENTS = {
    "count": (1, None),
    "lag": (1, 3),
    **dict.fromkeys(_BY, (2, 2)),
    **dict.fromkeys((*_FIRSTS, *ESTIMATES), (1, 2)),
}


def is_aggregate(name: str) -> bool:
    """Whether `name` computes one value from many rows."""
    return name in _GROUPED


def is_windowed(name: str) -> bool:
    """Whether `name` may stand before OVER."""
    return name in NAMES


def is_count_of_rows(node: syntax.CallNode) -> bool:
    """Whether it is count(*)."""
    is_star = len(node.arguments) == 1 and isinstance(node.arguments[0], syntax.Star)
    return node.name.lower() == "count" and is_star


def aggregate(
    node: syntax.CallNode, arguments: Sequence[Expression], condition: Expression | None
) -> Aggregate:
    """The aggregate that a call is, given its arguments and the condition of its FILTER. Refuses what it does not take."""
    name = node.name.lower()
    function = _SAME_AS.get(name, name)
    if not is_count_of_rows(node):
        _check_number(function, name, arguments, node.span)
    if node.is_distinct and function != "count":
        raise UnsupportedError(
            f"{name} does not take DISTINCT", span=node.span, hint="Only count does: count(DISTINCT x)."
        )
    ignores_nulls = _ignores_nulls(node, function, arguments)
    arguments = arguments[:1] if function in _FIRSTS else _plain(function, arguments)
    if function == "lag":
        arguments = _lag_arguments(arguments, node.span)
    elif function in ESTIMATES:
        arguments = _estimate_arguments(arguments, name, node.span)
    elif not node.is_distinct and _are_known(arguments) and function == "count":
        arguments = ()  # count(1)
    result = _result_type(function, name, arguments, node.span)
    return Aggregate(
        result, function, tuple(arguments), node.is_distinct, condition, ignores_nulls, span=node.span
    )


def _check_number(function: str, name: str, arguments: Sequence[Expression], span: Span) -> None:
    low, high = _ARGUMENTS.get(function, (1, 1))
    n = len(arguments)
    if n < low or (high is not None and n > high):
        raise TypeMismatchError(f"{name} does not take {n} argument{'s' if n != 1 else ''}", span=span)


def _ignores_nulls(node: syntax.CallNode, function: str, arguments: Sequence[Expression]) -> bool:
    """What IGNORE NULLS says, or the second argument of first(x, true)."""
    if node.nulls and function not in _FIRSTS:
        raise UnsupportedError(
            f"{node.name} does not take {node.nulls} NULLS",
            span=node.span,
            hint="first, last, first_value, last_value and any_value take it."
            + (" Select the rows where the column is not NULL in a view below." if function == "lag" else ""),
        )
    if function not in _FIRSTS or len(arguments) == 1:
        return node.nulls == "IGNORE"
    flag = fold(arguments[1])
    if not isinstance(flag, Literal) or not isinstance(flag.value, bool):
        raise TypeMismatchError(
            f"the second argument of {node.name} is true or false", span=arguments[1].span or node.span
        )
    return flag.value or node.nulls == "IGNORE"


def _plain(function: str, arguments: Sequence[Expression]) -> Sequence[Expression]:
    """The arguments, those that are no more than NULL with a type."""
    t = types.BOOLEAN if function in ("count", *_TRUTHS) else types.DOUBLE
    return [coerce(e, t) if e.type == types.NULL else e for e in arguments]


def _are_known(arguments: Sequence[Expression]) -> bool:
    """Whether all are constants other than NULL."""
    slots = [e.index for e in arguments if isinstance(e, Slot)]
    if slots:
        raise NeedsLiteral(*slots)
    return all(isinstance(e, Literal) and e.value is not None for e in arguments)


def _lag_arguments(arguments: Sequence[Expression], span: Span) -> tuple[Expression, ...]:
    """x, how many rows back, and the value where there are not so many: the last two as literals."""
    value, *rest = arguments
    slots = [n.index for e in rest for n in e.walk() if isinstance(n, Slot)]
    if slots:
        raise NeedsLiteral(*slots)
    given = [fold(e) for e in rest]
    n_back = given[0] if given else Literal(types.INT, 1)
    default = given[1] if len(given) > 1 else Literal(types.NULL, None)
    if not isinstance(n_back, Literal) or not isinstance(default, Literal):
        raise UnsupportedError("lag takes constants after the column", span=span, hint="Write lag(x, 1, 0).")
    if not types.is_integer(n_back.type) or n_back.value is None:
        raise TypeMismatchError("lag takes a whole number of rows", span=n_back.span or span)
    if n_back.value < 0:
        raise UnsupportedError(
            "lag does not take a negative number of rows",
            span=n_back.span or span,
            detail="It would be a row that comes later, and results are never revised.",
            hint="Write lag(x, 1): the row before.",
        )
    if common_type([value.type, default.type]) != value.type:
        found, needed = types.type_name(default.type), types.type_name(value.type)
        raise TypeMismatchError(
            f"lag gives {needed} where there is a row, and {found} where there is none",
            span=default.span or span,
            hint=f"Write CAST(… AS {needed}).",
        )
    return value, n_back, fold(coerce(default, value.type))


def _estimate_arguments(arguments: Sequence[Expression], name: str, span: Span) -> tuple[Expression, Literal]:
    """x, and the relative standard deviation of the estimate."""
    value, *rest = arguments
    slots = [n.index for e in rest for n in e.walk() if isinstance(n, Slot)]
    if slots:
        raise NeedsLiteral(*slots)
    if not rest:
        return value, Literal(types.DOUBLE, DEFAULT_RELATIVE_ERROR)
    given = fold(rest[0])
    error = given.value if isinstance(given, Literal) and types.is_numeric(given.type) else None
    if error is None or not _LEAST_ERROR <= float(error) <= _LARGEST_ERROR:
        raise TypeMismatchError(
            f"the second argument of {name} is a number from {_LEAST_ERROR} to {_LARGEST_ERROR}",
            span=rest[0].span or span,
            detail="It is the standard deviation of the estimate, relative to the number of values.",
            hint=f"Write {name}(x, 0.01). count(DISTINCT x) is exact.",
        )
    return value, Literal(types.DOUBLE, float(error))


def _result_type(function: str, name: str, arguments: Sequence[Expression], span: Span) -> pa.DataType:
    """The type of an aggregate's value."""
    if function == "count":
        return types.BIGINT
    argument = arguments[0].type
    if function in _TRUTHS:
        _need(argument == types.BOOLEAN, name, "a condition", arguments[0], span)
        return types.BIGINT if function == "count_if" else types.BOOLEAN
    if function in ("min", "max", *_BY):
        ordered = arguments[-1]
        _need(not types.is_nested(ordered.type), name, "values that have an order", ordered, span)
        return argument
    if function in (*_FIRSTS, "lag"):
        return argument
    if function in ESTIMATES:
        _need(not types.is_nested(argument), name, "values without parts", arguments[0], span)
        return types.BIGINT
    _need(types.is_numeric(argument), name, "a number", arguments[0], span)
    if function in _VARIANCES or types.is_floating(argument):
        return types.DOUBLE
    if types.is_decimal(argument):
        more = 10 if function == "sum" else 4
        scale = argument.scale if function == "sum" else min(argument.scale + 4, 38)
        return types.decimal(min(argument.precision + more, 38), scale)
    return types.BIGINT if function == "sum" else types.DOUBLE


def _need(is_fine: bool, name: str, what: str, argument: Expression, span: Span) -> None:
    if not is_fine:
        found = types.type_name(argument.type)
        raise TypeMismatchError(f"{name} needs {what}, found {found}", span=argument.span or span)
