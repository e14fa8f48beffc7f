"""Dates, judged by Spark."""

from __future__ import annotations

from eddyline.types import DATE, INT, STRING
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each

N_DAYS = [0, 1, -1, 31, -365, 1000000, 2147483647, -2147483648]
N_MONTHS = [0, 1, -1, 12, -25, 1200, 2147483647, -2147483648]
MOVES = edge.columns(
    d=(DATE, [d for d in edge.DATES for _ in N_DAYS]),
    n=(INT, N_DAYS * len(edge.DATES)),
    m=(INT, N_MONTHS * len(edge.DATES)),
)
YEARS, MONTHS, DAYS = (
    [2024, 2023, 1900, 2000, 1, 0, -1, 9999, 10000, 5881580, 999999999],
    [0, 1, 2, 12, 13],
    [0, 1, 28, 29, 30, 31, 32],
)
CIVIL = edge.columns(
    y=(INT, [y for y in YEARS for _ in MONTHS for _ in DAYS]),
    m=(INT, [m for _ in YEARS for m in MONTHS for _ in DAYS]),
    d=(INT, [d for _ in YEARS for _ in MONTHS for d in DAYS]),
)
WEEKDAYS = edge.columns(
    s=(
        STRING,
        [
            "MON",
            "mo",
            "Monday",
            "tue",
            "TU",
            "wednesday",
            "TH",
            "fri",
            "SA",
            "sunday",
            "",
            "xx",
            "mond",
            " mon",
        ],
    )
)
ALL = edge.TIMES

CASES = [
    Cases(
        ALL,
        each(
            "{f}({x})",
            f="year month day dayofmonth dayofweek weekday dayofyear weekofyear quarter dayname monthname last_day to_date",
            x="date ts ntz",
        ),
        each("trunc({x}, '{u}')", x="date ts ntz", u="YEAR yyyy yy QUARTER quarter MONTH mon MM WEEK week DAY xx"),
        ["trunc(date, NULL)", "unix_date(date)", "unix_date(ts)", "date_from_unix_date(unix_date(date))"],
        each("date_add({x}, 1)", x="date ts ntz"),
        each("{f}(date, {n})", f="date_add date_sub add_months", n=["CAST(1 AS TINYINT)",
            "CAST(-1 AS SMALLINT)", "NULL"]),
        ["date_add(date, 1L)", "date_add(date, 1.5)", "year(NULL)", "datediff(ts, date)", "year(DATE '2024-02-29')"],
        each("next_day({x}, '{u}')", x="date ts", u="mon TUE wednesday th Fri SAT sunday"),
        ["next_day(date, NULL)", "next_day(date, 'xx')"],
    ),
    Cases(MOVES, "date_add(d, n)", "date_sub(d, n)", "add_months(d, m)", "dateadd(d, n)", "add_months(d, n)",
        "date_add(DATE '2024-02-29', n)"),
    Cases(edge.TIME_PAIRS, "datediff(date1, date2)", "date_diff(ts1, ts2)", "datediff(ntz1, date2)"),
    Cases(CIVIL, "make_date(y, m, d)", "make_date(2024, m, d)", "make_date(NULL, m, d)"),
    Cases(WEEKDAYS, "next_day(DATE '2024-01-01', s)", "next_day(DATE '0001-01-01', s)"),
]  # fmt: skip


def test_date_functions_are_spark_s(spark):
    agree(spark, CASES)
