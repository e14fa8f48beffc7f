"""Watermarks by partition: the least of those that are not idle, kept with the round."""

from __future__ import annotations

import itertools
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from eddyline.engine.event_time import LANE_IDLE_US, LaneTimes, advanced, late_rows
from eddyline.engine.shared_work import SharedRounds
from eddyline.model import ExecutionChoices, LaneProgress, Stream, StreamProgress
from eddyline.sources.captures import capture_reference
from eddyline.sources.ingestion import PUSHED, IngestedRows, Lanes
from eddyline.sources.references import PlannedInput, Reference
from eddyline.storage import write_capture
from tests.on_workers import elsewhere

SCHEMA = pa.schema([("n", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
SECOND = 1_000_000


def after(before: StreamProgress, stream: Stream, *, now_s: int = 0, lanes: Lanes | None = None, **newest):
    """The progress after a round with these largest times by partition, `p0=5`; None: rows without a time."""
    came = LaneTimes()
    for name, time in newest.items():
        came.add(pa.array([time], pa.int64()), [(name.removeprefix("p"), 1)])
    return advanced(
        before, stream, len(newest), 0, came, lanes or Lanes(), now_us=now_s * SECOND, watched_us=0
    )


def stream(lateness_us: int = 0, idle: str | None = None) -> Stream:
    properties = () if idle is None else (("idle", idle),)
    return Stream("s", SCHEMA, time="ts", lateness_us=lateness_us, properties=properties)


# --------------------------------------------------------------------------------------------- the rule


def test_the_watermark_is_the_least_of_the_partitions():
    found = after(StreamProgress(), stream(3), p0=50, p1=20, p2=70)
    assert (found.watermark_us, found.max_time_us) == (17, 70)
    found = after(found, stream(3), p1=60)
    assert found.watermark_us == 47
    assert found.lanes["1"] == LaneProgress(60, 0)


def test_it_never_falls_and_a_partition_does_not_go_back():
    found = after(StreamProgress(), stream(), p0=50)
    found = after(found, stream(), p1=20)
    assert found.watermark_us == 50
    assert after(found, stream(), p0=10).lanes["0"].max_time_us == 50


def test_a_partition_that_falls_silent_leaves_the_minimum_after_a_minute_or_the_streams_idle():
    found = after(StreamProgress(), stream(), p0=50, p1=20)
    assert after(found, stream(), now_s=LANE_IDLE_US // SECOND, p0=60).watermark_us == 20
    assert after(found, stream(), now_s=LANE_IDLE_US // SECOND + 1, p0=60).watermark_us == 60
    assert after(found, stream(idle="5 seconds"), now_s=6, p0=60).watermark_us == 60


def test_a_partition_of_which_more_lies_ready_is_never_idle_whether_it_has_spoken_or_not():
    found = after(StreamProgress(), stream(), p0=50, p1=20)
    waits = Lanes(behind=frozenset("1"), known=frozenset("01"))
    assert after(found, stream(), now_s=10_000, lanes=waits, p0=60).watermark_us == 20
    waits = Lanes(behind=frozenset("12"), known=frozenset("012"))
    found = after(StreamProgress(), stream(), lanes=waits, p0=50, p1=20)
    assert found.watermark_us is None
    assert after(found, stream(), lanes=waits, p2=10).watermark_us == 10


def test_a_partition_that_never_had_a_row_is_not_waited_for():
    empty = Lanes(known=frozenset("01"))
    assert after(StreamProgress(), stream(), lanes=empty, p0=50).watermark_us == 50


def test_a_partition_that_is_gone_is_forgotten_and_pushes_are_a_partition_of_their_own():
    found = after(StreamProgress(), stream(), p0=50, p1=20, **{PUSHED: 30})
    found = after(found, stream(), lanes=Lanes(known=frozenset("0")), p0=60)
    assert found.lanes.keys() == {"0", PUSHED}
    assert found.watermark_us == 30


def test_rows_without_a_time_say_nothing():
    assert after(StreamProgress(), stream(), p0=None).watermark_us is None
    assert after(StreamProgress(), stream(), p0=None, p1=7).watermark_us == 7


# --------------------------------------------------------------------------------------------- in an engine


class Topic:
    """An engine whose stream comes in partitions, in this process or through tasks."""

    def __init__(self, home, *, in_tasks: bool) -> None:
        self._home = home
        self._in_tasks = in_tasks
        self.now_s = 0
        self.engine = self._opened()
        self.engine.stream("s", "n BIGINT, ts TIMESTAMP", time="ts")

    def _opened(self) -> eddyline.Engine:
        return eddyline.open(self._home, clock=lambda: self.now_s * SECOND)

    def reopen(self) -> None:
        self.engine.close()
        self.engine = self._opened()

    def round(self, *parts: tuple[str, list[int]], behind: str = "", known: str = "0123") -> int:
        """A round over rows with these seconds of each partition; gives how many were late."""
        lanes = Lanes(behind=frozenset(behind), known=frozenset(known))
        batches = [(lane, self._rows(times)) for lane, times in parts]
        rounds = self.engine.rounds
        if not self._in_tasks:
            runs = tuple((lane, len(times)) for lane, times in parts)
            rows = pa.concat_batches([rows for _, rows in batches])
            lanes = Lanes(runs, lanes.behind, lanes.known)
            return rounds.run_round({"s": IngestedRows(rows, lanes=lanes)}).n_late
        store = rounds.durable.store
        references, files = [], []
        for lane, rows in batches:
            file = store.put("capture", lambda file, rows=rows: write_capture(file, [("s", rows)]))
            found = capture_reference(store.folder, file)
            references.append(Reference(found.kind, found.what, found.nbytes, lane))
            files.append(("capture", file))
        shared = SharedRounds(
            rounds, elsewhere, lambda functions: b"", choices=ExecutionChoices(task_bytes=1)
        )
        offered = PlannedInput(tuple(references), lambda counts: None, files=tuple(files), lanes=lanes)
        return shared.run_round({"s": offered}).n_late

    def _rows(self, times: list[int]) -> pa.RecordBatch:
        schema = self.engine.rounds.catalog.stream("s").schema
        instants = pa.array([t * SECOND for t in times], pa.int64()).cast(schema.field("ts").type)
        return pa.record_batch([pa.array(times, pa.int64()), instants], schema=schema)

    @property
    def watermark_s(self) -> int | None:
        mark = self.engine.streams()[0].watermark_us
        return None if mark is None else mark // SECOND


@pytest.fixture(params=[False, True], ids=["in process", "in tasks"])
def topic(request, tmp_path):
    made = Topic(tmp_path / "home", in_tasks=request.param)
    yield made
    made.engine.close()


def test_partitions_read_at_different_speeds_have_no_late_rows_of_their_own(topic):
    assert topic.round(("0", [1, 5, 9]), ("1", [1, 2]), behind="1") == 0
    assert topic.watermark_s == 2
    assert topic.round(("1", [3, 4]), ("2", [4])) == 0
    assert topic.watermark_s == 4
    assert topic.round(("0", [10]), ("1", [3, 11]), ("2", [12])) == 1


def test_partitions_are_where_they_were_when_a_home_is_opened_again(topic):
    topic.round(("0", [100]), ("1", [20]))
    topic.reopen()
    topic.now_s = 30
    assert topic.round(("0", [110])) == 0
    assert topic.watermark_s == 20
    assert topic.engine.rounds.progress["s"].lanes == {
        "0": LaneProgress(110 * SECOND, 30 * SECOND),
        "1": LaneProgress(20 * SECOND, 0),
    }
    assert topic.round(("1", [21, 19])) == 1


def test_a_tick_lets_a_silent_partition_go_unless_rows_of_the_stream_may_lie_ready(topic):
    topic.round(("0", [100]), ("1", [20]))
    topic.now_s = 61
    topic.round(("0", [101]), behind="1")
    topic.engine.rounds.unread = lambda: {"s"}
    topic.engine.tick()
    assert topic.watermark_s == 20
    topic.engine.rounds.unread = frozenset
    topic.engine.tick()
    assert topic.watermark_s == 101


def test_a_partition_is_not_idle_because_the_process_was_down(topic):
    topic.round(("0", [100]), ("1", [20]))
    topic.reopen()
    topic.now_s = 10_000
    topic.engine.tick()
    topic.engine.tick()
    assert topic.watermark_s == 20
    topic.now_s = 10_061
    topic.engine.tick()
    assert topic.watermark_s == 100


def test_a_stream_dropped_and_declared_anew_has_no_partitions(topic):
    topic.round(("0", [100]), ("1", [20]))
    topic.engine.sql("DROP TABLE s")
    topic.engine.stream("s", "n BIGINT, ts TIMESTAMP", time="ts")
    assert topic.round(("0", [1])) == 0
    topic.reopen()
    assert topic.engine.rounds.progress["s"].lanes == {"0": LaneProgress(SECOND, 0)}


def test_pushes_are_one_partition_whoever_pushes(topic):
    engine = topic.engine
    engine.push("s", [{"n": 1, "ts": "1970-01-01 00:00:10"}])
    engine.push("s", [{"n": 2, "ts": "1970-01-01 00:00:20"}])
    assert topic.watermark_s == 20
    assert list(engine.rounds.progress["s"].lanes) == [PUSHED]


@given(st.lists(st.lists(st.integers(0, 50), max_size=8), min_size=1, max_size=4), st.data())
def test_however_partitions_in_order_are_cut_no_row_is_late_and_they_end_alike(partitions, data):
    ordered = {str(lane): sorted(times) for lane, times in enumerate(partitions)}
    cuts = {
        lane: [
            0,
            *sorted(data.draw(st.lists(st.integers(0, len(times)), min_size=3, max_size=3))),
            len(times),
        ]
        for lane, times in ordered.items()
    }
    at = StreamProgress()
    for first, last in itertools.pairwise(range(5)):
        pieces = {lane: ordered[lane][cuts[lane][first] : cuts[lane][last]] for lane in ordered}
        times = [time for piece in pieces.values() for time in piece]
        assert not late_rows(pa.array(times, pa.int64()), at.watermark_us, len(times)).any()
        came = LaneTimes()
        came.add(pa.array(times, pa.int64()), [(lane, len(piece)) for lane, piece in pieces.items()])
        behind = frozenset(lane for lane, times in ordered.items() if cuts[lane][last] < len(times))
        lanes = Lanes(behind=behind, known=frozenset(ordered))
        at = advanced(at, stream(), len(times), 0, came, lanes, now_us=0, watched_us=0)
    spoken = [times[-1] for times in ordered.values() if times]
    assert at.watermark_us == min(spoken, default=None)


# --------------------------------------------------------------------------------------------- a topic


@pytest.mark.thorough
@pytest.mark.parametrize("rows_per_round", [7, 40, 10_000])
def test_catching_up_with_a_topic_in_order_within_each_partition_counts_no_late_row(
    broker, tmp_path, monkeypatch, rows_per_round
):
    from eddyline.api import PipelineRunner
    from eddyline.pipeline import load_pipeline

    monkeypatch.setenv("KAFKA_AT", broker.servers)
    topic = broker.topic(4)
    for partition in range(4):
        # one has few rows far apart, one is ahead of the others
        step = 1 + 5 * partition
        times = [1_700_000_000_000_000 + partition * 7 + k * step * 1_000 for k in range(300 // step)]
        broker.write(topic, [json.dumps({"n": k, "ts": t}) for k, t in enumerate(times)], partition=partition)
    (tmp_path / "eddyline.toml").write_text(f"""
[limits]
rows_per_round = {rows_per_round}
[streams.s]
schema = "n BIGINT, ts BIGINT"
time = "ts"
source = {{ type = "kafka", servers = "${{env:KAFKA_AT}}", topic = "{topic}", format = "json" }}
""")
    with PipelineRunner(load_pipeline(tmp_path / "eddyline.toml")) as runner:
        runner.run(once=True)
        (found,) = runner.engine.streams()
        assert found.n_late == 0
        assert found.n_rows == 300 + 50 + 27 + 18
        assert sorted(runner.engine.rounds.progress["s"].lanes) == ["0", "1", "2", "3"]


def test_the_partition_that_lags_is_shown_first_where_users_look(tmp_path):
    topic = Topic(tmp_path / "home", in_tasks=False)
    topic.engine.query(
        "SELECT a.n FROM s a JOIN s b ON a.n = b.n AND b.ts BETWEEN a.ts AND a.ts", name="twice"
    )
    topic.round(("0", [100]), ("1", [20]), ("2", [50]))
    (handle,) = topic.engine.streams()
    assert [(each.name, each.watermark_us, each.is_idle) for each in handle.partitions] == [
        ("1", 20 * SECOND, False),
        ("2", 50 * SECOND, False),
        ("0", 100 * SECOND, False),
    ]
    assert "partitions 1 at 1970-01-01T00:00:20Z, 2 at 1970-01-01T00:00:50Z, 0 at" in str(
        topic.engine.joins()
    )
    (counted,) = topic.engine.counters().streams
    assert counted.partition_lag_s == {"1": -20, "2": -50, "0": -100}
    topic.now_s = 61
    topic.round(("0", [101]))
    assert [each.is_idle for each in handle.partitions] == [True, True, False]
    topic.engine.close()


def test_a_stream_is_unread_until_its_source_has_nothing_left(tmp_path):
    from eddyline.api import PipelineRunner
    from eddyline.pipeline import read_pipeline

    text = (
        '[streams.s]\nschema = "n BIGINT, ts BIGINT"\ntime = "ts"\n'
        'source = { type = "files", path = "in", format = "json" }\n'
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"n": 1, "ts": 5}\n')
    with PipelineRunner(read_pipeline(text, tmp_path / "eddyline.toml")) as runner:
        unread: list[set[str]] = []
        runner.engine.rounds.at_step = lambda step: unread.append(set(runner.engine.rounds.unread()))
        runner.run(once=True)
        assert all(each == {"s"} for each in unread)
        assert runner.engine.rounds.unread() == set()
    assert runner.engine.rounds.unread() == frozenset()


def test_rows_to_look_back_on_say_which_of_them_came_late(topic):
    topic.round(("0", [10]))
    topic.round(("0", [4, 11, 9]))
    rounds = topic.engine.rounds
    rows, is_late = rounds.recent_rows("s").last_marked(3, rounds.catalog.stream("s").schema)
    assert rows.column("n").to_pylist() == [4, 11, 9]
    assert is_late.tolist() == [True, False, True]
