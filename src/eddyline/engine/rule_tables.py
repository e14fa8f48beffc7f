"""Tables whose rows are rules, joined by the predicate index (joins/rules_index.py).

Where every query of a signature compares a range of the stream with something of the table, the table's rows stand in an index of
their own, as queries do, and a row of the stream is looked up there. Whatever else the queries say is asked of what is found.

  work      rows that come to the table become rules at once; those they replace stay until the round has committed
  commit    rules whose rows are no longer current go
  abort     rules that came go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.errors import IndexBuildError
from eddyline.events import IndexBuildFailed
from eddyline.filters import FilterStage
from eddyline.joins import (
    ALWAYS,
    Deltas,
    Drivers,
    Evaluate,
    JoinPlan,
    Key,
    KeyedTable,
    PartnerMarks,
    ProbeMatches,
    RuleForm,
    Rules,
    SignaturePlan,
    TableChanges,
    TablePartner,
    rule_form,
)
from eddyline.model import (
    DEFAULT_CHOICES,
    Clause,
    Column,
    ExecutionChoices,
    Expression,
    Role,
    Round,
    StreamPlan,
)
from eddyline.operators import Numbers

_ROUND = Round(0, 0, 0, 0, 0, {})  # rules know no time


@dataclass(slots=True)
class RuleTable:
    """One table of a signature as rules for one of its streams."""

    table: str
    stream: int  # the place of the stream
    rules: Rules
    filters: FilterStage
    added: list[Numbers] = field(default_factory=list)  # in the running round, by arrival number
    replaced: list[Numbers] = field(default_factory=list)


@dataclass(slots=True)
class RulePartner:
    """The table, found by what its rows ask of the drivers. All else is as with any table."""

    found_by: RuleTable
    inner: TablePartner
    choices: ExecutionChoices

    def find(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        table, rules, filters = self.inner.table, self.found_by.rules, self.found_by.filters
        rows = drivers.rows if len(of) == len(drivers) else drivers.rows.take(pa.array(of))
        n = len(of)
        batch = TupleBatch("", rows, drivers.arrival[of], np.ones(n, np.int8), np.zeros(n, dtype=bool))
        filters.build(rules.plan, self.choices)
        try:
            offsets, ids = filters.push(batch, _ROUND).pairs()
        except (
            IndexBuildError
        ) as error:  # rows of the table are no queries to suspend: they are found by the key alone
            filters.index.events.append(IndexBuildFailed(0, rules.plan.stream, str(error)))
            return self.inner.find(key, values, drivers, of)
        probes = np.repeat(np.arange(n), np.diff(offsets))
        found = table.versions.rows_by_arrival(rules.arrival_of(ids.astype(np.int64)))
        is_current = table.versions.is_current_at(found, drivers.arrival[of][probes])
        return ProbeMatches(probes[is_current], found[is_current])

    def find_first(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        return self.find(key, values, drivers, of).first_of_each()

    def values(self, rows: Numbers, expressions: Sequence[Expression]) -> list[pa.Array]:
        return self.inner.values(rows, expressions)

    def take(self, rows: Numbers, columns: Sequence[str]) -> list[pa.Array]:
        return self.inner.take(rows, columns)

    def marks(self, rows: Numbers, drivers: Drivers, of: Numbers) -> PartnerMarks:
        return self.inner.marks(rows, drivers, of)


class RuleTables:
    """The tables that are answered by an index."""

    def __init__(
        self, tables: Mapping[str, KeyedTable], evaluate: Evaluate, make_filters: Callable[[], FilterStage]
    ) -> None:
        self._tables = tables
        self._evaluate = evaluate
        self._make_filters = make_filters
        self._found: dict[tuple[str, int], RuleTable] = {}  # by signature and place of the table
        self.choices = DEFAULT_CHOICES  # of the running round

    def fit(self, plan: JoinPlan, plans: Mapping[str, StreamPlan]) -> None:
        """Have rules for the joins that stand, as far as their queries are known."""
        forms = {
            (each.name, place): (stream, form)
            for each in plan.signatures
            if each.name in plans
            for stream, place, form in _forms(each, plans[each.name])
        }
        for gone in self._found.keys() - forms.keys():
            self._found.pop(gone).filters.close()
        for who, (stream, form) in forms.items():
            known = self._found.get(who)
            if known is not None and known.rules.form.decided_clauses == form.decided_clauses:
                continue
            signature = next(each.signature for each in plan.signatures if each.name == who[0])
            name = signature.inputs[who[1]].stream.lower()
            self._found[who] = RuleTable(name, stream, self._filled(form, name), self._make_filters())

    def fill(self) -> None:
        """Begin anew with the rows the tables have."""
        for known in self._found.values():
            known.rules = self._filled(known.rules.form, known.table)

    def _filled(self, form: RuleForm, name: str) -> Rules:
        table, rules = self._tables[name], Rules(form, self._evaluate)
        rows = table.current()
        rows = rows[np.argsort(table.arrival[rows])]
        batch = pa.RecordBatch.from_arrays(table.take(rows, table.schema.names), schema=table.schema)
        rules.add(batch, table.arrival[rows])
        return rules

    def partner(self, signature: str, place: int, origin: int, inner: TablePartner) -> RulePartner | None:
        """How an input is looked up; None if it is probed."""
        known = self._found.get((signature, place))
        if known is None or known.stream != origin:
            return None
        return RulePartner(known, inner, self.choices)

    def changed(self, stream: str, changes: TableChanges, deltas: TupleBatch | Deltas) -> None:
        """A table has changed in the running round."""
        table = self._tables[stream]
        mine = [known for known in self._found.values() if known.table == stream]
        if not mine or not len(changes):
            return
        key = tuple(Column(table.schema.field(name).type, name) for name in table.key)
        columns = [changes.rows.column(name) for name in table.key]
        before = table.probe_at(key, columns, changes.arrival)
        came = np.flatnonzero(deltas.sign > 0)
        for known in mine:
            known.added.append(deltas.arrival[came])
            known.replaced.append(table.arrival[before.rows])
            known.rules.add(deltas.rows.take(pa.array(came)), deltas.arrival[came])

    def commit(self) -> None:
        """Before the tables commit: rules whose rows are no longer current go."""
        for known in self._found.values():
            if known.replaced or known.added:
                table = self._tables[known.table]
                touched = np.unique(np.concatenate([*known.replaced, *known.added]))
                rows = table.versions.rows_by_arrival(touched)
                gone = touched[~table.versions.is_current_at(rows, np.full(len(rows), ALWAYS, np.int64))]
                known.rules.drop(gone)
                known.replaced, known.added = [], []

    def rollback(self) -> None:
        for known in self._found.values():
            for came in known.added:
                known.rules.drop(came)
            known.replaced, known.added = [], []

    def filters(self) -> list[FilterStage]:
        return [known.filters for known in self._found.values()]

    def close(self) -> None:
        for known in self._found.values():
            known.filters.close()

    def snapshot(self) -> dict[tuple[str, int], int]:
        """How many rules there are, by signature and place of the table."""
        return {who: len(known.rules) for who, known in self._found.items()}


def _forms(plan: SignaturePlan, queries: StreamPlan) -> list[tuple[int, int, RuleForm]]:
    """The stream, the table and the form of each table that reads as rules for what all queries say."""
    signature = plan.signature
    streams = [at for at, entry in enumerate(signature.inputs) if not entry.role.is_table]
    if len(streams) != 1:
        return []
    by_shape = queries.with_bodies.by_shape
    shapes = [shape for shape, segments in by_shape.items() if any(s.n_live for s in segments)]
    common = _common([shape.condition.clauses for shape in shapes])
    found = []
    for place, entry in enumerate(signature.inputs):
        if entry.role is Role.TABLE:
            form = rule_form(signature, streams[0], place, common)
            if form is not None:
                found.append((streams[0], place, form))
    return found


def _common(conditions: Sequence[Sequence[Clause]]) -> list[Clause]:
    """The clauses that all of them have."""
    if not conditions:
        return []
    others = [set(clauses) for clauses in conditions[1:]]
    return [clause for clause in conditions[0] if all(clause in other for other in others)]
