"""Times, time zones and datetime patterns, judged by Spark."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from eddyline.errors import TypeMismatchError, UnsupportedError
from eddyline.expressions import Context, Frame, call, evaluate
from eddyline.expressions.zones import to_local, to_utc
from eddyline.model import Column
from eddyline.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each
from tests.scalars import scalar

ZONES = ("UTC", "America/New_York", "America/Havana")  # Havana's clocks change at midnight
HALF_HOURS = edge.columns(
    ts=(
        TIMESTAMP,
        [
            *range(1_710_039_600_000_000, 1_710_068_400_000_000, 1_800_000_001),  # around 2024-03-10
            *range(1_699_142_400_000_000, 1_699_178_400_000_000, 1_800_000_001),  # around 2023-11-05
            *range(-2_717_652_000_000_000, -2_717_640_000_000_000, 600_000_001),  # around 1883-11-18
        ],
    )
)
UNITS = "YEAR yyyy yy QUARTER MONTH mon mm WEEK DAY dd HOUR MINUTE SECOND MILLISECOND MICROSECOND xx"
PLACES = [
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "+05:45",
    "-08:00",
    "UTC",
    "Z",
    "PST",
    "GMT+3",
]

PARTS = [
    Cases(
        edge.TIMES,
        each("{f}({x})", f="hour minute second", x="date ts ntz"),
        each("date_trunc('{u}', {x})", u=UNITS, x="date ts ntz"),
        each("{f}({x})", f="unix_seconds unix_millis unix_micros", x="ts ntz date"),
        each("{f}({x})", f="unix_timestamp to_unix_timestamp to_timestamp to_date", x="date ts ntz"),
        each("{f}({x}, '{z}')", f="from_utc_timestamp to_utc_timestamp", x="date ts ntz", z=PLACES),
        ["from_utc_timestamp(ts, NULL)", "from_utc_timestamp(ts, 'nowhere')", "date_trunc(NULL, ts)",
            "hour(NULL)", "hour('05:00')"],
        ["unix_timestamp(ts, 'yyyy')", "to_timestamp(date, 'yyyy')", "to_date(ts, 'yyyy')",
            "unix_timestamp(ts, NULL)"],
        zones=ZONES,
    ),
    Cases(
        HALF_HOURS,
        each("date_trunc('{u}', ts)", u="YEAR MONTH WEEK DAY HOUR MINUTE SECOND"),
        each("{f}(ts)", f="hour minute second dayofyear"),
        "date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSSSSS XXX')",
        "from_utc_timestamp(ts, 'America/New_York')",
        "to_utc_timestamp(ts, 'America/Havana')",
        zones=ZONES,
    ),
    Cases(edge.TIME_PAIRS, each("months_between({x}1, {x}2)", x="date ts ntz"),
        each("months_between({x}1, {x}2, false)", x="date ts")),
]  # fmt: skip

NUMBERS = edge.columns(
    l=(BIGINT, [0, 1, -1, 1_700_000_000, -1_700_000_000, 253402300799, 9223372036854, 9223372036855,
        -9223372036855, 2**63 - 1, -(2**63)]),
    d=(DOUBLE, [0.0, 1.5, -0.5, 0.1234567, -0.0000015, 1e13, -1e13, 1e300, float("nan"), float("inf"),
        -float("inf"), 1700000000.123456]),
    n=(pa.decimal128(20, 8), [Decimal(v) for v in ("0", "1.5", "-1.5", "1.1234567", "1.123456", "-0.000001",
        "999999999999", "0.00000001")]),
    i=(INT, [0, 1, -1, 2147483647, -2147483648]),
)  # fmt: skip
CLOCK = edge.columns(
    h=(INT, [h for h in (0, 23, 24, -1, 2) for _ in range(4) for _ in range(6)]),
    m=(INT, [m for _ in range(5) for m in (0, 59, 60, -1) for _ in range(6)]),
    s=(pa.decimal128(16, 6), [Decimal(s) for s in ("0", "59.999999", "60", "60.000001", "-1", "30.5")] * 20),
)
MAKING = [
    Cases(
        NUMBERS,
        each("{f}({x})", f="timestamp_seconds timestamp_millis timestamp_micros", x="l i"),
        each("timestamp_seconds({x})", x=["d", "CAST(d AS FLOAT)", "n", "CAST(n AS DECIMAL(10, 2))", "NULL"]),
        ["timestamp_millis(d)", "timestamp_micros(n)", "to_timestamp(i)", "to_timestamp(l)"],
        [
            "from_unixtime(i)",
            "from_unixtime(i, 'yyyy-MM-dd')",
            "from_unixtime(NULL)",
            "from_unixtime(i, NULL)",
        ],
        zones=ZONES,
    ),
    Cases(
        CLOCK,
        "make_timestamp(2024, 2, 29, h, m, s)",
        "make_timestamp(2023, 2, 29, h, m, s)",
        "make_timestamp(2024, 3, 10, h, 30, s)",
        "make_timestamp(2024, 11, 3, h, 30, 0)",
        "make_timestamp(2024, 11, 3, 1, 30, 1.5D)",
        "make_timestamp(2024, 12, 31, h, m, s, 'Europe/Berlin')",
        "make_timestamp(2024, 1, 1, h, m, NULL)",
        "make_timestamp(2024, 1, 1, 0, 0, 5.1234567)",
        zones=ZONES,
    ),
]

WRITTEN = [
    "", "y", "yy", "yyy", "yyyy", "yyyyy", "yyyyyy", "M", "MM", "MMM", "MMMM", "L", "LLL", "LLLL", "d", "dd",
        "D", "DDD",
    "E", "EEE", "EEEE", "H", "HH", "h", "hh", "m", "mm", "s", "ss", "S", "SSS", "SSSSSS", "SSSSSSSSS", "a", "hh:mm a",
    "X", "XX", "XXX", "x", "xx", "xxx", "Z", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd\\'T\\'HH:mm:ss.SSSXXX",
        "EEE, d MMM yyyy",
    "\\'\\'yy\\'o\\'\\'clock\\'", "é/:., yyyy", "\\'text\\'", "yyyyMMddHHmmss",
]  # fmt: skip
WRITING = [
    Cases(
        edge.TIMES,
        [f"date_format({x}, '{p}')" for p in WRITTEN for x in ("ts", "ntz", "date")],
        ["date_format(ts, 'w')", "date_format(ts, 'Q')"],
        ["date_format(ts, NULL)", "date_format(NULL, 'yyyy')",
            "date_format(timestamp_micros(-62135596800000001), 'y yyyy yy yyyyy')"],
        ["date_format(timestamp_micros(253402400000000000), 'y yyy yyyy yyyyy yy')"],
        ["date_format(timestamp_micros(-62267136000000000), 'y yyy yyyy yyyyy yy')"],
        zones=ZONES,
    )
]  # fmt: skip

READ = {
    "yyyy-MM-dd": ["2024-02-29", "2023-02-29", "2024-1-2", "2024-01-02 ", " 2024-01-02", "+12024-01-02",
        "12024-01-02", "-0001-01-02", "0000-01-01", "9999-12-31", "2024-13-01", "2024-00-01", "", "x"],
    "yyyy-MM-dd HH:mm:ss": ["2024-01-02 03:04:05", "2024-01-02 24:00:00", "2024-01-02 03:60:00",
        "2024-01-02 03:04:60", "2024-03-10 02:30:00", "2024-11-03 01:30:00", "2024-01-02T03:04:05",
            "0001-01-01 00:00:00"],
    "yyyy-MM-dd HH:mm:ss.SSS": ["2024-01-02 03:04:05.1", "2024-01-02 03:04:05.123", "2024-01-02 03:04:05.1234",
        "2024-01-02 03:04:05.", "2024-01-02 03:04:05"],
    "yyyy-MM-dd HH:mm:ss.SSSSSSSSS": ["2024-01-02 03:04:05.123456789", "1969-12-31 23:59:59.9999999"],
    "d/M/yyyy": ["1/2/2024", "01/02/2024", "31/12/2024", "32/1/2024", "0/1/2024", "-1/1/2024", "012/1/2024"],
    "dd/MM/yy": ["01/02/24", "01/02/99", "1/2/24", "01/02/1924"],
    "yyyyMMdd": ["20240102", "20240230", "120240102", "2024010", "202401023"],
    "yyyyMMddHHmmss": ["20240102030405"],
    "d MMM yyyy": ["2 Jan 2024", "2 jan 2024", "2 SEP 2024", "2 Sept 2024", "2 January 2024"],
    "MMMM d, yyyy": ["January 2, 2024", "MAY 31, 2024", "May 32, 2024", "Jan 2, 2024"],
    "hh:mm a": ["12:00 AM", "12:30 pm", "01:05 PM", "13:00 PM", "00:00 AM", "1:00 AM"],
    "h a": ["1 AM", "12 PM", "012 AM"],
    "hh:mm": ["11:30", "12:30", "13:30"],
    "y": ["2024", "24", "12024", "-5", "0", "+5"],
    "M": ["2", "02", "13"],
    "Hmm": ["123", "1234", "0123", "12"],
    "s": ["5", "59", "60"],
    "yyyy-MM-dd\\'T\\'HH:mm:ssXXX": ["2024-01-02T03:04:05+02:00", "2024-01-02t03:04:05z",
        "2024-01-02T03:04:05-18:00", "2024-01-02T03:04:05+18:01", "2024-01-02T03:04:05+0200",
            "2024-01-02T03:04:05+02:60", "2024-01-02T03:04:05"],
    "yyyy X": ["2024 +02", "2024 +0230", "2024 Z", "2024 -0930", "2024 +2"],
    "yyyy xx": ["2024 +0200", "2024 Z", "2024 -0000"],
    "yyyy Z": ["2024 +0200", "2024 Z"],
    "\\'at\\' yyyy": ["at 2024", "AT 2024", "2024"],
    "": ["", "x"],
}  # fmt: skip
READING = [
    *[
        Cases(
            edge.columns(s=(STRING, texts)),
            [f"{f}(s, '{pattern}')" for f in ("to_timestamp", "to_date", "unix_timestamp", "to_unix_timestamp")],
            zones=ZONES[:2],
        )
        for pattern, texts in READ.items()
    ],
    Cases(
        edge.columns(s=(STRING, ["2024-01-02", "2024-01-02 03:04:05", "2024-01-02T03:04:05.5Z", " 2024 ", "x",
            "2024-02-30"])),
        each("{f}(s)", f="to_timestamp to_date unix_timestamp to_unix_timestamp"),
        ["to_timestamp(s, NULL)", "to_date(NULL, 'yyyy')", "to_timestamp('2024', 'yyyy')", "to_date(NULL)"],
        ["to_timestamp(s, 'E yyyy')"],
        zones=ZONES[:2],
    ),
]  # fmt: skip


def test_parts_and_units_of_times_are_spark_s(spark):
    agree(spark, PARTS)


SECONDS = [Cases(edge.TIMES, each("EXTRACT(SECOND FROM {x})", x="ts ntz"))]


def test_extracted_seconds_are_spark_s(spark):
    agree(spark, SECONDS)


# The clocks differ, so what is compared is how the functions agree with each other.
CLOCK = [
    Cases(
        edge.TIMES,
        [
            "now() = current_timestamp()",
            "current_date() = curdate()",
            "current_date() = CAST(now() AS DATE)",
            "localtimestamp() = CAST(now() AS TIMESTAMP_NTZ)",
        ],
        zones=ZONES[:2],
    )
]


def test_the_functions_that_ask_for_the_time_agree_as_in_spark(spark):
    agree(spark, CLOCK)


def test_extracted_seconds_keep_their_fraction():
    moments = pa.array([1_500_000, -1, 59_999_999, None], TIMESTAMP)
    frame = Frame(4, {("", "ts"): moments})
    seconds = evaluate(call("extract second", [Column(TIMESTAMP, "ts")]), frame)
    expected = [Decimal("1.500000"), Decimal("59.999999"), Decimal("59.999999"), None]
    assert frame.array(seconds).to_pylist() == expected


def test_times_made_from_numbers_are_spark_s(spark):
    agree(spark, MAKING)


def test_writing_times_by_patterns_is_spark_s(spark):
    agree(spark, WRITING)


def test_reading_times_by_patterns_is_spark_s(spark):
    agree(spark, READING)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("YYYY", "the letter Y is not supported"),
        ("yyyyyyy", "yyyyyyy is longer than yyyyyy"),
        ("MMMMM", "MMMMM is longer than MMMM"),
        ("aa", "aa is longer than a"),
        ("yyyy#", "# is not supported"),
        ("[yyyy]", "[ is not supported"),
        ("\\'open", "a quote that is not closed"),
    ],
)
def test_a_pattern_outside_the_list_is_refused_when_written_by(pattern, reason):
    with pytest.raises(UnsupportedError) as refused:
        scalar(f"date_format(ts, '{pattern}')", HALF_HOURS.schema)
    assert refused.value.problem.endswith(f"cannot be used: {reason}")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("EEE d", "the letter E is not supported when reading"),
        ("D", "the letter D is not supported when reading"),
        ("yyyy y", "a field is there twice"),
        ("HH hh", "H and h exclude each other"),
        ("a", "a goes with h"),
        ("dM", "d and M have no fixed width and nothing between them"),
    ],
)
def test_a_pattern_outside_the_list_is_refused_when_read_by(pattern, reason):
    with pytest.raises(UnsupportedError) as refused:
        scalar(f"to_timestamp(s, '{pattern}')", READING[-1].table.schema)
    assert refused.value.problem.endswith(f"cannot be used: {reason}")


def test_an_unknown_zone_is_refused_with_the_nearest():
    with pytest.raises(UnsupportedError) as refused:
        scalar("from_utc_timestamp(ts, 'Europe/Berln')", HALF_HOURS.schema)
    assert refused.value.problem == "there is no time zone 'Europe/Berln'"
    assert refused.value.hint == "Did you mean Europe/Berlin?"


def test_text_is_not_taken_for_a_time():
    with pytest.raises(TypeMismatchError) as refused:
        scalar("hour('2024-01-01 05:00:00')", HALF_HOURS.schema)
    assert refused.value.problem == "expected TIMESTAMP, found STRING"
    assert refused.value.hint == "Write TIMESTAMP '2024-01-01 05:00:00'."


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("now()", "UTC", "2024-07-01 02:30:00+00:00"),
        ("current_timestamp()", "America/New_York", "2024-07-01 02:30:00+00:00"),
        ("current_date()", "UTC", "2024-07-01"),
        ("current_date()", "America/New_York", "2024-06-30"),
        ("localtimestamp()", "America/New_York", "2024-06-30 22:30:00"),
        ("unix_timestamp()", "America/New_York", "1719801000"),
    ],
)
def test_the_clock_is_the_round_s(text, zone, expected):
    frame = Frame(2, {}, context=Context(now_us=1_719_801_000_000_000, time_zone=zone))
    values = frame.array(evaluate(scalar(text, pa.schema([])), frame))
    assert [str(v) for v in values.to_pylist()] == [expected, expected]


# Europe/Berlin 2024: from 02:00 to 03:00 on 31 March the clocks skip, on 27 October they run twice
@pytest.mark.parametrize(
    ("local", "utc"),
    [
        ("2024-03-31T01:59:59", "2024-03-31T00:59:59"),
        ("2024-03-31T02:30:00", "2024-03-31T01:30:00"),  # never: moved forward, to 03:30
        ("2024-03-31T03:00:00", "2024-03-31T01:00:00"),
        ("2024-10-27T01:59:59", "2024-10-26T23:59:59"),
        ("2024-10-27T02:30:00", "2024-10-27T00:30:00"),  # twice: the earlier one
        ("2024-10-27T03:00:00", "2024-10-27T02:00:00"),
        ("2500-07-01T12:00:00", "2500-07-01T10:00:00"),  # the rules go on
        ("1800-01-01T00:53:28", "1800-01-01T00:00:00"),  # local mean time
    ],
)
def test_wall_clock_times_become_instants_by_java_s_rules(local, utc):
    assert str(_us(to_utc, local)) == f"{utc}.000000"


def test_instants_become_wall_clock_times():
    moments = [
        "2024-03-31T00:59:59",
        "2024-03-31T01:00:00",
        "2024-10-27T00:30:00",
        "2024-10-27T01:30:00",
        "9999-12-31T00:00:00",
    ]
    shown = [
        "2024-03-31T01:59:59",
        "2024-03-31T03:00:00",
        "2024-10-27T02:30:00",
        "2024-10-27T02:30:00",
        "9999-12-31T01:00:00",
    ]
    assert [str(_us(to_local, m)) for m in moments] == [f"{s}.000000" for s in shown]


def _us(convert, moment: str) -> np.datetime64:
    return convert(np.array([moment], "datetime64[us]").view(np.int64), "Europe/Berlin").view(
        "datetime64[us]"
    )[0]


@pytest.mark.parametrize(
    ("name", "hours"),
    [("+02:00", 2), ("-8", -8), ("UTC+1", 1), ("GMT-03:30", -3.5), ("Z", 0), ("+053000", 5.5), ("EST", -5)],
)
def test_offsets_are_zones_too(name, hours):
    assert to_local(np.array([0]), name).tolist() == [hours * 3_600_000_000]


@pytest.mark.parametrize("name", ["", "nowhere", "utc", "+19:00", "Europe", "posix/UTC", "../UTC", "UTC1"])
def test_other_names_are_no_zones(name):
    with pytest.raises(LookupError):
        to_local(np.array([0]), name)


def test_every_zone_changes_its_offset_when_java_s_does(spark):
    # Zones whose rules are old enough to be the same in every release of the time zone data.
    names = [
        "Europe/Berlin",
        "America/New_York",
        "America/Los_Angeles",
        "Asia/Tokyo",
        "Australia/Sydney",
        "Europe/London",
        "Asia/Kathmandu",
    ]
    hours = np.arange(-2_208_988_800, 2_500_000_000, 3_600 * 37) * 1_000_000 + 1_800_000_000
    agree(
        spark,
        [
            Cases(
                pa.table({"us": hours}),
                each(
                    "unix_micros({f}(timestamp_micros(us), '{z}'))",
                    f="from_utc_timestamp to_utc_timestamp",
                    z=names,
                ),
            )
        ],
    )
