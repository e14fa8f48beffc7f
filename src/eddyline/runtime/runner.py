"""The loop that runs sources, rounds and sinks in this process, until it is asked to stop.

A round takes rows of one source (feeds.py); its position is committed with it. Every sink is served by a thread of its own
(deliveries.py), which gives it results in round order; its cursor advances when it has them. So whatever happens, the next run
goes on where the last committed round ended, and a sink is given again only what it may not have.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, BinaryIO, TextIO

from eddyline.engine import Outcome, RoundEngine
from eddyline.errors import EddylineError, QueryStateError
from eddyline.events import Event, RoundCommitted
from eddyline.pipeline import Mistake, Pipeline, PipelineError, StreamSettings, check_machine
from eddyline.runtime.deliveries import Deliveries, SinkStatus
from eddyline.runtime.feeds import Feeds
from eddyline.runtime.progress import ProgressReporter, RunProgress, RunSummary
from eddyline.runtime.run_end import RunEnd
from eddyline.runtime.source_statuses import SourceStatus, feed_named
from eddyline.runtime.static_tables import StaticTables
from eddyline.sources import IngestedRows
from eddyline.spark import SparkWorkers
from eddyline.stream_properties import is_static

_logger = logging.getLogger("eddyline")
LONGEST_WAIT_S = 1.0
TICK_FLOOR_S = 0.1  # least distance of ticks at deadlines
RETRY_S = 5.0  # until a request to try again is taken up
MOST_NAMED = 20  # sources or sinks in a line of the log


class Runner:
    """A pipeline at work on the rounds of an engine that is open, for one run."""

    def __init__(
        self,
        pipeline: Pipeline,
        rounds: RoundEngine,
        tables: StaticTables,
        *,
        on_event: Callable[[Event], None] | None = None,
        on_progress: Callable[[RunProgress], None] | None = None,
        stdin: BinaryIO | None = None,
        stdout: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        workers: SparkWorkers | None = None,
    ) -> None:
        """Check the machine and open the sinks, which are brought up to date from now on.

        With `workers`, whatever lies ready in some quantity is read and filtered by them.
        """
        check_machine(pipeline)
        self.pipeline = pipeline
        self._rounds = rounds
        self._tables = tables
        self._on_event = on_event
        self._clock = clock
        self._reporter = ProgressReporter(on_progress, clock)
        self._wake = threading.Event()
        self._end = RunEnd(self._wake.set)
        self._requests: deque[tuple[Callable[[bool], None], Future[None]]] = deque()
        self._workers = workers
        self._ends_with_sources = True
        self._is_running = False
        self._feeds = Feeds(
            pipeline,
            rounds,
            commit=self._commit,
            is_over=self._end.is_over,
            wake=self._wake.set,
            clock=clock,
            stdin=stdin,
            workers=workers,
        )
        rounds.listen(self._note_event)
        rounds.unread = self._feeds.unread
        self._deliveries: Deliveries | None = None
        try:
            self._deliveries = Deliveries(
                pipeline,
                rounds,
                stdout,
                on_reader_gone=lambda: self._end.request("reader"),
                on_fault=self._wake.set,
            )
            self._deliveries.start()
        except BaseException:
            Runner.close(self)  # what a subclass holds is not there yet
            raise

    # ----------------------------------------------------------------------------------------- running

    def run(
        self,
        *,
        once: bool = False,
        until: Callable[[RunProgress], bool] | None = None,
        signals: bool = True,
        ends_with_sources: bool = True,
    ) -> RunSummary:
        """Run to the end, and return what happened. With `signals`, SIGINT and SIGTERM end it after the round in flight.

        With `ends_with_sources` off it goes on when no source is left, or none was there: one may come.
        """
        self._ends_with_sources = ends_with_sources
        self._is_running = True
        try:
            return self._run(once, until, signals)
        finally:
            self._is_running = False

    def _run(self, once: bool, until: Callable[[RunProgress], bool] | None, signals: bool) -> RunSummary:
        feeds, end = self._feeds, self._end
        with end.on_signals(signals):
            if not once:
                self._rounds.warm_up()
            self._load_tables()
            self._feeds.open_all(once)
            self._log_endpoints()
            while not end.is_over() or feeds.is_busy():
                self._follow_requests(once)
                worked = not end.is_over() and self._look_at_tables()
                for feed in list(feeds.feeds):
                    if (not end.is_over() or feeds.is_busy(feed)) and feeds.advance(feed, once):
                        worked = True
                        if until is not None and until(self._reporter.progress()):
                            end.request("until")
                self.deliveries.check()
                self._reporter.report()
                if not worked and end.is_over():
                    self._wait(LONGEST_WAIT_S)  # for jobs that are under way
                elif not worked:
                    self._rest(once)
            if end.reason in ("signal", "stop"):
                why = end.signal_name or "asked to"
                _logger.info(
                    "stopping after round %d (%s); sinks get what is theirs", self._rounds.last_round, why
                )
            self.deliveries.finish(once=once, is_urged=lambda: end.signal is not None)
        assert end.reason is not None
        return self._reporter.summary(end.reason, end.signal)

    @property
    def spark_version(self) -> str | None:
        """Of PySpark, if rounds are shared with its workers."""
        return None if self._workers is None else str(self._workers.session.version)

    @property
    def deliveries(self) -> Deliveries:
        """The sinks at work."""
        assert self._deliveries is not None
        return self._deliveries

    def sinks(self) -> list[SinkStatus]:
        """How far each sink is. Safe from any thread."""
        return self.deliveries.status()

    def sources(self) -> list[SourceStatus]:
        """How far each source is. Safe from any thread."""
        return self._feeds.status()

    def retry_source(self, stream: str) -> None:
        """Read a source that fails again at once, instead of after its pause. Safe from any thread."""
        feed = feed_named(self._feeds.feeds, stream)
        if self._end.is_over() or not self._is_running:
            raise QueryStateError(
                "the rounds have ended",
                hint="Start them again: sources go on where the last committed round ended.",
            )
        self._request(lambda once: feed.backoff.end_pause()).result(RETRY_S)

    def retry_sink(self, name: str) -> None:
        """Serve a sink that fails again at once, instead of after its pause. Safe from any thread."""
        self.deliveries.retry(name)

    def stop(self) -> None:
        """End the run after the round in flight. Safe from any thread."""
        self._end.request("stop")

    def close(self) -> None:
        """Let go of sources and sinks."""
        self._rounds.unread = frozenset
        self._feeds.close()
        if self._deliveries is not None:
            self._deliveries.close()
        self._rounds.unlisten(self._note_event)

    def add_source(self, settings: StreamSettings) -> Future[None]:
        """Read from one more source. Safe from any thread; what is returned is done when it is open, or says why it is not."""
        return self._request(lambda once: self._feeds.open(settings, once))

    def remove_source(self, stream: str) -> Future[None]:
        """Stop reading a source after the round in flight; how far it was read stays known. Safe from any thread."""
        return self._request(lambda once: self._feeds.close_feed(stream.lower()))

    def _request(self, what: Callable[[bool], None]) -> Future[None]:
        done: Future[None] = Future()
        self._requests.append((what, done))
        self._wake.set()
        return done

    def _follow_requests(self, once: bool) -> None:
        """Do what other threads asked for, between rounds."""
        for _ in range(len(self._requests)):
            what, done = self._requests.popleft()
            try:
                what(once)
            except EddylineError as error:
                done.set_exception(error)
            else:
                done.set_result(None)

    def _load_tables(self) -> None:
        """Bring static tables up to date. One that has no rows yet must be there; others keep those they have."""
        tables = self._tables
        with self._rounds.lock:
            streams = self._rounds.catalog.streams()
        for stream in filter(is_static, streams):
            settings = self.pipeline.stream(stream.name)
            try:
                tables.reload(stream.name, self._commit_here)
            except EddylineError as error:
                if tables.is_loaded(stream.name):
                    tables.tell(stream.name, error)
                    continue
                if settings is None or settings.table is None or settings.table.place is None:
                    raise
                mistake = Mistake(settings.table.place, error.problem, error.detail, error.hint)
                raise PipelineError(self.pipeline.path, [mistake]) from None
        self.deliveries.make_room()

    def _look_at_tables(self) -> bool:
        """Load static tables that have changed; whether there were any."""
        is_any = self._tables.look(self._commit_here)
        if is_any:
            self.deliveries.make_room()
        return is_any

    def _rest(self, once: bool) -> None:
        """Nothing to do: end, or wait for something to come; let time pass for windows and timers."""
        feeds = self._feeds.feeds
        idle = [feed for feed in feeds if not self._feeds.is_busy(feed)]
        is_idle = len(idle) == len(feeds)
        now = self._clock()
        if once and is_idle and not any(feed.is_pending or feed.pace.wait_s(now) for feed in idle):
            self._end.request("once")
            return
        if self._ends_with_sources and idle and is_idle and all(feed.is_finished for feed in idle):
            self._end.request("sources")
            return
        waits = (max(f.pace.wait_s(now) or f.source.wait_s(), f.backoff.wait_s) for f in idle)
        wait_s = min([LONGEST_WAIT_S, *waits])
        tick_s = self.pipeline.engine.tick_us / 1e6
        if tick_s and not once:
            idle_s = now - self._feeds.last_activity_s
            until_tick = min(tick_s - idle_s, max(TICK_FLOOR_S - idle_s, self._rounds.until_deadline_s()))
            if until_tick <= 0:
                self._commit({}, {})
                return
            wait_s = min(wait_s, until_tick)
        self._wait(wait_s)

    def _wait(self, seconds: float) -> None:
        self._wake.wait(max(0.0, seconds))
        self._wake.clear()

    # ----------------------------------------------------------------------------------------- rounds

    def _commit(self, inputs: Mapping[str, IngestedRows], positions: Mapping[str, Any]) -> Outcome:
        outcome = self._commit_here(inputs, positions)
        self.deliveries.make_room()
        return outcome

    def _commit_here(self, inputs: Mapping[str, IngestedRows], positions: Mapping[str, Any]) -> Outcome:
        """The same for a caller that has the turn, and must not wait for sinks."""
        rounds = self._rounds

        def work() -> Outcome:
            with rounds.round_lock:
                outcome = rounds.run_round(inputs, positions=positions)
                self.deliveries.keep(outcome)
            return outcome

        outcome = rounds.turns.run(inputs, work)
        self._feeds.count(outcome)
        return outcome

    # ----------------------------------------------------------------------------------------- events

    def _note_event(self, event: Event) -> None:
        if isinstance(event, RoundCommitted):
            self._reporter.count(event)
            if self._deliveries is not None:
                self._deliveries.wake()
        if self._on_event is not None:
            self._on_event(event)

    def _log_endpoints(self) -> None:
        """Log the sources that are read and the sinks that get results."""
        reads = [f"{each.stream} from {each.type} {each.what}".rstrip() for each in self.sources()]
        gives = [f"{each.name} ({each.takes})" for each in self.sinks()]
        for what, names in (("reading", reads), ("sinks:", gives)):
            if names:
                more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
                _logger.info("%s %s%s", what, ", ".join(names[:MOST_NAMED]), more)
