"""`eddyline run`: a pipeline in this process, which takes commands while it runs."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys

from eddyline.api.pipeline.model import Pipeline
from eddyline.api.runner import Runner, RunProgress, RunSummary
from eddyline.cli import show
from eddyline.cli.output import Output
from eddyline.cli.session import home_of, pipeline_of
from eddyline.errors import HomeError, PropertyError
from eddyline.events import CallbackFailed, Event, ResultsDropped, RoundCommitted, RoundMeasured
from eddyline.spark.workers import SparkWorkers

_ROUTINE = (RoundCommitted, RoundMeasured, ResultsDropped, CallbackFailed)


def run(args: argparse.Namespace, out: Output) -> int:
    pipeline = pipeline_of(args, is_needed=True)
    assert pipeline is not None
    home = home_of(args, pipeline)
    with (
        _workers(args, pipeline, out) as workers,
        Runner(
            pipeline,
            home=home,
            on_event=lambda event: _tell(event, out),
            on_progress=lambda far: _progress(far, out),
            workers=workers,
        ) as runner,
    ):
        if runner.applied is not None:
            counts = show.counts(dataclasses.asdict(runner.applied), ("added", "changed", "removed"))
            if counts and not out.is_json:
                out.note(f"rules: {counts}; version {runner.applied.version}")
            for row in runner.applied.refused[: show.SHOWN]:
                out.note(show.near_in(f"refused: {row}"))
        try:
            runner.engine.listen()
        except HomeError as error:  # it runs all the same
            out.note(f"warning: {error}")
        summary = runner.run(once=args.once)
    _summarise(summary, out)
    return 0


def _workers(
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
        on_wait=lambda said: out.note(f"{said} …"),
    )
    for warning in workers.warnings:
        out.note(f"warning: {warning}")
    return workers


def _tell(event: Event, out: Output) -> None:
    """What went wrong while it runs; rounds are not told one by one."""
    if not isinstance(event, _ROUTINE):
        facts = dataclasses.asdict(event)
        number = facts.pop("round_number")
        said = ", ".join(f"{name} {value}" for name, value in facts.items())
        out.note(f"round {number}: {type(event).__name__}: {said}")


def _progress(far: RunProgress, out: Output) -> None:
    if out.shows_progress:
        out.passing(far.line)


def _summarise(summary: RunSummary, out: Output) -> None:
    if out.shows_progress:
        out.passing("")
    if out.is_json:
        print(json.dumps(dataclasses.asdict(summary)), file=sys.stderr, flush=True)
        return
    counted = ((summary.n_rounds, "round"), (summary.n_rows, "row"), (summary.n_results, "result"))
    said = ", ".join(show.plural(n, noun) for n, noun in counted)
    dead = f", {show.plural(summary.n_dead, 'dead letter')}" if summary.n_dead else ""
    out.note(f"{said}{dead} in {summary.seconds:.1f} s; ended by {summary.ended_by}")
