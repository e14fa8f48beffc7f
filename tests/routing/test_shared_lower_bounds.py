"""Lower bounds are below what the best strategy costs, also where filters are correlated."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.shared_filters import _independent_bound
from benchmarks.papers.shared_filters._independent_bound import chance_of_any, independent_bound
from eddyline.routing import lower_bounds
from eddyline.routing.linear_programs import Demand, least_cost
from eddyline.routing.lower_bounds import lower_bound
from eddyline.routing.policy import FilterSet, Profile, Statistics
from tests.oracles import shared_filters as oracle


def costs(cost, follow=None) -> Statistics:
    cost = np.array(cost, np.float64)
    return Statistics(cost, cost if follow is None else np.array(follow, np.float64))


def whole(passes) -> Profile:
    passes = np.array(passes, bool)
    return Profile(~passes, np.ones_like(passes))


def test_a_program_is_solved():
    # 2a + 3b, a + b >= 1, b >= 0.25
    solved = least_cost([2.0, 3.0], [Demand({0: 1.0, 1: 1.0}, 1.0)], lower=[0.0, 0.25])
    assert solved.cost == pytest.approx(2.25)
    assert solved.values == pytest.approx([0.75, 0.25])


def test_without_demands_nothing_costs():
    assert least_cost([2.0, 3.0], []).cost == 0


def test_costs_of_nanoseconds_are_not_lost():
    assert least_cost([2e-9, 3e-9], [Demand({0: 1.0, 1: 1.0}, 1.0)]).cost == pytest.approx(2e-9)


def test_demands_that_nothing_meets_are_a_bug():
    with pytest.raises(AssertionError, match="infeasible"):
        least_cost([1.0], [Demand({0: 1.0}, 2.0)])


@pytest.mark.thorough
def test_the_solver_is_loaded_when_something_is_solved():
    code = "import sys, eddyline, eddyline.routing.phased_policy; print('scipy.optimize' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "False"


# --------------------------------------------------------------------------------------------- independent


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 31), max_size=6),
    st.lists(st.sampled_from([0, 0.2, 0.5, 1.0]), min_size=5, max_size=5),
)
def test_the_chance_that_one_of_several_sets_passes(sets, pass_rate):
    expected = sum(
        chance
        for item, chance in oracle.outcomes(pass_rate)
        if any(all(item[j] for j in range(5) if each >> j & 1) for each in sets)
    )
    assert chance_of_any(sets, pass_rate) == pytest.approx(expected)


def test_a_chance_that_takes_too_long_is_bounded_from_below(monkeypatch):
    pairs = [1 << a | 1 << b for a in range(8) for b in range(a)]
    exact = chance_of_any(pairs, [0.5] * 8)
    monkeypatch.setattr(_independent_bound, "MOST_STEPS", 3)
    bounded = chance_of_any(pairs, [0.5] * 8)
    assert bounded == pytest.approx(1 - 0.75**4)
    assert bounded < exact


def test_classes_left_out_of_a_program_lower_the_bound(monkeypatch):
    filters = FilterSet((frozenset({0}), frozenset({1})), 2, weights=(1.0, 5.0))
    assert independent_bound(filters, [0.5, 0.5], [1.0, 2.0]) == pytest.approx(3)
    monkeypatch.setattr(lower_bounds, "MOST_CLASSES", 1)
    sampled = whole([[1, 1], [0, 1]])
    assert lower_bound(filters, costs([1.0, 2.0]), sampled, is_strengthened=False) <= 3


# --------------------------------------------------------------------------------------------- correlated


@st.composite
def sampled_rows(draw):
    n = draw(st.integers(1, 4))
    query = st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True)
    queries = draw(st.lists(query, min_size=1, max_size=4))
    row = st.lists(st.integers(0, 1), min_size=n, max_size=n)
    rows = draw(st.lists(row, min_size=1, max_size=8))
    cost = draw(st.lists(st.sampled_from([1.0, 2.0, 5.0, 20.0]), min_size=n, max_size=n))
    return queries, rows, cost


@settings(deadline=None, max_examples=100)
@given(sampled_rows())
def test_no_strategy_beats_the_bound_however_filters_are_correlated(case):
    queries, rows, cost = case
    filters = FilterSet(tuple(frozenset(query) for query in queries), len(cost))
    weak, strong = (
        lower_bound(filters, costs(cost), whole(rows), is_strengthened=strengthened)
        for strengthened in (False, True)
    )
    assert weak <= strong + 1e-7 <= oracle.optimal_cost_of_rows(queries, rows, cost) + 2e-7


@settings(deadline=None, max_examples=60)
@given(sampled_rows(), st.data())
def test_rows_on_which_a_class_is_not_open_demand_nothing_for_it(case, data):
    queries, rows, cost = case
    opened = [data.draw(st.integers(0, 2 ** len(queries) - 1)) for _ in rows]
    filters = FilterSet(tuple(frozenset(query) for query in queries), len(cost))
    passes = np.array(rows, bool)
    known = np.zeros_like(passes)
    for row, classes in enumerate(opened):
        for q, query in enumerate(queries):
            if classes >> q & 1:
                known[row, query] = True
    bound = lower_bound(filters, costs(cost), Profile(~passes & known, known, tuple(opened)))
    optimum = 0.0
    for classes in set(opened):
        alike = [row for row, at in zip(rows, opened, strict=True) if at == classes]
        wanted = [query for q, query in enumerate(queries) if classes >> q & 1]
        optimum += oracle.optimal_cost_of_rows(wanted, alike, cost) * len(alike) / len(rows)
    assert bound <= optimum + 1e-7


@settings(deadline=None, max_examples=60)
@given(sampled_rows(), st.data())
def test_of_the_filters_of_one_core_one_pays_in_full(case, data):
    queries, rows, cost = case
    cores = data.draw(st.lists(st.integers(0, 2), min_size=len(cost), max_size=len(cost)))
    follow = [c * data.draw(st.sampled_from([0.1, 0.5, 1.0])) for c in cost]
    filters = FilterSet(tuple(frozenset(query) for query in queries), len(cost), cores=tuple(cores))
    bound = lower_bound(filters, costs(cost, follow), whole(rows))
    best = oracle.optimal_cost_of_rows(queries, rows, cost, cores=cores, follow_cost=follow)
    assert bound <= best + 1e-7


def test_the_bound_of_one_dear_core_is_that_core_and_what_follows():
    filters = FilterSet((frozenset({0}), frozenset({1})), 2, cores=(4, 4))
    bound = lower_bound(filters, costs([10.0, 10.0], [1.0, 1.0]), whole([[1, 1], [0, 1]]))
    assert bound == pytest.approx(11)


def test_rows_with_unknown_filters_are_left_out_and_no_rows_bound_nothing():
    filters = FilterSet((frozenset({0, 1}),), 2)
    unknown = Profile(np.zeros((3, 2), bool), np.array([[True, False]] * 3))
    assert lower_bound(filters, costs([1.0, 1.0]), unknown) == 0
    mixed = Profile(np.array([[False, True], [False, False]]), np.array([[True, True], [True, False]]))
    assert lower_bound(filters, costs([1.0, 1.0]), mixed) == pytest.approx(1)
