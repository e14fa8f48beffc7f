"""Items by an instant each, asked which of them time passes: rows that enter or leave a temporal filter, groups that fall silent.

An item with instant t is *due* at t + d for each of a few distances d. Time that goes from `before` to `now` passes the items
with t in (before - d, now - d]; only these are visited.

Invariant: no item is due between the time of the last `pass_time` and `_bound`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from eddyline.aggregates.ordered_items import FEW, OrderedItems, Run
from eddyline.aggregates.rows import Ints
from eddyline.model import NO_TIME, TemporalBound

_NEVER = 1 << 62
_STALE = 4  # a run is packed if the pairs that were passed over are one in so many
_SCAN, _LONG_SCAN = (
    16,
    4096,
)  # pairs looked at when the next one that is up to date is searched: at first; at most


class Calendar(OrderedItems):
    """Dense items, each with an instant or none. What a round does can be undone until it commits."""

    def __init__(self, distances_us: Iterable[int] = ()) -> None:
        super().__init__()
        self.n_visited = 0  # items that time has passed, over all rounds
        self._bound = NO_TIME  # no item is due before it; NO_TIME: it is to be found
        self._bound_before: int | None = None  # that of the last commit, if it changed
        self._distances = np.empty(0, np.int64)
        self.build(distances_us)

    def build(self, distances_us: Iterable[int]) -> None:
        """The distances at which items are due from now on."""
        self._distances = np.array(sorted(set(distances_us)), np.int64)
        self._bound = NO_TIME

    def put(self, items: Ints, numbers: Ints) -> None:
        """Give items, all different, other instants; NO_TIME takes one out."""
        super().put(items, numbers)
        first = int(numbers[numbers != NO_TIME].min(initial=_NEVER))
        if len(self._distances) and first + int(self._distances[0]) < self._bound:
            self._set_bound(NO_TIME)

    def pass_time(self, before_us: int | None, now_us: int) -> Ints:
        """The items that are due in (before, now], ascending; before None: at now or ever before."""
        if now_us < self._bound or not len(self._distances):
            return np.empty(0, np.int64)
        low = None if before_us is None else before_us - self._distances
        items = self.within(low, now_us - self._distances)
        self._set_bound(self._next_due(now_us))
        self.n_visited += len(items)
        return items

    def next_deadline(self, now_us: int) -> int | None:
        """An instant after now before which no item is due; None: none is ever."""
        if self._bound <= now_us:
            self._set_bound(self._next_due(now_us))
        return None if self._bound >= _NEVER else self._bound

    def renumbered(self, items: Ints) -> Calendar:
        """The same for these items alone, between rounds: the first of them is item 0, and so on."""
        other = Calendar(self._distances.tolist())
        other.put(np.arange(len(items)), self.numbers(items))
        other.commit()
        other.n_visited = self.n_visited
        return other

    def commit(self) -> None:
        super().commit()
        self._bound_before = None

    def rollback(self) -> None:
        super().rollback()
        if self._bound_before is not None:
            self._bound = min(self._bound, self._bound_before)
        self._bound_before = None

    def _set_bound(self, bound: int) -> None:
        if self._bound_before is None:
            self._bound_before = self._bound
        self._bound = bound

    def _next_due(self, now_us: int) -> int:
        """The first time after now at which an item is due, or _NEVER."""
        next_due = _NEVER
        for at in range(len(self._runs) if len(self._distances) else 0):
            due, n_looked = self._first_due(self._runs[at], now_us)
            next_due = min(next_due, due)
            if n_looked > max(FEW, len(self._runs[at][0]) // _STALE):
                self._runs[at] = self._merged([self._runs[at]])
        return next_due

    def _first_due(self, run: Run, now_us: int) -> tuple[int, int]:
        """Of one run, the first time after now at which an item is due; and how far that was to look, at most."""
        instants, items = run
        place = np.searchsorted(instants, now_us - self._distances, side="right")
        place, smallest = np.unique(
            place, return_index=True
        )  # of several distances at one place the smallest is first
        distance, n_passed, n_looked, first = self._distances[smallest], 0, _SCAN, _NEVER
        while len(open_ := np.flatnonzero(place < len(items))):
            place, distance = place[open_], distance[open_]
            looked = np.minimum(place[:, None] + np.arange(n_looked), len(items) - 1)
            live = self._number[items[looked]] == instants[looked]
            found = live.any(axis=1)
            at = looked[found, live[found].argmax(axis=1)]
            first = min(first, int((instants[at] + distance[found]).min(initial=_NEVER)))
            n_passed += 0 if found.all() else n_looked
            place, distance = place[~found] + n_looked, distance[~found]
            n_looked = min(4 * n_looked, _LONG_SCAN)
        return first, n_passed


def distances_of(bounds: Sequence[TemporalBound]) -> dict[str, set[int]]:
    """By column, how long after its value comparisons with now() change."""
    found: dict[str, set[int]] = {}
    for bound in bounds:
        distances = {d for d in (bound.leave_us, bound.enter_us) if d is not None}
        found[bound.column] = found.get(bound.column, set()) | distances
    return found
