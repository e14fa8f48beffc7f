"""`eddyline plan`, `apply`, `export`, `versions` and `rollback`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from eddyline.cli import show
from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.cli.session import pipeline_of, session


def plan(args: argparse.Namespace, out: Output) -> int:
    source, pipeline = _source(args)
    with session(args, out, pipeline=pipeline, plans=True) as engine:
        found = engine.call("plan", **source, prune=args.prune)
    if out.is_json:
        out.document(found)
    else:
        show.plan(found, out, is_pruned=args.prune)
    return 1 if found["mistakes"] or found["n_refused"] else 0


def apply(args: argparse.Namespace, out: Output) -> int:
    source, pipeline = _source(args)
    with session(args, out, pipeline=pipeline, creates=not args.dry_run, plans=args.dry_run) as engine:
        done = engine.call("apply", **source, prune=args.prune, dry_run=args.dry_run)
    if out.is_json:
        out.document(done)
    else:
        show.applied(done, out, is_pruned=args.prune)
    return 1 if done["applied"]["n_refused"] else 0


def _source(args: argparse.Namespace) -> tuple[dict[str, Any], Any]:
    """Where the rules are: what the command names, or the pipeline's. Absolute, for another process may read them."""
    for path in args.rules:
        if not Path(path).exists():
            raise CommandError(
                f"there is no file or folder {path}", hint="Name .sql files or a folder of them."
            )
    pipeline = pipeline_of(args, is_needed=not args.rules)
    if args.rules:
        return {"files": [str(Path(path).resolve()) for path in args.rules]}, pipeline
    assert pipeline is not None
    return {"pipeline": str(pipeline.path.resolve())}, pipeline


def export(args: argparse.Namespace, out: Output) -> int:
    folder = Path(args.folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(f"{folder} already exists", hint="Name a new folder, or an empty one.")
    with session(args, out) as engine:
        done = engine.call("export", folder=str(folder.resolve()))
    if out.is_json:
        out.document(done)
        return 0
    for file in done["files"]:
        out.text(show.near(file))
    out.note(
        f"{show.plural(done['n_streams'], 'stream')} and {show.plural(done['n_queries'], 'query')} written"
    )
    return 0


def versions(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        found = engine.call("versions", newest=args.newest)
    if out.is_json:
        out.document(found)
    else:
        out.table(["version", "at", "what"], [[v["version"], v["at"], v["what"]] for v in found])
    return 0


def rollback(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        done = engine.call("rollback", version=args.version, dry_run=args.dry_run)
    if out.is_json:
        out.document(done)
        return 0
    for line in show.rollback_changes(done):
        out.text(line)
    counts = show.counts(done, ("added", "changed", "removed"))
    if not counts:
        out.text(f"nothing to do: the queries of version {done['to']} are deployed")
    elif args.dry_run:
        out.text(f"would be: {counts}")
    else:
        out.text(f"{counts}; version {done['version']} has the queries of version {done['to']}")
    return 0
