"""What filters cost, by their last calls."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.statistics import MeasuredCosts
from eddyline.statistics.measured_costs import slope_interval

CALL_S = 2.6e-4  # the fixed part of a call


def busy_call_s(rng: np.random.Generator, n_rows: int, cost_s: float) -> float:
    """A call on a busy machine: it scatters by a fifth, and one in six takes five times as long, or much longer."""
    slow = 5 * (1 + rng.pareto(2)) if rng.random() < 1 / 6 else 1.0
    return float((CALL_S + cost_s * n_rows) * rng.lognormal(0, 0.2) * slow)


def test_a_filter_that_has_not_run_costs_what_is_declared():
    assert MeasuredCosts(2, declared_s=[3e-6, 7e-6]).cost_s.tolist() == [3e-6, 7e-6]


def test_long_calls_are_taken_as_they_are_but_for_what_their_fixed_part_may_be():
    costs = MeasuredCosts(1)
    for _ in range(8):
        costs.add(0, 100_000, 5.0)
    assert costs.cost_s[0] == pytest.approx(5e-5, rel=1e-3)


def test_one_call_says_of_a_dear_filter_that_it_is_dear():
    costs = MeasuredCosts(2)
    costs.add(0, 100, 1.0)  # 10 ms a row; it may have been slow
    costs.add(1, 100, 0.001)
    assert costs.cost_s.tolist() == pytest.approx([1e-3, 1e-6], rel=0.05)


def test_short_calls_are_judged_by_how_their_time_grows():
    costs = MeasuredCosts(1)
    for n_rows in (10, 40, 80, 120, 20, 60, 30, 90) * 8:
        costs.add(0, n_rows, CALL_S + 20e-6 * n_rows)
    assert costs.cost_s[0] == pytest.approx(20e-6)


def test_short_calls_all_alike_say_no_more_than_that_a_cost_is_not_above_them():
    costs = MeasuredCosts(2, declared_s=[2e-6, 1e-3])
    for _ in range(100):
        for k in range(2):
            costs.add(k, 5, CALL_S + 2e-6 * 5)
    assert costs.cost_s.tolist() == pytest.approx([2e-6, 5.4e-5])  # 54 us a row, most of them for the call


def test_what_long_calls_said_stays_when_only_short_ones_come():
    costs = MeasuredCosts(1)
    for _ in range(10):
        costs.add(0, 10_000, CALL_S + 7e-6 * 10_000)
    known_s = costs.cost_s[0]
    assert known_s == pytest.approx(7e-6, rel=0.05)
    for _ in range(1000):
        costs.add(0, 5, CALL_S + 7e-6 * 5)
    assert costs.cost_s[0] == known_s


def test_where_nothing_is_declared_or_known_no_filter_seems_cheaper_for_its_many_rows():
    assert len(MeasuredCosts(0).cost_s) == 0
    costs = MeasuredCosts(3)
    for _ in range(20):
        costs.add(0, 2_000, CALL_S)  # 0.13 us a row at most
        costs.add(1, 20, CALL_S)  # 13 us a row at most
    assert costs.cost_s.tolist() == pytest.approx([1.3e-7] * 3)


def test_a_filter_that_is_not_known_costs_what_known_ones_do_by_what_was_declared():
    costs = MeasuredCosts(3, declared_s=[1e-6, 1e-6, 3e-6])
    for _ in range(8):
        costs.add(0, 10_000, 0.4)
    assert costs.cost_s.tolist() == pytest.approx([4e-5, 4e-5, 12e-5], rel=0.01)


def test_one_slow_call_and_even_seven_in_a_row_change_nothing():
    costs = MeasuredCosts(1)
    for _ in range(20):
        costs.add(0, 2_000, 0.01)
    before = costs.cost_s[0]
    for _ in range(7):
        costs.add(0, 2_000, 0.02)
        assert costs.cost_s[0] == before


@pytest.mark.parametrize(("now_s", "n_calls"), [(4e-5, 8), (1e-6, 2)])
def test_a_cost_that_moves_is_known_after_a_few_calls(now_s, n_calls):
    costs = MeasuredCosts(1)
    for _ in range(20):
        costs.add(0, 10_000, 0.05)
    for _ in range(n_calls):
        costs.add(0, 10_000, 10_000 * now_s)
    assert costs.cost_s[0] == pytest.approx(now_s, rel=0.1)


def test_four_calls_in_a_row_prove_a_third_of_what_they_took():
    costs = MeasuredCosts(1)
    for _ in range(20):
        costs.add(0, 10_000, 0.05)
    for _ in range(4):
        costs.add(0, 10_000, 0.5)
    assert costs.cost_s[0] == pytest.approx(5e-5 / 3, rel=0.02)


@pytest.mark.parametrize("n_rows", [5, 20, 50, 200, 2_000])
@pytest.mark.parametrize("seed", range(5))
def test_on_a_busy_machine_filters_of_equal_cost_differ_by_no_more_than_half(n_rows, seed):
    """The first has all rows of a push, the next ones fewer and fewer."""
    rng, costs = np.random.default_rng(seed), MeasuredCosts(4)
    worst = []
    for number in range(400):
        for k, share in enumerate((1.0, 0.3, 0.1, 0.02)):
            n = n_rows if k == 0 else int(rng.binomial(n_rows, share))
            if n:
                costs.add(k, n, busy_call_s(rng, n, 2e-6))
        if number >= 50:
            worst.append(costs.cost_s.max() / costs.cost_s.min())
    assert np.quantile(worst, 0.9) < 1.5


@pytest.mark.parametrize("n_rows", [20, 50, 200, 2_000])
@pytest.mark.parametrize("seed", range(5))
def test_a_filter_of_twenty_times_the_cost_is_found_out(n_rows, seed):
    rng, costs = np.random.default_rng(seed), MeasuredCosts(2)
    for _ in range(200):
        for k, cost_s in enumerate((2e-6, 40e-6)):
            n = int(rng.integers(1, n_rows))
            costs.add(k, n, float((CALL_S + cost_s * n) * rng.lognormal(0, 0.1)))
    assert costs.cost_s[1] > 3 * costs.cost_s[0]


@pytest.mark.parametrize("n_rows", [50, 200, 2_000])
@pytest.mark.parametrize("seed", range(5))
def test_on_a_busy_machine_a_filter_of_two_hundred_times_the_cost_is_found_out(n_rows, seed):
    rng, costs = np.random.default_rng(seed), MeasuredCosts(2)
    for _ in range(200):
        for k, cost_s in enumerate((2e-6, 400e-6)):
            n = int(rng.integers(1, n_rows))
            costs.add(k, n, busy_call_s(rng, n, cost_s))
    assert costs.cost_s[1] > 5 * costs.cost_s[0]


def test_a_cost_is_never_below_a_nanosecond():
    costs = MeasuredCosts(1)
    costs.add(0, 10_000, 0.0)
    costs.add(0, 10_000, 0.0)
    costs.add(0, 0, 5.0)  # no rows, nothing learned
    assert costs.cost_s[0] == 1e-9


def test_calls_of_several_workers_count_as_calls_of_their_mean_size():
    one, four = MeasuredCosts(1), MeasuredCosts(1)
    one.add(0, 1000, 0.02)
    four.add(0, 4000, 0.08, n_calls=4)
    assert one.cost_s.tolist() == four.cost_s.tolist()


def test_filters_that_stay_keep_their_costs_and_new_ones_have_what_is_declared():
    costs = MeasuredCosts(2)
    for _ in range(8):
        costs.add(0, 100_000, 0.1)
        costs.add(1, 100_000, 0.1)
    assert costs.widened([1e-6, 1e-6, 7e-6]).cost_s.tolist() == pytest.approx([1e-6, 1e-6, 7e-6], rel=0.01)
    assert costs.narrowed([1]).cost_s.tolist() == pytest.approx([1e-6], rel=0.01)


# --------------------------------------------------------------------------------------------- the line


def test_calls_that_are_few_or_alike_leave_any_slope():
    anything = (-np.inf, np.inf)
    assert slope_interval(np.arange(8.0), np.arange(8.0)) == anything
    assert slope_interval(np.full(64, 20.0), np.arange(64.0)) == anything


def test_the_interval_of_a_line_without_noise_is_its_slope():
    rows = np.arange(1.0, 65.0)
    assert slope_interval(rows, 3.0 + 2.0 * rows) == (2.0, 2.0)


def test_the_interval_misses_the_slope_as_seldom_as_it_says_whatever_the_noise():
    rng = np.random.default_rng(11)
    n_missed = 0
    for _ in range(4000):
        rows = rng.integers(1, 100, 64).astype(float)
        low, high = slope_interval(rows, 100 + 2 * rows + 50 * rng.pareto(1.2, 64))
        n_missed += not low <= 2.0 <= high
    assert n_missed <= 20  # one in 500 are 8


def test_what_is_declared_to_cost_nothing_can_be_measured():
    costs = MeasuredCosts(2, declared_s=[0.0, 0.0])
    for _ in range(20):
        costs.add(0, 10_000, 0.05)
    assert costs.cost_s[0] == pytest.approx(5e-6, rel=0.1)
