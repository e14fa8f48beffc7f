"""Plain text converted by Arrow is what the casts of SQL make of it, or is left to them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.expressions import Context
from eddyline.expressions.conversions import convert
from eddyline.model import Stream
from eddyline.sources import csv_rows, infer_schema
from eddyline.sources.csv_rows import CsvRows
from eddyline.sources.lines import Broken
from eddyline.sources.plain_text import plainly_converted
from tests.strategies import examples

PLAIN = {
    "TINYINT": ["0", "-7", "127"],
    "INT": ["12", "-3"],
    "BIGINT": ["9007199254740993", "-9223372036854775808"],
    "DOUBLE": ["0.1", "-3", "1e10", "4.9e-324"],
    "FLOAT": ["0.5"],
    "DECIMAL(6,2)": ["1.25"],
    "BOOLEAN": ["true"],
    "STRING": ["a", "ä"],
    "DATE": ["2024-02-29", "0001-01-01"],
    "TIMESTAMP": ["2024-01-05 10:00:00", "2024-03-31T02:30:00", "2024-10-27 02:30:00.5"],
    "TIMESTAMP_NTZ": ["2024-01-05 10:00:00.123456", "1890-01-01T00:00:00"],
}
ODD = [
    "", " ", " 1", "1 ", "+1", "0x1F", "0X1f", "-0x1", "1_0", "1.", ".5", "1e400", "1E5", "1d", "1.0f", "NaN", "nan", "inf",
    "-Infinity", "+inf", "00012", "-0", "-0.0", "128", "99999999999999999999", "1,5", "１", "true", "é", "1e-400",
    "2024-2-9", "2023-02-29", "0000-01-01", "9999-12-31", "10000-01-01", "-2024-01-01", "20240229", "2024-02-29 ",
    "2024-01-05T10:00:00Z", "2024-01-05 10:00:00z", "2024-01-05T10:00:00+02:00", "2024-01-05T10:00:00+02", "2024-01-05T10",
    "2024-01-05 10:00", "2024-01-05 24:00:00", "2024-01-05 10:00:60", "2024-01-05 10:00:00.1234567", "0001-01-01 00:00:00",
    "0000-12-31 23:59:59", "9999-12-31 23:59:59.999999", "2024-01-05 10:00:00 UTC", "2024-01-05 10:00:00Europe/Berlin",
    "2050-07-01 00:00:00", "2024-01-05T10:00:00.5Z", "1969-12-31 23:59:59.9",
]  # fmt: skip
NEARLY = st.text(st.sampled_from("0123456789+-.eExX :TZnaif_ "), max_size=12)
ZONES = ["UTC", "Europe/Berlin", "America/New_York"]


@st.composite
def columns(draw):
    declared = draw(st.sampled_from(sorted(PLAIN)))
    plain, odd = st.sampled_from(PLAIN[declared]), st.sampled_from(ODD) | NEARLY
    share = draw(st.sampled_from([0, 0, 4]))
    one = st.integers(0, 9).flatmap(lambda k: st.none() if k == 9 else odd if k < share else plain)
    return declared, draw(st.lists(one, min_size=1, max_size=6)), draw(st.sampled_from(ZONES))


def same_as_sql(texts, declared, time_zone):
    t, context = infer_schema(f"v {declared}").field(0).type, Context(time_zone=time_zone)
    plain = plainly_converted(pa.array(texts, pa.string()), t, context)
    if plain is None:
        return True
    judge = convert(pa.array(texts, pa.string()), t, context)
    assert not any(mask.any() for mask, _ in judge.problems), (texts, plain)
    assert plain.type == judge.values.type == t
    seen_as = pa.int64() if pa.types.is_timestamp(t) else t  # instants may lie beyond the years of Python
    assert repr(plain.view(seen_as).to_pylist()) == repr(judge.values.view(seen_as).to_pylist())
    return True


@examples(4)
@given(columns())
def test_what_is_converted_plainly_is_what_sql_casts_it_to(case):
    declared, texts, time_zone = case
    assert same_as_sql(texts, declared, time_zone)


@pytest.mark.parametrize("declared", sorted(PLAIN))
def test_every_odd_text_alone_and_beside_a_plain_one(declared):
    for time_zone in ZONES:
        for text in [*ODD, *(text for texts in PLAIN.values() for text in texts)]:
            assert same_as_sql([text], declared, time_zone)
            assert same_as_sql([PLAIN[declared][0], text], declared, time_zone)


@pytest.mark.parametrize(
    "declared", ["TINYINT", "BIGINT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"]
)
def test_plain_text_is_not_left_to_sql(declared):
    t = infer_schema(f"v {declared}").field(0).type
    assert (
        plainly_converted(pa.array([*PLAIN[declared], None]), t, Context(time_zone="Europe/Berlin"))
        is not None
    )


def test_a_slice_of_a_column_is_converted_by_itself():
    texts = pa.array(["0x1F", "12", "13"]).slice(1)
    assert same_as_sql(texts.to_pylist(), "INT", "UTC")
    found = plainly_converted(texts, pa.int32(), Context())
    assert found is None or found.to_pylist() == [12, 13]


ROWS = st.lists(
    st.sampled_from(
        [b"A,1.5,2024-01-05 10:00:00", b"B,,", b'"C, D",2,2024-01-05 10:00:00Z', b"E,dear,", b"F,1", b",1,", b"", b" \r",
         b"\xff,1,", b'"G\nH",3,', b"I,0x1,", b"J,1,2024-01-05 10:00:00\r", Broken(4, b'"xxx', "broken"), b"\x0b", b"K,NaN,noon"]
    ),
    max_size=8,
)  # fmt: skip


@given(ROWS, st.sampled_from([None, "offset"]))
def test_rows_with_and_without_plain_conversion_are_the_same(lines, stated):
    stream = Stream("s", infer_schema("sym STRING NOT NULL, price DOUBLE, ts TIMESTAMP"))
    places = None if stated is None else [f"offset {k}" for k in range(len(lines))]

    def outcome():
        found = CsvRows(stream, "Europe/Berlin", stream.schema.names).rows(lines, 1, "f", places)
        return repr(found.rows.to_pylist()), [repr(misfit) for misfit in found.misfits]

    plainly = outcome()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_rows, "plainly_converted", lambda texts, t, context: None)
        assert plainly == outcome()


def test_a_message_may_end_its_line_and_says_its_own_place():
    stream = Stream("s", infer_schema("a INT, b STRING"))
    found = CsvRows(stream, "UTC", ["a", "b"]).rows(
        [b"1,x\n", b"2,y\r\n", b"3", b"z,4\n"],
        1,
        "t",
        [f"topic t, partition 1, offset {k}" for k in range(4)],
    )
    assert found.rows.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert [misfit.message for misfit in found.misfits] == [
        "the row has 1 fields, expected 2 (topic t, partition 1, offset 2)",
        "column a: 'z' is not INT (topic t, partition 1, offset 3)",
    ]
