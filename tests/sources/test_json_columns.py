"""Lines of JSON read as columns give exactly what reading them row by row gives."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eddyline.model import Stream
from eddyline.sources import infer_schema, json_lines
from eddyline.sources.json_lines import JsonLines
from eddyline.sources.lines import Broken
from tests.strategies import examples

TOKENS = {
    "BOOLEAN": ["true", "false", "1", '"true"'],
    "TINYINT": ["0", "-0", "127", "128", "-128", "1.0", "1e2", '"5"'],
    "INT": ["7", "-3", "2147483647", "2147483648", "7.0", "7.5", "1E1", "true", "NaN", "9" * 5000],
    "BIGINT": ["9007199254740993", "9223372036854775807", "9223372036854775808", "1e18", "0.0"],
    "FLOAT": ["0.1", "16777216", "16777217", "16777217.0", "1e39", "1e-46", "1.00000017881393432617187499"],
    "DOUBLE": ["0.1", "5", "-0.0", "9007199254740992", "9007199254740993", "9007199254740993.0", "1e308", "1e400",
               "NaN", "-NaN", "Infinity", "-Infinity", "Inf", "4.9e-324", "1e-400", '"1"', "1" + "0" * 400],
    "STRING": ['"a"', '"ä"', '"\\u00e4\\n\\"\\/"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00"', '"x\\u0000y"',
               '"\t"', '""', "5", '"}\\n{"', '"{"', '"} {"'],
    "BINARY": ['"AP8="', '"AP8"', '"no!"', '""', '"ä"', "5"],
    "DECIMAL(6,2)": ["1.25", "100", "9999.99", "10000", "1.250", "1.255", "1e2", "1e-2", '"1.5"', '" 1.5"', '"1_0"',
                     '"+.5"', '"NaN"', "NaN", "1e4000", "-0.00", "true", "1e-1000000000", '"1e-99"',
                     '"1\\u0065-1000000000"', "0e-1000000000", "1.25" + "0" * 40],
    "DATE": ['"2024-02-29"', '"2023-02-29"', '"0001-01-01"', '"0000-01-01"', '"9999-12-31"', '"20240229"',
             '"2024-W01-1"', '" 2024-02-29"', "20240229", '"2024-02-29T00:00:00"'],
    "TIMESTAMP": ['"2024-01-05T10:00:00Z"', '"2024-01-05 10:00:00"', '"2024-01-05T10:00:00.5+02:00"', '"2024-01-05"',
                  '"2024-01-05T10:00:00.1234567Z"', '"2024-01-05 10:00:00.123456789"', '"1969-12-31T23:59:59.9999999Z"',
                  '"0001-01-01T00:00:00Z"', '"0001-01-01T00:00:00+10:00"', '"9999-12-31T23:59:59.999999Z"',
                  '"0000-01-01T00:00:00Z"', '"2024-03-31 02:30:00"', '"2024-10-27 02:30:00"', '"1890-01-01 00:00:00"',
                  '"2050-07-01 00:00:00"', '"2024-01-05T24:00:00"', '"2024-01-05T10:00:60Z"', '"20240105T100000Z"',
                  '"2024-01-05x10:00"', '"2024-01-05T10"', '"noon"', '""', "1704448800", '"2024-01-05T10:00:00-00:00"'],
    "ARRAY<BIGINT>": ["[]", "[1, null, 3]", "[1.5]", "[1.0]", '["1"]', "{}", '"ab"', "[[1]]", "[true]"],
    "ARRAY<DOUBLE>": ["[0.5]", "[9007199254740993, 1]", "[NaN]", "[true]", "[null]"],
    "STRUCT<x: INT, y: STRING>": ["{}", '{"x": 1, "y": "a"}', '{"x": 1, "X": 2}', '{"x": 1, "x": 2}', '{"z": 1}',
                                  '{"x": 1.5}', "[]", '{"y": null}', '{"x": {"x": 1}}'],
    "MAP<STRING, INT>": ['{"a": 1}', "[]", "[null]", '["a"]', '[["a", 1]]', '[{"key": "a", "value": 1}]', "[[]]"],
    "ARRAY<MAP<STRING, INT>>": ['[{"a": 1}]', "[[null]]", "[null]"],
    "STRUCT<m: MAP<STRING, MAP<STRING, INT>>>": ['{"m": {"a": {"b": 1}}}', '{"m": {"a": [null]}}', '{"m": [null]}'],
    "ARRAY<TIMESTAMP>": ['["2024-01-05T10:00:00Z"]', "[]"],
}  # fmt: skip
TOKENS["TIMESTAMP_NTZ"] = TOKENS["TIMESTAMP"]
UNKNOWN = [
    "1", "2.5", "Inf", "NaN", "-0", "1e999", "9" * 400, "9" * 5000, '"a"', '"\\ud800"', "null", "true", "[]", "[1, NaN]", "{}",
    '{"x": {"y": [{"z": 1.5}]}}', '{"x": {"y": [{"z": "a"}]}}', '{"x": 1, "x": 2}', "[" * 20 + "]" * 20, "[" * 2000 + "]" * 2000,
]  # fmt: skip
ODD_LINES = [
    b"", b" \t\r", b"{", b"}", b"{}", b"[]", b"7", b"null", b"{}{}", b"{} {}", b'{"c0":', b'{"c0": {}', b'{"a": "}', b'"}{"',
    b"\xff", b'{"c0": "\xff"}', b"\xef\xbb\xbf{}", b"\xc2\xa0{}", b"\x0b{}", b"{}\x00", b"{},", b'{"c0": null,}',
    b'{"_arrival": null}', b'{"_arrival": 3}', b'{"_arrival": 3}', b'{"_arrival": 4}', b'{"\\u005farrival": 5}',
    b'{"\\u0063\\u0030": null}', b'{\n  "c1": null\n}', b'{}\n{}', b'{"c0" :null}', b"{'c0': null}", b"{}//", b'{"": 1}',
    Broken(9, b"{", "too long"),
]  # fmt: skip


@st.composite
def streams(draw):
    types = draw(st.lists(st.sampled_from(sorted(TOKENS)), min_size=1, max_size=4))
    nulls = draw(st.lists(st.booleans(), min_size=4, max_size=4))
    columns = ", ".join(f"c{k} {t}{'' if nulls[k] else ' NOT NULL'}" for k, t in enumerate(types))
    return types, Stream("s", infer_schema(columns))


@st.composite
def cases(draw):
    types, stream = draw(streams())
    lines = []
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.integers(0, 19)) == 0:
            lines.append(draw(st.sampled_from(ODD_LINES)))
            continue
        entries = []
        for k, t in enumerate(types):
            key = f"c{k}" if draw(st.integers(0, 15)) else draw(st.sampled_from([f"C{k}", "prize", "c0"]))
            # the first tokens of a type are its plainest
            plain = st.sampled_from([*TOKENS[t][:2], "null"])
            token = draw(plain if draw(st.integers(0, 7)) else st.sampled_from(TOKENS[t]))
            if draw(st.integers(0, 15)):
                entries.append(f'"{key}": {token}')
        for key in draw(st.lists(st.sampled_from(["more", "More", "C0", "\\ud800", "_Arrival"]), max_size=2)):
            tokens = TOKENS[draw(st.sampled_from(sorted(TOKENS)))]
            entries.append(f'"{key}": {draw(st.sampled_from([*tokens[:2], *UNKNOWN]))}')
        text = "{" + draw(st.sampled_from([", ", ",", " , "])).join(entries) + "}"
        lines.append((text + draw(st.sampled_from(["", "", "", "\r", " "]))).encode())
    return stream, draw(st.sampled_from(["UTC", "Europe/Berlin", "EST"])), lines


def outcome(decoder, lines, **options):
    found = decoder.rows(lines, 11, "f.json", **options)
    assert found.rows.schema.equals(decoder._stream.schema)
    found.rows.validate(full=True)
    arrival = None if found.arrival is None else found.arrival.tolist()
    columns = [c.view(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in found.rows.columns]
    return (
        repr([column.to_pylist() for column in columns]),
        arrival,
        [repr(misfit) for misfit in found.misfits],
        found.change,
    )


def row_by_row(stream, time_zone):
    decoder = JsonLines(stream, time_zone)
    decoder._columns = None
    return decoder


@pytest.fixture(autouse=True)
def any_number_of_lines(monkeypatch):
    monkeypatch.setattr(json_lines, "_LEAST", 1)


ONE = Stream("s", infer_schema("c0 STRING"))


@examples(4)
@given(cases())
@example((ONE, "UTC", [b'{"c0": "a"}', b'{"c0": "b"}{"c0": "c"}', b"", b'{"c0": "d"}']))
@example((ONE, "UTC", [b'{"c0": "a"', b"}", b'{"c0": "b"}{"c0": "c"}']))
@example((ONE, "UTC", [b'{"c0": "a"}\n{"c0": "b"}', b'{"c0": "c"}']))
@example((ONE, "UTC", [b'{"c0": "a"}', b'{"c0": "b", "_arrival": 3}']))
def test_columns_and_rows_give_the_same(case):
    stream, time_zone, lines = case
    assert outcome(JsonLines(stream, time_zone), lines) == outcome(row_by_row(stream, time_zone), lines)


@pytest.mark.parametrize("declared", sorted(TOKENS))
@pytest.mark.parametrize("time_zone", ["UTC", "Europe/Berlin"])
def test_every_value_by_itself_gives_the_same(declared, time_zone):
    stream = Stream("s", infer_schema(f"v {declared}"))
    for token in [*TOKENS[declared], "null", *(t for tokens in TOKENS.values() for t in tokens)]:
        lines = [f'{{"v": {token}}}'.encode()]
        assert outcome(JsonLines(stream, time_zone), lines) == outcome(
            row_by_row(stream, time_zone), lines
        ), token


@given(
    st.lists(st.datetimes(), min_size=1, max_size=8),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata"]),
)
def test_times_without_a_zone_are_those_of_the_session_in_any_year(times, time_zone):
    stream = Stream("s", infer_schema("ts TIMESTAMP, wall TIMESTAMP_NTZ"))
    lines = [json.dumps({"ts": str(at), "wall": at.isoformat()}).encode() for at in times]
    assert outcome(JsonLines(stream, time_zone), lines) == outcome(row_by_row(stream, time_zone), lines)


@given(st.lists(st.floats(width=64) | st.integers(), min_size=1, max_size=8))
def test_numbers_are_the_same_to_the_last_bit(numbers):
    stream = Stream("s", infer_schema("d DOUBLE, f FLOAT"))
    lines = [json.dumps({"d": number, "f": number}).encode() for number in numbers]
    assert outcome(JsonLines(stream, "UTC"), lines) == outcome(row_by_row(stream, "UTC"), lines)


def test_plain_lines_are_all_read_as_columns():
    stream = Stream(
        "s",
        infer_schema(
            "sym STRING NOT NULL, price DOUBLE, qty INT, paid DECIMAL(8,2), on_day DATE, ts TIMESTAMP, ok BOOLEAN, "
            "tags ARRAY<STRING>, at STRUCT<x: DOUBLE>, raw BINARY, small FLOAT"
        ),
    )
    line = (
        '{"SYM": "Ä", "price": 9.5, "qty": 100, "paid": 950.00, "on_day": "2026-01-05", "ts": "2026-01-05T09:30:00Z", '
        '"ok": true, "tags": ["a"], "at": {"x": 1}, "raw": "AP8=", "small": 0.5}'
    )
    decoder = JsonLines(stream, "Europe/Berlin")
    for ending in (b"", b"\r", b" "):
        assert decoder._read_as_columns([line.encode() + ending] * 3).rest == []
    (row,) = decoder.rows([line.encode()], 1, "f").rows.to_pylist()
    assert (row["sym"], row["tags"], row["raw"], str(row["ts"])) == (
        "Ä",
        ["a"],
        b"\0\xff",
        "2026-01-05 09:30:00+00:00",
    )


def test_a_line_that_does_not_fit_leaves_the_others_to_be_read_as_columns(monkeypatch):
    monkeypatch.setattr(json_lines, "_LEAST", 10)
    stream = Stream("s", infer_schema("n BIGINT NOT NULL, x DOUBLE"))
    lines = [f'{{"n": {k}, "x": 0.5}}'.encode() for k in range(1000)]
    lines[500], lines[700], lines[800] = b'{"n": "x"}', b'{"x": 1}', b'{"n": 1, "x": 1e300}'
    decoder = JsonLines(stream, "UTC")
    rest = decoder._read_as_columns(lines).rest
    assert {500, 700, 800} <= set(rest)
    assert len(rest) < 50
    assert outcome(decoder, lines) == outcome(row_by_row(stream, "UTC"), lines)
    assert decoder.rows(lines, 1, "f").rows.num_rows == 998


def test_messages_say_their_own_places():
    stream = Stream("s", infer_schema("n INT"))
    messages = [b'{"n": 1}', b'{\n  "n": 2\n}', b'{"n": "x"}', b"{", b"[]"]
    places = [f"topic t, partition 0, offset {k}" for k in (17, 18, 20, 21, 22)]
    found = JsonLines(stream, "UTC").rows(messages, 1, "t", places)
    assert found.rows.column("n").to_pylist() == [1, 2]
    assert [misfit.message for misfit in found.misfits] == [
        "the line is not JSON at column 2 (topic t, partition 0, offset 21)",
        "the line is an array, not an object (topic t, partition 0, offset 22)",
        "column n: 'x' is not INT (topic t, partition 0, offset 20)",
    ]
