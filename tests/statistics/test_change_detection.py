"""Sampling is sparse while nothing changes and dense after a change; what changed is said."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.statistics import Advice, BatchObservation, ChangeDetector, Drift, places_of

STEADY, FILLING, DENSE = 0.002, 0.01, 0.2


def observed(
    asked, passed, cost_s=None, *, order=None, n_profiled=0, n_rows=1000, **budget
) -> BatchObservation:
    n = len(asked)
    return BatchObservation(
        places=places_of(order or range(n)),
        asked_rows=np.array(asked),
        passed_rows=np.array(passed),
        cost_s=np.full(n, np.nan) if cost_s is None else np.array(cost_s, float),
        n_rows=n_rows,
        n_profiled=n_profiled,
        **budget,
    )


def settled(n_filters=1, rate=0.5) -> ChangeDetector:
    """A detector that has seen enough of filters that each pass that share."""
    detector = ChangeDetector(n_filters)
    for _ in range(40):
        passed = [int(1000 * rate)] * n_filters
        assert not detector.observe(observed([1000] * n_filters, passed, n_profiled=50)).drifts
    return detector


def test_a_place_is_the_set_of_filters_before():
    assert places_of((2, 0, 1)) == (0b100, 0b101, 0)


def test_sampling_is_dense_until_rows_have_come_then_fills_the_window_then_is_sparse():
    detector = ChangeDetector(1, window_rows=1000, dense_rows=300)
    assert detector.rate_for(1000) == DENSE
    rates = [detector.observe(observed([1000], [500], n_profiled=n)).rate for n in (50, 150, 99, 1, 699, 1)]
    assert rates == [DENSE, 0.1, FILLING, FILLING, FILLING, STEADY], "no more rows than are wanted"


def test_where_the_first_rows_leave_no_doubt_sampling_is_sparse_at_once_until_the_next_drift():
    detector = ChangeDetector(1, window_rows=1000, dense_rows=300)
    clear = [detector.observe(observed([1000], [500], n_profiled=n, is_clear=True)).rate for n in (100, 200)]
    assert clear == [DENSE, STEADY]
    doubtful = [
        detector.observe(observed([1000], [passed], n_profiled=300)).rate for passed in (900, 900, 900)
    ]
    assert doubtful == [DENSE, FILLING, FILLING]


def test_a_share_that_moves_is_a_drift_and_old_rows_are_to_be_forgotten():
    detector = settled(2)
    advice = detector.observe(observed([1000, 1000], [500, 800]))
    assert advice == Advice(DENSE, (Drift(1, "pass rate", 0.5, 0.8),))
    assert advice.forget
    after = detector.observe(observed([1000, 1000], [500, 800], n_profiled=45))
    assert after == Advice(0.155), "what it is now is the new normal, and 155 rows are still wanted"


def test_a_move_that_does_not_matter_is_no_drift():
    assert settled().observe(observed([100_000], [52_900])) == Advice(STEADY)
    assert settled().observe(observed([100_000], [53_100])).forget


def test_few_rows_are_gathered_until_they_say_something():
    detector = settled()
    advices = [detector.observe(observed([100], [90])) for _ in range(5)]
    assert [bool(advice.drifts) for advice in advices] == [False] * 4 + [True]
    assert advices[-1].drifts == (Drift(0, "pass rate", 0.5, 0.9),)


def test_a_small_move_shows_over_more_rows():
    detector = settled()
    n_batches = next(k for k in range(1, 30) if detector.observe(observed([1000], [560])).drifts)
    assert n_batches == 8


def test_a_slow_drift_is_noticed_in_the_end():
    detector = settled()
    shares = [0.5 + 0.001 * step for step in range(1, 100)]
    at = next(share for share in shares if detector.observe(observed([8000], [int(8000 * share)])).drifts)
    assert 0.53 < at < 0.56


def test_a_filter_is_compared_at_its_place_only():
    detector = settled(3)
    #  1 and 2 change places: each meets other rows now, and nothing has changed
    moved = detector.observe(observed([1000] * 3, [500, 900, 900], order=(0, 2, 1)))
    assert moved.drifts == ()
    assert detector.observe(observed([1000] * 3, [800, 900, 900], order=(0, 2, 1))).drifts == (
        Drift(0, "pass rate", 0.5, 0.8),
    )


def test_a_filter_that_returns_to_a_place_is_compared_with_what_it_was_there():
    detector = settled(3)
    for _ in range(20):  # 1 and 2 change places, and back
        assert not detector.observe(observed([1000] * 3, [500, 900, 900], order=(0, 2, 1))).drifts
    assert detector.observe(observed([1000] * 3, [500, 800, 500])).drifts == (
        Drift(1, "pass rate", 0.5, 0.8),
    )


def test_a_filter_that_few_rows_reach_is_compared_on_sampled_rows_batch_after_batch_wherever_it_stands():
    detector = ChangeDetector(2)

    def told(order, n_passed):
        sampled = {"sampled_rows": np.array([10, 10]), "sampled_passed_rows": np.array([5, n_passed])}
        asked, passed = ([20, 2], [10, 1]) if order == (0, 1) else ([2, 20], [1, 10])
        return detector.observe(observed(asked, passed, order=order, n_rows=20, **sampled)).drifts

    orders = [(0, 1), (1, 0)] * 1000
    for order in orders[:50]:
        assert not told(order, 9)
    found = [told(order, 2) for order in orders[:10]]
    assert found == [()] * 9 + [(Drift(1, "pass rate", 0.9, 0.2),)]


def test_a_cost_that_moves_is_announced_once_and_no_row_forgotten():
    detector = settled()
    for _ in range(80):
        detector.observe(observed([1000], [500], [1e-6]))
    advices = [detector.observe(observed([1000], [500], [4e-6])) for _ in range(100)]
    assert [k for k, advice in enumerate(advices, 1) if advice.drifts] == [18], "fewer may be slow by chance"
    advice = advices[17]
    assert advice.drifts == (Drift(0, "cost", pytest.approx(1e-6), pytest.approx(4e-6)),)
    assert (advice.rate, advice.forget) == (STEADY, False)


def test_slow_batches_now_and_then_are_no_change_of_cost():
    detector = ChangeDetector(1)
    for k in range(300):
        advice = detector.observe(observed([1000], [500], [5e-6 if k % 3 == 2 else 1e-6]))
        assert not advice.drifts


def busy_times(rng: np.random.Generator, cost_s: float, n: int) -> list[float]:
    """What batches take on a busy machine: they scatter by a third, and one in six takes five times as long, or much longer."""
    slow = np.where(rng.random(n) < 1 / 6, 5 * (1 + rng.pareto(2, n)), 1.0)
    return (cost_s * rng.lognormal(0, 0.3, n) * slow).tolist()


def cost_drifts(detector: ChangeDetector, times: list[float]) -> list[Drift]:
    return [drift for each in times for drift in detector.observe(observed([1000], [500], [each])).drifts]


@pytest.mark.parametrize("seed", range(20))
def test_on_a_busy_machine_no_change_is_told_of_a_cost_that_stays(seed):
    assert cost_drifts(ChangeDetector(1), busy_times(np.random.default_rng(seed), 6e-6, 2000)) == []


@pytest.mark.parametrize("factor", [4, 1 / 4])
@pytest.mark.parametrize("seed", range(20))
def test_on_a_busy_machine_a_cost_that_moves_is_told_as_moved_once(seed, factor):
    rng, detector = np.random.default_rng(seed), ChangeDetector(1)
    cost_drifts(detector, busy_times(rng, 6e-6, 300))
    (drift,) = cost_drifts(detector, busy_times(rng, factor * 6e-6, 300))
    assert (drift.after > drift.before) == (factor > 1)
    assert drift.after / drift.before == pytest.approx(factor, rel=0.5)


@pytest.mark.parametrize(("n_rows", "seed"), [(300, 1), (1000, 2), (8192, 3), (65536, 4)])
def test_nothing_is_announced_in_a_thousand_batches_of_the_same_data(n_rows, seed):
    rng = np.random.default_rng(seed)
    rates = np.array([0.5, 0.02, 0.3, 0.98, 0.5, 0.7, 0.9, 0.6])
    costs = np.array([1e-7, 5e-6, 1e-6, 2e-3, 1e-6, 1e-6, 3e-5, 1e-6])
    detector = ChangeDetector(8)
    for _ in range(1000):
        asked, passed, left = [], [], n_rows
        for rate in rates:
            asked.append(left)
            left = int(rng.binomial(left, rate))
            passed.append(left)
        noise = rng.lognormal(0, 0.12, 8)
        n_profiled = int(rng.binomial(n_rows, detector.phase.value))
        observation = observed(asked, passed, costs * noise, n_profiled=n_profiled, n_rows=n_rows)
        assert not detector.observe(observation).drifts
    assert detector.phase.value == STEADY


def test_a_filter_that_goes_leaves_sampling_as_it_is_and_one_that_comes_makes_it_dense():
    detector = settled(3)
    gone = detector.followed(2, {0: 2, 1: 0})
    assert gone.rate_for(1000) == STEADY
    assert gone.observe(observed([1000] * 2, [900, 900])).drifts == (), "shares are measured anew"
    assert detector.followed(4, {0: 0, 1: 1, 2: 2}).rate_for(1000) == DENSE


# --------------------------------------------------------------------------------------------- the budget


def test_sampling_takes_no_more_rows_of_a_batch_than_the_window_holds():
    assert ChangeDetector(1, window_rows=1000).rate_for(1_000_000) == pytest.approx(0.001)


def test_a_rate_that_costs_too_much_is_lowered():
    detector = ChangeDetector(1)
    # 5 % of 1 us a row; a sampled row takes 10 us more; the first batch has spent nearly all that is lent
    rates = [detector.observe(observed([1000], [500], extra_s=10e-6, useful_s=1e-6)).rate for _ in range(100)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[-1] == pytest.approx(0.005)


def test_a_trickle_remains_however_dear_it_is():
    detector = ChangeDetector(1)
    for _ in range(20):
        advice = detector.observe(observed([1000], [500], extra_s=1.0, useful_s=1e-6))
    assert advice.rate == pytest.approx(0.0001)


def test_what_sparse_sampling_saves_pays_for_a_change():
    detector, costs = settled(), {"extra_s": 10e-6, "useful_s": 2e-6}
    for _ in range(200):
        assert detector.observe(observed([1000], [500], **costs)).rate == STEADY
    assert detector.observe(observed([1000], [900], **costs)).rate == DENSE


@pytest.mark.parametrize("period", [7, 50, 1000])
def test_the_extra_seconds_stay_within_the_budget_however_often_the_data_changes(period):
    detector = ChangeDetector(1)
    rate, spent, earned = detector.rate_for(1000), 0.0, 0.0
    for k in range(2000):
        share = 0.3 if k // period % 2 else 0.7
        observation = observed(
            [1000], [int(1000 * share)], n_profiled=int(1000 * rate), extra_s=9e-6, useful_s=2e-6
        )
        spent += 1000 * rate * 9e-6
        earned += 0.05 * 1000 * 2e-6
        rate = detector.observe(observation).rate
    assert spent <= earned + 200 * 9e-6, "but for what is lent: the price of the dense rows, once"


def test_sparse_sampling_may_have_a_budget_of_its_own_and_what_it_leaves_pays_for_a_change():
    detector, costs = (
        ChangeDetector(1, budget=0.02, sparse_budget=0.005),
        {"extra_s": 10e-6, "useful_s": 2e-6},
    )
    filling = [detector.observe(observed([1000], [500], n_profiled=200, **costs)).rate for _ in range(4)]
    assert filling[-1] == pytest.approx(0.02 * 2 / 10)
    rates = [detector.observe(observed([1000], [500], n_profiled=200, **costs)).rate for _ in range(400)]
    assert rates == pytest.approx([0.005 * 2 / 10] * 400), "a quarter of what the budget allows"
    assert detector.observe(observed([1000], [900], **costs)).rate == DENSE


def test_a_batch_by_itself_tells_a_share_that_moved_from_chance():
    detector = settled()
    for n_passed, is_moved in ((500, False), (440, False), (560, False), (900, True), (100, True)):
        assert detector.has_moved((0,), np.array([1000]), np.array([n_passed])) is is_moved, n_passed
    assert not detector.has_moved((0,), np.array([5]), np.array([5])), "five rows may be chance"
    assert not detector.has_moved((0,), np.array([0]), np.array([0]))
    assert not detector.has_moved((0b10,), np.array([1000]), np.array([900])), "nothing is known of the place"


def test_few_rows_of_large_batches_are_sampled_together():
    detector = settled()
    rates = [detector.observe(observed([2_000], [1_000], n_rows=2_000)).rate for _ in range(100)]
    assert set(rates) == {0.0, 0.01}, "twenty rows at once"
    assert sum(rates) / len(rates) == pytest.approx(STEADY)
