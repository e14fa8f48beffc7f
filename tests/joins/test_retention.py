"""Which stored rows some query may still want, and which matches can lie in the window of some query."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.joins.plan import Need, SignaturePlan, needs_by_bounds
from eddyline.joins.retention import RowMarks, covered_mask, near
from eddyline.model import NO_TIME, JoinInput, Signature
from eddyline.operators import RoundProgress

NOTHING = frozenset[str]()


def plan_of(*needs: Need, outer: str = "") -> SignaturePlan:
    signature = Signature("a x b", (JoinInput("a"), JoinInput("b")), outer=outer)
    return SignaturePlan(signature, (NOTHING, NOTHING), (NOTHING, NOTHING), (needs, ()))


def covered_rows(
    plan: SignaturePlan, rows: list[tuple[int, int, int, int]], **watermarks_us: int | None
) -> list[bool]:
    """Rows are (position, time, version, now); 100 rows have counted, and it is 1000."""
    marks = RowMarks(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))
    return covered_mask(plan, 0, RoundProgress({}, watermarks_us), 1_000, marks, 100).tolist()


def test_the_newest_rows_stay():
    plan = plan_of(Need(1, n_rows=10), Need(1, n_rows=3))
    assert covered_rows(plan, [(90, 0, 1, 0), (91, 0, 1, 0), (100, 0, 1, 0), (100, 0, 0, 0)]) == [
        False, True, True, False
    ]  # fmt: skip


def test_young_rows_stay():
    assert covered_rows(plan_of(Need(0, age_us=10)), [(1, 0, 0, 990), (1, 0, 0, 991)]) == [False, True]


def test_rows_stay_until_the_watermark_is_above_their_time_and_the_reach():
    plan = plan_of(Need(0, reach_us=((1, 5),)))
    rows = [(1, 10, 0, 0), (1, 11, 0, 0), (1, NO_TIME, 0, 0)]
    assert covered_rows(plan, rows, b=15) == [True, True, False]
    assert covered_rows(plan, rows, b=16) == [False, True, False]
    assert covered_rows(plan, rows, b=None) == [True, True, False]


def test_a_wide_window_of_a_late_query_keeps_no_row_from_before_it():
    plan = plan_of(Need(5, n_rows=50), Need(2, n_rows=10))
    assert covered_rows(plan, [(60, 0, 4, 0), (60, 0, 5, 0), (95, 0, 4, 0), (95, 0, 1, 0)]) == [
        False, True, True, False
    ]  # fmt: skip


def test_bounded_in_two_ways_a_row_has_to_be_in_both():
    plan = plan_of(Need(0, n_rows=10, age_us=10), Need(0, n_rows=2, age_us=500))
    assert covered_rows(plan, [(95, 0, 0, 995), (95, 0, 0, 900), (99, 0, 0, 900), (50, 0, 0, 995)]) == [
        True, False, True, False
    ]  # fmt: skip


numbers = st.integers(0, 20)
bounded = st.builds(
    Need,
    first_version=numbers,
    n_rows=st.none() | numbers,
    age_us=st.none() | numbers,
    reach_us=st.just(()) | st.tuples(st.tuples(st.just(1), numbers)),
    back_us=st.just(()) | st.tuples(st.tuples(st.just(1), numbers)),
)


def wants(need: Need, row: tuple[int, int, int, int], watermark: int | None) -> bool:
    """One need and one row, as it is written in plan.py."""
    position, time, version, now = row
    is_out_of_reach = [watermark is not None and watermark > time + reach for _, reach in need.reach_us]
    return (
        version >= need.first_version
        and (need.n_rows is None or 100 - position < need.n_rows)
        and (need.age_us is None or 1_000 - now < need.age_us)
        and not any(is_out_of_reach)
    )


@given(
    st.lists(bounded, max_size=6),
    st.lists(st.tuples(st.integers(80, 100), numbers, numbers, st.integers(980, 1_000)), min_size=1),
    st.none() | numbers,
)
def test_a_row_stays_if_one_need_covers_it(needs, rows, watermark):
    expected = [any(wants(need, row, watermark) for need in needs) for row in rows]
    assert covered_rows(plan_of(*needs), rows, b=watermark) == expected


@given(st.lists(bounded, min_size=1, max_size=6), st.lists(st.tuples(*[numbers] * 4), min_size=1))
def test_no_match_in_somebodys_window_is_left_out(needs, matches):
    behind, age, time, driver = (np.array(column, np.int64) for column in zip(*matches, strict=True))
    found = near(needs_by_bounds(needs), 1, behind, age, time, driver)
    for at, (n, a, t, d) in enumerate(matches):
        is_in_one = any(
            (need.n_rows is None or n < need.n_rows)
            and (need.age_us is None or a < need.age_us)
            and all(d - t <= reach for _, reach in need.reach_us)
            and all(t - d <= reach for _, reach in need.back_us)
            for need in needs
        )
        assert found is None or found[at] or not is_in_one


def test_a_match_in_nobodys_window_is_left_out():
    groups = needs_by_bounds(
        [Need(0, n_rows=3), Need(0, n_rows=5), Need(0, reach_us=((1, 2),), back_us=((1, 0),))]
    )
    behind, times = np.array([4, 5, 9, 9]), np.array([0, 0, 8, 11])
    found = near(groups, 1, behind, behind, times, np.array([10, 10, 10, 10]))
    assert found is not None
    assert found.tolist() == [True, False, True, False]
    assert near(groups, 2, behind, behind, times, times) is None, "nothing is said of the times of that one"
