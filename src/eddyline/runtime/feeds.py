"""Sources at work: each gives rows for rounds, which run here or, where much lies ready, at Spark's workers.

A round takes rows of one stream; its position is committed with it. Rows that could not be read or committed are tried again
after a pause that grows. A source that has other columns than its stream changes the stream (schema_changes.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from eddyline.backoff import Backoff
from eddyline.engine import Outcome, RoundEngine, SharedRounds
from eddyline.errors import EddylineError, HomeError, SchemaError, StreamChangedError
from eddyline.events import RoundFailed, SourceClosed, SourceFailed, SourceRecovered
from eddyline.pipeline import FileSource, Pipeline, StdinSource, StreamSettings
from eddyline.runtime.endpoints import Feed, open_feed
from eddyline.runtime.lanes import JobLanes
from eddyline.runtime.schema_changes import follow_change
from eddyline.runtime.source_statuses import SourceStatus, source_status
from eddyline.secrets import hidden
from eddyline.sources import IngestedRows, Misfit, SchemaChanged, SourceBatch
from eddyline.spark import SparkWorkers, pack_functions
from eddyline.types import python_rows

TASKS_PER_CORE = 4
MOST_LANES = 32  # rounds at the workers at once
FIRST_PAUSE_S = 0.5  # before something that failed is tried again; doubles each time
LONGEST_PAUSE_S = 30.0
TRIES_ONCE = 3  # a run of what is there does not wait for ever


class Feeds:
    """The sources of a pipeline, from opening to closing. All but `unread` and `status` is called by the thread of the run."""

    def __init__(
        self,
        pipeline: Pipeline,
        rounds: RoundEngine,
        *,
        commit: Callable[[Mapping[str, IngestedRows], Mapping[str, Any]], Outcome],
        is_over: Callable[[], bool],
        wake: Callable[[], None],
        clock: Callable[[], float],
        stdin: BinaryIO | None = None,
        workers: SparkWorkers | None = None,
    ) -> None:
        """commit     runs a round over rows, with how far sources were read
        is_over    whether the run is to end: what fails then is not tried again
        wake       called when rows may have come, or a job has ended
        workers    what lies ready in some quantity is read and filtered by them
        """
        self.feeds: list[Feed] = []
        self.last_activity_s = clock()
        self.is_over = is_over
        self._pipeline = pipeline
        self._rounds = rounds
        self._commit = commit
        self._wake = wake
        self._clock = clock
        self._stdin = stdin
        self._workers = workers
        self._lanes: JobLanes | None = None

    def status(self) -> list[SourceStatus]:
        """How far each source is. Safe from any thread."""
        return [source_status(feed) for feed in list(self.feeds)]

    def close(self) -> None:
        """Let go of all sources."""
        if self._lanes is not None:
            self._lanes.close()
        for feed in self.feeds:
            feed.source.close()
        self.feeds = []

    def unread(self) -> set[str]:
        """Streams whose sources may have rows that no round has. Asked from any thread."""
        return {feed.name for feed in list(self.feeds) if not feed.is_read_up}

    def is_busy(self, feed: Feed | None = None) -> bool:
        """Whether workers have a round of this feed, or of any."""
        lanes = self._lanes
        feeds = self.feeds if feed is None else [feed]
        return lanes is not None and any(lanes.is_busy(each) for each in feeds)

    def open_all(self, once: bool) -> None:
        for settings in self._pipeline.streams:
            if settings.source is not None:
                self.open(settings, once)
        if self._workers is not None:
            shared = SharedRounds(
                self._rounds,
                self._workers.run,
                pack_functions,
                choices=replace(self._rounds.choices, most_tasks=TASKS_PER_CORE * self._workers.n_cores),
            )
            limits = self._pipeline.limits
            self._lanes = JobLanes(
                shared,
                MOST_LANES,
                self._wake,
                least_bytes=limits.job_from_bytes,
                most_bytes=limits.bytes_per_job,
            )

    def open(self, settings: StreamSettings, once: bool) -> None:
        self.close_feed(settings.stream.name.lower())
        self.feeds.append(
            open_feed(
                self._pipeline,
                settings,
                self._rounds,
                is_once=once,
                stdin=self._stdin,
                wake=self._wake,
                backoff=Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, clock=self._clock),
            )
        )

    def close_feed(self, name: str) -> None:
        for feed in [feed for feed in self.feeds if feed.name == name]:
            self.feeds.remove(feed)
            outcome = None if self._lanes is None else self._lanes.forget(feed)
            if outcome is not None:
                self.count(outcome)
            feed.source.close()

    def advance(self, feed: Feed, once: bool) -> bool:
        """Take rows from a source and run a round over them; False if there are none, or they cannot be taken now."""
        if self.is_busy(feed):
            return self._end_job(feed, once)
        now = self._clock()
        if feed.backoff.is_paused or feed.pace.wait_s(now):
            return False
        if self._is_held_up(feed):
            return False
        try:
            with self._rounds.lock:
                stream = self._rounds.catalog.find_stream(feed.stream.name)
            if stream is None:
                self.close_feed(feed.name)
                self._rounds.tell(SourceClosed(self._rounds.last_round, feed.stream.name))
                return True
            if stream is not feed.stream:
                if self._begins_anew(feed):
                    self.open(feed.settings, once)
                    return True
                feed.follow(stream)
            feed.is_read_up = False
            if self._lanes is not None and self._lanes.start(feed, now):
                return False
            batch = feed.held or self._take(feed, now)
            feed.held = batch
            feed.is_read_up = batch is None and not feed.source.is_pending
            if batch is not None and not batch.is_empty:
                self._run_round(feed, batch)
        except SchemaChanged as changed:
            return self._follow(feed, changed, once)
        except EddylineError as error:
            self._failed(feed, error, once)
            return False
        feed.held = None
        self._went_well(feed)
        return batch is not None

    def _is_held_up(self, feed: Feed) -> bool:
        """Whether workers have a round of a stream it is joined with: it waits for that, and other feeds go on."""
        busy = {each.name for each in self.feeds if self.is_busy(each)}
        return bool(busy) and not busy.isdisjoint(self._rounds.group_of([feed.name]))

    def _take(self, feed: Feed, now: float) -> SourceBatch | None:
        """The next rows of a source, no more than a round and its pace allow."""
        limits, pace = self._pipeline.limits, feed.pace
        batch = feed.source.take(min(limits.rows_per_round, pace.most_rows), limits.bytes_per_round)
        if batch is not None:
            rows = batch.rows.rows
            pace.took(rows.num_rows + len(batch.rows.misfits), rows.nbytes, now, in_memory=True)
        return batch

    def _begins_anew(self, feed: Feed) -> bool:
        """Whether another stream has taken the name of the one that was fed: its source is then read from the beginning."""
        rounds = self._rounds
        if isinstance(feed.settings.source, StdinSource):
            return False  # which has no beginning to go back to
        with rounds.lock:
            if rounds.durable is not None:
                return rounds.durable.rounds.position(feed.name) is None
            return feed.name not in rounds.progress

    def _follow(self, feed: Feed, changed: SchemaChanged, once: bool) -> bool:
        """The source has other columns now: the catalog follows, and the rows are taken again."""
        try:
            follow_change(self._rounds, feed.stream.name, changed.change, self._rounds.last_round)
        except EddylineError as error:
            self._failed(feed, error, once, is_round=True)
            return False
        return True

    def _end_job(self, feed: Feed, once: bool) -> bool:
        """Take a job back from the workers if it has ended."""
        assert self._lanes is not None
        if not self._lanes.has_ended(feed):
            return False
        try:
            outcome = self._lanes.end(feed)
        except StreamChangedError:
            return True  # the stream was dropped, and may have been declared again: the next look tells
        except SchemaChanged as changed:
            return self._follow(feed, changed, once)
        except EddylineError as error:
            self._failed(feed, error, once, is_round=True)
            return False
        self._went_well(feed)
        if outcome is not None:
            self.count(outcome)
        return True

    def _went_well(self, feed: Feed) -> None:
        if feed.n_failures:
            seconds = round(self._clock() - feed.failing_since, 3)
            recovered = SourceRecovered(self._rounds.last_round, feed.stream.name, feed.n_failures, seconds)
            feed.n_failures = 0
            feed.backoff.reset()
            self._rounds.tell(recovered)

    def _run_round(self, feed: Feed, batch: SourceBatch) -> None:
        """Commit the rows of a source. Rows the engine cannot take as they are become dead letters."""
        rounds = self._rounds
        position = {feed.name: feed.position(batch.position)}
        while True:
            with rounds.lock:
                schema = rounds.catalog.stream(feed.stream.name).schema
            rows = feed.in_schema(batch.rows, schema)
            try:
                outcome = self._commit({feed.name: rows}, position)
            except StreamChangedError:
                continue
            except SchemaError as error:
                if not rows.rows.num_rows:
                    raise
                outcome = self._commit({feed.name: _all_unfit(rows, error)}, position)
            break
        for event in batch.events:
            rounds.announce(replace(event, round_number=outcome.round.number))

    def _failed(self, feed: Feed, error: EddylineError, once: bool, *, is_round: bool | None = None) -> None:
        """Rows could not be read, or not committed: they are tried again after a pause that grows, or the run ends."""
        source = feed.settings.source
        path = source.path if isinstance(source, FileSource) else None
        error.problem = hidden(error.problem, path)
        error.detail = None if error.detail is None else hidden(error.detail, path)
        feed.failing_since = feed.failing_since if feed.n_failures else self._clock()
        feed.n_failures += 1
        message = error.problem + (f": {error.detail}" if error.detail else "")
        feed.message, feed.failed_at_us = message, time.time_ns() // 1000
        is_hopeless = isinstance(error, SchemaError) or (isinstance(error, HomeError) and self._is_lost())
        if is_hopeless or (once and feed.n_failures >= TRIES_ONCE) or self.is_over():
            raise error from None
        feed.backoff.pause()
        if not (feed.held is not None if is_round is None else is_round):
            self._rounds.announce(SourceFailed(self._rounds.last_round, feed.stream.name, message))
        else:
            self._rounds.announce(RoundFailed(self._rounds.last_round, message))

    def _is_lost(self) -> bool:
        """Whether another process has taken the home."""
        with self._rounds.lock:
            return self._rounds.store.is_taken_over()

    def count(self, outcome: Outcome) -> None:
        """Count the rows of each source; `_heard` counts rounds, of whatever brought them."""
        self.last_activity_s = self._clock()
        for feed in self.feeds:
            n_rows = outcome.round.n_rows.get(feed.name, 0)
            feed.n_rows += n_rows
            feed.meter.add(n_rows)


def _all_unfit(rows: IngestedRows, error: SchemaError) -> IngestedRows:
    """Rows that cannot be taken as they are, each as a dead letter."""
    why = " ".join(part for part in (error.problem + ".", error.detail) if part)
    return IngestedRows(
        rows.rows.slice(0, 0), None, [*rows.misfits, *(Misfit(row, why) for row in python_rows(rows.rows))]
    )
