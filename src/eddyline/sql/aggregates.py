"""The names and result types of aggregates. They bind; computing them is the business of another room."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline import types
from eddyline.errors import Span, TypeMismatchError
from eddyline.model import Expression

_COUNTS = frozenset(("count", "count_if", "approx_count_distinct"))
_SAME = frozenset(
    ("min", "max", "first", "first_value", "last", "last_value", "any_value", "mode", "lag", "lead")
)
_DOUBLES = frozenset(
    ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "percentile", "median")
)
_RANKS = frozenset(("row_number", "rank", "dense_rank"))
_ONLY_WINDOWED = _RANKS | {"lag", "lead"}
NAMES = frozenset({"sum", "avg", "mean"} | _COUNTS | _SAME | _DOUBLES | _RANKS)
# Spark's, of which not even the type is known here.
OTHER_NAMES = frozenset(
    (
        *("any", "approx_percentile", "array_agg", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or"),
        *("collect_list", "collect_set", "corr", "count_distinct", "covar_pop", "covar_samp", "cume_dist"),
        *("every", "grouping", "grouping_id", "histogram_numeric", "kurtosis", "listagg", "max_by", "min_by"),
        *("nth_value", "ntile", "percent_rank", "percentile_approx", "percentile_cont", "percentile_disc"),
        *("skewness", "some", "std", "string_agg", "try_avg", "try_sum"),
    )
)
WINDOWS_OF_TIME = frozenset(("window", "session_window", "window_time"))
WAY_OUT = 'Aggregate in Spark, and bring the rows with running.feed (docs/spark.md, "Aggregates").'
_ARGUMENTS = {
    "count": (0, None),
    "percentile": (2, 2),
    "lag": (1, 3),
    "lead": (1, 3),
    **dict.fromkeys(_RANKS, (0, 0)),
}


def is_aggregate(name: str) -> bool:
    """Whether `name` computes one value from many rows."""
    return name in NAMES and name not in _ONLY_WINDOWED


def is_windowed(name: str) -> bool:
    """Whether `name` may stand before OVER."""
    return name in NAMES


def result_type(name: str, arguments: Sequence[Expression], span: Span) -> pa.DataType:
    """The type of an aggregate's value. Refuses arguments it does not take."""
    low, high = _ARGUMENTS.get(
        name, (1, 2 if name in ("first", "last", "first_value", "last_value", "any_value") else 1)
    )
    n = len(arguments)
    if n < low or (high is not None and n > high):
        raise TypeMismatchError(f"{name} does not take {n} argument{'s' if n != 1 else ''}", span=span)
    if name in _COUNTS:
        return types.BIGINT
    if name in _RANKS:
        return types.INT
    argument = arguments[0].type
    if name in _SAME:
        return argument
    if not types.is_numeric(argument):
        raise TypeMismatchError(
            f"{name} needs a number, found {types.type_name(argument)}", span=arguments[0].span or span
        )
    if name in _DOUBLES or types.is_floating(argument):
        return types.DOUBLE
    if name == "sum":
        return (
            types.decimal(min(argument.precision + 10, 38), argument.scale)
            if types.is_decimal(argument)
            else types.BIGINT
        )
    if types.is_decimal(argument):
        return types.decimal(min(argument.precision + 4, 38), min(argument.scale + 4, 38))
    return types.DOUBLE
