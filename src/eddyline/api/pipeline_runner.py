"""A pipeline file at work in this process: its home is opened, its rules are applied, its sources, rounds and sinks run.

    summary = run(load_pipeline(path), once=True, on_event=show, on_progress=line)

or, to hold the engine while it runs (the home's socket, a dashboard, another thread that calls `stop`):

    with PipelineRunner(pipeline, on_event=…, on_progress=…) as runner:     # opens the home, applies the rules
        runner.engine.listen()                                              # the shell can speak to it
        summary = runner.run()                                              # returns after stop(), SIGINT or SIGTERM
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, TextIO

from eddyline.api.engine import Engine, open_engine
from eddyline.events import Event
from eddyline.pipeline import Pipeline, check_machine, load_functions
from eddyline.rules import Applied, apply_rules
from eddyline.runtime import Runner, RunProgress, RunSummary
from eddyline.spark import SparkWorkers


def open_pipeline(pipeline: Pipeline, *, home: Path | None = None) -> Engine:
    """Import the functions and open the home the pipeline names, or another one.

    Streams and rules are not touched: `eddyline.rules.apply_rules(engine, pipeline)` deploys both, in one version.
    """
    load_functions(pipeline)
    settings = pipeline.engine
    limits = settings.limits
    return open_engine(
        home or settings.home,
        time_zone=settings.time_zone,
        results_per_query=limits.results_per_query,
        result_bytes=limits.result_bytes,
        recent_rows=limits.recent_rows,
        dead_letters=limits.dead_letters,
        groups=limits.groups,
        memory=limits.memory,
        retention=settings.retention,
        seed=settings.seed,
        routing=settings.routing,
        strict=settings.is_strict,
    )


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
    """Run a pipeline to its end: with `once` when everything that is there was worked on, else when it is asked to stop.

    engine        an engine that is open already, with the rules applied; without it the pipeline's home is opened
    home          another home than the pipeline's
    until         asked after every round; True ends the run
    on_event      gets everything the engine, the sources and the sinks announce
    on_progress   called about every second for what takes over two
    """
    runner = PipelineRunner(
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


class PipelineRunner(Runner):
    """A runner with the engine it runs on, which may be used from other threads meanwhile."""

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
        """Check the machine, open the home, bring the sinks up to date, apply the rules (unless `apply` is off)."""
        check_machine(pipeline)
        self.applied: Applied | None = None
        self._owns_engine = engine is None
        self.engine = engine if engine is not None else open_pipeline(pipeline, home=home)
        try:
            if self._owns_engine and pipeline.engine.audit:
                self.engine.start_audit(pipeline.engine.audit)
            super().__init__(
                pipeline,
                self.engine.rounds,
                self.engine.static_tables,
                on_event=on_event,
                on_progress=on_progress,
                stdin=stdin,
                stdout=stdout,
                clock=clock,
                workers=workers,
            )
        except BaseException:
            self._close_engine()
            raise
        self.engine.watch_pipeline(self)
        try:
            if apply:
                self.applied = apply_rules(self.engine, pipeline, progress=self._reporter.report_start)
        except BaseException:
            self.close()
            raise

    def run(
        self,
        *,
        once: bool = False,
        until: Callable[[RunProgress], bool] | None = None,
        signals: bool = True,
        ends_with_sources: bool = True,
    ) -> RunSummary:
        """As `Runner.run`, with a line a minute in the log."""
        with self.engine.summaries:
            return super().run(once=once, until=until, signals=signals, ends_with_sources=ends_with_sources)

    def close(self) -> None:
        """Let go of sources and sinks, and of the engine if it was opened here."""
        self.engine.watch_pipeline(None)
        super().close()
        self._close_engine()

    def _close_engine(self) -> None:
        if self._owns_engine:
            self.engine.close()

    def __enter__(self) -> PipelineRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
