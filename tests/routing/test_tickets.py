"""Tickets: who takes rows and does not give them back is drawn more often."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.routing import FilterSet, Profile, RowGroup, Statistics, Tickets

NESTED = FilterSet(tuple(frozenset(range(k + 1)) for k in range(5)), 5)
UNIT = Statistics.of_costs([1.0] * 5)


def rows_passing(rates, n_rows, seed) -> np.ndarray:
    return np.random.default_rng(seed).random((n_rows, len(rates))) >= np.array(rates)


def mean_filters(accounting: str) -> float:
    """Queries a > 90; a > 90, b > 70; …: filters run on a row, over 20,000 rows."""
    policy = Tickets(NESTED, start=range(5), statistics=UNIT, accounting=accounting, decay=1.0, seed=1)
    dropped = rows_passing([0.1, 0.3, 0.5, 0.7, 0.9], 20_000, seed=2)
    n_run = sum(policy.walk(row, NESTED.start.open_classes) for row in dropped.tolist())
    policy.check()
    return n_run / len(dropped)


@pytest.mark.parametrize(("accounting", "least", "most"), [("predicate", 1.27, 1.33), ("tuple", 1.21, 1.28)])
def test_five_nested_queries_take_the_filters_the_paper_reports(accounting, least, most):
    assert least <= mean_filters(accounting) <= most  # the paper: 1.3; the best order 1.16, chance 2.6


def test_predicates_gain_by_open_queries_and_tuples_by_all():
    filters = FilterSet((frozenset({0}), frozenset({0, 1})), 2, weights=(10.0, 1.0))
    gained = {}
    for accounting in ("predicate", "tuple"):
        statistics = Statistics.of_costs([1.0, 1.0])
        policy = Tickets(filters, start=(0, 1), statistics=statistics, accounting=accounting)
        assert (
            policy.walk([True, True], 0b01) == 1
        )  # only the first class is open: ten queries that need filter 0
        gained[accounting] = policy.tickets
    assert gained == {"predicate": [11.0, 1.0], "tuple": [12.0, 1.0]}


def test_a_row_whose_queries_are_all_decided_is_not_given_back():
    filters = FilterSet((frozenset({0}), frozenset({0, 1})), 2)
    statistics = Statistics.of_costs([1e-9, 1.0])  # filter 0 is drawn first
    policy = Tickets(filters, start=(0, 1), statistics=statistics, accounting="tuple")
    assert policy.walk([False, True], 0b11) == 2  # one query delivered, the other rejected by filter 1
    assert policy.tickets == [1.0, 2.0]


def test_a_filter_that_gives_rows_back_gains_nothing():
    policy = Tickets(FilterSet.conjunction(2), start=(0, 1), statistics=Statistics.of_costs([1.0, 1.0]))
    for _ in range(50):
        policy.walk([False, True], 1)
    policy.check()
    assert policy.tickets[0] == 1.0
    assert policy.tickets[1] == 51.0


def test_tickets_decay_to_the_floor_by_sampled_rows_however_they_were_cut():
    statistics = Statistics.of_costs([1.0, 1.0])
    passing = np.zeros((500, 2), bool)
    left = []
    for cuts in (1, 4):
        policy = Tickets(FilterSet.conjunction(2), start=(0, 1), statistics=statistics)
        policy.tickets = [64.0, 1.0]
        for part in np.array_split(np.concatenate([passing, passing]), cuts):
            policy.learn(Profile(part, np.ones_like(part)), statistics)
            policy.check()
        left.append(policy.tickets)
    assert left == [pytest.approx([32.0, 1.0])] * 2


def test_a_dear_filter_is_drawn_less():
    statistics = Statistics.of_costs([9.0, 1.0])
    policy = Tickets(FilterSet.conjunction(2), start=(0, 1), statistics=statistics)
    nothing = Profile(np.zeros((0, 2), bool), np.zeros((0, 2), bool))
    drawn = []
    for _ in range(2000):
        drawn.append(policy.next(RowGroup(0, 0, 1)))
        policy.learn(nothing, statistics)
    assert 140 < drawn.count(0) < 260  # one in ten
