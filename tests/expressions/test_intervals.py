"""Dates, timestamps and intervals in arithmetic, judged by Spark in UTC and in a zone that changes its clocks."""

from __future__ import annotations

from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each

STEPS = [
    *[
        "INTERVAL 1 DAY",
        "INTERVAL 36 HOURS",
        "INTERVAL 1 HOUR",
        "INTERVAL '0.000001' SECOND",
        "INTERVAL 1 MONTH",
    ],
    *["INTERVAL 13 MONTHS", "INTERVAL 1 YEAR", "INTERVAL '-1' MONTH", "INTERVAL '-1' DAY", "INTERVAL 1 WEEK"],
    *["INTERVAL '1 10:30:00' DAY TO SECOND", "INTERVAL '1-1' YEAR TO MONTH", "INTERVAL 7000 YEARS"],
]

CASES = [
    Cases(
        edge.TIMES,
        each("{a} {op} {step}", a="date ts ntz", op="+ -", step=STEPS),
        each("{step} + {a}", a="date ts ntz", step=STEPS[:5]),
        each("date {op} {n}", op="+ -", n="1 -1 365 2147483647 NULL"),
        "1 + date",
        "date + 1L",
        "ts + 1",
        "ts + INTERVAL 1 DAY + INTERVAL 1 HOUR",
        "ts + (INTERVAL 1 DAY + INTERVAL 1 HOUR)",
        "ts + INTERVAL 1 DAY * 2",
        "date + INTERVAL 24 HOURS",
        "ts + NULL",
        "date + NULL",
        "date - NULL",
        "ts + INTERVAL 8000 YEARS",
    ),
    Cases(
        edge.TIME_PAIRS,
        each("{a}1 - {b}2", a="date ts ntz", b="date ts ntz"),
        "ts1 - ts2 + INTERVAL 1 DAY",
        "(ts1 - ts2) * 2",
        "(ts1 - ts2) / 3",
        "(ts1 - ts2) * 1.5",
        "(ts1 - ts2) / 0.7D",
        "(ts1 - ts2) / 0",
        "(ts1 - ts2) * 1e300D",
        "-(ts1 - ts2)",
        "abs(ts1 - ts2)",
        "date1 + (date2 - date1)",
        "try_add(date1, INTERVAL 1 MONTH)",
        "try_subtract(ts1, INTERVAL 1 DAY)",
        "try_multiply(ts1 - ts2, 2)",
        "try_divide(ts1 - ts2, 0)",
        "date1 * 2",
        "ts1 + ts2",
    ),
]


def test_interval_arithmetic_is_spark_s(spark):
    agree(spark, CASES)
