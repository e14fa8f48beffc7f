"""How far streams that are joined can be taken to have come: own times, silent streams."""

from __future__ import annotations

import pyarrow as pa

from eddyline.engine.join_groups import groups_of
from eddyline.model import JoinInput, Role, Signature
from tests.engine.join_lives import SECOND, Life, at

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


def test_streams_are_grouped_over_others():
    found = groups_of([signature("a", "b"), signature("C", "d"), signature("B", "c"), signature("e", "f")])
    assert sorted(map(sorted, found)) == [["a", "b", "c", "d"], ["e", "f"]]


# --------------------------------------------------------------------------------------------- in an engine


def test_rows_in_order_of_time_promise_nothing_of_what_another_stream_brings():
    """All rows so far have numbers of their own and times that rise; b, of which none came, may still begin earlier."""
    life = Life(IDLE)
    life.query(NEAR, "near")
    for number, row in enumerate([(1, at(0)), (2, at(60))], 1):
        life.engine.push("a", [{"k": row[0], "ts": row[1], "_arrival": number}])
    assert life.held() == {"a": 2, "b": 0}
    life.engine.push("b", [{"k": 1, "ts": at(5), "_arrival": 3}])
    assert life.told("near") == [(1, 1)]


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
