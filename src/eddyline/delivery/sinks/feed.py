"""One sink and its cursor: which results it wants, how far it has them, and what happens while it fails."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.delivery.sinks.batches import ResultBatch, result_batch
from eddyline.delivery.sinks.sink import Sink, SinkError
from eddyline.storage.outbox import StoredPart

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
MOST_BEHIND = 1_000  # rounds without anything for a sink move its cursor too, but not one by one


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What a sink's filter looks at."""

    name: str
    stream: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which results a sink wants: of queries whose names match a pattern, of streams; nothing given: all."""

    queries: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()

    def has(self, facts: QueryFacts) -> bool:
        if self.queries and not any(fnmatch.fnmatchcase(facts.name, pattern) for pattern in self.queries):
            return False
        return not self.streams or facts.stream.lower() in {stream.lower() for stream in self.streams}


class SinkFeed:
    """Hands a sink the results behind its cursor, in round order, and moves the cursor once the sink has them for good."""

    def __init__(
        self,
        sink: Sink,
        wanted: Wanted,
        *,
        cursor: int,
        facts_of: Callable[[int, int], QueryFacts],
        acknowledge: Callable[[int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`facts_of(query_id, generation)` says what a query is; `acknowledge(round)` stores the cursor."""
        self.sink = sink
        self.cursor = cursor  # the last round the sink has for good
        self._read_to = cursor  # the last round it was given
        self._wanted = wanted
        self._facts_of = facts_of
        self._acknowledge = acknowledge
        self._clock = clock
        self._pause_s = FIRST_PAUSE_S
        self._resume_at = 0.0

    @property
    def read_to(self) -> int:
        """Results of later rounds are what it is to be given next."""
        return self._read_to

    @property
    def is_paused(self) -> bool:
        """Whether it failed a moment ago."""
        return self._clock() < self._resume_at

    @property
    def is_behind(self) -> bool:
        """Whether it was given results it does not have for good yet."""
        return self.cursor < self._read_to

    def offer(self, rounds: Iterable[tuple[int, Sequence[StoredPart]]], last_round: int) -> None:
        """Give it the results of later rounds, up to `last_round`. Raises SinkError; they will be given again."""
        try:
            for round_number, parts in rounds:
                if round_number <= self._read_to:
                    continue
                batches = [batch for part in parts if (batch := self._batch(round_number, part)) is not None]
                if batches:
                    self.sink.write(round_number, batches)
                self._read_to = round_number
                if self.sink.is_due():
                    self._flush()
            self._read_to = max(self._read_to, last_round)
        except SinkError:
            self._fail()
            raise

    def flush(self, *, only_if_due: bool = False) -> None:
        """Let the sink make last what it was given. Raises SinkError."""
        try:
            is_far_behind = self._read_to - self.cursor > MOST_BEHIND
            if self.is_behind and (not only_if_due or is_far_behind or self.sink.is_due()):
                self._flush()
        except SinkError:
            self._fail()
            raise

    def _flush(self) -> None:
        if self.sink.flush():
            self._pause_s = FIRST_PAUSE_S
            self._acknowledge(self._read_to)
            self.cursor = self._read_to

    def _fail(self) -> None:
        """Start again behind the cursor, after a pause that grows."""
        self.sink.forget(self.cursor)
        self._read_to = self.cursor
        self._resume_at = self._clock() + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _batch(self, round_number: int, part: StoredPart) -> ResultBatch | None:
        """The results of a part that this sink wants."""
        keys, places = np.unique(
            np.stack([part.query_ids, part.generations], axis=1), axis=0, return_inverse=True
        )
        facts = [self._facts_of(int(query_id), int(generation)) for query_id, generation in keys]
        wanted = np.array([self._wanted.has(each) for each in facts], dtype=bool)
        pairs = np.flatnonzero(wanted[places.reshape(-1)])
        if not len(pairs):
            return None
        names = {int(query_id): each.name for (query_id, _), each in zip(keys, facts, strict=True)}
        return result_batch(round_number, part, pairs, names.__getitem__)
