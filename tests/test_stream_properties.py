"""What streams say of themselves for joins, in Python and in SQL."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from eddyline import types
from eddyline.errors import EddylineError, PropertyError, SchemaError
from eddyline.model import Stream, Window
from eddyline.sql import CreateStream, parse_statements
from eddyline.stream_properties import (
    checked_join_properties,
    delete_column,
    idle_us,
    read_window,
    window_of,
    with_join_properties,
)
from tests.sql.join_streams import stream

MINUTE = 60_000_000


def declared(properties: str, columns: str = "sym STRING, ts TIMESTAMP") -> Stream:
    (found,) = parse_statements(f"CREATE TABLE s ({columns}) TBLPROPERTIES ({properties})")
    assert isinstance(found, CreateStream)
    return found.stream


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("100 rows", Window(n_rows=100)),
        ("1 ROW", Window(n_rows=1)),
        ("10 minutes", Window(duration_us=10 * MINUTE)),
        ("1 hour 30 seconds", Window(duration_us=60 * MINUTE + 30_000_000)),
    ],
)
def test_a_window_is_a_number_of_rows_or_a_duration(text: str, window: Window) -> None:
    assert window_of(declared(f"time='ts', window='{text}'")) == window


def test_a_stream_that_says_nothing_has_no_window_and_is_waited_for() -> None:
    plain = declared("time='ts'")
    assert (window_of(plain), idle_us(plain), delete_column(plain)) == (None, None, None)


def test_the_words_of_sql_and_python_are_the_same() -> None:
    said = declared("time='ts', WINDOW='10 minutes', idle='1 minute'")
    given = with_join_properties(stream("s"), window=timedelta(minutes=10), idle="60 seconds")
    assert (window_of(said), idle_us(said)) == (Window(duration_us=10 * MINUTE), MINUTE)
    assert given.properties == (("window", "10 minutes"), ("idle", "1 minute"))
    assert with_join_properties(stream("s"), window=100).properties == (("window", "100 rows"),)
    assert with_join_properties(stream("s")) == stream("s")


def test_the_delete_column_is_spelt_as_in_the_schema() -> None:
    found = declared("delete='GONE'", "sym STRING PRIMARY KEY, Gone BOOLEAN")
    assert delete_column(found) == "Gone"
    assert delete_column(with_join_properties(stream("q", key=("sym",)), delete="Gone")) == "gone"


@pytest.mark.parametrize(
    "value", ["soon", "10", "0 rows", "0 minutes", "-1 rows", "1.5 rows", 2.5, True, 0, None]
)
def test_what_is_no_window_is_refused(value: Any) -> None:
    with pytest.raises(PropertyError) as refused:
        read_window(value)
    assert refused.value.hint == (
        "Write a number of rows such as '100 rows', or a duration such as '10 minutes'."
    )


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (stream("s", window="soon"), "stream s: property window: 'soon' is not a window"),
        (stream("s", window="0 rows"), "stream s: property window: '0 rows' is an empty window"),
        (stream("s", key=("sym",), window="5 rows"), "stream s has a key and a window"),
        (stream("s", idle="soon"), "stream s: property idle: 'soon' is not a duration"),
        (stream("s", idle="0 s"), "stream s: property idle: '0 s' is no time at all"),
        (stream("s", time=None, idle="1 minute"), "stream s has an idle time but no time"),
        (stream("s", delete="gone"), "stream s deletes by gone but has no key"),
    ],
)
def test_properties_that_make_no_sense_are_refused(one: Stream, problem: str) -> None:
    with pytest.raises(PropertyError) as refused:
        checked_join_properties(one)
    assert refused.value.problem == problem
    assert refused.value.hint


@pytest.mark.parametrize(
    ("name", "problem", "hint"),
    [
        ("goen", "stream s has no column goen, by which its rows are deleted", "Did you mean gone?"),
        (
            "price",
            "column price cannot delete rows of stream s: it is DOUBLE",
            "Name a BOOLEAN column; rows in which it is true delete the row of their key.",
        ),
    ],
)
def test_rows_are_deleted_by_a_boolean_column(name: str, problem: str, hint: str) -> None:
    with pytest.raises(SchemaError) as refused:
        with_join_properties(stream("s", key=("sym",)), delete=name)
    assert (refused.value.problem, refused.value.hint) == (problem, hint)


def test_a_statement_with_a_wrong_property_is_refused() -> None:
    with pytest.raises(EddylineError) as refused:
        declared("window='10'")
    assert refused.value.problem == "stream s: property window: '10' is not a window"


def test_a_column_may_be_called_like_a_property() -> None:
    assert (
        declared("time='ts'", "window STRING, idle INT, ts TIMESTAMP").schema.field("idle").type == types.INT
    )
