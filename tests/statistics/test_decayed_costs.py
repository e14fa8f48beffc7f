"""What filters cost, by their last calls."""

from __future__ import annotations

import pytest

from eddyline.statistics import DecayedCosts


def test_a_long_call_is_taken_as_it_is():
    costs = DecayedCosts(2)
    costs.add(1, 1000, 0.002)
    assert costs.cost_s.tolist() == pytest.approx([1e-6, 2e-6])  # nothing is known of the first


def test_rows_count_and_not_calls():
    costs = DecayedCosts(1)
    costs.add(0, 9000, 0.009)
    costs.add(0, 1000, 0.011)
    assert costs.cost_s[0] == pytest.approx((0.9 * 0.009 + 0.011) / (0.9 * 9000 + 1000))


def test_old_calls_fade():
    costs = DecayedCosts(1)
    for _ in range(50):
        costs.add(0, 1000, 0.001)
    for _ in range(50):
        costs.add(0, 1000, 0.004)
    assert costs.cost_s[0] == pytest.approx(4e-6, rel=0.01)


def test_a_short_call_does_not_count_beside_long_ones():
    costs = DecayedCosts(1)
    costs.add(0, 1000, 0.001)
    costs.add(0, 5, 0.001)  # mostly the price of a call
    assert costs.cost_s[0] == pytest.approx(1e-6)


def test_short_calls_alone_are_judged_by_how_their_time_grows():
    costs = DecayedCosts(1)
    for n_rows in (10, 40, 80, 120, 20, 60):
        costs.add(0, n_rows, 1e-3 + 2e-6 * n_rows)
    assert costs.cost_s[0] == pytest.approx(2e-6)


def test_short_calls_all_alike_are_taken_as_they_are():
    costs = DecayedCosts(1)
    for _ in range(6):
        costs.add(0, 50, 1e-3)
    assert costs.cost_s[0] == pytest.approx(2e-5)


def test_long_calls_of_long_ago_do_not_stand_for_short_ones_since():
    costs = DecayedCosts(1)
    costs.add(0, 1000, 0.001)
    for _ in range(10):
        for n_rows in (10, 40, 80, 120):
            costs.add(0, n_rows, 1e-3 + 5e-6 * n_rows)
    assert costs.cost_s[0] == pytest.approx(5e-6, rel=1e-6)


def test_a_cost_is_never_below_a_nanosecond():
    costs = DecayedCosts(1)
    costs.add(0, 10_000, 0.0)
    costs.add(0, 0, 5.0)  # no rows, nothing learned
    assert costs.cost_s[0] == 1e-9


def test_filters_that_stay_keep_their_costs_and_new_ones_have_what_is_declared():
    costs = DecayedCosts(2)
    costs.add(0, 1000, 0.001)
    costs.add(1, 1000, 0.002)
    assert costs.widened([1e-6, 1e-6, 7e-6]).cost_s.tolist() == pytest.approx([1e-6, 2e-6, 7e-6])
    assert costs.narrowed([1]).cost_s.tolist() == pytest.approx([2e-6])


def test_a_filter_begins_anew_when_its_cost_has_moved():
    costs = DecayedCosts(1)
    costs.add(0, 1000, 0.001)
    costs.restart(0)
    costs.add(0, 1000, 0.009)
    assert costs.cost_s[0] == pytest.approx(9e-6)
