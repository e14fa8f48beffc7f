"""The result log: the newest results of every query, within a bound for each and for all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.batch import PartMatches, TupleBatch
from eddyline.delivery import ResultLog
from eddyline.model import Call, Column, Condition, Input, Literal, Projected, Segment, Shape, Slot, SlotInfo

N = Column(pa.int64(), "n")
DOUBLED = Call(pa.int64(), "+", (N, N))
SHAPE = Shape(
    "shape",
    (Input("s", "s"),),
    (
        Projected("n", N),
        Projected("k", Slot(pa.int64(), 0)),
        Projected("one", Literal(pa.int64(), 1)),
        Projected("twice", DOUBLED),
    ),
    Condition(),
    (SlotInfo(0, pa.int64()),),
)
ONLY_CONSTANTS = Shape(
    "constants", (Input("s", "s"),), (Projected("one", Literal(pa.int64(), 1)),), Condition(), ()
)


def part(
    first_arrival: int, pairs: list[tuple[int, int]], n_queries: int = 3, shape: Shape = SHAPE, width: int = 0
) -> PartMatches:
    """Pairs (row, query position): rows are numbered from `first_arrival` on and hold their number."""
    n_rows = max(row for row, _ in pairs) + 1
    arrival = np.arange(first_arrival, first_arrival + n_rows)
    columns = {"n": pa.array(arrival), "unused": pa.array(["x" * width] * n_rows)}
    batch = TupleBatch(
        "s", pa.RecordBatch.from_pydict(columns), arrival, np.ones(n_rows, np.int8), np.zeros(n_rows, bool)
    )
    slots = (pa.array(range(100, 100 + n_queries)),) if shape.slots else ()
    segment = Segment(shape, np.arange(1, n_queries + 1, dtype=np.int32), slots, np.ones(n_queries, bool))
    rows, positions = np.array(pairs, dtype=np.int64).T
    computed = {} if shape is not SHAPE else {DOUBLED: pa.array(arrival[rows] * 2)}
    return PartMatches(batch, segment, rows, positions, computed)


def read(log: ResultLog, query_id: int, **options) -> list[int]:
    return [row["n"] for _, rows, _ in log.read(query_id, **options) for row in rows.to_pylist()]


def test_results_are_projected_when_they_are_read():
    log = ResultLog(10, 1 << 20)
    log.append(1, 1, part(5, [(0, 1), (1, 1), (1, 2)]))
    ((entry, rows, _),) = log.read(2)
    assert entry.round_number == 1
    assert rows.to_pylist() == [
        {"n": 5, "k": 101, "one": 1, "twice": 10},
        {"n": 6, "k": 101, "one": 1, "twice": 12},
    ]
    assert read(log, 3) == [6]
    assert read(log, 1) == read(log, 99) == []


def test_at_most_the_newest_are_given_in_order_of_arrival():
    log = ResultLog(4, 1 << 20)
    log.append(1, 1, part(1, [(2, 0), (0, 0), (1, 0)]))
    log.append(2, 1, part(4, [(0, 0), (1, 0)]))
    assert read(log, 1) == [2, 3, 4, 5]
    assert read(log, 1, newest=3) == [3, 4, 5]
    assert read(log, 1, newest=99) == [2, 3, 4, 5]
    assert (log.produced(1), log.kept(1), log.dropped(1)) == (5, 4, 1)


def test_a_reader_goes_on_where_it_was():
    log = ResultLog(10, 1 << 20)
    log.append(1, 1, part(1, [(0, 0)]))
    seen = log.end
    log.append(2, 1, part(2, [(0, 0)]))
    assert read(log, 1, since=seen) == [2]
    assert read(log, 1, since=log.end) == []


def test_counters_are_per_query_and_end_with_it():
    log = ResultLog(10, 1 << 20)
    log.append(1, 1, part(1, [(0, 0), (0, 1)]))
    log.append(2, 1, part(2, [(0, 1)], n_queries=5000))
    assert [log.produced(q) for q in (1, 2, 3, 100_000)] == [1, 2, 0, 0]
    log.forget(2)
    log.forget(100_000)
    assert log.produced(2) == 0


@pytest.mark.parametrize("shape", [SHAPE, ONLY_CONSTANTS], ids=["columns", "constants only"])
def test_a_log_that_outgrows_its_bytes_keeps_the_newest_of_each_query(shape):
    log = ResultLog(3, 60_000)
    log.append(1, 1, part(1, [(0, 2)], shape=shape))
    dropped = 0
    for round_ in range(2, 60):
        dropped += log.append(
            round_, 1, part(round_ * 100, [(row, 0) for row in range(50)], shape=shape, width=20)
        )
        assert log.nbytes <= 60_000
    assert log.n_dropped == dropped > 1000
    ((entry, rows, _),) = log.read(3)
    assert entry.round_number == 1  # the rare query's only result is still there
    assert rows.num_rows == 1
    newest = [int(a) for entry, _, pairs in log.read(1) for a in entry.part.arrivals[pairs]]
    assert newest == [5947, 5948, 5949]
    assert (log.produced(1), log.kept(1)) == (58 * 50, 3)


def test_rows_shared_by_parts_of_a_round_count_once():
    one = part(1, [(0, 0)], width=100_000)
    other = PartMatches(one.batch, one.segment, one.rows, one.positions + 1, one.computed)
    log = ResultLog(10, 10 << 20)
    log.append(1, 1, one)
    after_one = log.nbytes
    log.append(1, 1, other)
    assert log.nbytes - after_one < 10_000


def test_results_larger_than_the_log_leave_the_newest_round():
    log = ResultLog(100, 1_000)
    log.append(1, 1, part(1, [(row, 0) for row in range(100)], width=100))
    log.append(2, 1, part(200, [(row, 0) for row in range(100)], width=100))
    assert read(log, 1)[-1] == 299
