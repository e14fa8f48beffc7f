"""Keyed streams in a round: their rows change a table, and what changed goes on as rows with signs.

A table is kept from its declaration on, with queries or without. A query over tables alone first gets its current answer, in the
first round that knows it: the rows as they are after that round's changes, to this query only.

Look-ups of other streams see every change. Queries over the table see what remains of the round: for each key the row before it
and the one after (joins/net_changes.py).

  plan      which queries are new to tables
  work      the changes of the round are made; look-ups see each row as it was when they came
  commit    they stay, and a file of them is listed; when there are many, one of the whole table takes their place
  abort     they are undone
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.batch import QueryIds, TupleBatch
from eddyline.catalog import Catalog, ListedFile
from eddyline.engine.durable import Durable
from eddyline.engine.identities import of_columns
from eddyline.engine.join_visibility import FirstVersions, first_versions, is_body, queries_of
from eddyline.engine.letters import null_key_letters
from eddyline.engine.operator_states import OperatorState, RoundEnd
from eddyline.engine.planned_flow import NO_TABLES, PlannedFlow, PlannedTables
from eddyline.expressions import can_fail
from eddyline.joins import Deltas, Evaluate, KeyedTable, NetChanges, TableChanges, net_changes
from eddyline.model import (
    NO_TIME,
    DeadLetter,
    ExecutionChoices,
    Role,
    Round,
    Signature,
    Stream,
    StreamPlan,
    ViewRelation,
)
from eddyline.operators import (
    ArrivedRows,
    Derived,
    DerivedNumbers,
    Identity,
    Numbers,
    Operator,
    RoundProgress,
    Share,
    StatelessOperator,
    WantedMasks,
)
from eddyline.storage import TableBlock

MOST_FILES = 64  # of changes of a table, before it is written whole
LEAST_BYTES = 1 << 20  # of those files, below which they are left as they are


@dataclass(slots=True)
class _Files:
    """What a table is made of on disk."""

    listed: list[ListedFile] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [file.name for file in self.listed]

    @property
    def nbytes(self) -> int:
        return sum(file.nbytes for file in self.listed)


class Tables(StatelessOperator, OperatorState):
    """The tables of one engine: the operator that turns rows of keyed streams into changes of tables."""

    def __init__(
        self,
        catalog: Catalog,
        tables: dict[str, KeyedTable],
        evaluate: Evaluate,
        durable: Durable | None,
        time_zone: str,
        uncounted: Callable[[str], QueryIds],
    ) -> None:
        """`uncounted` are the queries of a table whose results the running round has to count first."""
        self._catalog = catalog
        self._time_zone = time_zone
        self._evaluate = evaluate
        self._durable = durable
        self._uncounted = uncounted
        self.tables = tables  # by name in lower case; joins look them up
        self._planned = NO_TABLES  # of the running round
        self._numbers = DerivedNumbers(0)
        self._letters: list[DeadLetter] = []
        self._answered = 0  # queries of versions up to here have had their first answer
        self._changes: dict[str, TableChanges] = {}  # by stream, in the round that is running
        self._files: dict[str, _Files] = {}
        self._stale: list[str] = []  # files of tables that are no more, still listed
        self._new: dict[
            str, tuple[ListedFile, bool]
        ] = {}  # of the running round; whether it stands for all before

    # ----------------------------------------------------------------------------------------- step 1

    def plan(self) -> PlannedTables | None:
        """None if no stream has a key."""
        catalog = self._catalog
        streams = {stream.name.lower(): stream for stream in catalog.streams() if stream.is_keyed}
        aggregated = [each.name.lower() for each in catalog.plans.aggregations() if each.is_table]
        if not streams and not self.tables and not self._stale and not aggregated:
            return None
        if catalog.version <= self._answered:
            return PlannedTables(streams, {})
        joined = [each.name.lower() for each in catalog.plans.signatures() if each.is_of_tables]
        return self._with_newcomers(streams, (*joined, *aggregated, *streams))

    def _with_newcomers(self, streams: dict[str, Stream], names: Sequence[str]) -> PlannedTables:
        """What has to see the rows that tables have: of these relations and of views over them."""
        catalog = self._catalog
        newcomers: dict[str, tuple[StreamPlan, FirstVersions]] = {}
        over: dict[str, list[ViewRelation]] = {}
        above: dict[str, list[str]] = {}
        views = {view.name: view for view in catalog.views.relations if view.is_table}
        views_over: dict[str, list[ViewRelation]] = {}
        for view in views.values():
            for source in {feed.source for feed in view.feeds}:
                views_over.setdefault(source, []).append(view)
        classes: dict[str, list[str]] = {}
        for each in catalog.plans.aggregations():
            name = each.rows.lower()
            if name in views and any(
                can_fail(e) for feed in views[name].feeds for e in feed.shape.expressions()
            ):
                classes.setdefault(name, []).append(each.name.lower())

        def has_newcomers(name: str) -> bool:
            if name not in over:
                plan = catalog.plan(name)
                first = first_versions(plan, catalog)
                over[name] = [view for view in views_over.get(name, ()) if has_newcomers(view.name)]
                above[name] = [each for each in classes.get(name, ()) if has_newcomers(each)]
                if first.newest > self._answered or over[name] or above[name]:
                    newcomers[name] = plan, first
            return name in newcomers

        for name in (*views, *names):
            has_newcomers(name)
        return PlannedTables(streams, newcomers, over, above)

    def unanswered(self, planned: PlannedTables, name: str) -> QueryIds:
        """The queries of a relation that have had no answer, and the bodies of views whose readers have had none.

        Another round may have given it since the plan.
        """
        if name not in planned.newcomers:
            return np.empty(0, np.int32)
        _, first = planned.newcomers[name]
        ids = first.ids[(first.versions > self._answered) & ~is_body(first.ids)]
        bodies = [
            feed.body_id
            for view in planned.views.get(name, ())
            if self._is_unanswered(planned, view.name)
            for feed in view.feeds
            if feed.source == name
        ]
        return np.concatenate([ids, np.array(sorted(bodies), np.int32)])

    def _is_unanswered(self, planned: PlannedTables, view: str) -> bool:
        above = (each for each in planned.aggregations.get(view, ()) if len(self.unanswered(planned, each)))
        return len(self.unanswered(planned, view)) > 0 or any(True for _ in above)

    def build(self, planned: PlannedFlow, renewed: Sequence[str]) -> None:
        """Have a table for every keyed stream, with its columns."""
        self._forget(renewed)
        streams = planned.tables.streams
        self._forget(self.tables.keys() - streams.keys())
        for name, stream in streams.items():
            table = self.tables.get(name)
            if table is None or table.key != stream.key:
                self.tables[name] = KeyedTable(stream.schema, stream.key, self._evaluate)
            elif table.schema != stream.schema:
                table.reshape(stream.schema)

    def _forget(self, streams: Iterable[str]) -> None:
        """These streams were dropped: others of their names begin without rows."""
        for name in streams:
            self.tables.pop(name, None)
            self._stale += self._files.pop(name, _Files()).names

    # ----------------------------------------------------------------------------------------- step 3

    def begin(
        self, planned: PlannedFlow, numbers: DerivedNumbers, choices: ExecutionChoices
    ) -> Sequence[Operator]:
        self._planned, self._numbers, self._letters = planned.tables, numbers, []
        return (self,)

    def recounted(
        self, rows: Mapping[str, ArrivedRows], progress: RoundProgress, round_: Round
    ) -> Iterator[Derived]:
        for name in self._planned.streams:
            ids = self._uncounted(name)
            if len(ids):
                batch = self.current_rows(name).batch
                if len(batch):
                    made_of = replace(batch, components=batch.arrival[:, None])
                    identity = self._identity(name, batch)
                    yield Derived(name, made_of, only=ids, is_recount=True, identity=identity)

    def current(self, progress: RoundProgress, round_: Round) -> Iterator[Derived]:
        for name in self._planned.streams:
            ids = self.unanswered(self._planned, name)
            if len(ids):
                batch = self.current_rows(name).batch
                if len(batch):
                    identity = self._identity(name, batch)
                    numbered = self._numbered(batch, batch.arrival)
                    yield Derived(name, numbered, phase=1, only=ids, identity=identity)

    def push(
        self,
        arrived: Mapping[str, ArrivedRows],
        wanted: WantedMasks,
        progress: RoundProgress,
        round_: Round,
        share: Share,
    ) -> Iterator[Derived]:
        for name, rows in arrived.items():
            if name in self._planned.streams:
                stream, batch = self._planned.streams[name], rows.batch
                deltas = self._apply(name, rows, round_)
                self._letters += null_key_letters(round_.number, stream, batch, deltas.misfits)
                n = len(deltas)
                changed = TupleBatch(
                    stream.name, deltas.rows, deltas.arrival, deltas.sign, np.zeros(n, dtype=bool)
                )
                above = ArrivedRows(changed, deltas.time_us, np.zeros(n, np.int64))
                owners = self.tables[name].versions.owners(deltas.arrival)
                net = net_changes(owners, deltas.sign, deltas.rows)
                remaining = self._numbered(changed.take(net.rows), deltas.row_arrival[net.rows])
                without = queries_of(self.unanswered(self._planned, name))
                yield Derived(
                    name,
                    remaining,
                    phase=1,
                    without=without,
                    preimages=net.preimages,
                    arrived=above,
                    identity=self._identity(name, remaining),
                )
                yield from self._returned(name, changed, deltas.row_arrival, owners, net, without)

    def _returned(
        self,
        name: str,
        changed: TupleBatch,
        row_arrival: Numbers,
        owners: Numbers,
        net: NetChanges,
        without: QueryIds,
    ) -> Iterator[Derived]:
        """Rows that left and are there again as they were: views that are kept name the ones there are now."""
        if len(net.rows) < len(changed):
            places = np.setdiff1d(net_changes(owners, changed.sign).rows, net.rows)
            if len(places):
                rows = self._numbered(changed.take(places), row_arrival[places])
                identity = self._identity(name, rows)
                yield Derived(name, rows, without=without, is_unchanged=True, identity=identity)

    def _identity(self, name: str, batch: TupleBatch) -> Identity:
        return of_columns(batch.rows, self._planned.streams[name].key)

    def _apply(self, name: str, rows: ArrivedRows, round_: Round) -> Deltas:
        """Make the changes that rows bring; gives what they changed."""
        n = len(rows.batch)
        is_delete = np.zeros(n, dtype=bool) if rows.is_delete is None else rows.is_delete
        version = np.full(n, round_.version, np.int64)
        changes = TableChanges(rows.batch.rows, rows.batch.arrival, rows.time_us, is_delete, version)
        self._changes[name] = changes
        return self.tables[name].apply(changes)

    def _numbered(self, batch: TupleBatch, row_arrival: Numbers) -> TupleBatch:
        """Rows with numbers of their own: one change may be two rows, and an answer repeats rows of earlier rounds.
        They are made of themselves, also where they leave."""
        numbers = self._numbers.take(len(batch))
        return TupleBatch(batch.stream, batch.rows, numbers, batch.sign, batch.is_late, row_arrival[:, None])

    def current_rows(self, name: str) -> ArrivedRows:
        """The rows of a table, each at its own arrival number."""
        table = self.tables[name]
        rows = table.current()
        values = pa.RecordBatch.from_arrays(table.take(rows, table.schema.names), schema=table.schema)
        n = len(rows)
        stream = self._planned.streams[name].name if name in self._planned.streams else name
        batch = TupleBatch(stream, values, table.arrival[rows], np.ones(n, np.int8), np.zeros(n, dtype=bool))
        return ArrivedRows(batch, table.time_us[rows], np.zeros(n, np.int64))

    def changes_of(self, name: str) -> TableChanges | None:
        """What the running round has brought to a table."""
        return self._changes.get(name)

    def take_letters(self) -> list[DeadLetter]:
        letters, self._letters = self._letters, []
        return letters

    # ----------------------------------------------------------------------------------------- step 4

    def save(self, round_number: int) -> tuple[list[ListedFile], list[str]]:
        self._new = {}
        if self._durable is None:
            return [], []
        gone = list(self._stale)
        for name, changes in self._changes.items():
            if not len(changes):
                continue
            files, table = self._files.setdefault(name, _Files()), self.tables[name]
            is_whole = len(files.names) >= MOST_FILES or files.nbytes > max(LEAST_BYTES, 2 * table.nbytes)
            if is_whole:
                gone += files.names
            block = TableBlock(name, *_parts(table.stored_changes() if is_whole else changes))
            self._new[name] = self._durable.write_table(round_number, [block]), is_whole
        return [file for file, _ in self._new.values()], gone

    def commit(self, end: RoundEnd) -> None:
        # below these event times no join asks for a table any more, nor is there anything to come that counts
        as_of = horizons(
            [each.signature for each in end.planned.joins.plan.signatures],
            end.planned.after(end.progress).watermarks_us,
            {name: at.watermark_us for name, at in end.progress.items()},
        )
        self._stale = []
        for name, (file, is_whole) in self._new.items():
            files = self._files[name] = _Files() if is_whole else self._files[name]
            files.listed.append(file)
        for name, table in self.tables.items():
            table.commit()
            if name in as_of:
                table.forget(as_of[name])
        self._changes, self._new = {}, {}
        self._answered = max(self._answered, end.round.version)  # one that began earlier may end later

    def rollback(self) -> None:
        self._changes, self._new, self._letters = {}, {}, []
        for table in self.tables.values():
            table.rollback()

    def restore(self, version: int, streams: AbstractSet[str]) -> None:
        """After opening a home: the tables as the last committed round, of this version, left them.

        Rows ever came of `streams` alone: what is there of others was of one that was dropped.
        """
        assert self._durable is not None
        self._answered = version
        for listed in self._durable.table_files():
            for block in self._durable.table(listed):
                table = self.tables.get(block.stream)
                if table is None or block.stream not in streams:
                    self._stale.append(listed.name)
                    continue
                rows = fitted(block.rows, table.schema)
                marks = block.arrival, block.time_us, block.is_delete, block.round_version
                table.apply(TableChanges(rows, *marks))
                table.commit()
                files = self._files.setdefault(block.stream, _Files())
                if listed.name not in files.names:
                    files.listed.append(listed)

    def files(self) -> list[tuple[str, ListedFile]]:
        """What the tables are made of on disk, each in order, by name of its stream."""
        return [(name, file) for name, files in self._files.items() for file in files.listed]

    def snapshot(self) -> dict[str, dict[str, Any]]:
        return {name: table.snapshot() for name, table in self.tables.items()}


def _parts(changes: TableChanges) -> tuple[Any, ...]:
    return changes.rows, changes.arrival, changes.time_us, changes.is_delete, changes.round_version


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the columns a stream has now."""
    columns = []
    for entry in schema:
        at = rows.schema.get_field_index(entry.name)
        is_there = at >= 0 and rows.schema.field(at).type == entry.type
        columns.append(rows.column(at) if is_there else pa.nulls(rows.num_rows, entry.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def horizons(
    signatures: Iterable[Signature], watermarks: Mapping[str, int | None], own: Mapping[str, int | None]
) -> dict[str, int]:
    """By stream: below which event time no join will ask for its table, nor any row of it counts that is still to come.

    `watermarks` are those of the streams that look tables up, `own` each stream's own.
    """
    found: dict[str, int] = {}
    for signature in signatures:
        drivers = [entry.stream.lower() for entry in signature.inputs if not entry.role.is_table]
        low = min(
            (NO_TIME if (t := watermarks.get(name)) is None else t for name in drivers), default=NO_TIME
        )
        for entry in signature.inputs:
            if entry.role is Role.AS_OF:
                name = entry.stream.lower()
                found[name] = min(low, found.get(name, low))
    late = {name: time for name, time in own.items() if time is not None and name not in found}
    return late | {name: low for name, low in found.items() if low != NO_TIME}
