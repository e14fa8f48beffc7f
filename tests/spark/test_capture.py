"""Streaming DataFrames that feed a stream: every row once, whatever becomes of the round, the query or its checkpoint."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.errors import StreamingQueryException

import eddyline
from eddyline.engine.shared_work import SharedRounds
from eddyline.errors import HomeError, PropertyError, SchemaError
from eddyline.spark import capture
from eddyline.spark.capture import QueryRefusedError, drain, feed_stream
from eddyline.spark.jobs import pack_functions, spark_runner
from eddyline.storage import Store, read_capture
from tests.spark import fed_by_files

ROOT = Path(__file__).parent.parent.parent
SCHEMA = "sym STRING, price DOUBLE, n BIGINT"


class Fed:
    """An engine with one stream and one query, and a folder of files that a streaming DataFrame reads."""

    def __init__(self, folder: Path, spark, schema: str = SCHEMA) -> None:
        self.folder, self.spark = folder, spark
        self.input, self.checkpoint = folder / "in", folder / "checkpoint"
        self.input.mkdir(exist_ok=True)
        self.engine = eddyline.open(folder / "home", clock=lambda: 1_000_000_000)
        self.engine.stream("trades", schema)
        self.engine.query("SELECT sym, n FROM trades WHERE price < 10", name="cheap")
        self.shared = SharedRounds(self.engine.rounds, spark_runner(spark), pack_functions)
        self.n_files = 0

    def write(self, *rows: tuple) -> None:
        """A file of (sym, price, n)."""
        lines = [json.dumps(dict(zip(("sym", "price", "n"), row, strict=True))) for row in rows]
        hidden = self.input / f".{self.n_files:03d}"
        hidden.write_text("".join(f"{line}\n" for line in lines))
        os.utime(hidden, (self.n_files, self.n_files))  # Spark reads files by age
        hidden.rename(self.input / f"{self.n_files:03d}.json")
        self.n_files += 1

    def frame(self, schema: str = SCHEMA):
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(self.input))

    def feed(self, frame=None, **options):
        options = {"trigger": {"availableNow": True}} | options
        return feed_stream(
            self.shared,
            self.engine.rounds,
            "trades",
            self.frame() if frame is None else frame,
            self.checkpoint,
            **options,
        )

    def run(self, frame=None, **options) -> None:
        """Take what is there."""
        self.feed(frame, **options).awaitTermination()

    def die_at(self, step: str, n_rows: int) -> None:
        """A round goes no further than this step once so many rows are in."""

        def at_step(reached: str) -> None:
            if reached == step and self.n_rows() == n_rows:
                raise RuntimeError(f"died at {step}")

        self.engine.rounds.at_step = at_step

    def live(self) -> None:
        self.engine.rounds.at_step = lambda step: None

    def results(self) -> list[tuple]:
        """(sym, n) of every result there is, in order of arrival."""
        found = []
        for _, part in self.engine.rounds.durable.results():
            found += [
                (int(at), *row.values()) for at, row in zip(part.arrivals, part.rows.to_pylist(), strict=True)
            ]
        return [row[1:] for row in sorted(found)]

    def n_rows(self) -> int:
        progress = self.engine.rounds.progress.get("trades")
        return 0 if progress is None else progress.n_rows

    def position(self):
        return self.engine.rounds.durable.rounds.position("trades")

    def captures(self) -> tuple[set[str], set[str]]:
        """Captures that rounds list, and those that are there."""
        durable = self.engine.rounds.durable
        listed = {file.name for file in durable.rounds.files.all("capture")}
        return listed, {name for name in durable.store.names() if name.startswith("capture/")}


@pytest.fixture
def fed(tmp_path, spark):
    fed = Fed(tmp_path, spark)
    yield fed
    for query in spark.streams.active:
        query.stop()
    fed.engine.close()


@pytest.fixture
def large(monkeypatch):
    """Every batch is too large for the driver."""
    monkeypatch.setattr(capture, "BATCH_BYTES", 0)


def test_rows_of_a_streaming_dataframe_are_rows_of_the_stream(fed):
    fed.write(("A", 1.0, 1), ("B", 20.0, 2))
    fed.write(("C", 3.0, 3))
    fed.run()
    fed.write(("D", 4.0, 4))
    fed.run()
    assert fed.results() == [("A", 1), ("C", 3), ("D", 4)]
    assert fed.n_rows() == 4
    assert fed.position()["source"].startswith("spark ")
    assert fed.position()["at"]["batch"] == 2


def test_large_batches_are_captured_by_workers_and_belong_to_their_round(fed, large):
    fed.write(("A", 1.0, 1), ("B", 20.0, 2))
    fed.write(("C", 3.0, 3))
    fed.run()
    assert fed.results() == [("A", 1), ("C", 3)]
    listed, there = fed.captures()
    assert listed == there
    assert len(listed) == 2
    files = fed.engine.rounds.durable.rounds.files.all("capture")
    assert [file.first_arrival for file in files] == [1, 3]


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_round_that_dies_anywhere_neither_loses_nor_repeats_a_row(fed, size, request):
    if size == "large":
        request.getfixturevalue("large")
    for n in range(1, 7):
        fed.write((f"S{n}", 1.0, n))
    for step, n_rows in [("2 capture", 1), ("4 commit", 2), ("5 deliver", 4), ("end", 5)]:
        fed.die_at(step, n_rows)
        with pytest.raises(StreamingQueryException, match=f"died at {step}"):
            fed.run()
        assert fed.n_rows() == n_rows  # 4 and 5: it was committed, and Spark does not know
    fed.live()
    fed.run()
    assert fed.results() == [(f"S{n}", n) for n in range(1, 7)]
    listed, there = fed.captures()
    assert listed == there


# --------------------------------------------------------------------------------------------- rows and columns


@pytest.mark.parametrize("size", ["small", "large"])
def test_results_and_dead_letters_are_those_of_pushing_the_same_rows(tmp_path, spark, size, request):
    if size == "large":
        request.getfixturevalue("large")
    fed = Fed(tmp_path, spark, "sym STRING, price DOUBLE NOT NULL, n INT, note STRING")
    rows = [
        (
            None if n % 7 == 0 else f"S{n % 5}",
            None if n % 11 == 0 else float(n % 20),
            n << (40 * (n % 13 == 0)),
        )
        for n in range(1, 200)
    ]
    for first in range(0, 200, 50):
        fed.write(*rows[first : first + 50])
    fed.engine.query("SELECT sym FROM trades WHERE note IS NULL AND 10 / (n - 5) > 1", name="shares")
    with eddyline.open(tmp_path / "here") as here:
        here.stream("trades", "sym STRING, price DOUBLE NOT NULL, n INT, note STRING")
        here.query("SELECT sym, n FROM trades WHERE price < 10", name="cheap")
        here.query("SELECT sym FROM trades WHERE note IS NULL AND 10 / (n - 5) > 1", name="shares")
        columns = dict(zip(("sym", "price", "n"), map(list, zip(*rows, strict=True)), strict=True))
        here.push("trades", pa.table({**columns, "note": pa.nulls(len(rows), pa.string())}))
        expected = everything(here)
    spread = fed.frame().repartition(3).withColumnRenamed("n", "N").select("N", "sym", "price")
    fed.run(spread)
    assert everything(fed.engine) == expected
    assert len(expected[0]) > 50
    assert {error for _, error in expected[1]} == {"ROW_DOES_NOT_FIT", "DIVIDE_BY_ZERO"}
    fed.engine.close()
    with eddyline.open(tmp_path / "home") as again:  # what was captured can be looked back on
        assert len(again.rounds.recent["trades"]) == fed.n_rows() > 100


def everything(engine) -> tuple[list, list]:
    """Results and dead letters, without numbers that depend on how rows were cut into rounds and partitions."""
    results = [
        (int(query_id), tuple(row.values()))
        for _, part in engine.rounds.durable.results()
        for query_id, row in zip(part.query_ids, part.rows.to_pylist(), strict=True)
    ]
    letters = [({name.lower(): v for name, v in d.row.items()}, d.error) for d in engine.dead_letters()]
    return sorted(results, key=repr), sorted(letters, key=lambda letter: (letter[1], letter[0]["n"]))


def test_a_column_that_comes_between_capture_and_round_is_null(fed, large):
    fed.write(("A", 1.0, 1))

    def at_step(step: str) -> None:
        if step == "0 skip" and fed.captures()[1]:
            fed.engine.stream("trades", f"{SCHEMA}, note STRING")
            fed.live()

    fed.engine.rounds.at_step = at_step
    fed.engine.query("SELECT sym FROM trades", name="all")
    fed.run()
    fed.write(("B", 2.0, 2))
    fed.run()
    assert fed.results() == [("A",), ("A", 1), ("B",), ("B", 2)]
    assert fed.engine.rounds.catalog.stream("trades").schema.names == ["sym", "price", "n", "note"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("sym STRING, price DOUBLE, n BIGINT, venue STRING", "stream trades has no column venue"),
        ("sym STRING, cost DOUBLE, n BIGINT", "stream trades has no column cost"),
        (
            "sym STRING, price STRING, n BIGINT",
            "column price of the data is string, stream trades has DOUBLE",
        ),
        ("sym STRING, price DOUBLE, n BIGINT, _arrival BIGINT", "column _arrival .* cannot be used"),
    ],
)
def test_columns_that_can_never_fit_are_refused_before_anything_starts(tmp_path, spark, columns, said):
    fed = Fed(tmp_path, spark, "sym STRING, price DOUBLE NOT NULL, n BIGINT")
    with pytest.raises(SchemaError) as refused:
        fed.feed(fed.frame(columns))
    assert re.search(said, str(refused.value))
    assert not fed.checkpoint.exists()
    fed.engine.close()


def test_what_cannot_feed_a_stream_is_told(fed, spark):
    with pytest.raises(PropertyError, match="is not a streaming one"):
        fed.feed(spark.createDataFrame([], SCHEMA))
    with pytest.raises(PropertyError, match="on_new_query cannot be 'restart'"):
        fed.feed(on_new_query="restart")
    with eddyline.open() as engine:
        engine.stream("trades", SCHEMA)
        with pytest.raises(HomeError, match="an engine in memory cannot be fed"):
            feed_stream(fed.shared, engine.rounds, "trades", fed.frame(), fed.checkpoint)


# --------------------------------------------------------------------------------------------- checkpoints


def test_a_deleted_checkpoint_is_refused_until_it_is_said_how_to_go_on(fed):
    fed.write(("A", 1.0, 1))
    fed.write(("B", 2.0, 2))
    fed.run()
    first = fed.position()["source"]
    shutil.rmtree(fed.checkpoint)
    with pytest.raises(QueryRefusedError) as refused:
        fed.feed()
    assert refused.value.problem == "stream trades was fed by another query or source so far"
    assert refused.value.detail == f"The home remembers how far {first!r} was read; its checkpoint is new."
    assert 'on_new_query="resume"' in refused.value.hint
    assert 'on_new_query="read again"' in refused.value.hint
    assert not fed.checkpoint.exists()

    fed.run(on_new_query="resume")  # what is there now is passed over
    assert fed.results() == [("A", 1), ("B", 2)]
    fed.write(("C", 3.0, 3))
    fed.run(on_new_query="resume")  # it is no longer new
    assert fed.results() == [("A", 1), ("B", 2), ("C", 3)]
    assert fed.position()["source"] != first

    shutil.rmtree(fed.checkpoint)
    fed.run(on_new_query="read again")
    assert fed.results() == [("A", 1), ("B", 2), ("C", 3)] * 2


def test_a_stream_that_another_source_feeds_is_refused(fed):
    fed.engine.rounds.run_round({}, positions={"trades": {"source": "files in", "at": {}}})
    with pytest.raises(QueryRefusedError, match="was fed by another query or source so far") as refused:
        fed.feed()
    assert "how far 'files in' was read" in refused.value.detail


def test_a_query_that_lost_its_stream_to_another_takes_no_more_rows(fed):
    fed.write(("A", 1.0, 1))
    old = fed.feed(trigger={"processingTime": "0 seconds"})
    old.processAllAvailable()
    fed.checkpoint = fed.folder / "another"
    fed.run(on_new_query="read again")
    fed.write(("B", 2.0, 2))
    with pytest.raises(StreamingQueryException, match="was fed by another query or source so far"):
        old.awaitTermination()
    assert fed.results() == [("A", 1), ("A", 1)]


def test_a_checkpoint_that_was_set_back_is_refused(fed):
    fed.write(("A", 1.0, 1))
    fed.run()
    shutil.copytree(fed.checkpoint, fed.folder / "copy")
    fed.write(("B", 2.0, 2))
    fed.run()
    shutil.rmtree(fed.checkpoint)
    (fed.folder / "copy").rename(fed.checkpoint)
    fed.write(("C", 3.0, 3))
    with pytest.raises(StreamingQueryException, match="was set back"):
        fed.run()
    assert fed.results() == [("A", 1), ("B", 2)]


def test_a_drained_query_ends_behind_its_batch_and_goes_on_later(fed):
    entered, go_on = threading.Event(), threading.Event()

    def at_step(step: str) -> None:
        if step == "3 work" and fed.n_rows() == 0 and fed.position() is not None:  # behind the claim
            entered.set()
            assert go_on.wait(60)

    fed.engine.rounds.at_step = at_step
    fed.write(("A", 1.0, 1))
    query = fed.feed(trigger={"processingTime": "0 seconds"})
    assert entered.wait(60)
    draining = threading.Thread(target=drain, args=(query,))
    draining.start()
    fed.write(("B", 2.0, 2))
    go_on.set()
    draining.join(60)
    assert not query.isActive
    assert fed.results() == [("A", 1)]
    fed.run()
    assert fed.results() == [("A", 1), ("B", 2)]


def test_a_batch_that_comes_while_a_query_is_drained_waits_and_leaves_no_trace(fed, capfd):
    fed.write(("A", 1.0, 1))
    query = fed.feed(trigger={"processingTime": "0 seconds"})
    query.processAllAvailable()
    feed = capture._feeds[str(query.runId)]
    feed.finish_batch()
    fed.write(("B", 2.0, 2))
    assert feed._is_at_gate.wait(60)  # Spark has planned it, and would now see it fail
    assert query.isActive
    drain(query)
    assert not query.isActive
    assert query.exception() is None
    fed.run()
    assert fed.results() == [("A", 1), ("B", 2)]
    said = capfd.readouterr().err
    assert not re.search(r"Exception|Error|Traceback|\tat ", said), said


def test_a_query_that_is_stopped_in_the_middle_of_a_batch_counts_as_stopped_and_takes_it_later(fed, capfd):
    entered, started = threading.Event(), []

    def at_step(step: str) -> None:
        if step == "2 capture" and fed.position() is not None:  # behind the claim
            entered.set()
            while not started or started[0].isActive:
                time.sleep(0.05)

    fed.engine.rounds.at_step = at_step
    fed.write(("A", 1.0, 1))
    query = fed.feed(trigger={"processingTime": "0 seconds"})
    started.append(query)
    assert entered.wait(60)
    query.stop()
    assert query.exception() is None
    fed.live()
    fed.run()
    assert fed.results() == [("A", 1)]
    said = capfd.readouterr().err
    assert not re.search(r"Exception|Error|Traceback|\tat ", said), said


def test_a_run_counts_what_streaming_queries_feed_it(fed, spark):
    fed.write(("A", 1.0, 1), ("B", 20.0, 2))
    fed.write(("C", 2.0, 3))
    running = fed.engine.start(spark)
    running.feed(
        "trades", fed.frame(), checkpoint=fed.checkpoint, trigger={"availableNow": True}
    ).awaitTermination()
    summary = running.stop()
    assert (summary.n_rows, summary.n_results) == (3, 2)
    assert fed.engine.counters().n_rows == 3


# --------------------------------------------------------------------------------------------- captures of a partition


def test_a_partition_is_captured_to_files_and_its_rest_to_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(capture, "PARTITION_BYTES", 1_500)
    store = Store(tmp_path, 1)
    captures = capture._Captures(store, 3_000)
    for n in range(10):
        captures.add("trades", pa.record_batch({"n": pa.array(range(100 * n, 100 * n + 100))}))
    done = captures.finish()
    assert [isinstance(each, bytes) for each in done] == [False] * (len(done) - 1) + [True]
    assert len(done) > 2
    buffers = [pa.py_buffer(each) if isinstance(each, bytes) else store.read(each) for each in done]
    numbers = [
        n for buffer in buffers for _, rows in read_capture(buffer) for n in rows.column(0).to_pylist()
    ]
    assert numbers == list(range(1000))
    captures.discard()
    assert list(store.names()) == []


# --------------------------------------------------------------------------------------------- killed


@pytest.mark.thorough
def test_a_killed_driver_loses_and_repeats_nothing(tmp_path, spark, monkeypatch):
    """Twice; what goes on in the end is this process, with its own Java."""
    folder = tmp_path / "in"
    folder.mkdir()
    for n in range(1, 7):
        path = folder / f"{n}.json"
        path.write_text(
            "".join(json.dumps({"sym": f"S{n}", "price": 1.0, "n": 10 * n + k}) + "\n" for k in range(3))
        )
        os.utime(path, (n, n))
    for kill in ("4 commit@6", "5 deliver@12"):
        command = [sys.executable, "-m", "tests.spark.fed_by_files", str(tmp_path), kill]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "EDDYLINE_CLASS_ARCHIVE": "off"}
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        assert done.returncode == -signal.SIGKILL
    monkeypatch.setattr(capture, "BATCH_BYTES", 0)
    fed_by_files.feed(spark, tmp_path, "")
    with eddyline.open(tmp_path / "home") as engine:
        found = [r["n"] for _, part in engine.rounds.durable.results() for r in part.rows.to_pylist()]
        assert sorted(found) == [10 * n + k for n in range(1, 7) for k in range(3)]
        assert engine.rounds.progress["trades"].n_rows == 18
