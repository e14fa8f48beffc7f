"""Lines of JSON and CSV into rows: what fits, what does not and where it stood."""

from __future__ import annotations

import csv
import datetime
import io
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import SchemaError
from eddyline.model import Stream
from eddyline.sources import infer_schema
from eddyline.sources.lines import Broken, LineCutter, LineQueue, RowCutter, n_lines
from eddyline.sources.payloads import CsvRows, JsonLines, unfit_for_csv

TRADES = Stream("trades", infer_schema("sym STRING NOT NULL, price DOUBLE, ts TIMESTAMP"))


def stream(ddl: str) -> Stream:
    return Stream("s", infer_schema(ddl))


def messages(ingested) -> list[str]:
    return [misfit.message for misfit in ingested.misfits]


# --------------------------------------------------------------------------------------------- lines


@given(st.lists(st.binary(max_size=12), max_size=12), st.lists(st.integers(1, 7), min_size=1, max_size=9))
def test_lines_are_the_same_however_the_bytes_are_cut(pieces, sizes):
    whole = b"\n".join(pieces)
    cutter, lines, at = LineCutter(), [], 0
    while at < len(whole):
        size = sizes[at % len(sizes)]
        lines += cutter.feed(whole[at : at + size])
        at += size
    lines += cutter.end()
    expected = whole.split(b"\n")
    assert lines == (expected[:-1] if expected[-1] == b"" else expected)


def test_a_line_that_is_too_long_is_kept_only_by_its_beginning():
    cutter = LineCutter(max_bytes=8)
    lines = [
        *cutter.feed(b"short\n0123456"),
        *cutter.feed(b"789\nnext\n0123456789"),
        *cutter.feed(b"\nlast"),
        *cutter.end(),
    ]
    assert lines == [
        b"short",
        Broken(10, b"0123456789", "the line is longer than 0 MB"),
        b"next",
        Broken(10, b"0123456789", "the line is longer than 0 MB"),
        b"last",
    ]


def test_a_queue_gives_lines_within_both_limits_but_at_least_one():
    queue = LineQueue()
    queue.add([b"aaaa", b"bb", b"cc", b"d"])
    assert queue.take(10, 3) == [b"aaaa"]
    assert queue.take(10, 4) == [b"bb", b"cc"]
    assert (len(queue), queue.nbytes) == (1, 1)


def test_a_csv_row_goes_on_while_a_quotation_mark_is_open():
    cutter = RowCutter()
    assert cutter.feed([b'a,"x', b'y ""z""', b'",1', b"b,2"]) == [b'a,"x\ny ""z""\n",1', b"b,2"]
    assert n_lines([b'a,"x\ny ""z""\n",1', b"b,2"]) == 4


def test_a_quotation_mark_inside_a_field_opens_nothing():
    assert RowCutter().feed([b'a 5" pipe,1', b"b,2"]) == [b'a 5" pipe,1', b"b,2"]


def test_a_quotation_mark_that_is_never_closed_costs_its_own_line_only():
    cutter = RowCutter()
    rows = cutter.feed([b'"open,1', b"b,2", b'"c","3"'])
    rows += cutter.end()
    assert rows == [Broken(7, b'"open,1', "a quotation mark is not closed"), b"b,2", b'"c","3"']


def test_a_quotation_mark_in_the_middle_of_a_field_in_quotation_marks_costs_its_line():
    assert RowCutter().feed([b'"a"b,1', b'"c",2\r', b'"d" ,3']) == [
        Broken(6, b'"a"b,1', "a quotation mark is where none can be"),
        b'"c",2\r',
        b'"d" ,3',
    ]


def test_an_overlong_line_ends_an_open_row():
    cutter, overlong = RowCutter(), Broken(99, b"zzz", "too long")
    rows = cutter.feed([b'"open', overlong, b"b,2"])
    assert rows == [Broken(5, b'"open', "a quotation mark is not closed"), overlong, b"b,2"]


fields = st.text(st.sampled_from('ab,;"\n \\é'), max_size=6)


@given(st.lists(st.lists(fields, min_size=2, max_size=2), max_size=8))
def test_what_the_csv_module_writes_is_read_back(rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    lines, cutter = LineCutter(), RowCutter()
    cut = cutter.feed([*lines.feed(text.getvalue().encode()), *lines.end()]) + cutter.end()
    decoder = CsvRows(stream("a STRING, b STRING"), "UTC", ["a", "b"])
    ingested = decoder.rows(cut, 1, "f.csv")
    assert ingested.misfits == []
    assert [list(row.values()) for row in ingested.rows.to_pylist()] == rows


# --------------------------------------------------------------------------------------------- JSON


def test_json_lines_become_rows_and_blank_lines_nothing():
    ingested = JsonLines(TRADES, "UTC").rows(
        [b'{"sym": "A", "price": 1, "ts": "2024-01-02T03:04:05Z"}\r', b"", b' {"SYM": "B"} '], 1, "f.json"
    )
    at = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert ingested.rows.to_pylist() == [
        {"sym": "A", "price": 1.0, "ts": at},
        {"sym": "B", "price": None, "ts": None},
    ]


def test_json_lines_that_cannot_be_rows_say_why_and_where():
    lines = [
        b"{",
        b"[1]",
        b"7",
        b"\xff",
        b'{"price": 1}',
        b'{"sym": "A", "price": "x"}',
    ]
    ingested = JsonLines(TRADES, "UTC").rows(lines, 11, "in.json")
    assert ingested.rows.num_rows == 0
    assert sorted(messages(ingested)) == [
        "column price: 'x' is not DOUBLE (in.json, line 16)",
        "column sym is NULL, which the stream does not allow (in.json, line 15)",
        "the line is a number, not an object (in.json, line 13)",
        "the line is an array, not an object (in.json, line 12)",
        "the line is not JSON at column 2 (in.json, line 11)",
        "the line is not UTF-8 (in.json, line 14)",
    ]
    assert {m.error for m in ingested.misfits if "line is" in m.message} == {"LINE_CANNOT_BE_READ"}


def test_a_decimal_keeps_digits_a_double_has_not():
    decoder = JsonLines(stream("d DECIMAL(30,20), x DOUBLE"), "UTC")
    ingested = decoder.rows([b'{"d": 0.12345678901234567891, "x": 0.5}', b'{"d": 1e2, "x": 1e2}'], 1, "f")
    assert ingested.misfits == []
    assert ingested.rows.to_pylist() == [
        {"d": Decimal("0.12345678901234567891"), "x": 0.5},
        {"d": Decimal("100.00000000000000000000"), "x": 100.0},
    ]


def test_binary_travels_as_base64():
    ingested = JsonLines(stream("b BINARY"), "UTC").rows([b'{"b": "AP8="}', b'{"b": "no!"}'], 1, "f")
    assert ingested.rows.to_pylist() == [{"b": b"\x00\xff"}]
    assert messages(ingested) == ["column b: 'no!' is not base64 (f, line 2)"]


def test_rows_with_their_own_arrival_numbers_are_put_in_order():
    lines = [b'{"sym": "B", "_arrival": 9}', b'{"sym": "A", "_arrival": 3}']
    ingested = JsonLines(TRADES, "UTC").rows(lines, 1, "f")
    assert ingested.arrival.tolist() == [3, 9]
    assert ingested.rows.column("sym").to_pylist() == ["A", "B"]


def test_a_row_without_a_number_of_its_own_is_set_apart_from_those_that_have_one():
    lines = [
        b'{"sym": "A", "_arrival": 3}',
        b'{"sym": "B"}',
        b'{"sym": "C", "_arrival": 3}',
        b'{"sym": "D", "_arrival": "x"}',
    ]
    ingested = JsonLines(TRADES, "UTC").rows(lines, 1, "f")
    assert ingested.rows.column("sym").to_pylist() == ["A"]
    assert messages(ingested) == [
        "_arrival is None, not a whole number as in the other rows (f, line 2)",
        "_arrival 3 is there twice (f, line 3)",
        "_arrival is 'x', not a whole number as in the other rows (f, line 4)",
    ]


def test_json_nested_too_deep_costs_its_line():
    ingested = JsonLines(TRADES, "UTC").rows([b"[" * 100_000, b'{"sym": "A"}'], 1, "f")
    assert ingested.rows.num_rows == 1
    assert messages(ingested) == ["the line is not JSON (f, line 1)"]


# --------------------------------------------------------------------------------------------- CSV


def test_csv_fields_are_read_as_sql_casts_text():
    decoder = CsvRows(
        stream("a INT, b BOOLEAN, c DECIMAL(5,2), d DATE, e TIMESTAMP, f STRING"), "UTC", list("abcdef")
    )
    ingested = decoder.rows([b' 7 ,yes,3.14,2024-02-29,2024-02-29 10:00:00,"x, y"', b',,,,,""'], 2, "f.csv")
    assert ingested.misfits == []
    assert ingested.rows.to_pylist() == [
        {
            "a": 7,
            "b": True,
            "c": Decimal("3.14"),
            "d": datetime.date(2024, 2, 29),
            "e": datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.UTC),
            "f": "x, y",
        },
        dict.fromkeys("abcde") | {"f": ""},
    ]


def test_a_time_without_zone_is_one_of_the_session():
    decoder = CsvRows(stream("ts TIMESTAMP"), "Europe/Berlin", ["ts"])
    assert decoder.rows([b"2024-07-01 12:00:00"], 1, "f").rows.to_pylist() == [
        {"ts": datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.UTC)}
    ]


def test_csv_rows_that_do_not_fit_say_why_and_where():
    decoder = CsvRows(TRADES, "UTC", ["sym", "price"])
    lines = [b"A,1.5", b"B,dear", b"C", b",2", b"\xff,3", b'"D\nD",4', b"E,5,6", Broken(4, b'"xxx', "broken")]
    ingested = decoder.rows(lines, 2, "f.csv")
    assert ingested.rows.column("sym").to_pylist() == ["A", "D\nD"]
    assert sorted(messages(ingested)) == [
        "broken (f.csv, line 10)",
        "column price: 'dear' is not DOUBLE (f.csv, line 3)",
        "column sym is NULL, which the stream does not allow (f.csv, line 5)",
        "the line is not UTF-8 (f.csv, line 6)",
        "the row has 1 fields, expected 2 (f.csv, line 4)",
        "the row has 3 fields, expected 2 (f.csv, line 9)",
    ]


def test_csv_rows_may_have_arrival_numbers():
    decoder = CsvRows(stream("a INT"), "UTC", ["a", "_arrival"])
    ingested = decoder.rows([b"1,20", b"2,10", b"3,", b"4,20", b"5,x"], 1, "f")
    assert ingested.rows.column("a").to_pylist() == [2, 1]
    assert ingested.arrival.tolist() == [10, 20]
    assert messages(ingested) == [
        "_arrival is NULL (f, line 3)",
        "_arrival 20 is there twice (f, line 4)",
        "column _arrival: 'x' is not BIGINT (f, line 5)",
    ]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (["sym", "prize"], "there is no column prize in stream trades"),
        (["sym", "SYM"], "column SYM is there twice"),
        (["price"], "column sym is missing, and stream trades does not allow NULL there"),
    ],
)
def test_columns_that_cannot_be_those_of_the_stream_are_refused(columns, problem):
    with pytest.raises(SchemaError) as refused:
        CsvRows(TRADES, "UTC", columns)
    assert refused.value.problem == problem


def test_a_header_may_have_quotation_marks_and_another_delimiter():
    assert CsvRows.header(b'sym; price ;"a;b"\r', ";") == ["sym", "price", "a;b"]


def test_nested_columns_cannot_come_from_csv():
    assert unfit_for_csv(stream("a INT, b ARRAY<INT>, c STRUCT<x: INT>, d STRING")) == ["b", "c"]


def test_no_lines_are_no_rows():
    assert CsvRows(TRADES, "UTC", ["sym"]).rows([], 1, "f").rows.num_rows == 0
    assert JsonLines(TRADES, "UTC").rows([], 1, "f").rows.num_rows == 0
