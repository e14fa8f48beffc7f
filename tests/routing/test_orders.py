"""What the paper proves about orders, on random filters and on its traps, against brute force."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.routing import (
    AGreedy,
    FilterSet,
    FixedOrder,
    Independent,
    LocalSwaps,
    Profile,
    Statistics,
    Sweep,
)
from eddyline.routing.a_greedy import first_violation, matrix_view, reoptimized_order
from eddyline.routing.dropped_rows import DroppedRows, column_bits
from tests.oracles import filter_ordering as oracle
from tests.oracles.greedy_order import greedy_order, pipeline_cost

EXACT = {"slack": 1.0, "min_support": 0}


@st.composite
def profiled(draw, max_filters=5, max_rows=30, min_rows=1):
    """Rows of drop bits, and costs."""
    n = draw(st.integers(1, max_filters))
    rows = draw(
        st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=min_rows, max_size=max_rows)
    )
    costs = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    return rows, costs


def profile_of(rows) -> Profile:
    dropped = np.array(rows, bool)
    return Profile(dropped, np.ones_like(dropped))


def policy_of(kind, n, costs, **settings):
    return kind(FilterSet.conjunction(n), start=range(n), statistics=Statistics.of_costs(costs), **settings)


# --------------------------------------------------------------------------------------------- P1 to P5


@given(profiled(), st.randoms(use_true_random=False))
def test_the_cost_of_an_order_is_what_walking_every_row_costs(case, random):
    rows, costs = case
    order = random.sample(range(len(costs)), len(costs))
    found = pipeline_cost(order, np.array(rows, bool), costs)
    assert found == pytest.approx(float(oracle.cost(order, rows, costs)))


@given(profiled(min_rows=5, max_rows=40), st.integers(1, 12), st.data())
def test_the_view_is_right_after_any_rows_came_left_and_orders_changed(case, most, data):
    rows, costs = case
    n = len(costs)
    window, kept = DroppedRows(n, most), []
    at = 0
    while at < len(rows):
        step = data.draw(st.integers(1, 8))
        kept = [*kept, *(row for row in rows[at : at + step] if any(row))][-most:]
        window.append(np.array(rows[at : at + step], bool))
        window.check()
        at += step
        order = data.draw(st.permutations(range(n)))
        expected = oracle.view(order, kept)
        found = matrix_view(window.columns, order, window.all)
        assert [[None] * k + row for k, row in enumerate(found)] == expected


@given(profiled(), st.data())
def test_reoptimizing_leaves_no_violation_and_a_second_time_nothing_to_do(case, data):
    rows, costs = case
    order = data.draw(st.permutations(range(len(costs))))
    window = [row for row in rows if any(row)]
    columns = column_bits(np.array(window, bool).reshape(len(window), len(costs)))
    everything = (1 << len(window)) - 1
    after, changes = reoptimized_order(columns, everything, order, costs, 1.0)
    assert oracle.has_invariant(after, window, costs)
    assert reoptimized_order(columns, everything, after, costs, 1.0) == (after, [])
    assert bool(changes) == (not oracle.has_invariant(order, window, costs))
    assert [change.at for change in changes] == sorted({change.at for change in changes})
    for change in changes:
        assert change.entering_ratio > change.displaced_ratio
        assert (change.before[change.at], change.after[change.at]) == (
            change.displaced_filter,
            change.entering_filter,
        )


@given(profiled(), st.sampled_from([1.0, 0.9, 0.5]), st.data())
def test_a_violation_is_found_where_looking_at_every_pair_finds_it(case, slack, data):
    rows, costs = case
    order = data.draw(st.permutations(range(len(costs))))
    columns = column_bits(np.array(rows, bool))
    expected = oracle.violations(order, rows, costs, slack)
    found = first_violation(columns, (1 << len(rows)) - 1, order, costs, slack, 0)
    assert found == (expected[0] if expected else None)


@given(profiled())
def test_greed_costs_at_most_four_times_the_best_order(case):
    rows, costs = case
    order = greedy_order(np.array(rows, bool), costs, range(len(costs)))
    assert oracle.has_invariant(order, rows, costs)
    assert oracle.cost(order, rows, costs) <= 4 * oracle.least_cost(rows, costs)


@given(profiled(max_filters=4, max_rows=15))
def test_an_order_without_violation_costs_at_most_four_times_the_best_by_the_slack(case):
    rows, costs = case
    best = oracle.least_cost(rows, costs)
    for order in permutations(range(len(costs))):
        if not oracle.violations(order, rows, costs, 0.9):
            assert float(oracle.cost(order, rows, costs)) <= 4 / 0.9 * float(best) * (1 + 1e-12)


# --------------------------------------------------------------------------------------------- P6 and P7: the traps


def independence_trap(n):
    """Values 1 to 100; all filters but the last pass the same 49 of them, the last one the other 51."""
    values = np.arange(1, 101)
    return np.stack([*[values >= 50] * (n - 1), values < 50], axis=1)


def local_trap(n):
    """Values 1 to 100; each filter drops its own slice, but the last drops all except the slice before its own."""
    values, wide = np.arange(1, 101), 100 // n
    drops = [(values > k * wide) & (values <= (k + 1) * wide) for k in range(n - 1)]
    return np.stack([*drops, ~drops[-1]], axis=1)


@pytest.mark.parametrize("n", [3, 4, 10, 20])
def test_the_independence_trap(n):
    rows = independence_trap(n)
    settled = {}
    for kind in (AGreedy, Independent):
        policy = policy_of(kind, n, [1] * n, **EXACT)
        for _ in range(3):
            policy.learn(profile_of(rows), policy.statistics)
            policy.check()
        settled[kind] = pipeline_cost(policy.order, rows, [1] * n)
    assert settled[AGreedy] == pytest.approx(1.49)
    assert settled[Independent] == pytest.approx(0.49 * n + 0.51)


@pytest.mark.parametrize("n", [4, 10, 20])
def test_the_local_trap(n):
    rows = local_trap(n)
    settled = {}
    for kind, options in ((AGreedy, EXACT), (LocalSwaps, EXACT)):
        policy = policy_of(kind, n, [1] * n, window_rows=300, **options)
        for _ in range(10):
            policy.learn(profile_of(rows), policy.statistics)
            policy.check()
        settled[kind] = pipeline_cost(policy.order, rows, [1] * n)
    assert settled[AGreedy] == pytest.approx(1 + 1 / n)
    assert settled[LocalSwaps] == pytest.approx((n + 1) / 2)


# --------------------------------------------------------------------------------------------- P8 and P9: where they end


@settings(max_examples=60)
@given(profiled(max_filters=5, min_rows=3))
def test_sweep_ends_where_greed_would_be_content(case):
    rows, costs = case
    n, n_dropped = len(costs), sum(any(row) for row in rows)
    if n_dropped == 0:
        return
    policy = policy_of(Sweep, n, costs, stage_rows=n_dropped, min_fill=n_dropped, **EXACT)
    n_clean = 0
    for _ in range(500):
        n_clean = 0 if policy.learn(profile_of(rows), policy.statistics) else n_clean + 1
        policy.check()
        if n_clean >= max(1, n - 1):
            break
    else:
        pytest.fail(f"Sweep does not settle: {policy.order}")
    assert oracle.has_invariant(policy.order, rows, costs)


@pytest.mark.parametrize("seed", range(10))
def test_on_independent_filters_greed_and_independence_agree_with_the_best_order(seed):
    rng = np.random.default_rng(seed)
    rates, costs = rng.uniform(0.05, 0.95, 5), rng.integers(1, 10, 5).tolist()
    rows = every_row(rates, 20_000, rng)
    best = min(pipeline_cost(order, rows, costs) for order in permutations(range(5)))
    for kind in (AGreedy, Independent):
        policy = policy_of(kind, 5, costs, window_rows=20_000, **EXACT)
        policy.learn(profile_of(rows), policy.statistics)
        assert pipeline_cost(policy.order, rows, costs) <= 1.01 * best


def every_row(rates, n_rows, rng):
    return rng.random((n_rows, len(rates))) < rates


# --------------------------------------------------------------------------------------------- P10 and P11: results, extra work

KINDS = [
    (FixedOrder, {}),
    (AGreedy, {"min_fill": 1, **EXACT}),
    (Independent, {"min_fill": 1, **EXACT}),
    (Sweep, {"stage_rows": 5, "min_fill": 2, **EXACT}),
    (LocalSwaps, {"min_support": 2, "slack": 1.0}),
]


@given(profiled(min_rows=10, max_rows=60), st.sampled_from(KINDS), st.integers(1, 7), st.integers(0, 99))
def test_what_is_emitted_and_how_much_more_is_run_whatever_the_policy(case, kind, step, seed):
    rows, costs = case
    n = len(costs)
    policy = policy_of(kind[0], n, costs, **kind[1])
    coins = np.random.default_rng(seed).random(len(rows)) < 0.5
    emitted = []
    for first in range(0, len(rows), step):
        profiled_rows, known_rows = [], []
        for number in range(first, min(first + step, len(rows))):
            row = rows[number]
            at = oracle.walk(row, policy.order)
            if at is None:
                emitted.append(number)
            elif coins[number]:
                more = policy.filters_to_sample(at)
                assert len(more) <= (n - at - 1 if kind[0] in (AGreedy, Independent) else 1)
                assert not set(more) & set(policy.order[: at + 1]), "it has run already"
                known = [k in policy.order[: at + 1] or k in more for k in range(n)]
                known_rows.append(known)
                profiled_rows.append([bit and told for bit, told in zip(row, known, strict=True)])
        shape = (len(profiled_rows), n)
        dropped, known = np.array(profiled_rows, bool), np.array(known_rows, bool)
        policy.learn(Profile(dropped.reshape(shape), known.reshape(shape)), policy.statistics)
        policy.check()
    assert emitted == [number for number, row in enumerate(rows) if not any(row)]


@given(profiled(max_filters=4, min_rows=5, max_rows=40), st.integers(1, 10), st.integers(0, 99))
def test_a_greedy_in_batches_of_one_is_a_greedy_tuple_by_tuple(case, n_window, seed):
    rows, costs = case
    coins = (np.random.default_rng(seed).random(len(rows)) < 0.6).astype(int).tolist()
    policy = policy_of(AGreedy, len(costs), costs, window_rows=n_window, min_fill=1, **EXACT)
    dropped_at, n_run = [], []
    for row, coin in zip(rows, coins, strict=True):
        at = oracle.walk(row, policy.order)
        dropped_at.append(-1 if at is None else at)
        n_run.append(
            len(costs) if at is None else at + 1 + (len(policy.filters_to_sample(at)) if coin else 0)
        )
        if coin and at is not None:
            policy.learn(profile_of([row]), policy.statistics)
    expected = oracle.replay(rows, coins, range(len(costs)), costs, n_window, 1)
    assert (dropped_at, n_run) == expected
