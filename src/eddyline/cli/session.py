"""Which engine a command speaks to: the one that holds the home, or one it opens itself."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eddyline.api import Commands, Engine, open_engine, open_pipeline
from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.control import Remote
from eddyline.errors import HomeError
from eddyline.pipeline import (
    FILE_NAME,
    Pipeline,
    find_pipeline,
    load_functions,
    load_pipeline,
)
from eddyline.storage import holder_of

STARTING_S = 2.0  # a holder that has just opened the home may not take commands yet


@dataclass(slots=True)
class Session:
    """An engine to ask. `is_held`: it lives in another process."""

    commands: Commands | Remote
    out: Output
    home: Path | None
    is_held: bool

    def call(self, command: str, **arguments: Any) -> Any:
        """Run a command; what takes long says so on stderr."""
        with self.out.progress(command.replace("_", " ")) as tell:
            return self.commands.call(command, arguments, tell)


def pipeline_of(args: argparse.Namespace, *, is_needed: bool = False) -> Pipeline | None:
    """The pipeline a command is about: the one it names, or eddyline.toml here or in a folder above."""
    named = getattr(args, "pipeline", None)
    if named is None and not is_needed and _home_option(args) is not None:
        return None
    path = find_pipeline(named)
    if path is None:
        if named is None and not is_needed:
            return None
        where = "here or in a folder above" if named is None else f"at {named}"
        raise CommandError(
            f"there is no {FILE_NAME} {where}",
            hint="Start one with eddyline init NAME, or name a pipeline file.",
        )
    return load_pipeline(path)


def home_of(args: argparse.Namespace, pipeline: Pipeline | None) -> Path:
    """--home, EDDYLINE_HOME, or what the pipeline says."""
    named = _home_option(args)
    if named is not None:
        return Path(named)
    if pipeline is None:
        raise CommandError(
            "no home was named",
            hint=f"Give --home FOLDER, set EDDYLINE_HOME, or go to a folder with an {FILE_NAME}.",
        )
    return pipeline.engine.home


def _home_option(args: argparse.Namespace) -> str | None:
    return getattr(args, "home", None) or os.environ.get("EDDYLINE_HOME") or None


@contextmanager
def session(
    args: argparse.Namespace,
    out: Output,
    *,
    pipeline: Pipeline | None = None,
    creates: bool = False,
    plans: bool = False,
) -> Iterator[Session]:
    """The engine of the home. One that is not there is made with `creates`; with `plans`, nothing is kept of what is done."""
    pipeline = pipeline or pipeline_of(args)
    home = home_of(args, pipeline)
    with out.progress(f"opening {home}"):
        remote = connected(home)
    if remote is not None:
        try:
            yield Session(remote, out, home, is_held=True)
        finally:
            remote.close()
        return
    is_there = (home / "catalog.db").exists()
    if not is_there and not creates and not plans:
        raise CommandError(
            f"there is no home at {home}",
            hint="Make one with eddyline apply or eddyline run, or name another with --home.",
        )
    with out.progress(f"opening {home}"):
        engine = _open(None if plans and not is_there else home, pipeline)
    with engine:
        yield Session(Commands(engine), out, home, is_held=False)


@contextmanager
def running(args: argparse.Namespace, out: Output) -> Iterator[Session]:
    """The engine that another process runs on the home. Raises HomeError if none does."""
    home = home_of(args, pipeline_of(args))
    remote = connected(home)
    if remote is None:
        raise HomeError(
            f"no process runs the home {home}", hint="Start it with eddyline run or eddyline serve."
        )
    with closing(remote):
        yield Session(remote, out, home, is_held=True)


def connected(home: Path) -> Remote | None:
    """The engine that holds the home, if one does."""
    until = time.monotonic() + STARTING_S
    while (holder := holder_of(home)) is not None:
        try:
            return Remote(home)
        except HomeError as error:
            if time.monotonic() > until:
                if holder:
                    who = f"process {holder['pid']} ({holder['command']}) on {holder['host']}"
                    error.detail = f"It is {who}, since {holder['since']}."
                raise
        time.sleep(0.1)
    return None


def _open(home: Path | None, pipeline: Pipeline | None) -> Engine:
    if pipeline is None:
        return open_engine(home)
    if home is not None:
        return open_pipeline(pipeline, home=home)
    load_functions(pipeline)
    return open_engine(time_zone=pipeline.engine.time_zone)
