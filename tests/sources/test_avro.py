"""Avro messages and files into rows: what fits, what does not and where it stood."""

from __future__ import annotations

import datetime
import io
import json
import struct
import sys
import uuid
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import SchemaError
from eddyline.model import Stream
from eddyline.sources import FileFormat, FolderSource, SourceError, infer_schema
from eddyline.sources.avro import AvroFile, UnreadableAvro, sql_schema, writer_schema
from eddyline.sources.payloads import decoder_for
from eddyline.sources.positions import FolderPosition
from eddyline.sources.schema_changes import SchemaChanged
from eddyline.types import DOUBLE, STRING

UTC = datetime.UTC
TRADE = {
    "type": "record",
    "name": "Trade",
    "fields": [{"name": "Sym", "type": "string"}, {"name": "price", "type": ["null", "double"]}],
}
TRADES = Stream("trades", infer_schema("sym STRING NOT NULL, price DOUBLE"))


def encoded(schema, *records) -> list[bytes]:
    messages = []
    for record in records:
        file = io.BytesIO()
        fastavro.schemaless_writer(file, fastavro.parse_schema(schema), record)
        messages.append(file.getvalue())
    return messages


def decoder(schema, stream=TRADES, **options):
    return decoder_for(FileFormat("avro", avro_schema=json.dumps(schema), **options), stream, "UTC")


def messages_of(found) -> list[str]:
    return [misfit.message for misfit in found.misfits]


# --------------------------------------------------------------------------------------------- messages


def test_a_record_is_a_row_and_names_do_not_regard_case():
    lines = encoded(TRADE, {"Sym": "A", "price": 9.5}, {"Sym": "B", "price": None})
    found = decoder(TRADE).rows(lines, 1, "t")
    assert found.misfits == []
    assert found.rows.to_pylist() == [{"sym": "A", "price": 9.5}, {"sym": "B", "price": None}]


def test_logical_types_become_those_of_sql():
    fields = {
        "id": {"type": "string", "logicalType": "uuid"},
        "ts": {"type": "long", "logicalType": "timestamp-micros"},
        "ms": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        "wall": {"type": "long", "logicalType": "local-timestamp-micros"},
        "day": {"type": "int", "logicalType": "date"},
        "paid": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
        "side": {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]},
        "code": {"type": "fixed", "name": "Code", "size": 2},
        "tags": {"type": "array", "items": ["null", "string"]},
        "at": {"type": "record", "name": "At", "fields": [{"name": "x", "type": "int"}]},
        "counts": {"type": "map", "values": "long"},
        "n": "int",
        "small": "float",
    }
    schema = {"type": "record", "name": "T", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    proposed, strange = sql_schema(writer_schema(json.dumps(schema)))
    assert strange == {}
    assert proposed.equals(
        infer_schema(
            "id STRING NOT NULL, ts TIMESTAMP NOT NULL, ms TIMESTAMP, wall TIMESTAMP_NTZ NOT NULL, day DATE NOT NULL, "
            "paid DECIMAL(8,2) NOT NULL, side STRING NOT NULL, code BINARY NOT NULL, tags ARRAY<STRING> NOT NULL, "
            "at STRUCT<x: INT> NOT NULL, counts MAP<STRING, BIGINT> NOT NULL, n INT NOT NULL, small FLOAT NOT NULL"
        )
    )
    row = {
        "id": "7ad07d70-38a3-45da-92a8-adebb3638c1a",
        "ts": datetime.datetime(2026, 1, 5, 9, 30, 0, 123456, UTC),
        "ms": datetime.datetime(2026, 1, 5, 9, 30, 0, 123000, UTC),
        "wall": datetime.datetime(2026, 1, 5, 9, 30),
        "day": datetime.date(2026, 1, 5),
        "paid": Decimal("12.50"),
        "side": "SELL",
        "code": b"\x00\xff",
        "tags": ["a", None],
        "at": {"x": 3},
        "counts": {"a": 1},
        "n": -1,
        "small": 0.5,
    }
    lines = encoded(schema, {**row, "id": uuid.UUID(row["id"])})
    found = decoder(schema, Stream("s", proposed)).rows(lines, 1, "t")
    assert found.misfits == []
    assert found.rows.to_pylist() == [{**row, "counts": [("a", 1)]}]


def test_records_that_do_not_fit_say_why_and_where():
    stream = Stream("s", infer_schema("n TINYINT, d DECIMAL(4,2), b BOOLEAN"))
    schema = {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "n", "type": "long"},
            {"name": "d", "type": "double"},
            {"name": "b", "type": ["boolean", "string"]},
        ],
    }
    lines = encoded(
        schema,
        {"n": 1, "d": 1.25, "b": True},
        {"n": 300, "d": 0.0, "b": True},
        {"n": 1, "d": 1.255, "b": False},
        {"n": 1, "d": 0.5, "b": "yes"},
    )
    places = [f"topic t, partition 0, offset {k}" for k in range(17, 23)]
    found = decoder(schema, stream).rows([*lines, b"", lines[0] + b"x"], 1, "t", places)
    assert found.rows.to_pylist() == [{"n": 1, "d": Decimal("1.25"), "b": True}]
    assert sorted(messages_of(found)) == [
        "column b: 'yes' is not BOOLEAN (topic t, partition 0, offset 20)",
        "column d: 1.255 is not DECIMAL(4,2) (topic t, partition 0, offset 19)",
        "column n: 300 is not TINYINT (topic t, partition 0, offset 18)",
        "the message is not a record of the schema: 1 bytes are left over (topic t, partition 0, offset 22)",
        "the message is not a record of the schema: it ends early (topic t, partition 0, offset 21)",
    ]
    assert {misfit.row["_bytes"] for misfit in found.misfits if misfit.error == "MESSAGE_CANNOT_BE_READ"} == {
        "",
        (lines[0] + b"x").hex(),
    }


@given(st.lists(st.binary(max_size=24), max_size=6))
def test_any_bytes_are_rows_or_dead_letters_never_more(lines):
    schema = {
        **TRADE,
        "fields": [*TRADE["fields"], {"name": "day", "type": {"type": "int", "logicalType": "date"}}],
    }
    found = decoder(schema, Stream("s", infer_schema("sym STRING, price DOUBLE, day DATE"))).rows(
        lines, 1, "t"
    )
    assert found.rows.num_rows + len(found.misfits) == len(lines)


def test_confluent_framing_is_skipped_and_other_schemas_are_dead_letters():
    (record,) = encoded(TRADE, {"Sym": "A", "price": 1.0})
    lines = [
        struct.pack(">bI", 0, 7) + record,
        struct.pack(">bI", 0, 8) + record,
        b"\x01" + record,
        b"\x00\x00",
    ]
    found = decoder(TRADE, framing="confluent", schema_id=7).rows(lines, 1, "t")
    assert found.rows.to_pylist() == [{"sym": "A", "price": 1.0}]
    assert messages_of(found) == [
        "the message is of schema 8, expected 7 (t, line 2)",
        "the message does not begin with a zero and the id of a schema (t, line 3)",
        "the message does not begin with a zero and the id of a schema (t, line 4)",
    ]


def test_records_may_have_arrival_numbers():
    schema = {**TRADE, "fields": [*TRADE["fields"], {"name": "_arrival", "type": "long"}]}
    lines = encoded(
        schema, *({"Sym": s, "price": 1.0, "_arrival": k} for s, k in (("B", 9), ("A", 3), ("C", 3)))
    )
    found = decoder(schema).rows(lines, 1, "t")
    assert (found.rows.column("sym").to_pylist(), found.arrival.tolist()) == (["A", "B"], [3, 9])
    assert messages_of(found) == ["_arrival 3 is there twice (t, line 3)"]


@pytest.mark.parametrize(
    ("schema", "options", "problem"),
    [
        ("{", {}, "the Avro schema is not JSON"),
        ('"string"', {}, "the Avro schema is not that of a record"),
        ('{"type": "record", "name": "T", "fields": []}', {}, "the Avro schema is not that of a record"),
        ('{"type": "record", "name": "T", "fields": [{"name": "sym", "type": "lung"}]}', {}, "the Avro schema cannot be used"),
        (json.dumps(TRADE).replace("price", "prize"), {}, "there is no column prize in stream trades"),
        (json.dumps(TRADE).replace("price", "SYM"), {}, "column SYM is there twice"),
        (json.dumps({**TRADE, "fields": TRADE["fields"][1:]}), {},
         "column sym is missing, and stream trades does not allow NULL there"),
        (None, {}, "messages of stream trades are Avro, and nothing says with which schema they were written"),
        (json.dumps(TRADE), {"framing": "confluent"},
         "messages of stream trades begin with the id of a schema, and nothing says which it is"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_used_is_refused_at_once(schema, options, problem):
    with pytest.raises(SchemaError) as refused:
        decoder_for(FileFormat("avro", avro_schema=schema, **options), TRADES, "UTC")
    assert refused.value.problem == problem


def test_what_sql_has_no_type_for_is_named():
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    fields = {
        "t": {"type": "int", "logicalType": "time-millis"},
        "u": ["string", "long"],
        "wide": ["int", "long", "null"],
        "number": ["int", "double"],
        "node": node,
        "nothing": "null",
        "again": "Node",
    }
    schema = {"type": "record", "name": "T", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    proposed, strange = sql_schema(writer_schema(json.dumps(schema)))
    assert strange == {
        "t": "time-millis",
        "u": "string or long",
        "node": "record",
        "nothing": "null",
        "again": "Node",
    }
    assert (proposed.field("wide").type, proposed.field("wide").nullable) == (pa.int64(), True)
    assert proposed.field("number").type == pa.float64()


def test_without_the_library_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(SourceError) as refused:
        decoder(TRADE)
    assert str(refused.value) == (
        'Avro needs the package fastavro\nhint: Install it: pip install "eddyline[avro]".'
    )


# --------------------------------------------------------------------------------------------- files

NUMBER = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}
NUMBERS = Stream("s", infer_schema("n INT"))


def write(path, numbers, **options):
    with open(path, "wb") as file:
        fastavro.writer(
            file, fastavro.parse_schema(NUMBER), [{"n": n} for n in numbers], sync_interval=8, **options
        )


def opened(folder, position=None):
    at = None if position is None else FolderPosition.from_json(position)
    return FolderSource(folder, FileFormat("avro"), NUMBERS, "UTC", position=at, poll_s=0.0, retry_s=0.0)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "snappy", "zstandard", "lz4"])
def test_files_are_read_however_they_are_compressed(tmp_path, codec):
    write(tmp_path / "a.avro", range(50), codec=codec)
    taken = opened(tmp_path).take(1000, 1 << 20)
    assert taken.rows.rows.column("n").to_pylist() == list(range(50))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_a_file_is_read_on_after_a_restart_at_any_place(tmp_path_factory, sizes):
    folder = tmp_path_factory.mktemp("in")
    write(folder / "a.avro", range(30))
    write(folder / "b.avro", range(30, 40))
    found, position = [], None
    for k in range(100):
        source = opened(folder, position)
        taken = source.take(sizes[k % len(sizes)], 1 << 20)
        source.close()
        if taken is None:
            break
        found += taken.rows.rows.column("n").to_pylist()
        position = taken.position
    assert found == list(range(40))


def test_records_of_a_file_that_do_not_fit_say_which_they_are(tmp_path):
    write(tmp_path / "a.avro", [1, 1 << 40, 3])
    taken = opened(tmp_path).take(1000, 1 << 20)
    assert taken.rows.rows.column("n").to_pylist() == [1, 3]
    assert messages_of(taken.rows) == ["column n: 1099511627776 is not INT (a.avro, record 2)"]


def test_a_damaged_file_gives_what_is_before_the_damage(tmp_path):
    write(tmp_path / "a.avro", range(50))
    data = (tmp_path / "a.avro").read_bytes()
    (tmp_path / "a.avro").write_bytes(data[: len(data) // 2 + 20])
    (tmp_path / "b.avro").write_bytes(b"not Avro")
    write(tmp_path / "c.avro", [100])
    source, numbers, misfits = opened(tmp_path), [], []
    for _ in range(12):
        taken = source.take(1000, 1 << 20)
        if taken is not None:
            numbers += taken.rows.rows.column("n").to_pylist()
            misfits += messages_of(taken.rows)
    n_read = len(numbers) - 1
    assert numbers == [*range(n_read), 100]
    assert 0 < n_read < 50
    assert misfits[0].startswith(
        f"file a.avro: the rest of it, after {n_read} rows, is set aside: damaged after record {n_read}: "
    )
    assert misfits[1].startswith("file b.avro: it is not Avro: ")


def test_a_file_whose_fields_are_not_columns_asks_for_them(tmp_path):
    with open(tmp_path / "a.avro", "wb") as file:
        fastavro.writer(file, fastavro.parse_schema(TRADE), [{"Sym": "A", "price": None}])
    with pytest.raises(SchemaChanged) as raised:
        opened(tmp_path).take(1000, 1 << 20)
    assert [(f.name, f.type) for f in raised.value.change.added] == [("Sym", STRING), ("price", DOUBLE)]


def test_something_else_is_not_avro():
    with pytest.raises(UnreadableAvro, match="it is not Avro"):
        AvroFile(io.BytesIO(b""))
