"""Results in Spark: what a frame shows is what the outbox has, and a table has every result once."""

from __future__ import annotations

import datetime
import decimal
import json
import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import eddyline
from eddyline.engine.durable import Retention
from eddyline.errors import HomeError, PropertyError, UnknownNameError
from eddyline.events import SinkOvertaken
from eddyline.spark.results import ResultTableError, results_frame, write_results_table

SCHEMA = "sym STRING, price DOUBLE, n BIGINT, ts TIMESTAMP"
MARKS = ["_query", "_query_id", "_generation", "_arrival", "_round", "_change", "_late"]


def rows(*values) -> list[dict]:
    """(sym, price, n) of each."""
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    return [{"sym": s, "price": p, "n": n, "ts": at} for s, p, n in values]


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("trades", SCHEMA, time="ts", lateness="5 seconds")
        engine.query("SELECT sym, price FROM trades WHERE price < 10", name="cheap")
        engine.query("SELECT n FROM trades WHERE n > 1")
        yield engine


@pytest.fixture
def table(spark):
    yield "results_of_a_test"
    spark.sql("DROP TABLE IF EXISTS results_of_a_test")


def collected(frame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


def test_all_results_come_as_json_behind_what_identifies_them(engine, spark):
    assert collected(results_frame(spark, engine.rounds)) == []
    engine.push("trades", rows(("A", 1.0, 1), ("B", 20.0, 2)))
    engine.push("trades", rows(("C", 3.0, 3)))
    frame = results_frame(spark, engine.rounds)
    assert frame.columns == [*MARKS, "result"]
    assert collected(frame) == [
        ("cheap", 1, 1, 1, 1, "insert", False, '{"sym": "A", "price": 1.0}'),
        ("cheap", 1, 1, 3, 2, "insert", False, '{"sym": "C", "price": 3.0}'),
        ("q2", 2, 1, 2, 1, "insert", False, '{"n": 2}'),
        ("q2", 2, 1, 3, 2, "insert", False, '{"n": 3}'),
    ]
    later = results_frame(spark, engine.rounds, after_round=1)
    assert [row[4] for row in collected(later)] == [2, 2]


def test_results_of_queries_with_the_same_columns_have_them(engine, spark):
    engine.query("SELECT sym, price FROM trades WHERE price > 10", name="dear")
    engine.push("trades", rows(("A", 1.0, 1), ("B", 20.0, 2)))
    frame = results_frame(spark, engine.rounds, queries=["cheap", "dear"])
    assert frame.columns == [*MARKS, "sym", "price"]
    assert [(row["_query"], row["sym"], row["price"]) for row in sorted(frame.collect())] == [
        ("cheap", "A", 1.0),
        ("dear", "B", 20.0),
    ]
    assert results_frame(spark, engine.rounds, queries=["cheap", 2]).columns == [*MARKS, "result"]
    assert results_frame(spark, engine.rounds, queries="cheap", as_json=True).columns == [*MARKS, "result"]
    with pytest.raises(PropertyError, match="only have columns if all queries"):
        results_frame(spark, engine.rounds, queries=["cheap", 2], as_json=False)


def test_a_query_that_was_replaced_has_columns_only_if_they_stayed_the_same(engine, spark):
    engine.push("trades", rows(("A", 1.0, 1)))
    engine.replace("cheap", "SELECT sym, price FROM trades WHERE price < 5")
    assert results_frame(spark, engine.rounds, queries="cheap").columns == [*MARKS, "sym", "price"]
    engine.replace("cheap", "SELECT sym, n FROM trades WHERE price < 5")
    engine.push("trades", rows(("A", 1.0, 7)))
    frame = results_frame(spark, engine.rounds, queries="cheap")
    assert [(row["_generation"], row["result"]) for row in sorted(frame.collect())] == [
        (1, '{"sym": "A", "price": 1.0}'),
        (3, '{"sym": "A", "n": 7}'),
    ]


def test_dropped_queries_and_members_of_templates_keep_their_names(engine, spark):
    template = "SELECT sym FROM trades WHERE sym = :sym"
    engine.query_many(template, params=[{"sym": "A"}, {"sym": "B"}], name="watch-{sym}")
    engine.push("trades", rows(("A", 50.0, 1), ("B", 5.0, 1)))
    engine.drop("cheap")
    engine.drop("watch-A")
    frame = results_frame(spark, engine.rounds)
    assert sorted(row["_query"] for row in frame.collect()) == ["cheap", "watch-A", "watch-B"]


def test_values_of_every_type_arrive_and_names_that_clash_give_way(tmp_path, spark):
    declared = (
        "b BOOLEAN, i TINYINT, f FLOAT, d DECIMAL(10,2), day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, bytes BINARY, "
        "many ARRAY<INT>, one STRUCT<x: INT, y: STRING>, _round INT"
    )
    wall = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_901)
    row = {
        "b": True, "i": 7, "f": 0.5, "d": decimal.Decimal("12.30"), "day": wall.date(), "at": wall.replace(tzinfo=datetime.UTC),
        "wall": wall, "bytes": b"\x00\xff", "many": [1, None], "one": {"x": 1, "y": "z"}, "_round": 9,
    }  # fmt: skip
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("values", declared)
        engine.query(
            "SELECT *, INTERVAL '2' MONTH AS later, INTERVAL '90' MINUTE AS span FROM values", name="all"
        )
        engine.push("values", [row, dict.fromkeys(row)])
        frame = results_frame(spark, engine.rounds, queries="all")
        assert frame.columns[len(MARKS) :] == [*list(row)[:-1], "_round_2", "later", "span"]
        first, second = (found.asDict(recursive=True) for found in frame.orderBy("_arrival").collect())
        assert first["at"] == wall  # as PySpark shows an instant, here in UTC
        assert first["bytes"] == b"\x00\xff"
        same = {name: first[name] for name in row if name not in ("at", "_round")}
        assert same == {name: row[name] for name in same}
        assert (first["_round_2"], first["later"]) == (9, "INTERVAL '0-2' YEAR TO MONTH")
        assert first["span"] == datetime.timedelta(minutes=90)
        assert {second[name] for name in row if name != "_round"} == {None}


def test_what_is_not_there_is_told(engine, spark):
    with pytest.raises(UnknownNameError, match="there is no query chep") as unknown:
        results_frame(spark, engine.rounds, queries="chep")
    assert unknown.value.hint == "Did you mean cheap?"
    with eddyline.open() as in_memory, pytest.raises(HomeError, match="an engine in memory has no results"):
        results_frame(spark, in_memory.rounds)


# --------------------------------------------------------------------------------------------- tables


def in_table(spark, table) -> list[tuple]:
    found = spark.table(table).select("_batch", "_round", "_query", "result").collect()
    return sorted((row[0], row[1], row[2], *json.loads(row[3]).values()) for row in found)


def test_a_table_gets_every_round_once_also_after_a_crash_before_its_cursor_moved(engine, spark, table):
    engine.push("trades", rows(("A", 1.0, 1)))
    assert write_results_table(spark, engine.rounds, table) == 1
    assert write_results_table(spark, engine.rounds, table) == 1
    assert in_table(spark, table) == [(1, 1, "cheap", "A", 1.0)]

    def die(step: str) -> None:
        if step == "5 table":
            raise RuntimeError("died")

    engine.push("trades", rows(("B", 2.0, 1)))
    engine.rounds.at_step = die
    with pytest.raises(RuntimeError, match="died"):
        write_results_table(spark, engine.rounds, table)
    assert [row[1] for row in in_table(spark, table)] == [1, 2]
    engine.rounds.at_step = lambda step: None
    engine.push("trades", rows(("C", 3.0, 1)))
    assert write_results_table(spark, engine.rounds, table) == 3
    assert in_table(spark, table) == [
        (1, 1, "cheap", "A", 1.0),
        (2, 2, "cheap", "B", 2.0),
        (2, 3, "cheap", "C", 3.0),
    ]
    engine.push("trades", rows(("D", 50.0, 1)))  # nobody wants it
    assert write_results_table(spark, engine.rounds, table) == 4
    assert len(in_table(spark, table)) == 3


def test_a_table_may_begin_later_and_have_the_columns_of_its_queries(engine, spark, table):
    engine.push("trades", rows(("A", 1.0, 1)))
    engine.push("trades", rows(("B", 2.0, 2)))
    options = {"queries": "cheap", "as_json": False}
    assert write_results_table(spark, engine.rounds, table, after_round=1, **options) == 2
    assert [(row["sym"], row["price"]) for row in spark.table(table).collect()] == [("B", 2.0)]
    with pytest.raises(ResultTableError, match="has other columns than these results") as other:
        write_results_table(spark, engine.rounds, table)
    assert "It has _query string" in other.value.detail


def test_a_table_of_another_home_or_of_somebody_else_is_refused(engine, spark, table, tmp_path):
    write_results_table(spark, engine.rounds, table)
    with (
        eddyline.open(tmp_path / "another") as another,
        pytest.raises(ResultTableError, match="does not belong to this home"),
    ):
        write_results_table(spark, another.rounds, table)
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} (a INT) USING parquet")
    with pytest.raises(ResultTableError, match="does not belong to this home") as foreign:
        write_results_table(spark, engine.rounds, table)
    assert foreign.value.detail == "It was not made for results."


def test_a_table_whose_catalog_is_gone_is_declared_again_over_its_files(engine, spark, table, tmp_path):
    engine.push("trades", rows(("A", 1.0, 1)))
    assert write_results_table(spark, engine.rounds, table) == 1
    warehouse = spark.catalog.getDatabase(spark.catalog.currentDatabase()).locationUri.removeprefix("file:")
    folder = Path(warehouse) / table
    shutil.copytree(folder, tmp_path / "copy")
    spark.sql(f"DROP TABLE {table}")  # the session's own catalog forgets it when the session ends
    shutil.copytree(tmp_path / "copy", folder)
    try:
        engine.push("trades", rows(("B", 2.0, 1)))
        assert write_results_table(spark, engine.rounds, table) == 2
        assert in_table(spark, table) == [(1, 1, "cheap", "A", 1.0), (2, 2, "cheap", "B", 2.0)]
        spark.sql(f"DROP TABLE {table}")
        with (
            eddyline.open(tmp_path / "other") as other,
            pytest.raises(ResultTableError, match="holds files that this home did not write"),
        ):
            write_results_table(spark, other.rounds, table)
    finally:
        shutil.rmtree(folder)


def test_a_folder_gets_every_round_once_and_belongs_to_its_home(engine, spark, tmp_path):
    path = str(tmp_path / "results")
    for number, sym in enumerate("ABC", start=1):
        engine.push("trades", rows((sym, 1.0, 1)))
        assert write_results_table(spark, engine.rounds, path) == number
        assert write_results_table(spark, engine.rounds, path) == number
    assert sorted(row._round for row in spark.read.parquet(path).collect()) == [1, 2, 3]
    with pytest.raises(ResultTableError, match="has other columns than these results"):
        write_results_table(spark, engine.rounds, path, queries=["cheap"], as_json=False)
    with (
        eddyline.open(tmp_path / "other") as other,
        pytest.raises(ResultTableError, match="holds files that this home did not write"),
    ):
        write_results_table(spark, other.rounds, path)


def test_results_that_retention_took_before_the_table_had_them_are_told(tmp_path, spark, table):
    with eddyline.open(tmp_path / "home", retention=Retention(result_bytes=0)) as engine:
        engine.stream("trades", SCHEMA)
        engine.query("SELECT sym FROM trades", name="all")
        write_results_table(spark, engine.rounds, table)
        engine.push("trades", rows(("A", 1.0, 1), ("B", 1.0, 1)))
        engine.rounds.durable.collect_garbage()
        assert write_results_table(spark, engine.rounds, table) == 1
        (told,) = (event for event in engine.rounds.announcements.events if isinstance(event, SinkOvertaken))
        assert told == SinkOvertaken(1, f"table {table}", 2)


# --------------------------------------------------------------------------------------------- the page


def test_the_page_about_streaming_dataframes_and_results_runs(tmp_path, spark, capsys):
    page = (Path(__file__).parent.parent.parent / "docs" / "spark.md").read_text()
    sections = page[page.index("## Any streaming DataFrame") :]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"sym": "A", "price": 9.5}\n{"sym": "B", "price": 12.0}\n')
    names = {"spark": spark, "eddyline": eddyline, "folder": tmp_path}
    try:
        for code in re.findall(r"^```py\n(.*?)^```$", sections, re.MULTILINE | re.DOTALL):
            exec(code, names)
        shown = re.search(r"^```text\n(.*?)^```$", sections, re.MULTILINE | re.DOTALL)
        assert capsys.readouterr().out.strip() == shown[1].strip()
        assert spark.table("alerts").count() == 1
        names["counting"].processAllAvailable()
        assert names["engine"].get("high").results() == [{"sym": "B", "n": 1}]
    finally:
        spark.sql("DROP TABLE IF EXISTS alerts")
        names["running"].stop()
        names["engine"].close()
