"""Lists of the slices of keys, judged by sorted Python lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels.layouts import NOTHING
from eddyline.kernels.slice_lists import link_slices, slices_within, unlink_slices, warm_up

SLICE = st.tuples(st.integers(0, 2), st.integers(-9, 9), st.integers(0, 2))  # key, start, epoch


@given(st.lists(SLICE, max_size=25, unique=True), st.data())
def test_the_slices_of_a_window_are_found_from_any_of_them(slices, data):
    key, start, epoch = np.array(slices, np.int64).reshape(-1, 3).T.copy()
    older, newer = np.empty(len(slices), np.int64), np.empty(len(slices), np.int64)
    newest = np.full(3, NOTHING, np.int64)
    link_slices(np.arange(len(slices)), key, start, epoch, newest, older, newer)
    gone = [at for at in range(len(slices)) if data.draw(st.booleans())]
    unlink_slices(np.array(gone, np.int64), key, newest, older, newer)
    there = [at for at in range(len(slices)) if at not in gone]
    for k in range(3):
        of_key = sorted((at for at in there if key[at] == k), key=lambda at: slices[at])
        assert newest[k] == (of_key[-1] if of_key else NOTHING)
    low = np.array([start[at] - data.draw(st.integers(0, 5)) for at in there], np.int64)
    high = np.array([start[at] + data.draw(st.integers(1, 5)) for at in there], np.int64)
    oldest = data.draw(st.integers(0, 2))
    expected = [
        (k, at)
        for k, anchor in enumerate(there)
        for at in sorted(there, key=lambda at: slices[at])
        if key[at] == key[anchor] and low[k] <= start[at] < high[k] and epoch[at] >= oldest
    ]
    lists = start, epoch, older, newer
    windows, found = np.empty(1, np.int64), np.empty(1, np.int64)
    assert slices_within(np.array(there, np.int64), low, high, oldest, *lists, windows, found) == len(
        expected
    )
    windows, found = np.empty(len(expected), np.int64), np.empty(len(expected), np.int64)
    slices_within(np.array(there, np.int64), low, high, oldest, *lists, windows, found)
    assert list(zip(windows.tolist(), found.tolist(), strict=True)) == expected


def test_kernels_of_slices_can_be_warmed_up_twice():
    warm_up()
    warm_up()
