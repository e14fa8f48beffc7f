"""Memory of large arrays is used again, and never while somebody holds it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.filters import large_arrays
from eddyline.filters.large_arrays import KEPT_BYTES, SMALL_BYTES, large_array

LARGE = SMALL_BYTES  # int32 items: four times what is small


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(large_arrays, "_blocks", [])


def address(array) -> int:
    return array.__array_interface__["data"][0]


def test_an_array_nobody_holds_gives_its_memory_to_the_next():
    first = large_array(LARGE, np.int32)
    where = address(first)
    del first
    assert address(large_array(LARGE + 100, np.int32)) == where


@pytest.mark.parametrize(
    "kept",
    [
        lambda array: array,
        lambda array: array[5:7],
        lambda array: array.reshape(2, -1).view(np.uint64)[1],
        lambda array: memoryview(array),
        lambda array: pa.array(array),
        lambda array: pa.py_buffer(array),
    ],
)
def test_memory_is_not_given_away_while_any_view_of_it_is_held(kept):
    first = large_array(LARGE, np.int32)
    where = address(first)
    held = kept(first)
    del first
    second = large_array(LARGE, np.int32)
    assert address(second) != where
    del held, second


def test_items_have_the_type_and_number_asked_for_and_can_be_written():
    for n, dtype in ((3, np.int32), (LARGE, np.int32), (LARGE // 2 + 1, np.uint64)):
        array = large_array(n, dtype)
        array[:] = 7
        assert (len(array), array.dtype, array.flags.c_contiguous) == (n, np.dtype(dtype), True)
        assert int(array.sum()) == 7 * n


def test_no_more_is_kept_than_the_limit():
    arrays = [large_array(KEPT_BYTES // 3, np.uint8) for _ in range(6)]
    arrays.append(large_array(2 * KEPT_BYTES, np.uint8))
    assert sum(map(len, large_arrays._blocks)) <= KEPT_BYTES
    del arrays


def test_small_memory_is_left_to_the_system():
    large_array(SMALL_BYTES // 4 - 1, np.int32)
    assert large_arrays._blocks == []
