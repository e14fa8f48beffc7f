"""What can be asked of the matches of a batch, however the filters gave them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.batch import ListHits, PartMatches, TupleBatch
from eddyline.filters import FilterOutput
from eddyline.hit_matches import HitMatches, distinct_ids
from eddyline.model import (
    FIRST_BODY,
    FIRST_BRANCH,
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
from tests.made_hits import bitmap_hits, list_hits

N = Column(pa.int64(), "n")
TWICE = Call(pa.int64(), "+", (N, N))
SHOWN = Slot(pa.int64(), 1)  # slot 0 is only compared with
PLAIN = (ProjectedColumn("n", N), ProjectedColumn("k", SHOWN), ProjectedColumn("one", Literal(pa.int64(), 1)))
COMPUTED = (*PLAIN, ProjectedColumn("twice", TWICE))


def shape(key: str, projection: tuple[ProjectedColumn, ...]) -> Shape:
    slots = (SlotInfo(0, pa.string()), SlotInfo(1, pa.int64()))
    return Shape(key, (Input("s", "s"),), projection, Condition(), slots)


def segment(
    ids: list[int],
    *,
    dead: list[int] = (),
    projection: tuple[ProjectedColumn, ...] = PLAIN,
    key: str = "shape",
) -> Segment:
    """Queries whose constants are "c" and 100 times their id; those in `dead` no longer stand there."""
    constants = (pa.array(["c"] * len(ids)), pa.array([100 * i for i in ids], pa.int64()))
    is_live = np.array([i not in dead for i in ids], dtype=bool)
    return Segment(shape(key, projection), np.array(ids, np.int32), constants, is_live)


def batch(n_rows: int) -> TupleBatch:
    """Row i holds 10 * i and arrived as number 1000 + i."""
    columns = {"n": pa.array([10 * i for i in range(n_rows)], pa.int64()), "unused": pa.array(["x"] * n_rows)}
    return TupleBatch(
        "s",
        pa.RecordBatch.from_pydict(columns),
        np.arange(1000, 1000 + n_rows),
        np.ones(n_rows, np.int8),
        np.zeros(n_rows, dtype=bool),
    )


def part(rows: TupleBatch, of: Segment, pairs: list[tuple[int, int]]) -> PartMatches:
    """Matches (row, query id) of a segment that shows a computed value."""
    at = np.array([row for row, _ in pairs], np.int64)
    positions = np.searchsorted(of.ids, np.array([i for _, i in pairs], np.int32))
    return PartMatches(rows, of, at, positions, {TWICE: pa.array([20 * row for row, _ in pairs], pa.int64())})


def pairs_of(output: FilterOutput) -> list[tuple[int, int]]:
    offsets, ids = output.pairs()
    assert len(offsets) == len(output.batch) + 1
    return [(row, int(i)) for row in range(len(offsets) - 1) for i in ids[offsets[row] : offsets[row + 1]]]


def result(row: int, query_id: int, *, is_computed: bool) -> dict[str, int]:
    found = {"n": 10 * row, "k": 100 * query_id, "one": 1}
    return {**found, "twice": 20 * row} if is_computed else found


# ------------------------------------------------------------------------------------- by hand

ROWS = batch(3)
PLAN = StreamPlan("s", 7, (segment([1, 2, 5]), segment([2, 3], dead=[2], key="other")))


def test_one_list_is_given_as_it_is():
    hits = list_hits(3, [(0, 5), (0, 1), (2, 3)])
    offsets, ids = FilterOutput(ROWS, PLAN, (hits,)).pairs()
    assert offsets is hits.offsets
    assert ids is hits.ids
    assert ids.tolist() == [5, 1, 3]  # in no particular order


def test_a_bitmap_is_decoded_only_when_pairs_are_asked_for():
    output = FilterOutput(ROWS, PLAN, (bitmap_hits(3, [5, 0, 3], [(0, 5), (0, 3), (2, 3)]),))
    assert output.n_matches == 3
    assert output.offsets.tolist() == [0, 2, 2, 3]
    assert sorted(pairs_of(output)) == [(0, 3), (0, 5), (2, 3)]


def test_hits_and_parts_are_given_together_row_by_row():
    computing = segment([8, 9], projection=COMPUTED)
    output = FilterOutput(
        ROWS,
        StreamPlan("s", 7, (*PLAN.segments, computing)),
        (list_hits(3, [(1, 1)]), bitmap_hits(3, [2], [(0, 2), (1, 2)]), list_hits(3, [])),
        (part(ROWS, computing, [(2, 8), (0, 8), (0, 9)]), part(ROWS, computing, [(2, 9)])),
    )
    assert output.offsets.tolist() == [0, 3, 5, 7]
    assert sorted(pairs_of(output)) == [(0, 2), (0, 8), (0, 9), (1, 1), (1, 2), (2, 8), (2, 9)]
    assert output.query_ids().tolist() == [1, 2, 8, 9]


def test_nothing_matched():
    output = FilterOutput(ROWS, PLAN, (list_hits(3, []), bitmap_hits(3, [1], [])))
    assert output.n_matches == 0
    assert [each.tolist() for each in output.pairs()] == [[0, 0, 0, 0], []]
    assert list(output.all_matches()) == list(output.all_parts()) == []
    assert output.query_ids().tolist() == []
    assert output.parts_of(1) == []
    assert output.only([]).n_matches == 0


def test_a_batch_without_rows_has_no_pairs():
    assert [each.tolist() for each in FilterOutput(batch(0), PLAN).pairs()] == [[0], []]


def test_late_parts_are_by_segment_with_the_constants_of_each_query():
    output = FilterOutput(ROWS, PLAN, (list_hits(3, [(0, 5), (0, 1), (2, 3)]),))
    first, second = output.late_parts()
    assert first.segment is PLAN.segments[0]
    assert second.segment is PLAN.segments[1]
    assert first.project(np.arange(2)).to_pylist() == [
        result(0, 5, is_computed=False),
        result(0, 1, is_computed=False),
    ]
    assert second.project(np.arange(1)).to_pylist() == [result(2, 3, is_computed=False)]


def test_a_query_that_moved_is_found_where_it_stands_now():
    moved = StreamPlan("s", 8, (segment([1, 2], dead=[2]), segment([2], key="other")))
    output = FilterOutput(ROWS, moved, (list_hits(3, [(1, 2)]),))
    (late,) = output.late_parts()
    assert late.segment is moved.segments[1]
    (found,) = output.parts_of(2)
    assert found.segment is moved.segments[1]


def test_a_match_of_a_query_that_does_not_stand_is_our_fault():
    output = FilterOutput(ROWS, PLAN, (list_hits(3, [(0, 4)]),))
    with pytest.raises(AssertionError, match="1 queries of s matched, 0 are in its plan"):
        list(output.late_parts())
    with pytest.raises(AssertionError, match="query 4 is not active on s in version 7"):
        output.parts_of(4)


def test_results_of_one_query_come_in_the_order_of_rows_also_from_several_parts():
    computing = segment([8, 9], projection=COMPUTED)
    plan = StreamPlan("s", 7, (computing,))
    parts = (part(ROWS, computing, [(2, 9), (2, 8)]), part(ROWS, computing, [(1, 9), (0, 9)]))
    (found,) = FilterOutput(ROWS, plan, (), parts).parts_of(9)
    assert found.arrivals.tolist() == [1000, 1001, 1002]
    assert [row["twice"] for row in found.project(np.arange(3)).to_pylist()] == [0, 20, 40]


def test_narrowed_hits_hold_only_the_rows_columns_and_constants_they_show():
    big = StreamPlan("s", 7, (segment(list(range(1, 1000))), segment([2000], key="other")))
    rows = batch(500)
    hits = list_hits(500, [(row, 7) for row in range(500)] + [(3, 2000)])
    narrow = HitMatches(rows, big, hits).narrow_copy(np.array([2, 499]))  # rows 2 and 498
    assert narrow.batch.rows.to_pydict() == {"n": [20, 4980]}
    assert narrow.batch.arrival.tolist() == [1002, 1498]
    assert narrow.plan.stream == "s"
    assert narrow.plan.version == 7
    (kept,) = narrow.plan.segments
    assert kept.ids.tolist() == [7]
    assert [column.to_pylist() for column in kept.slots] == [[None], [700]]  # what is not shown is not kept
    shown = narrow.part_of(7, np.array([0, 1])).project(np.arange(2))
    assert shown.to_pylist() == [result(2, 7, is_computed=False), result(498, 7, is_computed=False)]


# ------------------------------------------------------------------------------------- any matches


@dataclass
class Case:
    output: FilterOutput
    pairs: set[tuple[int, int]]
    computing: set[int]


@st.composite
def outputs(draw) -> Case:
    """Queries of a few segments, each served by one of some hits, or by parts; any rows match any of them."""
    n_rows = draw(st.integers(0, 6))
    rows = batch(n_rows)
    ids = draw(st.lists(st.integers(1, 300), unique=True, min_size=1, max_size=40))
    homes = {
        i: draw(st.integers(0, 3)) for i in ids
    }  # the segment of each query; 3: it computes what it shows
    servers = {i: draw(st.integers(0, 3)) for i in ids}  # the hits of each query; the first two are bitmaps
    pairs = draw(st.sets(st.tuples(st.integers(0, n_rows - 1), st.sampled_from(ids)))) if n_rows else set()
    order = draw(st.permutations(sorted(pairs)))
    segments = []
    for home in range(4):
        mine = sorted(i for i in ids if homes[i] == home)
        gone = sorted(draw(st.sets(st.sampled_from(ids), max_size=3)) - set(mine))  # they stood here once
        projection = COMPUTED if home == 3 else PLAIN
        segments.append(segment(sorted(mine + gone), dead=gone, projection=projection, key=f"shape {home}"))
    hits = []
    for server in range(4):
        served = [i for i in ids if servers[i] == server and homes[i] != 3]
        mine = [(row, i) for row, i in order if i in served]
        if server < 2:
            lanes = draw(st.permutations(served + [0] * draw(st.integers(0, 70))))
            hits.append(bitmap_hits(n_rows, lanes, mine))
        else:
            hits.append(list_hits(n_rows, mine))
    computed = [(row, i) for row, i in order if homes[i] == 3]
    cut = draw(st.integers(0, len(computed)))
    parts = [part(rows, segments[3], piece) for piece in (computed[:cut], computed[cut:]) if piece]
    plan = StreamPlan("s", 7, tuple(draw(st.permutations(segments))))
    chosen = tuple(each for each in hits if len(each) or draw(st.booleans()))
    return Case(FilterOutput(rows, plan, chosen, tuple(parts)), pairs, {i for i in ids if homes[i] == 3})


@given(outputs())
def test_pairs_are_those_of_all_hits_and_parts_each_once(case):
    assert case.output.n_matches == len(case.pairs)
    found = pairs_of(case.output)
    assert len(found) == len(case.pairs)
    assert set(found) == case.pairs
    assert case.output.offsets.tolist() == case.output.pairs()[0].tolist()
    assert case.output.query_ids().tolist() == sorted({i for _, i in case.pairs})


@given(outputs())
def test_all_parts_show_every_pair_once_with_its_own_constants(case):
    seen = []
    for each in case.output.all_parts():
        assert len(each)
        shown = each.project(np.arange(len(each))).to_pylist()
        for row, query_id, found in zip(each.rows.tolist(), each.query_ids.tolist(), shown, strict=True):
            assert found == result(row, query_id, is_computed=query_id in case.computing)
            seen.append((row, query_id))
    assert sorted(seen) == sorted(case.pairs)


@given(outputs())
def test_late_parts_come_one_per_segment_in_the_order_of_rows(case):
    late = list(case.output.late_parts())
    assert len({id(each.segment) for each in late}) == len(late)
    assert all((np.diff(each.rows) >= 0).all() for each in late)


@given(outputs())
def test_the_part_of_a_query_has_its_pairs_and_no_others(case):
    expected = defaultdict(list)
    for row, query_id in sorted(case.pairs):
        expected[query_id].append(row)
    for query_id in range(1, 301):
        parts = case.output.parts_of(query_id)
        if query_id not in expected:
            assert parts == []
            continue
        (found,) = parts
        assert found.rows.tolist() == expected[query_id]
        assert found.query_ids.tolist() == [query_id] * len(found)
        is_computed = query_id in case.computing
        assert found.project(np.arange(len(found))).to_pylist() == [
            result(row, query_id, is_computed=is_computed) for row in expected[query_id]
        ]


@given(outputs(), st.sets(st.integers(1, 310)))
def test_only_some_queries_can_be_looked_at(case, wanted):
    only = case.output.only(sorted(wanted))
    assert sorted(pairs_of(only)) == sorted(pair for pair in case.pairs if pair[1] in wanted)
    for query_id in only.query_ids().tolist():
        (mine,), (whole,) = only.parts_of(query_id), case.output.parts_of(query_id)
        assert mine.rows.tolist() == whole.rows.tolist()
        assert mine.project(np.arange(len(mine))).equals(whole.project(np.arange(len(whole))))


@given(outputs(), st.data())
def test_narrowed_lists_show_what_they_showed_before(case, data):
    output = case.output
    for each in output.all_matches():
        if isinstance(each, HitMatches) and isinstance(each.hits, ListHits):
            chosen = data.draw(st.sets(st.integers(0, len(each) - 1), min_size=1))
            pairs = np.array(sorted(chosen))
            narrow = each.narrow_copy(pairs)
            shown = defaultdict(list)
            for row, query_id in zip(
                each.hits.rows[pairs].tolist(), each.hits.ids[pairs].tolist(), strict=True
            ):
                shown[query_id].append(result(row, query_id, is_computed=False))
            assert sum(len(s) for s in narrow.plan.segments) == len(shown)
            assert len(narrow.batch) == len(set(each.hits.rows[pairs].tolist()))
            for query_id, expected in shown.items():
                rows = narrow.hits.rows_of(query_id)
                assert narrow.part_of(query_id, rows).project(np.arange(len(rows))).to_pylist() == expected


def test_matches_of_queries_and_of_bodies_far_above_them_are_found_by_segment():
    """Arrays by id would be as long as the gap between the ids."""
    ids = np.array([2, FIRST_BRANCH + 1, 1, FIRST_BODY + 3, 2], np.int32)
    assert distinct_ids(ids).tolist() == [1, 2, FIRST_BODY + 3, FIRST_BRANCH + 1]
    assert distinct_ids(ids[:0]).tolist() == []
    segments = (segment([1, 2]), segment([FIRST_BODY + 3]), segment([FIRST_BRANCH, FIRST_BRANCH + 1]))
    hits = ListHits(np.array([0, 3, 5]), ids)
    found = FilterOutput(batch(2), StreamPlan("s", 1, segments), (hits,)).all_parts()
    assert [list(zip(part.rows.tolist(), part.query_ids.tolist(), strict=True)) for part in found] == [
        [(0, 2), (0, 1), (1, 2)],
        [(1, FIRST_BODY + 3)],
        [(0, FIRST_BRANCH + 1)],
    ]
