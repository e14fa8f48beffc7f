"""CAST and TRY_CAST between all types, judged by Spark in UTC and in a zone that changes its clocks."""

from __future__ import annotations

import pyarrow as pa

from eddyline.types import BIGINT, BINARY, BOOLEAN, DOUBLE, INT, STRING
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each

ALL_TYPES = [
    *["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,0)"],
    *[
        "DECIMAL(38,18)",
        "DECIMAL(38,38)",
        "DECIMAL(1,1)",
        "STRING",
        "BINARY",
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP_NTZ",
    ],
]
BOTH = ["CAST", "TRY_CAST"]

NUMBERS_AS_TEXT = [
    *["", " ", "0", "-0", "+0", "1", " 1 ", "\t1\n", "\x001", "1\x7f", "\u00a01", "+1", "-1", "--1", "+", "-", "007", "١"],
    *["127", "128", "-128", "-129", "32768", "2147483647", "2147483648", "-2147483648", "-2147483649"],
    *["9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1" * 40],
    *["1.0", "1.5", "1.", ".5", ".", "-.5", "0.005", "0.015", "-0.005", "1e3", "1E-3", "1e", "e3", "1e+3", "1e400", "1e-400"],
    *["1.5d", "1.5F", "0x1p3", "0X1.8P1", "0x10", "NaN", "nan", "-NaN", "+NaN", "+nan", "Infinity", "-Infinity", "inf", "+INF"],
    *["-inf", "infinit", "1,000", "1_000", "1 2", "abc", "true", "99999.994", "999.995", "999.994", "0." + "3" * 50],
    *["3.4028235e38", "3.5e38", "1e-46", "16777217", "0.1", "123456789012345678901234567890.12345678", "1e37", "1e38", "1e-39"],
]  # fmt: skip
BOOLEANS_AS_TEXT = [
    "t",
    "T",
    "true",
    "TRUE",
    " true ",
    "tr",
    "y",
    "yes",
    "Yes",
    "1",
    "f",
    "false",
    "n",
    "no",
    "0",
    "2",
    "on",
]
DATES_AS_TEXT = [
    *[
        "2024-02-29",
        "2023-02-29",
        "2024-2-9",
        "2024-02",
        "2024",
        "24",
        "02024-01-01",
        "+2024-01-01",
        "-2024-01-01",
    ],
    *[
        "0001-01-01",
        "0000-01-01",
        "9999-12-31",
        "10000-01-01",
        "9999999-01-01",
        "2024-13-01",
        "2024-00-10",
        "2024-01-00",
    ],
    *[
        "2024-01-01 ",
        " 2024-01-01",
        "2024-01-01T",
        "2024-01-01 x",
        "2024-01-01x",
        "2024-01-01Txyz",
        "2024/01/01",
        "20240101",
    ],
    *[
        "2024-01-01 10:00:00",
        "",
        "-",
        "2024-",
        "2024-1-",
        "epoch",
        "today",
        "now",
        "2024-01-011",
        "\x002024-01-01\x7f",
    ],
]
TIMES_AS_TEXT = [
    *[
        "2024-03-10 01:59:59",
        "2024-03-10 02:30:00",
        "2024-11-03 01:30:00",
        "2024-11-03T01:30:00",
        "2024-01-01 1:2:3",
    ],
    *[
        "2024-01-01 10",
        "2024-01-01 10:30",
        "2024-01-01 10:30:15.",
        "2024-01-01 10:30:15.1",
        "2024-01-01 10:30:15.123456789",
    ],
    *[
        "2024-01-01 24:00:00",
        "2024-01-01 23:60:00",
        "2024-01-01 23:59:60",
        "2024-01-01T10:00:00Z",
        "2024-01-01T10:00:00 Z",
    ],
    *[
        "2024-01-01 10:00:00+02:00",
        "2024-01-01 10:00:00-5:30",
        "2024-01-01 10:00:00+1",
        "2024-01-01 10:00:00+19:00",
    ],
    *[
        "2024-01-01 10:00:00+18:00",
        "2024-01-01 10:00:00.5+01:02",
        "2024-01-01 10:00:00 Europe/Berlin",
        "2024-07-01 10:00:00UTC",
    ],
    *[
        "2024-01-01 10:00:00 Nowhere/City",
        "2024-01-01 10:00:00GMT+3",
        "2024-01-01 10:00:00 America/New_York",
        "2024-01-01T",
    ],
    *[
        "2024-01-01 10:00:00.123Z",
        "2024-01-01 10:00:00.123456+00:00",
        "2024-01-01 10:00Z",
        "2024-01-01 10:00:00+0200",
    ],
    *[
        "2024-01-01 10:00:00+02:00:30",
        "2024-01-01 10:00:00 PST",
        "2024-01-01 10:00:00 EST",
        "2024-01-01  10:00:00",
    ],
    *[
        "2024-01-01T10:00:00.1234567Z",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "294247-01-01 00:00:00",
    ],
    *[
        "300000-01-01 00:00:00",
        "-0001-01-01 00:00:00",
        "10000-01-01 00:00:00",
        "2024-01-01 10:00:00,5",
        "x",
        "2024-1-1T1:1:1Z",
    ],
]

CASES = [
    Cases(edge.INTEGERS, each("{f}({a} AS {t})", f=BOTH, a="t s i l", t=ALL_TYPES)),
    Cases(edge.FLOATING, each("{f}({a} AS {t})", f=BOTH, a="f d", t=ALL_TYPES)),
    Cases(edge.DECIMAL, each("{f}({a} AS {t})", f=BOTH, a="m n w x z", t=ALL_TYPES)),
    Cases(edge.columns(b=(BOOLEAN, [True, False])), each("{f}(b AS {t})", f=BOTH, t=ALL_TYPES)),
    Cases(edge.TIMES, each("{f}({a} AS {t})", f=BOTH, a="date ts ntz", t=ALL_TYPES)),
    Cases(
        edge.columns(x=(BINARY, [b"", b"abc", "é😀".encode()])), each("{f}(x AS {t})", f=BOTH, t=ALL_TYPES)
    ),
    Cases(edge.columns(x=(BINARY, [b"\xff"])), "CAST(CAST(x AS STRING) AS BINARY)"),
    Cases(
        edge.texts(NUMBERS_AS_TEXT),
        each("{f}(a AS {t})", f=BOTH, t=[*ALL_TYPES[1:12], "DECIMAL(10,2)", "BINARY"]),
        "a::INT",
        each("{t}(a)", t="tinyint smallint int bigint float double decimal string binary"),
    ),
    Cases(
        edge.ONE_ROW,
        each("CAST(DATE'2024-01-01' + {n} AS STRING)", n="3000000 -3000000 2147480000"),
        each("CAST(DATE'2024-01-01' + {n} AS TIMESTAMP)", n="3000000 106000000 107000000"),
    ),
    Cases(edge.texts(BOOLEANS_AS_TEXT), "CAST(a AS BOOLEAN)", "TRY_CAST(a AS BOOLEAN)", "boolean(a)"),
    Cases(
        edge.texts(DATES_AS_TEXT + TIMES_AS_TEXT),
        each("{f}(a AS {t})", f=BOTH, t="DATE TIMESTAMP TIMESTAMP_NTZ"),
        zones=("UTC", "America/New_York"),
    ),
    Cases(
        edge.columns(
            l=(
                BIGINT,
                [
                    -62135596800,
                    -62135596801,
                    253402300799,
                    253402300800,
                    9223372036854,
                    9223372036855,
                    10**17,
                ],
            ),
            d=(DOUBLE, [1.5, -1.5, 1e-7, 253402300799.5, 1e13, 1e30]),
            m=(
                pa.decimal128(38, 9),
                edge.exact("1.123456789", "-1.123456789", "9223372036854.775808", "1e28"),
            ),
        ),
        each("CAST({a} AS TIMESTAMP)", a="l d m"),
        each("CAST(CAST({a} AS TIMESTAMP) AS STRING)", a="l d"),
        zones=("UTC", "America/New_York"),
    ),
    Cases(
        edge.columns(
            many=(pa.list_(INT), [[], [1, None], [300, 1], [127]]),
            s=(pa.list_(STRING), [["1"], ["x", "2"], [None]]),
        ),
        each("CAST(many AS ARRAY<{t}>)", t="TINYINT BIGINT STRING DOUBLE"),
        each("{f}(s AS ARRAY<INT>)", f=BOTH),
        "CAST(many AS INT)",
        "CAST(many AS STRING)",
    ),
]


def test_casts_are_spark_s(spark):
    agree(spark, CASES)
