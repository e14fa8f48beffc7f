"""A-Greedy on literal windows: what it changes, why, and what keeps it from changing."""

from __future__ import annotations

import numpy as np

from eddyline.routing import AGreedy, FilterSet, Independent, OrderChange, Profile, Statistics
from eddyline.routing.dropped_rows import DroppedRows

UNIT = Statistics.of_costs([1.0, 1.0, 1.0])


def profile(*rows: tuple[int, ...]) -> Profile:
    dropped = np.array(rows, bool)
    return Profile(dropped, np.ones_like(dropped))


def three(**settings) -> AGreedy:
    return AGreedy(FilterSet.conjunction(3), start=(0, 1, 2), statistics=UNIT, **settings)


def test_correlated_filters_are_ordered_by_what_is_left_to_drop():
    #                 A  B  C      A and B drop the same rows; C drops the one that is left
    rows = profile((1, 1, 0),
                   (1, 1, 0),
                   (0, 0, 1))  # fmt: skip
    policy = three(min_fill=1, min_support=0)
    assert policy.learn(rows, UNIT) == [
        OrderChange(
            (0, 1, 2),
            (0, 2, 1),
            at=1,
            entering_filter=2,
            displaced_filter=1,
            entering_ratio=1.0,
            displaced_ratio=0.0,
        )
    ]
    assert (
        Independent(
            FilterSet.conjunction(3), start=(0, 1, 2), statistics=UNIT, min_fill=1, min_support=0
        ).learn(rows, UNIT)
        == []
    )


def test_the_ratios_of_a_change_are_drops_per_second_of_the_rows_that_get_there():
    statistics = Statistics.of_costs([4.0, 1.0, 1.0])
    policy = AGreedy(
        FilterSet.conjunction(3), start=(0, 1, 2), statistics=statistics, min_fill=1, min_support=0
    )
    changes = policy.learn(profile((1, 0, 0), (1, 0, 0), (0, 1, 0), (1, 0, 1)), statistics)
    assert policy.order == (1, 2, 0)  # a fourth of the rows at cost 1 each, against three fourths at cost 4
    assert changes[0] == OrderChange(
        (0, 1, 2),
        (1, 2, 0),
        at=0,
        entering_filter=1,
        displaced_filter=0,
        entering_ratio=0.25,
        displaced_ratio=0.1875,
    )


def test_nothing_is_judged_on_too_few_rows():
    policy = three(min_fill=3, min_support=0)
    assert policy.learn(profile((0, 0, 1), (0, 0, 1)), UNIT) == []
    assert policy.learn(profile((0, 0, 1)), UNIT)
    assert policy.order[0] == 2


def test_a_violation_that_few_rows_show_is_left_alone():
    rows = profile(*[(1, 0, 0)] * 20, *[(0, 0, 1)] * 5)
    policy = three(min_fill=1, min_support=6)
    assert policy.learn(rows, UNIT) == []
    policy = three(min_fill=1, min_support=5)
    assert [change.at for change in policy.learn(rows, UNIT)] == [1]


def test_a_filter_a_little_worse_than_a_later_one_stays():
    rows = profile(*[(1, 0, 0)] * 91, *[(0, 1, 0)] * 100)
    assert three(min_support=0).learn(rows, UNIT) == []
    assert three(min_support=0, slack=1.0).learn(rows, UNIT)


def test_on_a_tie_the_filter_that_stands_earlier_stays():
    assert (
        three(min_fill=1, min_support=0, slack=1.0).learn(profile((1, 0, 0), (0, 1, 0), (0, 0, 1)), UNIT)
        == []
    )


def test_rows_that_nothing_dropped_are_not_kept_and_the_oldest_leave():
    policy = three(window_rows=2)
    policy.learn(profile((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 0), (0, 0, 1)), UNIT)
    policy.check()
    assert policy.window.columns == [0b00, 0b10, 0b01]


def test_a_bit_that_is_not_known_counts_as_no_drop():
    dropped = np.array([[False, True, False]])
    policy = three(min_fill=1, min_support=0)
    policy.learn(Profile(dropped, np.array([[True, True, False]])), UNIT)
    assert policy.snapshot()["view"] == [[1, 0, 0], [0, 0], [0]]
    assert policy.order == (1, 0, 2)


def test_a_cost_that_moves_changes_the_order_without_new_rows():
    policy = three(min_fill=1, min_support=0)
    policy.learn(profile(*[(1, 0, 0)] * 6, *[(0, 1, 0)] * 4), UNIT)
    assert policy.order == (0, 1, 2)
    dearer = Statistics.of_costs([2.0, 1.0, 1.0])
    nothing = Profile(np.zeros((0, 3), bool), np.zeros((0, 3), bool))
    assert [
        (change.entering_filter, change.displaced_filter) for change in policy.learn(nothing, dearer)
    ] == [(1, 0)]


def test_forgetting_keeps_the_order_and_loses_the_rows():
    policy = three(min_fill=1, min_support=0)
    policy.learn(profile((0, 0, 1)), UNIT)
    policy.forget()
    policy.check()
    assert (policy.order, len(policy.window)) == ((2, 1, 0), 0)


def test_the_snapshot_tells_the_share_dropped_at_each_position():
    policy = three(min_fill=1, min_support=0)
    policy.learn(profile((1, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)), UNIT)
    assert policy.snapshot() == {
        "policy": "a_greedy",
        "order": [0, 1, 2],
        "rows": 4,
        "view": [[2, 2, 1], [1, 1], [1]],
        "drop_rate": [0.5, 0.5, 1.0],
        "drops_per_s": [0.5, 0.5, 1.0],
    }


def test_a_batch_larger_than_the_window_leaves_its_last_rows():
    window = DroppedRows(2, 3)
    assert window.append(np.array([[1, 0], [1, 0], [0, 1], [0, 0], [1, 1], [0, 1]], bool)) == 5
    assert (len(window), window.columns) == (3, [0b010, 0b111])
