"""`eddyline run`: a pipeline in this process, which takes commands while it runs."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys

from eddyline.api import Engine, PipelineRunner, log_start
from eddyline.cli import show
from eddyline.cli.logs import logging_to_stderr, tell_event
from eddyline.cli.output import Output
from eddyline.cli.session import home_of, pipeline_of
from eddyline.errors import HomeError, PropertyError
from eddyline.pipeline import Pipeline
from eddyline.runtime import RunProgress, RunSummary
from eddyline.spark import SparkWorkers

AUDIT_S = 60.0
STEPS_EVERY_S = 10.0


def run(args: argparse.Namespace, out: Output) -> int:
    pipeline = pipeline_of(args, is_needed=True)
    assert pipeline is not None
    home = home_of(args, pipeline)
    with (
        logging_to_stderr(args, out),
        workers_of(args, pipeline, out) as workers,
        PipelineRunner(
            pipeline,
            home=home,
            on_event=tell_event,
            on_progress=ProgressLines(out),
            workers=workers,
        ) as runner,
    ):
        tell_rules(runner, out)
        try:
            runner.engine.listen()
        except HomeError as error:  # it runs all the same
            out.note(f"warning: {error}")
        start_audit(args, runner.engine)
        log_start(runner.engine, spark=runner.spark_version)
        summary = runner.run(once=args.once)
        _tell_audit(runner.engine, out, once=args.once)
        _summarise(summary, out)
    return 0


def start_audit(args: argparse.Namespace, engine: Engine) -> None:
    """What --audit asks for, whatever the pipeline file says."""
    if args.audit is not None:
        engine.start_audit(args.audit)


def _tell_audit(engine: Engine, out: Output, *, once: bool) -> None:
    """What the audit found. A run of what is there waits for it, for a while."""
    if once and not engine.finish_audit(0):
        with out.progress("auditing"):
            engine.finish_audit(AUDIT_S)
    found = engine.audited()
    if found is not None:
        counted = ((found.n_rounds, "round"), (found.n_queries, "query"), (found.n_differences, "difference"))
        counts_text = ", ".join(show.plural(n, noun) for n, noun in counted)
        skipped = "".join(f"; {n:,} skipped: {reason}" for reason, n in found.skipped.items())
        out.note(f"audit: {counts_text}{skipped}")


def tell_rules(runner: PipelineRunner, out: Output) -> None:
    """What applying the rules of the pipeline changed."""
    if runner.applied is None:
        return
    counts = show.counts(dataclasses.asdict(runner.applied), ("added", "changed", "removed"))
    if counts and not out.is_json:
        out.note(f"rules: {counts}; version {runner.applied.version}")
    for warning in runner.applied.warnings:
        out.note(f"warning: {warning}")
    for row in runner.applied.refused[: show.SHOWN]:
        out.note(show.near_in(f"refused: {row}"))


def workers_of(
    args: argparse.Namespace, pipeline: Pipeline, out: Output
) -> contextlib.AbstractContextManager[SparkWorkers | None]:
    """The workers of Spark, if they are asked for."""
    if not (args.spark or args.master or args.conf):
        return contextlib.nullcontext()
    confs = {}
    for setting in args.conf:
        name, is_there, value = setting.partition("=")
        if not is_there or not name.strip():
            raise PropertyError(
                f"--conf {setting}: this is not a setting",
                hint="Write NAME=VALUE, such as --conf spark.executor.memory=4g.",
            )
        confs[name.strip()] = value.strip()
    workers = SparkWorkers(
        master=args.master,
        confs=confs,
        time_zone=pipeline.engine.time_zone,
        on_wait=lambda progress: out.note(f"{progress} …"),
    )
    for warning in workers.warnings:
        out.note(f"warning: {warning}")
    return workers


class ProgressLines:
    """How far a run is: on a terminal a line that changes; without one the steps of a long start, now and then.

    What happens after the start is in the log, which has a line a minute.
    """

    def __init__(self, out: Output) -> None:
        self._out = out
        self._last_s = -STEPS_EVERY_S

    def __call__(self, far: RunProgress) -> None:
        if self._out.shows_progress:
            self._out.passing(far.line)
        elif far.what != "running" and far.seconds - self._last_s >= STEPS_EVERY_S:
            self._last_s = far.seconds
            self._out.note(far.line)


def _summarise(summary: RunSummary, out: Output) -> None:
    if out.shows_progress:
        out.passing("")
    if out.is_json:
        print(json.dumps(dataclasses.asdict(summary)), file=sys.stderr, flush=True)
        return
    counted = ((summary.n_rounds, "round"), (summary.n_rows, "row"), (summary.n_results, "result"))
    counts_text = ", ".join(show.plural(n, noun) for n, noun in counted)
    dead = f", {show.plural(summary.n_dead, 'dead letter')}" if summary.n_dead else ""
    out.note(f"{counts_text}{dead} in {summary.seconds:.1f} s; ended by {summary.ended_by}")
