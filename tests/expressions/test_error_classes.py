"""The error of a row is called what Spark calls it."""

from __future__ import annotations

import pytest

from tests.expressions import edge_values as edge
from tests.expressions.judge import outcome, spark_error

TABLE = edge.columns(
    t=(edge.TINYINT, [127]),
    i=(edge.INT, [2147483647]),
    zero=(edge.INT, [0]),
    text=(edge.STRING, ["x"]),
    d=(edge.DOUBLE, [1e300]),
    m=(edge.pa.decimal128(5, 2), edge.exact("999.99")),
    w=(edge.pa.decimal128(38, 0), edge.exact("9" * 38)),
    date=(edge.DATE, edge.days("9999-12-31")),
    ts=(edge.TIMESTAMP, edge.utc("2024-01-01")),
).slice(0, 1)

CLASSES = {
    "i + 1": "ARITHMETIC_OVERFLOW",
    "i * i": "ARITHMETIC_OVERFLOW",
    "-(i + zero) - 2": "ARITHMETIC_OVERFLOW",
    "t + t": "BINARY_ARITHMETIC_OVERFLOW",
    "i / zero": "DIVIDE_BY_ZERO",
    "i div zero": "DIVIDE_BY_ZERO",
    "m / zero": "DIVIDE_BY_ZERO",
    "i % zero": "REMAINDER_BY_ZERO",
    "pmod(m, zero)": "REMAINDER_BY_ZERO",
    "w + w": "NUMERIC_VALUE_OUT_OF_RANGE",
    "CAST(text AS INT)": "CAST_INVALID_INPUT",
    "CAST(text AS DATE)": "CAST_INVALID_INPUT",
    "CAST(text AS BOOLEAN)": "CAST_INVALID_INPUT",
    "CAST(text AS DECIMAL(5,2))": "CAST_INVALID_INPUT",
    "CAST(d AS INT)": "CAST_OVERFLOW",
    "CAST(i AS TINYINT)": "CAST_OVERFLOW",
    "CAST(w AS BIGINT)": "CAST_OVERFLOW",
    "CAST(m AS DECIMAL(3,2))": "NUMERIC_VALUE_OUT_OF_RANGE",
    "CAST(i AS DECIMAL(5,0))": "NUMERIC_VALUE_OUT_OF_RANGE",
    "(ts - TIMESTAMP'2023-01-01 00:00:00') / zero": "INTERVAL_DIVIDED_BY_ZERO",
    "floor(d)": "ARITHMETIC_OVERFLOW",
    "round(i, -1)": "ARITHMETIC_OVERFLOW",
}


@pytest.mark.parametrize("expression", CLASSES)
def test_an_error_has_spark_s_class(expression):
    assert outcome(TABLE, expression, "UTC").errors == {0: CLASSES[expression]}


def test_spark_uses_these_classes(spark):
    assert {e: spark_error(spark, TABLE, e) for e in CLASSES} == CLASSES
