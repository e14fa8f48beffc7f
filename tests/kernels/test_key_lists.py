"""Kernels of key lists against their plain twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from eddyline.filters.key_lists import KeyLists
from eddyline.filters.keys import KeyColumn
from eddyline.kernels import key_lists as kernels
from eddyline.kernels.layouts import read_only
from tests.conftest import SEED
from tests.oracles import sparse_structures as plain

LOWEST, HIGHEST = -(2**63), 2**63 - 1
KEYS = st.one_of(st.integers(-5, 5), st.integers(LOWEST, HIGHEST), st.sampled_from([LOWEST, HIGHEST]))
NO_NULLS = read_only(np.empty(0, np.bool_))


def fixed(*keys: int) -> npt.NDArray[np.int64]:
    return read_only(np.array(keys, np.int64))


@given(st.lists(KEYS, unique=True, max_size=16), st.lists(KEYS))
def test_a_hash_table_finds_the_lists_of_its_keys_and_no_others(keys: list[int], asked: list[int]) -> None:
    asked = asked + keys
    lists = {key: (3 * at, 3 * at + 2) for at, key in enumerate(keys)}
    table = np.zeros(2 * 32, np.int64)
    starts = np.array([start for start, _ in lists.values()], np.int64)
    ends = np.array([end for _, end in lists.values()], np.int64)
    kernels.fill_table(np.array(keys, np.int64), starts, ends, 64 - 5, table)
    assert np.count_nonzero(table[1::2]) == len(keys)
    found = np.empty((2, len(asked)), np.int32)
    n = kernels.find_lists(fixed(*asked), NO_NULLS, 64 - 5, read_only(table), found[0], found[1])
    expected = [lists.get(key, (0, 0)) for key in asked]
    assert found.T.tolist() == [list(pair) for pair in expected]
    assert n == sum(end - start for start, end in expected)


def test_a_full_run_of_slots_is_searched_around_the_end_of_the_table() -> None:
    last = [key for key in range(1000) if kernels.slot_of(key, 62) == 3][:3]
    table = np.zeros(8, np.int64)
    one = np.arange(3)
    kernels.fill_table(np.array(last[:2]), one[:2], one[:2] + 1, 62, table)
    assert table[1::2].tolist() == [2 << 32 | 1, 0, 0, 1 << 32]
    found = np.empty((2, 3), np.int32)
    assert kernels.find_lists(fixed(*last), NO_NULLS, 62, read_only(table), found[0], found[1]) == 2
    assert found.tolist() == [[0, 1, 0], [1, 2, 0]]


def test_a_table_by_key_knows_keys_before_between_and_behind_its_own() -> None:
    list_starts = read_only(np.array([0, 2, 2, 5, 5], np.int32))  # of keys 10, 11 and 12, and of no key
    keys = fixed(10, 11, 12, 9, 13, LOWEST, HIGHEST, 12)
    is_null = read_only(np.array([False] * 7 + [True]))
    found = np.empty((2, 8), np.int32)
    assert kernels.find_dense_lists(keys, is_null, 10, list_starts, found[0], found[1]) == 5
    assert (found[1] - found[0]).tolist() == [2, 0, 3, 0, 0, 0, 0, 0]
    assert found[:, [0, 2]].T.tolist() == [[0, 2], [2, 5]]


def test_rows_with_null_find_no_list() -> None:
    table = np.zeros(8, np.int64)
    kernels.fill_table(np.array([7]), np.array([0]), np.array([4]), 62, table)
    found = np.empty((2, 2), np.int32)
    is_null = read_only(np.array([False, True]))
    assert kernels.find_lists(fixed(7, 7), is_null, 62, read_only(table), found[0], found[1]) == 4
    assert found.T.tolist() == [[0, 4], [0, 0]]


@given(st.lists(st.integers(1, 4), max_size=5), st.integers(0, 2**32))
def test_reach_is_the_greatest_high_so_far_in_a_list(lengths: list[int], seed: int) -> None:
    ends = np.cumsum(lengths, dtype=np.int64)
    starts = ends - np.array(lengths, np.int64)
    n = sum(lengths)
    highs = np.random.default_rng([SEED, seed]).choice(np.array([LOWEST, -1, 0, 1, HIGHEST]), n)
    spans = np.zeros(2 * n, np.int64)
    kernels.fill_reach(starts, ends, highs, spans)
    assert spans[1::2].tolist() == plain.reach(map(range, starts, ends), highs.tolist())
    assert not spans[::2].any()


def _two_lists() -> dict[str, npt.NDArray[Any]]:
    """Entries 0 to 2 for 0..9, 5..9 and 5..14, entries 3 and 4 for 0..9; entry 1 is dead."""
    bounds = np.zeros((2, 1, 2, 4), np.int64)
    bounds[0, 0] = [[0, 5, 5, 0], [9, 9, 14, 9]]
    bounds[1, 0, :, 0] = [0, 9]
    arrays = {
        "bounds": bounds,
        "spans": np.empty(0, np.int64),
        "live": np.array([0b11101], np.uint64),
        "ids": np.array([11, 12, 13, 14, 15], np.int32),
    }
    return {name: read_only(array) for name, array in arrays.items()}


def test_rows_get_the_live_entries_of_their_own_list_that_hold_them() -> None:
    starts, ends = np.array([0, 3, 0, 0], np.int32), np.array([3, 5, 3, 0], np.int32)
    values = np.array([7, 9, 12, 7])
    begins, out = np.empty(5, np.int64), np.empty(8, np.int32)
    as_they_come = np.empty(0, np.int64)
    done = kernels.match_lists(
        values, 1, as_they_come, starts, ends, **_two_lists(), done=0, n=0, begins=begins, out=out
    )
    assert done == (4, 5)
    assert begins[:4].tolist() == [0, 2, 4, 5]
    assert out[:5].tolist() == [11, 13, 14, 15, 13]


def test_rows_are_taken_in_the_order_asked_for() -> None:
    starts, ends = np.array([0, 3, 0], np.int32), np.array([3, 5, 3], np.int32)
    begins, out = np.empty(4, np.int64), np.empty(8, np.int32)
    done = kernels.match_lists(
        np.array([7, 9, 12]),
        1,
        np.array([2, 0, 1]),
        starts,
        ends,
        **_two_lists(),
        done=0,
        n=0,
        begins=begins,
        out=out,
    )
    assert done == (3, 5)
    assert begins[:3].tolist() == [1, 3, 0]
    assert out[:5].tolist() == [13, 11, 13, 14, 15]


def test_without_room_for_a_whole_list_work_stops_and_goes_on_there() -> None:
    starts, ends = np.array([0, 3, 0], np.int32), np.array([3, 5, 3], np.int32)
    values, order = np.array([7, 9, 12]), np.empty(0, np.int64)
    begins, out = np.empty(4, np.int64), np.empty(4, np.int32)
    lists = _two_lists()
    stopped = kernels.match_lists(
        values, 1, order, starts, ends, **lists, done=0, n=0, begins=begins, out=out
    )
    assert stopped == (2, 4)
    more = np.append(out, [0, 0, 0]).astype(np.int32)
    done = kernels.match_lists(values, 1, order, starts, ends, **lists, done=2, n=4, begins=begins, out=more)
    assert done == (3, 5)
    assert more[:5].tolist() == [11, 13, 14, 15, 13]


def test_rows_are_gathered_from_where_they_begin() -> None:
    out = np.empty(5, np.int32)
    begins, offsets = np.array([3, 0, 0, 1]), np.array([0, 2, 2, 3, 5])
    kernels.gather_rows(begins, offsets, np.array([7, 8, 9, 5, 6], np.int32), out)
    assert out.tolist() == [5, 6, 7, 8, 9]


def test_structures_need_nothing_that_warming_up_did_not_compile() -> None:
    kernels.warm_up()
    compiled: list[Any] = [
        kernels.fill_table,
        kernels.fill_reach,
        kernels.find_lists,
        kernels.find_dense_lists,
        kernels.match_lists,
        kernels.gather_rows,
    ]
    known = [len(kernel.signatures) for kernel in compiled]
    rng = np.random.default_rng(SEED)
    lows = rng.integers(0, 50, (1, 900))
    keys = rng.integers(0, 3, 900)
    rows = rng.integers(0, 3, 100)
    for spread in (1, 10**12):
        lists = KeyLists.build(np.arange(1, 901, dtype=np.int32), 0, keys * spread, (1,), lows, lows + 20)
        for others in (KeyColumn(rows, None), KeyColumn(read_only(rows), read_only(rows == 5))):
            columns = [KeyColumn(rows * spread, None), others]
            assert len(lists.probe(columns, 100))
            assert len(KeyLists.from_arrays(lists.arrays()).probe(columns, 100))
    assert [len(kernel.signatures) for kernel in compiled] == known
