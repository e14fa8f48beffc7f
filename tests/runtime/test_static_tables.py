"""Static tables in the engine: loaded whole, joined, loaded anew when they have changed, and found again after a restart."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline
from eddyline.api import PipelineRunner, run
from eddyline.errors import EddylineError, PropertyError, SchemaError, UnknownNameError
from eddyline.events import TableFailed, TableLoaded
from eddyline.pipeline import PipelineError, read_pipeline

JOIN = "SELECT t.n, r.rate FROM trades t JOIN rates r ON t.sym = r.sym"
_versions = iter(range(1, 1_000_000))


def write(file: Path, **rates: float) -> Path:
    """A new version of a table: its time of change is one no version had before, however fast tests are."""
    pq.write_table(pa.table({"sym": list(rates), "rate": list(rates.values())}), file)
    at = 1_700_000_000_000_000_000 + next(_versions) * 1_000_000
    os.utime(file, ns=(at, at))
    return file


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "rates.parquet", A=1.0, B=2.0)


@pytest.fixture
def engine():
    with eddyline.open() as opened:
        opened.stream("trades", "sym STRING, n INT")
        yield opened


def changes(query: eddyline.Query) -> list[tuple[str, object, object]]:
    """What came since the last look: the change and the values."""
    found = [(row.change, *row.values()) for row in query.results(timeout=0)]
    return sorted(found, key=str)


def loads(engine: eddyline.Engine) -> list[tuple[object, ...]]:
    return [
        (event.table, event.n_rows, event.n_changed, event.n_deleted)
        for event in engine.events()
        if isinstance(event, TableLoaded)
    ]


# --------------------------------------------------------------------------------------------- loading


def test_later_rows_of_a_stream_meet_the_new_rows_of_a_table(engine, file):
    engine.table("rates", file, key="sym")
    query = engine.query(JOIN)
    engine.push("trades", [("A", 1), ("C", 2)])
    assert changes(query) == [("insert", 1, 1.0)]
    write(file, A=1.5, C=3.0)
    assert engine.reload() == ["rates"]
    assert changes(query) == []  # what has come stays as it is
    engine.push("trades", [("A", 3), ("B", 4), ("C", 5)])
    assert changes(query) == [("insert", 3, 1.5), ("insert", 5, 3.0)]
    assert loads(engine) == [("rates", 2, 2, 0), ("rates", 2, 2, 1)]


def test_a_query_over_a_table_gets_its_answer_and_then_what_changes(engine, file):
    engine.table("rates", file, key="sym")
    query = engine.query("SELECT * FROM rates WHERE rate < 10")
    engine.tick()
    assert changes(query) == [("insert", "A", 1.0), ("insert", "B", 2.0)]
    write(file, A=1.0, B=2.5, C=50.0)
    engine.reload("RATES")
    assert changes(query) == [("update_postimage", "B", 2.5), ("update_preimage", "B", 2.0)]
    write(file, A=1.0, C=5.0)
    engine.reload("rates")
    assert changes(query) == [("delete", "B", 2.5), ("insert", "C", 5.0)]


def test_a_version_that_is_there_is_not_loaded_again_but_one_that_was_is(engine, file):
    engine.table("rates", file, key="sym")
    last = engine.rounds.last_round
    assert engine.reload() == []
    engine.table("rates", file, key="sym")
    assert engine.rounds.last_round == last
    old, times = file.read_bytes(), file.stat()
    write(file, A=7.0)
    engine.reload()
    file.write_bytes(old)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert engine.reload() == ["rates"]
    assert engine.rounds.table_rows("rates").to_pylist() == [
        {"sym": "A", "rate": 1.0},
        {"sym": "B", "rate": 2.0},
    ]


def test_a_load_brings_only_what_differs_from_what_the_table_holds_now(engine, file):
    engine.table("rates", file, key="sym")
    engine.push("rates", [{"sym": "A", "rate": 9.0}, {"sym": "X", "rate": 9.0}])
    write(file, A=1.0, B=2.0)
    engine.reload()
    assert loads(engine)[-1] == ("rates", 2, 1, 1)
    assert len(engine.rounds.table_rows("rates")) == 2


def test_a_tick_looks_for_changes_once_a_second(file):
    now = [1_000_000]
    with eddyline.open(clock=lambda: now[0]) as engine:
        engine.table("rates", file, key="sym")
        engine.tick()
        write(file, A=5.0)
        now[0] += 999_999
        engine.tick()
        assert len(loads(engine)) == 1
        now[0] += 1
        engine.tick()
        assert loads(engine)[1:] == [("rates", 1, 1, 1)]


def test_data_in_hand_is_a_table_too(engine):
    data = pa.table({"sym": ["A"], "rate": [1.0]})
    engine.table("rates", data, key="sym")
    engine.table("rates", data.replace_schema_metadata({"of": "no interest"}), key=["sym"])
    assert len(loads(engine)) == 1
    engine.table("rates", pa.table({"sym": ["B"], "rate": [2.0]}), key="sym")
    assert loads(engine)[1:] == [("rates", 1, 1, 1)]
    assert engine.reload() == []
    engine.table("rates", pa.table({"sym": ["B"], "rate": [3.0]}).to_pandas(), key="sym")
    assert loads(engine)[2:] == [("rates", 1, 1, 0)]


def test_columns_and_types_are_those_that_are_asked_for(engine, tmp_path):
    (tmp_path / "rates.csv").write_text("sym,rate,note\nA,1,x\n")
    handle = engine.table("rates", tmp_path / "rates.csv", key="SYM", schema="sym STRING, rate DOUBLE")
    assert handle.schema.names == ["sym", "rate"]
    assert engine.rounds.table_rows("rates").to_pylist() == [{"sym": "A", "rate": 1.0}]


def test_a_column_that_is_asked_for_later_is_loaded(engine, tmp_path):
    (tmp_path / "rates.csv").write_text("sym,rate,note\nA,1,x\n")
    engine.table("rates", tmp_path / "rates.csv", key="sym", schema="sym STRING, rate DOUBLE")
    engine.table("rates", tmp_path / "rates.csv", key="sym", schema="note STRING, sym STRING, rate DOUBLE")
    assert engine.rounds.table_rows("rates").to_pylist() == [{"sym": "A", "rate": 1.0, "note": "x"}]
    assert engine.reload() == []


def test_a_table_is_declared_in_sql(engine, file):
    text = (
        f"CREATE TABLE rates (sym STRING PRIMARY KEY, rate DOUBLE) USING parquet OPTIONS (path '{file}') "
        "TBLPROPERTIES (static = 'true')"
    )
    engine.sql(text)
    query = engine.sql(JOIN)[0]
    engine.push("trades", [("B", 1)])
    assert changes(query) == [("insert", 1, 2.0)]
    with pytest.raises(SchemaError, match="stream rates already exists"):
        engine.sql(text)
    engine.sql(text.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    assert len(loads(engine)) == 1


# --------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("declare", "error", "message"),
    [
        (
            lambda e, f: e.table("rates", f),
            PropertyError,
            "table rates has no key\ndetail: Joins find a row by its key, and a new version is compared with the old one by it."
            '\nhint: Name the column or columns that tell rows apart: key="sym".',
        ),
        (
            lambda e, f: e.table("rates", f.with_name("rate.parquet"), key="sym"),
            EddylineError,
            "there is no rate.parquet for table rates\nhint: Write the file or folder, or mend the path.",
        ),
        (
            lambda e, f: e.table("rates", pa.table({"sym": ["A", "A"]}), key="sym"),
            SchemaError,
            "table rates has 2 rows with sym = 'A'\ndetail: 1 of its keys are there more than once.\n"
            "hint: Only one row of a key can stand: leave out the others, or choose another key.",
        ),
        (
            lambda e, f: e.table("rates", f, key="sym", format="parkuet"),
            PropertyError,
            "the format of table rates is 'parkuet'\nhint: Did you mean parquet?",
        ),
        (
            lambda e, f: e.reload("trades"),
            PropertyError,
            "stream trades is no static table\nhint: Declare it with engine.table().",
        ),
        (
            lambda e, f: e.reload("rates"),
            UnknownNameError,
            "there is no stream rates\nhint: Did you mean trades?",
        ),
        (
            lambda e, f: e.sql("CREATE TABLE rates (sym STRING) TBLPROPERTIES (static = 'true')"),
            PropertyError,
            "static table rates has no key\ndetail: Joins find a row by its key, and a new version is compared with the old one "
            "by it.\nhint: Declare a PRIMARY KEY, or leave out static.",
        ),
        (
            lambda e, f: e.sql("CREATE TABLE rates (sym STRING PRIMARY KEY) TBLPROPERTIES (static = 'true')"),
            PropertyError,
            "table rates does not say where its rows are\nhint: Write OPTIONS (path 'rates.parquet'), or leave out static.",
        ),
    ],
    ids=range(8),
)
def test_a_table_that_cannot_be_is_refused_and_nothing_is_declared(
    engine, file, declare: Callable[..., object], error: type[EddylineError], message: str
):
    with pytest.raises(error) as refused:
        declare(engine, file)
    assert str(refused.value) == message
    assert [stream.name for stream in engine.streams()] == ["trades"]


def test_a_version_that_is_wrong_leaves_the_rows_from_before_and_is_told_once(file):
    now = [0]
    with eddyline.open(clock=lambda: now[0]) as engine:

        def tick() -> None:
            now[0] += 1_000_000
            engine.tick()

        engine.table("rates", file, key="sym")
        pq.write_table(pa.table({"sym": ["A", "A"], "rate": [1.0, 2.0]}), file)
        with pytest.raises(SchemaError, match="table rates has 2 rows with sym = 'A'"):
            engine.reload()
        for _ in range(3):
            tick()
        file.unlink()
        for _ in range(3):
            tick()
        assert [event.message for event in engine.events() if isinstance(event, TableFailed)] == [
            "there is no rates.parquet for table rates",
        ]
        assert len(engine.rounds.table_rows("rates")) == 2
        write(file, C=3.0)
        tick()
        assert engine.rounds.table_rows("rates").to_pylist() == [{"sym": "C", "rate": 3.0}]


def test_a_wrong_version_that_nobody_asked_for_is_announced(file):
    now = [0]
    with eddyline.open(clock=lambda: now[0]) as engine:
        engine.table("rates", file, key="sym")
        pq.write_table(pa.table({"sym": ["A", "A"], "rate": [1.0, 2.0]}), file)
        for _ in range(3):
            now[0] += 1_000_000
            engine.tick()
        assert [event.message for event in engine.events() if isinstance(event, TableFailed)] == [
            "table rates has 2 rows with sym = 'A': 1 of its keys are there more than once."
        ]


# --------------------------------------------------------------------------------------------- homes


def test_a_home_that_is_opened_again_finds_its_tables(tmp_path, file):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("trades", "sym STRING, n INT")
        engine.table("rates", file, key="sym")
        engine.query(JOIN, name="priced")
    with eddyline.open(tmp_path / "home") as engine:
        assert engine.reload() == []
        engine.push("trades", [("A", 1)])
        write(file, A=4.0)
        assert engine.reload() == ["rates"]
        engine.push("trades", [("A", 2)])
        assert changes(engine.get("priced")) == [("insert", 1, 1.0), ("insert", 2, 4.0)]
    with eddyline.open(tmp_path / "home") as engine:
        assert engine.reload() == []
        assert engine.rounds.table_rows("rates").to_pylist() == [{"sym": "A", "rate": 4.0}]


def test_a_table_that_is_dropped_and_declared_again_is_loaded_again(tmp_path, file):
    for home in (None, tmp_path / "home"):
        with eddyline.open(home) as engine:
            engine.table("rates", file, key="sym")
            engine.drop_stream("rates")
            engine.table("rates", file, key="sym")
            assert loads(engine) == [("rates", 2, 2, 0)] * 2
            assert len(engine.rounds.table_rows("rates")) == 2


# --------------------------------------------------------------------------------------------- pipelines

PIPELINE = """
[streams.trades]
schema = "sym STRING, n INT"
source = { type = "files", path = "in", format = "json" }
[tables.rates]
path = "rates.parquet"
key = "sym"
[rules]
files = ["rules.sql"]
[[sinks]]
type = "stdout"
format = "jsonl"
"""


def project(folder: Path) -> Path:
    (folder / "in").mkdir()
    (folder / "rules.sql").write_text(f"CREATE VIEW priced AS {JOIN}")
    (folder / "in" / "1.json").write_text('{"sym": "A", "n": 1}\n{"sym": "B", "n": 2}\n')
    return folder / "eddyline.toml"


def test_a_pipeline_loads_its_tables_before_it_reads_a_row(tmp_path, file):
    path = project(tmp_path)
    for number, expected in ((1, [(1, 1.0), (2, 2.0)]), (2, [(3, 8.0)])):
        out = io.StringIO()
        run(read_pipeline(PIPELINE, path), once=True, stdout=out)
        rows = [json.loads(line) for line in out.getvalue().splitlines()]
        assert [(row["n"], row["rate"]) for row in rows] == expected, number
        write(file, B=8.0)
        (tmp_path / "in" / "2.json").write_text('{"sym": "A", "n": 4}\n{"sym": "B", "n": 3}\n')


def test_a_table_of_a_pipeline_that_is_wrong_is_told_at_its_place(tmp_path, file):
    path = project(tmp_path)
    pq.write_table(pa.table({"sym": ["A", "A"], "rate": [1.0, 2.0]}), file)
    with pytest.raises(PipelineError) as error:
        run(read_pipeline(PIPELINE, path), once=True, stdout=io.StringIO())
    assert "eddyline.toml:6:8: table rates has 2 rows with sym = 'A'" in str(error.value)
    pipeline = read_pipeline(PIPELINE, path)
    file.unlink()
    with pytest.raises(PipelineError, match=r"there is no rates\.parquet for table rates"):
        run(pipeline, once=True, stdout=io.StringIO())


def test_a_running_pipeline_loads_a_table_that_changes(tmp_path, file):
    first, second, events = threading.Event(), threading.Event(), []

    def heard(event: object) -> None:
        events.append(event)
        if isinstance(event, TableLoaded):
            (second if first.is_set() else first).set()

    with PipelineRunner(
        read_pipeline(PIPELINE, project(tmp_path)), on_event=heard, stdout=io.StringIO()
    ) as runner:
        running = threading.Thread(target=lambda: runner.run(signals=False))
        running.start()
        try:
            assert first.wait(30), events
            write(file, A=6.0)
            assert second.wait(30), events
        finally:
            runner.stop()
            running.join()
        assert runner.engine.rounds.table_rows("rates").to_pylist() == [{"sym": "A", "rate": 6.0}]


def test_a_table_of_a_rule_file_lies_beside_it(tmp_path, file):
    path = project(tmp_path)
    (tmp_path / "rules").mkdir()
    file.rename(tmp_path / "rules" / "rates.parquet")
    (tmp_path / "rules" / "rates.sql").write_text(
        "CREATE TABLE rates (sym STRING PRIMARY KEY, rate DOUBLE) USING parquet OPTIONS (path 'rates.parquet') "
        "TBLPROPERTIES (static = 'true')"
    )
    text = PIPELINE.replace('[tables.rates]\npath = "rates.parquet"\nkey = "sym"\n', "")
    out = io.StringIO()
    run(
        read_pipeline(text.replace('"rules.sql"', '"rules.sql", "rules/rates.sql"'), path),
        once=True,
        stdout=out,
    )
    assert [json.loads(line)["rate"] for line in out.getvalue().splitlines()] == [1.0, 2.0]


@pytest.mark.spark
def test_a_data_frame_of_spark_is_a_table(engine, spark):
    frame = spark.createDataFrame([("A", 1.0), ("B", 2.0)], "sym STRING, rate DOUBLE")
    engine.table("rates", frame, key="sym")
    assert engine.rounds.table_rows("rates").num_rows == 2
