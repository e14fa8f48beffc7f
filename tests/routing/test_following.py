"""When filters come and go, what was learned of the others stays."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.routing import (
    AGreedy,
    FilterSet,
    FixedOrder,
    Independent,
    LocalSwaps,
    Profile,
    RandomChoice,
    Statistics,
    Sweep,
    Tickets,
    following_policy,
)

ORDERED = [FixedOrder, AGreedy, Independent, Sweep, LocalSwaps]


def costs(n: int) -> Statistics:
    return Statistics.of_costs([1.0] * n)


@pytest.mark.parametrize("kind", ORDERED)
def test_filters_that_stay_keep_their_order_and_new_ones_stand_last(kind):
    before = kind(FilterSet.conjunction(4), start=(3, 1, 0, 2), statistics=costs(4), **settings(kind))
    #  old filter 1 is gone; 3 is now 0, 2 is now 1, 0 is now 3; 2 and 4 are new, 4 the cheaper one
    statistics = Statistics.of_costs([1, 1, 5, 1, 2])
    after = following_policy(before, FilterSet.conjunction(5), {0: 3, 1: 2, 3: 0}, statistics)
    after.check()
    assert type(after) is kind
    assert after.order == (0, 3, 1, 4, 2)
    assert after.settings() == before.settings()


def settings(kind) -> dict[str, float]:
    return {} if kind is FixedOrder else {"slack": 0.8}


@pytest.mark.parametrize("kind", [AGreedy, Independent])
def test_sampled_rows_stay_when_filters_only_go(kind):
    before = kind(FilterSet.conjunction(3), start=(0, 1, 2), statistics=costs(3), min_fill=2, min_support=0)
    dropped = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 1]], bool)
    before.learn(Profile(dropped, np.ones_like(dropped)), costs(3))
    after = following_policy(before, FilterSet.conjunction(2), {0: 2, 1: 1}, costs(2))
    after.check()
    #  the row only filter 0 dropped is gone with it
    assert len(after.window) == 4
    assert after.order == (1, 0)
    assert after.window.columns == [0b0101, 0b1011]


def test_sampled_rows_go_when_a_filter_comes_that_they_do_not_know():
    before = AGreedy(FilterSet.conjunction(2), start=(0, 1), statistics=costs(2), min_fill=1, min_support=0)
    dropped = np.array([[0, 1]], bool)
    before.learn(Profile(dropped, np.ones_like(dropped)), costs(2))
    after = following_policy(before, FilterSet.conjunction(3), {0: 0, 1: 1}, costs(3))
    after.check()
    assert (after.order, len(after.window)) == ((1, 0, 2), 0)


def test_tickets_are_kept_by_filters_that_stay():
    before = Tickets(
        FilterSet.conjunction(3), start=range(3), statistics=costs(3), accounting="tuple", seed=4
    )
    before.tickets = [5.0, 2.0, 9.0]
    after = following_policy(before, FilterSet.conjunction(3), {0: 2, 2: 0}, costs(3))
    after.check()
    assert (after.tickets, after.accounting, after.seed) == ([9.0, 1.0, 5.0], "tuple", 4)


def test_chance_follows_with_its_seed():
    before = RandomChoice(FilterSet.conjunction(3), start=range(3), statistics=costs(3), seed=4)
    after = following_policy(before, FilterSet.conjunction(2), {0: 2, 1: 0}, costs(2))
    assert (after.seed, after.filters.n_filters) == (4, 2)


def test_two_filters_cannot_both_have_been_one():
    before = FixedOrder(FilterSet.conjunction(2), start=(0, 1), statistics=costs(2))
    with pytest.raises(AssertionError, match="cannot both have been one"):
        following_policy(before, FilterSet.conjunction(2), {0: 1, 1: 1}, costs(2))
