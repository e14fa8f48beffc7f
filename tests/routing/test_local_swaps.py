"""LocalSwaps: neighbours are swapped, and rows of pairs that are gone begin anew."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.routing import FilterSet, LocalSwaps, OrderChange, Profile, Statistics
from tests.oracles.filter_ordering import walk

UNIT = Statistics.of_costs([1.0] * 4)


def profile(*rows: tuple[int, ...]) -> Profile:
    dropped = np.array(rows, bool)
    return Profile(dropped, np.ones_like(dropped))


def four(**settings) -> LocalSwaps:
    chosen = {"min_support": 0, "slack": 1.0} | settings
    return LocalSwaps(FilterSet.conjunction(4), start=(0, 1, 2, 3), statistics=UNIT, **chosen)


def counts(policy: LocalSwaps) -> tuple[list[int], list[int]]:
    told = policy.snapshot()
    return told["own"], told["neighbour"]


def test_a_record_counts_where_it_was_dropped_and_for_the_pair_before():
    policy = four(min_support=9)
    policy.learn(profile((1, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0)), UNIT)
    policy.check()
    assert counts(policy) == ([1, 0, 1, 1], [1, 1, 1])


def test_a_sampled_row_runs_the_next_filter():
    assert [four().filters_to_sample(at) for at in range(4)] == [(1,), (2,), (3,), ()]


def test_neighbours_are_swapped_one_pair_in_a_batch():
    policy = four()
    rows = profile((0, 1, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1))
    assert policy.learn(rows, UNIT) == [
        OrderChange(
            (0, 1, 2, 3),
            (1, 0, 2, 3),
            at=0,
            entering_filter=1,
            displaced_filter=0,
            entering_ratio=2 / 3,
            displaced_ratio=0.0,
        )
    ]


def test_after_a_swap_only_the_pairs_that_are_gone_begin_anew():
    policy = four()
    policy.learn(profile(*[(1, 0, 0, 0)] * 3, (0, 1, 0, 0), (0, 0, 0, 1), (0, 0, 0, 1)), UNIT)
    assert policy.order == (0, 1, 3, 2)
    policy.check()
    #  pairs at positions 1, 2 and 3 are new; the first pair keeps what it knows
    assert counts(policy) == ([3, 0, 0, 0], [1, 0, 0])


def test_a_pair_is_judged_once_enough_records_speak_of_it():
    policy = four(min_support=3)
    assert policy.learn(profile((0, 1, 0, 0), (0, 1, 0, 0)), UNIT) == []
    assert policy.learn(profile((0, 1, 0, 0)), UNIT) != []


@given(
    st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=60),
    st.integers(1, 9),
    st.integers(1, 5),
)
def test_the_counts_are_those_of_records_kept_one_by_one(rows, n_window, step):
    """The same by adding and subtracting records, each from the rows that have not begun anew since."""
    policy = four(window_rows=n_window, min_support=2)
    own, neighbour, began = [0] * 4, [0] * 4, [0] * 4
    kept: list[tuple[int, bool, int]] = []
    epoch = 0

    def count(record, sign):
        at, is_next, taken = record
        if taken >= began[at]:
            own[at] += sign
            if at < 3 and is_next:
                neighbour[at] += sign
        if at > 0 and taken >= began[at - 1]:
            neighbour[at - 1] += sign

    for first in range(0, len(rows), step):
        order, batch = policy.order, rows[first : first + step]
        for row in batch:
            at = walk(row, order)
            if at is not None:
                kept.append((at, at < 3 and row[order[min(at + 1, 3)]], epoch))
                count(kept[-1], +1)
                if len(kept) > n_window:
                    count(kept.pop(0), -1)
        changes = policy.learn(profile(*batch), UNIT)
        policy.check()
        if changes:
            epoch += 1
            for at in range(max(0, changes[0].at - 1), changes[0].at + 2):
                own[at] = neighbour[at] = 0
                began[at] = epoch
        assert counts(policy) == (own, neighbour[:3])
