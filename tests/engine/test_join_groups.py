"""How far streams that are joined can be taken to have come: own times, input in order, silent streams."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.batch import TupleBatch
from eddyline.engine.join_groups import JoinClock, groups_of
from eddyline.joins.plan import Arrived
from eddyline.model import JoinInput, Role, Signature, Stream, StreamProgress
from tests.engine.join_lives import SECOND, Life, at

SCHEMA = pa.schema([("k", pa.int32()), ("ts", pa.int64())])
IDLE = """
    CREATE TABLE a (k INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', idle = '1 minute');
    CREATE TABLE b (k INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', idle = '1 minute');
    CREATE TABLE q (k INT PRIMARY KEY, v INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts')
"""
NEAR = (
    "SELECT a.k, b.k AS other FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECONDS"
)


def signature(*streams: str) -> Signature:
    return Signature(" x ".join(streams), tuple(JoinInput(name, Role.WINDOW) for name in streams))


def stream(name: str, *, key: tuple[str, ...] = (), lateness_us: int = 0) -> Stream:
    return Stream(name, SCHEMA, time="ts", lateness_us=lateness_us, key=key)


def rows(name: str, arrival: list[int], times: list[int]) -> Arrived:
    n = len(arrival)
    batch = pa.record_batch([pa.array([0] * n, pa.int32()), pa.array(times, pa.int64())], schema=SCHEMA)
    marks = np.array(arrival, np.int64), np.ones(n, np.int8), np.zeros(n, dtype=bool)
    return Arrived(TupleBatch(name, batch, *marks), np.array(times, np.int64), np.arange(n))


def test_streams_are_grouped_over_others():
    found = groups_of([signature("a", "b"), signature("C", "d"), signature("B", "c"), signature("e", "f")])
    assert sorted(map(sorted, found)) == [["a", "b", "c", "d"], ["e", "f"]]


class Clock:
    """A clock over streams a and b, and a table q."""

    def __init__(self, *, lateness_us: int = 0) -> None:
        self.clock = JoinClock()
        self.groups = [frozenset("abq")]
        self.streams = {
            "a": stream("a", lateness_us=lateness_us),
            "b": stream("b"),
            "q": stream("q", key=("k",)),
        }
        self.progress = dict.fromkeys("abq", StreamProgress())

    def came(
        self, *, is_numbered: bool = True, **given: tuple[list[int], list[int]]
    ) -> dict[str, int | None]:
        arrived = {name: rows(name, *each) for name, each in given.items()}
        before = dict(self.progress)
        self.clock.note(self.groups, self.streams, arrived, set(given), before, is_numbered=is_numbered)
        for name, (_, times) in given.items():
            newest = max([t for t in (before[name].max_time_us, *times) if t is not None])
            watermark = newest - self.streams[name].lateness_us
            self.progress[name] = StreamProgress(n_rows=1, max_time_us=newest, watermark_us=watermark)
        return self.clock.watermarks(self.groups, self.streams, self.progress)


def test_in_order_what_one_stream_brought_tells_of_all():
    clock = Clock(lateness_us=3)
    assert clock.came(a=([1], [10])) == {"a": 7, "b": 10, "q": None}
    assert clock.came(b=([2, 4], [20, 22]), a=([3], [21])) == {"a": 19, "b": 22, "q": None}


@pytest.mark.parametrize("times", [([3, 4], [9, 12]), ([3, 4], [13, 12]), ([3], [9])])
def test_out_of_order_each_stream_tells_of_itself_for_good(times):
    clock = Clock()
    clock.came(a=([1], [10]))
    assert clock.came(b=times) == {"a": 10, "b": max(times[1]), "q": None}
    assert clock.came(b=([10], [50])) == {"a": 10, "b": 50, "q": None}


def test_rows_without_numbers_of_their_own_are_not_in_order():
    assert Clock().came(a=([1], [10]), is_numbered=False) == {"a": 10, "b": None, "q": None}


def test_a_table_says_nothing_of_others():
    clock = Clock()
    clock.came(a=([1], [10]))
    assert clock.came(q=([2], [5]))["b"] == 10
    assert clock.came(q=([3], [50])) == {"a": 10, "b": 10, "q": 50}


def test_rows_that_joins_do_not_know_are_taken_to_be_out_of_order():
    clock = Clock()
    clock.clock.note(clock.groups, clock.streams, {}, {"a"}, clock.progress, is_numbered=True)
    assert clock.came(b=([1], [10])) == {"a": None, "b": 10, "q": None}


def test_a_stream_declared_anew_has_no_past():
    clock = Clock()
    clock.came(a=([1], [10]), is_numbered=False)
    clock.clock.forget("a")
    clock.progress["a"] = StreamProgress()
    assert clock.came(b=([2], [20])) == {"a": 20, "b": 20, "q": None}


# --------------------------------------------------------------------------------------------- in an engine


def test_changes_of_a_table_that_change_nothing_may_be_numbered():
    life = Life(IDLE)
    life.query("SELECT a.k, q.v FROM a JOIN q ON a.k = q.k", "latest")
    for number in (1, 2):
        schema = pa.schema([*life.engine.rounds.catalog.stream("q").schema, pa.field("_arrival", pa.int64())])
        life.engine.push({"q": pa.table([[1], [5], [at(0)], [number]], schema=schema)})
    life.push(a=[(1, at(0))])
    assert life.told("latest") == [(1, 5)]


def test_a_silent_stream_is_lifted_to_its_partners_and_what_it_brings_below_that_is_late():
    life = Life(IDLE)
    life.query(NEAR, "near")
    life.push(a=[(1, at(0)), (2, at(1))], b=[(1, at(5))])
    life.now_s = 100
    life.push(a=[(3, at(50)), (3, at(90))])  # its watermark is 90 from the next round on
    assert life.engine.rounds.progress["b"].watermark_us == int(at(90).timestamp() * SECOND)
    assert life.held() == {"a": 1, "b": 0}, "rows of a before 80 can have no partner now"
    assert life.push(b=[(2, at(8)), (3, at(95))]).n_late == 1
    assert life.told("near") == [(1, 1), (3, 3)]


def test_a_stream_that_has_brought_rows_in_the_round_is_not_silent():
    life = Life(IDLE)
    life.query(NEAR, "near")
    life.push(a=[(1, at(0))], b=[(9, at(0))])
    life.now_s = 100
    life.push(a=[(2, at(60))], b=[(1, at(5))])
    assert life.told("near") == [(1, 1)]
    assert life.engine.rounds.progress["b"].watermark_us == int(at(5).timestamp() * SECOND)


def test_nobody_waits_for_a_table():
    life = Life(IDLE)
    life.query("SELECT a.k FROM a JOIN b ON a.k = b.k AND a.ts = b.ts JOIN q ON a.k = q.k", "three")
    life.push(a=[(1, at(0))], b=[(9, at(0))], q=[(1, 1, at(0))])
    life.now_s = 100
    life.push(a=[(2, at(60))])
    assert life.engine.rounds.progress["b"].watermark_us == int(at(60).timestamp() * SECOND)


def test_a_lifted_watermark_does_not_fall_when_rows_come_or_the_home_is_opened_again(tmp_path):
    life = Life(IDLE, tmp_path / "home")
    life.query(NEAR, "near")
    life.push(a=[(1, at(0))], b=[(9, at(0))])
    life.now_s = 100
    life.push(a=[(2, at(60))])
    lifted = int(at(60).timestamp() * SECOND)
    life.push(b=[(2, at(10))])
    assert life.engine.rounds.progress["b"].watermark_us == lifted
    life.reopen()
    assert life.push(b=[(2, at(11))]).n_late == 1
    assert life.engine.rounds.progress["b"].watermark_us == lifted
    assert life.told("near") == []
    life.engine.close()


def test_a_tick_lifts_too_and_lets_rows_go():
    life = Life(IDLE)
    life.query(NEAR, "near")
    life.push(a=[(1, at(0))], b=[(9, at(0))])
    life.now_s = 50
    life.push(a=[(2, at(60))])
    assert life.held()["a"] == 2
    life.now_s = 100
    life.push()
    assert life.held()["a"] == 1


def test_a_stream_dropped_while_a_round_lifts_it_leaves_nothing():
    life = Life(IDLE)
    life.query(NEAR, "near")
    life.push(a=[(1, at(0))], b=[(9, at(0))])
    life.now_s = 50

    def drop(step: str) -> None:
        if step == "3 work":
            life.engine.rounds.at_step = lambda step: None
            life.engine.drop("near")
            life.engine.sql("DROP TABLE b")

    life.push(a=[(2, at(60))])
    life.engine.rounds.at_step = drop
    life.now_s = 100
    life.push()
    assert "b" not in life.engine.rounds.progress
