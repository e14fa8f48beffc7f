"""Kernels for partial results against plain integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.aggregates.accumulators import given as as_given
from eddyline.kernels import accumulators as kernels
from eddyline.kernels.layouts import FINITE, MINUS_INFINITE, NOT_A_NUMBER, PLUS_INFINITE
from tests.oracles import accumulators as plain

LONGS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]))
WIDE = st.one_of(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(-100, 100))
SIGNS = st.sampled_from([-2, -1, 1, 2])
COUNTS = st.one_of(st.integers(1, 10), st.integers(1, 2**63 - 1), st.sampled_from([2**53 + 1, 2**32]))


@pytest.mark.parametrize(("n_given", "n_limbs", "numbers"), [(1, 2, LONGS), (2, 3, WIDE), (3, 3, WIDE)])
@given(data=st.data())
def test_limbs_add_up_to_the_exact_sum(n_given: int, n_limbs: int, numbers, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(st.integers(0, 2), numbers, SIGNS), max_size=20))
    sums = np.zeros((3, n_limbs), np.uint64)
    values = np.array([plain.limbs(x, n_given) for _, x, _ in rows], np.uint64).reshape(-1, n_given)
    entries, signs = [entry for entry, _, _ in rows], [sign for _, _, sign in rows]
    kernels.add_limbs(as_given(entries), as_given(values, np.uint64), as_given(signs, np.int8), sums)
    for entry in range(3):
        expected = sum(x if sign > 0 else -x for at, x, sign in rows if at == entry)
        assert plain.integer(sums[entry].tolist()) == expected


@given(st.lists(st.tuples(st.integers(-(2**126), 2**126), COUNTS), max_size=20))
def test_a_quotient_of_integers_is_the_nearest_double(rows: list[tuple[int, int]]) -> None:
    quotients = np.zeros(len(rows))
    limbs = np.array([plain.limbs(total, 2) for total, _ in rows], np.uint64).reshape(-1, 2)
    kernels.divided(as_given(limbs, np.uint64), as_given([n for _, n in rows]), quotients)
    assert quotients.tolist() == [total / n for total, n in rows]


@given(st.lists(st.tuples(WIDE, COUNTS), max_size=20), st.integers(0, 4))
def test_a_quotient_of_decimals_is_rounded_half_up(rows: list[tuple[int, int]], digits: int) -> None:
    quotients = np.zeros((len(rows), 3), np.uint64)
    limbs = np.array([plain.limbs(total, 2) for total, _ in rows], np.uint64).reshape(-1, 2)
    counts = as_given([n for _, n in rows])
    kernels.divided_half_up(as_given(limbs, np.uint64), 10**digits, counts, quotients)
    expected = [plain.half_up(Fraction(total * 10**digits, n)) for total, n in rows]
    assert [plain.integer(line) for line in quotients.tolist()] == expected


def test_half_of_the_last_digit_goes_away_from_zero() -> None:
    quotients = np.zeros((3, 3), np.uint64)
    limbs = np.array([plain.limbs(total, 2) for total in (5, -5, 4)], np.uint64)
    kernels.divided_half_up(as_given(limbs, np.uint64), 1, as_given([10, 10, 10]), quotients)
    assert [plain.integer(line) for line in quotients.tolist()] == [1, -1, 0]


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()), max_size=30))
def test_a_double_double_loses_less_than_a_billionth_of_a_double(rows: list[tuple[float, bool]]) -> None:
    sums, counts = np.zeros((1, 4)), np.zeros((1, 4), np.int64)
    values, signs = [x for x, _ in rows], [1 if comes else -1 for _, comes in rows]
    entries = as_given(np.zeros(len(rows)))
    kernels.add_doubles(entries, as_given(values, np.float64), as_given(signs, np.int8), sums, counts)
    if counts[0, FINITE] != 0:
        left = sum((sign * Fraction(x) for x, sign in zip(values, signs, strict=True)), Fraction(0))
        # where as many had left as had come, the sum began anew
        at = max((k + 1 for k in range(len(rows)) if sum(signs[: k + 1]) == 0), default=0)
        left -= sum((s * Fraction(x) for x, s in zip(values[:at], signs[:at], strict=True)), Fraction(0))
        high, low = sums[0, :2].tolist()
        assert abs(Fraction(high) + Fraction(low) - left) <= Fraction(1e6) * len(rows) / 2**100
        assert high == high + low


def test_what_is_not_finite_is_counted_and_leaves_no_trace() -> None:
    sums, counts = np.zeros((1, 4)), np.zeros((1, 4), np.int64)
    values = [1.0, math.nan, math.inf, -math.inf, -math.inf]
    entries = as_given(np.zeros(5))
    kernels.add_doubles(entries, as_given(values, np.float64), as_given([1] * 5, np.int8), sums, counts)
    assert sums.tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert counts[0, [FINITE, NOT_A_NUMBER, PLUS_INFINITE, MINUS_INFINITE]].tolist() == [1, 1, 1, 2]
    kernels.add_doubles(entries, as_given(values, np.float64), as_given([-1] * 5, np.int8), sums, counts)
    assert not sums.any()
    assert not counts.any()


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3), st.sampled_from([-(2**63), 0, 2**63 - 1]))),
)
def test_the_greatest_line_stays_and_the_last_row_that_was_greater_is_it(
    rows: list[tuple[int, int, int]],
) -> None:
    order = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2)
    kept, has_row, is_greater = (
        np.zeros((3, 2), np.int64),
        np.zeros(3, np.bool_),
        np.zeros(len(rows), np.bool_),
    )
    entries = [row[0] for row in rows]
    kernels.replace_by_greater(as_given(entries), as_given(order), kept, has_row, is_greater)
    for entry in range(3):
        expected = plain.greatest([row[1:] for row in rows if row[0] == entry])
        assert has_row[entry] == (expected is not None)
        winners = [k for k in np.flatnonzero(is_greater).tolist() if entries[k] == entry]
        assert not winners or tuple(kept[entry].tolist()) == expected == rows[winners[-1]][1:]
