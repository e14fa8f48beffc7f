"""`eddyline stream add`: a stream from a sample of its data."""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path
from typing import BinaryIO

from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.cli.session import pipeline_of
from eddyline.errors import SchemaError
from eddyline.pipeline import FILE_NAME, Pipeline, PipelineError, find_pipeline, load_pipeline
from eddyline.sources import Proposal, propose
from eddyline.time_properties import TIME_PROPERTIES
from eddyline.types import type_name


def add(args: argparse.Namespace, out: Output) -> int:
    _check_words(args)
    pipeline = pipeline_of(args, is_needed=args.write) if args.write or args.pipeline else _pipeline_near()
    if args.write and pipeline is not None:
        _refuse_if_there(args.name, pipeline)
    with out.progress(f"looking at {args.sample}"):
        proposal = propose(
            args.name,
            _standard_input() if args.sample == "-" else Path(args.sample).expanduser(),
            n_rows=args.rows,
            file_format=args.format,
            delimiter=args.delimiter,
            time=args.time,
            time_unit=args.time_unit,
            time_format=args.time_format,
            time_zone=(None if pipeline is None else pipeline.engine.time_zone) or "UTC",
        )
    snippet = proposal.to_toml(Path.cwd() if pipeline is None else pipeline.path.parent)
    if args.write:
        assert pipeline is not None
        _append(pipeline, snippet)
    if out.is_json:
        out.document(_as_json(proposal, snippet, pipeline if args.write else None))
    else:
        _show(proposal, snippet, pipeline if args.write else None, out)
    return 0


def _check_words(args: argparse.Namespace) -> None:
    name = args.name
    if not name.replace("_", "a").isalnum() or name[0].isdigit():
        raise CommandError(
            f"{name!r} cannot be the name of a stream", hint="Use letters, digits and underscores."
        )
    if args.sample is None:
        raise CommandError(
            "stream add looks at a sample of the data",
            hint=f"Give a file or folder: eddyline stream add {name} --sample data/, or - for standard input.",
        )
    if args.delimiter is not None and (len(args.delimiter.encode()) != 1 or args.delimiter in '"\r\n'):
        raise CommandError(
            f"{args.delimiter!r} cannot separate fields", hint="Give one character, such as ';'."
        )


def _pipeline_near() -> Pipeline | None:
    """The one around here, if there is one that can be read: it only says where paths start, and the time zone."""
    path = find_pipeline()
    try:
        return None if path is None else load_pipeline(path)
    except PipelineError:
        return None


def _standard_input() -> BinaryIO:
    binary: BinaryIO | None = getattr(sys.stdin, "buffer", None)
    return io.BytesIO(sys.stdin.read().encode()) if binary is None else binary


# --------------------------------------------------------------------------------------------- into the file


def _refuse_if_there(name: str, pipeline: Pipeline) -> None:
    for settings in pipeline.streams:
        if settings.stream.name.lower() == name.lower():
            raise SchemaError(
                f"stream {settings.stream.name} is in {pipeline.path.name} already",
                detail="Nothing was written.",
                hint="Give another name, or leave --write out and change the file by hand.",
            )


def _append(pipeline: Pipeline, snippet: str) -> None:
    """Write the snippet to the end of the pipeline file; if the file cannot be read then, it is left as it was."""
    path = pipeline.path
    try:
        before = path.read_bytes()
        line_end = b"\r\n" if b"\r\n" in before else b"\n"
        text = before.rstrip(b"\r\n") + b"\n\n" if before.strip() else b""
        new = (text + snippet.encode()).replace(b"\r\n", b"\n").replace(b"\n", line_end)
        _replace(path, new)
        try:
            load_pipeline(path)
        except PipelineError:
            _replace(path, before)
            raise
    except OSError as error:
        raise CommandError(
            f"cannot write to {path}",
            detail=error.strerror,
            hint="Leave --write out to have it shown, and add it by hand.",
        ) from None


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    with open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.chmod(path.stat().st_mode)
    os.replace(beside, path)


# --------------------------------------------------------------------------------------------- on the screen


def _show(proposal: Proposal, snippet: str, written: Pipeline | None, out: Output) -> None:
    has_notes = any(column.note for column in proposal.columns)
    out.table(
        ["column", "type", "nulls", "examples", *(["note"] if has_notes else [])],
        [
            [
                column.name,
                type_name(column.type) + ("" if column.nullable else " NOT NULL"),
                column.n_nulls or None,
                ", ".join(column.examples),
                *([column.note] if has_notes else []),
            ]
            for column in proposal.columns
        ],
    )
    out.text()
    out.text(snippet)
    out.text(proposal.to_sql().rstrip("\n"))
    out.note(_summary(proposal))
    for note in proposal.notes:
        out.note(note)
    if written is not None:
        out.note(f"added to {written.path.name}; eddyline run reads it from the next start on")
    else:
        out.note(f"nothing was changed: --write adds the first part to {FILE_NAME}")


def _summary(proposal: Proposal) -> str:
    rows = "1 row" if proposal.n_rows == 1 else f"{proposal.n_rows:,} rows"
    unfit = f", {proposal.n_unfit:,} would not fit" if proposal.n_unfit else ""
    read_as = "".join(f", {word} {value}" for word, value in proposal.time_properties)
    time = "no time column" if proposal.time is None else f"time is {proposal.time}{read_as}"
    return f"looked at {rows} of {proposal.format.name}{unfit}; {time}"


def _as_json(proposal: Proposal, snippet: str, written: Pipeline | None) -> dict[str, object]:
    return {
        "stream": proposal.name,
        "format": proposal.format.name,
        "n_rows": proposal.n_rows,
        "n_unfit": proposal.n_unfit,
        "time": proposal.time,
        **dict.fromkeys(TIME_PROPERTIES),
        **dict(proposal.time_properties),
        "columns": [
            {
                "name": column.name,
                "type": type_name(column.type),
                "nullable": column.nullable,
                "n_nulls": column.n_nulls,
                "examples": list(column.examples),
                "note": column.note,
            }
            for column in proposal.columns
        ],
        "notes": list(proposal.notes),
        "pipeline": snippet,
        "sql": proposal.to_sql(),
        "written_to": None if written is None else str(written.path),
    }
