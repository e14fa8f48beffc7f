"""Literals that meet values of another type, judged by Spark."""

from __future__ import annotations

import pyarrow as pa

from eddyline.types import DOUBLE, FLOAT, INT, TINYINT
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each

CASES = [
    Cases(
        edge.columns(
            d=(DOUBLE, [0.1, 0.10000000149011612, 0.5, edge.NAN, -0.0]),
            f=(FLOAT, [0.1, 0.5, edge.NAN, -0.0]),
            i=(INT, [0, 1, 5]),
        ),
        each("d {op} 0.1F", op="= != < <= > >= <=> + - * / %"),
        each("0.1F {op} {x}", op="= <= + - * /", x="d f i"),
        "d IN (0.1F)",
        "d IN (0.1F, 0.5F)",
        "d IN (0.1F, 0.5)",
        "d IN (0.1F, i)",
        "d NOT IN (0.1F, NULL)",
        "d BETWEEN 0.1F AND 1",
        "d BETWEEN 0 AND 0.1F",
        "0.1F BETWEEN d AND d",
        "coalesce(d, 0.1F)",
        "coalesce(NULL, 0.1F, d)",
        "greatest(d, 0.1F)",
        "nullif(d, 0.1F)",
        "if(i = 1, d, 0.1F)",
        "CASE d WHEN 0.1F THEN 1 ELSE 0 END",
        "CASE 0.1F WHEN d THEN 1 ELSE 0 END",
        "array_contains(array(d), 0.1F)",
        "f IN (0.1F, 0.1)",
        "f = 0.1",
        "-0.1F + d",
        "0.1F + 0.2D",
        "0.1F + 0.2F",
        "CAST(0.1F AS STRING)",
        "CAST(0.1F AS DECIMAL(20, 10))",
        "16777217F + d",
        "CAST(7.038531e-26F AS DOUBLE)",
        "1e-50F",
        "-3.4028234663852886E38F",
        "3.4028235e38F",
        "1e40F",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1e400D",
    ),
    Cases(
        edge.columns(
            m=(pa.decimal128(5, 2), edge.exact("5.00", "1.25", "-999.99", "0.00")),
            n=(pa.decimal128(38, 0), edge.exact("5", "9" * 38)),
            k=(pa.decimal128(38, 18), edge.exact("5", "99999999999999999999.000000000000000001")),
            t=(TINYINT, [5, 0, -128]),
        ),
        each("{x} {op} {literal}", x="m n k 1.5", op="+ - * / %", literal="5Y -128Y 5S 100S 5 5L"),
        each("{literal} {op} {x}", x="m k 1.5", op="+ - * / %", literal="5Y 5S"),
        each("{x} {op} {literal}", x="m n k", op="= < <=>", literal="5Y 5S 5"),
        each("{f}(m, {literal})", f="pmod try_add try_mod coalesce greatest nullif", literal="5Y 5S 5"),
        each("m {op} t", op="+ * / %"),
        "m IN (5Y, 6Y)",
        "k BETWEEN 5Y AND 6Y",
        "m DIV 5Y",
        "array(k, 5Y)",
    ),
]


def test_literals_meet_other_types_as_in_spark(spark):
    agree(spark, CASES)
