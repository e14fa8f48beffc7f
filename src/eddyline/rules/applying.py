"""Deploying a plan of rules in one version, and going back to an earlier version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.catalog import RestoreResult, replace_many, restore_version
from eddyline.documents import RulesError
from eddyline.engine import OpenEngine, RoundEngine, declare, drop_queries
from eddyline.errors import QueryStateError
from eddyline.rules.files import Desired, Source
from eddyline.rules.plans import (
    REPORT_EVERY,
    Plan,
    Progress,
    TableChange,
    plan,
    quiet,
)
from eddyline.rules.register import Registrar, shape_of
from eddyline.rules.table import RefusedRow
from eddyline.rules.view_changes import rebound_readers


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done. `version` is that after it; the same as before if there was nothing to do."""

    before: int
    version: int
    added: int
    changed: int
    removed: int
    unchanged: int
    refused: tuple[RefusedRow, ...] = ()
    n_refused: int = 0
    warnings: tuple[str, ...] = ()  # about the whole

    def as_dict(self) -> dict[str, Any]:
        numbers = {
            name: getattr(self, name) for name in ("version", "added", "changed", "removed", "unchanged")
        }
        return numbers | {
            "before": self.before,
            "n_refused": self.n_refused,
            "refused": [row.as_dict() for row in self.refused],
        }


def apply(
    engine: OpenEngine,
    changes: Plan,
    *,
    prune: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Applied:
    """Make a plan true, in one version; with `prune` also drop queries that are in no file.

    Raises RulesError if the plan has mistakes, and QueryStateError if the catalog has changed since it was made. Either way
    nothing happened. Rows of tables that were refused are left as they are.
    """
    if changes.mistakes:
        raise RulesError(changes.mistakes)
    rounds, tell = engine.rounds, progress or quiet
    with rounds.lock:
        rounds.check_open()
        if rounds.catalog.version != changes.version:
            raise QueryStateError(
                f"the plan is for version {changes.version}, and this is version {rounds.catalog.version}",
                hint="Plan again: something else has changed the queries in between.",
            )
        dropped = [i for table in changes.tables for i in table.removed.tolist()]
        dropped += changes.unlisted if prune else []
        if not dry_run and not changes.is_empty(prune=prune):
            _check_readers(rounds, changes, dropped)
            with rounds.catalog.change(_in_words(changes, len(dropped))):
                _make_true(engine, changes, dropped, tell)
        return Applied(
            changes.version,
            rounds.catalog.version,
            changes.count("added"),
            changes.count("changed"),
            len(dropped),
            changes.count("unchanged"),
            tuple(changes.refused),
            changes.n_refused,
            tuple(changes.warnings),
        )


def apply_rules(
    engine: OpenEngine,
    source: Desired | Source,
    *,
    prune: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Applied:
    """Deploy what a pipeline or a folder declares, in one version. Raises RulesError, and then nothing was changed."""
    with engine.rounds.lock:
        changes = plan(engine, source, progress=progress)
        return apply(engine, changes, prune=prune, dry_run=dry_run, progress=progress)


def _in_words(changes: Plan, n_dropped: int) -> str:
    counts = [
        (changes.count("added"), "added"),
        (changes.count("changed"), "changed"),
        (n_dropped, "dropped"),
    ]
    n_streams = sum(change.kind != "unchanged" for change in changes.streams)
    parts = [f"{n} {what}" for n, what in counts if n]
    parts += [f"{n_streams} stream{'s' if n_streams != 1 else ''} declared"] if n_streams else []
    return f"apply rules: {', '.join(parts)}"


def _check_readers(rounds: RoundEngine, changes: Plan, dropped: list[int]) -> None:
    """Refuse a plan that changes a view so that a query which is in no file could not read it. Raises SchemaError."""
    changing = {
        each.query_id: each.shape for each in changes.queries if each.query_id and each.kind == "changed"
    }
    if changing:
        rebound_readers(
            rounds.catalog, changing, Registrar(rounds).bound_again, without={*dropped, *changing}
        )


def _make_true(engine: OpenEngine, changes: Plan, dropped: list[int], tell: Progress) -> None:
    rounds = engine.rounds
    catalog, now = rounds.catalog, rounds.now_us()
    if dropped:
        tell("dropping queries", 0, len(dropped))
        drop_queries(rounds, dropped)
    for stream in changes.streams:
        if stream.kind != "unchanged":
            declare(rounds, stream.stream)
    moving = [change for change in changes.queries if change.kind != "unchanged"]
    registrar, own = Registrar(rounds), {each.query_id for each in moving if each.query_id is not None}
    for at, change in enumerate(moving):
        if at % REPORT_EVERY == 0:
            tell("registering queries", at, len(moving))
        rule = change.rule
        shape, constants = shape_of(rounds, rule.text, None, rule.properties)
        if change.query_id is None:
            catalog.register(rule.text, shape, constants, rule.name, rule.properties, now)
            continue
        is_paused = None if rule.properties.is_enabled else True
        registrar.exchange(
            change.query_id,
            rule.text,
            shape,
            constants,
            rule.properties,
            is_paused=is_paused,
            without=own,
        )
    for table in changes.tables:
        _make_table_true(engine, table, tell)


def _make_table_true(engine: OpenEngine, table: TableChange, tell: Progress) -> None:
    rounds = engine.rounds
    rule, rows, now = table.rule, table.rows, rounds.now_us()
    shape, _ = shape_of(rounds, rule.text, rows.types or None, rule.properties)
    new, other = np.flatnonzero(table.query_ids == 0), np.flatnonzero(table.is_changed)
    if len(other):
        slots = [column.take(pa.array(other)) for column in rows.slots]
        replace_many(
            rounds.catalog,
            table.query_ids[other],
            rule.text,
            shape,
            slots,
            rule.properties,
            now,
            tell=lambda done: tell(f"replacing queries of {rule.name}", done, len(other)),
        )
    if len(new):
        tell(f"registering queries of {rule.name}", 0, len(new))
        slots = rows.slots if len(new) == len(rows) else [column.take(pa.array(new)) for column in rows.slots]
        names = rows.names if len(new) == len(rows) else [rows.names[at] for at in new]
        rounds.catalog.register_many(rule.text, shape, slots, len(new), names, rule.properties, now)


def rollback(engine: OpenEngine, version: int, *, dry_run: bool = False) -> RestoreResult:
    """Deploy the queries of an earlier version again, as one new version."""
    with engine.rounds.lock:
        engine.rounds.check_open()
        done = restore_version(engine.rounds.catalog, version, engine.rounds.now_us(), dry_run=dry_run)
        if not dry_run:
            engine.rounds.forget_queries(done.dropped_ids)
        return done
