"""From new rows of one input to the combinations they make with what other inputs hold.

Papers: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002 (SteMs, probes);
Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004 (drop probing).

    papers           here       meaning
    driver, s_0      driver     the new row that looks for partners; the latest of its combination
    drop probing     _probe     inputs are probed in turn; a driver that finds nothing is dropped before the next
    output phase     _expand    the matches that were found become combinations; nothing is probed again

A combination is made by its latest row alone: a partner must have come before the driver or, in a self-join, be the driver's own
row at an earlier place of the signature. No intermediate result outlives a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.joins.join_tree import JoinTree
from eddyline.joins.plan import Drivers
from eddyline.joins.probe_matches import Key, ProbeMatches
from eddyline.joins.probe_order import ProbeOrder
from eddyline.joins.residuals import BoundValues, ValueIndex, has_counterpart, residual_comparisons
from eddyline.model import DEFAULT_CHOICES, END_OF_ARRIVALS, Expression
from eddyline.operators import Numbers

T = TypeVar("T")


class PartnerMarks(NamedTuple):
    """What is known of rows besides their columns, one entry each."""

    arrival: Numbers
    time_us: Numbers
    version: Numbers  # of the round they came in
    position: Numbers
    now_us: Numbers


class Partner(Protocol):
    """What an input holds, seen from one origin."""

    def find(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        """Rows that match `values` and may join: value k was asked for by driver `of[k]`. Pairs by value, ascending."""

    def find_first(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        """One row of those that `find` gives for each value, where only it matters whether there is any."""

    def values(self, rows: Numbers, expressions: Sequence[Expression]) -> list[pa.Array]:
        """What expressions over the input's columns give on some of its rows."""

    def take(self, rows: Numbers, columns: Sequence[str]) -> list[pa.Array]:
        """Columns of some of its rows."""

    def marks(self, rows: Numbers, drivers: Drivers, of: Numbers) -> PartnerMarks:
        """What else is known of rows, each found by driver `of[k]`."""


@dataclass(slots=True)
class Combinations:
    """What some drivers made: for each input the rows of its partner, side by side; of the origin the drivers' places."""

    rows: dict[int, Numbers]

    def __len__(self) -> int:
        return len(self.rows[next(iter(self.rows))])


@dataclass(slots=True)
class ProbeCounters:
    """Work done, for explain and benchmarks."""

    n_drivers: int = 0
    n_matched_drivers: int = 0  # of those, the ones with partners in every input
    n_probes: int = 0  # rows with which an input was probed
    n_shared: int = (
        0  # rows whose partners in an input an earlier probe of another signature, or of a sample, had found
    )
    n_looked_at: int = 0  # rows that were compared to find partners
    n_matches: int = 0  # partners found, before further conditions
    n_partial: int = 0  # combinations listed on the way, input by input; those of all inputs too
    n_combinations: int = 0
    probe_s: float = 0.0  # seconds of probing
    output_s: float = 0.0  # and of making combinations

    def add(self, other: ProbeCounters) -> None:
        """Count what was done elsewhere too."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class _Level:
    """Partners found in one input: behind which partner of the parent (or driver), for which driver, and which row."""

    parent: Numbers
    driver: Numbers
    row: Numbers


@dataclass(slots=True)
class ProbeOrigin:
    """Probes from one input of a signature."""

    tree: JoinTree
    order: ProbeOrder
    evaluate: Callable[[Expression, pa.RecordBatch], pa.Array]
    clock: Callable[[], float] = time.perf_counter
    counters: ProbeCounters = field(default_factory=ProbeCounters)

    def join(
        self,
        drivers: Drivers,
        partners: dict[int, Partner],
        at_once: int = DEFAULT_CHOICES.combinations_at_once,
        *,
        needs_one: bool = False,
    ) -> Iterator[Combinations]:
        """All combinations of these drivers, about so many at a time; of two inputs one for each driver, if that is enough."""
        self.counters.n_drivers += len(drivers)
        end = 0
        while end < len(drivers):
            at_most = min(at_once, self.order.slice_rows(end, len(drivers) - end))
            first, end = end, _whole(drivers.arrival, end + at_most)
            some = drivers if end - first == len(drivers) else drivers.take(np.arange(first, end))
            self._profile(some, partners)
            order = self.order.order(len(some))
            alive, levels = self._probe(some, partners, order, needs_one=needs_one)
            self.counters.n_matched_drivers += len(alive)
            for found in self._expand(alive, levels, order, some, partners, at_once):
                found.rows[self.tree.origin] += first
                self.counters.n_combinations += len(found)
                yield found

    def timed(self, made: Iterator[T]) -> Iterator[T]:
        """What is made of combinations; the time it takes is counted."""
        while True:
            began, probe_s = self.clock(), self.counters.probe_s
            found = next(made, None)
            self.counters.output_s += self.clock() - began - (self.counters.probe_s - probe_s)
            if found is None:
                return
            yield found

    # ----------------------------------------------------------------------------------------- probing

    def _profile(self, drivers: Drivers, partners: dict[int, Partner]) -> None:
        """Let some drivers probe everything, also behind a probe that drops them, for the order to learn from."""
        n = min(self.order.sample(len(drivers)), len(drivers))
        if not n:
            return
        some = drivers.take(np.linspace(0, len(drivers) - 1, n).astype(np.int64))
        matched = np.zeros((n, len(self.tree)), dtype=bool)
        matched[:, self.tree.origin] = True
        levels: dict[int, _Level] = {}
        for place in self.tree.first_order:
            is_leaf = not self.tree.children[place]
            levels[place] = self._step(place, np.arange(n), levels, some, partners, needs_one=is_leaf)
            matched[levels[place].driver, place] = True
        self.order.profile(matched)

    def _probe(
        self, drivers: Drivers, partners: dict[int, Partner], order: Sequence[int], *, needs_one: bool
    ) -> tuple[Numbers, dict[int, _Level]]:
        """The drivers that found partners everywhere, and those partners."""
        alive = np.arange(len(drivers))
        levels: dict[int, _Level] = {}
        entered, passed = np.zeros(len(self.tree), np.int64), np.zeros(len(self.tree), np.int64)
        seconds = np.zeros(len(self.tree))
        bound = BoundValues(self.tree.origin, drivers, partners, self.evaluate)
        for place in order:
            entered[place] = len(alive)
            began = self.clock()
            if len(alive):
                level = self._step(place, alive, levels, drivers, partners, needs_one=needs_one)
                levels[place] = level
                alive = _distinct(level.driver, len(drivers))
                passed[place] = len(alive)
                if len(alive) and self.tree.residual:
                    levels[place] = level = self._confirmed(place, levels, bound)
                    alive = _distinct(level.driver, len(drivers))
            seconds[place] = self.clock() - began
        self.counters.probe_s += float(seconds.sum())
        self.order.learn(order, entered, passed, seconds)
        return alive, levels

    def _step(
        self,
        place: int,
        alive: Numbers,
        levels: dict[int, _Level],
        drivers: Drivers,
        partners: dict[int, Partner],
        *,
        needs_one: bool = False,
    ) -> _Level:
        """Probe one input with the rows its parent has for drivers that are alive; one partner of each may be enough."""
        tree = self.tree
        parent = tree.parents[place]
        if parent == tree.origin:
            entries, of = alive, alive
            rows = drivers.rows if len(alive) == len(drivers) else drivers.rows.take(pa.array(alive))
            values = [self.evaluate(key, rows) for key in tree.parent_keys[place]]
        else:
            above = levels[parent]
            is_alive = np.zeros(len(drivers), dtype=bool)
            is_alive[alive] = True
            entries = np.flatnonzero(is_alive[above.driver])
            of = above.driver[entries]
            values = partners[parent].values(above.row[entries], tree.parent_keys[place])
        find = partners[place].find_first if needs_one else partners[place].find
        found = find(tree.child_keys[place], values, drivers, of)
        self.counters.n_looked_at += len(found) if found.n_looked_at is None else found.n_looked_at
        self.counters.n_probes += len(entries) - found.n_shared
        self.counters.n_shared += found.n_shared
        self.counters.n_matches += len(found.rows)
        return _Level(entries[found.probes], of[found.probes], found.rows)

    def _confirmed(self, place: int, levels: dict[int, _Level], bound: BoundValues) -> _Level:
        """Partners in an input that residual equalities with inputs bound before it may leave."""
        level, everyone = levels[place], np.arange(len(bound.drivers))
        bound_levels = {**levels, self.tree.origin: _Level(everyone, everyone, everyone)}
        for each in residual_comparisons(self.tree, place, bound_levels):
            other = bound_levels[each.other]
            own = bound.of(place, level.row, each.own)
            theirs = bound.of(each.other, other.row, each.theirs)
            mask = has_counterpart(own, level.driver, theirs, other.driver)
            level = _Level(level.parent[mask], level.driver[mask], level.row[mask])
        return level

    # ----------------------------------------------------------------------------------------- output

    def _expand(
        self,
        alive: Numbers,
        levels: dict[int, _Level],
        order: Sequence[int],
        drivers: Drivers,
        partners: dict[int, Partner],
        at_once: int,
    ) -> Iterator[Combinations]:
        if not len(alive):
            return
        bound = BoundValues(self.tree.origin, drivers, partners, self.evaluate)
        indexes: dict[int, ValueIndex] = {}
        totals = np.cumsum(self._totals(alive, levels, order, len(drivers)))
        arrival = drivers.arrival[alive]
        first = 0
        while first < len(alive):
            before = int(totals[first - 1]) if first else 0
            stop = int(np.searchsorted(totals, before + at_once, side="right"))
            stop = _whole(arrival, max(first + 1, stop))
            found = self._combinations(alive[first:stop], levels, order, bound, indexes)
            if len(found):
                yield found
            first = stop

    def _totals(
        self, alive: Numbers, levels: dict[int, _Level], order: Sequence[int], n_drivers: int
    ) -> Numbers:
        """How many combinations each driver makes."""
        tree = self.tree
        n_entries = {place: len(level.row) for place, level in levels.items()} | {tree.origin: n_drivers}
        ways = {place: np.ones(n, np.int64) for place, n in n_entries.items()}
        for place in reversed(order):  # children before parents
            parent, level = tree.parents[place], levels[place]
            below = np.bincount(level.parent, weights=ways[place], minlength=n_entries[parent])
            ways[parent] *= below.astype(np.int64)
        return ways[tree.origin][alive]

    def _combinations(
        self,
        drivers: Numbers,
        levels: dict[int, _Level],
        order: Sequence[int],
        bound: BoundValues,
        indexes: dict[int, ValueIndex],
    ) -> Combinations:
        """All that these drivers make; `indexes` are by input and hold for all drivers."""
        tree = self.tree
        entries = {tree.origin: drivers}  # by input: which of its partners each combination has
        for place in order:
            level, above = levels[place], entries[tree.parents[place]]
            comparisons = residual_comparisons(tree, place, entries) if tree.residual else []
            if comparisons:
                if place not in indexes:
                    own = [bound.of(place, level.row, each.own) for each in comparisons]
                    indexes[place] = ValueIndex(level.parent, own)
                theirs = [
                    bound.of(each.other, self._rows(each.other, entries, levels), each.theirs)
                    for each in comparisons
                ]
                again, below = indexes[place].find(above, theirs)
            else:
                low = np.searchsorted(level.parent, above, side="left")
                counts = np.searchsorted(level.parent, above, side="right") - low
                again = np.repeat(np.arange(len(above)), counts)
                within = np.arange(len(again)) - np.repeat(np.cumsum(counts) - counts, counts)
                below = low[again] + within
            entries = {which: each[again] for which, each in entries.items()}
            entries[place] = below
            self.counters.n_partial += len(below)
        return Combinations({place: self._rows(place, entries, levels) for place in (tree.origin, *order)})

    def _rows(self, place: int, entries: dict[int, Numbers], levels: dict[int, _Level]) -> Numbers:
        """The rows that entries of an input are; of the origin the drivers' places."""
        return entries[place] if place == self.tree.origin else levels[place].row[entries[place]]


def _whole(arrival: Numbers, end: int) -> int:
    """Where drivers that are cut behind so many really end: those of one number, rows of a view, stay together.

    What they make is put in order as a whole. Drivers that meet all rows have no number.
    """
    if end >= len(arrival) or arrival[end - 1] > END_OF_ARRIVALS:
        return min(end, len(arrival))
    return int(np.searchsorted(arrival, arrival[end - 1], side="right"))


def cross_product(n_values: int, rows: Numbers) -> ProbeMatches:
    """Every value with every row."""
    return ProbeMatches(np.repeat(np.arange(n_values), len(rows)), np.tile(rows, n_values))


def _distinct(numbers: Numbers, n: int) -> npt.NDArray[np.int64]:
    is_there = np.zeros(n, dtype=bool)
    is_there[numbers] = True
    return np.flatnonzero(is_there)
