"""Coins that do not depend on how rows were cut into batches: each is made of the seed and the row's arrival number.

Generator: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014: the output function of SplitMix64,
here as a counter: the n-th number without the n - 1 before it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

GAMMA = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB
MASK = (1 << 64) - 1
TO_UNIT = 2.0**-53


def mixed_bits(number: int) -> int:
    """Sixty-four bits that look like chance, always the same for a number."""
    z = (number + GAMMA) & MASK
    z = (z ^ z >> 30) * FIRST & MASK
    z = (z ^ z >> 27) * SECOND & MASK
    return z ^ z >> 31


def uniform_of(seed: int, *numbers: int) -> float:
    """A number in [0, 1) made of the seed and some ints of any size."""
    state = mixed_bits(seed & MASK)
    for number in numbers:
        sign, number = number < 0, abs(number)
        while True:
            state = mixed_bits(state ^ (number & MASK))
            number >>= 64
            if not number:
                break
        state = mixed_bits(state ^ sign)
    return (state >> 11) * TO_UNIT


def uniforms(arrival_numbers: npt.NDArray[np.integer], seed: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each row."""
    start = np.uint64(mixed_bits(seed & MASK))
    z = (arrival_numbers.astype(np.uint64) ^ start) + np.uint64(GAMMA)
    z = (z ^ z >> np.uint64(30)) * np.uint64(FIRST)
    z = (z ^ z >> np.uint64(27)) * np.uint64(SECOND)
    return ((z ^ z >> np.uint64(31)) >> np.uint64(11)).astype(np.float64) * TO_UNIT


def sampled_mask(arrival_numbers: npt.NDArray[np.integer], seed: int, rate: float) -> npt.NDArray[np.bool_]:
    """Which rows to sample, a share of `rate` of them. Who is in at a rate is in at every higher one."""
    return uniforms(arrival_numbers, seed) < rate
