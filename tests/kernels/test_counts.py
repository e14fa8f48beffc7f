"""Counting results by query id."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels.counts import add_by_id, count_ids, mark_newest, warm_up
from tests.oracles.counts import counted, newest

ids_of_few = st.lists(st.integers(1, 5), max_size=40)


@given(ids_of_few, ids_of_few)
def test_ids_are_counted_on_top_of_what_was_there(earlier, ids):
    counts = np.zeros(6, np.int64)
    count_ids(np.array(earlier, np.int32), counts)
    count_ids(np.array(ids, np.int32), counts)
    expected = counted(ids, counted(earlier, {}))
    assert counts.tolist() == [expected.get(each, 0) for each in range(6)]


def test_numbers_are_added_by_id():
    counts = np.array([5, 5, 5, 5], np.int64)
    add_by_id(np.array([3, 0, 1, 0], np.int32), np.array([7, 0, 1, 2], np.int64), counts)
    assert counts.tolist() == [7, 6, 5, 12]


@given(ids_of_few, ids_of_few, st.integers(0, 6))
def test_the_newest_of_each_id_are_marked_and_all_are_counted(later, ids, limit):
    seen = np.bincount(np.array(later, np.int64), minlength=6)
    is_kept = np.zeros(len(ids), dtype=bool)
    n_kept = mark_newest(np.array(ids, np.int32), limit, seen, is_kept)
    assert is_kept.tolist() == newest(ids, limit, counted(later, {}))
    assert n_kept == is_kept.sum()
    together = counted(ids, counted(later, {}))
    assert seen.tolist() == [together.get(each, 0) for each in range(6)]


def test_kernels_can_be_warmed_up_twice():
    warm_up()
    warm_up()
