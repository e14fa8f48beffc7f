"""Plain twins of the kernels for partial results and for ordered sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction


def integer(limbs: Sequence[int]) -> int:
    """The number that limbs are in two's complement, the lowest first."""
    value = sum(limb << 64 * at for at, limb in enumerate(limbs))
    return value - (1 << 64 * len(limbs)) if limbs[-1] >> 63 else value


def limbs(value: int, n_limbs: int) -> list[int]:
    return [value >> 64 * at & 2**64 - 1 for at in range(n_limbs)]


def half_up(value: Fraction) -> int:
    """Rounded to an integer, halves away from zero."""
    whole = int(abs(value) + Fraction(1, 2))
    return whole if value >= 0 else -whole


def greatest(lines: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    return max(lines, default=None)


class PlainSets:
    """A Counter per set."""

    def __init__(self, n: int) -> None:
        self.sets: list[Counter[tuple[int, ...]]] = [Counter() for _ in range(n)]

    def update(self, entry: int, line: tuple[int, ...], step: int) -> None:
        self.sets[entry][line] += step
        if self.sets[entry][line] == 0:
            del self.sets[entry][line]

    def share(self, into: int, which: int) -> None:
        self.sets[into] = Counter(self.sets[which])

    def listed(self, entry: int) -> list[tuple[tuple[int, ...], int]]:
        return sorted(self.sets[entry].items())
