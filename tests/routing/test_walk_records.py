"""What passes between who runs filters and who orders them."""

from __future__ import annotations

import pickle
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.routing import AUTO, POLICIES, Router
from eddyline.routing.policy import Profile, RowGroup, Statistics
from eddyline.routing.walk_records import WalkRecord, combined_record, moved_bits, renumbered_record
from tests.filters.made_walks import Answers, policy_of, pool_of, routing_of, walk
from tests.oracles.filter_walks import ERROR
from tests.routing.walk_records import told
from tests.strategies import examples

ANSWERS = st.lists(st.sampled_from([True, False, ERROR]), min_size=4, max_size=4)
QUERIES = [[0, 1], [1, 2, 3], [3]]
COSTS = [1e-6, 2e-6, 3e-6, 4e-6]
CORES = ["f", "f", "g", "h"]


def same(one, other) -> bool:
    return all(
        np.array_equal(getattr(one, each.name), getattr(other, each.name))
        if isinstance(getattr(one, each.name), np.ndarray)
        else getattr(one, each.name) == getattr(other, each.name)
        for each in fields(one)
    )


@given(st.lists(ANSWERS, min_size=1, max_size=8), st.integers(0, 8), st.permutations(range(4)))
@examples(0.5)
def test_what_workers_tell_is_what_one_batch_would_have_told(rows, cut, numbering):
    """The second worker has numbered its filters and classes otherwise."""
    cut = min(cut, len(rows))
    pool = pool_of(QUERIES, COSTS, CORES)
    whole = sampled_walk(pool, rows, (0, 1, 2, 3))
    place = {old: new for new, old in enumerate(numbering)}
    other = pool_of([], [])
    for k in numbering:
        other.add(pool.filters[k])
    for filters in reversed(pool.classes):
        other.add_class(frozenset(place[k] for k in filters))
    turned = [[row[k] for k in numbering] for row in rows[cut:]]
    parts = [
        sampled_walk(pool, rows[:cut], (0, 1, 2, 3)),
        sampled_walk(other, turned, [place[k] for k in (0, 1, 2, 3)]),
    ]
    found = combined_record([part for part in parts if part.n_rows])
    assert_alike(renumbered_record(found, whole.keys, whole.classes), whole)


@given(st.lists(ANSWERS, min_size=1, max_size=8), st.integers(0, 8))
@examples(0.25)
def test_what_batches_told_one_by_one_is_what_one_batch_would_have_told(rows, cut):
    pool = pool_of(QUERIES, COSTS, CORES)
    parts = [sampled_walk(pool, part, (0, 1, 2, 3)) for part in (rows[:cut], rows[cut:]) if part]
    assert_alike(combined_record(parts), sampled_walk(pool, rows, (0, 1, 2, 3)))


def assert_alike(found: WalkRecord, whole: WalkRecord) -> None:
    for name in ("keys", "cores", "declared_s", "classes", "n_rows", "open_classes"):
        assert getattr(found, name) == getattr(whole, name), name
    for name in (
        "n_pairs",
        "n_open",
        "asked_rows",
        "passed_rows",
        "follow_rows",
        "extra",
        "dropped_mask",
        "known_mask",
    ):
        assert np.array_equal(getattr(found, name), getattr(whole, name)), name
    for name in ("seconds", "follow_seconds", "extra_s", "overhead_s"):
        assert np.allclose(getattr(found, name), getattr(whole, name)), name


def sampled_walk(pool, rows, order):
    """Every row is sampled, and costs are by name."""
    cost_s = [{"f0": 1e-6, "f1": 2e-6, "f2": 3e-6, "f3": 4e-6}[key] for key in pool.keys]
    fixed = policy_of("fixed", pool, cost_s)
    policy = type(fixed)(fixed.filters, start=order, statistics=fixed.statistics)
    answers = Answers(rows, cost_s) if rows else Answers([[True] * 4], cost_s)
    pairs = None if rows else []
    return walk(pool, policy, answers, pairs=pairs, sampled=np.ones(max(1, len(rows)), bool))[1]


def test_cores_are_known_by_name_whoever_met_which_filter_first():
    one = told(["a"], [[0]], cost_s=[1e-6], cores=["score"])
    two = told(["b", "a"], [[0], [1]], cost_s=[1e-6, 1e-6], cores=["score", "score"])
    three = told(["c", "b"], [[0, 1]], cost_s=[1e-6, 1e-6], cores=["c", "score"])
    found = combined_record([one, two, three])
    assert found.keys == ("a", "b", "c")
    assert found.cores == ("score", "score", "c")
    assert found.classes == (frozenset({0}), frozenset({1}), frozenset({1, 2}))
    router = Router(AUTO)
    for part in (one, two, three):
        router.learn(part, 1)
    assert router.filters.cores == (0, 0, 2)


def test_one_worker_is_left_as_it_is():
    one = told(["a", "b"], [[0, 1]], cost_s=[1e-6, 1e-6])
    assert combined_record([one]) is one


def test_in_larger_lists_what_is_not_there_is_nothing():
    part = told(["b", "a"], [[0, 1], [0]], cost_s=[1e-6, 2e-6], dropped=[[1, 0], [0, 1]], n_rows=10)
    wide = renumbered_record(part, ["a", "x", "b"], [frozenset({2}), frozenset({1}), frozenset({0, 2})])
    assert wide.asked_rows.tolist() == [10, 0, 10]
    assert wide.seconds.tolist() == pytest.approx([2e-5, 0, 1e-5])
    assert wide.dropped_mask.tolist() == [[False, False, True], [True, False, False]]
    assert wide.known_mask.tolist() == [[True, False, True]] * 2
    assert wide.n_pairs.tolist() == [10, 0, 10]
    assert wide.open_classes == (0b101, 0b101)
    assert wide.cores == ("a", "x", "b")
    assert wide.places[1] is None


def test_bits_move_to_their_new_places_or_are_gone():
    assert moved_bits(0b1011, [2, None, 0, 1]) == 0b110
    assert moved_bits(0, [None]) == 0


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_routing_decides_the_same_where_it_was_sent(name):
    pool = pool_of(QUERIES, COSTS)
    policy = policy_of(name, pool, COSTS)
    dropped = np.array([[k % 2 == 0, k % 3 == 0, k % 5 == 0, k % 7 == 0] for k in range(150)], bool)
    policy.learn(Profile(dropped, np.ones_like(dropped)), Statistics.of_costs(COSTS))
    routing = routing_of(pool, policy, rate=0.01, generation=3)
    sent = pickle.loads(pickle.dumps(routing))
    assert (sent.keys, sent.classes, sent.generation, sent.rate) == (pool.keys, tuple(pool.classes), 3, 0.01)
    assert sent.policy.current_order == policy.current_order
    waiting = [policy.filters.start]
    while waiting:
        group = waiting.pop()
        if not policy.filters.needed_filters(group):
            continue
        k = policy.next(group)
        assert sent.policy.next(group) == k
        bit = 1 << k
        waiting.append(
            RowGroup(group.evaluated_filters | bit, group.passed_filters | bit, group.open_classes)
        )
        still_open = group.open_classes & ~policy.filters.members[k]
        waiting.append(RowGroup(group.evaluated_filters | bit, group.passed_filters, still_open))


def test_what_was_told_can_be_sent():
    part = told(["a", "b"], [[0, 1]], cost_s=[1e-6, 1e-6], dropped=[[1, 0]])
    assert same(pickle.loads(pickle.dumps(part)), part)
