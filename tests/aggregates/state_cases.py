"""Rows with columns of every type for tests of function states, and comparison with the oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from eddyline.aggregates import ClassRows, States
from eddyline.model import NO_TIME, OVERFLOW, AggregateCall
from tests.oracles.aggregate_functions import OVERFLOWS, Row, aggregate

DOUBLES = [0.0, -0.0, 1.5, -2.25, 0.1, 1e16, -1e16, 1e300, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan]
TIMES = [datetime(1969, 12, 31, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 7, UTC)]
DECIMAL, WIDE = pa.decimal128(10, 2), pa.decimal128(38, 4)
DIGITS = "9" * 34 + ".9999"
# by name: the type, and values that are drawn
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "c": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, 0, 127]),
    "int": (pa.int32(), [-(2**31), -1, 3, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), -(2**53) - 1, -1, 0, 7, 2**62 + 1, 2**63 - 1]),
    "float": (pa.float32(), [0.0, -0.0, 0.5, -1.25, math.nan, math.inf]),
    "double": (pa.float64(), DOUBLES),
    "decimal": (DECIMAL, [Decimal("0.00"), Decimal("0.01"), Decimal("-7.35"), Decimal("99999999.99")]),
    "wide": (WIDE, [Decimal("0.0000"), Decimal("-0.0001"), Decimal(DIGITS), Decimal("-" + DIGITS)]),
    "text": (pa.string(), ["", "a", "ab", "abcdefgh", "abcdefghi", "\uffff", "\U0001f600", "a\0"]),
    "bytes": (pa.binary(), [b"", b"\0", b"\xff\xfe", b"eight by", b"eight byt"]),
    "date": (pa.date32(), [date(1960, 2, 29), date(2026, 1, 1)]),
    "time": (pa.timestamp("us", tz="UTC"), TIMES),
    "wall": (pa.timestamp("us"), [t.replace(tzinfo=None) for t in TIMES]),
    "span": (pa.duration("us"), [timedelta(0), timedelta(days=-1, microseconds=3)]),
    "struct": (
        pa.struct([("a", pa.int64()), ("b", pa.float64())]),
        [{"a": 1, "b": 0.0}, {"a": 1, "b": -0.0}, {"a": None, "b": math.nan}],
    ),
    "list": (pa.list_(pa.string()), [[], ["x", None], ["x", "y"]]),
}
# those of rows that may leave: what is left behind of a sum is below 1e-30 of it, which is too much beside 1e300
MODERATE = {"double": [0.0, -0.0, 1.5, -2.25, 0.1, 1e6, math.inf, -math.inf, math.nan]}
NUMBERS = ["tiny", "int", "long", "float", "double", "decimal", "wide"]
ORDERED = [name for name in COLUMNS if name not in ("struct", "list")]
VARIANCES = ["var_pop", "var_samp", "stddev_pop", "stddev_samp"]


def call(function: str, *names: str, **more: Any) -> AggregateCall:
    """A call over columns of COLUMNS, with the type that SQL gives it."""
    kinds = tuple(COLUMNS[name][0] for name in names)
    return AggregateCall(function, names, kinds, _type(function, kinds), **more)


def _type(function: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
    if function in ("count", "count_if", "approx_count_distinct"):
        return pa.int64()
    of = kinds[0]
    if function in ("sum", "avg") and pa.types.is_decimal(of):
        more = 10 if function == "sum" else 4
        scale = of.scale if function == "sum" else min(of.scale + 4, 38)
        return pa.decimal128(min(of.precision + more, 38), scale)
    if function == "sum":
        return pa.int64() if pa.types.is_integer(of) else pa.float64()
    return pa.float64() if function in ("avg", *VARIANCES) else of


CALLS = [
    call("count"),
    call("count", filter="c"),
    call("count", "long", "text"),
    call("count_if", "c"),
    *[call(function, name) for function in ("sum", "avg") for name in NUMBERS],
    call("sum", "double", filter="c"),
    *[call(function, name) for function in VARIANCES for name in ("int", "wide", "double")],
    *[call(function, name) for function in ("min", "max") for name in ORDERED],
    call("min", "text", filter="c"),
    *[call("min_by", x, y) for x, y in (("text", "double"), ("long", "text"), ("struct", "wide"))],
    *[call("max_by", x, y) for x, y in (("decimal", "float"), ("list", "bytes"), ("bytes", "c"))],
    *[call(f, x) for f in ("first", "last") for x in ("long", "text", "wide", "struct", "date", "c")],
    *[call(f, x, ignores_nulls=True) for f in ("first", "last") for x in ("list", "double", "time")],
    *[call(f, "c") for f in ("bool_and", "bool_or")],
    *[call("count", name, is_distinct=True) for name in ("double", "text", "wide", "struct", "list", "time")],
    call("count", "text", "float", "bytes", is_distinct=True, filter="c"),
]
# of rows that only come
ESTIMATES = [
    *[call("approx_count_distinct", name, relative_error=0.05) for name in ORDERED],
    call("approx_count_distinct", "double", relative_error=0.01),
    call("approx_count_distinct", "text", relative_error=0.01, filter="c"),
]


@st.composite
def rows_of(draw: st.DrawFn, *, is_moderate: bool = False, max_rows: int = 12) -> list[Row]:
    """Rows with arrival numbers from 0 on, in any order of time."""
    drawn_values = {name: values for name, (_, values) in COLUMNS.items()} | (MODERATE if is_moderate else {})
    names = list(COLUMNS)
    line = st.tuples(*[st.sampled_from([None, *drawn_values[name]]) for name in names])
    times = st.sampled_from([NO_TIME, -5, 0, 1, 2, 10**15])
    drawn = draw(st.lists(st.tuples(line, times), max_size=max_rows))
    return [Row(dict(zip(names, values, strict=True)), ts, g) for g, (values, ts) in enumerate(drawn)]


def class_rows(rows: Sequence[Row], signs: Sequence[int] | None = None) -> ClassRows:
    arrays = [pa.array([row.values[name] for row in rows], t) for name, (t, _) in COLUMNS.items()]
    n = len(rows)
    return ClassRows(
        pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS)),
        np.array([row.ts for row in rows], np.int64),
        np.array([row.g for row in rows], np.int64),
        np.ones(n, np.int8) if signs is None else np.array(signs, np.int8),
        np.zeros(n, np.bool_),
        np.zeros(n, np.int64),
    )


def assert_values(
    states: States,
    calls: Sequence[AggregateCall],
    entries: Sequence[Sequence[Row]],
    *,
    left: Sequence[Row] = (),
) -> None:
    """Each entry has the values of its rows; `left` are rows that were in some of them before."""
    numbers = np.arange(len(entries))
    assert states.n_rows(numbers).tolist() == [len(rows) for rows in entries]
    columns = states.values(numbers)
    assert set(columns) == {c.name for c in calls} | {c.name + OVERFLOW for c in calls if c.can_overflow}
    for of in calls:
        assert columns[of.name].type == of.type
        values = columns[of.name].to_pylist()
        overflows = columns[of.name + OVERFLOW].to_pylist() if of.can_overflow else [False] * len(entries)
        for value, is_overflow, rows in zip(values, overflows, entries, strict=True):
            assert_value(of, OVERFLOWS if is_overflow else value, rows, [*rows, *left])
            assert not is_overflow or value is None


def assert_value(of: AggregateCall, value: Any, rows: Sequence[Row], ever: Sequence[Row] = ()) -> None:
    ever = ever or rows
    expected = aggregate(of, rows)
    if not is_expected(of, value, expected, ever):
        pytest.fail(f"{of.name}: {value} instead of {expected} over {[row.values for row in rows]}")


def is_expected(of: AggregateCall, value: Any, expected: Any, ever: Sequence[Row]) -> bool:
    if isinstance(expected, Fraction):
        return is_rounded_once(value, expected, magnitude(of, ever) / 2**95)
    if isinstance(expected, float) and math.isfinite(expected) and of.function in VARIANCES:
        if (largest := magnitude(of, ever)) > 10**150:  # squares leave the range
            return True
        noise = (float(largest) * 1e-14) ** (2 if of.function.startswith("var") else 1)
        return math.isclose(value, expected, rel_tol=1e-9, abs_tol=noise)
    return bool(plain(value) == plain(expected))


def plain(value: Any) -> Any:
    """NaN as a word, so that it equals itself, also inside."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return value


def magnitude(of: AggregateCall, rows: Sequence[Row]) -> Fraction:
    """The sum of all finite arguments without their signs."""
    values = [row.values[of.arguments[0]] for row in rows]
    finite = [v for v in values if v is not None and (not isinstance(v, float) or math.isfinite(v))]
    return sum((abs(Fraction(v)) for v in finite), Fraction(0))


def is_rounded_once(value: float, expected: Fraction, noise: Fraction) -> bool:
    """Whether a double is the nearest one, but for so much noise."""
    try:
        rounded = float(expected)
    except OverflowError:
        return value == (math.inf if expected > 0 else -math.inf)
    if not math.isfinite(value):
        return abs(expected) > Fraction(1.797e308)
    unit = Fraction(math.ulp(rounded)) / 2
    return abs(Fraction(value) - expected) <= unit * (1 + Fraction(1, 2**30)) + noise
