"""Rule files and versions, in words that JSON has: planning, applying, exporting and rolling back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eddyline import rules
from eddyline.documents import Tell
from eddyline.engine import Durable, RoundEngine
from eddyline.errors import PropertyError, UnknownNameError
from eddyline.model import iso_time
from eddyline.pipeline import load_pipeline
from eddyline.rules import Source, rollback_changes, try_plan, version_changes

if TYPE_CHECKING:
    from eddyline.api.engine import Engine


class RuleCommands:
    """The part of `Commands` that is about rule files and the versions they lead to."""

    _engine: Engine
    _rounds: RoundEngine

    def _durable(self) -> Durable:
        raise NotImplementedError

    def plan(
        self,
        *,
        tell: Tell,
        pipeline: str | None = None,
        files: Sequence[str] | None = None,
        prune: bool = False,
    ) -> dict[str, Any]:
        """What applying rules would change, each tried on recent rows if this process has some."""
        found = rules.plan(self._engine, _source(pipeline, files), progress=tell)
        try_plan(self._rounds, found)
        return found.as_dict(prune=prune)

    def apply(
        self,
        *,
        tell: Tell,
        pipeline: str | None = None,
        files: Sequence[str] | None = None,
        prune: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Deploy rules, in one version; gives the plan and what was done."""
        source = _source(pipeline, files)
        with self._rounds.lock:
            found = rules.plan(self._engine, source, progress=tell)
            done = rules.apply(self._engine, found, prune=prune, dry_run=dry_run, progress=tell)
            return {"plan": found.as_dict(prune=prune), "applied": done.as_dict(), "dry_run": dry_run}

    def export(self, *, folder: str) -> dict[str, Any]:
        """Write all streams and queries as rule files."""
        return rules.export(self._engine, folder).as_dict()

    def rollback(self, *, version: int, dry_run: bool = False) -> dict[str, Any]:
        """Deploy the queries of an earlier version again, as a new version."""
        with self._rounds.lock:
            before, catalog = self._engine.version, self._rounds.catalog
            todo = rules.rollback(self._engine, version, dry_run=True)
            changes = rollback_changes(catalog, self._durable().database, version, todo)
            done = todo if dry_run else rules.rollback(self._engine, version)
        return {
            "changes": changes,
            "from": before,
            "to": version,
            "version": done.version,
            "added": len(done.added_ids),
            "changed": len(done.changed_ids),
            "removed": len(done.dropped_ids),
            "dry_run": dry_run,
        }

    def versions(self, *, newest: int = 20) -> list[dict[str, Any]]:
        """The newest versions, newest first, and what made each."""
        with self._rounds.lock:
            self._rounds.check_open()
            rows = self._durable().database.versions.recent(newest)
        return [
            {"version": number, "at": iso_time(at_us, timespec="seconds"), "what": what}
            for number, at_us, what in rows
        ]

    def version(self, *, version: int) -> dict[str, Any]:
        """What one version changed."""
        with self._rounds.lock:
            self._rounds.check_open()
            database = self._durable().database
            known = database.versions.find(version)
            if known is None:
                raise UnknownNameError(
                    f"version {version} is not kept", hint="See those that are with eddyline versions."
                )
            at_us, what = known
            return {
                "version": version,
                "at": iso_time(at_us, timespec="seconds"),
                "what": what,
                "is_current": version == self._engine.version,
            } | version_changes(database, version)


def _source(pipeline: str | None, files: Sequence[str] | None) -> Source:
    if files is not None:
        return [Path(file) for file in files]
    if pipeline is None:
        raise PropertyError("there are no rules to look at", hint="Name a folder of .sql files.")
    return load_pipeline(Path(pipeline))
