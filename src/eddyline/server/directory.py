"""Which queries there are, whose, and how they fare: a page of them at a time, also of a hundred thousand.

The list of queries follows the catalog (`listing.py`). What changes from round to round (results, errors, alerts) is kept by
query number in arrays, and looked up for those that are shown, or compared for all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.catalog import having_value, parameter_columns
from eddyline.engine import RoundEngine
from eddyline.model import QueryState
from eddyline.server.listing import ALONE, COSTS, STATES, Listing, Row, listing_after, listing_of

AT_ONCE = 2_000  # queries looked at while the lock is held
QUIET_US = 3_600_000_000  # a query without a result for so long is silent
SEARCHES_KEPT = 8
COSTLY_SHARE = 0.1  # of the measured work

STATUSES = ("suspended", "paused", "firing", "failing", "costly", "matching", "silent")
ATTENTION = ("firing", "failing", "suspended", "costly", "matching", "silent", "paused")  # in need


class LastResults:
    """The last round in which each query had a result, as far as memory knows; read from the log on request."""

    def __init__(self, rounds: RoundEngine) -> None:
        self._rounds = rounds
        self._guard = threading.Lock()
        self._next_entry = 0
        self._last = np.zeros(1024, np.int64)

    def of(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Round numbers, 0 where there was no result."""
        with self._guard:
            self._follow()
            found = np.zeros(len(ids), np.int64)
            known = ids < len(self._last)
            found[known] = self._last[ids[known]]
            return found

    def _follow(self) -> None:
        with self._rounds.lock:
            end = self._rounds.results.end
            new = self._rounds.results.entries_since(self._next_entry)
        self._next_entry = end
        for entry in new:
            ids = entry.queries()
            if not len(ids):
                continue
            highest = int(ids.max())
            if highest >= len(self._last):
                grown = np.zeros(max(highest + 1, 2 * len(self._last)), np.int64)
                grown[: len(self._last)] = self._last
                self._last = grown
            self._last[ids] = entry.round_number


class Directory:
    """Queries as lists show them. Safe from any thread."""

    def __init__(self, rounds: RoundEngine) -> None:
        self._rounds = rounds
        self._guard = threading.Lock()
        self._listing: Listing | None = None
        self._searched: dict[tuple[int, str | None, str], npt.NDArray[np.bool_]] = {}
        self.last_results = LastResults(rounds)

    def listing(self) -> Listing:
        """All queries of the current version."""
        listing = self._listing
        if listing is not None and listing.version == self._rounds.catalog.version:
            return listing
        with self._guard:
            listing = self._listing
            if listing is None or listing.version != self._rounds.catalog.version:
                listing = self._listing = self._new_listing()
            return listing

    def _new_listing(self) -> Listing:
        """From the list of an earlier version and what changed since, if that is known and little; else anew."""
        rounds, catalog, before = self._rounds, self._rounds.catalog, self._listing
        with rounds.lock:
            rounds.check_open()
            version = catalog.version
            changed = None
            if before is not None:
                changed = catalog.plans.changed_between(before.version, catalog.version)
            if before is not None and not before.is_worn and changed is not None and len(changed) <= AT_ONCE:
                return listing_after(before, version, {i: self._row(i) for i in changed.tolist()})
            ids = list(catalog.queries.ids())
        rows: dict[int, Row] = {}
        for first in range(0, len(ids), AT_ONCE):
            with rounds.lock:  # let go in between, so that no round waits for all of it
                rounds.check_open()
                found = ((query_id, self._row(query_id)) for query_id in ids[first : first + AT_ONCE])
                rows |= {query_id: row for query_id, row in found if row is not None}
        return listing_of(version, rows)

    def _row(self, query_id: int) -> Row | None:
        catalog = self._rounds.catalog
        state = catalog.queries.state(query_id)
        if state is QueryState.DROPPED:
            return None
        registration = catalog.queries.registration(query_id)
        return Row(
            registration.name(query_id),
            registration.text,
            registration.properties.owner,
            state,
            registration.shape,
        )

    def found(
        self,
        listing: Listing,
        *,
        owner: str | None,
        pattern: str | None = None,
        state: str | None = None,
        family: str | None = None,
    ) -> npt.NDArray[np.int64]:
        """Positions of the queries that fit, in order of registration; `pattern` is part of a name, text or parameter."""
        own = every = listing.of(owner)
        if state is not None:
            every = every[listing.state_numbers[every] == STATES.index(state)]
        if family is not None:
            every = every[listing.family_numbers[every] == self._family_number(listing, family)]
        if pattern:
            every = every[self._fitting(listing, own, owner, pattern)[every]]
        return every

    def _family_number(self, listing: Listing, key: str) -> int:
        """The number of a family; one that no rule has if there is none."""
        return next((n for family, n in listing.kinds.families.items() if family.key == key), ALONE - 1)

    def _fitting(
        self, listing: Listing, own: npt.NDArray[np.int64], owner: str | None, pattern: str
    ) -> npt.NDArray[np.bool_]:
        """Which queries of an owner fit a pattern. The page of a list asks again and again, so the last answers are kept."""
        key = listing.version, owner, pattern
        with self._guard:
            known = self._searched.get(key)
        if known is None:
            known = self._search(listing, own, pattern)
            with self._guard:
                self._searched[key] = known
                while len(self._searched) > SEARCHES_KEPT:
                    del self._searched[next(iter(self._searched))]
        return known

    def _search(self, listing: Listing, own: npt.NDArray[np.int64], pattern: str) -> npt.NDArray[np.bool_]:
        searched_text = pattern.casefold()
        match_of_text: dict[int, bool] = {}  # texts of a template are one object

        def in_text(at: int) -> bool:
            text = listing.texts[at]
            hit = match_of_text.get(id(text))
            if hit is None:
                hit = match_of_text[id(text)] = searched_text in text.casefold()
            return hit

        named = [at for at in own.tolist() if searched_text in listing.names[at].casefold() or in_text(at)]
        with self._rounds.lock:
            self._rounds.check_open()
            held = parameter_columns(self._rounds.catalog)
        fits = np.isin(listing.ids, having_value(held, pattern))
        fits[named] = True
        return fits

    def sorted(self, listing: Listing, positions: npt.NDArray[np.int64], sort: str) -> npt.NDArray[np.int64]:
        """The same positions, by name, or those with most results, highest cost, or the latest result first."""
        if sort == "name":
            is_in = np.zeros(len(listing.ids), dtype=bool)
            is_in[positions] = True
            return listing.by_name[is_in[listing.by_name]]
        ids = listing.ids[positions]
        n_results = self.n_results(ids)
        if sort == "last":
            return positions[np.lexsort((-n_results, -self.last_results.of(ids)))]
        if sort == "cost":
            work = self.function_shares(listing)[positions]
            return positions[np.lexsort((-n_results, -listing.costs[positions], -work))]
        return positions[np.argsort(-n_results, kind="stable")]

    def by_status(
        self, listing: Listing, positions: npt.NDArray[np.int64], statuses: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """The same positions, those that need attention first; within a status those with most results."""
        rank = np.array([ATTENTION.index(status) for status in STATUSES], np.int64)
        return positions[np.lexsort((-self.n_results(listing.ids[positions]), rank[statuses]))]

    def n_results(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        with self._rounds.lock:
            return self._rounds.results.produced_by(ids)

    def statuses(
        self, listing: Listing, positions: npt.NDArray[np.int64], open_alerts: Mapping[int, Mapping[str, int]]
    ) -> npt.NDArray[np.int64]:
        """How each of these queries fares, as a number of `STATUSES`: the first that applies."""
        ids = listing.ids[positions]
        with self._rounds.lock:
            failing = set(self._rounds.dead_letters.by_query)
        last = self.last_results.of(ids)
        is_costly = (self.function_shares(listing)[positions] >= COSTLY_SHARE) | (
            listing.costs[positions] == COSTS.index("matches everything")
        )
        statuses = np.where(last > self._quiet_round(), STATUSES.index("matching"), STATUSES.index("silent"))
        statuses[is_costly] = STATUSES.index("costly")
        firing = {query_id for query_id, n_open in open_alerts.items() if n_open.get("firing")}
        for named, status in ((failing, "failing"), (firing, "firing")):
            if named:
                statuses[np.isin(ids, np.fromiter(named, np.int64, len(named)))] = STATUSES.index(status)
        for state in ("paused", "suspended"):
            statuses[listing.state_numbers[positions] == STATES.index(state)] = STATUSES.index(state)
        return statuses

    def function_shares(self, listing: Listing) -> npt.NDArray[np.float64]:
        """The share of the measured work that calls of its functions take, of each query; those of one function divide it."""
        seconds = self._seconds()
        if not seconds.total or not seconds.functions:
            return np.zeros(len(listing.ids))
        users: dict[str, int] = {}
        counts = np.bincount(listing.shape_numbers, minlength=len(listing.shapes)).tolist()
        for shape, n in zip(listing.shapes, counts, strict=True):
            for name, _ in shape.functions:
                users[name] = users.get(name, 0) + n
        by_shape = [
            sum(seconds.functions.get(name, 0.0) / max(1, users[name]) for name, _ in shape.functions)
            for shape in listing.shapes
        ]
        return np.array(by_shape, np.float64)[listing.shape_numbers] / seconds.total

    def cost_shares(self, listing: Listing, positions: npt.NDArray[np.int64]) -> list[float | None]:
        """The share of the measured work each of these has: of the structure that serves it, and of its functions."""
        seconds = self._seconds()
        if not seconds.total:
            return [None] * len(positions)
        shares = self.function_shares(listing)[positions]
        found: list[float | None] = []
        for position, share in zip(positions.tolist(), shares.tolist(), strict=True):
            with self._rounds.lock:
                placed = self._rounds.placed(
                    listing.shapes[listing.shape_numbers[position]].stream, int(listing.ids[position])
                )
            if placed is not None and placed["n_queries"]:
                own_s = placed["ns_per_row"] * placed["n_rows"] / 1e9 / placed["n_queries"]
                share += own_s / seconds.total
            found.append(round(min(1.0, share), 6))
        return found

    def _seconds(self) -> _Seconds:
        """What was measured in this process: structures of the index, and functions."""
        with self._rounds.lock:
            functions = {name: c.seconds for name, c in self._rounds.functions.counters.items() if c.seconds}
            index_s = sum(
                structure["ns_per_row"] * structure["n_rows"] / 1e9
                for _, stage in self._rounds.stages()
                for structure in stage.structures()
            )
        return _Seconds(index_s + sum(functions.values()), functions)

    def _quiet_round(self) -> int:
        """The last round that is too long ago for its results to count as lively."""
        with self._rounds.lock:
            records = self._rounds.records.last(2_000)
        if not records:
            return 0
        since_us = records[-1].at_us - QUIET_US
        return max((record.round_number for record in records if record.at_us < since_us), default=0)

    def times(self, numbers: Iterable[int]) -> dict[int, int]:
        """When rounds were, in microseconds since 1970, as far as is known."""
        round_numbers = {number for number in numbers if number}
        with self._rounds.lock:
            found = {
                r.round_number: r.at_us
                for r in self._rounds.records.last(2_000)
                if r.round_number in round_numbers
            }
            durable = self._rounds.durable
            if durable is not None:
                for number in round_numbers - set(found):
                    at_us = durable.rounds.now_of(number)
                    if at_us is not None:
                        found[number] = at_us
        return found


@dataclass(frozen=True, slots=True)
class _Seconds:
    total: float
    functions: Mapping[str, float]
