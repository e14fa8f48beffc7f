"""Static tables: read whole, told apart by version, refused where they are wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import SchemaError
from eddyline.sources.formats import FileFormat
from eddyline.sources.positions import SourceError
from eddyline.sources.static_tables import StaticTable
from eddyline.types import BIGINT, DATE, DOUBLE, STRING

SCHEMA = pa.schema([("id", BIGINT), ("name", STRING)])


def rows(*pairs: tuple[int | None, str | None]) -> pa.Table:
    return pa.table(
        {"id": pa.array([a for a, _ in pairs], BIGINT), "name": pa.array([b for _, b in pairs], STRING)}
    )


def listed(table: StaticTable) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.load().rows.to_pylist()]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows", "csv", "json"])
def test_a_file_is_read_whole_with_its_own_columns_or_those_declared(tmp_path: Path, kind: str):
    data = rows((1, "a"), (2, None))
    path = tmp_path / f"users.{kind}"
    if kind == "parquet":
        pq.write_table(data, path)
    elif kind == "csv":
        path.write_text("id,name\n1,a\n2,\n")
    elif kind == "json":
        path.write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": null}\n')
    else:
        new = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
        with pa.OSFile(str(path), "wb") as sink, new(sink, data.schema) as writer:
            writer.write_table(data)
    assert listed(StaticTable("users", path)) == [(1, "a"), (2, None)]
    only_name = StaticTable("users", str(path), schema=pa.schema([("name", STRING)]))
    assert listed(only_name) == [("a",), (None,)]


def test_a_folder_is_all_of_its_files_in_the_order_of_their_names(tmp_path: Path):
    pq.write_table(rows((2, "b")), tmp_path / "part-2.parquet")
    pq.write_table(rows((1, "a")), tmp_path / "part-1.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-3.parquet.crc").write_text("?")
    (tmp_path / "notes.txt").write_text("?")
    assert listed(StaticTable("users", tmp_path)) == [(1, "a"), (2, "b")]


def test_names_of_folders_are_columns_of_parquet(tmp_path: Path):
    for day in ("2026-01-01", "2026-01-02"):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(rows((1, day)), tmp_path / f"day={day}" / "part.parquet")
    schema = SCHEMA.append(pa.field("day", STRING))
    found = StaticTable("users", tmp_path, schema=schema)
    assert listed(found) == [(1, "2026-01-01", "2026-01-01"), (1, "2026-01-02", "2026-01-02")]


def test_data_in_hand_is_a_table_too():
    assert listed(StaticTable("users", rows((1, "a")))) == [(1, "a")]
    with pytest.raises(SchemaError, match="int is no data for table users"):
        StaticTable("users", 7)


def test_values_become_those_of_the_declared_types(tmp_path: Path):
    (tmp_path / "days.csv").write_text("day;rate\n2026-01-01;1\n")
    schema = pa.schema([("day", DATE), ("rate", DOUBLE)])
    table = StaticTable(
        "days", tmp_path / "days.csv", schema=schema, file_format=FileFormat("csv", delimiter=";")
    )
    assert table.load().rows.schema == schema


# --------------------------------------------------------------------------------------------- versions


def test_a_version_changes_with_the_files_and_with_nothing_else(tmp_path: Path):
    pq.write_table(rows((1, "a")), tmp_path / "a.parquet")
    table = StaticTable("users", tmp_path)
    first = table.load()
    (tmp_path / "_SUCCESS").write_text("")
    assert table.version() == first.version
    pq.write_table(rows((2, "b")), tmp_path / "b.parquet")
    assert table.version() != first.version
    second = table.load()
    assert second.rows.num_rows == 2
    assert table.version() == second.version
    os.utime(tmp_path / "a.parquet", ns=(0, 12345))
    assert table.version() != second.version


def test_a_table_that_is_gone_cannot_be_read(tmp_path: Path):
    pq.write_table(rows((1, "a")), tmp_path / "a.parquet")
    table = StaticTable("users", tmp_path / "a.parquet")
    table.load()
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(SourceError, match=r"there is no a\.parquet for table users"):
        table.load()


def test_data_in_hand_has_the_version_of_its_content():
    one, same, other = (
        StaticTable("users", data).version()
        for data in (
            rows((1, "a"), (2, "b")),
            pa.concat_tables([rows((1, "a")), rows((2, "b"))]),
            rows((1, "b")),
        )
    )
    assert one == same != other


def test_with_a_key_a_change_deletes_the_keys_that_are_gone_and_brings_the_rest():
    table = StaticTable("users", rows(), key=["ID"])
    before = rows((1, "a"), (2, "b"), (3, "c")).to_batches()[0]
    after = rows((3, "C"), (4, "d"), (1, "a")).to_batches()[0]
    change = table.change(before, after)
    assert change.rows.column("id").to_pylist() == [2, 3, 4]
    assert change.is_delete.tolist() == [True, False, False]


def test_without_a_key_all_rows_go_and_all_rows_come():
    table = StaticTable("users", rows())
    before, after = rows((1, "a"), (1, "a")).to_batches()[0], rows((1, "a")).to_batches()[0]
    change = table.change(before, after)
    assert change.rows.column("id").to_pylist() == [1, 1, 1]
    assert change.is_delete.tolist() == [True, True, False]


def test_keys_are_equal_as_sql_has_it():
    schema = pa.schema([("x", DOUBLE)])
    table = StaticTable("t", pa.table({"x": [0.0]}), key=["x"])
    before = pa.record_batch({"x": [0.0, float("nan"), 1.0]}, schema=schema)
    after = pa.record_batch({"x": [-0.0, float("nan")]}, schema=schema)
    assert table.change(before, after).rows.column("x").to_pylist()[0] == 1.0
    with pytest.raises(SchemaError, match=r"table t has 2 rows with x = 0\.0"):
        StaticTable("t", pa.table({"x": [0.0, -0.0]}), key=["x"]).load()


_values = st.one_of(st.none(), st.sampled_from([0.0, -0.0, float("nan"), 1.5]))


@given(
    before=st.dictionaries(st.integers(0, 5), _values),
    after=st.dictionaries(st.integers(0, 5), _values),
)
def test_a_change_leads_from_any_version_to_any_other_and_leaves_alone_what_is_the_same(before, after):
    schema = pa.schema([("id", BIGINT), ("x", DOUBLE)])
    table = StaticTable("t", pa.table({"id": [0], "x": [0.0]}), key=["id"])
    old, new = (
        pa.record_batch({"id": list(rows), "x": list(rows.values())}, schema=schema)
        for rows in (before, after)
    )
    change = table.change(old, new)
    standing = dict(before)
    for row, is_delete in zip(change.rows.to_pylist(), change.is_delete.tolist(), strict=True):
        if is_delete:
            del standing[row["id"]]
        else:
            standing[row["id"]] = row["x"]
    assert {key: repr(x) for key, x in standing.items()} == {key: repr(x) for key, x in after.items()}
    same = {k for k, x in after.items() if k in before and repr(x) == repr(before[k])}
    assert not same & set(change.rows.column("id").to_pylist())


# --------------------------------------------------------------------------------------------- what is refused


def test_a_key_that_is_there_twice_is_shown():
    table = StaticTable("users", rows((1, "a"), (2, "b"), (1, "c")), key=["id"])
    with pytest.raises(SchemaError) as error:
        table.load()
    assert str(error.value) == (
        "table users has 2 rows with id = 1\n"
        "detail: 1 of its keys are there more than once.\n"
        "hint: Only one row of a key can stand: leave out the others, or choose another key."
    )


def test_a_key_that_is_null_is_refused():
    with pytest.raises(SchemaError, match="key column id of table users is NULL in 1 rows"):
        StaticTable("users", rows((None, "a"), (2, "b")), key=["id"]).load()


def test_a_key_that_is_no_column_is_refused():
    with pytest.raises(SchemaError, match="no column idd") as error:
        StaticTable("users", rows(), key=["idd"])
    assert error.value.hint == "Did you mean id?"


def test_columns_that_are_not_there_are_named(tmp_path: Path):
    (tmp_path / "a.csv").write_text("id,nme\n1,a\n")
    pq.write_table(pa.table({"id": [1], "nme": ["a"]}), tmp_path / "a.parquet")
    for file in ("a.csv", "a.parquet"):
        with pytest.raises(SchemaError, match="table users has no column name in its data"):
            StaticTable("users", tmp_path / file, schema=SCHEMA).load()


def test_a_row_that_does_not_fit_is_shown(tmp_path: Path):
    (tmp_path / "a.csv").write_text("id,name\n1,a\nx,b\n")
    with pytest.raises(SchemaError, match="a row of table users does not fit") as error:
        StaticTable("users", tmp_path / "a.csv", schema=SCHEMA).load()
    assert "'x'" in str(error.value)


def test_files_that_cannot_be_read_are_said_to_be(tmp_path: Path):
    (tmp_path / "a.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(SourceError, match="table users cannot be read") as error:
        StaticTable("users", tmp_path / "a.parquet", schema=SCHEMA).load()
    assert str(tmp_path) not in str(error.value)
    (tmp_path / "b.csv").write_text("id\n1\n")
    with pytest.raises(SourceError, match="in several ways: csv, parquet"):
        StaticTable("users", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="there is no file in empty"):
        StaticTable("users", tmp_path / "empty")
    (tmp_path / "data.bin").write_text("")
    with pytest.raises(SourceError, match=r"data\.bin of table users does not say how it is written"):
        StaticTable("users", tmp_path / "data.bin")


def test_files_that_change_while_they_are_read_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "a.parquet"
    pq.write_table(rows((1, "a")), path)
    table = StaticTable("users", path)
    read, n_reads = table._read, 0

    def disturbed(until: int):
        nonlocal n_reads
        n_reads += 1
        found = read()
        if n_reads <= until:
            os.utime(path, ns=(0, n_reads))
        return found

    monkeypatch.setattr(table, "_read", lambda: disturbed(1))
    assert table.load().rows.num_rows == 1
    assert n_reads == 2
    monkeypatch.setattr(table, "_read", lambda: disturbed(99))
    with pytest.raises(SourceError, match="changed while it was read"):
        table.load()
