"""Kernels over rings against plain twins: a ring is built row by row, then runs of it are asked for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels import EARLIEST, GREATEST, LATEST, LEAST, NOTHING, over_frames, over_rings
from tests.oracles.rings import exact_total, first_within, winner

PICKS = {"least": LEAST, "greatest": GREATEST, "earliest": EARLIEST, "latest": LATEST}
TOTAL, VALID, KEY, NODE = 2, 3, 4, 5  # columns of integers behind arrival and epoch
lines = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(-4, 4),
        st.booleans(),
        st.sampled_from([0.1, -2.5, 1e300, -1e300, 3e-9]),
    ),
    min_size=1,
    max_size=40,
)  # seconds since the row before, key, whether it is valid, a number


class Ring:
    """One ring that begins at some place, with a prefix column, keys with winners, and doubles."""

    def __init__(self, drawn, begin, mode):
        n = len(drawn)
        self.at = begin
        self.times = np.cumsum([line[0] for line in drawn])
        self.keys, self.valid = [line[1] for line in drawn], [line[2] for line in drawn]
        self.numbers = [line[3] for line in drawn]
        self.places = begin + np.arange(n)
        self.time = np.zeros(begin + n + 1, np.int64)
        self.ints = np.zeros((begin + n + 1, 6), np.int64)
        self.floats = np.zeros((begin + n + 1, 3))
        self.is_off = np.zeros(begin + n + 1, dtype=bool)
        self.winners = np.array([[NODE, KEY, VALID, mode]])
        rows = np.zeros((n, 6), np.int64)
        rows[:, 0], rows[:, TOTAL], rows[:, VALID], rows[:, KEY] = (
            np.arange(n),
            self.keys,
            self.valid,
            self.keys,
        )
        numbers = np.zeros((n, 3))
        numbers[:, 0] = self.numbers
        is_prefix = np.array([False, False, True, True, False, False])
        over_rings.append_rows(
            self.places, np.full(n, begin), self.time, self.ints, self.floats, self.is_off,
            self.times, rows, numbers, is_prefix, np.zeros((1, 2), np.int64), self.winners,
        )  # fmt: skip
        self.starts, self.ends = np.full(n, begin), np.full(n, begin + n)


def asked(ring, lows):
    """Runs from these rows to each row, and that no row is apart."""
    return ring.at + np.array([lows]), ring.places, np.full(len(ring.places), NOTHING)


@given(lines, st.integers(1, 20), st.integers(0, 6))
def test_a_run_begins_with_the_first_row_within_reach(drawn, begin, reach):
    ring = Ring(drawn, begin, LEAST)
    found = np.empty(len(drawn), np.int64)
    over_frames.range_starts(ring.time, ring.starts, ring.places, reach, found)
    times = ring.times.tolist()
    assert (found - begin).tolist() == [first_within(times, row, reach) for row in range(len(drawn))]


@given(lines, st.integers(1, 20), st.data())
def test_sums_of_any_run_hold_nothing_of_what_is_outside(drawn, begin, data):
    ring = Ring(drawn, begin, LEAST)
    lows = [data.draw(st.integers(0, row)) for row in range(len(drawn))]
    high, low = np.empty((1, len(drawn))), np.empty((1, len(drawn)))
    over_frames.sums_between(
        np.zeros(2, np.int64), *asked(ring, lows), ring.starts, ring.ends, ring.floats, ring.is_off, high, low
    )
    for row, first in enumerate(lows):
        inside = ring.numbers[first : row + 1]
        largest = sum(abs(Fraction(number)) for number in inside)
        found = Fraction(high[0, row]) + Fraction(low[0, row])
        assert abs(found - exact_total(inside)) <= largest / 2**98


@pytest.mark.parametrize("pick", PICKS)
@given(drawn=lines, begin=st.integers(1, 20), data=st.data())
def test_the_winner_of_any_run_is_found(pick, drawn, begin, data):
    ring = Ring(drawn, begin, PICKS[pick])
    lows = [data.draw(st.integers(0, row)) for row in range(len(drawn))]
    found = np.empty((1, len(drawn)), np.int64)
    over_frames.winners_between(
        ring.winners[0], *asked(ring, lows), ring.starts, ring.ends, ring.ints, ring.is_off, found
    )
    expected = [winner(ring.keys, ring.valid, low, row, pick) for row, low in enumerate(lows)]
    assert found[0].tolist() == [NOTHING if k < 0 else begin + k for k in expected]


@given(lines, st.integers(1, 20), st.data())
def test_distinct_numbers_of_any_run_are_counted(drawn, begin, data):
    ring = Ring(drawn, begin, LEAST)
    ring.ints[ring.places, KEY] += 4  # numbers are not negative
    lows = [data.draw(st.integers(0, row)) for row in range(len(drawn))]
    if data.draw(st.booleans()):
        lows = np.maximum.accumulate(lows).tolist()  # as where frames slide
    found, times = np.empty((1, len(drawn)), np.int64), np.zeros(9, np.int64)
    over_frames.distinct_between(KEY, VALID, *asked(ring, lows), ring.ints, ring.is_off, times, found)
    expected = [
        len(
            {
                key
                for key, valid in zip(ring.keys[low : row + 1], ring.valid[low : row + 1], strict=True)
                if valid
            }
        )
        for row, low in enumerate(lows)
    ]
    assert found[0].tolist() == expected
    assert not times.any()


def test_kernels_can_be_warmed_up_twice():
    for module in (over_rings, over_frames):
        module.warm_up()
        module.warm_up()
