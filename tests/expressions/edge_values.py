"""Tables of values at the edges of their types, for expressions to be judged on.

A table is an Arrow table; each column is nullable and ends in a NULL. `pairs` crosses values with each other, so that two
columns of a type meet in every combination.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from eddyline.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
)

NAN, INF = float("nan"), float("inf")


def columns(**named: tuple[pa.DataType, Sequence[Any]]) -> pa.Table:
    """A table of columns given as (type, values). Shorter columns are filled with NULL; a last row is all NULL."""
    n = max(len(values) for _, values in named.values()) + 1
    return pa.table(
        {name: pa.array([*values, *[None] * (n - len(values))], t) for name, (t, values) in named.items()}
    )


def pairs(**named: tuple[pa.DataType, Sequence[Any]]) -> pa.Table:
    """For each name x two columns x1 and x2, which together hold every pair of its values (and NULL)."""
    crossed = {
        name: (t, list(itertools.product([*values, None], repeat=2))) for name, (t, values) in named.items()
    }
    n = max(len(rows) for _, rows in crossed.values())
    table = {}
    for name, (t, rows) in crossed.items():
        for side in (0, 1):
            values = [row[side] for row in rows]
            table[f"{name}{side + 1}"] = pa.array([*values, *[None] * (n - len(values))], t)
    return pa.table(table)


def utc(*moments: str) -> list[datetime.datetime]:
    return [datetime.datetime.fromisoformat(m).replace(tzinfo=datetime.UTC) for m in moments]


def wall(*moments: str) -> list[datetime.datetime]:
    return [datetime.datetime.fromisoformat(m) for m in moments]


def days(*dates: str) -> list[datetime.date]:
    return [datetime.date.fromisoformat(d) for d in dates]


def exact(*digits: str) -> list[Decimal]:
    return [Decimal(d) for d in digits]


def numbered(table: pa.Table) -> pa.Table:
    """The table with a first column `row`, counted from 0."""
    return table.add_column(0, "row", pa.array(range(len(table)), INT))


# ------------------------------------------------------------------------------------------ values by type

TINYINTS = [0, 1, -1, 2, -3, 7, 100, 127, -128]
SMALLINTS = [0, 1, -1, 2, -3, 7, 200, 32767, -32768]
INTS = [0, 1, -1, 2, -3, 7, 65536, 2147483647, -2147483648]
BIGINTS = [0, 1, -1, 2, -3, 7, 3037000500, 9223372036854775807, -9223372036854775808]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 16777216.0, 1e-40, 3.4028234663852886e38, NAN, INF, -INF]
DOUBLES = [
    *[0.0, -0.0, 1.0, -1.0, 0.1, 0.5, -2.5, 3.5, 1e-3, 9.99e-4, 1e7, 9999999.0, 123456.789, 4.35, 2.675],
    *[2147483648.0, -2147483649.5, 9.2233720368547748e17, 9.223372036854775807e18, 1e19, 1e38, 5e-324, 1e-20],
    *[1.7976931348623157e308, -1.7976931348623157e308, NAN, INF, -INF],
]
DOUBLES_FEW = [0.0, -0.0, 1.0, -1.5, 0.1, 3.0, 1e300, 5e-324, NAN, INF, -INF]
DECIMALS_5_2 = exact("0", "1", "-1.5", "0.01", "999.99", "-999.99", "2.50")
DECIMALS_38_0 = exact("0", "1", "-3", "7", "9" * 38, "-" + "9" * 38, "5" * 20)
DECIMALS_38_18 = exact(
    "0", "1", "-0.5", "0.000000000000000001", "9" * 20 + "." + "9" * 18, "-" + "3" * 20 + "." + "3" * 18
)
DECIMALS_38_38 = exact("0", "0." + "9" * 38, "-0.5", "0." + "0" * 37 + "1")
DECIMALS_18_6 = exact("0", "1.5", "-2.5", "0.000001", "999999999999.999999", "-123456.789012", "3")
BOOLEANS = [True, False]
STRINGS = [
    "",
    " ",
    "a",
    "A",
    "abc",
    "Straße",
    "straße",
    "éclair",
    "日本",
    "😀",
    "a😀b",
    "\U00010000",
    "\uffff",
    "a\x00b",
    "%_\\",
    "0",
    "1.50",
]
BINARIES = [b"", b"a", b"\x00", b"\xff\xfe", b"abc", b"\x7f\x80"]
DATES = days(
    *[
        "1970-01-01",
        "0001-01-01",
        "9999-12-31",
        "2024-02-29",
        "2023-02-28",
        "2023-03-31",
        "2000-02-29",
        "1900-03-01",
    ],
    *[
        "1969-12-31",
        "2024-12-30",
        "2021-01-03",
        "1582-10-04",
        "1582-10-15",
        "2024-03-10",
        "2024-11-03",
        "0004-02-29",
    ],
)
INSTANTS = utc(
    *["1970-01-01", "1969-12-31 23:59:59.999999", "2024-02-29 12:34:56.789", "2024-07-01 00:00:00"],
    *["2024-03-10 06:59:59", "2024-03-10 07:00:00"],  # New York skips an hour
    *["2024-11-03 05:30:00", "2024-11-03 06:30:00", "2024-11-03 07:30:00.5"],  # and repeats one
    *["2024-12-31 23:59:59", "1900-01-01 00:00:00", "1883-11-18 16:59:59", "2038-01-19 03:14:08"],
    *["2050-07-01 12:00:00", "0002-01-01", "9999-12-30 23:59:59.999999"],
)
WALL_CLOCKS = wall(
    *["1970-01-01", "1969-12-31 23:59:59.999999", "2024-02-29 12:34:56.789", "2024-07-01 00:00:00.000001"],
    *["2024-03-10 02:30:00", "2024-03-10 03:00:00", "2024-11-03 01:30:00", "2024-11-03 02:00:00"],
    *["2024-12-31 23:59:59", "2024-01-31 10:00:00", "1900-01-01 00:00:00", "2038-01-19 03:14:08"],
    *["0002-01-01", "9999-12-30 23:59:59.999999"],
)

# ------------------------------------------------------------------------------------------ tables

INTEGERS = columns(t=(TINYINT, TINYINTS), s=(SMALLINT, SMALLINTS), i=(INT, INTS), l=(BIGINT, BIGINTS))
INTEGER_PAIRS = pairs(t=(TINYINT, TINYINTS), s=(SMALLINT, SMALLINTS), i=(INT, INTS), l=(BIGINT, BIGINTS))
FLOATING = columns(f=(FLOAT, FLOATS), d=(DOUBLE, DOUBLES))
FLOATING_PAIRS = pairs(f=(FLOAT, FLOATS), d=(DOUBLE, DOUBLES_FEW))
DECIMAL = columns(
    m=(pa.decimal128(5, 2), DECIMALS_5_2),
    n=(pa.decimal128(18, 6), DECIMALS_18_6),
    w=(pa.decimal128(38, 0), DECIMALS_38_0),
    x=(pa.decimal128(38, 18), DECIMALS_38_18),
    z=(pa.decimal128(38, 38), DECIMALS_38_38),
)
DECIMAL_PAIRS = pairs(
    m=(pa.decimal128(5, 2), DECIMALS_5_2),
    n=(pa.decimal128(18, 6), DECIMALS_18_6),
    w=(pa.decimal128(38, 0), DECIMALS_38_0),
    x=(pa.decimal128(38, 18), DECIMALS_38_18),
    z=(pa.decimal128(38, 38), DECIMALS_38_38),
)
TEXT = columns(a=(STRING, STRINGS))
TEXT_PAIRS = pairs(a=(STRING, STRINGS), x=(BINARY, BINARIES))
LOGIC_PAIRS = pairs(b=(BOOLEAN, BOOLEANS))
TIMES = columns(date=(DATE, DATES), ts=(TIMESTAMP, INSTANTS), ntz=(TIMESTAMP_NTZ, WALL_CLOCKS))
TIME_PAIRS = pairs(date=(DATE, DATES[:9]), ts=(TIMESTAMP, INSTANTS[:9]), ntz=(TIMESTAMP_NTZ, WALL_CLOCKS[:9]))
ONE_ROW = columns(one=(INT, [1]))


def texts(values: Iterable[str]) -> pa.Table:
    """A table of one STRING column `a`."""
    return columns(a=(STRING, list(values)))
