"""Places among sorted constants, judged by one bisection per value."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eddyline.kernels import places as kernels
from eddyline.kernels.places import (
    FEW,
    ascending,
    byte_places,
    float_places,
    read_only,
    shared_bytes,
    wide_places,
    word_tree,
    words_at,
)
from tests.oracles.places import float_order, n_shared, place, word


def packed(strings: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and data, the data no longer than a kernel needs."""
    offsets = np.cumsum([0, *map(len, strings)]).astype(np.int32)
    data = np.frombuffer(b"".join(strings), np.uint8)
    if len(data) < 8:
        data = np.append(data, np.full(8 - len(data), 255, np.uint8))
    return read_only(offsets), read_only(data)


def places_of(values: Sequence[bytes], constants: Sequence[bytes]) -> list[int]:
    held = packed(constants)
    found = np.full(len(values), -1)
    byte_places(*packed(values), *held, *map(read_only, word_tree(*held)), found)
    return found.tolist()


def halves(numbers: Sequence[int]) -> np.ndarray:
    raw = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return read_only(np.frombuffer(raw, np.int64))


# ------------------------------------------------------------------------------------------------ strings

# Few letters, so that many begin alike; zeros, which look like the padding of a word; whole words, to reach behind the first.
PIECES = st.sampled_from(
    [b"", b"\0", b"a", b"b", b"\xff", b"\0" * 8, b"customer", b"customer-0000001", "日本".encode()]
)
STRINGS = st.one_of(st.lists(PIECES, max_size=5).map(b"".join), st.binary(max_size=20))


@given(st.lists(STRINGS, max_size=40), st.lists(STRINGS, max_size=40, unique=True))
@example([b"", b"\0"], [])
@example([b"", b"\0", b"\0\0"], [b"\0"])
@example([b"\0" * n for n in range(20)], [b"\0" * n for n in range(0, 20, 2)])
@example([b"a", b"customer", b"customerx", b"d"], [b"customer" + bytes([c]) for c in range(30)])
def test_strings_have_the_place_that_bisection_finds(values, constants):
    constants = sorted(constants)
    values = values + constants
    assert places_of(values, constants) == [place(value, constants) for value in values]


@given(
    st.lists(
        st.tuples(st.sampled_from([b"abcdefgh" * k for k in range(4)]), STRINGS).map(b"".join), max_size=60
    ),
    st.sampled_from([b"", b"x", b"a long beginning that all share"]),
)
def test_constants_that_begin_alike_are_told_apart_behind(strings, beginning):
    constants = sorted({beginning + string for string in strings[::2]})
    values = [beginning + string for string in strings] + strings + [beginning, beginning[:-1], b"\xff"]
    assert places_of(values, constants) == [place(value, constants) for value in values]


def test_many_constants_in_clusters(rng):
    clusters = [b"https://shop.example/", b"https://shop.example/product/", b"mailto:", b""]
    made = [
        clusters[k] + str(n).encode()
        for k, n in zip(rng.integers(0, 4, 4000), rng.integers(0, 9999, 4000), strict=True)
    ]
    constants = sorted(set(made[:2000]))
    assert places_of(made, constants) == [place(value, constants) for value in made]


def test_a_string_may_lie_at_the_very_end_of_its_data():
    data = read_only(np.frombuffer(b"xxxxxabcz", np.uint8))
    offsets = read_only(np.array([5, 8, 9, 9], np.int32))
    held = packed([b"", b"abc", b"z"])
    found = np.empty(3, np.int64)
    byte_places(offsets, data, *held, *map(read_only, word_tree(*held)), found)
    assert found.tolist() == [3, 5, 1]


def test_only_constants_that_share_their_word_have_a_child():
    words, children, nodes = word_tree(*packed([b"a", b"b", b"c"]))
    assert (len(words), children.tolist(), nodes.tolist()) == (3, [-1, -1, -1], [[0, 3, 0, 0]])
    alike = [b"commonly" + bytes([c]) for c in range(FEW + 1)]
    words, children, nodes = word_tree(*packed([b"a", *alike, b"d"]))
    assert children[:3].tolist() == [-1, 1, -1]
    assert nodes.tolist() == [[0, FEW + 3, 0, 0], [1, FEW + 1, 8, FEW + 3]]


def test_there_is_no_tree_without_constants():
    assert [len(part) for part in word_tree(*packed([]))] == [0, 0, 0]


@given(st.lists(STRINGS, max_size=60), st.sampled_from([b"", b"a beginning that all share"]))
@example([b"\0" * (n % 20) for n in range(50)], b"")
@example([b"customer" + bytes([n % 3]) * n for n in range(30)] * 2, b"")
def test_each_string_is_taken_once_and_in_order(strings, beginning):
    strings = [beginning + string for string in strings]
    assert [strings[k] for k in ascending(*packed(strings))] == sorted(set(strings))


def test_many_strings_in_groups_are_sorted(rng):
    numbers = rng.integers(0, 3000, 20_000)
    strings = [
        b"/".join([b"https://shop.example"[: n % 21], str(n % 50).encode(), str(n).encode()])
        for n in numbers.tolist()
    ]
    assert [strings[k] for k in ascending(*packed(strings))] == sorted(set(strings))


@given(st.lists(STRINGS, min_size=1, max_size=10), st.lists(st.integers(0, 30), min_size=10, max_size=10))
def test_a_word_is_eight_bytes_with_zeros_behind_the_end(strings, depths):
    which, found = np.arange(len(strings)), np.empty(len(strings), np.uint64)
    words_at(*packed(strings), which, np.array(depths[: len(strings)]), found)
    assert found.tolist() == [word(s, d) for s, d in zip(strings, depths, strict=False)]


@given(st.lists(STRINGS, min_size=1, max_size=10))
def test_shared_bytes_are_counted_from_the_beginning(strings):
    which, found = np.arange(len(strings)), np.zeros(len(strings), np.int64)
    shared_bytes(*packed(strings), which, which[::-1].copy(), found)
    assert found.tolist() == [n_shared(a, b) for a, b in zip(strings, strings[::-1], strict=True)]


# ------------------------------------------------------------------------------------------------ numbers

WIDE = st.one_of(
    st.integers(-(10**38), 10**38), st.integers(-3, 3), st.integers(-3, 3).map(lambda k: k * 2**64 + 2**63)
)


@given(st.lists(WIDE, max_size=30), st.lists(WIDE, max_size=30, unique=True))
def test_wide_numbers_have_the_place_that_bisection_finds(values, constants):
    constants = sorted(constants)
    values = values + constants
    found = np.full(len(values), -1)
    wide_places(halves(values), halves(constants), found)
    assert found.tolist() == [place(value, constants) for value in values]


NUMBERS = st.one_of(
    st.floats(width=64),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, math.inf, -math.inf, math.nan]),
    st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", bits.to_bytes(8, "little"))[0]),
)


@given(st.lists(NUMBERS, min_size=2, max_size=20))
def test_floats_keep_their_order(numbers):
    found = np.empty(len(numbers), np.int64)
    float_places(read_only(np.array(numbers).view(np.int64)), found)
    for a, x in zip(numbers, found.tolist(), strict=True):
        for b, y in zip(numbers, found.tolist(), strict=True):
            assert (x < y, x == y) == (float_order(a) < float_order(b), float_order(a) == float_order(b))


# ------------------------------------------------------------------------------------------------ compilation


@pytest.mark.parametrize(
    "kernel", [byte_places, wide_places, float_places, words_at, shared_bytes], ids=lambda k: k.__name__
)
def test_warming_up_compiles_every_kernel_for_the_arrays_that_are_given(kernel):
    kernels.warm_up()
    n_before = len(kernel.signatures)
    assert n_before
    held = packed([b"a"])
    out, which = np.empty(1, np.int64), np.zeros(1, np.int64)
    byte_places(*held, *held, *map(read_only, word_tree(*held)), out)
    wide_places(halves([1]), halves([1]), out)
    float_places(halves([1])[:1], out)
    words_at(*held, which, which, np.empty(1, np.uint64))
    shared_bytes(*held, which, which, which.copy())
    assert len(kernel.signatures) == n_before
