"""Comparisons, IN and three-valued logic, judged by Spark."""

from __future__ import annotations

import pyarrow as pa

from eddyline.types import BOOLEAN, INT
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each

COMPARE = "= == != <> < <= > >= <=>"

CASES = [
    Cases(edge.ONE_ROW, "one = 'a'"),
    Cases(
        edge.INTEGER_PAIRS,
        each("{a}1 {op} {a}2", a="t s i l", op=COMPARE),
        each("t1 {op} l2", op=COMPARE),
        each("i1 {op} 2147483648", op=COMPARE),
        each("l1 {op} 1.5", op=COMPARE),
        each("i1 {op} 1.5D", op=COMPARE),
        each("{a}1 {op} NULL", a="t l", op="= <=> <"),
        "i1 BETWEEN i2 AND 7",
        "i1 NOT BETWEEN -3 AND 2",
        "equal_null(i1, i2)",
        "i1 IN (1, 2, 7)",
        "i1 IN (1, NULL)",
        "i1 NOT IN (1, 2)",
        "i1 NOT IN (1, NULL)",
        "i1 IN (i2, 7)",
        "i1 IN (l2, 2)",
        "t1 IN (1, 1000)",
        "l1 IN (1.0, 7.5)",
    ),
    Cases(
        edge.FLOATING_PAIRS,
        each("{a}1 {op} {b}2", a="f d", b="f d", op=COMPARE),
        each("f1 {op} 0.1D", op=COMPARE),
        each("d1 {op} 1", op=COMPARE),
        "d1 IN (0.0D, double('NaN'))",
        "d1 IN (d2, 1.0D)",
        "f1 IN (f2)",
        "d1 NOT IN (0.0D, NULL)",
        "d1 IN (1, 2.5)",
    ),
    Cases(
        edge.DECIMAL_PAIRS,
        each("{a}1 {op} {b}2", a="m n w x z", b="m w z", op="= < >= <=>"),
        each("m1 {op} 1.50", op=COMPARE),
        each("x1 {op} 1", op=COMPARE),
        "m1 IN (1, 2.50, 999.99)",
        "w1 IN (7, w2)",
    ),
    Cases(
        edge.TEXT_PAIRS,
        each("{a}1 {op} {a}2", a="a x", op=COMPARE),
        "a1 IN ('a', '😀', '')",
        "a1 NOT IN ('a', NULL)",
        "a1 < 'b'",
        "x1 IN (X'', X'00')",
    ),
    Cases(
        edge.LOGIC_PAIRS.append_column("zero", pa.array([0] * len(edge.LOGIC_PAIRS), INT)),
        each("b1 {op} b2", op=COMPARE),
        "b1 AND b2",
        "b1 OR b2",
        "NOT b1",
        "b1 AND NULL",
        "b1 OR NULL",
        "NOT (b1 AND NOT b2)",
        "b1 AND b2 OR NOT b1",
        "b1 IS NULL",
        "b1 IS NOT NULL",
        "b1 IS TRUE",
        "b1 IS NOT FALSE",
        "isnull(b1)",
        "isnotnull(b1)",
        "b1 IN (true, NULL)",
        "b1 AND 1",
        "b1 OR 1 / zero > 1",
        "b1 AND 1 / zero > 1",
        "1 / zero > 1 OR b1",
        "1 / zero > 1 AND b1",
        "b1 IN (true, 1 / zero > 1)",
    ),
    Cases(
        edge.TIME_PAIRS,
        each("{a}1 {op} {b}2", a="date ts ntz", b="date ts ntz", op="= < >= <=>"),
        "date1 IN (DATE'2024-02-29', DATE'0001-01-01')",
        "ts1 IN (TIMESTAMP'2024-02-29 12:34:56.789Z')",
        "date1 BETWEEN DATE'1970-01-01' AND DATE'2024-12-31'",
        "ts1 > DATE'2024-03-10'",
        "INTERVAL 1 DAY = INTERVAL 24 HOURS",
        "ts1 - ts2 > INTERVAL 1 HOUR",
    ),
    Cases(
        edge.columns(b=(BOOLEAN, [True, False]), i=(INT, [0, 1]), d=(pa.float64(), [edge.NAN, -0.0])),
        each("{a} IS NULL", a="b i d"),
        each("{a} IS NOT NULL", a="b i d"),
    ),
]


def test_comparisons_and_logic_are_spark_s(spark):
    agree(spark, CASES)
