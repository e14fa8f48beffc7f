"""Kernels that number keys made of words, judged by a dict of tuples."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels.key_words import (
    add_keys,
    copy_runs,
    find_keys,
    hash_keys,
    place_keys,
    remove_keys,
    warm_up,
)
from eddyline.kernels.layouts import NOTHING

N = 64  # numbers there may be
KEY = st.lists(st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]), max_size=3).map(tuple)


def flat(keys):
    words = np.array([word for key in keys for word in key], np.int64)
    return words, np.append(0, np.cumsum([len(key) for key in keys])).astype(np.int64)


class Table:
    """The arrays that the kernels share, few slots and so many that collide."""

    def __init__(self):
        self.arrays = (
            np.full(2 * N, NOTHING, np.int32),
            57,
            np.zeros(10_000, np.int64),
            np.zeros(N, np.int64),
            np.zeros(N, np.int32),
        )
        self.n_store = 0

    def find(self, keys):
        numbers = np.empty(len(keys), np.int64)
        find_keys(*flat(keys), *self.arrays, numbers)
        return numbers.tolist()

    def add(self, keys, fresh):
        slots, shift, store, begins, lengths = self.arrays
        numbers = np.array(self.find(keys), np.int64)
        rows = np.flatnonzero(numbers == NOTHING)
        n, self.n_store = add_keys(
            *flat(keys),
            rows,
            slots,
            shift,
            store,
            self.n_store,
            begins,
            lengths,
            np.array(fresh, np.int64),
            numbers,
        )
        return n, numbers.tolist()


@given(st.lists(st.tuples(st.lists(KEY, max_size=12), st.integers(0, 2**N - 1)), max_size=5))
def test_keys_are_found_until_they_are_removed(steps):
    table, expected = Table(), {}
    for keys, chosen in steps:
        fresh = [number for number in range(N) if number not in expected.values()]
        n_added, numbers = table.add(keys, fresh)
        new = [key for key in dict.fromkeys(keys) if key not in expected]
        assert n_added == len(new)
        expected |= dict(zip(new, fresh, strict=False))
        assert numbers == [expected[key] for key in keys]
        gone = [key for key, number in expected.items() if chosen >> number & 1]
        remove_keys(np.array([expected.pop(key) for key in gone], np.int64), *table.arrays)
        asked = [*expected, *gone]
        assert table.find(asked) == [expected.get(key, NOTHING) for key in asked]


def test_keys_are_found_in_new_slots():
    table, keys = Table(), [(n, -n) for n in range(40)]
    table.add(keys, range(40))
    _, _, *rest = table.arrays
    table.arrays = np.full(256, NOTHING, np.int32), 56, *rest
    place_keys(np.arange(40), *table.arrays)
    assert table.find([*keys, (40, -40)]) == [*range(40), NOTHING]


def test_runs_are_copied_each_to_its_place():
    into = np.zeros(6, np.int64)
    copy_runs(np.arange(10, 20), np.array([7, 0]), np.array([0, 3]), np.array([2, 3]), into)
    assert into.tolist() == [17, 18, 0, 10, 11, 12]


def test_hashes_are_the_same_in_every_version():
    """Sketches in homes were made with them."""
    keys, codes = [(0, 7), (0, 8), (7,), (), (0, 5, -1)], np.empty(5, np.int64)
    hash_keys(*flat(keys), codes)
    assert codes.tolist() == [
        -4634292530633088101,
        -1942948881238477188,
        332633012733024968,
        0,
        -4470152400180536001,
    ]
    for k, key in enumerate(keys):
        code = len(key) * 0x9E3779B97F4A7C15
        for word in key:
            code = (code ^ word % 2**64) * 0x9E3779B97F4A7C15 % 2**64
            code ^= code >> 29
        assert int(codes[k]) % 2**64 == code % 2**64


def test_kernels_of_keys_can_be_warmed_up_twice():
    warm_up()
    warm_up()
