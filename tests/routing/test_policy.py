"""The words of routing: which filters are still needed, and that every order policy runs the first of those."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.routing import (
    AGreedy,
    FilterSet,
    FixedOrder,
    Independent,
    LocalSwaps,
    Profile,
    RandomChoice,
    RowGroup,
    Statistics,
    Sweep,
    Tickets,
)
from eddyline.routing.policy import bits

ORDERED = [FixedOrder, AGreedy, Independent, Sweep, LocalSwaps]
ALL = [*ORDERED, RandomChoice, Tickets]
TWO_CLASSES = FilterSet((frozenset({0, 1}), frozenset({1, 2})), 3, weights=(5, 1))


def test_classes_and_filters_know_each_other():
    assert TWO_CLASSES.filters_of == (0b011, 0b110)
    assert TWO_CLASSES.members == (0b01, 0b11, 0b10)
    assert TWO_CLASSES.start == RowGroup(0, 0, 0b11)
    assert FilterSet.conjunction(3).filters_of == (0b111,)


@pytest.mark.parametrize(
    ("group", "needed"),
    [
        (RowGroup(0, 0, 0b11), 0b111),
        (RowGroup(0b001, 0, 0b10), 0b110),  # filter 0 dropped the first class
        (RowGroup(0b010, 0b010, 0b11), 0b101),
        (RowGroup(0b010, 0, 0b00), 0),
        (RowGroup(0b011, 0b011, 0b01), 0),  # the first class is settled
    ],
)
def test_a_filter_is_needed_while_an_open_class_waits_for_it(group, needed):
    assert TWO_CLASSES.needed_filters(group) == needed


@given(st.integers(0, 2**80))
def test_the_members_of_a_bitset_come_in_ascending_order(number):
    assert sum(1 << k for k in bits(number)) == number
    assert list(bits(number)) == sorted(bits(number))


def test_a_filter_outside_the_pool_is_a_mistake():
    with pytest.raises(AssertionError):
        FilterSet((frozenset({3}),), 3)


@pytest.mark.parametrize("policy", ORDERED)
def test_an_order_skips_what_no_open_class_needs(policy):
    routed = policy(TWO_CLASSES, start=(2, 0, 1), statistics=Statistics.of_costs([1, 1, 1]))
    assert routed.next(RowGroup(0, 0, 0b11)) == 2
    assert routed.next(RowGroup(0, 0, 0b01)) == 0  # only the first class is open
    assert routed.next(RowGroup(0b101, 0b101, 0b11)) == 1
    with pytest.raises(AssertionError, match="no open class needs"):
        routed.next(RowGroup(0b111, 0b111, 0b11))


@pytest.mark.parametrize("policy", ORDERED)
def test_a_start_that_is_no_order_is_a_mistake(policy):
    with pytest.raises(AssertionError, match="is not an order of 3 filters"):
        policy(TWO_CLASSES, start=(2, 0), statistics=Statistics.of_costs([1, 1, 1]))


@pytest.mark.parametrize("policy", ALL)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_policy_can_be_shown_as_json_and_checked_at_any_size(policy, n):
    rng = np.random.default_rng(1)
    statistics = Statistics.of_costs(np.arange(1, n + 1))
    routed = policy(FilterSet.conjunction(n), start=range(n), statistics=statistics)
    for n_rows in (0, 1, 700):
        dropped = rng.random((n_rows, n)) < 0.4
        routed.learn(Profile(dropped, np.ones_like(dropped)), statistics)
        routed.check()
        assert json.loads(json.dumps(routed.snapshot()))["policy"] == policy.name
    routed.forget()
    routed.check()


@pytest.mark.parametrize("policy", ALL)
def test_a_run_replays_exactly(policy):
    def run():
        rng = np.random.default_rng(5)
        statistics = Statistics.of_costs([3, 1, 2, 2])
        filters = FilterSet((frozenset({0, 1}), frozenset({1, 2, 3})), 4)
        routed = policy(filters, start=range(4), statistics=statistics)
        chosen = []
        for _ in range(20):
            dropped = rng.random((50, 4)) < [0.1, 0.5, 0.3, 0.7]
            routed.learn(Profile(dropped, np.ones_like(dropped)), statistics)
            chosen += [routed.next(RowGroup(0, 0, 0b11)), routed.next(RowGroup(0b0010, 0b0010, 0b10))]
        return chosen, routed.snapshot()

    assert run() == run()


def test_random_choice_offers_only_what_is_needed_and_each_alike():
    filters = FilterSet.conjunction(4)
    routed = RandomChoice(filters, start=range(4), statistics=Statistics.of_costs([1] * 4), seed=3)
    nothing = Profile(np.zeros((0, 4), bool), np.zeros((0, 4), bool))
    seen = []
    for _ in range(3000):
        seen.append(routed.next(RowGroup(0b0100, 0b0100, 1)))
        assert seen[-1] == routed.next(RowGroup(0b0100, 0b0100, 1)), "rows of a group go one way in a batch"
        routed.learn(nothing, Statistics.of_costs([1] * 4))
    counts = np.bincount(seen, minlength=4)
    assert counts[2] == 0
    assert (np.abs(counts[[0, 1, 3]] - 1000) < 100).all()  # four standard deviations
