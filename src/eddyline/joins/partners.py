"""What an input holds, as partners: the window of a stream, or a table.

Of a window, that is what the SteM finds less what came too late or lies in no window. Of a table, the rows as they were
when the driver came, or as they were at its event time; of a view over tables, as they were before the round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from eddyline.joins.plan import Drivers, Needs, has_bit
from eddyline.joins.probe_matches import Evaluate, Key, ProbeMatches
from eddyline.joins.probing import PartnerMarks, cross_product
from eddyline.joins.ranges import RangeProbe
from eddyline.joins.retention import near
from eddyline.joins.shared_probes import RememberedHop
from eddyline.joins.stem import Stem
from eddyline.joins.table import KeyedTable
from eddyline.joins.version_chains import ALWAYS
from eddyline.joins.view_table import ViewTable
from eddyline.model import END_OF_ARRIVALS, Column, Expression
from eddyline.operators import Numbers

FIRST_TRIES = 4  # rows that are compared at first where one is enough; as many times more each time none of them will do
_NO_ROW = -1


@dataclass(slots=True)
class WindowPartner:
    """An input with stored rows, as one origin sees it in one round."""

    stem: Stem
    evaluate: Evaluate
    origin: int
    meets_own: bool  # whether a row may be here and at the origin at once: it counts at one of both only
    bit: int  # of `wants`: rows without it are of no use to the signature here
    first_version: int
    needs: tuple[Needs, ...]
    now_us: int
    n_counted: Callable[[Numbers], Numbers]  # by arrival number of a driver: rows of the stream up to it
    pairs_at_once: int
    shared_hop: RememberedHop | None = None  # that leads here, if other signatures have it too
    range_probe: RangeProbe | None = None  # where no equality leads here

    def find(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        if key:
            return self._usable(self._with_key(key, values, drivers.arrival[of]), drivers, of)
        if self.range_probe is not None:
            return self._in_range(self.range_probe, drivers, of)
        rows = self.stem.numbers.every_row()
        if not len(rows):
            return ProbeMatches(np.empty(0, np.int64), np.empty(0, np.int64))
        step = max(1, self.pairs_at_once // len(rows))
        found = []
        for first in range(0, len(of), step):
            some_drivers = of[first : first + step]
            some = self._usable(cross_product(len(some_drivers), rows), drivers, some_drivers)
            found.append(ProbeMatches(some.probes + first, some.rows))
        return _together(found, n_looked_at=len(of) * len(rows))

    def _in_range(self, probe: RangeProbe, drivers: Drivers, of: Numbers) -> ProbeMatches:
        """Rows that an ordered index gives, some drivers at a time."""
        rows = drivers.rows.take(pa.array(of))
        bounds = [(operator, self.evaluate(value, rows)) for operator, value in probe.bounds]
        ranges = self.stem.probe_range(probe.key, bounds)
        totals = np.cumsum(ranges.totals)
        found, first = [], 0
        while first < len(of):
            before = int(totals[first - 1]) if first else 0
            stop = max(first + 1, int(np.searchsorted(totals, before + self.pairs_at_once, side="right")))
            pairs = ProbeMatches(*ranges.rows(first, stop, self.stem.numbers.present_rows))
            found.append(self._usable(pairs, drivers, of))
            first = stop
        return _together(found, n_looked_at=int(ranges.totals.sum()))

    def find_first(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        if not key or self.shared_hop is not None:
            return self.find(key, values, drivers, of).first_of_each()
        first = np.full(len(of), _NO_ROW, np.int64)
        open_places, n_skipped, most, n_looked_at = np.arange(len(of)), 0, FIRST_TRIES, 0
        while len(open_places):
            some, has_more = self.stem.probe_some(
                key, _some(values, open_places), n_skipped=n_skipped, most=most
            )
            n_looked_at += some.n_looked_at or 0
            found = self._usable(some, drivers, of[open_places]).first_of_each()
            first[open_places[found.probes]] = found.rows
            open_places = open_places[has_more & (first[open_places] == _NO_ROW)]
            n_skipped, most = n_skipped + most, FIRST_TRIES * most
        probes = np.flatnonzero(first != _NO_ROW)
        return ProbeMatches(probes, first[probes], n_looked_at=n_looked_at)

    def _with_key(self, key: Key, values: Sequence[pa.Array], arrival: Numbers) -> ProbeMatches:
        """All rows that have the key, whatever window they are in."""
        if self.shared_hop is None:
            return self.stem.probe(key, values)
        return self.shared_hop.find(arrival, lambda places: self.stem.probe(key, _some(values, places)))

    def values(self, rows: Numbers, expressions: Sequence[Expression]) -> list[pa.Array]:
        return _values(self, rows, expressions, self.evaluate)

    def take(self, rows: Numbers, columns: Sequence[str]) -> list[pa.Array]:
        return self.stem.rows.take(rows, columns)

    def marks(self, rows: Numbers, drivers: Drivers, of: Numbers) -> PartnerMarks:
        stored = self.stem.rows
        return PartnerMarks(
            stored.arrival[rows],
            stored.time_us[rows],
            stored.version[rows],
            stored.position[rows],
            stored.now_us[rows],
        )

    def _usable(self, found: ProbeMatches, drivers: Drivers, of: Numbers) -> ProbeMatches:
        """Matches that came before their driver, that the signature wanted, and that some window may hold."""
        stored, rows = self.stem.rows, found.rows
        if not len(rows):
            return found
        driver = of[found.probes]
        came, latest = stored.arrival[rows], drivers.arrival[driver]
        mask = came <= latest if self.meets_own else came < latest
        mask &= has_bit(stored.wants, self.bit, rows)
        mask &= stored.version[rows] >= self.first_version
        n_looked_at = len(rows) if found.n_looked_at is None else found.n_looked_at
        n_rows = any(need.n_rows is not None for need in self.needs)
        behind = self.n_counted(latest) - stored.position[rows] if n_rows else rows
        in_window = near(
            self.needs,
            self.origin,
            behind,
            self.now_us - stored.now_us[rows],
            stored.time_us[rows],
            drivers.time_us[driver],
        )
        if in_window is not None:
            mask &= in_window
        return replace(found, probes=found.probes[mask], rows=rows[mask], n_looked_at=n_looked_at)


@dataclass(slots=True)
class TablePartner:
    """A table, as the drivers find it."""

    table: KeyedTable
    evaluate: Evaluate
    is_as_of: bool  # they find it as it was at their event time
    meets_own: bool  # changes of the table itself drive, and see it with these changes already made
    shared_hop: RememberedHop | None = None  # that leads here, if other signatures have it too

    def find(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        if self.shared_hop is None:
            return self._probe(key, values, drivers, of)
        return self.shared_hop.find(
            drivers.arrival[of], lambda places: self._probe(key, _some(values, places), drivers, of[places])
        )

    def find_first(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        return self.find(key, values, drivers, of).first_of_each()

    def _probe(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        if self.is_as_of:
            return self.table.probe_as_of(key, values, drivers.time_us[of], drivers.arrival[of])
        return self.table.probe_at(key, values, drivers.arrival[of], includes_own=self.meets_own)

    def values(self, rows: Numbers, expressions: Sequence[Expression]) -> list[pa.Array]:
        return _values(self, rows, expressions, self.evaluate)

    def take(self, rows: Numbers, columns: Sequence[str]) -> list[pa.Array]:
        return self.table.take(rows, columns)

    def marks(self, rows: Numbers, drivers: Drivers, of: Numbers) -> PartnerMarks:
        """All queries see its latest rows, kept from its declaration on; earlier rows only queries registered by then."""
        none = np.zeros(len(rows), np.int64)
        visible_versions = np.full(len(rows), ALWAYS, np.int64)
        if self.is_as_of:
            visible_versions = self.table.versions.known_versions(
                rows, drivers.time_us[of], drivers.arrival[of]
            )
        return PartnerMarks(self.table.arrival[rows], self.table.time_us[rows], visible_versions, none, none)


@dataclass(slots=True)
class ViewPartner(TablePartner):
    """A view over tables: rows of a round find it as it was before the round.

    What only the end of the round decides finds it with the changes of the round if it `meets_own`, and so do first answers.
    """

    table: ViewTable

    def _probe(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        first = END_OF_ARRIVALS if self.meets_own else ALWAYS
        at = np.where(drivers.arrival[of] >= first, ALWAYS, self.table.n_before)
        return self.table.probe_at(key, values, at)

    def marks(self, rows: Numbers, drivers: Drivers, of: Numbers) -> PartnerMarks:
        """All queries see its rows. Their arrival numbers are among their columns."""
        none, versions = np.zeros(len(rows), np.int64), np.full(len(rows), ALWAYS, np.int64)
        return PartnerMarks(none, self.table.time_us[rows], versions, self.table.arrival[rows], none)


def _together(found: Sequence[ProbeMatches], n_looked_at: int) -> ProbeMatches:
    none = np.empty(0, np.int64)
    return ProbeMatches(
        np.concatenate([none, *(each.probes for each in found)]),
        np.concatenate([none, *(each.rows for each in found)]),
        n_looked_at=n_looked_at,
    )


def _some(values: Sequence[pa.Array], places: Numbers) -> Sequence[pa.Array]:
    if len(places) == len(values[0]):
        return values
    return [each.take(pa.array(places)) for each in values]


def _values(
    partner: WindowPartner | TablePartner,
    rows: Numbers,
    expressions: Sequence[Expression],
    evaluate: Evaluate,
) -> list[pa.Array]:
    """What expressions give on some rows of a partner."""
    names = sorted({n.name for e in expressions for n in e.walk() if isinstance(n, Column)})
    batch = pa.RecordBatch.from_arrays(partner.take(rows, names), names=names)
    return [evaluate(expression, batch) for expression in expressions]
