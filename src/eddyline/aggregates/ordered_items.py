"""Items by a number each, found by ranges of it: rows by the time they leave, groups by their last row, sessions by their group.

Source: the logarithmic method of Bentley and Saxe for sets that grow. Pairs of number and item lie in sorted runs, each at least
twice as long as the one behind it, so that a new pair is merged O(log n) times. Moves are lazy: `_number` says where an item is
now, and pairs that say otherwise are passed over, and dropped when their run is merged.

Invariants: each item that has a number has a pair in some run that says so; runs are sorted; at most half of the pairs, and FEW
more, are out of date.
"""

from __future__ import annotations

import numpy as np

from eddyline.aggregates.rows import Ints
from eddyline.model import NO_TIME

FEW = 1024  # pairs that are out of date and not worth merging for
Run = tuple[Ints, Ints]  # numbers ascending, and their items


class OrderedItems:
    """Dense items, each with a number or none. What a round does can be undone until it commits."""

    def __init__(self) -> None:
        self._number = np.empty(0, np.int64)  # by item, NO_TIME: it has none
        self._runs: list[Run] = []
        self._n_items = 0  # with a number
        self._undo: list[tuple[Ints, Ints]] = []  # items and the numbers they had, the oldest first

    def __len__(self) -> int:
        return self._n_items

    def put(self, items: Ints, numbers: Ints) -> None:
        """Give items, all different, other numbers; NO_TIME takes one out."""
        self._grow(int(items.max(initial=-1)) + 1)
        moved = np.flatnonzero(self._number[items] != numbers)
        items, numbers = items[moved], numbers[moved]
        if len(items):
            self._undo.append((items, self._number[items]))
            self._move(items, numbers)

    def remove(self, items: Ints) -> None:
        """Take these out."""
        self.put(items, np.full(len(items), NO_TIME, np.int64))

    def numbers(self, items: Ints) -> Ints:
        """Where these items are, NO_TIME where nowhere."""
        found = np.full(len(items), NO_TIME, np.int64)
        known = np.flatnonzero(items < len(self._number))
        found[known] = self._number[items[known]]
        return found

    @property
    def items(self) -> Ints:
        """All that have a number, ascending."""
        return np.flatnonzero(self._number != NO_TIME)

    def within(self, low: Ints | None, high: Ints) -> Ints:
        """The items with a number in some (low, high], ascending; no low: all up to high."""
        found = [self._within(run, low, high) for run in self._runs]
        items = np.sort(np.concatenate([np.empty(0, np.int64), *found]))
        again = np.zeros(len(items), dtype=bool)
        again[1:] = items[1:] == items[:-1]
        return items[~again]

    def commit(self) -> None:
        self._undo = []

    def rollback(self) -> None:
        for items, numbers in reversed(self._undo):
            self._move(items, numbers)
        self._undo = []

    @property
    def nbytes(self) -> int:
        return int(self._number.nbytes + sum(numbers.nbytes + items.nbytes for numbers, items in self._runs))

    def check(self) -> None:
        """Assert the invariants."""
        paired = np.full(len(self._number), NO_TIME, np.int64)
        for numbers, items in self._runs:
            assert np.all(numbers[1:] >= numbers[:-1]), "a run is not sorted"
            live = self._number[items] == numbers
            paired[items[live]] = numbers[live]
        assert np.array_equal(paired, self._number), "an item has no pair"
        n_pairs, n_items = self._n_pairs(), len(self.items)
        assert n_items == self._n_items, f"{n_items} items, {self._n_items} counted"
        assert n_pairs <= 2 * n_items + FEW, f"{n_pairs} pairs for {n_items} items"

    def _grow(self, n: int) -> None:
        if n > len(self._number):
            grown = np.full(max(n, 2 * len(self._number)), NO_TIME, np.int64)
            grown[: len(self._number)] = self._number
            self._number = grown

    def _move(self, items: Ints, numbers: Ints) -> None:
        self._n_items += int((numbers != NO_TIME).sum()) - int((self._number[items] != NO_TIME).sum())
        self._number[items] = numbers
        stays = np.flatnonzero(numbers != NO_TIME)
        if len(stays):
            order = stays[np.argsort(numbers[stays], kind="stable")]
            self._runs.append((numbers[order], items[order]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [self._merged(self._runs[-2:])]
        if self._n_pairs() > 2 * self._n_items + FEW:
            self._runs = [self._merged(self._runs)]

    def _merged(self, runs: list[Run]) -> Run:
        """Their pairs that are up to date, each once."""
        numbers = np.concatenate([numbers for numbers, _ in runs])
        items = np.concatenate([items for _, items in runs])
        live = np.flatnonzero(self._number[items] == numbers)
        order = live[np.lexsort((items[live], numbers[live]))]
        numbers, items = numbers[order], items[order]
        again = np.zeros(len(items), dtype=bool)
        again[1:] = (items[1:] == items[:-1]) & (numbers[1:] == numbers[:-1])
        return numbers[~again], items[~again]

    def _n_pairs(self) -> int:
        return sum(len(items) for _, items in self._runs)

    def _within(self, run: Run, low: Ints | None, high: Ints) -> Ints:
        numbers, items = run
        last = np.searchsorted(numbers, high, side="right")
        first = np.zeros(len(high), np.int64) if low is None else np.searchsorted(numbers, low, side="right")
        places = ranges(first, np.maximum(last - first, 0))
        return items[places[self._number[items[places]] == numbers[places]]]


def ranges(first: Ints, n: Ints) -> Ints:
    """first[0], first[0] + 1, … n[0] of them, then those of first[1], and so on."""
    starts = np.cumsum(n) - n
    return np.repeat(first - starts, n) + np.arange(int(n.sum()), dtype=np.int64)
