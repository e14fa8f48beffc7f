"""Counting results by query id."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels.counts import add_by_id, count_ids, let_go, mark_within, warm_up
from tests.oracles.counts import counted, newest

ids_of_few = st.lists(st.integers(1, 5), max_size=40)


@given(ids_of_few, ids_of_few)
def test_ids_are_counted_on_top_of_what_was_there(earlier, ids):
    counts = np.zeros(6, np.int32)
    count_ids(np.array(earlier, np.int32), counts)
    count_ids(np.array(ids, np.int32), counts)
    expected = counted(ids, counted(earlier, {}))
    assert counts.tolist() == [expected.get(each, 0) for each in range(6)]


def test_numbers_are_added_by_id():
    counts = np.array([5, 5, 5, 5], np.int64)
    add_by_id(np.array([3, 0, 1, 0], np.int32), np.array([7, 0, 1, 2], np.int64), counts)
    assert counts.tolist() == [7, 6, 5, 12]


def test_ids_that_go_are_taken_off_what_is_held():
    held, gone = np.array([0, 2, 3], np.int32), np.array([0, 7, 0], np.int64)
    let_go(np.array([2, 1, 2], np.int32), held, gone)
    assert (held.tolist(), gone.tolist()) == ([0, 1, 1], [0, 8, 2])


@given(ids_of_few, ids_of_few, st.integers(0, 6))
def test_of_each_id_the_oldest_go_while_more_than_the_limit_are_held(newer, ids, limit):
    held = np.bincount(np.array([*ids, *newer], np.int64), minlength=6).astype(np.int32)
    before, gone = held.copy(), np.zeros(6, np.int64)
    is_kept = np.zeros(len(ids), dtype=bool)
    n_kept = mark_within(np.array(ids, np.int32), limit, held, gone, is_kept)
    assert is_kept.tolist() == newest(ids, limit, counted(newer, {}))
    assert n_kept == is_kept.sum()
    left = counted([one for one, stays in zip(ids, is_kept, strict=True) if stays], counted(newer, {}))
    assert held.tolist() == [left.get(each, 0) for each in range(6)]
    assert (held + gone).tolist() == before.tolist()


def test_kernels_can_be_warmed_up_twice():
    warm_up()
    warm_up()
