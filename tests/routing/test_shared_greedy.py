"""Shared Greedy: what it decides by, what it learns, and what it shows."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from eddyline.routing.beliefs import CALLS_OF_A_GENERATION
from eddyline.routing.fixed_greedy import FixedGreedy
from eddyline.routing.following import following_policy
from eddyline.routing.greedy_variant import GreedyVariant
from eddyline.routing.phased_policy import PhasedPolicy
from eddyline.routing.policy import FilterSet, Profile, RowGroup, Statistics, after
from eddyline.routing.shared_greedy import SharedGreedy

SEED = 11


def filter_set(*queries: set[int], weights=(), cores=()) -> FilterSet:
    n = 1 + max(j for query in queries for j in query)
    return FilterSet(tuple(frozenset(query) for query in queries), n, tuple(weights), tuple(cores))


def costs(*cost_s: float, follow=None) -> Statistics:
    cost = np.array(cost_s, np.float64)
    return Statistics(cost, cost if follow is None else np.array(follow, np.float64))


def profile(*rows: str) -> Profile:
    """A row per word: P passed, d dropped, - not evaluated."""
    letters = np.array([list(row) for row in rows])
    return Profile(letters == "d", letters != "-")


# --------------------------------------------------------------------------------------------- deciding


def test_a_filter_wins_that_resolves_more_queries_per_second():
    filters = filter_set({0, 1}, {0, 2}, {0, 3})
    policy = SharedGreedy(filters, statistics=costs(2.9, 1, 1, 1))
    assert policy.next(filters.start) == 0  # 2.9 s for three queries
    policy = SharedGreedy(filters, statistics=costs(3.1, 1, 1, 1))
    assert policy.next(filters.start) == 1
    policy.check()


def test_the_last_filter_of_a_class_is_forced():
    filters = filter_set({0, 1}, {2})
    policy = SharedGreedy(filters, statistics=costs(1, 1, 1000))
    assert policy.next(filters.start) == 2


def test_a_free_filter_is_first_and_one_that_drops_nothing_last():
    filters = filter_set({0, 1, 2})
    policy = SharedGreedy(filters, statistics=costs(1, 5, 0), pass_rate=[1.0, 0.9, 1.0])
    assert policy.rank_order(filters.start) == (2, 1, 0)
    nothing_drops = SharedGreedy(filters, statistics=costs(3, 2, 1), pass_rate=[1.0, 1.0, 1.0])
    assert nothing_drops.next(filters.start) == 0


def test_on_a_tie_what_stands_earlier_in_start_wins():
    filters = filter_set({0, 1, 2})
    assert SharedGreedy(filters, statistics=costs(1, 1, 1)).next(filters.start) == 0
    assert SharedGreedy(filters, start=(2, 1, 0), statistics=costs(1, 1, 1)).next(filters.start) == 2


@pytest.mark.parametrize("weights", [(3.0, 1.0), (2.5, 1.0), (1000.0, 999.0)])
def test_a_class_counts_as_many_times_as_it_has_queries(weights):
    filters = filter_set({0, 1}, {2, 3}, weights=weights)
    policy = SharedGreedy(filters, statistics=costs(*(weights[k // 2] for k in range(4))))
    assert policy.next(filters.start) == 0  # as dear as it is wanted: a tie
    cheaper = costs(*(weights[k // 2] - 0.01 * (k == 2) for k in range(4)))
    assert SharedGreedy(filters, statistics=cheaper).next(filters.start) == 2


def test_weights_decide_as_copies_of_the_class_do():
    rng = np.random.default_rng(SEED)
    for _ in range(50):
        queries = [frozenset(rng.choice(6, rng.integers(1, 4), replace=False).tolist()) for _ in range(4)]
        times = rng.integers(1, 6, 4).tolist()
        weighed = FilterSet(tuple(queries), 6, tuple(float(n) for n in times))
        copied = FilterSet(tuple(q for q, n in zip(queries, times, strict=True) for _ in range(n)), 6)
        cost = costs(*rng.uniform(1, 20, 6))
        one, other = SharedGreedy(weighed, statistics=cost), SharedGreedy(copied, statistics=cost)
        item = rng.random(6) < 0.5
        a, b = weighed.start, copied.start
        while weighed.needed_filters(a):
            chosen = one.next(a)
            assert chosen == other.next(b)
            a, b = (
                after(of, group, chosen, passes=bool(item[chosen]))
                for of, group in ((weighed, a), (copied, b))
            )
        assert not copied.needed_filters(b)


def test_a_filter_whose_core_has_run_costs_what_it_then_takes():
    #                0 and 1 look at one model's answer; 2 is a regular expression
    filters = filter_set({0, 3}, {1, 3}, {2, 3}, cores=(7, 7, 8, 9))
    statistics = costs(1, 10, 2, 1000, follow=(0.1, 0.1, 2, 1000))
    policy = SharedGreedy(filters, statistics=statistics, pass_rate=[0.5] * 4)
    assert policy.rank_order(filters.start) == (0, 2, 1, 3)
    assert policy.next(filters.start) == 0
    later = after(filters, filters.start, 0, passes=False)
    assert policy.next(later) == 1
    assert policy.rank_order(later) == (1, 2, 3)


# --------------------------------------------------------------------------------------------- given results


def test_results_so_far_choose_the_filter_that_then_drops_most():
    filters = filter_set({0, 1, 2})
    policy = SharedGreedy(filters, statistics=costs(0.1, 1, 1), smoothing=0.0)
    # 0 drops half; where it passes, 2 drops everything and 1 nothing
    policy.learn(profile("PPd", "PPd", "ddP", "ddP", "PPd", "ddP"), costs(0.1, 1, 1))
    passed = after(filters, filters.start, 0, passes=True)
    assert policy.next(passed) == 2
    assert policy.pass_rate(passed, 1) == 1.0
    assert policy.pass_rate(filters.start, 1) == 0.5


def test_smoothing_pulls_few_rows_to_the_marginal():
    filters = filter_set({0, 1})
    policy = SharedGreedy(filters, statistics=costs(1, 1), smoothing=10.0)
    policy.learn(profile(*["PP"] * 8, *["dd"] * 30), costs(1, 1))
    passed = after(filters, filters.start, 0, passes=True)
    marginal = 9 / 40
    assert policy.pass_rate(passed, 1) == pytest.approx((8 + 10 * marginal) / 18)
    never_seen = RowGroup(evaluated_filters=0b1, passed_filters=0b1, open_classes=1)
    other = SharedGreedy(filters, statistics=costs(1, 1))
    assert other.pass_rate(never_seen, 1) == 0.5  # no sampled row agrees: the marginal


def test_rows_that_lack_a_filter_are_ignored_for_it():
    filters = filter_set({0, 1})
    policy = SharedGreedy(filters, statistics=costs(1, 1), smoothing=0.0)
    policy.learn(profile("P-", "P-", "Pd", "dP"), costs(1, 1))
    assert policy.beliefs.pass_rate == ((3 + 1) / (4 + 2), (1 + 1) / (2 + 2))
    assert policy.pass_rate(after(filters, filters.start, 0, passes=True), 1) == 0.0


def test_marginal_selectivities_look_at_no_results():
    filters = filter_set({0, 1})
    policy = SharedGreedy(filters, statistics=costs(1, 1), is_conditional=False)
    policy.learn(profile(*["PP"] * 20, *["dd"] * 20), costs(1, 1))
    assert policy.pass_rate(after(filters, filters.start, 0, passes=True), 1) == 0.5


# --------------------------------------------------------------------------------------------- learning


def sampled(rng: np.random.Generator, pass_rate: list[float], n_rows: int) -> Profile:
    dropped = rng.random((n_rows, len(pass_rate))) >= np.array(pass_rate)
    return Profile(dropped, np.ones_like(dropped))


def test_a_selectivity_that_moves_ends_the_generation_and_is_announced():
    rng = np.random.default_rng(SEED)
    filters, statistics = filter_set({0, 1}), costs(1, 1)
    policy = SharedGreedy(filters, statistics=statistics, window_rows=400)
    (change,) = policy.learn(sampled(rng, [0.9, 0.1], 400), statistics)
    assert (change.before, change.after, change.at, change.entering_filter, change.displaced_filter) == (
        (0, 1),
        (1, 0),
        0,
        1,
        0,
    )
    assert change.entering_ratio == pytest.approx(0.9, abs=0.05)  # queries resolved per second
    assert change.displaced_ratio == pytest.approx(0.1, abs=0.05)
    assert policy.next(filters.start) == 1
    settled = policy.generation
    for _ in range(10):
        assert policy.learn(sampled(rng, [0.9, 0.1], 40), statistics) == []
        policy.check()
    assert policy.generation == settled, "chance alone began a generation"
    changes = [c for _ in range(10) for c in policy.learn(sampled(rng, [0.1, 0.9], 40), statistics)]
    assert [(change.entering_filter, change.displaced_filter) for change in changes] == [(0, 1)]
    assert policy.next(filters.start) == 0


def test_a_cost_that_moves_by_more_than_a_tenth_ends_the_generation():
    filters = filter_set({0, 1})
    policy = SharedGreedy(filters, statistics=costs(1.0, 1.05))
    nothing = Profile(np.zeros((0, 2), bool), np.zeros((0, 2), bool))
    assert policy.learn(nothing, costs(1.09, 1.05)) == []
    assert policy.generation == 0
    (change,) = policy.learn(nothing, costs(1.2, 1.05))
    assert (change.entering_filter, change.displaced_filter, policy.generation) == (1, 0, 1)


def test_a_generation_ends_after_so_many_calls():
    filters, statistics = filter_set({0, 1}), costs(1, 1)
    policy = SharedGreedy(filters, statistics=statistics)
    nothing = Profile(np.zeros((0, 2), bool), np.zeros((0, 2), bool))
    for _ in range(CALLS_OF_A_GENERATION - 1):
        policy.learn(nothing, statistics)
        policy.check()
    assert policy.generation == 0
    policy.learn(nothing, statistics)
    assert policy.generation == 1


def test_the_window_holds_the_last_rows():
    filters, statistics = filter_set({0, 1}), costs(1, 1)
    policy = SharedGreedy(filters, statistics=statistics, window_rows=4)
    policy.learn(profile("dd", "dd", "dd", "Pd"), statistics)
    policy.learn(profile("Pd", "Pd", "Pd"), statistics)
    policy.check()
    assert policy.snapshot()["sampled_rows"] == 4
    policy.learn(Profile(np.zeros((0, 2), bool), np.zeros((0, 2), bool)), costs(9, 9))  # begins a generation
    assert policy.beliefs.pass_rate == (5 / 6, 1 / 6)


def test_forgotten_rows_leave_the_decisions_as_they_are():
    rng = np.random.default_rng(SEED)
    filters, statistics = filter_set({0, 1}), costs(1, 1)
    policy = SharedGreedy(filters, statistics=statistics)
    policy.learn(sampled(rng, [0.9, 0.1], 200), statistics)
    policy.forget()
    assert policy.next(filters.start) == 1
    policy.learn(sampled(rng, [0.9, 0.1], 3), statistics)
    assert policy.next(filters.start) == 1
    policy.learn(sampled(rng, [0.1, 0.9], 40), statistics)
    assert policy.next(filters.start) == 0
    policy.check()


@pytest.mark.parametrize("kind", [SharedGreedy, GreedyVariant, FixedGreedy, PhasedPolicy])
def test_filters_that_stay_keep_what_is_known_of_them(kind):
    filters, statistics = filter_set({0, 1}, {1, 2}), costs(1, 1, 1)
    policy = kind(filters, statistics=statistics, window_rows=500)
    policy.learn(profile(*["Pdd"] * 20), statistics)
    new = filter_set({0, 1}, {1, 2, 3})
    after_it = following_policy(policy, new, {0: 2, 2: 1}, costs(1, 1, 1, 1))
    after_it.check()
    least, most = 1 / 22, 21 / 22
    assert after_it.beliefs.pass_rate == pytest.approx((least, 0.5, least, 0.5))
    assert policy.beliefs.pass_rate == pytest.approx((most, least, least))
    assert after_it.settings() == policy.settings()


@pytest.mark.parametrize("kind", [SharedGreedy, GreedyVariant, FixedGreedy, PhasedPolicy])
def test_policies_travel_to_other_processes(kind):
    filters, statistics = filter_set({0, 1}, {1, 2}), costs(3, 2, 1)
    policy = kind(filters, statistics=statistics)
    policy.learn(profile(*["Pdd"] * 20), statistics)
    there = pickle.loads(pickle.dumps(policy))
    there.check()
    assert there.next(filters.start) == policy.next(filters.start)


def test_decisions_kept_are_bounded(monkeypatch):
    monkeypatch.setattr("eddyline.routing.shared_greedy.MOST_DECISIONS", 3)
    filters = filter_set({0, 1}, {2, 3}, {4, 5})
    policy = SharedGreedy(filters, statistics=costs(1, 2, 3, 4, 5, 6))
    for opened in range(1, 8):
        policy.next(RowGroup(0, 0, opened))
        policy.check()


# --------------------------------------------------------------------------------------------- looking


def test_the_snapshot_shows_the_first_levels_of_the_tree():
    filters = filter_set({0, 1}, {1, 2})
    policy = SharedGreedy(filters, statistics=costs(3.0, 5.0, 2.0), pass_rate=[0.4, 0.5, 0.3])
    shown = json.loads(json.dumps(policy.snapshot()))
    assert shown == {
        "policy": "shared_greedy",
        "pass_rate": [0.4, 0.5, 0.3],
        "cost_s": [3.0, 5.0, 2.0],
        "generation": 0,
        "sampled_rows": 0,
        "root": 2,
        "tree": {
            "filter": 2,
            "share": 1.0,
            "yes": {
                "filter": 1,
                "share": 0.3,
                "yes": {"filter": 0, "share": 0.15, "yes": None, "no": None},
                "no": None,
            },
            "no": {
                "filter": 0,
                "share": 0.7,
                "yes": {"filter": 1, "share": pytest.approx(0.28), "yes": None, "no": None},
                "no": None,
            },
        },
        "decisions": 5,
    }


def test_the_snapshot_ends_after_four_levels():
    filters = filter_set(set(range(6)))
    tree = SharedGreedy(filters, statistics=costs(*[1] * 6)).snapshot()["tree"]
    levels = 0
    while tree is not None:
        tree, levels = tree["yes"], levels + 1
    assert levels == 4


@pytest.mark.parametrize("kind", [SharedGreedy, GreedyVariant, FixedGreedy, PhasedPolicy])
def test_queries_without_filters_need_nothing(kind):
    filters = FilterSet((frozenset(),), 2)
    policy = kind(filters, statistics=costs(1, 1))
    assert policy.snapshot()["root"] is None
    policy.check()


@pytest.mark.parametrize("kind", [SharedGreedy, GreedyVariant, FixedGreedy, PhasedPolicy])
def test_asking_for_rows_that_need_nothing_is_a_bug(kind):
    policy = kind(filter_set({0, 1}), statistics=costs(1, 1))
    with pytest.raises(AssertionError, match="needs a filter"):
        policy.next(RowGroup(0b01, 0, 0))
