"""Coins by arrival number: the same however rows are cut, and as many as the rate says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.statistics.sampling import mixed_bits, sampled_mask, uniform_of, uniforms


def test_the_generator_is_the_published_one():
    #  the first numbers of SplitMix64 started at 0 and at 1234567
    assert mixed_bits(0) == 0xE220A8397B1DCDAF
    assert mixed_bits(1234567) == 6457827717110365317


def test_a_sample_does_not_depend_on_how_rows_were_cut():
    arrivals = np.arange(1_000_000_000, 1_000_020_000)
    whole = sampled_mask(arrivals, 7, 0.01)
    parts = np.concatenate([sampled_mask(part, 7, 0.01) for part in np.array_split(arrivals, 37)])
    assert (whole == parts).all()


def test_a_sample_has_the_size_it_should_and_differs_by_seed():
    arrivals = np.arange(200_000)
    first, second = sampled_mask(arrivals, 1, 0.05), sampled_mask(arrivals, 2, 0.05)
    for chosen in (first, second):
        assert abs(chosen.sum() - 10_000) < 400  # four standard deviations
    assert abs((first & second).sum() - 500) < 100


def test_who_is_in_at_a_rate_is_in_at_every_higher_one():
    arrivals = np.arange(50_000)
    assert not (sampled_mask(arrivals, 3, 0.002) & ~sampled_mask(arrivals, 3, 0.05)).any()


@given(st.integers(0, 2**63 - 1), st.integers(-(2**70), 2**70))
def test_every_number_is_in_the_unit_interval(arrival, seed):
    assert 0 <= uniforms(np.array([arrival]), seed)[0] < 1
    assert 0 <= uniform_of(seed, arrival, -arrival, arrival << 200) < 1


def test_numbers_made_of_different_ints_differ():
    made = {uniform_of(1, a, b) for a in range(-20, 20) for b in (0, 1, 2**64, 2**64 + 1, 2**130)}
    assert len(made) == 40 * 5
