from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eddyline import types
from eddyline.errors import ParseError
from eddyline.model import Literal
from tests.scalars import scalar

EMPTY = pa.schema([])


def constant(text: str, time_zone: str = "UTC") -> tuple[pa.DataType, Any]:
    found = scalar(text, EMPTY, time_zone=time_zone)
    assert isinstance(found, Literal)
    return found.type, found.value


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("10", types.INT, 10),
        ("-2147483648", types.INT, -(2**31)),
        ("2147483648", types.BIGINT, 2**31),
        ("-9223372036854775808", types.BIGINT, -(2**63)),
        ("9223372036854775808", pa.decimal128(19, 0), Decimal(2**63)),
        ("1L", types.BIGINT, 1),
        ("-128Y", types.TINYINT, -128),
        ("3s", types.SMALLINT, 3),
        ("10.5", pa.decimal128(3, 1), Decimal("10.5")),
        ("0.5", pa.decimal128(1, 1), Decimal("0.5")),
        ("0.05", pa.decimal128(2, 2), Decimal("0.05")),
        ("1.50", pa.decimal128(3, 2), Decimal("1.50")),
        ("100BD", pa.decimal128(3, 0), Decimal(100)),
        ("1e3", types.DOUBLE, 1000.0),
        ("1.5D", types.DOUBLE, 1.5),
        ("1.5f", types.FLOAT, 1.5),
        ("0.1F", types.FLOAT, 0.10000000149011612),
        ("'it''s'", types.STRING, "it's"),
        (r"'a\tb\\c\'d'", types.STRING, "a\tb\\c'd"),
        (r"'\u00e9\101'", types.STRING, "éA"),
        (r"'100\%'", types.STRING, r"100\%"),
        (r"r'a\tb'", types.STRING, r"a\tb"),
        ("'a' \"b\"", types.STRING, "ab"),
        ("X'1f'", types.BINARY, b"\x1f"),
        ("X'F'", types.BINARY, b"\x0f"),
        ("DATE '2024-02-29'", types.DATE, date(2024, 2, 29)),
        ("TIMESTAMP_NTZ '2024-02-29 01:02:03'", types.TIMESTAMP_NTZ, datetime(2024, 2, 29, 1, 2, 3)),
        ("INTERVAL 10 MINUTES", types.INTERVAL, timedelta(minutes=10)),
        ("INTERVAL '1.5' SECOND", types.INTERVAL, timedelta(seconds=1.5)),
        ("INTERVAL 1 DAY 2 HOURS", types.INTERVAL, timedelta(days=1, hours=2)),
        ("INTERVAL '1 day -2 hours'", types.INTERVAL, timedelta(days=1, hours=-2)),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", types.INTERVAL, timedelta(1, 7384.5)),
        ("INTERVAL -5 DAYS", types.INTERVAL, timedelta(days=-5)),
        ("NULL", types.NULL, None),
        ("TRUE", types.BOOLEAN, True),
    ],
)
def test_a_literal_has_the_type_and_value_spark_gives_it(text: str, type_: pa.DataType, value: Any) -> None:
    assert constant(text) == (type_, value)


def test_months_are_an_interval_of_their_own() -> None:
    found, value = constant("INTERVAL '1-2' YEAR TO MONTH")
    assert (found, value.months) == (types.MONTHS, 14)
    assert constant("INTERVAL 2 YEARS")[1].months == 24


def test_a_timestamp_without_zone_is_read_in_the_session_zone() -> None:
    assert constant("TIMESTAMP '2024-07-01 12:00:00'", "Europe/Berlin")[1] == datetime(
        2024, 7, 1, 10, tzinfo=UTC
    )
    assert constant("TIMESTAMP '2024-07-01 12:00:00Z'", "Europe/Berlin")[1] == datetime(
        2024, 7, 1, 12, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("128Y", "128Y does not fit TINYINT"),
        ("1e40F", "1e40F does not fit FLOAT"),
        ("1e99999999999999999999", "1e99999999999999999999 does not fit DOUBLE"),
        ("DATE '2023-02-29'", "'2023-02-29' is not a DATE"),
        ("TIMESTAMP 'soon'", "'soon' is not a TIMESTAMP"),
        ("X'1G'", "X'1G' is not a binary literal"),
        ("INTERVAL 1 MONTH 2 DAYS", "an interval cannot mix months with days or smaller units"),
        ("INTERVAL 'a while'", "INTERVAL 'a while' is not an interval"),
        ("INTERVAL 'x' DAY", "'x' is not a number"),
        ("INTERVAL '1:2' DAY TO SECOND", "'1:2' is not an interval DAY TO SECOND"),
        ("INTERVAL '1' SECOND TO DAY", "an interval cannot go from SECOND to DAY"),
        ("INTERVAL 5 NANOSECONDS", "NANOSECONDS is not a unit of intervals"),
        ("INTERVAL '1.5' MONTHS", "INTERVAL '1.5' MONTHS is not a whole number of months"),
        ("INTERVAL 999999999999 DAYS", "INTERVAL 999999999999 DAYS is longer than an interval can be"),
        ("1" * 39, f"{'1' * 39} has 39 digits; a DECIMAL has at most 38"),
        (r"'\U00110000'", r"\U00110000 is not a character"),
    ],
)
def test_a_literal_without_a_value_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ParseError) as refused:
        scalar(text, EMPTY)
    assert refused.value.problem == problem
    assert refused.value.position == (1, 1)
