"""Equalities that no probe checks, used as soon as both of their inputs are bound.

Paper: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: residual
predicates of joins with cycles.

They are used twice. While inputs are probed, a partner stays only if the driver has a partner with the same value in the other
input, so that later inputs are probed with fewer rows. When combinations are listed, partners are looked up by their value, so
that the product of two inputs, most of which would be refuted, is never made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.joins.join_tree import JoinTree
from eddyline.joins.keys import Codes, codes_of, same
from eddyline.joins.plan import Drivers
from eddyline.model import Expression
from eddyline.operators import Mask, Numbers


class HeldValues(Protocol):
    """What an input holds."""

    def values(self, rows: Numbers, expressions: Sequence[Expression]) -> list[pa.Array]:
        """What expressions over the input's columns give on some of its rows."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """An expression over the input that was bound last, equal to one over an input bound before."""

    own: Expression
    other: int
    theirs: Expression


def residual_comparisons(tree: JoinTree, place: int, bound: Collection[int]) -> list[Comparison]:
    """The residual equalities between an input and those bound before it."""
    found = []
    for key in tree.residual:
        if place in (key.left, key.right):
            other = key.right if place == key.left else key.left
            if other in bound:
                found.append(Comparison(key.side(place), other, key.side(other)))
    return found


@dataclass(frozen=True, slots=True)
class BoundValues:
    """The values of rows that are bound: of the drivers, by their places, or of partners, by their numbers."""

    origin: int
    drivers: Drivers
    partners: Mapping[int, HeldValues]
    evaluate: Callable[[Expression, pa.RecordBatch], pa.Array]

    def of(self, place: int, rows: Numbers, expression: Expression) -> pa.Array:
        if place == self.origin:
            return self.evaluate(expression, self.drivers.rows.take(pa.array(rows)))
        return self.partners[place].values(rows, [expression])[0]


def has_counterpart(own: pa.Array, own_driver: Numbers, theirs: pa.Array, their_driver: Numbers) -> Mask:
    """Which values the same driver has on the other side, as far as codes tell: none of those it has is left out."""
    ours, others = codes_of([own]), codes_of([theirs])
    codes, number = np.unique(others.codes, return_inverse=True)
    if not len(codes):
        return np.zeros(len(ours), dtype=bool)
    our_number, is_known = _numbered(codes, ours)
    pairs = their_driver * len(codes) + number
    if others.is_null is not None:
        pairs = pairs[~others.is_null]
    return is_known & np.isin(own_driver * len(codes) + our_number, pairs)


class ValueIndex:
    """The entries of an input by the entry of its parent and the values that residual equalities compare."""

    def __init__(self, parent: Numbers, values: Sequence[pa.Array]) -> None:
        self._values = values
        self._own = codes_of(values)
        self._codes, number = np.unique(self._own.codes, return_inverse=True)
        pairs = parent * len(self._codes) + number
        entries = np.arange(len(pairs))
        if self._own.is_null is not None:
            entries = entries[~self._own.is_null]
        self._entries = entries[np.argsort(pairs[entries], kind="stable")]
        self._pairs = pairs[self._entries]

    def find(self, parent: Numbers, values: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Places in `values`, ascending, and entries with these values below the parent's entry."""
        asked_codes = codes_of(values)
        none = np.empty(0, np.int64)
        if not len(self._codes) or not len(asked_codes):
            return none, none
        number, is_known = _numbered(self._codes, asked_codes)
        pairs = parent * len(self._codes) + number
        low = np.searchsorted(self._pairs, pairs, side="left")
        counts = np.where(is_known, np.searchsorted(self._pairs, pairs, side="right") - low, 0)
        places = np.repeat(np.arange(len(pairs)), counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        entries = self._entries[low[places] + within]
        if not (asked_codes.is_exact and self._own.is_exact):
            is_same = same(values, places, self._values, entries)
            places, entries = places[is_same], entries[is_same]
        return places, entries


def _numbered(codes: npt.NDArray[np.int64], wanted_codes: Codes) -> tuple[Numbers, Mask]:
    """Where each code is among those, ascending, and whether it is there at all."""
    number = np.minimum(np.searchsorted(codes, wanted_codes.codes), len(codes) - 1)
    is_known: Mask = codes[number] == wanted_codes.codes
    if wanted_codes.is_null is not None:
        is_known &= ~wanted_codes.is_null
    return number, is_known
