"""What there is to give to a sink: results from the outbox of a home, or from memory where there is none; messages of alerts.

A supply gives its sink everything after what it was given before, in order. Whatever is gone by then, because retention or the
bound of memory was faster, is counted, each result once.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from eddyline.catalog import ListedFile
from eddyline.delivery import MessageFeed, SinkFeed
from eddyline.engine import Durable, Outcome, RoundEngine
from eddyline.model import Message
from eddyline.storage import OUTBOX, StoredPart, stored_part

ROUNDS_IN_MEMORY = 1_000  # kept for sinks of an engine without a home
MESSAGES_PER_PAGE = 1_000  # read from the home at once
LOOK_EVERY_S = 0.05

Check = Callable[[], None]  # raises if nothing more is to be given
Lost = Callable[[int], None]  # called with how many are gone


class Supply(Protocol):
    def give(self, check: Check, lost: Lost) -> None:
        """Give the sink all it has not been given; `check` is called between rounds. Raises SinkError."""
        ...

    def last(self) -> int:
        """The number of the last there is."""
        ...


class Outbox:
    """Results for one sink, from the outbox."""

    def __init__(self, rounds: RoundEngine, durable: Durable, feed: SinkFeed) -> None:
        self._rounds = rounds
        self._durable = durable
        self._feed = feed
        self._announced_to = 0  # what is gone up to this round has been announced

    def last(self) -> int:
        return self._rounds.last_round

    def give(self, check: Check, lost: Lost) -> None:
        with self._rounds.lock:
            self._rounds.check_open()
            log, last = self._durable.rounds, self._rounds.last_round
            if last <= self._feed.read_to:
                return
            files = log.files.after(OUTBOX, self._feed.read_to)
            first = log.files.first_round(OUTBOX) or last + 1
            after = max(self._feed.read_to, self._announced_to)
            n_lost = 0
            if first > after + 1:
                n_lost, self._announced_to = log.n_results_between(after, first), first - 1
        if n_lost:
            lost(n_lost)
        self._feed.offer(self._parts(files, check, lost), last)

    def _parts(
        self, files: Sequence[ListedFile], check: Check, lost: Lost
    ) -> Iterator[tuple[int, Sequence[StoredPart]]]:
        """The parts of each round; several tasks may have written for one."""
        for number, of_round in itertools.groupby(files, key=lambda file: file.round_number):
            check()
            parts: list[StoredPart] = []
            for file in of_round:
                parts += self._durable.parts(file)
                if file.name in self._durable.damaged:
                    self._look_for(file, lost)
            yield number, parts

    def _look_for(self, file: ListedFile, lost: Lost) -> None:
        """A file cannot be read: is it damaged, or did retention remove it a moment ago?"""
        number = file.round_number
        with self._rounds.lock:
            self._rounds.check_open()
            if self._durable.rounds.files.is_listed(file.name):
                return
            self._durable.damaged.pop(file.name, None)
            if number <= self._announced_to:  # it was removed whole
                return
            n_lost = self._durable.rounds.n_results_between(number - 1, number + 1)
            self._announced_to = number
        lost(n_lost)


class Messages:
    """What alerts say, from the home or from memory."""

    def __init__(self, rounds: RoundEngine, feed: MessageFeed) -> None:
        self._rounds = rounds
        self._feed = feed
        self._announced_to = 0

    def last(self) -> int:
        with self._rounds.lock:
            return 0 if self._rounds.is_closed else self._rounds.alerting.log.last_id()

    def give(self, check: Check, lost: Lost) -> None:
        with self._rounds.lock:
            self._rounds.check_open()
            last = self._rounds.alerting.log.last_id()
        if last > self._feed.read_to:
            self._feed.offer_messages(self._pages(self._feed.read_to, check, lost), last)

    def _pages(self, after: int, check: Check, lost: Lost) -> Iterator[Message]:
        while True:
            check()
            with self._rounds.lock:
                self._rounds.check_open()
                log = self._rounds.alerting.log
                page, gone_to = log.messages_after(after, MESSAGES_PER_PAGE), log.first_id() - 1
            n_lost = gone_to - max(after, self._announced_to)
            if n_lost > 0:
                self._announced_to = gone_to
                lost(n_lost)
            yield from page
            if not page:
                return
            after = page[-1].id


class RoundsInMemory:
    """The results of the last rounds of an engine without a home."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.rounds: deque[tuple[int, list[StoredPart]]] = deque()
        self.last = 0
        self._supplies: list[ResultsInMemory] = []
        self._is_stopped = False

    def supply(self, feed: SinkFeed) -> ResultsInMemory:
        self._supplies.append(ResultsInMemory(self, feed))
        return self._supplies[-1]

    def keep(self, rounds: RoundEngine, outcome: Outcome) -> None:
        """Keep the results of a round. The caller holds the round lock."""
        parts = _parts(rounds, outcome)
        with self.changed:
            self.rounds.append((outcome.round.number, parts))
            self.last = outcome.round.number
            if len(self.rounds) > ROUNDS_IN_MEMORY:
                number, dropped_parts = self.rounds.popleft()
                for supply in self._supplies:
                    supply.dropped_rounds.append((number, sum(len(part) for part in dropped_parts)))

    def make_room(self, at_work: Callable[[], list[SinkFeed]]) -> None:
        """Wait until sinks at work have been given the oldest round, if the next one would take its place."""
        with self.changed:
            while not self._is_stopped and len(self.rounds) >= ROUNDS_IN_MEMORY:
                oldest = self.rounds[0][0]
                if all(feed.read_to >= oldest for feed in at_work()):
                    return
                self.changed.wait(LOOK_EVERY_S)

    def stop(self) -> None:
        with self.changed:
            self._is_stopped = True
            self.changed.notify_all()


class ResultsInMemory:
    """Results for one sink, from memory."""

    def __init__(self, memory: RoundsInMemory, feed: SinkFeed) -> None:
        # rounds that are no longer kept, and their results: a sink that was given them may not have them for good
        self.dropped_rounds: deque[tuple[int, int]] = deque()
        self._memory = memory
        self._feed = feed

    def last(self) -> int:
        return self._memory.last

    def give(self, check: Check, lost: Lost) -> None:
        feed = self._feed
        with self._memory.changed:
            last = self._memory.last
            ready = [each for each in self._memory.rounds if each[0] > feed.read_to]
            n_lost = sum(n for number, n in self.dropped_rounds if number > feed.read_to)
            self.dropped_rounds = deque(
                each for each in self.dropped_rounds if feed.cursor < each[0] <= feed.read_to
            )
        if n_lost:
            lost(n_lost)
        if last > feed.read_to:
            feed.offer(_checked(ready, check), last)
            with self._memory.changed:
                self._memory.changed.notify_all()


def _checked(
    rounds: Sequence[tuple[int, list[StoredPart]]], check: Check
) -> Iterator[tuple[int, list[StoredPart]]]:
    for each in rounds:
        check()
        yield each


def _parts(rounds: RoundEngine, outcome: Outcome) -> list[StoredPart]:
    """The results of a round, as an outbox would have them."""
    catalog, version = rounds.catalog, outcome.round.version
    outputs = (outcome.outputs or {}).values()
    with rounds.lock:
        return [
            stored_part(part, lambda ids: catalog.queries.generations_at(ids, version))
            for output in outputs
            for part in output.all_parts()
        ]
