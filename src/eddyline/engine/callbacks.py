"""Callbacks of queries: each is called with the results of its query, after the round is final. The caller holds the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from eddyline.batch import PartMatches
from eddyline.filters import FilterOutput
from eddyline.hit_matches import HitMatches
from eddyline.model import Round
from eddyline.storage import StoredPart

ResultCallback = Callable[[Round, PartMatches | StoredPart], None]


class Callbacks:
    """The callbacks of one engine, by query."""

    def __init__(self) -> None:
        self._by_query: dict[int, list[ResultCallback]] = {}

    def __len__(self) -> int:
        return len(self._by_query)

    def add(self, query_id: int, callback: ResultCallback) -> None:
        self._by_query.setdefault(query_id, []).append(callback)

    def remove(self, query_id: int, callback: ResultCallback) -> None:
        """End one; nothing happens if it has ended."""
        callbacks = self._by_query.get(query_id, [])
        if callback in callbacks:
            callbacks.remove(callback)
        if not callbacks:
            self._by_query.pop(query_id, None)

    def forget(self, query_ids: Iterable[int]) -> None:
        """End those of dropped queries."""
        for query_id in query_ids:
            self._by_query.pop(query_id, None)

    def deliver(
        self,
        round_: Round,
        matches: Sequence[HitMatches | PartMatches | StoredPart],
        outputs: Mapping[str, FilterOutput] | None,
        name_of: Callable[[int], str],
        on_fault: Callable[[str, Exception], None],
    ) -> None:
        """Call those whose queries have results: in `outputs`, or, where tasks have filtered, in the parts they stored."""
        if not self._by_query:
            return
        if outputs is None:
            for part in matches:
                assert isinstance(part, StoredPart), part
                for query_id in sorted(set(part.query_ids.tolist()) & set(self._by_query)):
                    narrowed = part.narrow_copy(np.flatnonzero(part.query_ids == query_id))
                    self._call(query_id, round_, narrowed, name_of, on_fault)
            return
        for output in outputs.values():
            subscribed = output.only(list(self._by_query))
            for query_id in subscribed.query_ids().tolist():
                for part_of in subscribed.parts_of(query_id):
                    self._call(query_id, round_, part_of, name_of, on_fault)

    def _call(
        self,
        query_id: int,
        round_: Round,
        part: PartMatches | StoredPart,
        name_of: Callable[[int], str],
        on_fault: Callable[[str, Exception], None],
    ) -> None:
        callbacks = list(self._by_query.get(query_id, ()))
        name = name_of(query_id) if callbacks else ""  # before one of them drops the query
        for callback in callbacks:
            if query_id not in self._by_query:  # an earlier one dropped the query
                return
            try:
                callback(round_, part)
            except Exception as error:  # a subscriber's fault is an event, and never reaches another
                on_fault(name, error)
