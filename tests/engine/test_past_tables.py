"""Tables as they were before an arrival number, by what is in them now and what earlier rounds brought."""

from __future__ import annotations

import datetime
import random

import pytest

import eddyline
from eddyline.engine import PastTables
from eddyline.errors import ReceiptError
from eddyline.storage import CAPTURE

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home") as made:
        made.stream("t", "k INT, v INT", key="k")
        made.stream("e", "k INT, v INT, ts TIMESTAMP, gone BOOLEAN", key="k", time="ts", delete="gone")
        yield made


def rows(engine, name: str, before: int, *, is_current: bool = False) -> tuple[dict[int, int], bool]:
    """By arrival number the value of each row, and whether these are all."""
    past = PastTables(engine.rounds, engine.rounds.catalog.version)
    found = past.rows(engine.rounds.catalog.stream(name), before, is_current=is_current)
    return dict(zip(found.arrivals.tolist(), found.rows.column("v").to_pylist(), strict=True)), found.is_whole


def delete(k: int) -> dict[str, object]:
    return {"k": k, "_change_type": "delete"}


def test_a_table_is_what_it_was_before_each_row(engine):
    engine.push("t", [(1, 10), (2, 20)])  # 1, 2
    engine.push("t", [(2, 21)])  # 3
    engine.push("t", [delete(1)])  # 4
    engine.push("t", [(1, 11), (3, 30)])  # 5, 6
    assert rows(engine, "t", 1) == ({}, True)
    assert rows(engine, "t", 3) == ({1: 10, 2: 20}, True)
    assert rows(engine, "t", 4) == ({1: 10, 3: 21}, True)
    assert rows(engine, "t", 5) == ({3: 21}, True)
    assert rows(engine, "t", 7) == ({3: 21, 5: 11, 6: 30}, True)
    assert rows(engine, "t", 4, is_current=True) == ({3: 21}, False)
    assert rows(engine, "t", 7, is_current=True) == ({3: 21, 5: 11, 6: 30}, True)


def test_an_older_row_does_not_take_the_place_of_a_newer_one(engine):
    def row(v: int, seconds: int | None, gone: bool = False) -> dict[str, object]:
        ts = None if seconds is None else START + datetime.timedelta(seconds=seconds)
        return {"k": 1, "v": v, "ts": ts, "gone": gone}

    for each in (row(10, 5), row(11, 3), row(12, 9), row(13, 20, gone=True), row(14, 15), row(15, 30)):
        engine.push("e", [each])
    found = [rows(engine, "e", before)[0] for before in range(1, 8)]
    assert found == [{}, {1: 10}, {1: 10}, {3: 12}, {}, {}, {6: 15}]


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_a_dict_of_its_rows_was(engine, seed):
    rng, table, states, n = random.Random(seed), {}, [{}], 0
    for _ in range(12):
        pushed = []
        for _ in range(rng.randint(1, 4)):
            k, v, n = rng.randint(0, 3), rng.randint(0, 99), n + 1
            is_delete = rng.random() < 0.25
            pushed.append(delete(k) if is_delete else {"k": k, "v": v, "_change_type": "insert"})
            table.pop(k, None)
            if not is_delete:
                table[k] = n, v
            states.append(dict(table.values()))
        engine.push("t", pushed)
    assert [rows(engine, "t", before + 1) for before in range(n + 1)] == [(each, True) for each in states]


def test_a_table_that_was_dropped_has_nothing_of_what_another_of_its_name_has(engine):
    engine.push("t", [(1, 10)])
    version = engine.rounds.catalog.version
    stream = engine.rounds.catalog.stream("t")
    engine.sql("DROP TABLE t")
    engine.stream("t", "k INT, v INT", key="k")
    past = PastTables(engine.rounds, version).rows(stream, 2, is_current=False)
    assert (past.rows.num_rows, past.is_whole) == (0, False)
    engine.push("t", [(1, 12)])
    assert rows(engine, "t", 3) == ({2: 12}, True)


def test_what_is_not_retained_any_more_is_not_found_and_no_receipt_is_made_up(engine):
    engine.stream("s", "v INT")
    met = engine.query("SELECT s.v FROM s JOIN (SELECT DISTINCT v FROM t) d ON d.v = s.v", name="met")
    engine.push("t", [(1, 10)])
    engine.push("s", [(10,)])
    engine.push("t", [(1, 11)])
    assert [row["arrival"] for row in engine.receipt(met.latest(1)[0])["rows"]] == [2, 1]
    durable = engine.rounds.durable
    (capture,) = durable.rounds.files.of_round(CAPTURE, 1)
    (durable.store.folder / capture.name).unlink()
    assert rows(engine, "t", 2) == ({}, False)
    with pytest.raises(
        ReceiptError, match="the rows that the result is made of are not all retained any more"
    ):
        engine.receipt(met.latest(1)[0])
