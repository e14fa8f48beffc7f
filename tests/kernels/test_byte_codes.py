"""Byte strings as codes, compared and gathered, wherever they lie."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels.byte_coding import byte_codes, gather_bytes, gathered_offsets, same_bytes, warm_up
from eddyline.kernels.layouts import read_only

some_strings = st.lists(st.binary(max_size=20), min_size=1, max_size=12)


def laid_out(strings: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and data, as Arrow has them behind other bytes, with as many behind as a kernel needs."""
    offsets = np.cumsum([3, *map(len, strings)]).astype(np.int32)
    return read_only(offsets), read_only(np.frombuffer(b"xyz" + b"".join(strings) + bytes(8), np.uint8))


def codes(strings: list[bytes]) -> tuple[list[int], int]:
    found = np.empty(len(strings), np.int64)
    n_hashed = byte_codes(*laid_out(strings), found)
    return found.tolist(), n_hashed


def test_a_short_string_is_its_own_code_and_a_long_one_is_negative():
    found, n_hashed = codes([b"", b"a", b"\x00", b"seven77", b"\xff" * 7, b"eight888", b"\xff" * 20])
    assert n_hashed == 2
    assert found[:3] == [0, (0x61 << 55) + 1, 1]
    assert [code >= 0 for code in found] == [True] * 5 + [False] * 2
    assert len(set(found)) == 7


@given(some_strings, some_strings)
def test_equal_strings_have_equal_codes_and_short_ones_no_others(left, right):
    a, b = codes(left)[0], codes(right)[0]
    for i, x in enumerate(left):
        for j, y in enumerate(right):
            assert a[i] == b[j] if x == y else a[i] != b[j] or len(x) > 7


@given(some_strings, some_strings)
def test_strings_are_the_same_where_all_their_bytes_are(left, right):
    i, j = np.divmod(np.arange(len(left) * len(right)), len(right))
    is_same = np.empty(len(i), dtype=bool)
    same_bytes(*laid_out(left), i, *laid_out(right), j, is_same)
    assert is_same.tolist() == [x == y for x in left for y in right]


@given(some_strings, st.integers(0, 1000), st.data())
def test_strings_are_gathered_in_any_order(strings, gone, data):
    rows = np.array(data.draw(st.lists(st.integers(0, len(strings) - 1))), np.int64)
    ends = gone + np.cumsum([0, *map(len, strings)]).astype(np.int64)
    offsets = np.empty(len(rows) + 1, np.int32)
    found = np.empty(gathered_offsets(ends, rows, offsets), np.uint8)
    gather_bytes(ends, np.frombuffer(b"".join(strings), np.uint8).copy(), gone, rows, offsets, found)
    expected = [strings[row] for row in rows]
    assert found.tobytes() == b"".join(expected)
    assert np.diff(offsets).tolist() == [len(string) for string in expected]


def test_kernels_can_be_warmed_up_twice():
    warm_up()
    warm_up()
