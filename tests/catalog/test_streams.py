"""How a stream's schema may change while queries read it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import eddyline
from eddyline.catalog.streams import evolved_stream
from eddyline.errors import SchemaError
from eddyline.model import Column, Condition, Input, ProjectedColumn, Shape, Stream


@pytest.fixture
def engine():
    engine = eddyline.open()
    engine.stream("s", "a INT, b STRING")
    return engine


def refused(engine, ddl: str, **options) -> str:
    with pytest.raises(SchemaError) as error:
        engine.stream("s", ddl, **options)
    return str(error.value)


def test_the_same_declaration_again_changes_nothing(engine):
    version = engine.version
    engine.stream("S", "a INT, b STRING")
    assert engine.version == version


def test_nullable_columns_may_be_added_and_known_ones_keep_their_order(engine):
    engine.query("SELECT * FROM s WHERE a > 0", name="q")
    handle = engine.stream("s", "c DOUBLE, b STRING, a INT")
    assert handle.schema.names == ["a", "b", "c"]
    engine.push("s", [{"a": 1, "b": "x", "c": 0.5}])
    assert engine.get("q").latest() == [{"a": 1, "b": "x"}]  # * is what it was when the query was registered
    assert engine.query("SELECT * FROM s").schema.names == ["a", "b", "c"]


def test_a_query_registered_after_the_change_sees_the_new_column_also_with_a_text_known_before(engine):
    engine.query("SELECT * FROM s", name="before")
    engine.stream("s", "a INT, b STRING, c INT")
    after = engine.query("SELECT * FROM s", name="after")
    engine.push("s", [(1, "x", 2)])
    assert after.latest() == [{"a": 1, "b": "x", "c": 2}]
    assert engine.get("before").latest() == [{"a": 1, "b": "x"}]


def test_a_change_that_breaks_queries_is_refused_naming_them(engine):
    engine.query("SELECT a FROM s", name="uses_a")
    engine.query("SELECT b FROM s WHERE b = 'x'", name="uses_b")
    assert refused(engine, "a BIGINT, b STRING") == (
        "stream s cannot change like this while queries need it\n"
        "detail: column a would turn from INT into BIGINT. Used by uses_a.\n"
        "hint: Drop or replace these queries first, or declare a new stream."
    )
    assert refused(engine, "c INT") == (
        "stream s cannot change like this while queries need it\n"
        "detail: column a would go; column b would go. Used by uses_a, uses_b.\n"
        "hint: Drop or replace these queries first, or declare a new stream."
    )
    engine.drop("uses_a")
    engine.stream("s", "a BIGINT, b STRING")
    engine.push("s", [(2**40, "x")])
    assert engine.get("uses_b").latest() == [{"b": "x"}]


def test_a_paused_query_counts_as_a_user(engine):
    engine.query("SELECT a FROM s", name="sleeping").pause()
    assert "Used by sleeping." in refused(engine, "b STRING")


def test_many_users_are_cut_short(engine):
    engine.query_many([f"SELECT a FROM s WHERE a > {n}" for n in range(12)])
    assert "Used by q1, q10, q11, q12, q2, q3, q4, q5, q6, q7 and 2 more." in refused(engine, "b STRING")


def test_a_column_cannot_be_added_as_not_null(engine):
    assert refused(engine, "a INT, b STRING, c INT NOT NULL") == (
        "column c cannot be added to stream s as NOT NULL\n"
        "detail: Rows that arrived before do not have it.\n"
        "hint: Declare it nullable."
    )


def test_unused_columns_may_go(engine):
    engine.query("SELECT a FROM s", name="q")
    engine.stream("s", "a INT")
    engine.push("s", [{"a": 5}])
    assert engine.get("q").latest() == [{"a": 5}]


def test_a_stream_with_queries_cannot_be_dropped(engine):
    engine.query("SELECT a FROM s", name="q")
    with pytest.raises(SchemaError) as error:
        engine.drop_stream("s")
    assert str(error.value) == (
        "stream s cannot be dropped while queries read it\ndetail: Used by q.\nhint: Drop these queries first."
    )
    engine.drop("q")
    engine.drop_stream("s")
    assert engine.streams() == []


def test_a_stream_declared_again_after_it_was_dropped_starts_anew(engine):
    engine.push("s", [(1, "x")])
    engine.drop_stream("s")
    handle = engine.stream("s", "z DOUBLE")
    assert (handle.n_rows, handle.schema) == (0, pa.schema([("z", pa.float64())]))
    engine.push("s", [(0.5,)])
    assert handle.n_rows == 1


def test_the_key_of_a_stream_cannot_change_while_queries_stand_on_it():
    schema = pa.schema([("a", pa.int32())])
    query = Shape("q", (Input("s", "s"),), (ProjectedColumn("a", Column(pa.int32(), "a")),), Condition(), ())
    with pytest.raises(SchemaError) as error:
        evolved_stream(Stream("s", schema, key=("a",)), Stream("s", schema), [("q", query)])
    assert str(error.value) == (
        "the key of stream s cannot change while queries read it\n"
        "hint: Drop these queries first, or declare a new stream."
    )
    assert evolved_stream(Stream("s", schema, key=("a",)), Stream("s", schema), []).key == ()
