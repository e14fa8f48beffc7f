"""`eddyline doctor`: this machine, then the home; with `--prepare`, what can be made ready on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import eddyline
from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.cli.session import connected, home_of, pipeline_of, session
from eddyline.cli.show import plural
from eddyline.control import ERROR, OK, WARNING, Finding, check_home, folder_findings
from eddyline.documents import size_text
from eddyline.engine import Durable, Retention
from eddyline.errors import EddylineError
from eddyline.pipeline import Pipeline
from eddyline.spark import SWITCH, JavaNotFoundError, java_home, prepare_fast_start
from eddyline.storage import holder_of

NEEDED = ("numba", "numpy", "pyarrow", "rich", "sqlglot", "tzdata")
OPTIONAL = {"pyspark": "spark", "fastapi": "server", "confluent-kafka": "kafka"}
_SIGNS = {OK: "ok", WARNING: "warning", ERROR: "ERROR"}


def doctor(args: argparse.Namespace, out: Output) -> int:
    found = [*_machine()]
    if args.prepare:
        found.append(_prepared(out))
    try:
        pipeline = pipeline_of(args)
        home: Path | None = home_of(args, pipeline)
    except CommandError as error:
        if args.home is not None or args.forget_damaged:
            raise
        home = pipeline = None
        found.append(Finding(OK, "home", "none was named", error.hint))
    if home is not None:
        retention = None if pipeline is None else pipeline.engine.retention
        found += _home(home, retention, args, out)
    if pipeline is not None and not any(finding.level == ERROR for finding in found):
        found += _rules(pipeline, args, out)
    n_errors = sum(finding.level == ERROR for finding in found)
    if out.is_json:
        out.document({"findings": [dataclasses.asdict(finding) for finding in found], "errors": n_errors})
        return 1 if n_errors else 0
    for finding in found:
        out.text(f"{_SIGNS[finding.level]:8s} {finding.subject}: {finding.message}")
        if finding.hint:
            out.text(f"{'':8s} hint: {finding.hint}")
    return 1 if n_errors else 0


def _machine() -> Iterator[Finding]:
    yield Finding(OK, "eddyline", eddyline.__version__)
    yield Finding(OK, "python", f"{platform.python_version()} on {platform.system()}")
    for package in NEEDED:
        version = _version(package)
        if version is None:
            yield Finding(ERROR, package, "is not installed", f"pip install {package}")
        else:
            yield Finding(OK, package, version)
    for package, extra in OPTIONAL.items():
        version = _version(package)
        if version is None:
            yield Finding(OK, package, "is not installed", f"Needed only for eddyline[{extra}].")
        else:
            yield Finding(OK, package, version)
    if _version("pyspark") is not None:
        yield _java()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _java() -> Finding:
    try:
        return Finding(OK, "java", str(java_home()))
    except JavaNotFoundError as error:
        return Finding(WARNING, "java", f"{error.problem}. {error.detail}", error.hint)


def _prepared(out: Output) -> Finding:
    """Java's archive of Spark's classes, built now if it is not there yet."""
    subject = "fast start"
    try:
        with out.progress("looking at the class-data archive") as tell:
            archive = prepare_fast_start(on_wait=lambda what: tell(what, 0, 0))
    except EddylineError as error:
        message = " ".join(filter(None, (error.problem, error.detail and f"({error.detail})")))
        return Finding(ERROR, subject, message, error.hint)
    if archive is None:
        return Finding(WARNING, subject, f"{SWITCH} switches it off", f"Unset {SWITCH} to have it built.")
    return Finding(OK, subject, f"{archive}, {size_text(archive.stat().st_size)}")


def _holder(home: Path) -> str:
    holder = holder_of(home)
    return (
        f"process {holder['pid']} ({holder['command']}) on {holder['host']}" if holder else "another process"
    )


def _rules(pipeline: Pipeline, args: argparse.Namespace, out: Output) -> Iterator[Finding]:
    """What the rules of the pipeline warn of as a whole."""
    try:
        with session(args, out, pipeline=pipeline, plans=True) as engine:
            planned = engine.call("plan", pipeline=str(pipeline.path.resolve()))
    except EddylineError as error:
        yield Finding(ERROR, "rules", error.problem, error.hint)
        return
    n_mistakes = len(planned["mistakes"])
    if n_mistakes:
        yield Finding(ERROR, "rules", plural(n_mistakes, "mistake"), "eddyline plan lists them.")
    for warning in planned["warnings"]:
        yield Finding(WARNING, "rules", warning)
    if not n_mistakes and not planned["warnings"]:
        n = planned["added"] + planned["changed"] + planned["unchanged"]
        yield Finding(OK, "rules", f"{plural(n, 'query')} in {pipeline.path.name}")


def _home(home: Path, retention: Retention | None, args: argparse.Namespace, out: Output) -> list[Finding]:
    if not (home / "catalog.db").exists():
        if args.forget_damaged:
            raise CommandError(f"there is no home at {home}", hint="Name another with --home.")
        return [
            Finding(OK, "home", f"{home} does not exist yet", "eddyline run or eddyline apply creates it.")
        ]
    try:
        remote = connected(home)
        if remote is not None:
            with out.progress("asking the engine") as tell:
                body: list[dict[str, Any]] = remote.call(
                    "doctor", {"forget_damaged": args.forget_damaged}, tell
                )
            remote.close()
            return [
                Finding(OK, "home", f"{home}, held by {_holder(home)}"),
                *(Finding(**one) for one in body),
            ]
        with out.progress(f"opening {home}") as tell:
            durable = Durable(home, time_zone=None, retention=retention)
            try:
                found = check_home(durable, forget_damaged=args.forget_damaged, tell=tell)
            finally:
                durable.close()
        return [Finding(OK, "home", f"{home}, not held by any process"), *found]
    except EddylineError as error:
        message = " ".join(filter(None, (error.problem, error.detail and f"({error.detail})")))
        return [Finding(ERROR, "home", message, error.hint), *folder_findings(home)]
