"""Sweep's stages: what a record adds, when it moves a filter, which position comes next."""

from __future__ import annotations

import numpy as np

from eddyline.routing import FilterSet, OrderChange, Profile, Statistics, Sweep

UNIT = Statistics.of_costs([1.0, 1.0, 1.0])


def profile(*rows: tuple[int, ...]) -> Profile:
    dropped = np.array(rows, bool)
    return Profile(dropped, np.ones_like(dropped))


def three(**settings) -> Sweep:
    chosen = {"stage_rows": 6, "min_fill": 4, "min_support": 0, "slack": 1.0} | settings
    return Sweep(FilterSet.conjunction(3), start=(0, 1, 2), statistics=UNIT, **chosen)


def test_records_are_counted_for_the_examined_filter_and_those_before_it():
    policy = three()
    policy.learn(profile((1, 1, 0), (1, 0, 0), (0, 0, 1), (0, 0, 0)), UNIT)
    policy.check()
    assert (policy.examined_position, policy.n_records, policy.own, policy.rival) == (1, 3, [2, 0], [1, 0])


def test_a_sampled_row_runs_the_examined_filter_if_it_did_not():
    policy = three()
    assert [policy.filters_to_sample(at) for at in range(3)] == [(1,), (), ()]
    policy.forget()
    policy.learn(profile(*[(1, 0, 0)] * 6), UNIT)  # the stage ends; the next looks at the last position
    assert [policy.filters_to_sample(at) for at in range(3)] == [(2,), (2,), ()]


def test_a_better_filter_is_moved_and_the_next_position_examined():
    policy = three()
    policy.learn(profile(*[(1, 0, 0)] * 6), UNIT)
    changes = policy.learn(profile((1, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1)), UNIT)
    policy.check()
    #  two of four rows are dropped by the first filter and three by the examined one
    assert changes == [
        OrderChange(
            (0, 1, 2),
            (2, 0, 1),
            at=0,
            entering_filter=2,
            displaced_filter=0,
            entering_ratio=0.75,
            displaced_ratio=0.5,
        )
    ]
    assert (policy.examined_position, policy.n_records) == (1, 0)


def test_nothing_is_judged_before_the_stage_has_its_least_records():
    policy = three()
    assert policy.learn(profile((0, 1, 0), (0, 1, 0), (0, 1, 0)), UNIT) == []
    assert policy.learn(profile((0, 1, 0)), UNIT) != []


def test_a_clean_stage_ends_after_its_records_and_the_rest_of_the_batch_is_left_out():
    policy = three()
    assert policy.learn(profile(*[(1, 0, 0)] * 9), UNIT) == []
    assert (policy.examined_position, policy.n_records) == (2, 0)
    assert policy.learn(profile(*[(1, 0, 0)] * 9), UNIT) == []
    assert (policy.examined_position, policy.n_records) == (1, 0)


def test_a_single_filter_is_never_profiled():
    policy = Sweep(FilterSet.conjunction(1), start=(0,), statistics=Statistics.of_costs([1.0]))
    assert policy.filters_to_sample(0) == ()
    assert policy.learn(profile((1,), (1,)), Statistics.of_costs([1.0])) == []
