"""`eddyline test`: the .stream files beside the rules, and their outcome for people and for machines.

A script is run on an engine in memory that has the streams of the pipeline. One that goes by the name of a rule file beside it,
`cheap.stream` beside `cheap.sql`, has the rules of that file too: it is the test of those rules.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from eddyline.api import Engine, open_engine
from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.cli.session import pipeline_of
from eddyline.cli.show import near, near_in
from eddyline.errors import EddylineError
from eddyline.pipeline import Pipeline, Place, load_functions
from eddyline.rules import Desired, StatedStream, apply_rules, desired, rule_files
from eddyline.scripts import run_file


@dataclass(slots=True)
class CheckOutcome:
    """What became of one script."""

    file: Path
    seconds: float
    differences: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None  # it could not be run at all

    @property
    def has_passed(self) -> bool:
        return not self.differences and self.error is None


def test(args: argparse.Namespace, out: Output) -> int:
    pipeline = pipeline_of(args)
    files = _scripts(args.paths, pipeline)
    if pipeline is not None:
        load_functions(pipeline)
    outcomes = []
    with out.progress("testing") as tell:
        for at, file in enumerate(files):
            tell(f"testing {near(str(file))}", at, len(files))
            outcomes.append(_run(file, pipeline))
    if args.junit is not None:
        _write_junit(Path(args.junit), outcomes)
    n_failed = sum(not outcome.has_passed for outcome in outcomes)
    if out.is_json:
        out.document(
            {
                "passed": len(outcomes) - n_failed,
                "failed": n_failed,
                "tests": [
                    {
                        "file": str(outcome.file),
                        "passed": outcome.has_passed,
                        "seconds": round(outcome.seconds, 3),
                        "differences": outcome.differences,
                        "error": outcome.error,
                    }
                    for outcome in outcomes
                ],
            }
        )
        return 1 if n_failed else 0
    for outcome in outcomes:
        out.text(f"{'ok    ' if outcome.has_passed else 'FAILED'}  {near(str(outcome.file))}")
        for difference in outcome.differences:
            out.note(near_in(difference["shown"]))
        if outcome.error is not None:
            out.note(near_in(outcome.error))
    out.text(f"{len(outcomes) - n_failed} passed, {n_failed} failed")
    return 1 if n_failed else 0


def _scripts(paths: Iterable[str], pipeline: Pipeline | None) -> list[Path]:
    """The .stream files a command names, or those below the pipeline's folder."""
    roots = [Path(path) for path in paths]
    for path in roots:
        if not path.exists():
            raise CommandError(
                f"there is no file or folder {path}", hint="Name .stream files or a folder of them."
            )
    if not roots:
        roots = [pipeline.folder if pipeline is not None else Path()]
    found: dict[Path, None] = {}
    for path in roots:
        inside = sorted(path.rglob("*.stream")) if path.is_dir() else [path]
        found |= dict.fromkeys(
            file for file in inside if not any(p.startswith(".") for p in file.parts[:-1] if p != "..")
        )
    if not found:
        raise CommandError(
            f"there are no .stream files in {', '.join(map(str, roots))}",
            hint="Write one: see docs/rules.md, “Tests”.",
        )
    return list(found)


def _run(file: Path, pipeline: Pipeline | None) -> CheckOutcome:
    began = time.perf_counter()
    outcome = CheckOutcome(file, 0.0)
    try:
        differences = run_file(file, _engine_for(file, pipeline))
        outcome.differences = [
            {"file": d.path, "line": d.line, "message": d.message, "shown": str(d)} for d in differences
        ]
    except EddylineError as error:
        outcome.error = str(error)
    except (OSError, UnicodeDecodeError) as error:
        outcome.error = f"{file} cannot be read: {error}"
    outcome.seconds = time.perf_counter() - began
    return outcome


def _engine_for(file: Path, pipeline: Pipeline | None) -> Callable[..., Engine]:
    """Makes the engine a script runs on."""
    target = Desired()
    rules = file.with_suffix(".sql")
    if rules.is_file():
        target = desired(rules)
        folder = [other for other in rule_files([rules.parent]) if other != rules]
        stated = {stream.stream.name.lower() for stream in target.streams}
        for stream in desired(folder).streams:  # streams that files beside it declare
            if stream.stream.name.lower() not in stated:
                target.streams.append(stream)
    if pipeline is not None:
        stated = {stream.stream.name.lower() for stream in target.streams}
        for settings in pipeline.streams:
            if settings.stream.name.lower() not in stated:
                target.streams.append(
                    StatedStream(settings.stream, settings.place or Place(pipeline.path, 1, 1))
                )

    def make(**options: Any) -> Engine:
        engine = open_engine(**options)
        apply_rules(engine, target)
        return engine

    return make


def _write_junit(file: Path, outcomes: list[CheckOutcome]) -> None:
    n_failed = sum(not outcome.has_passed for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    suite = ElementTree.Element(
        "testsuite", name="eddyline", tests=str(len(outcomes)), failures=str(n_failed), time=f"{seconds:.3f}"
    )
    for outcome in outcomes:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=str(outcome.file.parent),
            name=outcome.file.name,
            time=f"{outcome.seconds:.3f}",
        )
        if not outcome.has_passed:
            failure_texts = [difference["shown"] for difference in outcome.differences] + [
                outcome.error or ""
            ]
            text = "\n".join(filter(None, failure_texts))
            failure = ElementTree.SubElement(case, "failure", message=text.partition("\n")[0])
            failure.text = _xml_text(text)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise CommandError(f"cannot write {file}", detail=error.strerror) from None


def _xml_text(text: str) -> str:
    """XML has no room for control characters."""
    return "".join(c if c in "\t\n\r" or ord(c) >= 32 else "�" for c in text)
