"""Rules as code, over HTTP: what files would change, and the change."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from eddyline import rules
from eddyline.control import error_from, error_to
from eddyline.delivery import jsonable
from eddyline.errors import PropertyError
from eddyline.rules import RulesError, try_plan
from eddyline.server import models
from eddyline.server.access import Admin, Serves
from eddyline.server.errors import Answer
from eddyline.server.routes import router
from eddyline.stream_properties import is_static

routes = router("rules")

MOST_FILES = 10_000


@routes.post("/rules/plan", response_model=models.RulesAnswer)
def plan(service: Serves, caller: Admin, body: models.RulesBody) -> Answer:
    """What applying these files would change, tried on recent rows; with its mistakes, if there are any."""
    with _laid_out(body.files) as folder:
        found = rules.plan(service.engine, _desired(folder))
        try_plan(service.engine.rounds, found)
        return Answer({"plan": _without(jsonable(found.as_dict(prune=body.prune)), folder)})


@routes.post("/rules/apply", response_model=models.RulesAnswer)
def apply(service: Serves, caller: Admin, body: models.RulesBody) -> Answer:
    """Deploy what these files say, in one version, or nothing of it if one has a mistake."""
    with _laid_out(body.files) as folder:
        with service.engine.rounds.lock:
            found = rules.plan(service.engine, _desired(folder))
            done = rules.apply(service.engine, found, prune=body.prune, dry_run=body.dry_run)
        if not body.dry_run and done.version != done.before:
            counts = {"added": done.added, "changed": done.changed, "removed": done.removed}
            detail = {"files": sorted(body.files)[:20], "version": done.version} | counts
            service.audit(caller.id, "", "apply rules", detail)
        document = {
            "plan": found.as_dict(prune=body.prune),
            "applied": done.as_dict(),
            "dry_run": body.dry_run,
        }
        return Answer(_without(jsonable(document), folder))


def _desired(folder: str) -> rules.Desired:
    """What the files say. A table of rules is one of them: a path may not lead to another file of this machine.

    A static table would have to, so there is none.
    """
    target = rules.desired([folder])
    inside = Path(folder).resolve()
    for table in target.tables:
        if not table.file.resolve().is_relative_to(inside):
            raise PropertyError(
                f"rules_table {table.file.name!r} is not one of the files",
                hint="Send the table with the rule files, and name it by a relative path.",
            )
    for stated in target.streams:
        if is_static(stated.stream):
            raise PropertyError(
                f"static table {stated.stream.name} cannot be declared from afar",
                detail="It would read files of the machine the server runs on.",
                hint="Declare it there: [tables.NAME] in the pipeline file, or engine.table().",
            )
    return target


@contextmanager
def _laid_out(files: Mapping[str, str]) -> Iterator[str]:
    """The files in a folder of their own; mistakes in them name the files as they were sent."""
    with tempfile.TemporaryDirectory(prefix="eddyline-rules-") as folder:
        _lay_out(files, Path(folder))
        try:
            yield folder
        except RulesError as error:
            body = _without(error_to(error), folder)
            raise error_from(body) from None


def _lay_out(files: Mapping[str, str], folder: Path) -> None:
    """Write the files into a folder; a name cannot lead out of it."""
    if len(files) > MOST_FILES:
        raise PropertyError(f"{len(files)} files are too many", hint=f"Send up to {MOST_FILES}.")
    for name, text in files.items():
        path = PurePosixPath(name)
        is_plain = all(part not in (".", "..") and part.isprintable() for part in path.parts)
        if not name or path.is_absolute() or not is_plain or "\\" in name or len(name.encode()) > 200:
            raise PropertyError(
                f"{name[:100]!r} cannot be the name of a rule file",
                hint='Use names such as "trades/cheap.sql".',
            )
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            raise PropertyError(
                f"{name[:100]!r} cannot be the name of a rule file", detail=error.strerror
            ) from None


def _without(document: Any, folder: str) -> Any:
    """Places in files as the sender knows them."""
    if isinstance(document, dict):
        return {key: _without(value, folder) for key, value in document.items()}
    if isinstance(document, list):
        return [_without(value, folder) for value in document]
    if isinstance(document, str) and folder in document:
        return document.replace(f"{folder}/", "").replace(folder, ".")
    return document
