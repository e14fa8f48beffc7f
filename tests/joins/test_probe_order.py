"""The order of probes: literal windows, drawn orders, drifts, and what holds for every join graph."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.joins.join_tree import JoinTree
from eddyline.joins.probe_order import ProbeOrder, drawn_order, greedy_path_order, likeliest_order
from eddyline.routing.a_greedy import reoptimized_order
from eddyline.routing.dropped_rows import column_bits
from tests.oracles.greedy_order import greedy_order

POLICIES = ["a_greedy", "auto", "tickets", "random", "fixed", "sweep"]


def tree(*parents: int) -> JoinTree:
    """The tree with these parents; its origin is the one with -1. What the keys are does not matter here."""
    none: tuple[tuple[()], ...] = ((),) * len(parents)
    return JoinTree(parents.index(-1), parents, none, none)


STAR = tree(-1, 0, 0, 0)
FORK = tree(-1, 0, 1, 0)  # 2 is probed with rows of 1


def greedy(
    joined: JoinTree, dropped: list[tuple[int, ...]], cost_s=(1.0,) * 4, **settings
) -> tuple[int, ...]:
    """By rows that are marked with which of the inputs 1, 2, 3 drop them."""
    rows = np.array([(0, *row) for row in dropped], bool)
    everything = (1 << len(rows)) - 1
    return greedy_path_order(joined, column_bits(rows), everything, cost_s, joined.first_order, **settings)


def walked(matched: np.ndarray, order: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """How many rows come to each probe, and how many pass it."""
    entered, passed = np.zeros(matched.shape[1], np.int64), np.zeros(matched.shape[1], np.int64)
    alive = np.ones(len(matched), bool)
    for place in order:
        entered[place] = alive.sum()
        alive &= matched[:, place]
        passed[place] = alive.sum()
    return entered, passed


def run(order: ProbeOrder, batches: list[np.ndarray], row_s: float = 1e-6) -> list[tuple[int, ...]]:
    """The order that each of these batches of rows took."""
    orders = []
    for matched in batches:
        n_sampled = order.sample(len(matched))
        assert 0 <= n_sampled <= len(matched)
        if n_sampled:
            order.profile(matched[:n_sampled])
        orders.append(order.order(len(matched)))
        entered, passed = walked(matched, orders[-1])
        order.learn(orders[-1], entered, passed, entered * row_s)
        order.check()
    return orders


def matches(seed: int, n_rows: int, *rates: float) -> np.ndarray:
    return np.random.default_rng(seed).random((n_rows, len(rates))) < np.array(rates)


# --------------------------------------------------------------------------------------------- greed


def test_the_path_that_drops_most_comes_first():
    #                    1  2  3
    dropped = [(0, 1, 0), (0, 1, 1), (0, 0, 1), (0, 1, 0)]
    assert greedy(STAR, dropped) == (2, 3, 1)


def test_what_is_dropped_already_does_not_count():
    #                    1  2  3      1 and 2 drop the same rows; 3 drops the one that is left
    assert greedy(STAR, [(1, 1, 0), (1, 1, 0), (0, 0, 1)]) == (1, 3, 2)


def test_drops_are_counted_per_second():
    dropped = [(1, 0, 0), (1, 0, 0), (1, 0, 0), (0, 1, 0)]
    assert greedy(STAR, dropped, cost_s=(0, 4.0, 1.0, 1.0)) == (2, 1, 3)


def test_a_child_never_comes_before_its_parent():
    assert greedy(FORK, [(0, 1, 0), (0, 1, 0), (0, 1, 1)]) == (1, 2, 3)


def test_a_parent_that_drops_nothing_comes_first_for_a_child_that_drops_much():
    dropped = [(0, 1, 0), (0, 1, 0), (0, 1, 0), (0, 0, 1)]
    assert greedy(FORK, dropped) == (1, 2, 3)  # three rows for two probes, against one for one
    assert greedy(FORK, dropped, cost_s=(0, 4.0, 1.0, 1.0)) == (3, 1, 2)


def test_ties_and_small_advantages_leave_the_order_as_it_stands():
    assert greedy(STAR, [(1, 0, 0), (0, 1, 0)]) == (1, 2, 3)
    dropped = [(1, 0, 0)] * 19 + [(0, 1, 0)] * 20
    assert greedy(STAR, dropped) == (2, 1, 3)
    assert greedy(STAR, dropped, slack=0.9) == (1, 2, 3)
    assert greedy(STAR, [(0, 1, 0)] * 9, min_support=10) == (1, 2, 3)


# --------------------------------------------------------------------------------------------- the policies


def test_a_single_other_input_is_never_sampled():
    order = ProbeOrder(tree(-1, 0), "a_greedy", seed=1)
    assert order.order(100) == (1,)
    assert order.sample(1_000_000) == 0
    assert order.why() == "input 1: no other order is possible"
    assert ProbeOrder(tree(1, 2, -1), "random", seed=1).order(100) == (1, 0)  # a chain has one order


def test_fixed_keeps_the_order_of_the_signature_or_the_one_it_was_given():
    batches = [matches(1, 1000, 1, 0.9, 0.1, 0.5)] * 5
    assert set(run(ProbeOrder(STAR, "fixed", seed=1), batches)) == {(1, 2, 3)}
    assert set(run(ProbeOrder(STAR, "fixed", seed=1, start=(3, 1, 2)), batches)) == {(3, 1, 2)}


def test_a_greedy_finds_the_order_and_finds_it_again_after_a_drift():
    before = [matches(seed, 2000, 1, 0.9, 0.2, 0.5) for seed in range(20)]
    after = [matches(seed, 2000, 1, 0.1, 0.9, 0.5) for seed in range(20)]
    order = ProbeOrder(STAR, "a_greedy", seed=1)
    assert run(order, before)[-1] == (2, 3, 1)
    orders = run(order, after)
    assert orders[-1] == (1, 3, 2)
    assert orders.index((1, 3, 2)) <= 5
    assert order.n_drifted >= 1


def test_a_greedy_samples_less_once_it_knows():
    order = ProbeOrder(STAR, "a_greedy", seed=1)
    assert order.sample(2000) == 300
    run(order, [matches(seed, 2000, 1, 0.9, 0.2, 0.5) for seed in range(60)])
    assert order.sample(2000) <= 5


def test_a_window_is_filled_only_where_the_order_is_in_doubt():
    clear, doubtful = (ProbeOrder(STAR, "a_greedy", seed=1) for _ in range(2))
    run(clear, [matches(seed, 2000, 1, 0.01, 1, 1) for seed in range(60)])
    run(doubtful, [matches(seed, 2000, 1, 0.01, 0.3, 1) for seed in range(60)])
    assert 300 <= clear.snapshot()["sampled_rows"] < 600
    assert doubtful.snapshot()["sampled_rows"] > 900


def test_batches_of_few_rows_are_sampled_now_and_then():
    order = ProbeOrder(STAR, "a_greedy", seed=3)
    n_sampled = [order.sample(4) for _ in range(1000)]
    assert set(n_sampled) == {0, 1}
    assert 700 < sum(n_sampled) < 900  # a fifth of four thousand


def test_short_calls_are_no_evidence_of_costs():
    order = ProbeOrder(STAR, "a_greedy", seed=1)
    entered, passed = np.array([0, 100, 50, 10]), np.array([0, 50, 10, 10])
    for _ in range(20):
        order.learn((1, 2, 3), entered, passed, np.array([0, 1e-4, 1e-4, 1e-4]))
    assert len(set(order.cost_s.tolist())) == 1
    for _ in range(8):
        order.learn((1, 2, 3), entered * 1000, passed * 1000, np.array([0, 1.0, 2.0, 0.04]))
    assert order.cost_s[1:].tolist() == pytest.approx([1e-5, 4e-5, 4e-6], rel=0.01)
    assert order.cost_s[0] == pytest.approx(1e-5, rel=0.01)  # one that has not run: as most of the others


def test_tickets_go_to_the_probe_that_drops_most():
    order = ProbeOrder(STAR, "tickets", seed=1)
    orders = run(order, [matches(seed, 500, 1, 0.95, 0.05, 0.5) for seed in range(200)])
    first = Counter(each[0] for each in orders)
    assert first[2] > first[3] > first[1] > 0
    assert order.current_order == (2, 3, 1)
    facts = order.snapshot()
    assert facts["order"] == [2, 3, 1]
    assert facts["share"] == sorted(facts["share"], reverse=True)


def test_tickets_of_a_large_batch_are_those_of_many_small_ones():
    def account(n_calls: int) -> list[float]:
        order = ProbeOrder(STAR, "tickets", seed=1)
        for _ in range(n_calls):
            n = 8000 // n_calls
            entered, passed = np.array([0, n, n // 2, n // 4]), np.array([0, n // 2, n // 4, 0])
            order.learn((1, 2, 3), entered, passed, entered * 1e-6)
        return order.snapshot()["share"]

    assert account(1) == pytest.approx(account(100), rel=1e-9)
    assert account(1) == pytest.approx(
        [0.5, 0.25, 0.25], rel=1e-2
    )  # of rows that came in, by the probe that dropped them


def test_random_takes_every_order_as_often():
    order = ProbeOrder(STAR, "random", seed=1)
    orders = Counter(order.order(256) for _ in range(6000))
    assert len(orders) == 6
    assert all(850 < n < 1150 for n in orders.values())


def test_draws_follow_chances_and_parents():
    assert drawn_order(FORK, [0, 1.0, 5.0, 3.0], [0.2, 0.0, 0.0]) == (1, 2, 3)
    assert drawn_order(FORK, [0, 1.0, 5.0, 3.0], [0.3, 0.9, 0.9]) == (3, 1, 2)
    assert likeliest_order(FORK, [0, 1.0, 5.0, 3.0]) == (3, 1, 2)
    assert likeliest_order(FORK, [0, 4.0, 5.0, 3.0]) == (1, 2, 3)


def test_an_input_that_few_rows_reach_does_not_seem_dearer_for_the_price_of_a_call():
    """Probes take 0.3 ms for being made and nothing for a row; the one that most rows get to is not the best one for that."""
    order = ProbeOrder(STAR, "a_greedy", seed=1)
    for _ in range(20):
        order.learn(
            (1, 2, 3), np.array([0, 2000, 600, 60]), np.array([0, 600, 60, 6]), np.array([0.0, *[3e-4] * 3])
        )
    assert order.cost_s.tolist()[1:] == pytest.approx([1.5e-7] * 3)


def test_a_batch_is_probed_slice_by_slice_few_rows_first_while_there_is_much_to_learn():
    order = ProbeOrder(STAR, "a_greedy", seed=1)
    assert [order.slice_rows(done, 100_000 - done) for done in (0, 50_000)] == [1024, 1024]
    order.profile(np.tile([True, False, True, True], (300, 1)))
    entered, passed = np.array([0, 1000, 500, 500]), np.array([0, 500, 500, 500])
    order.learn((1, 2, 3), entered, passed, np.array([0, 1e-3, 1e-3, 1e-3]))
    assert [order.slice_rows(done, 100_000 - done) for done in (0, 4096, 16_384)] == [4096, 12_288, 83_616]
    assert order.slice_rows(0, 5_000) == 5_000, "too few to be cut"
    for policy in ("fixed", "random", "tickets"):
        assert ProbeOrder(STAR, policy, seed=1).slice_rows(0, 100_000) == 100_000, "nothing is sampled"


def test_the_reason_names_inputs_rates_and_costs():
    order = ProbeOrder(STAR, "a_greedy", seed=1)
    assert order.why(["t", "q", "n", "w"]) == (
        "q (no row came there yet), n (no row came there yet), w (no row came there yet): "
        "most dropped per second first, by 0 sampled rows"
    )
    entered, passed = np.array([0, 100_000, 50_000, 40_000]), np.array([0, 50_000, 40_000, 40_000])
    for _ in range(8):
        order.learn((1, 2, 3), entered, passed, np.array([0, 1.0, 1.0, 1.0]))
    assert order.why(["t", "q", "n", "w"]) == (
        "q (drops 50%, 10 us a row), n (drops 20%, 20 us a row), w (drops 0%, 25 us a row): "
        "most dropped per second first, by 0 sampled rows"
    )
    assert order.snapshot() == {
        "policy": "a_greedy",
        "origin": 0,
        "order": [1, 2, 3],
        "drop_rate": [0.5, pytest.approx(0.2), 0.0],
        "cost_s": [pytest.approx(9.98e-6), pytest.approx(19.96e-6), pytest.approx(24.95e-6)],
        "is_open": True,
        "sampled_rows": 0,
        "reordered": 0,
        "drifted": 0,
    }


# --------------------------------------------------------------------------------------------- what always holds


@st.composite
def trees(draw: st.DrawFn) -> JoinTree:
    n = draw(st.integers(2, 6))
    places = draw(st.permutations(range(n)))
    parents = [-1] * n
    for at in range(1, n):
        parents[places[at]] = places[draw(st.integers(0, at - 1))]
    return tree(*parents)


@st.composite
def profiles(draw: st.DrawFn, joined: JoinTree) -> np.ndarray:
    """Rows with what each path drops: whatever its prefixes do, and more."""
    n_rows = draw(st.integers(1, 12))
    bits = st.lists(st.booleans(), min_size=len(joined), max_size=len(joined))
    own = np.array([draw(bits) for _ in range(n_rows)], bool)
    return np.stack([own[:, list(path)].any(axis=1) for path in joined.paths], axis=1)


def plain_greedy(joined: JoinTree, dropped: list[list[bool]], cost_s: list[float], start: tuple[int, ...]):
    """The same greed in plain loops: of all paths not yet probed to their end the one that drops most of the living per second,
    whose first probe then comes next."""
    done, alive = [joined.origin], list(dropped)
    while len(done) < len(joined):
        best, chosen = -1.0, None
        for place in (place for place in start if place not in done):
            to_do, at = [], place
            while at not in done:
                to_do.append(at)
                at = joined.parents[at]
            n = sum(row[place] for row in alive)
            value = n / sum(cost_s[step] for step in to_do)
            rank = start.index(to_do[-1])
            if value > best or (value == best and rank < start.index(chosen)):
                best, chosen = value, to_do[-1]
        done.append(chosen)
        alive = [row for row in alive if not row[chosen]]
    return tuple(done[1:])


@given(st.data())
def test_a_greedy_on_paths_is_plain_greed_on_the_profile(data):
    joined = data.draw(trees())
    dropped = data.draw(profiles(joined))
    cost_s = [float(data.draw(st.sampled_from([1, 2, 4]))) for _ in joined.parents]
    start = drawn_order(joined, [1.0] * len(joined), [data.draw(st.floats(0, 0.99)) for _ in joined.others])
    everything = (1 << len(dropped)) - 1
    order = greedy_path_order(joined, column_bits(dropped), everything, cost_s, start)
    assert joined.is_order(order)
    assert order == plain_greedy(joined, dropped.tolist(), cost_s, start)
    assert greedy_path_order(joined, column_bits(dropped), everything, cost_s, order) == order
    if joined.is_star:
        assert order == greedy_order(dropped, cost_s, start)


@given(st.data())
def test_on_a_star_the_order_violates_the_invariant_no_more_than_a_greedy_allows(data):
    joined = tree(-1, *[0] * data.draw(st.integers(2, 5)))
    dropped = data.draw(profiles(joined))
    columns, everything = column_bits(dropped), (1 << len(dropped)) - 1
    cost_s = [1.0] * len(joined)
    order = greedy_path_order(
        joined, columns, everything, cost_s, joined.first_order, slack=0.9, min_support=2
    )
    assert reoptimized_order(columns, everything, order, cost_s, 0.9, 2)[0] == order


@given(st.data(), trees(), st.sampled_from(POLICIES), st.integers(0, 2**63))
def test_every_policy_gives_orders_with_parents_first_and_the_same_for_the_same_seed(
    data, joined, policy, seed
):
    rates = [data.draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])) for _ in joined.parents]
    batches = []
    for at, n in enumerate(
        data.draw(st.lists(st.sampled_from([0, 1, 7, 300, 2000]), min_size=1, max_size=6))
    ):
        own = matches(at, n, *rates)
        batches.append(np.stack([own[:, list(path)].all(axis=1) for path in joined.paths], axis=1))
    orders = run(ProbeOrder(joined, policy, seed), batches)
    assert all(joined.is_order(order) for order in orders)
    assert orders == run(ProbeOrder(joined, policy, seed), batches)
