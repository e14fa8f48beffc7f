"""How many groups a class may keep, for each kind of grouping: rows that would begin one more are refused, and counted.

A row is refused for the structure alone; other classes, and rows of groups that are there, go on. Groups begin in the order of
their first rows. Those that leave with a round make room for the next one. Over tables there is no limit: a row that was refused
could not leave again. Filters on now() share rows: under a limit a query with a shorter one may lose rows to the groups of a
longer one in its class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from eddyline.aggregates import ClassRows, OverRows, Structure
from eddyline.engine.aggregate_files import Form
from eddyline.events import GroupsRefused


class GroupLimit:
    """The limit, and what was refused by class and kind. What a round refuses counts once it has committed."""

    def __init__(self, most_groups: int | None) -> None:
        self._most_groups = most_groups  # None: as many as come
        self.n_refused: Counter[Form] = Counter()  # rows, since the engine was opened
        self._refusing: set[Form] = set()  # forms whose last rows were refused in part: that was announced
        self._round: dict[Form, int] = {}  # rows that the running round refuses

    def admitted(
        self, structures: Mapping[Form, Structure | OverRows], rows: ClassRows, now_us: int
    ) -> ClassRows:
        """The rows that all of these take in: their groups are kept, or begin with them."""
        if self._most_groups is None or not len(rows):
            return rows
        is_refused = np.zeros(len(rows), dtype=bool)
        for form, structure in structures.items():
            refused = structure.beyond(rows, now_us, self._most_groups) & ~is_refused
            self._round[form] = rows.take(np.flatnonzero(refused)).n_rows
            is_refused |= refused
        return rows.take(np.flatnonzero(~is_refused)) if is_refused.any() else rows

    def commit(self, round_number: int, streams: Mapping[Form, str]) -> list[GroupsRefused]:
        """Keep the counts of the round; returns an event for each form that begins to refuse rows, of these streams."""
        found = []
        for form, n_rows in self._round.items():
            if n_rows and form not in self._refusing:
                assert self._most_groups is not None
                found.append(GroupsRefused(round_number, streams.get(form, ""), n_rows, self._most_groups))
            (self._refusing.add if n_rows else self._refusing.discard)(form)
            self.n_refused[form] += n_rows
        self._round = {}
        return found

    def rollback(self) -> None:
        self._round = {}

    def keep(self, forms: Mapping[Form, object]) -> None:
        """Forget all other forms."""
        self.n_refused = Counter({form: n for form, n in self.n_refused.items() if form in forms})
        self._refusing &= forms.keys()
