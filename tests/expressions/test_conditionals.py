"""CASE and its relatives, judged by Spark."""

from __future__ import annotations

from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each

CASES = [
    Cases(
        edge.INTEGER_PAIRS,
        "CASE WHEN i1 > 0 THEN 'up' WHEN i1 < 0 THEN 'down' ELSE 'flat' END",
        "CASE WHEN i1 > 0 THEN t1 WHEN i2 > 0 THEN l1 END",
        "CASE i1 WHEN 1 THEN 10 WHEN i2 THEN 1.5 ELSE 2.5D END",
        "CASE i1 WHEN NULL THEN 1 ELSE 2 END",
        "CASE WHEN i2 = 0 THEN NULL ELSE i1 / i2 END",
        "CASE WHEN i2 <> 0 THEN i1 % i2 ELSE -1 END",
        "CASE WHEN i1 / i2 > 1 THEN 1 ELSE 2 END",
        "CASE WHEN i1 = 1 THEN NULL END",
        "if(i2 = 0, i1, i1 / i2)",
        "if(i1 > i2, i1 + 1, l2)",
        "if(i1 IS NULL, NULL, NULL)",
        "coalesce(i1, i2)",
        "coalesce(i1, i1 / 0)",
        "coalesce(NULL, NULL, t1, 5)",
        "coalesce(i1)",
        "coalesce(i1, 1.5, 2D)",
        "ifnull(i1, l2)",
        "nvl(t1, 100)",
        "nvl2(i1, 'yes', 'no')",
        "nvl2(i1, i2, i1 / 0)",
        "nvl2(i1, i1 / 0, 5)",
        "nullif(i1, i2)",
        "nullif(i1, 7L)",
        "nullif(t1, 1.0)",
        "greatest(i1, i2)",
        "least(i1, i2)",
        "greatest(t1, i2, l1)",
        "least(i1, 1.5)",
        "greatest(i1, NULL)",
        "least(i1, i2, i1 + i2)",
        "isnan(i1)",
    ),
    Cases(
        edge.FLOATING_PAIRS,
        each("{f}({a}1, {b}2)", f="greatest least nanvl nullif coalesce", a="f d", b="f d"),
        each("isnan({a}1)", a="f d"),
        "nanvl(d1, 5)",
        "nanvl(d1, 1D / 0D)",
        "nanvl(f1, NULL)",
        "if(isnan(d1), NULL, d1)",
        "CASE WHEN d1 > 1 THEN f1 ELSE 1 END",
    ),
    Cases(
        edge.DECIMAL_PAIRS,
        each("{f}(m1, {a}2)", f="greatest least coalesce nullif", a="m n w x z"),
        "CASE WHEN m1 > 1 THEN m1 ELSE n1 END",
        "if(m1 > 0, m1, 1)",
    ),
    Cases(
        edge.TEXT_PAIRS,
        each("{f}({a}1, {a}2)", f="greatest least coalesce nullif", a="a x"),
        "if(a1 = '', NULL, a1)",
        "CASE a1 WHEN 'a' THEN a2 WHEN '😀' THEN 'smile' ELSE a1 END",
        "coalesce(a1, 1)",
    ),
    Cases(
        edge.TIME_PAIRS,
        each("{f}({a}1, {b}2)", f="greatest least coalesce nullif", a="date ts ntz", b="date ts ntz"),
        "if(date1 > DATE'2000-01-01', ts1, ts2)",
        "CASE WHEN date1 IS NULL THEN ntz1 ELSE date1 END",
    ),
    Cases(
        edge.LOGIC_PAIRS,
        "CASE WHEN b1 THEN b2 ELSE NOT b2 END",
        "if(b1, 1, 0)",
        "greatest(b1, b2)",
        "coalesce(b1, b2, true)",
        "nullif(b1, b2)",
        "if(b1, 1 / 0, 2)",
    ),
]


def test_conditionals_are_spark_s(spark):
    agree(spark, CASES)
