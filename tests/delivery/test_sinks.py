"""Sinks: what leaves, in which form, and that nothing is lost or there twice."""

from __future__ import annotations

import datetime
import io
import json
import math
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from eddyline.delivery.sinks import (
    FileSink,
    MessageBatch,
    MessageFeed,
    QueryFacts,
    SinkError,
    SinkFeed,
    SinkSelection,
    StdoutSink,
)
from eddyline.delivery.sinks.batches import result_batch
from eddyline.delivery.sinks.sink import SinkClosedError
from eddyline.delivery.sinks.texts import json_lines, text_columns
from eddyline.errors import StoreError
from eddyline.model import Message
from eddyline.storage import StoredPart

NAMES = {1: "cheap", 2: "watch-ann", 3: "rare"}
STREAMS = {1: "trades", 2: "trades", 3: "quotes"}


def part(ids: list[int], **columns) -> StoredPart:
    """Results of these queries; the arrival numbers are 10, 20, …"""
    n = len(ids)
    columns = columns or {"sym": [f"S{k}" for k in range(n)]}
    arrays = [values if isinstance(values, pa.Array) else pa.array(values) for values in columns.values()]
    return StoredPart(
        np.array(ids, np.int32),
        np.ones(n, np.int32),
        np.arange(10, 10 * n + 10, 10, dtype=np.int64),
        np.ones(n, np.int8),
        np.zeros(n, dtype=bool),
        pa.RecordBatch.from_arrays(arrays, names=list(columns)),
    )


def batch(round_number: int, ids: list[int], **columns):
    given = part(ids, **columns)
    return result_batch(round_number, given, np.arange(len(ids)), NAMES.__getitem__)


EVERYTHING = SinkSelection()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


# --------------------------------------------------------------------------------------------- forms


def test_a_result_has_its_marks_before_its_columns():
    given = part([2, 1], sym=["A", "B"], price=[1.5, None])
    given.signs[1] = -1
    given.is_late[0] = True
    out = result_batch(7, given, np.array([1, 0]), NAMES.__getitem__)
    assert out.rows.schema.names == [
        "_query", "_query_id", "_generation", "_arrival", "_round", "_change", "_late", "sym", "price"
    ]  # fmt: skip
    assert [list(row.values()) for row in out.rows.to_pylist()] == [
        ["watch-ann", 2, 1, 10, 7, "insert", True, "A", 1.5],
        ["cheap", 1, 1, 20, 7, "delete", False, "B", None],
    ]


def test_columns_called_like_a_mark_or_like_each_other_get_names_of_their_own():
    arrays = [pa.array([1]), pa.array([2]), pa.array([3])]
    given = part([1])
    given = StoredPart(
        given.query_ids,
        given.generations,
        given.arrivals,
        given.signs,
        given.is_late,
        pa.RecordBatch.from_arrays(arrays, names=["a", "_round", "a"]),
    )
    assert result_batch(1, given, np.array([0]), NAMES.__getitem__).columns.names == ["a", "_round_2", "a_2"]


def test_json_has_every_type_as_spark_writes_it():
    at = datetime.datetime(2024, 1, 2, 3, 4, 5)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([1, None], pa.int32()),
            pa.array([0.1, float("nan")]),
            pa.array([float("inf"), float("-inf")]),
            pa.array([True, False]),
            pa.array([Decimal("1.50"), None], pa.decimal128(30, 2)),
            pa.array(['a "b"\né', None]),
            pa.array([b"\x00\xff", None]),
            pa.array([at, at.replace(microsecond=7)], pa.timestamp("us", "UTC")),
            pa.array([at, None], pa.timestamp("us")),
            pa.array([at.date(), None]),
            pa.array([[1, None], None], pa.list_(pa.int32())),
            pa.array(
                [{"x": 1, "y": "é"}, {"x": None, "y": None}],
                pa.struct([("x", pa.int32()), ("y", pa.string())]),
            ),
            pa.array([[("k", 1.0)], []], pa.map_(pa.string(), pa.float64())),
            pa.array([[(1, "v")], None], pa.map_(pa.int32(), pa.string())),
            pa.array([datetime.timedelta(hours=1, microseconds=5), None], pa.duration("us")),
        ],
        names=[
            "i",
            "d",
            "inf",
            "b",
            "dec",
            "s",
            "bin",
            "ts",
            "ntz",
            "date",
            "list",
            "struct",
            "map",
            "ints",
            "interval",
        ],
    )
    first, second = json_lines(rows)
    assert first == (
        '{"i": 1, "d": 0.1, "inf": "Infinity", "b": true, "dec": 1.50, "s": "a \\"b\\"\\né", "bin": "AP8=", '
        '"ts": "2024-01-02T03:04:05Z", "ntz": "2024-01-02T03:04:05", "date": "2024-01-02", "list": [1, null], '
        '"struct": {"x": 1, "y": "é"}, "map": {"k": 1.0}, "ints": {"1": "v"}, "interval": "PT3600.000005S"}'
    )
    assert json.loads(second)["d"] == "NaN"
    assert json.loads(second)["ts"] == "2024-01-02T03:04:05.000007Z"
    assert json.loads(second)["struct"] == {"x": None, "y": None}
    assert json.loads(second)["dec"] is None


def test_text_is_what_sql_casts_to_string():
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([datetime.datetime(2024, 7, 1, 10)], pa.timestamp("us", "UTC")),
            pa.array([True]),
            pa.array([None], pa.int32()),
            pa.array([[1, 2]]),
        ],
        names=["ts", "b", "n", "list"],
    )
    [row] = text_columns(rows, "Europe/Berlin").to_pylist()
    assert row == {"ts": "2024-07-01 12:00:00", "b": "true", "n": None, "list": "[1, 2]"}


# --------------------------------------------------------------------------------------------- standard output


def test_standard_output_gets_json_lines_or_lines_for_people():
    screen = io.StringIO()
    StdoutSink(screen).write(3, [batch(3, [1], sym=["A"], price=[9.5])])
    assert json.loads(screen.getvalue()) == {
        "_query": "cheap", "_query_id": 1, "_generation": 1, "_arrival": 10, "_round": 3, "_change": "insert", "_late": False,
        "sym": "A", "price": 9.5,
    }  # fmt: skip
    screen = io.StringIO()
    StdoutSink(screen, format="text").write(3, [batch(3, [1, 2], sym=["A", "B"], price=[9.5, None])])
    assert screen.getvalue() == "+ cheap: sym=A, price=9.5\n+ watch-ann: sym=B, price=NULL\n"


def test_a_reader_that_has_gone_is_noticed():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as screen:
        sink = StdoutSink(screen)
        sink.write(1, [batch(1, [1])])
        with pytest.raises(SinkClosedError):
            sink.flush()


# --------------------------------------------------------------------------------------------- files


def file_sink(folder: Path, cursor: int = 0, **options) -> FileSink:
    return FileSink(folder, name="alerts", home_id="3f9a1c", cursor=cursor, **options)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_file_has_the_rounds_in_its_name_and_is_there_only_when_it_is_whole(tmp_path):
    sink = file_sink(tmp_path / "out", clock=(clock := Clock()))
    sink.write(17, [batch(17, [1])])
    sink.write(42, [batch(42, [1, 2])])
    assert names(tmp_path / "out") == []
    assert not sink.is_due()
    clock.now = 5.0
    assert sink.is_due()
    assert sink.flush()
    assert names(tmp_path / "out") == ["alerts-3f9a1c-000000000017-000000000042.jsonl"]
    lines = (tmp_path / "out" / names(tmp_path / "out")[0]).read_text().splitlines()
    assert [(json.loads(line)["_round"], json.loads(line)["_query"]) for line in lines] == [
        (17, "cheap"),
        (42, "cheap"),
        (42, "watch-ann"),
    ]


def test_a_file_is_due_when_it_is_large_enough(tmp_path):
    sink = file_sink(tmp_path, bytes_per_file=200)
    sink.write(1, [batch(1, [1])])
    assert not sink.is_due()
    sink.write(2, [batch(2, [1] * 50)])
    assert sink.is_due()


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_results_with_the_same_columns_share_a_file(tmp_path, format):
    sink = file_sink(tmp_path, format=format)
    sink.write(1, [batch(1, [1], sym=["A"]), batch(1, [2], price=[1.5])])
    sink.write(2, [batch(2, [3], sym=["B"])])
    sink.flush()
    found = names(tmp_path)
    assert len(found) == 2
    assert all(name.startswith("alerts-3f9a1c-000000000001-000000000002-") for name in found)
    read = pq.read_table if format == "parquet" else pyarrow.csv.read_csv
    tables = {tuple(table.column_names[7:]): table for table in (read(tmp_path / name) for name in found)}
    assert tables["sym",].column("sym").to_pylist() == ["A", "B"]
    assert tables["sym",].column("_round").to_pylist() == [1, 2]
    assert tables["price",].column("price").to_pylist() == [1.5]


@pytest.mark.parametrize("format", ["csv", "parquet", "jsonl"])
def test_every_type_can_be_written(tmp_path, format):
    sink = file_sink(tmp_path, format=format)
    sink.write(
        1,
        [
            batch(
                1,
                [1],
                nothing=pa.nulls(1),
                interval=pa.array([datetime.timedelta(seconds=1)]),
                months=pa.array([pa.MonthDayNano([1, 0, 0])]),
                nested=pa.array([[{"a": 1}]]),
                binary=pa.array([b"x"]),
            )
        ],
    )
    assert sink.flush()


def test_what_a_crash_left_half_written_is_cleared(tmp_path):
    (tmp_path / ".alerts-3f9a1c-000000000001-000000000001.jsonl").write_text("{")
    (tmp_path / ".other-3f9a1c-000000000001-000000000001.jsonl").write_text("{")
    file_sink(tmp_path)
    assert names(tmp_path) == [".other-3f9a1c-000000000001-000000000001.jsonl"]


def test_a_range_that_was_written_but_not_acknowledged_is_not_written_twice(tmp_path):
    rounds = {n: [batch(n, [1])] for n in (1, 2, 3, 5)}
    sink = file_sink(tmp_path)
    for n in (1, 2):
        sink.write(n, rounds[n])
    sink.flush()
    again = file_sink(tmp_path, cursor=0)  # killed before the cursor advanced
    again.write(1, rounds[1])
    assert not again.flush()
    for n in (2, 3, 5):
        again.write(n, rounds[n])
    assert again.flush()
    assert names(tmp_path) == [
        "alerts-3f9a1c-000000000001-000000000002.jsonl",
        "alerts-3f9a1c-000000000003-000000000005.jsonl",
    ]


def test_a_range_of_which_only_some_files_were_written_is_completed(tmp_path):
    both = [batch(1, [1], sym=["A"]), batch(1, [2], price=[1.5])]
    sink = file_sink(tmp_path, format="parquet")
    sink.write(1, both)
    sink.flush()
    before = names(tmp_path)
    (tmp_path / before[0]).unlink()
    kept = (tmp_path / before[1]).stat().st_ino
    again = file_sink(tmp_path, format="parquet")
    again.write(1, both)
    again.flush()
    assert names(tmp_path) == before
    assert (tmp_path / before[1]).stat().st_ino == kept


def test_files_of_another_home_are_none_of_ours(tmp_path):
    other = FileSink(tmp_path, name="alerts", home_id="ffffff", cursor=0)
    other.write(1, [batch(1, [1])])
    other.flush()
    sink = file_sink(tmp_path)
    sink.write(1, [batch(1, [1])])
    sink.flush()
    assert len(names(tmp_path)) == 2


def test_a_folder_that_cannot_be_used_is_an_error_without_its_path(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError) as refused:
        file_sink(tmp_path / "file" / "out")
    assert refused.value.problem == "sink alerts cannot use its folder"
    assert str(tmp_path) not in str(refused.value)


# --------------------------------------------------------------------------------------------- feeds


class Recorder:
    """A sink that keeps what it is given, and fails when it is told to."""

    name = "recorder"

    def __init__(self) -> None:
        self.pending: list[tuple[int, str]] = []
        self.kept: list[tuple[int, str]] = []
        self.is_broken = False
        self.due = True

    def write(self, round_number, batches):
        if self.is_broken:
            raise SinkError("it is broken")
        self.pending += [
            (round_number, name) for batch in batches for name in batch.rows.column("_query").to_pylist()
        ]

    def is_due(self):
        return self.due and bool(self.pending)

    def is_full(self):
        return self.is_due()

    def has_room(self, number, n_items):
        return True

    def wait_s(self):
        return 0.0 if self.is_due() else math.inf

    def flush(self):
        self.kept += self.pending
        self.pending = []
        return True

    def forget(self, cursor):
        self.pending = []

    def close(self):
        pass


class Feeding:
    def __init__(self, wanted: SinkSelection = EVERYTHING) -> None:
        self.sink, self.clock, self.cursors = Recorder(), Clock(), []
        self.feed = SinkFeed(
            self.sink,
            wanted,
            cursor=0,
            facts_of=lambda query_id, generation: QueryFacts(NAMES[query_id], STREAMS[query_id]),
            acknowledge=self.cursors.append,
            clock=self.clock,
        )

    def offer(self, *rounds: tuple[int, list[int]], last: int) -> None:
        self.feed.offer([(n, [part(ids)]) for n, ids in rounds], last)


def test_results_come_in_round_order_and_the_cursor_follows():
    feeding = Feeding()
    feeding.offer((1, [1]), (2, [2, 1]), last=2)
    assert feeding.sink.kept == [(1, "cheap"), (2, "watch-ann"), (2, "cheap")]
    assert feeding.cursors == [1, 2]
    feeding.offer((1, [1]), (2, [1]), last=2)
    assert len(feeding.sink.kept) == 3


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (SinkSelection(), ["cheap", "watch-ann", "rare"]),
        (SinkSelection(queries=("watch-*",)), ["watch-ann"]),
        (SinkSelection(queries=("cheap", "rare")), ["cheap", "rare"]),
        (SinkSelection(streams=("TRADES",)), ["cheap", "watch-ann"]),
        (SinkSelection(queries=("r*",), streams=("trades",)), []),
    ],
)
def test_a_sink_gets_what_it_wants(wanted, expected):
    feeding = Feeding(wanted)
    feeding.offer((1, [1, 2, 3]), last=1)
    assert [name for _, name in feeding.sink.kept] == expected


def test_what_a_sink_did_not_take_comes_again_after_a_pause_that_grows():
    feeding = Feeding()
    feeding.sink.is_broken = True
    for pause in (0.5, 1.0, 2.0):
        with pytest.raises(SinkError):
            feeding.offer((1, [1]), last=1)
        assert feeding.feed.is_paused
        feeding.clock.now += pause
        assert not feeding.feed.is_paused
    feeding.sink.is_broken = False
    assert feeding.feed.read_to == 0
    feeding.offer((1, [1]), last=1)
    assert feeding.sink.kept == [(1, "cheap")]


def test_the_cursor_moves_only_when_the_sink_has_the_results_for_good():
    feeding = Feeding()
    feeding.sink.due = False
    feeding.offer((1, [1]), last=4)
    assert feeding.cursors == []
    feeding.feed.flush(only_if_due=True)
    assert feeding.cursors == []
    feeding.feed.flush()
    assert feeding.cursors == [4]


def test_rounds_without_anything_for_a_sink_move_its_cursor_now_and_then():
    feeding = Feeding(SinkSelection(queries=("none",)))
    feeding.offer((1, [1]), last=900)
    feeding.feed.flush(only_if_due=True)
    assert feeding.cursors == []
    feeding.offer(last=1_100)
    feeding.feed.flush(only_if_due=True)
    assert feeding.cursors == [1_100]


def test_a_sink_that_asks_to_be_left_alone_is():
    feeding = Feeding()
    error = SinkError("busy")
    error.retry_after_s = 30.0
    feeding.feed._fail(error)
    assert (feeding.feed.wait_s, feeding.feed.is_waiting) == (30.0, True)
    feeding.clock.now += 30
    assert (feeding.feed.is_paused, feeding.feed.is_waiting) == (False, False)


def test_a_cursor_that_could_not_be_stored_is_stored_before_anything_else_happens():
    feeding = Feeding()
    stored = feeding.feed._acknowledge
    feeding.feed._acknowledge = lambda number: (_ for _ in ()).throw(StoreError("the disk is full"))
    with pytest.raises(StoreError):
        feeding.offer((1, [1]), last=1)
    assert (feeding.feed.cursor, feeding.feed.wait_s) == (0, 0.0)
    feeding.feed._acknowledge = stored
    feeding.offer((1, [1]), (2, [2]), last=2)
    assert feeding.sink.kept == [(1, "cheap"), (2, "watch-ann")], "it had the first already"
    assert feeding.cursors == [1, 2]


# --------------------------------------------------------------------------------------------- who gets what


@pytest.mark.parametrize(
    ("wanted", "deliver", "expected"),
    [
        (SinkSelection(sink="ops"), (), True),
        (SinkSelection(sink="ops"), ("ops",), True),
        (SinkSelection(sink="ops"), ("audit", "ops"), True),
        (SinkSelection(sink="ops"), ("audit",), False),
        (SinkSelection(queries=("rare",), sink="ops"), ("ops",), True),
        (SinkSelection(queries=("rare",), sink="ops"), (), False),
        (SinkSelection(streams=("quotes",), sink="ops"), ("ops",), True),
    ],
)
def test_a_query_that_names_sinks_goes_to_exactly_these(wanted, deliver, expected):
    assert wanted.has(QueryFacts("cheap", "trades", deliver)) is expected


@pytest.mark.parametrize(("stream", "expected"), [("Trades", True), ("news", True), ("quotes", False)])
def test_a_join_is_found_by_each_of_its_streams(stream, expected):
    joined = QueryFacts("hot", "trades, news", joins=("trades", "news"))
    assert SinkSelection(streams=(stream,)).has(joined) is expected


def alert(number: int, round_number: int = 1, **given) -> Message:
    stated = {"query": "cheap", "query_id": 1, "generation": 1, "owner": "ops", "key": {"sym": "A", "n": None},
              "severity": "critical", "message": "A fell\nto 9.50", "row": {"sym": "A", "price": 9.5}, "result": "1-10-1",
              "at_us": 1_767_225_660_500_000, "since_us": 1_767_225_600_000_000, "n_rows": 2, "n_suppressed": 1}  # fmt: skip
    return Message(id=number, status="firing", round=round_number, **(stated | given))


def message_feed(sink, wanted: SinkSelection, at_once: int = 2) -> tuple[MessageFeed, list[int]]:
    cursors: list[int] = []
    feed = MessageFeed(
        sink,
        wanted,
        cursor=0,
        facts_of=lambda query_id, generation: QueryFacts("?", STREAMS.get(query_id, "")),
        acknowledge=cursors.append,
        at_once=at_once,
    )
    return feed, cursors


class Cuts(Recorder):
    """Which messages came together."""

    def write(self, number, batches):
        self.pending += [(number, [m.id for batch in batches for m in batch.messages])]


def test_messages_come_by_rounds_and_no_more_than_fit_at_once():
    sink = Cuts()
    feed, cursors = message_feed(sink, EVERYTHING)
    feed.offer_messages([alert(1), alert(2), alert(3), alert(4, 2), alert(5, 3)], 5)
    assert sink.kept == [(2, [1, 2]), (3, [3]), (4, [4]), (5, [5])]
    assert cursors == [2, 3, 4, 5]


def test_messages_that_a_silence_withholds_are_passed_over():
    sink = Cuts()
    feed, cursors = message_feed(sink, EVERYTHING)
    feed.offer_messages([alert(1), alert(2, silence=7), alert(3, n_withheld=1), alert(4, 2, silence=7)], 4)
    feed.flush()
    assert sink.kept == [(3, [1, 3])]
    assert cursors[-1] == 4


def test_messages_are_cut_alike_wherever_reading_starts_again():
    everything = [alert(k, 1 + k // 7) for k in range(1, 30)]
    whole = Cuts()
    message_feed(whole, EVERYTHING, 3)[0].offer_messages(everything, 29)
    for number, _ in whole.kept:
        rest = Cuts()
        feed, _ = message_feed(rest, EVERYTHING, 3)
        feed.offer_messages([m for m in everything if m.id > number], 29)
        assert rest.kept == [each for each in whole.kept if each[0] > number]


def test_a_sink_gets_the_messages_it_wants_by_the_name_and_the_sinks_of_that_time():
    given = [
        alert(1),
        alert(2, query="rare", query_id=3),
        alert(3, deliver=("ops",)),
        alert(4, deliver=("other",)),
        alert(5, query="eddyline.audit", query_id=0),
    ]
    for wanted, ids in [
        (SinkSelection(sink="ops"), [1, 2, 3, 5]),
        (SinkSelection(queries=("rare", "eddyline.*"), sink="ops"), [2, 3, 5]),
        (SinkSelection(streams=("trades",), sink="ops"), [1, 3]),
    ]:
        sink = Cuts()
        feed, cursors = message_feed(sink, wanted, 10)
        feed.offer_messages(given, 5)
        feed.flush()
        assert [k for _, found in sink.kept for k in found] == ids
        assert cursors[-1] == 5


def test_messages_leave_as_lines_as_text_and_as_columns():
    made = MessageBatch([alert(1), alert(2, key={}, message="", severity="info", reason="paused")])
    assert json.loads(made.lines()[0])["at"] == "2026-01-01T00:01:00.500000Z"
    assert made.text_lines("UTC") == [
        "firing critical cheap (sym=A, n=NULL): A fell to 9.50",
        "firing info cheap:",
    ]
    assert made.queries() == ["cheap", "cheap"]
    row = made.rows.to_pylist()[1]
    assert (row["key"], row["row"], row["reason"]) == ("{}", '{"sym": "A", "price": 9.5}', "paused")
    assert row["since"] == datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_messages_and_results_of_a_sink_never_share_a_file(tmp_path, format):
    for takes, given in (("results", batch(1, [1])), ("alerts", MessageBatch([alert(1)]))):
        sink = FileSink(tmp_path, name="ops", home_id="3f9a1c", cursor=0, takes=takes, format=format)
        sink.write(1, [given])
        assert sink.flush()
    results, alerts = sorted((path.name for path in tmp_path.iterdir()), reverse=True)
    assert results.startswith("ops-3f9a1c-000000000001-000000000001")
    assert alerts.startswith("ops+alerts-3f9a1c-000000000001-000000000001")


def test_messages_on_standard_output_are_lines():
    screen = io.StringIO()
    for format in ("text", "jsonl"):
        sink = StdoutSink(screen, format=format)
        sink.write(1, [MessageBatch([alert(1)])])
        sink.flush()
    text, line = screen.getvalue().splitlines()
    assert text == "firing critical cheap (sym=A, n=NULL): A fell to 9.50"
    assert json.loads(line)["id"] == 1
