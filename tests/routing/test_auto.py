"""Policies are charged for what they would have run, and a challenger takes over only if it is cheaper beyond chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.routing.auto import HALF_LIFE_ROWS, LEAST_ROWS, Competition, seconds_on
from eddyline.routing.fixed_order import FixedOrder
from eddyline.routing.policy import FilterSet, Profile, RowGroup, Statistics
from eddyline.routing.router import POLICIES
from tests.filters.made_walks import policy_of, pool_of
from tests.oracles.filter_walks import walked_alone
from tests.strategies import examples


@st.composite
def charged(draw):
    n = draw(st.integers(1, 5))
    some = st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True)
    queries = draw(st.lists(some, min_size=1, max_size=4, unique_by=frozenset))
    rows = draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=8))
    open_ = [draw(st.sets(st.integers(0, len(queries) - 1), min_size=1)) for _ in rows]
    cores = draw(st.lists(st.sampled_from(["a", "b"]), min_size=n, max_size=n))
    cost_s = draw(st.lists(st.sampled_from([1e-6, 3e-6, 1e-5]), min_size=n, max_size=n))
    return queries, rows, open_, cores, cost_s


@pytest.mark.parametrize("name", sorted(POLICIES))
@given(case=charged())
@examples(0.3)
def test_a_policy_is_charged_for_the_filters_each_row_would_run(name, case):
    queries, rows, open_, cores, cost_s = case
    pool = pool_of(queries, cost_s, cores)
    policy = policy_of(name, pool, cost_s)
    statistics = Statistics(np.array(cost_s), np.array(cost_s) / 10)
    dropped = np.array(rows, bool)
    profile = Profile(dropped, np.ones_like(dropped), tuple(sum(1 << q for q in each) for each in open_))
    expected = []
    for row, classes in zip(rows, open_, strict=True):
        said = [not drops for drops in row]
        sequence, _ = walked_alone(
            pool.classes, said.__getitem__, lambda *state: policy.next(RowGroup(*state)), sorted(classes)
        )
        spent, seen = 0.0, set()
        for k in sequence:
            spent += cost_s[k] / 10 if cores[k] in seen else cost_s[k]
            seen.add(cores[k])
        expected.append(spent)
    assert seconds_on(policy, profile, statistics).tolist() == pytest.approx(expected)


# --------------------------------------------------------------------------------------------- taking over

UNITS = Statistics.of_costs([1.0, 1.0])
OVERHEADS = {"here": 0.0, "there": 0.0}


def orders() -> dict[str, FixedOrder]:
    """Two orders of two filters: whoever asks the one first that drops saves the other."""
    filters = FilterSet.conjunction(2)
    return {
        "here": FixedOrder(filters, start=(0, 1), statistics=UNITS),
        "there": FixedOrder(filters, start=(1, 0), statistics=UNITS),
    }


def sampled(n: int, drops: tuple[bool, bool]) -> Profile:
    dropped = np.tile(np.array(drops), (n, 1))
    return Profile(dropped, np.ones_like(dropped))


def test_a_cheaper_challenger_takes_over_after_enough_rows():
    competition = Competition("here")
    one = sampled(LEAST_ROWS - 1, (False, True))  # there: 1 a row, here: 2
    assert competition.score(orders(), one, UNITS, OVERHEADS) is None
    assert competition.cost_s == pytest.approx({"here": 2.0, "there": 1.0})
    switch = competition.score(orders(), sampled(1, (False, True)), UNITS, OVERHEADS)
    assert switch is not None
    assert (switch.before, switch.after) == ("here", "there")
    assert (switch.before_s, switch.after_s) == pytest.approx((2.0, 1.0))
    assert competition.incumbent == "there"
    assert competition.score(orders(), one, UNITS, OVERHEADS) is None


def test_what_lies_within_the_margin_changes_nothing():
    competition = Competition("here")
    overheads = {"here": 0.05, "there": 0.0}  # 2.5 % dearer, on every row
    for _ in range(20):
        assert competition.score(orders(), sampled(50, (False, False)), UNITS, overheads) is None


def test_what_chance_explains_changes_nothing():
    """There is cheaper on 22 rows and dearer on 18 of 60: by 3.6 %, which as many coins would give every other time."""
    dropped = np.array([[False, True], [True, False]] * 18 + [[False, True]] * 4 + [[False, False]] * 20)
    competition = Competition("here")
    assert competition.score(orders(), Profile(dropped, np.ones_like(dropped)), UNITS, OVERHEADS) is None
    assert competition.cost_s["there"] < 0.97 * competition.cost_s["here"]


def test_overhead_counts():
    competition = Competition("here")
    overheads = {"here": 0.0, "there": 1.5}
    assert competition.score(orders(), sampled(60, (False, True)), UNITS, overheads) is None
    assert competition.cost_s == pytest.approx({"here": 2.0, "there": 2.5})


def test_older_rows_count_less():
    competition = Competition("here")
    for _ in range(4):
        competition.score(orders(), sampled(64, (True, False)), UNITS, OVERHEADS)
    assert competition.cost_s == pytest.approx({"here": 1.0, "there": 2.0})
    n = 0
    while competition.incumbent == "here":
        competition.score(orders(), sampled(32, (False, True)), UNITS, OVERHEADS)
        n += 32
    assert 64 <= n <= 2 * HALF_LIFE_ROWS


def test_after_a_change_nobody_has_a_score_and_the_incumbent_stays():
    competition = Competition("here")
    competition.score(orders(), sampled(LEAST_ROWS, (False, True)), UNITS, OVERHEADS)
    assert competition.incumbent == "there"
    competition.restart()
    assert competition.cost_s == {}
    assert competition.incumbent == "there"
    assert competition.score(orders(), sampled(LEAST_ROWS - 1, (True, False)), UNITS, OVERHEADS) is None


def test_only_the_newest_rows_of_a_batch_are_charged():
    competition = Competition("here")
    dropped = np.array([[True, False]] * 100 + [[False, True]] * 60)
    competition.score(orders(), Profile(dropped, np.ones_like(dropped)), UNITS, OVERHEADS, most=60)
    assert competition.incumbent == "there"


def test_nothing_sampled_changes_nothing():
    competition = Competition("here")
    assert competition.score(orders(), sampled(0, (True, True)), UNITS, OVERHEADS) is None
    assert competition.cost_s == {}
