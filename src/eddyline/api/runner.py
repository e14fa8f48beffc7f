"""Running a pipeline in this process: sources are polled, rounds run, sinks are served, until somebody says stop.

    summary = run(load_pipeline(path), once=True, on_event=show, on_progress=line)

or, to hold the engine while it runs (the home's socket, a dashboard, another thread that calls `stop`):

    with Runner(pipeline, on_event=…, on_progress=…) as runner:     # opens the home, applies the rules
        runner.engine.listen()                                       # the shell can speak to it
        summary = runner.run()                                       # returns after stop(), SIGINT or SIGTERM

A round takes rows of one stream; its position is committed with it. Every sink is served by a thread of its own (deliveries.py),
which gives it results in round order; its cursor advances when it has them. So whatever happens, the next run goes on where the
last committed round ended, and a sink is given again only what it may not have.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, BinaryIO, TextIO

from eddyline.api.deliveries import Deliveries, SinkStatus
from eddyline.api.endpoints import Feed, open_feed
from eddyline.api.engine import Engine
from eddyline.api.lanes import JobLanes
from eddyline.api.pipeline.mistakes import Mistake, PipelineError
from eddyline.api.pipeline.model import FileSource, Pipeline, StdinSource, StreamSettings
from eddyline.api.pipeline.open import check_machine, open_pipeline
from eddyline.api.rules import Applied, apply_rules
from eddyline.api.schema_changes import follow_change
from eddyline.api.source_status import SourceStatus, feed_named, source_status
from eddyline.engine import Outcome
from eddyline.engine.shared_work import SharedRounds
from eddyline.errors import EddylineError, HomeError, QueryStateError, SchemaError, StreamChangedError
from eddyline.events import (
    Event,
    RoundCommitted,
    RoundFailed,
    SourceClosed,
    SourceFailed,
    SourceRecovered,
)
from eddyline.secrets import hidden
from eddyline.sources import Ingested, Misfit, Taken
from eddyline.sources.schema_changes import SchemaChanged
from eddyline.spark.jobs import pack_functions
from eddyline.spark.workers import SparkWorkers
from eddyline.types import python_rows

_logger = logging.getLogger("eddyline")
QUIET_S = 2.0  # nothing is said about what takes less
PROGRESS_EVERY_S = 1.0
TASKS_PER_CORE = 4
MOST_LANES = 32  # rounds at the workers at once
LONGEST_WAIT_S = 1.0
FIRST_PAUSE_S = 0.5  # before something that failed is tried again; doubles each time
LONGEST_PAUSE_S = 30.0
RETRY_S = 5.0  # until a request to try again is taken up
MOST_NAMED = 20  # sources or sinks in a line of the log
TRIES_ONCE = 3  # a run of what is there does not wait for ever


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is. While it starts, `what` says at what, with `n_done` of `n_total`."""

    what: str
    seconds: float
    n_rounds: int = 0
    n_rows: int = 0
    n_results: int = 0
    n_dead: int = 0
    n_done: int = 0
    n_total: int = 0

    @property
    def line(self) -> str:
        """One line for a terminal."""
        if self.what != "running":
            of = f" {self.n_done:,} of {self.n_total:,}" if self.n_total else ""
            return f"{self.what}{of}, {self.seconds:.0f} s"
        rate = self.n_rows / self.seconds if self.seconds else 0.0
        dead = f", {self.n_dead:,} dead letters" if self.n_dead else ""
        return (
            f"{self.n_rounds:,} rounds, {self.n_rows:,} rows, {self.n_results:,} results{dead}, "
            f"{rate:,.0f} rows/s, {self.seconds:.0f} s"
        )


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What happened while a run lasted, also in rounds of pushes and of Spark's streaming queries.

    It was ended by: once, until, stop, signal, sources (all ended), reader (of standard output: gone).
    """

    n_rounds: int
    n_rows: int
    n_results: int
    n_dead: int
    seconds: float
    ended_by: str
    signal: int | None = None


def run(
    pipeline: Pipeline,
    *,
    engine: Engine | None = None,
    home: Path | None = None,
    once: bool = False,
    until: Callable[[RunProgress], bool] | None = None,
    on_event: Callable[[Event], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
    stdin: BinaryIO | None = None,
    stdout: TextIO | None = None,
) -> RunSummary:
    """Run a pipeline to its end: with `once` when everything that is there was worked on, else when it is told to stop.

    engine        an engine that is open already, with the rules applied; without it the pipeline's home is opened
    home          another home than the pipeline's
    until         asked after every round; True ends the run
    on_event      gets everything the engine, the sources and the sinks announce
    on_progress   called about every second for what takes over two
    """
    runner = Runner(
        pipeline,
        engine=engine,
        home=home,
        apply=engine is None,
        on_event=on_event,
        on_progress=on_progress,
        stdin=stdin,
        stdout=stdout,
    )
    with runner:
        return runner.run(once=once, until=until)


class Runner:
    """A pipeline at work in this process, for one run. `engine` may be used from other threads meanwhile."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        engine: Engine | None = None,
        home: Path | None = None,
        apply: bool = True,
        on_event: Callable[[Event], None] | None = None,
        on_progress: Callable[[RunProgress], None] | None = None,
        stdin: BinaryIO | None = None,
        stdout: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        workers: SparkWorkers | None = None,
    ) -> None:
        """Check the machine, open the home, bring the sinks up to date, apply the rules (unless `apply` is off).

        With `workers`, whatever lies ready in some quantity is read and filtered by them.
        """
        check_machine(pipeline)
        self.pipeline = pipeline
        self.applied: Applied | None = None
        self._on_event = on_event
        self._on_progress = on_progress
        self._stdin = stdin
        self._stdout = stdout
        self._clock = clock
        self._began = clock()
        self._last_line = self._began + QUIET_S - PROGRESS_EVERY_S
        self._wake = threading.Event()
        self._ended_by: str | None = None
        self._signal: int | None = None
        self._counts = RunProgress("running", 0.0)
        self._feeds: list[Feed] = []
        self._requests: deque[tuple[Callable[[bool], None], Future[None]]] = deque()
        self._workers = workers
        self._lanes: JobLanes | None = None
        self._ends_with_sources = True
        self._is_running = False
        self._deliveries: Deliveries | None = None
        self._last_round = 0
        self._last_activity = clock()
        self._owns_engine = engine is None
        self.engine = engine if engine is not None else open_pipeline(pipeline, home=home)
        self.engine.on_event(self._heard)
        self.engine.rounds.unread = self._unread
        try:
            self._start(apply)
        except BaseException:
            self.close()
            raise

    def _start(self, apply: bool) -> None:
        if self._owns_engine and self.pipeline.engine.audit:
            self.engine.start_audit(self.pipeline.engine.audit)
        durable = self.engine.rounds.durable
        if durable is not None:
            with self.engine.rounds.lock:
                last = durable.rounds.last()
                self._last_round = 0 if last is None else last.round.number
        self._deliveries = Deliveries(
            self.pipeline,
            self.engine,
            self._stdout,
            on_reader_gone=lambda: self._end("reader"),
            on_fault=self._wake.set,
        )
        self._deliveries.start()
        self.engine.watch_pipeline(self)
        if apply:
            self.applied = apply_rules(self.engine, self.pipeline, progress=self._starting)

    # ----------------------------------------------------------------------------------------- running

    def run(
        self,
        *,
        once: bool = False,
        until: Callable[[RunProgress], bool] | None = None,
        signals: bool = True,
        ends_with_sources: bool = True,
    ) -> RunSummary:
        """Run until the end; see `run` above. With `signals`, SIGINT and SIGTERM end it after the round in flight.

        With `ends_with_sources` off it goes on when no source is left, or none was there: one may come.
        """
        self._ends_with_sources = ends_with_sources
        self._is_running = True
        try:
            with self.engine.summaries:
                return self._run(once, until, signals)
        finally:
            self._is_running = False

    def _run(self, once: bool, until: Callable[[RunProgress], bool] | None, signals: bool) -> RunSummary:
        with self._listening(signals):
            if not once:
                self.engine.warm_up()
            self._load_tables()
            self._open_feeds(once)
            self._say_ends()
            while not self._is_over() or self._is_busy():
                self._follow_requests(once)
                worked = not self._is_over() and self._look_at_tables()
                for feed in list(self._feeds):
                    if (not self._is_over() or self._is_busy(feed)) and self._advance(feed, once):
                        worked = True
                        if until is not None and until(self._progress()):
                            self._end("until")
                self.deliveries.check()
                self._say_progress()
                if not worked and self._is_over():
                    self._wait(LONGEST_WAIT_S)  # for jobs that are under way
                elif not worked:
                    self._rest(once)
            if self._ended_by in ("signal", "stop"):
                why = signal.Signals(self._signal).name if self._signal is not None else "asked to"
                _logger.info("stopping after round %d (%s); sinks get what is theirs", self._last_round, why)
            self.deliveries.finish(once=once, is_urged=lambda: self._signal is not None)
        assert self._ended_by is not None
        return RunSummary(
            self._counts.n_rounds,
            self._counts.n_rows,
            self._counts.n_results,
            self._counts.n_dead,
            self._clock() - self._began,
            self._ended_by,
            self._signal,
        )

    def _unread(self) -> set[str]:
        """Streams whose sources may have rows that no round has. Asked from any thread."""
        return {feed.name for feed in list(self._feeds) if not feed.is_read_up}

    def _is_over(self) -> bool:
        return self._ended_by is not None

    def _is_busy(self, feed: Feed | None = None) -> bool:
        """Whether workers have a round of this feed, or of any."""
        lanes = self._lanes
        feeds = self._feeds if feed is None else [feed]
        return lanes is not None and any(lanes.is_busy(each) for each in feeds)

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
        now = self._clock()
        return [source_status(feed, now) for feed in list(self._feeds)]

    def retry_source(self, stream: str) -> None:
        """Read a source that fails again at once, instead of after its pause. Safe from any thread."""
        feed = feed_named(self._feeds, stream)
        if self._is_over() or not self._is_running:
            raise QueryStateError(
                "the rounds have ended",
                hint="Start them again: sources go on where the last committed round ended.",
            )
        self._request(lambda once: setattr(feed, "resume_at", 0.0)).result(RETRY_S)

    def retry_sink(self, name: str) -> None:
        """Serve a sink that fails again at once, instead of after its pause. Safe from any thread."""
        self.deliveries.retry(name)

    def stop(self) -> None:
        """End the run after the round in flight. Safe from any thread."""
        self._end("stop")

    def close(self) -> None:
        """Let go of sources and sinks, and of the engine if it was opened here."""
        if self._lanes is not None:
            self._lanes.close()
        self.engine.rounds.unread = frozenset
        for feed in self._feeds:
            feed.source.close()
        self._feeds = []
        if self._deliveries is not None:
            self.engine.watch_pipeline(None)
            self._deliveries.close()
        with self.engine.rounds.lock:
            if self._heard in self.engine.rounds.listeners:
                self.engine.rounds.listeners.remove(self._heard)
        if self._owns_engine:
            self.engine.close()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_source(self, settings: StreamSettings) -> Future[None]:
        """Read from one more source. Safe from any thread; what is returned is done when it is open, or says why it is not."""
        return self._request(lambda once: self._open_feed(settings, once))

    def remove_source(self, stream: str) -> Future[None]:
        """Stop reading a source after the round in flight; how far it was read stays known. Safe from any thread."""
        return self._request(lambda once: self._close_feed(stream.lower()))

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

    def _open_feed(self, settings: StreamSettings, once: bool) -> None:
        self._close_feed(settings.stream.name.lower())
        self._feeds.append(
            open_feed(
                self.pipeline,
                settings,
                self.engine,
                is_once=once,
                stdin=self._stdin,
                wake=self._wake.set,
            )
        )

    def _close_feed(self, name: str) -> None:
        for feed in [feed for feed in self._feeds if feed.name == name]:
            self._feeds.remove(feed)
            outcome = None if self._lanes is None else self._lanes.forget(feed)
            if outcome is not None:
                self._count(outcome)
            feed.source.close()

    def _open_feeds(self, once: bool) -> None:
        for settings in self.pipeline.streams:
            if settings.source is not None:
                self._open_feed(settings, once)
        if self._workers is not None:
            shared = SharedRounds(
                self.engine.rounds,
                self._workers.run,
                pack_functions,
                most_tasks=TASKS_PER_CORE * self._workers.n_cores,
            )
            limits = self.pipeline.limits
            self._lanes = JobLanes(
                shared,
                MOST_LANES,
                self._wake.set,
                least_bytes=limits.job_from_bytes,
                most_bytes=limits.bytes_per_job,
            )

    def _load_tables(self) -> None:
        """Bring static tables up to date. One that has no rows yet must be there; others keep those they have."""
        tables = self.engine.static_tables
        for handle in self.engine.streams():
            settings = self.pipeline.stream(handle.name)
            try:
                if handle.is_static:
                    tables.reload(handle.name, self._commit_here)
            except EddylineError as error:
                if tables.is_loaded(handle.name):
                    tables.tell(handle.name, error)
                    continue
                if settings is None or settings.table is None or settings.table.place is None:
                    raise
                mistake = Mistake(settings.table.place, error.problem, error.detail, error.hint)
                raise PipelineError(self.pipeline.path, [mistake]) from None
        self.deliveries.make_room()

    def _look_at_tables(self) -> bool:
        """Load static tables that have changed; whether there were any."""
        is_any = self.engine.static_tables.look(self._commit_here)
        if is_any:
            self.deliveries.make_room()
        return is_any

    def _rest(self, once: bool) -> None:
        """Nothing to do: end, or wait for something to come; let time pass for windows and timers."""
        idle = [feed for feed in self._feeds if not self._is_busy(feed)]
        is_idle = len(idle) == len(self._feeds)
        now = self._clock()
        if once and is_idle and not any(feed.is_pending or feed.pace.wait_s(now) for feed in idle):
            self._end("once")
            return
        if self._ends_with_sources and idle and is_idle and all(feed.is_finished for feed in idle):
            self._end("sources")
            return
        waits = (max(f.pace.wait_s(now) or f.source.wait_s(), f.resume_at - now) for f in idle)
        wait_s = min([LONGEST_WAIT_S, *waits])
        tick_s = self.pipeline.engine.tick_us / 1e6
        if tick_s and not once:
            until_tick = self._last_activity + tick_s - now
            if until_tick <= 0:
                self._commit({}, {})
                return
            wait_s = min(wait_s, until_tick)
        self._wait(wait_s)

    def _wait(self, seconds: float) -> None:
        self._wake.wait(max(0.0, seconds))
        self._wake.clear()

    # ----------------------------------------------------------------------------------------- rounds

    def _advance(self, feed: Feed, once: bool) -> bool:
        """Take rows from a source and run a round over them; False if there are none, or they cannot be taken now."""
        if self._is_busy(feed):
            return self._end_job(feed, once)
        now = self._clock()
        if now < feed.resume_at or feed.pace.wait_s(now):
            return False
        try:
            with self.engine.rounds.lock:
                stream = self.engine.rounds.catalog.find_stream(feed.stream.name)
            if stream is None:
                self._close_feed(feed.name)
                self.engine.rounds.tell(SourceClosed(self._last_round, feed.stream.name))
                return True
            if stream is not feed.stream:
                if self._begins_anew(feed):
                    self._open_feed(feed.settings, once)
                    return True
                feed.follow(stream)
            feed.is_read_up = False
            if self._lanes is not None and self._lanes.start(feed, now):
                return False
            taken = feed.held or self._take(feed, now)
            feed.held = taken
            feed.is_read_up = taken is None and not feed.source.is_pending
            if taken is not None and not taken.is_empty:
                self._run_round(feed, taken)
        except SchemaChanged as changed:
            return self._follow(feed, changed, once)
        except EddylineError as error:
            self._failed(feed, error, once)
            return False
        feed.held = None
        self._went_well(feed)
        return taken is not None

    def _take(self, feed: Feed, now: float) -> Taken | None:
        """The next rows of a source, no more than a round and its pace allow."""
        limits, pace = self.pipeline.limits, feed.pace
        taken = feed.source.take(min(limits.rows_per_round, pace.most_rows), limits.bytes_per_round)
        if taken is not None:
            rows = taken.rows.rows
            pace.took(rows.num_rows + len(taken.rows.misfits), rows.nbytes, now, in_memory=True)
        return taken

    def _begins_anew(self, feed: Feed) -> bool:
        """Whether another stream has taken the name of the one that was fed: its source is then read from the beginning."""
        rounds = self.engine.rounds
        if isinstance(feed.settings.source, StdinSource):
            return False  # which has no beginning to go back to
        with rounds.lock:
            if rounds.durable is not None:
                return rounds.durable.rounds.position(feed.name) is None
            return feed.name not in rounds.progress

    def _follow(self, feed: Feed, changed: SchemaChanged, once: bool) -> bool:
        """The source has other columns now: the catalog follows, and the rows are taken again."""
        try:
            follow_change(self.engine, feed.stream.name, changed.change, self._last_round)
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
            self._count(outcome)
        return True

    def _went_well(self, feed: Feed) -> None:
        if feed.n_failures:
            seconds = round(self._clock() - feed.failing_since, 3)
            recovered = SourceRecovered(self._last_round, feed.stream.name, feed.n_failures, seconds)
            feed.n_failures = 0
            self.engine.rounds.tell(recovered)

    def _run_round(self, feed: Feed, taken: Taken) -> None:
        """Commit the rows of a source. Rows the engine cannot take as they are become dead letters."""
        rounds = self.engine.rounds
        position = {feed.name: feed.position(taken.position)}
        while True:
            with rounds.lock:
                schema = rounds.catalog.stream(feed.stream.name).schema
            rows = feed.in_schema(taken.rows, schema)
            try:
                outcome = self._commit({feed.name: rows}, position)
            except StreamChangedError:
                continue
            except SchemaError as error:
                if not rows.rows.num_rows:
                    raise
                outcome = self._commit({feed.name: _all_unfit(rows, error)}, position)
            break
        for event in taken.events:
            rounds.announce(replace(event, round_number=outcome.round.number))

    def _commit(self, inputs: dict[str, Ingested], positions: dict[str, Any]) -> Outcome:
        outcome = self._commit_here(inputs, positions)
        self.deliveries.make_room()
        return outcome

    def _commit_here(self, inputs: dict[str, Ingested], positions: dict[str, Any]) -> Outcome:
        """The same for whoever has the turn, and must not wait for sinks."""
        rounds = self.engine.rounds
        with rounds.turn:
            outcome = rounds.run_round(inputs, positions=positions)
            self.deliveries.keep(outcome)
        self._count(outcome)
        return outcome

    def _count(self, outcome: Outcome) -> None:
        """Count the rows of each source; `_heard` counts rounds, of whatever brought them."""
        self._last_activity = self._clock()
        for feed in self._feeds:
            n_rows = outcome.round.n_rows.get(feed.name, 0)
            feed.n_rows += n_rows
            feed.meter.add(n_rows)

    def _is_lost(self) -> bool:
        """Whether another process has taken the home."""
        durable = self.engine.rounds.durable
        return durable is not None and durable.database.number("epoch") != durable.epoch

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
        if is_hopeless or (once and feed.n_failures >= TRIES_ONCE) or self._is_over():
            raise error from None
        feed.resume_at = self._clock() + min(FIRST_PAUSE_S * 2 ** (feed.n_failures - 1), LONGEST_PAUSE_S)
        if not (feed.held is not None if is_round is None else is_round):
            self.engine.rounds.announce(SourceFailed(self._last_round, feed.stream.name, message))
        else:
            self.engine.rounds.announce(RoundFailed(self._last_round, message))

    # ----------------------------------------------------------------------------------------- telling

    def _heard(self, event: Event) -> None:
        if isinstance(event, RoundCommitted):
            self._last_round = max(self._last_round, event.round_number)
            counts = self._counts
            self._counts = replace(
                counts,
                n_rounds=counts.n_rounds + 1,
                n_rows=counts.n_rows + event.n_rows,
                n_results=counts.n_results + event.n_results,
                n_dead=counts.n_dead + event.n_dead,
            )
            if self._deliveries is not None:
                self._deliveries.wake()
        if self._on_event is not None:
            self._on_event(event)

    def _say_ends(self) -> None:
        """What is read, and what gets results."""
        reads = [f"{each.stream} from {each.type} {each.what}".rstrip() for each in self.sources()]
        gives = [f"{each.name} ({each.takes})" for each in self.sinks()]
        for what, names in (("reading", reads), ("sinks:", gives)):
            if names:
                more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
                _logger.info("%s %s%s", what, ", ".join(names[:MOST_NAMED]), more)

    def _progress(self) -> RunProgress:
        return replace(self._counts, seconds=self._clock() - self._began)

    def _say_progress(self) -> None:
        if self._on_progress is not None and self._clock() - self._last_line >= PROGRESS_EVERY_S:
            self._last_line = self._clock()
            self._on_progress(self._progress())

    def _starting(self, what: str, n_done: int, n_total: int) -> None:
        """Progress of the start."""
        if self._on_progress is not None and self._clock() - self._last_line >= PROGRESS_EVERY_S:
            self._last_line = self._clock()
            seconds = self._clock() - self._began
            self._on_progress(RunProgress(what, seconds, n_done=n_done, n_total=n_total))

    def _end(self, reason: str) -> None:
        self._ended_by = self._ended_by or reason
        self._wake.set()

    @contextmanager
    def _listening(self, signals: bool) -> Iterator[None]:
        """SIGINT and SIGTERM ask for the end; the same signal again does what it always does."""
        if not signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def ask(number: int, frame: FrameType | None) -> None:
            self._signal = number
            self._end("signal")
            signal.signal(number, before[signal.Signals(number)])

        for number in before:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _all_unfit(rows: Ingested, error: SchemaError) -> Ingested:
    """Rows that cannot be taken as they are, each as a dead letter."""
    why = " ".join(part for part in (error.problem + ".", error.detail) if part)
    return Ingested(
        rows.rows.slice(0, 0), None, [*rows.misfits, *(Misfit(row, why) for row in python_rows(rows.rows))]
    )
