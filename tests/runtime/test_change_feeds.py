"""Rows of keyed streams that delete, as they are pushed and as sources bring them."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline
from eddyline.api import run
from eddyline.pipeline import read_pipeline


@pytest.fixture
def engine():
    with eddyline.open() as opened:
        yield opened


def standing(engine: eddyline.Engine, name: str = "quotes") -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in engine.rounds.table_rows(name).to_pylist())


def test_a_row_whose_flag_is_true_deletes_the_row_of_its_key(engine):
    engine.stream("quotes", "sym STRING, bid DOUBLE, gone BOOLEAN", key="sym", delete="gone")
    query = engine.query("SELECT sym, bid FROM quotes")
    engine.push("quotes", [("A", 1.0, False), ("B", 2.0, None)])
    engine.push("quotes", [("A", None, True), ("C", None, True)])
    assert standing(engine) == [("B", 2.0, None)]
    assert [(row.change, *row.values()) for row in query.results(timeout=0)] == [
        ("insert", "A", 1.0),
        ("insert", "B", 2.0),
        ("delete", "A", 1.0),
    ]


def test_records_of_a_change_feed_are_pushed_as_they_are(engine):
    engine.stream("quotes", "sym STRING, bid DOUBLE", key="sym")
    engine.push("quotes", [{"sym": "A", "bid": 1.0}, {"sym": "B", "bid": 2.0}])
    engine.push("quotes", [{"sym": "A", "_change_type": "delete"}])
    assert standing(engine) == [("B", 2.0)]
    feed = pa.table(
        {
            "sym": ["B", "B", "C"],
            "bid": [3.0, 2.0, 4.0],
            "_change_type": ["update_postimage", "update_preimage", "insert"],
            "_commit_version": [7, 7, 6],
            "_commit_timestamp": pa.array([0, 0, 0], pa.timestamp("us")),
        }
    )
    engine.push("quotes", feed)
    assert standing(engine) == [("B", 3.0), ("C", 4.0)]
    assert engine.streams()[0].n_rows == 5  # what an update replaces is said by nobody


def test_a_record_nobody_understands_is_a_dead_letter(engine):
    engine.stream("quotes", "sym STRING, bid DOUBLE", key="sym")
    engine.push("quotes", [{"sym": "A", "bid": 1.0, "_change_type": "upsert"}, {"sym": "B", "bid": 2.0}])
    assert standing(engine) == [("B", 2.0)]
    assert [letter.error for letter in engine.dead_letters()] == ["UNKNOWN_CHANGE_TYPE"]


def test_a_row_with_nothing_but_its_key_deletes_where_the_stream_says_so(engine):
    engine.stream("quotes", "sym STRING, bid DOUBLE", key="sym", delete="null")
    engine.push("quotes", [("A", 1.0), ("B", 2.0)])
    engine.push("quotes", [{"sym": "A", "bid": None}])
    assert standing(engine) == [("B", 2.0)]


def test_a_stream_without_a_key_has_columns_of_these_names_like_others(engine):
    engine.stream("log", "sym STRING, _change_type STRING")
    query = engine.query("SELECT sym FROM log")
    engine.push("log", [("A", "delete"), ("B", "whatever")])
    assert [row["sym"] for row in query.results(timeout=0)] == ["A", "B"]


def test_deletes_last_in_a_home(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("quotes", "sym STRING, bid DOUBLE", key="sym")
        engine.push("quotes", [("A", 1.0), ("B", 2.0)])
        engine.push("quotes", [{"sym": "A", "_change_type": "delete"}])
    with eddyline.open(tmp_path / "home") as engine:
        assert standing(engine) == [("B", 2.0)]
        engine.push("quotes", [{"sym": "A", "bid": 5.0}])
        assert standing(engine) == [("A", 5.0), ("B", 2.0)]


JSON = """
[streams.quotes]
schema = "sym STRING, bid DOUBLE, _change_type STRING"
key = "sym"
source = { type = "files", path = "in", format = "json" }
"""
PARQUET = """
[streams.quotes]
schema = "sym STRING, bid DOUBLE"
key = "sym"
source = { type = "files", path = "in", format = "parquet" }
"""


def test_files_of_a_change_feed_keep_a_table(tmp_path):
    (tmp_path / "in").mkdir()
    rows = [("A", 1.0, "insert"), ("B", 2.0, "insert"), ("A", 1.0, "delete"), ("B", 2.0, "update_preimage")]
    lines = [json.dumps({"sym": s, "bid": b, "_change_type": c}) for s, b, c in rows]
    (tmp_path / "in" / "1.json").write_text("\n".join([*lines, ""]))
    run(read_pipeline(JSON, tmp_path / "eddyline.toml"), once=True)
    with eddyline.open(tmp_path / "home") as engine:
        assert standing(engine) == [("B", 2.0, "insert")]


def test_files_of_columns_bring_the_kind_of_change_along(tmp_path):
    (tmp_path / "in").mkdir()
    data = {"sym": ["A", "B", "A"], "bid": [1.0, 2.0, 1.0], "_change_type": ["insert", "insert", "delete"]}
    pq.write_table(pa.table(data), tmp_path / "in" / "1.parquet")
    run(read_pipeline(PARQUET, tmp_path / "eddyline.toml"), once=True)
    with eddyline.open(tmp_path / "home") as engine:
        assert standing(engine) == [("B", 2.0, "insert")]


def test_a_flag_is_named_in_a_pipeline_file(tmp_path):
    text = PARQUET.replace("bid DOUBLE", "gone BOOLEAN").replace(
        'key = "sym"', 'key = "sym"\ndelete = "GONE"'
    )
    (settings,) = read_pipeline(text, tmp_path / "eddyline.toml").streams
    assert settings.stream.properties == (("delete", "GONE"),)
