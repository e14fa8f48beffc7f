"""Files whose columns are not those of their stream: what is added, what is NULL, what is set aside, and what is said of it."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import pickle
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.model import Stream
from eddyline.sources import FileFormat, FolderPosition, FolderSource, infer_schema
from eddyline.sources.json_lines import JsonLines
from eddyline.sources.kafka_messages import MessageRows
from eddyline.sources.reading import read
from eddyline.sources.references import UnreadableReference
from eddyline.sources.rows import may_hold, rows_in_schema
from eddyline.sources.schema_changes import (
    MOST_IGNORED,
    UNCHANGED,
    SchemaChange,
    SchemaChanged,
    change_of_header,
    shown_name,
    together,
)
from eddyline.sources.stdin import StdinLines
from eddyline.types import parse_type, type_name
from tests.written_files import write

TRADES = Stream("trades", infer_schema("sym STRING, price DOUBLE"))
TYPED = ["parquet", "arrow", "avro"]
MANY, BYTES = 1000, 1 << 30


class Folder:
    """A folder of files in one format, and the source that reads it."""

    def __init__(self, path: Path, format: str, stream: Stream = TRADES, position=None) -> None:
        self.path, self.format = path, format
        self.now = 0.0
        self.source = FolderSource(
            path, FileFormat(format), stream, "UTC", position=position, clock=lambda: self.now
        )

    def write(self, name: str, *rows: dict, **types: str) -> None:
        write(self.path, f"{name}.{self.format}", list(rows), **types)

    def take(self, max_rows: int = MANY):
        self.now += 10
        return self.source.take(max_rows, BYTES)

    def rows(self, max_rows: int = MANY) -> list[dict]:
        return self.take(max_rows).rows.rows.to_pylist()

    def references(self):
        self.now += 10
        return [pickle.loads(pickle.dumps(r)) for r in self.source.plan(MANY, BYTES).references]


@pytest.fixture(params=TYPED)
def typed(request, tmp_path) -> Folder:
    return Folder(tmp_path, request.param)


# --------------------------------------------------------------------------------------------- added


def test_a_file_with_a_new_column_is_not_read_before_the_stream_has_it(typed):
    typed.write("a", {"sym": "A", "price": 1.0})
    typed.write("b", {"sym": "B", "price": 2.0, "venue": "X", "n": 5})
    assert typed.rows() == [{"sym": "A", "price": 1.0}]
    for _ in range(2):
        with pytest.raises(SchemaChanged) as raised:
            typed.take()
        assert raised.value.change == SchemaChange(
            (pa.field("venue", pa.string()), pa.field("n", pa.int64())), {}, {}
        )
    typed.source.redeclare(Stream("trades", infer_schema("sym STRING, price DOUBLE, venue STRING, n BIGINT")))
    taken = typed.take()
    assert taken.rows.rows.to_pylist() == [{"sym": "B", "price": 2.0, "venue": "X", "n": 5}]
    assert taken.rows.change is UNCHANGED


def test_a_restart_before_the_stream_has_the_new_column_begins_at_the_same_file(typed):
    typed.write("a", {"sym": "A", "price": 1.0})
    typed.write("b", {"sym": "B", "price": 2.0, "venue": "X"})
    position = FolderPosition.from_json(json.loads(json.dumps(typed.take().position)))
    again = Folder(typed.path, typed.format, position=position)
    with pytest.raises(SchemaChanged, match="the columns of stream trades have changed at its source: venue"):
        again.take()


def test_a_reader_elsewhere_refuses_the_file_and_says_what_it_has(typed):
    typed.write("a", {"sym": "A", "price": 1.0, "venue": "X"})
    with pytest.raises(UnreadableReference) as raised:
        list(read(typed.references()[0], TRADES, "UTC"))
    assert raised.value.change == SchemaChange((pa.field("venue", pa.string()),))


def test_a_column_sql_has_no_type_for_is_passed_over_and_told(typed):
    noon = datetime.time(12)
    typed.write("a", {"sym": "A", "price": 1.0, "at": noon}, at="TIME")
    taken = typed.take()
    assert taken.rows.rows.to_pylist() == [{"sym": "A", "price": 1.0}]
    kind = "time-micros" if typed.format == "avro" else "time64[us]"
    assert taken.rows.change == SchemaChange(
        (), {}, {"at": f"it is {kind} in file a.{typed.format}, which no column of a stream can be"}
    )
    assert taken.rows.misfits == []


def test_a_column_without_any_value_or_type_is_nothing_to_talk_about(tmp_path):
    pq.write_table(pa.table({"sym": ["A"], "price": [1.0], "none": pa.nulls(1)}), tmp_path / "a.parquet")
    taken = Folder(tmp_path, "parquet").take()
    assert (taken.rows.rows.num_rows, taken.rows.change) == (1, UNCHANGED)


def test_nor_is_one_of_avro_that_is_always_null(tmp_path):
    fastavro = pytest.importorskip("fastavro")
    fields = [
        {"name": name, "type": t} for name, t in (("sym", "string"), ("price", "null"), ("none", "null"))
    ]
    with open(tmp_path / "a.avro", "wb") as file:
        fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, [{"sym": "A"}])
    taken = Folder(tmp_path, "avro").take()
    assert (taken.rows.rows.to_pylist(), taken.rows.change) == ([{"sym": "A", "price": None}], UNCHANGED)


def test_a_type_whose_names_a_catalog_cannot_hold_is_passed_over(tmp_path):
    odd = pa.array([{"a b": 1}], pa.struct([("a b", pa.int64())]))
    fine = pa.array([{"a": 1}], pa.struct([pa.field("a", pa.int64(), nullable=False)]))
    vague = pa.array([[]], pa.list_(pa.null()))
    columns = {"sym": ["A"], "price": [1.0], "odd": odd, "fine": fine, "vague": vague}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(SchemaChanged) as raised:
        Folder(tmp_path, "parquet").take()
    (added,) = raised.value.change.added
    assert (added.name, added.nullable) == ("fine", True)
    assert parse_type(type_name(added.type)) == added.type
    declared = Stream("trades", pa.schema([*TRADES.schema, added]))
    taken = Folder(tmp_path, "parquet", declared).take()
    assert taken.rows.rows.column("fine").to_pylist() == [{"a": 1}]
    assert list(taken.rows.change.ignored) == ["odd", "vague"]


def test_an_arrival_number_is_no_new_column(typed):
    typed.write("a", {"sym": "A", "price": 1.0, "_arrival": 8}, {"sym": "B", "price": 1.0, "_arrival": 7})
    taken = typed.take()
    assert (taken.rows.rows.column("sym").to_pylist(), taken.rows.arrival.tolist()) == (["B", "A"], [7, 8])
    assert taken.rows.change is UNCHANGED


# --------------------------------------------------------------------------------------------- missing


def test_a_column_that_is_gone_is_null_and_the_rows_say_so(typed):
    typed.write("a", {"SYM": "A"})
    taken = typed.take()
    assert taken.rows.rows.to_pylist() == [{"sym": "A", "price": None}]
    assert taken.rows.change == SchemaChange(
        (), {"price": f"trades.price is gone from file a.{typed.format}"}, {}
    )


def test_a_column_of_another_type_is_not_read_and_the_rows_say_so(typed):
    typed.write("a", {"sym": "A", "price": True})
    taken = typed.take()
    assert taken.rows.rows.to_pylist() == [{"sym": "A", "price": None}]
    why = f"is BOOLEAN in file a.{typed.format}, and was declared DOUBLE"
    assert taken.rows.change == SchemaChange((), {"price": f"trades.price {why}"}, {"price": f"it {why}"})
    assert taken.rows.misfits == []


def test_a_type_whose_values_fit_is_no_change(typed):
    typed.write("a", {"sym": "A", "price": 2})
    taken = typed.take()
    assert taken.rows.rows.to_pylist() == [{"sym": "A", "price": 2.0}]
    assert taken.rows.change is UNCHANGED


def test_a_value_that_does_not_fit_costs_its_row(typed):
    stream = Stream("numbers", infer_schema("n INT"))
    folder = Folder(typed.path, typed.format, stream)
    folder.write("a", {"n": 1}, {"n": 2**40})
    taken = folder.take()
    assert (taken.rows.rows.to_pylist(), len(taken.rows.misfits)) == ([{"n": 1}], 1)
    assert taken.rows.change is UNCHANGED


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"price": 1.0, "venue": "X"}, "column sym is missing, and stream trades does not allow NULL there."
         " trades.sym is gone from file a.{}."),
        ({"sym": True, "price": 1.0}, "column sym cannot be read, and stream trades does not allow NULL there."
         " trades.sym is BOOLEAN in file a.{}, and was declared STRING."),
    ],
)  # fmt: skip
def test_a_file_without_a_column_that_must_not_be_null_is_set_aside(typed, row, problem):
    strict = Stream("trades", infer_schema("sym STRING NOT NULL, price DOUBLE"))
    folder = Folder(typed.path, typed.format, strict)
    folder.write("a", row)
    folder.write("b", {"sym": "B", "price": 2.0})
    taken = folder.take()
    assert taken.rows.rows.to_pylist() == [{"sym": "B", "price": 2.0}]
    (misfit,) = taken.rows.misfits
    expected = f"file a.{typed.format}: {problem.format(typed.format)}"
    assert misfit.message == f"{expected} Mend the data, or declare the column without NOT NULL."


def test_rows_before_a_file_that_lacks_a_column_go_first_and_like_files_share_a_round(typed):
    typed.write("a", {"sym": "A", "price": 1.0})
    typed.write("b", {"sym": "B"})
    typed.write("c", {"sym": "C"})
    typed.write("d", {"sym": "D", "price": 4.0})
    taken = [typed.take() for _ in range(3)]
    assert [t.rows.rows.column("sym").to_pylist() for t in taken] == [["A"], ["B", "C"], ["D"]]
    assert [list(t.rows.change.missing) for t in taken] == [[], ["price"], []]
    whole = Folder(typed.path, typed.format)
    again = Folder(
        typed.path,
        typed.format,
        position=FolderPosition.from_json(json.loads(json.dumps(whole.take().position))),
    )
    assert [row["sym"] for row in again.rows()] == ["B", "C"]


def test_a_reader_elsewhere_gives_the_same_rows_and_says_the_same(typed):
    typed.write("a", {"sym": "A", "price": True}, {"sym": "B", "price": False})
    (found,) = read(typed.references()[0], TRADES, "UTC")
    here = typed.take().rows
    assert found.rows.equals(here.rows)
    assert found.change == here.change


def test_a_column_that_is_there_twice_sets_the_file_aside(tmp_path):
    schema = pa.schema([("sym", pa.string()), ("SYM", pa.string())])
    pq.write_table(
        pa.Table.from_arrays([pa.array(["A"]), pa.array(["B"])], schema=schema), tmp_path / "a.parquet"
    )
    (misfit,) = Folder(tmp_path, "parquet").take().rows.misfits
    assert misfit.message.startswith("file a.parquet: column SYM is there twice.")


# --------------------------------------------------------------------------------------------- text


def test_a_header_may_have_more_columns_and_fewer(tmp_path):
    folder = Folder(tmp_path, "csv")
    folder.write("a", {"sym": "A", "price": 1.0})
    folder.write("b", {"prise": 9, "Sym": "B"})
    assert folder.take().rows.change is UNCHANGED
    taken = folder.take()
    assert taken.rows.rows.to_pylist() == [{"sym": "B", "price": None}]
    assert taken.rows.change == SchemaChange(
        (),
        {"price": "trades.price is gone from file b.csv"},
        {"prise": "there is no such column in stream trades. Did you mean price?"},
    )


def test_a_header_without_a_column_that_must_not_be_null_sets_the_file_aside(tmp_path):
    folder = Folder(tmp_path, "csv", Stream("trades", infer_schema("sym STRING NOT NULL, price DOUBLE")))
    folder.write("a", {"price": 1.0})
    (misfit,) = folder.take().rows.misfits
    assert misfit.message.startswith(
        "file a.csv: column sym is missing, and stream trades does not allow NULL"
    )


def test_columns_stated_for_a_file_without_a_header_are_not_missing(tmp_path):
    (tmp_path / "a.csv").write_text("A\n")
    source = FolderSource(tmp_path, FileFormat("csv", ("sym",)), TRADES, "UTC")
    taken = source.take(MANY, BYTES)
    assert (taken.rows.rows.to_pylist(), taken.rows.change) == ([{"sym": "A", "price": None}], UNCHANGED)


@pytest.mark.parametrize("n", [1, 200])  # row by row, and as columns
def test_names_in_json_that_are_no_columns_are_passed_over_and_told(tmp_path, n):
    folder = Folder(tmp_path, "json")
    rows = [{"sym": "A", "venue": {"at": [k]}, "prise": None, "deep": 1.5} for k in range(n)]
    folder.write("a", *rows)
    folder.write("b", *[{"sym": "B"}] * n)
    taken = folder.take()
    assert taken.rows.rows.to_pylist() == [{"sym": s, "price": None} for s in "A" * n + "B" * n]
    hint = "there is no such column in stream trades. Declare it to use it."
    assert taken.rows.change == SchemaChange((), {}, {"deep": hint, "venue": hint})
    assert taken.rows.misfits == []


def test_an_array_of_json_is_no_other(tmp_path):
    (tmp_path / "a.json").write_text('[{"sym": "A", "venue": "X"}]')
    taken = Folder(tmp_path, "json").take()
    assert taken.rows.rows.to_pylist() == [{"sym": "A", "price": None}]
    assert list(taken.rows.change.ignored) == ["venue"]


def test_columns_of_json_are_read_as_fast_with_names_that_are_no_columns():
    decoder = JsonLines(TRADES, "UTC")
    lines = [json.dumps({"sym": "A", "more": {"x": k, "y": [k / 2]}}).encode() for k in range(1000)]
    assert decoder._read_as_columns(lines).rest == []


def test_no_more_names_are_told_than_anybody_would_read():
    lines = [json.dumps({"sym": "A", f"k{k}": 1}).encode() for k in range(MOST_IGNORED + 50)]
    decoder = JsonLines(TRADES, "UTC")
    first = decoder.rows(lines, 1, "f").change.ignored
    assert len(first) == MOST_IGNORED
    again = decoder.rows(lines[-1:], 1, "f").change.ignored
    assert again.keys() <= first.keys()
    many = [f"k{k}" for k in range(MOST_IGNORED + 50)]
    assert len(change_of_header(TRADES, ["sym", *many], "f").ignored) == MOST_IGNORED


def test_a_name_is_told_so_that_it_can_be_printed():
    assert shown_name("venue") == "venue"
    assert shown_name("a\nb\ud800") == r"'a\nb\ud800'"
    assert len(shown_name("x" * 5000)) == 101


def test_messages_of_a_topic_tell_the_same():
    class Message:
        def __init__(self, value: bytes) -> None:
            self.value = lambda: value

        key, topic, partition, offset = (
            (lambda self: None),
            (lambda self: "t"),
            (lambda self: 0),
            (lambda self: 7),
        )

    keyed = Stream("trades", infer_schema("sym STRING, price DOUBLE, _offset BIGINT"))
    found = MessageRows(FileFormat("json"), keyed, "UTC").rows(
        [Message(b'{"sym": "A", "venue": "X"}'), Message(b"{"), Message(b'{"sym": "B", "n": 1}')]
    )
    assert found.rows.column("sym").to_pylist() == ["A", "B"]
    assert (list(found.change.ignored), len(found.misfits)) == (["n", "venue"], 1)


def test_a_header_on_standard_input_is_one_too():
    source = StdinLines(io.BytesIO(b"sym,venue\nA,X\n"), FileFormat("csv"), TRADES, "UTC", every_s=0)
    taken = None
    for _ in range(1000):
        taken = taken or source.take(MANY, BYTES)
        time.sleep(0 if taken else 0.01)
    assert taken.rows.rows.to_pylist() == [{"sym": "A", "price": None}]
    assert taken.rows.change.missing == {"price": "trades.price is gone from standard input"}
    assert list(taken.rows.change.ignored) == ["venue"]


# --------------------------------------------------------------------------------------------- types


SAMPLES = {
    "BOOLEAN": [True, False],
    "INT": [0, 7],
    "BIGINT": [1, 2**40],
    "FLOAT": [1.0, 0.5],
    "DOUBLE": [1.0, 0.5],
    "STRING": ["a", "1.5", "2024-01-05"],
    "BINARY": [b"a", b"\xff"],
    "DATE": [datetime.date(2024, 1, 5)],
    "TIMESTAMP": [datetime.datetime(2024, 1, 5, tzinfo=datetime.UTC)],
    "TIMESTAMP_NTZ": [datetime.datetime(2024, 1, 5)],
    "DECIMAL(6,2)": [decimal.Decimal("1.00"), decimal.Decimal("1.25")],
    "ARRAY<INT>": [[1], [2, 3]],
    "STRUCT<x: INT>": [{"x": 1}, {}],
    "MAP<STRING, INT>": [{"x": 1}, {}],
}


@pytest.mark.parametrize("target", sorted(SAMPLES))
@pytest.mark.parametrize("source", sorted(SAMPLES))
def test_a_type_is_another_exactly_if_no_value_of_it_fits(target, source):
    stream = Stream("s", infer_schema(f"v {target}"))
    fitting = [len(rows_in_schema(stream, [{"v": v}], "UTC")[2]) == 0 for v in SAMPLES[source]]
    assert may_hold(parse_type(target), parse_type(source)) == any(fitting)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.just("why")), max_size=4))
def test_changes_together_miss_what_one_of_them_misses(parts):
    whole = together([SchemaChange(missing=part, ignored=part) if part else UNCHANGED for part in parts])
    assert whole.missing.keys() == {name for part in parts for name in part}
    assert whole.ignored == whole.missing
    assert (whole is UNCHANGED) == (not whole.missing)
