"""An engine at work over the sources of its streams, on Spark, until it is asked to stop: what `Engine.start` returns.

engine.stream("trades", "sym STRING, price DOUBLE")
with engine.start(sources={"trades": {"type": "files", "path": "in/", "format": "parquet"}}) as running:
    …                                    # register, drop, read results
    running.feed("quotes", frame, checkpoint="checkpoints/quotes")       # any streaming DataFrame
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from eddyline.api.run_log import log_start
from eddyline.engine import SharedRounds
from eddyline.errors import ClosedError, PropertyError
from eddyline.events import Event
from eddyline.pipeline import (
    TICK_US,
    EngineSettings,
    Pipeline,
    RunLimits,
    StreamSettings,
    source_settings,
)
from eddyline.runtime import Runner, RunProgress, RunSummary
from eddyline.spark import SparkWorkers, drain, feed_stream, pack_functions

if TYPE_CHECKING:
    from eddyline.api.engine import Engine

OPEN_TIMEOUT_S = 60.0


class Running:
    """Rounds run in a thread of their own. Also a context manager that stops them."""

    def __init__(
        self,
        engine: Engine,
        session: Any = None,
        *,
        sources: Mapping[str, Mapping[str, Any]] | None = None,
        master: str | None = None,
        confs: Mapping[str, str] | None = None,
        once: bool = False,
        limits: RunLimits | None = None,
        tick_us: int | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_progress: Callable[[RunProgress], None] | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> None:
        durable = engine.rounds.durable
        if durable is None:
            raise PropertyError(
                "an engine in memory cannot run on Spark",
                detail="Workers read plans from a folder and write results to it.",
                hint='Open it with a home: eddyline.open("folder/").',
            )
        self.engine = engine
        settings = [self._settings(name, source) for name, source in (sources or {}).items()]
        self.workers = SparkWorkers(
            session, master=master, confs=confs, time_zone=engine.rounds.time_zone, on_wait=on_wait
        )
        try:
            home = EngineSettings(durable.home.folder, tick_us=TICK_US if tick_us is None else tick_us)
            pipeline = Pipeline(
                Path.cwd() / "eddyline.toml", "", home, tuple(settings), limits=limits or RunLimits()
            )
            self._runner = Runner(
                pipeline,
                engine.rounds,
                engine.static_tables,
                on_event=on_event,
                on_progress=on_progress,
                workers=self.workers,
            )
        except BaseException:
            self.workers.close()
            raise
        engine.watch_pipeline(self._runner)
        log_start(engine, spark=self._runner.spark_version)
        self._once = once
        self._ends_alone = bool(settings)
        self._summary: RunSummary | None = None
        self._error: BaseException | None = None
        self._queries: list[Any] = []
        self._thread = threading.Thread(target=self._run, name="eddyline-rounds", daemon=True)
        self._thread.start()

    @property
    def spark(self) -> Any:
        """The session the rounds run on."""
        return self.workers.session

    def add_source(self, stream: str, source: Mapping[str, Any]) -> None:
        """Read from one more source, in the words of a pipeline file: `{"type": "files", "path": "in/", "format": "json"}`."""
        self._check_running()
        self._runner.add_source(self._settings(stream, source)).result(OPEN_TIMEOUT_S)

    def remove_source(self, stream: str) -> None:
        """Stop reading the source of a stream after the round in flight; how far it was read stays known."""
        self._check_running()
        self._runner.remove_source(stream).result(OPEN_TIMEOUT_S)

    def feed(
        self,
        stream: str,
        frame: Any,
        *,
        checkpoint: str | Path,
        on_new_query: str = "refuse",
        output_mode: str = "append",
        trigger: Mapping[str, Any] | None = None,
    ) -> Any:
        """Let any streaming DataFrame feed a stream, exactly once; `checkpoint` is the folder Spark remembers its place in.

        on_new_query   what if the stream was fed by another query so far, a deleted checkpoint say: "refuse", "resume" (take what
                       this one gives from now on) or "read again"
        trigger        as `writeStream.trigger` takes it, such as `{"processingTime": "1 second"}`
        """
        self._check_running()
        rounds = self.engine.rounds
        shared = SharedRounds(rounds, self.workers.run, pack_functions)
        query = feed_stream(
            shared,
            rounds,
            stream,
            frame,
            checkpoint,
            on_new_query=on_new_query,
            output_mode=output_mode,
            trigger=trigger,
        )
        self._queries.append(query)
        return query

    def wait(self, timeout: float | None = None) -> RunSummary | None:
        """Until the rounds have ended by themselves, or the time is over; raises what ended them if it was an error."""
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return self._summary

    def stop(self) -> RunSummary | None:
        """End after the rounds in flight, and the session too if it was started here. The engine stays open."""
        if self._queries:
            for query in self._queries:
                drain(query)
            self._queries.clear()
        self._runner.stop()
        self._thread.join()
        self.engine.watch_pipeline(None)
        self._runner.close()
        self.workers.close()
        if self._error is not None:
            raise self._error
        return self._summary

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            with self.engine.summaries:
                self._summary = self._runner.run(
                    once=self._once, signals=False, ends_with_sources=self._ends_alone
                )
        except BaseException as error:  # raised by `wait` and `stop`
            self._error = error

    def _check_running(self) -> None:
        if not self._thread.is_alive():
            raise ClosedError("these rounds have ended", hint="Start again with engine.start().")

    def _settings(self, name: str, source: Mapping[str, Any]) -> StreamSettings:
        """A source as a pipeline file would have it, checked the same way."""
        rounds = self.engine.rounds
        with rounds.lock:
            stream = rounds.catalog.stream(name)
        return StreamSettings(stream, source_settings(stream, source, Path.cwd(), rounds.time_zone))
