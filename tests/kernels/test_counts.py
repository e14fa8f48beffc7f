"""Counting results by query id."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels.counts import add_by_id, count_ids, mark_within, warm_up
from eddyline.kernels.layouts import HALF, ONE_HELD, ONE_NEW
from tests.oracles.counts import counted, newest

ids_of_few = st.lists(st.integers(1, 5), max_size=40)


@given(ids_of_few, ids_of_few)
def test_ids_are_counted_as_held_and_as_ever_there(earlier, ids):
    counts = np.zeros(6, np.int64)
    count_ids(np.array(earlier, np.int32), counts, ONE_NEW)
    count_ids(np.array(ids, np.int32), counts, ONE_NEW)
    expected = counted(ids, counted(earlier, {}))
    for half in (counts & HALF, counts >> 32):
        assert half.tolist() == [expected.get(each, 0) for each in range(6)]


def test_numbers_are_added_by_id():
    counts = np.array([5, 5, 5, 5], np.int64)
    add_by_id(np.array([3, 0, 1, 0], np.int32), np.array([7, 0, 1, 2], np.int64), counts)
    assert counts.tolist() == [7, 6, 5, 12]


def test_ids_that_go_are_taken_off_what_is_held_and_were_there_all_the_same():
    counts = np.zeros(3, np.int64)
    count_ids(np.array([1, 1, 2, 2, 2], np.int32), counts, ONE_NEW)
    count_ids(np.array([2, 1, 2], np.int32), counts, -ONE_HELD)
    assert (counts & HALF).tolist() == [0, 1, 1]
    assert (counts >> 32).tolist() == [0, 2, 3]


@given(ids_of_few, ids_of_few, st.integers(0, 6))
def test_of_each_id_the_oldest_go_while_more_than_the_limit_are_held(newer, ids, limit):
    counts = np.zeros(6, np.int64)
    count_ids(np.array([*ids, *newer], np.int32), counts, ONE_NEW)
    ever = (counts >> 32).tolist()
    is_kept = np.zeros(len(ids), dtype=bool)
    n_kept = mark_within(np.array(ids, np.int32), limit, counts, is_kept)
    assert is_kept.tolist() == newest(ids, limit, counted(newer, {}))
    assert n_kept == is_kept.sum()
    left = counted([one for one, stays in zip(ids, is_kept, strict=True) if stays], counted(newer, {}))
    assert (counts & HALF).tolist() == [left.get(each, 0) for each in range(6)]
    assert (counts >> 32).tolist() == ever


def test_kernels_can_be_warmed_up_twice():
    warm_up()
    warm_up()
