"""One sink and its cursor: what it wants, how far it has it, and what happens while it fails."""

from __future__ import annotations

import fnmatch
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eddyline.backoff import Backoff
from eddyline.delivery.sinks.batches import Batch, MessageBatch, ResultBatch, result_batch
from eddyline.delivery.sinks.sink import Sink, SinkError
from eddyline.model import Message
from eddyline.storage import StoredPart

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
MOST_BEHIND = 1_000  # rounds without anything for a sink move its cursor too, but not one by one


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What a sink's filter looks at."""

    name: str
    stream: str
    deliver: tuple[str, ...] = ()  # the sinks it names
    resolves: bool = False  # whether its alerts resolve
    joins: tuple[str, ...] = ()  # a join: all of its streams


@dataclass(frozen=True, slots=True)
class SinkSelection:
    """What a sink wants: queries that name it; of those that name none, queries whose names match a pattern, of streams.

    Nothing given: all that name no other sink.
    """

    queries: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    sink: str = ""

    def has(self, facts: QueryFacts) -> bool:
        if facts.deliver:
            return self.sink in facts.deliver
        if self.queries and not any(fnmatch.fnmatchcase(facts.name, pattern) for pattern in self.queries):
            return False
        read = {stream.lower() for stream in facts.joins or (facts.stream,)}
        return not self.streams or any(stream.lower() in read for stream in self.streams)


class SinkFeed:
    """Hands a sink the results behind its cursor, in round order, and moves the cursor once the sink has them for good."""

    def __init__(
        self,
        sink: Sink,
        selection: SinkSelection,
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
        self._selection = selection
        self._facts_of = facts_of
        self._acknowledge = acknowledge
        self._is_owed = False  # a cursor that could not be stored
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, clock=clock)
        self._is_paused = False  # to leave it alone until then
        self.n_delivered = 0  # results, or messages, it has for good since it was opened
        self._n_pushed = 0  # and those it was given since

    @property
    def read_to(self) -> int:
        """Results of later rounds are what it is to be given next."""
        return self._read_to

    @property
    def complete_to(self) -> int:
        """The last round of which it has everything there was for it, if the cursor has not moved that far yet, too."""
        return self.cursor if self._n_pushed else self._read_to

    @property
    def is_paused(self) -> bool:
        """Whether it failed a moment ago."""
        return self._backoff.is_paused

    @property
    def is_waiting(self) -> bool:
        """Whether it asked to be left alone for now."""
        return self._is_paused and self.is_paused

    @property
    def is_behind(self) -> bool:
        """Whether it was given results it does not have for good yet."""
        return self.cursor < self._read_to

    @property
    def pause_s(self) -> float:
        """How long until it may be tried again; 0 if it may be now."""
        return self._backoff.wait_s

    @property
    def wait_s(self) -> float:
        """How long until it may be tried again, or has to be flushed; endless if it only waits for results."""
        pause_s = self.pause_s
        return pause_s if pause_s > 0 else 0.0 if self._is_owed else self.sink.wait_s()

    def offer(self, rounds: Iterable[tuple[int, Sequence[Any]]], last_round: int) -> None:
        """Give it the results of later rounds, up to `last_round`. Raises SinkError; they will be given again."""
        self._settle()
        try:
            for number, parts in rounds:
                if number <= self._read_to:
                    continue
                batches = self._selected_batches(number, parts)
                if batches:
                    if not self.sink.has_room(number, sum(map(len, batches))):
                        self._flush()
                    self.sink.write(number, batches)
                    self._n_pushed += sum(map(len, batches))
                self._read_to = number
                if self.sink.is_full():
                    self._flush()
            self._read_to = max(self._read_to, last_round)
        except SinkError as error:
            self._fail(error)
            raise

    def flush(self, *, only_if_due: bool = False) -> None:
        """Let the sink make last what it was given. Raises SinkError."""
        self._settle()
        try:
            is_far_behind = self._read_to - self.cursor > MOST_BEHIND
            if self.is_behind and (not only_if_due or is_far_behind or self.sink.is_due()):
                self._flush()
        except SinkError as error:
            self._fail(error)
            raise

    def pause(self, at_least_s: float = 0.0) -> None:
        """Leave it alone for a while, which grows each time until something is acknowledged."""
        self._backoff.pause(at_least_s)
        self._is_paused = at_least_s > 0

    def retry(self) -> None:
        """End a pause: the operator says the cause is gone."""
        self._backoff.end_pause()
        self._backoff.reset()
        self._is_paused = False

    def _flush(self) -> None:
        if self.sink.flush():
            self._is_owed = True
            self._settle()

    def _settle(self) -> None:
        """Store the cursor, if the sink has more than it says."""
        if self._is_owed:
            self._acknowledge(self._read_to)
            self._is_owed = False
            self._backoff.reset()
            self.cursor = self._read_to
            self.n_delivered += self._n_pushed
            self._n_pushed = 0

    def _fail(self, error: SinkError) -> None:
        """Start again behind the cursor, after a pause that grows."""
        self.sink.forget(self.cursor)
        self._read_to = self.cursor
        self._n_pushed = 0
        self._is_owed = False
        self.pause(error.retry_after_s)

    def _selected_batches(self, number: int, batches: Sequence[Any]) -> Sequence[Batch]:
        """What of a round this sink wants."""
        parts: Sequence[StoredPart] = batches
        return [batch for part in parts if (batch := self._batch(number, part)) is not None]

    def _batch(self, round_number: int, part: StoredPart) -> ResultBatch | None:
        """The results of a part that this sink wants."""
        keys, places = np.unique(
            np.stack([part.query_ids, part.generations], axis=1), axis=0, return_inverse=True
        )
        facts = [self._facts_of(int(query_id), int(generation)) for query_id, generation in keys]
        is_selected = np.array([self._selection.has(each) for each in facts], dtype=bool)
        pairs = np.flatnonzero(is_selected[places.reshape(-1)])
        if not len(pairs):
            return None
        names = {int(query_id): each.name for (query_id, _), each in zip(keys, facts, strict=True)}
        return result_batch(round_number, part, pairs, names.__getitem__)


class MessageFeed(SinkFeed):
    """The same for messages of alerts: the cursor is the id of the last one the sink has for good.

    A sink is given messages of one round at a time, `at_once` at most. Wherever reading starts again, the cuts are the same.
    """

    def __init__(self, *arguments: Any, at_once: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._at_once = at_once

    def offer_messages(self, messages: Iterable[Message], last_id: int) -> None:
        """Give it messages with later ids, up to `last_id`. Raises SinkError; they will be given again."""
        self.offer(self._message_batches(messages), last_id)

    def _message_batches(self, messages: Iterable[Message]) -> Iterator[tuple[int, Sequence[Batch]]]:
        for _, of_round in itertools.groupby(messages, key=lambda message: message.round):
            sent = (message for message in of_round if message.silence is None)
            selected_messages = ((m, f) for m in sent if self._selection.has(f := self._facts(m)))
            while chunk := list(itertools.islice(selected_messages, self._at_once)):
                lasting = frozenset(m.id for m, facts in chunk if facts.resolves)
                batch = MessageBatch([m for m, _ in chunk], lasting)
                yield batch.number, [batch]

    def _facts(self, message: Message) -> QueryFacts:
        facts = self._facts_of(message.query_id, message.generation)
        return replace(facts, name=message.query, deliver=message.deliver)

    def _selected_batches(self, number: int, batches: Sequence[Any]) -> Sequence[Batch]:
        return batches
