"""The difference between rule files and the deployed rules: added, changed, removed, and what each rule costs."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog import evolved_stream, identical_mask, is_same_shape, parameter_query_ids
from eddyline.engine import OpenEngine, checked_stream
from eddyline.errors import EddylineError, UnknownNameError
from eddyline.explain import trial_document
from eddyline.expressions import literal_value
from eddyline.filters import Trial
from eddyline.model import Properties, QueryState, Shape, Stream
from eddyline.pipeline import Mistake, Place
from eddyline.rules.cost import cost_class, rule_warnings
from eddyline.rules.files import Desired, Rule, Source, StatedStream, TableRule, core_text, desired
from eddyline.rules.join_output import output_warnings
from eddyline.rules.planned_relations import PlannedRelations
from eddyline.rules.table import RefusedRow, Rows, never_matching, read_rows
from eddyline.rules.unfed_sinks import NamedQueries, standing_queries, unfed_sinks
from eddyline.sql import FIELDS, Shapes, StreamTable, refuse_unbuilt, slots_of

Progress = Callable[[str, int, int], None]  # what, done, of how many
REPORT_EVERY = 1_000  # rules
SHOWN_NAMES = 100


@dataclass(frozen=True, slots=True)
class StreamChange:
    kind: str  # added, changed or unchanged
    stream: Stream
    place: Place
    columns: tuple[str, ...] = ()  # those that are new


@dataclass(frozen=True, slots=True)
class Change:
    """One rule and the deployed one: `before` is the registered text, `properties` those that differ (before, after)."""

    kind: str  # added, changed or unchanged
    rule: Rule
    shape: Shape
    constants: Sequence[Any]
    query_id: int | None = None
    before: str | None = None
    properties: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    reason: str = ""
    cost: str = "index"
    warnings: tuple[str, ...] = ()
    tried: Trial | None = None  # on recent rows, by `plan_trials.try_plan`


@dataclass(frozen=True, slots=True)
class TableTrial:
    """The first added or changed rules of a table, tried: of `n_rules`, `n_matching` would have had `n_matched` results."""

    n_rules: int
    n_matching: int
    n_rows: int
    n_matched: int
    n_in_error: int


@dataclass(slots=True)
class TableChange:
    """A rules table compared with the deployed rules: `query_ids` has 0 for rows that are new."""

    rule: TableRule
    rows: Rows
    query_ids: npt.NDArray[np.int64]
    is_changed: npt.NDArray[np.bool_]
    removed: npt.NDArray[np.int64]
    cost: str = "index"
    warnings: tuple[str, ...] = ()
    tried: TableTrial | None = None

    @property
    def n_added(self) -> int:
        return int((self.query_ids == 0).sum())

    @property
    def n_changed(self) -> int:
        return int(self.is_changed.sum())

    @property
    def n_removed(self) -> int:
        return len(self.removed)

    @property
    def n_unchanged(self) -> int:
        return len(self.rows) - self.n_added - self.n_changed


@dataclass(slots=True)
class Plan:
    """What applying would change, seen from one version of the catalog."""

    version: int
    streams: list[StreamChange] = field(default_factory=list)
    queries: list[Change] = field(default_factory=list)
    tables: list[TableChange] = field(default_factory=list)
    unlisted: list[int] = field(default_factory=list)  # registered queries that no file has
    unlisted_names: list[str] = field(default_factory=list)  # of the first of them
    mistakes: list[Mistake] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # about the whole, not one rule

    @property
    def refused(self) -> list[RefusedRow]:
        return [row for table in self.tables for row in table.rows.refused]

    @property
    def n_refused(self) -> int:
        return sum(table.rows.n_refused for table in self.tables)

    def count(self, kind: str) -> int:
        """How many queries are added, changed, removed (by their tables) or unchanged."""
        of_tables = sum(getattr(table, f"n_{kind}") for table in self.tables)
        return of_tables + sum(change.kind == kind for change in self.queries)

    def is_empty(self, *, prune: bool = False) -> bool:
        """Whether applying would change nothing."""
        moved = any(self.count(kind) for kind in ("added", "changed", "removed"))
        return not (moved or any(s.kind != "unchanged" for s in self.streams) or (prune and self.unlisted))

    def as_dict(self, *, prune: bool = False) -> dict[str, Any]:
        """The same for programs."""
        removed = len(self.unlisted) if prune else 0
        return {
            "version": self.version,
            "added": self.count("added"),
            "changed": self.count("changed"),
            "removed": self.count("removed") + removed,
            "unchanged": self.count("unchanged"),
            "unlisted": {"count": len(self.unlisted), "names": self.unlisted_names, "is_removed": prune},
            "streams": [_stream_dict(change) for change in self.streams],
            "queries": [_query_dict(change) for change in self.queries],
            "tables": [_table_dict(change) for change in self.tables],
            "refused": [row.as_dict() for row in self.refused],
            "n_refused": self.n_refused,
            "warnings": self.warnings,
            "mistakes": [mistake.as_dict() | {"shown": str(mistake)} for mistake in self.mistakes],
        }


# --------------------------------------------------------------------------------------------- plan


def plan(engine: OpenEngine, target: Desired | Source, *, progress: Progress | None = None) -> Plan:
    """What applying would change. Changes nothing; all mistakes are in the plan, none is raised."""
    if not isinstance(target, Desired):
        target = desired(target)
    with engine.rounds.lock:
        engine.rounds.check_open()
        return _Planner(engine, target, progress or quiet).plan()


def quiet(what: str, done: int, of: int) -> None:
    """Progress that the caller does not want."""


class _Planner:
    """Compares the rules of files with those deployed. The engine's lock is held."""

    def __init__(self, engine: OpenEngine, target: Desired, progress: Progress) -> None:
        self._rounds = engine.rounds
        self._catalog = engine.rounds.catalog
        self._target = target
        self._progress = progress
        self._found = Plan(self._catalog.version, mistakes=list(target.mistakes))
        self._place_of_name: dict[tuple[str, str], Place] = {}

    def plan(self) -> Plan:
        streams = self._streams()
        self._shapes = self._rounds.shapes
        if any(change.kind != "unchanged" for change in self._found.streams):
            self._shapes = Shapes(
                time_zone=self._rounds.time_zone
            )  # bound to streams that may never be declared
        self._rules(streams)
        _mark_duplicates(self._found.queries)
        for at, table in enumerate(self._target.tables):
            self._progress("comparing tables", at, len(self._target.tables))
            self._table(table)
        self._unlisted()
        self._warn_of_unfed_sinks()
        self._found.mistakes.sort(key=lambda m: (str(m.place.file), m.place.line, m.place.column))
        return self._found

    # ----------------------------------------------------------------------------------------- streams

    def _streams(self) -> StreamTable:
        known = {stream.name.lower(): stream for stream in self._catalog.streams()}
        for stated in self._target.streams:
            try:
                change = self._stream(stated)
            except EddylineError as error:
                self._found.mistakes.append(Mistake(stated.place, error.problem, error.detail, error.hint))
                continue
            self._found.streams.append(change)
            known[change.stream.name.lower()] = change.stream
        return StreamTable(known)

    def _stream(self, stated: StatedStream) -> StreamChange:
        stream = checked_stream(stated.stream)
        refuse_unbuilt(stream=stream)
        old = self._catalog.find_stream(stream.name)
        if old is None:
            return StreamChange("added", stream, stated.place, tuple(stream.schema.names))
        users = (
            (self._catalog.queries.name_of(int(segment.ids[segment.is_live][0])), segment.shape)
            for segment in self._catalog.plan(old.name).segments
            if segment.n_live
        )
        new = evolved_stream(old, replace(stream, name=old.name), users)
        if new == old:
            return StreamChange("unchanged", old, stated.place)
        names = {field.name.lower() for field in old.schema}
        return StreamChange(
            "changed", new, stated.place, tuple(f.name for f in new.schema if f.name.lower() not in names)
        )

    # ----------------------------------------------------------------------------------------- rules

    def _rules(self, streams: StreamTable) -> None:
        """Compare all rules; one that reads another as a view comes after it, wherever it is written."""
        waiting, n, n_done = list(self._target.rules), len(self._target.rules), 0
        self._relations = PlannedRelations(self._catalog, streams, waiting)
        while waiting:
            later = []
            for rule in waiting:
                if n_done % REPORT_EVERY == 0:
                    self._progress("comparing rules", n_done, n)
                if self._rule(rule, is_last_try=False):
                    n_done += 1
                else:
                    later.append(rule)
            if len(later) == len(waiting):  # what they read will not come
                for rule in later:
                    self._rule(rule, is_last_try=True)
                later = []
            waiting = later

    def _rule(self, rule: Rule, *, is_last_try: bool) -> bool:
        """Compare a rule; False if it has to wait for another."""
        self._place_of_name[rule.properties.owner, rule.name] = rule.origin.place
        readable = self._relations.of(rule.properties.owner)
        try:
            declared, table_key = rule.properties, self._relations.table_key
            functions = self._rounds.functions
            shape, constants = self._shapes.shape_of(rule.text, readable, functions, properties=declared)
            slots = slots_of(shape, constants)
            self._shapes.check_constants(rule.text, shape, slots, readable, functions, properties=declared)
            refuse_unbuilt(shape=shape, properties=declared, text=rule.text, table_key=table_key)
        except EddylineError as error:
            if isinstance(error, UnknownNameError) and readable.n_waited_for and not is_last_try:
                return False
            self._found.mistakes.append(rule.origin.mistake(error))
            self._relations.settle(rule)
            return True
        self._relations.settle(rule, shape)
        known = self._known(rule.name, rule.properties.owner)
        rule_notes = rule_warnings(shape, constants, self._rounds.context())
        warnings = (*rule_notes, *output_warnings(self._rounds, shape, constants))
        change = Change("added", rule, shape, constants, cost=cost_class(shape), warnings=warnings)
        if known is not None:
            change = self._compared(change, known)
        self._found.queries.append(change)
        return True

    def _known(self, name: str, owner: str) -> int | None:
        """The query a rule is about; one without a name goes by its number, as `export` writes it."""
        known = self._catalog.names.find(name, owner)
        if known is not None or not (name[:1] == "q" and name[1:].isdigit()):
            return known
        number = int(name[1:])
        if (
            self._catalog.queries.state(number) is QueryState.DROPPED
            or self._catalog.queries.name_of(number) != name
        ):
            return None
        return number if self._catalog.record(number).properties.owner == owner else None

    def _compared(self, change: Change, query_id: int) -> Change:
        record = self._catalog.record(query_id)
        rule = change.rule
        differing = property_changes(record.properties, rule.properties)
        constants = [_plain(c) for c in record.constants]
        reason = ""
        if record.text != rule.text and core_text(record.text) != rule.text:
            reason = "text"
        elif differing:
            reason = "properties"
        elif not is_same_shape(record.shape, change.shape):
            reason = "a function or a column it uses is another now"
        elif constants != [_plain(c) for c in _scalars(change.constants, change.shape)]:
            reason = "its constants"
        if not reason:
            return replace(change, kind="unchanged", query_id=query_id, before=record.text)
        warnings = change.warnings
        if record.state is QueryState.PAUSED and record.properties.is_enabled and rule.properties.is_enabled:
            warnings = (*warnings, "it is paused and stays so")
        if record.state is QueryState.SUSPENDED and rule.properties.is_enabled:
            warnings = (*warnings, f"it is suspended and will be active again: {record.why}")
        return replace(
            change,
            kind="changed",
            query_id=query_id,
            before=record.text,
            properties=differing,
            reason=reason,
            warnings=warnings,
        )

    # ----------------------------------------------------------------------------------------- tables

    def _table(self, table: TableRule) -> None:
        streams = self._relations.of(table.properties.owner)
        try:
            rows = read_rows(
                table.file,
                table.name,
                table.text,
                table.key,
                properties=table.properties,
                shapes=self._shapes,
                streams=streams,
                functions=self._rounds.functions,
                context=self._rounds.context(),
            )
            declared, table_key = table.properties, self._relations.table_key
            refuse_unbuilt(shape=rows.shape, properties=declared, text=table.text, table_key=table_key)
        except EddylineError as error:
            self._found.mistakes.append(table.origin.mistake(error))
            return
        owner = table.properties.owner
        rows.without(
            {
                at: f"rule {name} already exists, at {self._place_of_name[owner, name]}"
                for at, name in enumerate(rows.names)
                if (owner, name) in self._place_of_name
            },
            table.file,
        )
        self._place_of_name.update(((owner, name), table.origin.place) for name in rows.names)
        find = self._catalog.names.find
        ids = np.fromiter((find(name, owner) or 0 for name in rows.names), np.int64, len(rows))
        same = identical_mask(
            self._catalog, ids, _is_text(table.text), rows.shape, rows.slots, table.properties
        )
        warnings = list(rule_warnings(rows.shape, None, self._rounds.context()))
        n_never = never_matching(rows, self._rounds.context())
        if n_never:
            warnings.append(f"{n_never} of its {len(rows)} queries can never match")
        self._found.tables.append(
            TableChange(
                table,
                rows,
                ids,
                (ids > 0) & ~same,
                np.empty(0, np.int64),
                cost_class(rows.shape),
                tuple(warnings),
            )
        )

    # ----------------------------------------------------------------------------------------- the rest

    def _unlisted(self) -> None:
        """Registered queries that no file has: a table's own go with it, the others only if asked for."""
        known_ids = [self._known(rule.name, rule.properties.owner) for rule in self._target.rules]
        for table in self._found.tables:
            known_ids += [
                self._catalog.names.find(name, table.rule.properties.owner)
                for name in table.rows.refused_names
            ]
        listed = np.array([query_id for query_id in known_ids if query_id is not None], np.int64)
        of_tables = [table.query_ids for table in self._found.tables]
        live_ids = np.fromiter(self._catalog.queries.ids(), np.int64)
        others = np.setdiff1d(live_ids, np.concatenate([listed, *of_tables]))
        for table in self._found.tables:
            rule = table.rule
            pattern = _name_pattern(rule.name)
            table.removed = parameter_query_ids(
                self._catalog, others, _is_text(rule.text), rule.properties.owner, pattern.fullmatch
            )
            others = np.setdiff1d(others, table.removed)
        self._found.unlisted = others.tolist()
        self._found.unlisted_names = [self._catalog.queries.name_of(int(i)) for i in others[:SHOWN_NAMES]]

    def _warn_of_unfed_sinks(self) -> None:
        """Also queries that are in no file may feed them; those with mistakes might."""
        if self._found.mistakes or not any(sink.takes == "alerts" for sink in self._target.sinks):
            return
        queries = [NamedQueries((c.rule.name,), c.shape, c.rule.properties) for c in self._found.queries]
        queries += [NamedQueries(t.rows.names, t.rows.shape, t.rule.properties) for t in self._found.tables]
        queries += standing_queries(self._catalog, self._found.unlisted)
        self._found.warnings += unfed_sinks(self._target.sinks, queries)


def _is_text(text: str) -> Callable[[str], bool]:
    """Whether a registered text is this one, but for blanks and comments around it. Many queries have few texts."""
    known = {text: True}

    def is_text(other: str) -> bool:
        if other not in known:
            known[other] = core_text(other) == text
        return known[other]

    return is_text


def _name_pattern(name: str) -> re.Pattern[str]:
    """What a table could call its queries. One whose name is columns only claims none."""
    pieces = list(string.Formatter().parse(name))
    if not any(words for words, _, _, _ in pieces):
        return re.compile(r"(?!)")
    return re.compile(
        "".join(re.escape(w) + (".+" if f is not None else "") for w, f, _, _ in pieces), re.DOTALL
    )


def _mark_duplicates(changes: list[Change]) -> None:
    first: dict[tuple[int, tuple[Any, ...]], Rule] = {}
    for at, change in enumerate(changes):
        key = id(change.shape), tuple(map(_hashable, _scalars(change.constants, change.shape)))
        twin = first.setdefault(key, change.rule)
        if twin is not change.rule:
            warning = f"gives the same results as {twin.name} ({twin.origin.place})"
            changes[at] = replace(change, warnings=(*change.warnings, warning))


def property_changes(before: Properties, after: Properties) -> dict[str, tuple[Any, Any]]:
    """Properties that differ, by the words users have for them."""
    return {
        word: (getattr(before, field_), getattr(after, field_))
        for field_, word in FIELDS.items()
        if getattr(before, field_) != getattr(after, field_)
    }


def _scalars(constants: Sequence[Any], shape: Shape) -> list[pa.Scalar]:
    return [pa.scalar(value, slot.type) for value, slot in zip(constants, shape.slots, strict=True)]


def _plain(constant: Any) -> Any:
    value = literal_value(constant) if isinstance(constant, pa.Scalar) else constant
    return repr(value) if isinstance(value, float) else value  # NaN is the same constant as NaN


def _hashable(scalar: pa.Scalar) -> Any:
    value = _plain(scalar)
    return repr(value) if isinstance(value, (list, dict)) else value


# --------------------------------------------------------------------------------------------- for programs


def _place_dict(place: Place) -> dict[str, Any]:
    return {"file": str(place.file), "line": place.line}


def _stream_dict(change: StreamChange) -> dict[str, Any]:
    return {
        "change": change.kind,
        "name": change.stream.name,
        "new_columns": list(change.columns),
    } | _place_dict(change.place)


def _query_dict(change: Change) -> dict[str, Any]:
    rule = change.rule
    return {
        "change": change.kind,
        "name": rule.name,
        "owner": rule.properties.owner,
        "id": change.query_id,
        "text": rule.text,
        "before": change.before,
        "reason": change.reason,
        "properties": {word: list(pair) for word, pair in change.properties.items()},
        "cost": change.cost,
        "warnings": list(change.warnings),
        "tried": None if change.tried is None else trial_document(change.tried),
    } | _place_dict(rule.origin.place)


def _table_dict(change: TableChange) -> dict[str, Any]:
    names = change.rows.names
    return {
        "name": change.rule.name,
        "owner": change.rule.properties.owner,
        "text": change.rule.text,
        "table": str(change.rule.file),
        "added": change.n_added,
        "changed": change.n_changed,
        "removed": change.n_removed,
        "unchanged": change.n_unchanged,
        "refused": change.rows.n_refused,
        "added_names": [names[at] for at in np.flatnonzero(change.query_ids == 0)[:SHOWN_NAMES]],
        "changed_names": [names[at] for at in np.flatnonzero(change.is_changed)[:SHOWN_NAMES]],
        "cost": change.cost,
        "warnings": list(change.warnings),
        "tried": None if change.tried is None else asdict(change.tried),
    } | _place_dict(change.rule.origin.place)
