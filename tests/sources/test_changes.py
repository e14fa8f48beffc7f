"""Rows of a keyed stream: which stand, which delete, which say nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from eddyline.errors import SchemaError
from eddyline.model import Stream
from eddyline.sources import IngestedRows
from eddyline.sources.changes import as_changes, effects_of, ingest_changes
from eddyline.stream_properties import checked_join_properties
from eddyline.types import BIGINT, BOOLEAN, STRING

SCHEMA = pa.schema([("id", BIGINT), ("name", STRING), ("gone", BOOLEAN), ("ts", BIGINT)])


def stream(schema: pa.Schema = SCHEMA, **properties: str) -> Stream:
    return Stream("users", schema, time="ts", key=("id",), properties=tuple(properties.items()))


def batch(schema: pa.Schema, *rows: tuple[Any, ...]) -> pa.RecordBatch:
    columns = [pa.array([row[k] for row in rows], f.type) for k, f in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def test_a_row_deletes_where_its_flag_is_true():
    rows = batch(SCHEMA, (1, "a", False, 0), (2, "b", True, 0), (3, "c", None, 0))
    assert effects_of(stream(delete="GONE"), rows).is_delete.tolist() == [False, True, False]


def test_without_a_rule_every_row_stands():
    rows = batch(SCHEMA, (1, None, True, 0))
    effects = effects_of(stream(), rows)
    assert (effects.is_delete.tolist(), effects.says_nothing.tolist()) == ([False], [False])


def test_a_row_with_nothing_but_its_key_and_time_deletes_if_the_stream_says_so():
    rows = batch(SCHEMA, (1, None, None, None), (2, None, None, 7), (3, None, False, 7), (4, "d", None, 7))
    assert effects_of(stream(delete="null"), rows).is_delete.tolist() == [True, True, False, False]
    assert not effects_of(stream(), rows).is_delete.any()


def test_a_stream_of_keys_alone_deletes_nothing_by_null():
    keys = pa.schema([("id", BIGINT), ("ts", BIGINT)])
    assert not effects_of(stream(keys, delete="null"), batch(keys, (1, 2))).is_delete.any()


def test_delete_by_null_is_a_property_of_keyed_streams():
    assert checked_join_properties(stream(delete="null")) == stream(delete="null")
    with pytest.raises(SchemaError, match="no column nil"):
        checked_join_properties(stream(delete="nil"))


FEED = pa.schema([("id", BIGINT), ("name", STRING), ("_change_type", STRING)])


def test_a_declared_change_type_says_what_a_row_does():
    rows = batch(
        FEED,
        (1, "a", "insert"),
        (1, "a", "update_preimage"),
        (1, "b", "update_postimage"),
        (1, "b", "delete"),
        (2, "c", None),
        (3, "d", "merge"),
    )
    effects = effects_of(Stream("users", FEED, key=("id",)), rows)
    assert effects.is_delete.tolist() == [False, False, False, True, False, False]
    assert effects.says_nothing.tolist() == [False, True, False, False, False, True]
    expected = "insert, update_postimage, update_preimage, delete"
    assert effects.wrong == {5: f"_change_type is 'merge', which is none of {expected}"}


PLAIN = Stream("users", pa.schema([("id", BIGINT), ("name", STRING)]), key=("id",))


def deletes(taken: IngestedRows) -> list[bool]:
    assert taken.is_delete is not None
    return taken.is_delete.tolist()


def test_a_change_feed_is_taken_in_the_order_of_its_commits_without_its_own_columns():
    data = pa.table(
        {
            "id": [1, 1, 1, 2],
            "name": ["b", "b", "a", "c"],
            "_change_type": ["update_postimage", "delete", "update_preimage", "insert"],
            "_commit_version": [5, 9, 5, 1],
            "_commit_timestamp": pa.array([0, 0, 0, 0], pa.timestamp("us")),
        }
    )
    taken = ingest_changes(PLAIN, data, "UTC")
    assert taken.rows.schema == PLAIN.schema
    assert taken.rows.to_pylist() == [
        {"id": 2, "name": "c"},
        {"id": 1, "name": "b"},
        {"id": 1, "name": "b"},
    ]
    assert deletes(taken) == [False, False, True]


def test_change_records_may_come_as_dicts_or_columns():
    rows = [
        {"id": 1, "name": "a", "_change_type": "insert", "_commit_timestamp": "2026-01-01"},
        {"id": 1, "name": "a", "_change_type": "delete", "_commit_timestamp": "2026-01-02"},
    ]
    taken = ingest_changes(PLAIN, rows, "UTC")
    assert (taken.misfits, deletes(taken)) == ([], [False, True])
    columns = {"id": [1, 2], "name": ["a", None], "__op": ["c", "d"], "__deleted": ["false", "true"]}
    taken = ingest_changes(PLAIN, columns, "UTC")
    assert taken.rows.to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert deletes(taken) == [False, True]


def test_data_that_is_no_change_feed_is_ingested_as_ever():
    for data in (pa.table({"id": [1], "name": ["a"]}), [(1, "a")], {"id": 1, "name": "a"}):
        taken = ingest_changes(PLAIN, data, "UTC")
        assert taken.rows.to_pylist() == [{"id": 1, "name": "a"}]
        assert deletes(taken) == [False]


def test_a_record_of_an_unknown_kind_is_a_misfit_and_costs_no_other():
    data = pa.table({"id": ["1", "2"], "name": ["a", "b"]}).set_column(0, "id", pa.array([1, 2]))
    data = data.append_column("__op", pa.array(["t", "c"])).append_column("_arrival", pa.array([7, 3]))
    taken = ingest_changes(PLAIN, data, "UTC")
    assert taken.rows.to_pylist() == [{"id": 2, "name": "b"}]
    assert taken.arrival is not None
    assert taken.arrival.tolist() == [3]
    assert [(m.row["id"], m.message, m.error) for m in taken.misfits] == [
        (1, "__op is 't', which is none of c, r, u, d", "UNKNOWN_CHANGE_TYPE")
    ]
    assert deletes(taken) == [False]


def test_a_value_that_does_not_fit_leaves_the_effects_of_others_where_they_belong():
    rows = [
        {"id": "x", "name": "a", "_change_type": "insert"},
        {"id": 2, "name": "b", "_change_type": "delete"},
    ]
    taken = ingest_changes(PLAIN, rows, "UTC")
    assert (len(taken.misfits), taken.rows.num_rows, deletes(taken)) == (1, 1, [True])


def test_rows_in_the_schema_of_a_stream_become_changes_once():
    schema = pa.schema([("id", BIGINT), ("_change_type", STRING), ("_commit_version", BIGINT)])
    declared = Stream("users", schema, key=("id",))
    rows = batch(schema, (1, "delete", 2), (1, "insert", 1), (2, "update_preimage", 1), (3, "gone", 1))
    taken = as_changes(declared, IngestedRows(rows))
    assert taken.rows.column("id").to_pylist() == [1, 1]
    assert deletes(taken) == [False, True]
    assert [m.error for m in taken.misfits] == ["UNKNOWN_CHANGE_TYPE"]
    assert as_changes(declared, taken) is taken
