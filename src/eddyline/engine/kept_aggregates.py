"""The aggregates of the driver: the rows of each class go into its structures, and what these make are rows of relations.

An aggregation is a table, whose entries change, or gives rows that stay: windows that have closed, and rows with values over
their frames. Queries of different age see different rows of a class, so each epoch has entries of its own
(aggregates/structure.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.aggregates import (
    ClassRows,
    EntryChanges,
    MergingStructure,
    OverRows,
    OverValues,
    Reader,
    RoundTime,
    Structure,
)
from eddyline.batch import QueryIds, TupleBatch
from eddyline.catalog import ListedFile
from eddyline.engine.aggregate_files import AggregateFiles, Form
from eddyline.engine.aggregate_plans import PlannedAggregation
from eddyline.engine.aggregate_sizes import AggregateSizes, sizes_of
from eddyline.engine.aggregate_structures import (
    as_of,
    by_partition,
    form_of,
    identity_columns,
    needs_of,
    new_structure,
)
from eddyline.engine.class_rows import class_rows, components_of, epochs_of, is_derived
from eddyline.engine.group_limit import GroupLimit
from eddyline.engine.identities import of_columns
from eddyline.engine.join_visibility import queries_of
from eddyline.engine.operator_states import OperatorState, RoundEnd
from eddyline.engine.planned_flow import PlannedFlow
from eddyline.model import (
    CLOSED,
    END_OF_ARRIVALS,
    NOW,
    Aggregation,
    ExecutionChoices,
    Round,
    StreamPlan,
)
from eddyline.operators import (
    ArrivedRows,
    Derived,
    DerivedNumbers,
    Mask,
    Operator,
    Part,
    RoundProgress,
    Share,
    StatelessOperator,
    WantedMasks,
    times_of,
)
from eddyline.types import TIMESTAMP


class KeptAggregates(OperatorState):
    """The structures of all classes, by class and kind."""

    def __init__(
        self,
        unanswered: Callable[[str], QueryIds],
        uncounted: Callable[[str], QueryIds],
        has_alerts: Callable[[StreamPlan], bool],
        time_zone: str,
        files: AggregateFiles | None,
        most_groups: int | None,
    ) -> None:
        """`unanswered` are the queries of a relation that get a first answer in the running round, `uncounted` those that have to
        see its rows as they are before it; `has_alerts` tells plans of relations with alert queries. Without `files` nothing
        outlives the process."""
        self._unanswered = unanswered
        self._uncounted = uncounted
        self._has_alerts = has_alerts
        self._time_zone = time_zone
        self._files = files
        self._limit = GroupLimit(most_groups)
        self._structures: dict[Form, Structure | OverRows] = {}
        self._sizes: dict[Form, AggregateSizes] = {}  # as of the last round that committed
        # over tables: structures that have all rows, with the aggregates that were computed of them
        self._filled: dict[Form, frozenset[object]] = {}
        self._window_times: dict[Form, str] = {}  # over tables: the column whose windows hold a row
        self._last_now_us: int | None = None  # of the last round that committed
        self._now_us = 0  # of the running round
        self._flow: PlannedFlow  # of the running round
        self._built_version = -1  # of the plan that the structures have
        self._readers: dict[str, Reader] = {}  # those that they have, by aggregation
        self._pushed: dict[Form, Structure | OverRows] = {}  # structures that the running round has called
        self._numbers = DerivedNumbers(0)
        self._rows: dict[str, ArrivedRows] = {}  # of the running round, by class
        self._parts: dict[Form, list[Part]] = {}  # that tasks made of its rows
        self._before: RoundProgress | None = None

    def build(self, planned: PlannedFlow, renewed: Sequence[str]) -> None:
        forms: dict[Form, list[Reader]] = {}
        for each in planned.aggregates.by_name.values():
            for reader in by_partition(each.reader):
                forms.setdefault(form_of(reader.aggregation), []).append(reader)
        structures: dict[Form, Structure | OverRows] = {}
        for form, readers in forms.items():
            known = self._structures.get(form)
            if known is None or self._lacks_calls(form, readers):
                aggregation = readers[0].aggregation
                schema = planned.views.by_name[aggregation.rows.lower()].stream.schema
                known = new_structure(schema, aggregation)
                self._filled.pop(form, None)
            structures[form] = known
            known.build(readers)
        self._structures, self._built_version = structures, planned.joins.plan.version
        self._sizes = {form: sizes for form, sizes in self._sizes.items() if form in structures}
        self._readers = {name: each.reader for name, each in planned.aggregates.by_name.items()}
        self._limit.keep(structures)
        self._window_times = {
            form: column for form, readers in forms.items() if (column := readers[0].aggregation.window_time)
        }
        self._filled = {form: calls for form, calls in self._filled.items() if form in structures}

    def _lacks_calls(self, form: Form, readers: Sequence[Reader]) -> bool:
        """Whether readers need aggregates over a table that were not computed when its rows came."""
        known = self._filled.get(form)
        return known is not None and not all(needs_of(each) <= known for each in readers)

    def begin(
        self, planned: PlannedFlow, numbers: DerivedNumbers, choices: ExecutionChoices
    ) -> Sequence[Operator]:
        self._flow, self._numbers, self._rows, self._parts, self._pushed = planned, numbers, {}, {}, {}
        levels: dict[int, list[str]] = {}
        for rows, members in planned.aggregates.classes.items():
            level = planned.views.aggregation_levels[members[0].aggregation.name.lower()]
            levels.setdefault(level - 1, []).append(rows)
        return [AggregateLevel(self, sorted(names), level) for level, names in sorted(levels.items())]

    @property
    def missing(self) -> frozenset[str]:
        """Classes over tables whose rows the running round has to find first."""
        tables = self._flow.aggregates.table_classes
        unfilled = self._structures.keys() - self._filled.keys() if tables else ()
        return tables & {name for name, _ in unfilled}

    def fill(self, name: str, rows: ArrivedRows | None, round_: Round) -> None:
        """What a class over tables has before the round; it stays, whatever becomes of the round."""
        if name not in self.missing:
            return
        readers = self._flow.aggregates.classes[name]
        found = class_rows(self._flow, name, rows, round_, self._time_zone)
        now_us = round_.now_us if self._last_now_us is None else self._last_now_us
        for form in [form for form in self._structures.keys() - self._filled.keys() if form[0] == name]:
            structure = self._structures[form]
            for _ in structure.push(self._windowed(form, found), RoundTime(now_us, None, None)):
                pass  # nothing of it is new
            structure.commit()
            mine = (each.reader for each in readers if form_of(each.aggregation) == form)
            self._filled[form] = frozenset[object]().union(*map(needs_of, mine))

    def recounted(self, name: str) -> Iterator[Derived]:
        """The entries of the aggregations of a class as they are before the round."""
        for planned in self._flow.aggregates.classes[name]:
            if planned.aggregation.is_table and len(ids := self._uncounted(planned.aggregation.name)):
                for derived in self._entries_for(planned, ids):
                    yield replace(derived, is_recount=True)

    def take(self, name: str, rows: ArrivedRows | None, before: RoundProgress) -> None:
        """The rows of a class are complete."""
        self._before = before
        if rows is not None:
            self._rows[name] = rows

    def merge(self, name: str, parts: Sequence[Part]) -> None:
        """What tasks made of rows of a class, in their order."""
        for part in parts:
            if part.relation == name:
                self._parts.setdefault((name, part.kind), []).append(part)

    def derive(self, name: str, after: RoundProgress, round_: Round) -> Iterator[Derived]:
        """What the round makes of the rows of a class; nothing where it is a round of other streams."""
        self._now_us = round_.now_us
        readers = self._flow.aggregates.classes[name]
        if not self._is_concerned(readers, round_):
            return
        assert self._before is not None
        watermarks = self._before.watermarks_us.get(name), after.watermarks_us.get(name)
        time = RoundTime(round_.now_us, *watermarks, self._last_now_us)
        rows = class_rows(self._flow, name, self._rows.get(name), round_, self._time_zone)
        admitted = self._admitted(name, rows, round_.version, readers)
        over: dict[tuple[str, int], tuple[ClassRows, list[OverValues]]] = {}
        for form in sorted(form for form in self._structures if form[0] == name):
            structure = self._pushed[form] = self._structures[form]
            mine = admitted[form]
            if isinstance(structure, OverRows):
                for aggregation, values in structure.push(mine, time):
                    if self._is_planned(aggregation, values.epoch):
                        over.setdefault((aggregation.name, values.epoch), (mine, []))[1].append(values)
            else:
                for aggregation, changes in structure.push(self._windowed(form, mine), time):
                    if self._is_planned(aggregation, changes.epoch) and self._is_for_any(
                        aggregation, changes
                    ):
                        yield self._changed(aggregation, changes)
        yield from (self._rows_over(name, each, values, of) for (each, _), (of, values) in over.items())
        for planned in readers:
            yield from self._answers(planned)

    def _admitted(
        self, name: str, rows: ClassRows, version: int, readers: Sequence[PlannedAggregation]
    ) -> dict[Form, ClassRows]:
        """The rows that each structure of a class takes in, or what tasks made of them; those of OVER, whose values stand side by
        side, the same."""
        structures = {form: each for form, each in self._structures.items() if form[0] == name}
        if readers[0].aggregation.reads_table:
            return dict.fromkeys(structures, rows)
        over = {form: each for form, each in structures.items() if isinstance(each, OverRows)}
        found = dict.fromkeys(over, self._limit.admitted(over, rows, self._now_us))
        for form in [form for form in structures if form not in over]:
            mine = self._merged(form, version, readers)
            mine = rows if mine is None else mine
            found[form] = self._limit.admitted({form: structures[form]}, mine, self._now_us)
        return found

    def _merged(self, form: Form, version: int, readers: Sequence[PlannedAggregation]) -> ClassRows | None:
        """What tasks made of the rows of a class; None: they made nothing of them."""
        if form not in self._parts:
            return None
        structure = cast(MergingStructure, self._structures[form])  # tasks have made partial results for it
        parts = [(part.lines, part.first_arrival) for part in self._parts[form]]
        return structure.merge(parts, int(epochs_of(np.array([version]), readers)[0]))

    def _is_for_any(self, aggregation: Aggregation, changes: EntryChanges) -> bool:
        """Whether some query has to see what has changed: that windows close matters to alerts alone."""
        plan = self._flow.aggregates.by_name[aggregation.name.lower()].queries
        return changes.columns.num_rows > 0 and (changes.reason != CLOSED or self._has_alerts(plan))

    def _is_planned(self, aggregation: Aggregation, epoch: int) -> bool:
        """Whether the round knows the queries of an epoch: others may have been registered since it was planned."""
        planned = self._flow.aggregates.by_name.get(aggregation.name.lower())
        return planned is not None and epoch in planned.reader.epochs

    def _ids_of(self, name: str, epoch: int) -> QueryIds | None:
        """The queries of an epoch; None: all that the filters of the relation have."""
        is_newest = self._flow.joins.plan.version == self._built_version
        return self._flow.aggregates.by_name[name.lower()].ids_of(epoch, is_newest=is_newest)

    def _is_concerned(self, readers: Sequence[PlannedAggregation], round_: Round) -> bool:
        """Whether time passes for a class: with rows of its streams or of those joined with them, in a tick, for new queries;
        in every round if it depends on now()."""
        if any(each.depends_on_time for each in readers):
            return True
        names = self._flow.with_partners(list(round_.n_rows))
        if not names or not readers[0].base_streams.isdisjoint(names):
            return True
        return any(
            len(self._unanswered(each.aggregation.name)) for each in readers if each.aggregation.is_table
        )

    def _windowed(self, form: Form, rows: ClassRows) -> ClassRows:
        """Rows of a table with the time whose windows hold them."""
        column = self._window_times.get(form)
        if column is None:
            return rows
        return replace(rows, window_us=times_of(rows.columns.column(column).cast(pa.int64()), len(rows)))

    def _changed(self, aggregation: Aggregation, changes: EntryChanges) -> Derived:
        """Entries that changed, for the queries that see them and have had an answer before."""
        name = aggregation.name
        is_before = ~changes.is_after
        images = is_before[:-1] & changes.is_after[1:] & (changes.entry[:-1] == changes.entry[1:])
        sign = np.where(changes.is_after, 1, -1).astype(np.int8)
        columns = self._with_now(aggregation, changes.columns, changes.is_after)
        is_answered = aggregation.is_table and changes.reason != CLOSED  # first answers have what closes
        without = queries_of(self._unanswered(name)) if is_answered else None
        at_end = None if aggregation.is_table else np.ones(len(sign), dtype=bool)
        return Derived(
            name.lower(),
            replace(self._batch(name, columns, sign), leave_reason=changes.reason),
            phase=1,
            among=self._ids_of(name, changes.epoch),
            without=without,
            preimages=np.flatnonzero(images),
            identity=of_columns(changes.columns, identity_columns(aggregation)),
            is_net=True,
            at_end=at_end,
        )

    def _rows_over(self, rows_of: str, name: str, found: Sequence[OverValues], rows: ClassRows) -> Derived:
        """Rows with values over their frames, of each PARTITION BY. They have the numbers of the rows they are, if these arrived;
        those that are derived, and may have one number together, get their own."""
        places = found[0].rows
        stream, arrived = self._flow.views.by_name[rows_of].stream, self._rows[rows_of].batch
        parts = [rows.columns.take(pa.array(places)), *(each.columns for each in found)]
        columns = pa.RecordBatch.from_arrays(
            [column for part in parts for column in part.columns],
            names=[each for part in parts for each in part.schema.names],
        )
        n, ids = len(places), self._ids_of(name, found[0].epoch)
        batch = TupleBatch(name, columns, rows.arrival[places], np.ones(n, np.int8), np.zeros(n, dtype=bool))
        if not is_derived(stream, arrived):
            return Derived(name.lower(), batch, among=ids, is_numbered=True)
        components = components_of(columns, stream)
        numbered = replace(batch, arrival=self._numbers.take(n), components=components)
        at_end = np.ones(n, dtype=bool) if int(arrived.arrival[-1]) >= END_OF_ARRIVALS else None
        return Derived(name.lower(), numbered, int(at_end is not None), among=ids, at_end=at_end)

    def _answers(self, planned: PlannedAggregation) -> Iterator[Derived]:
        """First answers: all entries as they are after the round."""
        if planned.aggregation.is_table:
            yield from self._entries_for(planned, self._unanswered(planned.aggregation.name))

    def _entries_for(self, planned: PlannedAggregation, ids: QueryIds) -> Iterator[Derived]:
        """All entries as they are now, for some queries."""
        aggregation = planned.aggregation
        structure = self._structures.get(form_of(aggregation))
        if structure is None:  # its last query was dropped since the round was planned
            return
        assert not isinstance(structure, OverRows), aggregation.name
        for epoch, mine in planned.epochs_of(np.sort(ids)).items():
            found = structure.current(aggregation, epoch)
            columns = self._with_now(aggregation, found, np.ones(found.num_rows, dtype=bool))
            if columns.num_rows:
                yield Derived(
                    aggregation.name.lower(),
                    self._batch(aggregation.name, columns, np.ones(columns.num_rows, np.int8)),
                    phase=1,
                    only=mine,
                    identity=of_columns(columns, identity_columns(aggregation)),
                    is_net=True,
                )

    def _with_now(self, aggregation: Aggregation, columns: pa.RecordBatch, is_after: Mask) -> pa.RecordBatch:
        """Entries with the time at which queries ask of them, where these compare it."""
        if not self._flow.aggregates.by_name[aggregation.name.lower()].reader.deadlines:
            return columns
        before_us = self._now_us if self._last_now_us is None else self._last_now_us
        now = pa.array(np.where(is_after, self._now_us, before_us)).cast(TIMESTAMP)
        return columns.append_column(NOW, now)

    def _batch(self, name: str, columns: pa.RecordBatch, sign: npt.NDArray[np.int8]) -> TupleBatch:
        """Entries with numbers of their own; no single row is what they are made of."""
        n = columns.num_rows
        numbers = self._numbers.take(n)
        return TupleBatch(name, columns, numbers, sign, np.zeros(n, dtype=bool), np.zeros((n, 1), np.int64))

    def entries(self, aggregation: Aggregation, first_version: int, now_us: int) -> pa.RecordBatch | None:
        """The entries as they are after the last round, for the queries that see rows from a version on, to be asked at this
        time. None where no round has had such queries."""
        structure, reader = (
            self._structures.get(form_of(aggregation)),
            self._readers.get(aggregation.name.lower()),
        )
        if structure is None or reader is None or first_version not in reader.epochs:
            return None
        assert not isinstance(structure, OverRows), aggregation.name
        return as_of(structure.current(reader.aggregation, first_version), reader.deadlines, now_us)

    def save(self, round_number: int) -> tuple[list[ListedFile], list[str]]:
        if self._files is None:
            return [], []
        tables = self._flow.aggregates.table_classes
        pushed, all_of = (
            {form: each for form, each in structures.items() if form[0] not in tables}
            for structures in (self._pushed, self._structures)
        )
        return self._files.write(round_number, pushed, all_of)

    def commit(self, end: RoundEnd) -> None:
        end.output.events += self._limit.commit(end.round.number, self._stream_words())
        for form, structure in self._pushed.items():
            structure.commit()
            self._sizes[form] = replace(sizes_of(structure), n_refused=self._limit.n_refused[form])
        self._pushed = {}
        self._last_now_us = max(self._last_now_us or end.round.now_us, end.round.now_us)
        if self._files is not None:
            self._files.commit(is_empty=not self._structures)
        self._rows, self._parts = {}, {}

    def rollback(self) -> None:
        for structure in self._pushed.values():
            structure.rollback()
        self._limit.rollback()
        self._pushed = {}
        if self._files is not None:
            self._files.rollback()
        self._rows, self._parts = {}, {}

    def _stream_words(self) -> dict[Form, str]:
        """The streams below each of the structures that the round has called."""
        classes = self._flow.aggregates.classes if self._pushed else {}
        return {form: ", ".join(sorted(classes[form[0]][0].base_streams)) for form in self._pushed}

    @property
    def has_any(self) -> bool:
        """Whether there is something to keep, or files list some."""
        return bool(self._structures) or (self._files is not None and self._files.has_any)

    def restore(self, now_us: int) -> None:
        """After opening a home, once the structures are built: what was kept after the last round, which had this time."""
        assert self._files is not None
        self._last_now_us = now_us
        for form, saved in self._files.restore().items():
            if form in self._structures:
                self._structures[form].load(saved)
                self._sizes[form] = sizes_of(self._structures[form])

    def next_deadline(self) -> int | None:
        """The first time at which time alone may change an entry."""
        entries = (each for each in self._structures.values() if not isinstance(each, OverRows))
        found = (structure.next_deadline() for structure in entries)
        return min((at for at in found if at is not None), default=None)

    def sizes(self) -> Mapping[Form, AggregateSizes]:
        """How much is kept, by class and kind, as of the last round that committed."""
        return self._sizes

    def snapshot(self) -> dict[str, Any]:
        return {
            f"{name} ({kind})": structure.snapshot() for (name, kind), structure in self._structures.items()
        }


class AggregateLevel(StatelessOperator):
    """The aggregations of classes whose rows are complete before one level of joins, as an operator of the walk."""

    def __init__(self, aggregates: KeptAggregates, classes: Sequence[str], level: int) -> None:
        self.level, self.order = level, (level, 2)
        self._aggregates = aggregates
        self._classes = classes

    def recounted(
        self, rows: Mapping[str, ArrivedRows], progress: RoundProgress, round_: Round
    ) -> Iterator[Derived]:
        for name in self._classes:
            self._aggregates.fill(name, rows.get(name), round_)
            yield from self._aggregates.recounted(name)

    def merge(self, parts: Sequence[Part]) -> None:
        for name in self._classes:
            self._aggregates.merge(name, parts)

    def push(
        self,
        arrived: Mapping[str, ArrivedRows],
        wanted: WantedMasks,
        progress: RoundProgress,
        round_: Round,
        share: Share,
    ) -> Iterator[Derived]:
        for name in self._classes:
            self._aggregates.take(name, arrived.get(name), progress)
        return iter(())

    def advance(self, progress: RoundProgress, round_: Round) -> Iterator[Derived]:
        for name in self._classes:
            yield from self._aggregates.derive(name, progress, round_)
