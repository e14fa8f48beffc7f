"""Which queries are alert queries, and which of them ended since the last call.

The first is a mask by id, so that a round that matched none of them finds that out by a look at the ids it matched, however many
alert queries there are. An id that is marked stays so: ids are not used twice, and a round under way may still bring its rows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eddyline.catalog.queries import Registration
from eddyline.model import Properties, is_alert


class AlertEnd(NamedTuple):
    """From `version` on a generation of an alert query is no longer active: dropped, paused, suspended or replaced."""

    version: int
    query_id: int
    generation: int
    reason: str
    registration: Registration | None  # None: the disk knows


class AlertQueries:
    """The mask, and the list of ends."""

    def __init__(self) -> None:
        self.sinks: frozenset[str] = frozenset()  # that take alerts
        self.any = False
        self._no_alert: Properties | None = None  # a million queries of a home share one
        self._mask = np.zeros(1, dtype=bool)
        self._ends: list[AlertEnd] | None = []

    def note(self, registration: Registration) -> None:
        """Mark those of new queries that are alert queries."""
        if registration.properties is self._no_alert:
            return
        if is_alert(registration.properties, self.sinks):
            self.mark(range(registration.first_id, registration.first_id + registration.n))
        elif not registration.properties.deliver:  # which other sinks may change
            self._no_alert = registration.properties

    def mark(self, ids: range | Collection[int]) -> None:
        if not len(ids):
            return
        highest = ids[-1] if isinstance(ids, range) else max(ids)
        if highest + 1 >= len(self._mask):  # the last place stands for all ids above, and is never set
            grown = np.zeros(max(highest + 2, 2 * len(self._mask)), dtype=bool)
            grown[: len(self._mask)] = self._mask
            self._mask = grown
        if isinstance(ids, range):
            self._mask[ids.start : ids.stop] = True
        else:
            self._mask[list(ids)] = True
        self.any = True

    def among(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Which of these queries are alert queries, or were."""
        return np.take(self._mask, ids, mode="clip")

    def end(
        self, registration: Registration, query_id: int, generation: int, version: int, reason: str
    ) -> None:
        """Note that a query is active no longer."""
        if self._ends is not None and self.any and self._mask[min(query_id, len(self._mask) - 1)]:
            self._ends.append(AlertEnd(version, query_id, generation, reason, registration))

    def lose_ends(self) -> None:
        """The catalog was read from the disk: what ended is known there alone."""
        self._ends = None

    def take_ends(self) -> list[AlertEnd] | None:
        """Ends since the last call; None: they are not known, every alert has to be compared with the registered queries."""
        found, self._ends = self._ends, []
        return found
