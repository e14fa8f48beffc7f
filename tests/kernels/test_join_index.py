"""Pairs of code and row are placed in buckets."""

from __future__ import annotations

import numpy as np

from eddyline.kernels.join_index import add_up, count_buckets, pair_up, place_pairs, warm_up


def test_pairs_are_placed_by_bucket_and_those_that_are_gone_are_left_out():
    pairs = np.empty(10, np.int64)
    n = pair_up(np.array([5, 6, 5, 9, 5]), np.array([False, False, False, True, False]), 100, pairs)
    assert pairs[: 2 * n].tolist() == [5, 100, 6, 101, 5, 102, 5, 104]
    offsets, is_held = np.zeros(2 + 2, np.int32), np.array([True, True, False, True, True])
    assert count_buckets(pairs, n, 63, 101, is_held, 100, offsets) == 2
    add_up(offsets)
    placed = np.zeros(4, np.int64)
    place_pairs(pairs, n, 63, 101, is_held, 100, offsets, placed)
    assert sorted(placed.reshape(-1, 2).tolist()) == [[5, 104], [6, 101]]
    assert offsets[2] == 2


def test_kernels_can_be_warmed_up_twice():
    warm_up()
    warm_up()
