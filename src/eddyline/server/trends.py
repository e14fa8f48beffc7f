"""How many results each rule had, minute by minute for some hours: the little lines of the dashboard, which survive a reload.

Memory is bounded however many rules there are. The engine counts results of every query anyway; once a minute the difference to
the minute before is kept, of the MOST_RULES most active queries alone. Queries registered together (a template, a rules table)
have numbers that follow each other, so their sum is one number, kept for the MOST_SPANS newest of such
registrations. That is at most MINUTES * (MOST_RULES * 8 + MOST_SPANS * 16) bytes, 20 MB, and one counter for each query.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.engine import RoundEngine
from eddyline.events import Event, RoundCommitted

MINUTES = 180
MOST_RULES = 10_000  # of a minute
MOST_SPANS = 2_000

Counts = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Minute:
    """Results of one minute: of the most active queries, by ascending number; and of registrations, by their first number."""

    number: int  # since 1970
    ids: Ids
    counts: npt.NDArray[np.int32]
    spans: dict[int, int]
    is_whole: bool = True  # else others were active too, less than these

    def of(self, ids: Ids) -> npt.NDArray[np.float64]:
        """Results of these queries; NaN where that is not known."""
        found = np.full(len(ids), 0.0 if self.is_whole else np.nan)
        if len(self.ids):
            at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
            is_kept = self.ids[at] == ids
            found[is_kept] = self.counts[at[is_kept]]
        return found


@dataclass(frozen=True, slots=True)
class Members:
    """Rules that are shown as one: spans of numbers that belong to them, and the numbers outside of these."""

    spans: tuple[tuple[int, int], ...]  # first, how many
    others: Ids


class Trends:
    """Follows the counters of an engine. Safe from any thread."""

    def __init__(self, rounds: RoundEngine, clock: Callable[[], float] = time.time) -> None:
        self._rounds = rounds
        self._clock = clock
        self._guard = threading.Lock()
        self._minutes: deque[Minute] = deque(maxlen=MINUTES)
        with rounds.lock:
            self._before = rounds.results.produced_counts()
        self._began = self._number()

    def _number(self) -> int:
        return int(self._clock() // 60)

    def observe(self, event: Event) -> None:
        """A round is final. The first of a minute closes the one before; the engine's lock is held."""
        if isinstance(event, RoundCommitted) and self._number() != self._began:
            self._close(event.round_number)

    def _close(self, round_number: int | None) -> None:
        """End the minute that was begun. Results of `round_number` are of the next one."""
        with self._guard:
            number = self._number()
            if number == self._began:
                return
            results = self._rounds.results
            now = results.produced_counts() if round_number is None else results.produced_before(round_number)
            new = now.copy()
            new[: len(self._before)] -= self._before[: len(now)]
            self._minutes.append(self._minute(np.maximum(new, 0)))
            self._before, self._began = now, number

    def _minute(self, new: Counts) -> Minute:
        active = np.flatnonzero(new)
        is_whole = len(active) <= MOST_RULES
        if not is_whole:
            most = np.argpartition(new[active], -MOST_RULES)[-MOST_RULES:]
            active = np.sort(active[most])
        sums = np.concatenate([[0], np.cumsum(new)])
        spans = {}
        for first, n in self._rounds.catalog.queries.spans()[-MOST_SPANS:]:
            low, high = min(first, len(new)), min(first + n, len(new))
            if sums[high] > sums[low]:
                spans[first] = int(sums[high] - sums[low])
        counts = np.minimum(new[active], np.iinfo(np.int32).max).astype(np.int32)
        return Minute(self._began, active.astype(np.int32), counts, spans, is_whole)

    def of(self, ids: Ids, minutes: int) -> list[list[int | None]]:
        """Results of each of these queries in each of the last minutes, the newest last; None where it is not known."""
        closed, running = self._last(minutes)
        table = np.zeros((len(ids), minutes))
        for at, minute in closed:
            table[:, at] = minute.of(ids)
        table[:, -1] = running(ids)
        return [[None if np.isnan(n) else int(n) for n in row] for row in table.tolist()]

    def of_families(self, families: Sequence[Members], minutes: int) -> list[list[int | None]]:
        """The same of rules that are shown as one."""
        closed, running = self._last(minutes)
        found: list[list[int | None]] = []
        for family in families:
            line: list[int | None] = [0] * minutes
            for at, minute in closed:
                others = float(np.nansum(minute.of(family.others))) if len(family.others) else 0.0
                line[at] = int(others) + sum(minute.spans.get(first, 0) for first, _ in family.spans)
            every = [np.arange(first, first + n, dtype=np.int32) for first, n in family.spans]
            line[-1] = int(running(np.concatenate([family.others, *every])).sum())
            found.append(line)
        return found

    def _last(self, minutes: int) -> tuple[list[tuple[int, Minute]], Callable[[Ids], Counts]]:
        """Closed minutes with their places among the last ones, and what counts since."""
        with self._rounds.lock:
            self._close(None)
            results = self._rounds.results
            with self._guard:
                now, before = self._began, self._before
                shown_minutes = [(minutes - 1 - (now - m.number), m) for m in self._minutes]

        def running(ids: Ids) -> Counts:
            inside = ids < len(before)
            earlier = np.zeros(len(ids), np.int64)
            earlier[inside] = before[ids[inside]]
            with self._rounds.lock:
                return np.maximum(0, results.produced_by(ids) - earlier)

        return [(at, minute) for at, minute in shown_minutes if 0 <= at < minutes - 1], running
