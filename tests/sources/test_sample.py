"""What is proposed for a sample: types, time, notes, and that it can be declared so and read so."""

from __future__ import annotations

import datetime
import gzip
import io
import json

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import EddylineError
from eddyline.model import Stream
from eddyline.pipeline import load_pipeline
from eddyline.sources import infer_schema
from eddyline.sources.inference import guess_of_text, guess_of_values
from eddyline.sources.json_lines import JsonLines
from eddyline.sources.sample import SampleError, propose
from eddyline.sql import parse_statements
from eddyline.types import type_name
from tests.strategies import examples


def lines(*rows) -> io.BytesIO:
    return io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())


def types_of(proposal) -> dict[str, str]:
    return {c.name: type_name(c.type) + ("" if c.nullable else " NOT NULL") for c in proposal.columns}


# --------------------------------------------------------------------------------------------- guesses


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, None], "BIGINT"),
        ([1, 2.5], "DOUBLE"),
        ([2**63 - 1, -(2**63)], "BIGINT"),
        ([2**63], "DECIMAL(19,0)"),
        ([10**38], "DOUBLE"),
        ([True, None], "BOOLEAN"),
        (["2026-01-05", "2026-01-06"], "DATE"),
        (["2026-01-05", "2026-01-05 10:00:00"], "TIMESTAMP"),
        (["2026-01-05T10:00:00Z", "2026-01-05T10:00:00.123456789+02:00"], "TIMESTAMP"),
        (["2026-01-05T10:00:00Z", "later"], "STRING"),
        (["20260105"], "STRING"),
        (["1", "2"], "STRING"),
        ([[1, 2], []], "ARRAY<BIGINT>"),
        ([[1, 2.5, None]], "ARRAY<DOUBLE>"),
        ([["2026-01-05"]], "ARRAY<STRING>"),
        ([{"x": 1}, {"y": [True]}], "STRUCT<x: BIGINT, y: ARRAY<BOOLEAN>>"),
    ],
)
def test_json_values_have_the_type_spark_would_infer(values, expected):
    guess = guess_of_values(values)
    assert (type_name(guess.type), guess.note) == (expected, None)


@pytest.mark.parametrize(
    ("values", "expected", "note"),
    [
        ([None, None], "STRING", "always NULL here"),
        ([1, "a", "b"], "STRING", "numbers 1 times, text 2 times: rows where it is not text will not fit"),
        (
            [True, 1],
            "STRING",
            "numbers 1 times, truth values 1 times: rows where it is not text will not fit",
        ),
        ([[1, "a"]], "STRING", "lists that no one type holds: rows where it is not text will not fit"),
        ([{"a b": 1}], "STRING", "objects that no one type holds: rows where it is not text will not fit"),
        ([[], []], "ARRAY<STRING>", "always empty here"),
        ([{}], "MAP<STRING, STRING>", "always empty here"),
    ],
)
def test_values_without_one_type_are_noted(values, expected, note):
    guess = guess_of_values(values)
    assert (type_name(guess.type), guess.note) == (expected, note)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-2", None], "BIGINT"),
        (["1", "2.5", "1e3", "NaN"], "DOUBLE"),
        (["9223372036854775808"], "DECIMAL(19,0)"),
        (["true", "FALSE"], "BOOLEAN"),
        (["2026-01-05"], "DATE"),
        (["2026-01-05 10:00:00", "2026-01-05T10:00:00Z"], "TIMESTAMP"),
        (["0", "10"], "BIGINT"),
        (["01", "10"], "STRING"),
        (["1", "x"], "STRING"),
        ([" 1"], "STRING"),
    ],
)
def test_text_is_looked_at_for_what_it_could_be(texts, expected):
    assert type_name(guess_of_text(texts).type) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, width=32)
    | st.sampled_from(["2026-01-05", "2026-01-05 10:00:00", "2026-02-30", "a", ""]),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inside, max_size=3),
    max_leaves=6,
)  # fmt: skip
rows = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "c d", "é"]), json_values, max_size=4), min_size=1, max_size=6
)


@examples(2)
@given(rows)
def test_rows_fit_what_is_proposed_unless_it_is_said_that_they_do_not(sample):
    if not any(sample):
        with pytest.raises(SampleError, match="there is no row in standard input"):
            propose("s", lines(*sample))
        return
    proposal = propose("s", lines(*sample))
    declared = infer_schema(", ".join(column.ddl for column in proposal.columns))
    assert declared.equals(proposal.schema)
    found = JsonLines(Stream("s", declared), "UTC").rows(lines(*sample).read().splitlines(), 1, "f")
    assert len(found.misfits) == proposal.n_unfit
    assert not found.misfits or any(column.note for column in proposal.columns)


# --------------------------------------------------------------------------------------------- formats


def test_json_lines_columns_examples_and_the_only_timestamp_as_time():
    proposal = propose(
        "trades",
        lines(
            {"sym": "A", "price": 1, "ts": "2026-01-05T10:00:00Z"}, {"sym": "B", "price": 2.5, "qty": None}
        ),
    )
    assert types_of(proposal) == {"sym": "STRING", "price": "DOUBLE", "ts": "TIMESTAMP", "qty": "STRING"}
    assert [c.n_nulls for c in proposal.columns] == [0, 0, 1, 2]
    assert proposal.columns[0].examples == ("A", "B")
    assert (proposal.time, proposal.n_rows, proposal.n_unfit) == ("ts", 2, 0)


def test_what_looks_like_a_date_and_is_none_stays_text():
    proposal = propose("s", lines({"d": "2026-02-30"}))
    assert types_of(proposal) == {"d": "STRING"}
    assert proposal.columns[0].note == "1 of the values are not DATE, though they look like it"


def test_only_the_first_rows_are_looked_at():
    data = lines(*({"n": k} for k in range(50)), {"n": "x"})
    assert propose("s", data, n_rows=50).n_rows == 50


def test_a_json_array_in_a_file_with_a_mark_before(tmp_path):
    (tmp_path / "a.json").write_text('\ufeff[{"n": 1},\n {"n": 2}, 7]', encoding="utf-8")
    proposal = propose("s", tmp_path / "a.json")
    assert (types_of(proposal), proposal.n_rows, proposal.n_unfit) == ({"n": "BIGINT"}, 2, 1)


def test_csv_with_another_delimiter_quotation_marks_and_compression(tmp_path):
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write('id;zip;amount;on\n1;01234;2.5;2026-01-05\n"2";55555;;2026-01-06\n3;"x;\ny";1;\n9\n')
    proposal = propose("s", tmp_path)
    assert types_of(proposal) == {"id": "BIGINT", "zip": "STRING", "amount": "DOUBLE", "on": "DATE"}
    assert (proposal.format.name, proposal.format.delimiter) == ("csv", ";")
    assert (proposal.n_rows, proposal.n_unfit) == (3, 1)
    assert proposal.notes == (f"not a row: the row has 1 fields, expected 4 ({tmp_path}/a.csv.gz, line 6)",)


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_columns_say_their_types_themselves(tmp_path, format):
    schema = pa.schema(
        [pa.field("n", pa.uint8(), False), ("ts", pa.timestamp("ns", "UTC")), ("d", pa.decimal128(8, 2))]
    )
    table = pa.table(
        {"n": [1, 2], "ts": [datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC), None], "d": [None, None]},
        schema=schema,
    )
    path = tmp_path / f"a.{format}"
    if format == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_stream(path, schema) as writer:
            writer.write_table(table)
    for sample in (path, tmp_path, io.BytesIO(path.read_bytes())):
        proposal = propose("s", sample, file_format=format if format == "arrow" else None)
        assert types_of(proposal) == {"n": "SMALLINT NOT NULL", "ts": "TIMESTAMP", "d": "DECIMAL(8,2)"}
        assert proposal.time == "ts"


def test_avro_says_its_types_and_what_has_none(tmp_path):
    schema = {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "sym", "type": "string"},
            {"name": "price", "type": ["null", "float"]},
            {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
        ],
    }
    with open(tmp_path / "a.avro", "wb") as file:
        fastavro.writer(
            file, fastavro.parse_schema(schema), [{"sym": "A", "price": 0.5, "at": datetime.time(10)}]
        )
    proposal = propose("s", tmp_path / "a.avro")
    assert types_of(proposal) == {"sym": "STRING NOT NULL", "price": "FLOAT", "at": "STRING NOT NULL"}
    assert proposal.columns[2].note == "Avro has time-millis here, which SQL has no type for"
    assert propose("s", io.BytesIO((tmp_path / "a.avro").read_bytes())).format.name == "avro"


def test_a_folder_is_read_in_the_order_of_names_and_by_one_format(tmp_path):
    (tmp_path / "a.json").write_text("")
    (tmp_path / "b.json").write_text('{"n": 1}\n')
    (tmp_path / "c.json").write_text('{"n": 2.5}\n')
    (tmp_path / "d.csv").write_text("x\n1\n")
    (tmp_path / ".e.json").write_text('{"hidden": 1}\n')
    assert types_of(propose("s", tmp_path)) == {"n": "DOUBLE"}
    assert types_of(propose("s", tmp_path, n_rows=1)) == {"n": "BIGINT"}
    assert types_of(propose("s", tmp_path, file_format="csv")) == {"x": "BIGINT"}


# --------------------------------------------------------------------------------------------- as text


def test_both_texts_declare_the_same_stream(tmp_path):
    row = {
        "sym": "A",
        "odd name": 1,
        "at": {"x": [1.5]},
        "ts": "2026-01-05T10:00:00Z",
        "when": "2026-01-05",
        "größe": 1,
    }
    row |= {f"column_{k}": k for k in range(9)}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log").write_text(json.dumps(row) + "\n")
    proposal = propose("s", tmp_path / "in" / "a.log", time="TS")
    (tmp_path / "eddyline.toml").write_text(proposal.to_toml(tmp_path))
    (settings_,) = load_pipeline(tmp_path / "eddyline.toml").streams
    (statement,) = parse_statements(proposal.to_sql())
    for declared in (settings_.stream, statement.stream):
        assert declared.schema.equals(proposal.schema)
        assert declared.time == "ts"
    assert (settings_.source.format, settings_.source.glob) == ("json", "*.log")


def test_a_short_stream_stands_on_three_lines(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a;b\n1;x\n")
    assert propose("s", tmp_path / "in").to_toml(tmp_path) == (
        '[streams.s]\nschema = "a BIGINT, b STRING"\n'
        'source = { type = "files", path = "in", format = "csv", delimiter = ";" }\n'
    )
    assert propose("s", lines({"a": 1})).to_toml(tmp_path) == (
        '[streams.s]\nschema = "a BIGINT"\nsource = { type = "stdin", format = "json" }\n'
    )


# --------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("name", "content", "options", "problem"),
    [
        ("a.json", b"", {}, "there is no row in a.json\ndetail: It is empty.\nhint: Give data with some rows."),
        ("a.json", b"nope\n", {},
         "there is no row in a.json\ndetail: the line is not JSON (a.json, line 1)\nhint: Give data with some rows."),
        ("a.json", b"[{", {}, "a.json cannot be read\ndetail: element 1 is not JSON: Expecting property name"),
        ("a.csv", b"a,,c\n1,2,3\n", {},
         "column 2 of a.csv has no name\nhint: The first row has to name the columns; add names, or another first row."),
        ("a.csv", b"a,A\n1,2\n", {}, "column A is there twice\nhint: Names are not case-sensitive."),
        ("a.parquet", b"nope", {}, "a.parquet cannot be read"),
        ("a.avro", b"nope", {}, "a.avro cannot be read\ndetail: it is not Avro"),
        ("a.json.gz", b"nope", {}, "a.json.gz cannot be read"),
        ("a", b"\x00\xff\xfe", {},
         "it is not clear how a is written\nhint: Say it with --format: json, csv, parquet, arrow, avro."),
        ("a.json", b'{"n": 1.5}', {"time": "n"},
         "column n cannot be the time of stream s: it is DOUBLE\nhint: Time is a TIMESTAMP or TIMESTAMP_NTZ; or a number, with"),
        ("a.json", b'{"n": 1}', {"time": "m"}, "there is no column m in the data for s\nhint: Known: n."),
        ("a.json", b'{"a`b": 1}', {}, "'a`b' cannot be the name of a column\nhint: Rename it where the data is written."),
    ],
)  # fmt: skip
def test_data_of_which_nothing_can_be_said(tmp_path, monkeypatch, name, content, options, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EddylineError) as refused:
        propose("s", (tmp_path / name).relative_to(tmp_path), **options)
    assert str(refused.value).startswith(problem)


def test_a_folder_without_data_and_a_path_that_is_not_there(tmp_path):
    with pytest.raises(SampleError, match="there is nothing to look at in"):
        propose("s", tmp_path)
    with pytest.raises(SampleError, match="cannot be read"):
        propose("s", tmp_path / "nothing.json")
