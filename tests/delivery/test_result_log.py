"""The result log: all results within a number of bytes, beyond it the newest of every query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.batch import BitmapHits, ListHits, PartMatches, Positions, TupleBatch
from eddyline.delivery import ResultLog, newest_pairs
from eddyline.delivery.result_log import ENTRY_BYTES, SCANS_BEFORE_SORT
from eddyline.hit_matches import HitMatches
from eddyline.model import (
    Call,
    Column,
    Condition,
    Input,
    Literal,
    ProjectedColumn,
    Segment,
    Shape,
    Slot,
    SlotInfo,
    StreamPlan,
)
from eddyline.storage import StoredPart
from tests.made_hits import bitmap_hits, list_hits

N = Column(pa.int64(), "n")
DOUBLED = Call(pa.int64(), "+", (N, N))
SHAPE = Shape(
    "shape",
    (Input("s", "s"),),
    (
        ProjectedColumn("n", N),
        ProjectedColumn("k", Slot(pa.int64(), 0)),
        ProjectedColumn("one", Literal(pa.int64(), 1)),
        ProjectedColumn("twice", DOUBLED),
    ),
    Condition(),
    (SlotInfo(0, pa.int64()),),
)
PLAIN = Shape(
    "plain",
    (Input("s", "s"),),
    (ProjectedColumn("n", N), ProjectedColumn("k", Slot(pa.int64(), 0))),
    Condition(),
    (SlotInfo(0, pa.int64()),),
)
ONLY_CONSTANTS = Shape(
    "constants", (Input("s", "s"),), (ProjectedColumn("one", Literal(pa.int64(), 1)),), Condition(), ()
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
    return [row["n"] for _, part, pairs in log.read(query_id, **options) for row in rows_of(part, pairs)]


def rows_of(part: PartMatches | StoredPart, pairs: Positions) -> list[dict[str, int]]:
    return part.project(pairs).to_pylist()


def hits(
    first_arrival: int,
    given: ListHits | BitmapHits,
    ids: range = range(1, 4),
    shape: Shape = PLAIN,
    width: int = 0,
) -> HitMatches:
    """Rows are numbered from `first_arrival` on and hold their number; the constant of a query is 100 more than its id."""
    n_rows = len(given.counts)
    arrival = np.arange(first_arrival, first_arrival + n_rows)
    columns = {"n": pa.array(arrival), "unused": pa.array(["x" * width] * n_rows)}
    batch = TupleBatch(
        "s", pa.RecordBatch.from_pydict(columns), arrival, np.ones(n_rows, np.int8), np.zeros(n_rows, bool)
    )
    constants = pa.array(range(ids.start + 100, ids.stop + 100), pa.int64())
    segment = Segment(shape, np.array(ids, np.int32), (constants,), np.ones(len(ids), bool))
    return HitMatches(batch, StreamPlan("s", 1, (segment,)), given)


def test_results_are_projected_when_they_are_read():
    log = ResultLog(10, 1 << 20)
    log.append(1, 1, part(5, [(0, 1), (1, 1), (1, 2)]))
    ((entry, found, pairs),) = log.read(2)
    assert entry.round_number == 1
    assert rows_of(found, pairs) == [
        {"n": 5, "k": 101, "one": 1, "twice": 10},
        {"n": 6, "k": 101, "one": 1, "twice": 12},
    ]
    assert read(log, 3) == [6]
    assert read(log, 1) == read(log, 99) == []


def test_everything_is_given_in_order_of_arrival_while_there_is_room():
    log = ResultLog(4, 1 << 20)
    log.append(1, 1, part(1, [(2, 0), (0, 0), (1, 0)]))
    log.append(2, 1, part(4, [(0, 0), (1, 0)]))
    assert read(log, 1) == [1, 2, 3, 4, 5]
    assert read(log, 1, newest=3) == [3, 4, 5]
    assert read(log, 1, newest=99) == [1, 2, 3, 4, 5]
    assert read(log, 1, newest=0) == []
    assert (log.n_produced_by(1), log.n_retained_of(1), log.n_dropped_of(1)) == (5, 5, 0)
    assert log.is_whole(0)
    assert not log.has_lost(1, 1)


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
    assert [log.n_produced_by(q) for q in (1, 2, 3, 100_000)] == [1, 2, 0, 0]
    log.forget(2)
    log.forget(100_000)
    assert log.n_produced_by(2) == 0


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
    ((entry, found, pairs),) = log.read(3)
    assert entry.round_number == 1  # the rare query's only result is still there
    assert len(rows_of(found, pairs)) == 1
    newest = [int(a) for _, found, pairs in log.read(1) for a in found.arrivals[pairs]]
    assert newest[-3:] == [5947, 5948, 5949]
    assert newest == _arrived(range(2, 60))[-len(newest) :]  # without a gap
    assert len(newest) % 50 == 0  # whole rounds
    assert (log.n_produced_by(1), log.n_retained_of(1)) == (58 * 50, len(newest))
    assert not log.is_whole(0)
    assert log.is_whole(log.end)
    assert (log.has_lost(1, 2), log.has_lost(1, 59), log.has_lost(3, 1)) == (True, False, False)


def test_rows_shared_by_parts_of_a_round_count_once():
    one = part(1, [(0, 0)], width=100_000)
    other = PartMatches(one.batch, one.segment, one.rows, one.positions + 1, one.computed_values)
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


# ------------------------------------------------------------------------------------- hits


def bitmap(n_rows: int, pairs: list[tuple[int, int]]) -> BitmapHits:
    return bitmap_hits(n_rows, [3, 0, 2, 1], pairs)


def everything(n_rows: int, *ids: int) -> list[tuple[int, int]]:
    return [(row, i) for row in range(n_rows) for i in ids]


@pytest.mark.parametrize("made", [list_hits, bitmap], ids=["a list", "a bitmap"])
def test_hits_are_looked_up_when_they_are_read(made):
    log = ResultLog(10, 1 << 20)
    log.append(1, 1, hits(5, made(3, [(0, 2), (2, 2), (2, 3)])))
    ((entry, found, pairs),) = log.read(2)
    assert entry.round_number == 1
    assert rows_of(found, pairs) == [{"n": 5, "k": 102}, {"n": 7, "k": 102}]
    assert found.arrivals[pairs].tolist() == [5, 7]
    assert read(log, 3) == [7]
    assert read(log, 1) == read(log, 99) == []
    assert [log.n_produced_by(i) for i in (1, 2, 3, 99)] == [0, 2, 1, 0]


@pytest.mark.parametrize("made", [list_hits, bitmap], ids=["lists", "bitmaps"])
def test_all_hits_are_given_in_order_of_arrival_while_there_is_room(made):
    log = ResultLog(4, 1 << 20)
    log.append(1, 1, hits(1, made(3, everything(3, 1))))
    log.append(2, 1, hits(4, made(2, everything(2, 1))))
    assert read(log, 1) == [1, 2, 3, 4, 5]
    assert read(log, 1, newest=3) == [3, 4, 5]
    assert (log.n_produced_by(1), log.n_retained_of(1), log.n_dropped_of(1)) == (5, 5, 0)


def test_lists_bitmaps_and_parts_are_read_in_the_order_they_came():
    log = ResultLog(10, 1 << 20)
    log.append(1, 1, hits(1, list_hits(1, [(0, 1)])))
    log.append(2, 1, hits(2, bitmap(1, [(0, 1)])))
    seen = log.end
    log.append(3, 1, part(3, [(0, 0)]))
    log.append(4, 1, hits(4, bitmap(1, [(0, 1)])))
    log.append(5, 1, hits(5, list_hits(1, [(0, 1)])))
    assert read(log, 1) == [1, 2, 3, 4, 5]
    assert read(log, 1, since=seen) == [3, 4, 5]
    assert read(log, 1, newest=2) == [4, 5]
    assert log.n_produced_by(1) == log.n_retained_of(1) == 5


def test_a_list_that_is_asked_often_answers_the_same():
    log = ResultLog(10, 1 << 20)
    log.append(1, 1, hits(1, list_hits(3, [(0, 3), (0, 2), (1, 1), (2, 2), (2, 3)])))
    for _ in range(SCANS_BEFORE_SORT + 2):
        assert [read(log, i) for i in (1, 2, 3, 4)] == [[2], [1, 3], [1, 3], []]


def test_counters_have_a_place_for_every_query_of_the_plan():
    log = ResultLog(10, 1 << 20)
    log.append(1, 1, hits(1, list_hits(1, [(0, 5000)]), ids=range(1, 5001)))
    log.append(2, 1, hits(2, bitmap_hits(1, [90_000], [(0, 90_000)]), ids=range(90_000, 90_001)))
    log.append(3, 1, hits(3, list_hits(1, [(0, 5000)]), ids=range(1, 5001)))
    assert [log.n_produced_by(i) for i in (1, 5000, 90_000, 1_000_000)] == [0, 2, 1, 0]


def test_lists_that_outgrow_the_bytes_keep_the_newest_of_each_query_and_only_what_they_show():
    log = ResultLog(3, 60_000)
    log.append(1, 1, hits(1, list_hits(1, [(0, 3)]), ids=range(1, 1001)))
    dropped = 0
    for round_ in range(2, 60):
        found = hits(round_ * 100, list_hits(50, everything(50, 1)), ids=range(1, 1001), width=20)
        dropped += log.append(round_, 1, found)
        assert log.nbytes <= 60_000
    assert log.n_dropped == dropped > 1000
    assert read(log, 3) == [1]  # the rare query's only result is still there
    newest = read(log, 1)
    assert newest == _arrived(range(2, 60))[-len(newest) :]
    assert len(newest) % 50 == 0
    ((_, rare, _),) = log.read(3)
    assert rare.batch.rows.schema.names == ["n"]
    assert len(rare.segment) == 1
    assert (log.n_produced_by(1), log.n_retained_of(1)) == (58 * 50, len(newest))


def _arrived(rounds: range) -> list[int]:
    """Fifty rows a round, numbered from a hundred times its number on."""
    return [round_ * 100 + row for round_ in rounds for row in range(50)]


def test_the_oldest_bitmaps_go_whole_where_newer_ones_fill_the_rings():
    one = hits(1, bitmap(100, everything(100, 1, 2)))
    by_lane = 4 * 512
    log = ResultLog(100, 2 * 3 * (one.nbytes + one.batch.nbytes + ENTRY_BYTES + by_lane) + 100)
    gone = [
        log.append(round_, 1, hits(round_ * 100, bitmap(100, everything(100, 1, 2))))
        for round_ in range(1, 6)
    ]
    assert gone == [0, 0, 0, 200, 200]  # three fit in half of the bytes
    assert log.n_dropped == 400
    assert read(log, 1) == list(range(300, 600))
    assert (log.n_produced_by(1), log.n_retained_of(1), log.n_dropped_of(1)) == (500, 300, 200)


def test_what_a_seldom_matching_query_had_in_a_bitmap_stays_when_it_goes():
    log = ResultLog(10, 300_000)
    log.append(1, 1, hits(1_000, bitmap(100, [(7, 3), *everything(100, 1)])))
    log.append(2, 1, hits(2_000, bitmap(100, [(1, 2), (2, 2), *everything(100, 1)])))
    for round_ in range(3, 60):
        log.append(round_, 1, hits(round_ * 1_000, bitmap(100, [(5, 2), *everything(100, 1)])))
    assert read(log, 3) == [1_007]
    seldom = [round_ * 1_000 + 5 for round_ in range(3, 60)]
    found = read(log, 2)
    assert found == seldom[-len(found) :]
    assert len(found) >= 10
    often = read(log, 1)
    assert often[-100:] == list(range(59_000, 59_100))
    assert len(often) % 100 == 0
    assert [log.n_produced_by(i) for i in (1, 2, 3)] == [59 * 100, 59, 1]


def test_bitmaps_of_the_newest_round_stay_however_large():
    log = ResultLog(100, 1_000)
    assert log.append(1, 1, hits(1, bitmap(100, everything(100, 1)))) == 0
    assert log.append(2, 1, hits(200, bitmap(100, everything(100, 1)))) == 100
    assert log.append(2, 1, hits(200, bitmap(100, everything(100, 2)))) == 0
    assert [log.n_retained_of(i) for i in (1, 2)] == [100, 100]
    assert [log.n_produced_by(i) for i in (1, 2)] == [200, 100]


def test_bitmaps_leave_half_of_the_bytes_to_rare_results():
    log = ResultLog(10, 100_000)
    log.append(1, 1, hits(1, list_hits(1, [(0, 3)])))
    for round_ in range(2, 50):
        log.append(round_, 1, hits(round_ * 1_000, bitmap(1_000, everything(1_000, 1))))
    log.append(50, 1, hits(60_000, list_hits(1, [(0, 3)])))
    assert read(log, 3) == [1, 60_000]
    assert read(log, 1)[-1_000:] == list(range(49_000, 50_000))


def test_masks_that_only_an_earlier_plan_holds_count_as_bytes():
    log = ResultLog(10, 10 << 20)
    one = hits(1, list_hits(1, [(0, 1)]), ids=range(1, 100_001))
    log.append(1, 1, one)
    first = log.nbytes
    log.append(2, 1, replace(one, hits=list_hits(1, [(0, 2)])))
    assert log.nbytes - first < 10_000  # the same plan
    before = log.nbytes
    segment = one.plan.segments[0]
    mask = segment.is_live.copy()
    mask[5] = False
    later = StreamPlan("s", 2, (replace(segment, is_live=mask),))
    log.append(3, 2, replace(one, plan=later))
    assert log.nbytes - before > 100_000


def test_results_of_a_dropped_query_go_with_the_next_rewrite():
    log = ResultLog(1_000, 60_000)
    log.append(1, 1, hits(1, list_hits(2, everything(2, 1, 2))))
    log.append(2, 1, part(3, [(0, 0), (0, 2)]))
    log.forget(1)
    assert (log.n_produced_by(1), read(log, 1)) == (0, [1, 2, 3])
    log.append(3, 1, hits(4, list_hits(500, everything(500, 3)), width=100))  # too much as it came
    assert read(log, 1) == []
    assert read(log, 2) == [1, 2]
    assert read(log, 3)[0] == 3


@given(
    st.lists(
        st.tuples(
            st.booleans(), st.sets(st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 3])), min_size=1)
        ),
        max_size=30,
    ),
    st.integers(1, 5),
    st.sampled_from([3_000, 10_000, 1 << 20]),
)
def test_readers_see_the_newest_of_what_is_kept_and_all_is_counted(rounds, per_query, max_bytes):
    log = ResultLog(per_query, max_bytes)
    arrived: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for number, (is_bitmap, pairs) in enumerate(rounds, start=1):
        log.append(number, 1, hits(number * 10, (bitmap if is_bitmap else list_hits)(4, sorted(pairs))))
        for row, query_id in sorted(pairs):
            arrived[query_id].append(number * 10 + row)
    for query_id, everything in arrived.items():
        found = read(log, query_id)
        assert log.n_produced_by(query_id) == len(everything)
        assert log.n_retained_of(query_id) == len(found)
        if max_bytes == 1 << 20:
            assert found == everything
        if log.is_whole(0):
            assert found == everything
        assert log.has_lost(query_id, 1) == (found != everything)
        assert found == sorted(set(found) & set(everything))


@pytest.mark.parametrize(
    ("n", "expected"),
    [(0, [[], []]), (1, [[], [1]]), (2, [[2], [1]]), (3, [[1, 2], [1]]), (9, [[0, 1, 2], [0, 1]])],
)
def test_the_newest_results_of_a_round_are_chosen_over_all_its_pieces(n, expected):
    numbers = [np.array([2, 5, 7]), np.array([3, 9])]
    assert [each.tolist() for each in newest_pairs(numbers, n)] == expected
