"""Comparisons of many intervals at once against one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels.interval_masks import (
    BOX_ROWS,
    QUAD,
    chosen,
    keys_within_4,
    ranks_within_16,
    ranks_within_64,
    rows_within,
)
from eddyline.kernels.lanes import kernel
from tests.conftest import SEED
from tests.oracles import sparse_structures as plain
from tests.strategies import examples

Int64s = npt.NDArray[np.int64]
Int16s = npt.NDArray[np.int16]

LOWEST, HIGHEST = -(2**63), 2**63 - 1
KEYS = st.lists(
    st.one_of(st.integers(-3, 3), st.sampled_from([LOWEST, LOWEST + 1, HIGHEST - 1, HIGHEST])), min_size=1
)


@kernel
def in_sixteen(bounds: Int16s, at: int, ranks: Int16s, first: int, n_sides: int) -> Any:
    return ranks_within_16(bounds, at, ranks, first, n_sides)


@kernel
def in_sixty_four(bounds: Int16s, at: int, ranks: Int16s, first: int, n_sides: int) -> Any:
    return ranks_within_64(bounds, at, ranks, first, n_sides)


@kernel
def in_four(bounds: Int64s, at: int, keys: Int64s, first: int, n_sides: int) -> Any:
    return keys_within_4(bounds, at, keys, first, n_sides)


@kernel
def in_box(values: Int64s, at: int, stride: int, boxes: Int64s, box: int, n_sides: int) -> Any:
    return rows_within(values, at, stride, boxes, box, n_sides)


@kernel
def lesser(left: int, right: int) -> Any:
    return chosen(left < right, np.uint64(left), np.uint64(right))


def test_one_of_two_is_chosen() -> None:
    assert lesser(3, 5) == 3
    assert lesser(7, 5) == 5


def test_four_intervals_are_compared_at_both_ends() -> None:
    bounds = np.array([[LOWEST, 5, 6, 7], [HIGHEST, 6, 6, 6]])  # the last holds nothing

    def holding(value: int) -> list[int]:
        return plain.bits(int(in_four(bounds.reshape(-1), 0, np.array([value]), 0, 1)))

    assert [holding(value) for value in (4, 5, 6, 7)] == [[0], [0, 1], [0, 1, 2], [0]]


def test_boxes_without_sides_hold_everything() -> None:
    assert in_four(np.empty(0, np.int64), 0, np.empty(0, np.int64), 0, 0) == 0b1111


@given(st.sampled_from([4, 16, 64]), st.integers(1, 8), KEYS, st.integers(0, 2**32))
def test_boxes_agree_with_one_at_a_time(width: int, n_sides: int, pool: list[int], seed: int) -> None:
    rng = np.random.default_rng([SEED, seed])
    is_wide = width == QUAD
    dtype = np.int64 if is_wide else np.int16
    known = np.array(pool if is_wide else np.clip(np.array(pool), -(2**15), 2**15 - 1), dtype)
    bounds = rng.choice(known, (3, n_sides, 2, width))  # the boxes that count lie between others
    values = rng.choice(known, 2 + n_sides)
    inside = {4: in_four, 16: in_sixteen, 64: in_sixty_four}[width]
    word = inside(bounds.reshape(-1), bounds[0].size, values, 2, n_sides)
    boxes = [
        [(int(bounds[1, k, 0, i]), int(bounds[1, k, 1, i])) for k in range(n_sides)] for i in range(width)
    ]
    assert int(word) == plain.boxes_holding(boxes, values[2:].tolist())


@examples(0.5)
@given(st.integers(1, 8), KEYS, st.integers(0, 2**32))
def test_rows_agree_with_one_at_a_time(n_sides: int, pool: list[int], seed: int) -> None:
    rng = np.random.default_rng([SEED, seed])
    values = rng.choice(np.array(pool, np.int64), (n_sides, BOX_ROWS + 10))
    box = rng.choice(np.array(pool, np.int64), (n_sides, 2))
    word = in_box(values.reshape(-1), 5, values.shape[1], np.append(7, box), 1, n_sides)
    sides = [(int(low), int(high)) for low, high in box]
    rows = values[:, 5 : 5 + BOX_ROWS].T.tolist()
    assert plain.bits(int(word)) == [i for i, row in enumerate(rows) if plain.boxes_holding([sides], row)]
