"""Items by an instant each, asked which of them time passes: rows that enter or leave a temporal filter, groups that fall silent.

An item with instant t is *due* at t + d for each of a few distances d. Time that goes from `before` to `now` passes the items
with t in (before - d, now - d]; only these are visited.

Source: the logarithmic method of Bentley and Saxe for sets that grow. Pairs of instant and item lie in sorted runs, each at least
twice as long as the one behind it, so that a new pair is merged O(log n) times. Moves are lazy: `_instant` says where an item is
now, and pairs that say otherwise are passed over, and dropped when their run is merged.

Invariants: each item that has an instant has a pair in some run that says so; runs are sorted; at most half of the pairs, and
FEW more, are out of date; no item is due between the time of the last `pass_time` and `_bound`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from eddyline.aggregates.rows import Ints
from eddyline.model import NO_TIME

FEW = 1024  # pairs that are out of date and not worth merging for
_NEVER = 1 << 62
_SCAN, _LONG_SCAN = (
    16,
    4096,
)  # pairs looked at when the next one that is up to date is searched: at first; at most


class Calendar:
    """Dense items, each with an instant or none. What a round does can be undone until it commits."""

    def __init__(self, distances_us: Iterable[int] = ()) -> None:
        self.n_visited = 0  # items that time has passed, over all rounds
        self._instant = np.empty(0, np.int64)  # by item, NO_TIME: it has none
        self._runs: list[tuple[Ints, Ints]] = []  # instants ascending, and their items
        self._n_items = 0  # with an instant
        self._bound = NO_TIME  # no item is due before it; NO_TIME: it is to be found
        self._undo: list[tuple[Ints, Ints]] = []  # items and the instants they had, the oldest first
        self._bound_before: int | None = None  # that of the last commit, if it changed
        self._distances = np.empty(0, np.int64)
        self.build(distances_us)

    def build(self, distances_us: Iterable[int]) -> None:
        """The distances at which items are due from now on."""
        self._distances = np.array(sorted(set(distances_us)), np.int64)
        self._bound = NO_TIME

    def put(self, items: Ints, instants: Ints) -> None:
        """Give items, all different, other instants; NO_TIME takes one out."""
        self._grow(int(items.max(initial=-1)) + 1)
        moved = np.flatnonzero(self._instant[items] != instants)
        items, instants = items[moved], instants[moved]
        if len(items):
            self._undo.append((items, self._instant[items]))
            self._move(items, instants)

    def instants(self, items: Ints) -> Ints:
        """Where these items are, NO_TIME where nowhere."""
        found = np.full(len(items), NO_TIME, np.int64)
        known = np.flatnonzero(items < len(self._instant))
        found[known] = self._instant[items[known]]
        return found

    def pass_time(self, before_us: int | None, now_us: int) -> Ints:
        """The items that are due in (before, now], ascending; before None: at now or ever before."""
        if now_us < self._bound or not len(self._distances):
            return np.empty(0, np.int64)
        low = None if before_us is None else before_us - self._distances
        high = now_us - self._distances
        passed = [self._within(run, low, high) for run in self._runs]
        items = np.unique(np.concatenate([np.empty(0, np.int64), *passed]))
        self._set_bound(self._next_due(now_us))
        self.n_visited += len(items)
        return items

    def next_deadline(self, now_us: int) -> int | None:
        """An instant after now before which no item is due; None: none is ever."""
        if self._bound <= now_us:
            self._set_bound(self._next_due(now_us))
        return None if self._bound >= _NEVER else self._bound

    def commit(self) -> None:
        self._undo, self._bound_before = [], None

    def rollback(self) -> None:
        for items, instants in reversed(self._undo):
            self._move(items, instants)
        if self._bound_before is not None:
            self._bound = min(self._bound, self._bound_before)
        self.commit()

    @property
    def nbytes(self) -> int:
        return int(
            self._instant.nbytes + sum(instants.nbytes + items.nbytes for instants, items in self._runs)
        )

    def check(self) -> None:
        paired = np.full(len(self._instant), NO_TIME, np.int64)
        for instants, items in self._runs:
            assert np.all(instants[1:] >= instants[:-1]), "a run is not sorted"
            live = self._instant[items] == instants
            paired[items[live]] = instants[live]
        assert np.array_equal(paired, self._instant), "an item has no pair"
        n_pairs, n_items = self._n_pairs(), int((self._instant != NO_TIME).sum())
        assert n_items == self._n_items, f"{n_items} items, {self._n_items} counted"
        assert n_pairs <= 2 * n_items + FEW, f"{n_pairs} pairs for {n_items} items"

    # ------------------------------------------------------------------------------------------- pairs

    def _grow(self, n: int) -> None:
        if n > len(self._instant):
            grown = np.full(max(n, 2 * len(self._instant)), NO_TIME, np.int64)
            grown[: len(self._instant)] = self._instant
            self._instant = grown

    def _move(self, items: Ints, instants: Ints) -> None:
        self._n_items += int((instants != NO_TIME).sum()) - int((self._instant[items] != NO_TIME).sum())
        self._instant[items] = instants
        stays = np.flatnonzero(instants != NO_TIME)
        if len(stays):
            order = stays[np.argsort(instants[stays], kind="stable")]
            self._runs.append((instants[order], items[order]))
            self._lower_bound(instants[order])
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [self._merged(self._runs[-2:])]
        if self._n_pairs() > 2 * self._n_items + FEW:
            self._runs = [self._merged(self._runs)]

    def _merged(self, runs: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
        """Their pairs that are up to date, each once."""
        instants = np.concatenate([instants for instants, _ in runs])
        items = np.concatenate([items for _, items in runs])
        live = np.flatnonzero(self._instant[items] == instants)
        order = live[np.lexsort((items[live], instants[live]))]
        instants, items = instants[order], items[order]
        again = np.zeros(len(items), dtype=bool)
        again[1:] = (items[1:] == items[:-1]) & (instants[1:] == instants[:-1])
        return instants[~again], items[~again]

    def _n_pairs(self) -> int:
        return sum(len(items) for _, items in self._runs)

    def _within(self, run: tuple[Ints, Ints], low: Ints | None, high: Ints) -> Ints:
        """The items of a run with an instant in (low, high] of some distance."""
        instants, items = run
        last = np.searchsorted(instants, high, side="right")
        first = np.zeros(len(high), np.int64) if low is None else np.searchsorted(instants, low, side="right")
        places = np.unique(ranges(first, np.maximum(last - first, 0)))
        return items[places[self._instant[items[places]] == instants[places]]]

    # ------------------------------------------------------------------------------------------- deadlines

    def _set_bound(self, bound: int) -> None:
        if self._bound_before is None:
            self._bound_before = self._bound
        self._bound = bound

    def _lower_bound(self, instants: Ints) -> None:
        """Items may be due earlier, now that these instants are there: the first time is found when it is asked for."""
        if len(self._distances) and int(instants[0]) + int(self._distances[0]) < self._bound:
            self._set_bound(NO_TIME)

    def _next_due(self, now_us: int) -> int:
        """The first time after now at which an item is due, or _NEVER."""
        due = [self._first_due(run, now_us) for run in self._runs] if len(self._distances) else []
        return min([_NEVER, *due])

    def _first_due(self, run: tuple[Ints, Ints], now_us: int) -> int:
        """Of one run: for each distance the first pair behind now that is up to date."""
        instants, items = run
        place = np.searchsorted(instants, now_us - self._distances, side="right")
        open_, n_looked, first = np.arange(len(place)), _SCAN, _NEVER
        while len(open_ := open_[place[open_] < len(items)]):
            seen = np.minimum(place[open_, None] + np.arange(n_looked), len(items) - 1)
            live = self._instant[items[seen]] == instants[seen]
            found = np.flatnonzero(live.any(axis=1))
            at = seen[found, live[found].argmax(axis=1)]
            first = min(first, int((instants[at] + self._distances[open_[found]]).min(initial=_NEVER)))
            place[open_] += n_looked
            open_, n_looked = np.delete(open_, found), min(4 * n_looked, _LONG_SCAN)
        return first


def ranges(first: Ints, n: Ints) -> Ints:
    """first[0], first[0] + 1, … n[0] of them, then those of first[1], and so on."""
    total = int(n.sum())
    starts = np.cumsum(n) - n
    return np.repeat(first - starts, n) + np.arange(total, dtype=np.int64)
