"""The dataflow of the driver: the filters of all relations, its tables and joins, and what they keep from round to round.

plan      the plans of all signatures are pinned, with the version
walk      tables change; the filters of inputs say which rows each wants (join_plans.py); joins build and probe; what comes of it
          are rows of relations of their own (dataflow.py)
commit    what was built stays, and rows that no join can need any more leave
abort     what was built is undone
"""

from __future__ import annotations

import functools
import time
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from eddyline.batch import QueryIds
from eddyline.catalog import Catalog, ListedFile
from eddyline.engine.aggregate_files import AggregateFiles, Form
from eddyline.engine.aggregate_parts import why_rows
from eddyline.engine.aggregate_plans import planned_aggregates
from eddyline.engine.aggregate_sizes import AggregateSizes
from eddyline.engine.condition_placement import ConditionPlacements
from eddyline.engine.dataflow import Relation
from eddyline.engine.durable import Durable
from eddyline.engine.join_calls import JoinCalls
from eddyline.engine.join_groups import groups_of
from eddyline.engine.join_operator import FirstAnswer, Joins
from eddyline.engine.join_plans import BOTH, MATCH, DerivedPlans
from eddyline.engine.join_visibility import first_versions
from eddyline.engine.kept_aggregates import KeptAggregates
from eddyline.engine.kept_joins import KeptJoins, planned_joins
from eddyline.engine.operator_states import OperatorState, RoundEnd
from eddyline.engine.planned_flow import NO_TABLES, PlannedFlow
from eddyline.engine.relation_filters import RelationFilters
from eddyline.engine.result_counts import ResultCounts, are_same
from eddyline.engine.round_output import RoundOutput
from eddyline.engine.round_work import Planned
from eddyline.engine.tables import Tables
from eddyline.engine.view_plans import PlannedViews, planned_views
from eddyline.engine.view_rows import ViewRows, view_rows
from eddyline.engine.view_tables import ViewTables
from eddyline.engine.window_files import WindowFiles
from eddyline.events import Event
from eddyline.expressions import Context
from eddyline.filters import FilterOutput, FilterStage
from eddyline.joins import KeyedTable
from eddyline.model import (
    DEFAULT_CHOICES,
    Aggregation,
    ExecutionChoices,
    QueryState,
    Role,
    Round,
    Stream,
    StreamPlan,
    StreamProgress,
)
from eddyline.operators import Derived, DerivedNumbers, Mask, Operator, OperatorInput
from eddyline.routing import RoutingOptions


class DriverFlow:
    """The dataflow of one engine; a `FlowPlace` that holds all state."""

    holds_state = True

    def __init__(
        self,
        catalog: Catalog,
        context: Context,
        new_filters: Callable[[], FilterStage],
        *,
        routing: RoutingOptions,
        seed: int,
        work_clock: Callable[[], float] = time.thread_time,
        durable: Durable | None = None,
        most_groups: int | None = None,
    ) -> None:
        self._catalog = catalog
        self._context = context
        tables: dict[str, KeyedTable] = {}
        self.view_tables = ViewTables(lambda key, rows: self.joins.stage.evaluate(key, rows))
        self.joins = Joins(
            context,
            ChainMap(tables, cast(dict[str, KeyedTable], self.view_tables.tables)),
            new_filters,
            routing=routing,
            seed=seed,
            clock=work_clock,
            changes_of=lambda name: self.tables.changes_of(name),
            first_answers=lambda: self._tables_as_they_are(self.unanswered),
            recounts=lambda: self._tables_as_they_are(self.uncounted),
        )
        self.tables = Tables(
            catalog, tables, self.joins.stage.evaluate, durable, context.time_zone, self.uncounted
        )
        self.filters = RelationFilters(new_filters)
        self._variants = DerivedPlans()
        self.placements = ConditionPlacements(self._variants, self.filters, self.joins.stage)
        self.calls = JoinCalls()
        files = None if durable is None else WindowFiles(durable)
        self._kept_joins = KeptJoins(self.joins, self.view_tables, self.calls, self.placements, files)
        self._aggregates = KeptAggregates(
            self.unanswered,
            self.uncounted,
            self._has_alerts,
            context.time_zone,
            None if durable is None else AggregateFiles(durable),
            most_groups,
        )
        self._result_counts = ResultCounts(
            catalog, self.unanswered, lambda: self.view_tables.missing | self._aggregates.missing
        )
        self.counts = self._result_counts.counts
        # each after those it stands on
        self._states: tuple[OperatorState, ...] = (
            self.tables,
            self._kept_joins,
            self._aggregates,
            self._result_counts,
        )
        self._known: tuple[tuple[object, ...], PlannedFlow] | None = None
        self._incarnations: dict[str, int] = {}  # how often a stream of a name was dropped
        self._built_incarnations: dict[str, int] = {}  # as operators know it
        self._built_views: frozenset[str] = frozenset()  # those, and aggregations, that had readers then
        self._plans: Mapping[str, StreamPlan] = {}  # of the running round: those of base relations
        self._planned: PlannedFlow | None = None  # of the running round
        self._choices = DEFAULT_CHOICES  # of the running round
        self.operators: Sequence[Operator] = ()  # of the running round

    # ----------------------------------------------------------------------------------------- step 1

    def plan(self, progress: Mapping[str, StreamProgress]) -> PlannedFlow | None:
        """What operators need, as of now; None if there are none."""
        catalog = self._catalog
        tables = self.tables.plan()
        signatures, views = catalog.plans.signatures(), list(catalog.views.relations)
        is_idle = not self._kept_joins.has_any and not self._aggregates.has_any
        if not signatures and is_idle and tables is None and not views:
            return None
        plans = {signature.name: catalog.plan(signature.name) for signature in signatures}
        readers = {view.name: catalog.plan(view.name) for view in views}
        aggregated = {each.name.lower(): catalog.plan(each.name) for each in catalog.plans.aggregations()}
        names = {name.lower() for signature in signatures for name in signature.streams}
        names |= {base for name in (*names, *readers) for base in catalog.views.base_streams(name)}
        streams = {name: catalog.relations.get(name) for name in sorted(names)}
        keyed = () if tables is None else tables.streams.values()
        key = (*plans.values(), *streams.values(), *keyed, *views, *readers.values(), *aggregated.values())
        if self._known is None or not are_same(self._known[0], key):
            ordered = planned_views(
                views,
                readers,
                signatures,
                catalog.plans.aggregations(),
                lambda plan: first_versions(plan, catalog),
            )
            self._known = key, self._new_plan(plans, streams, ordered, aggregated)
        at = {name: progress.get(name, StreamProgress()) for name in streams if name not in readers}
        silent = [
            i for view in views for i in view.query_ids if catalog.queries.state(i) is not QueryState.RUNNING
        ]
        return replace(
            self._known[1],
            progress=at,
            tables=tables or NO_TABLES,
            silent_views=frozenset(silent),
            counted=self._result_counts.plan(tables or NO_TABLES, signatures, self._known[1].views),
        )

    def _new_plan(
        self,
        plans: dict[str, StreamPlan],
        streams: dict[str, Stream],
        views: PlannedViews,
        aggregated: dict[str, StreamPlan],
    ) -> PlannedFlow:
        """The next plan."""
        catalog, last = self._catalog, None if self._known is None else self._known[1]
        groups = groups_of(catalog.plans.signatures(), catalog.views.base_streams)
        joins = planned_joins(catalog, plans, None if last is None else last.joins)
        aggregates = planned_aggregates(catalog, aggregated, None if last is None else last.aggregates)
        return PlannedFlow(streams, {}, groups, dict(self._incarnations), joins, views, aggregates)

    # ----------------------------------------------------------------------------------------- step 3

    def begin(self, round_plan: Planned, numbers: DerivedNumbers) -> None:
        """A round begins."""
        planned, self._plans, self._choices = round_plan.flow, round_plan.plans, round_plan.choices
        self._planned, self.operators = planned, ()
        if planned is not None:
            self._build(planned)
            begun = [state.begin(planned, numbers, self._choices) for state in self._states]
            called = [operator for operators in begun for operator in operators]
            self.operators = sorted(called, key=lambda operator: operator.order)

    def _build(self, planned: PlannedFlow) -> None:
        built = self.joins.stage.plan
        if planned.joins.plan.version <= built.version:
            return  # a round that was planned earlier may work later: what was built since then stays
        renewed = [
            name for name, n in planned.incarnations.items() if self._built_incarnations.get(name, 0) != n
        ]
        for state in self._states:
            state.build(planned, renewed)
        self._built_incarnations = planned.incarnations
        queries = planned.joins.queries
        for name in built.by_name.keys() - queries.keys():
            for relation in (name.lower(), f"{name}/{BOTH}".lower()):
                self.filters.forget(relation)
        with_filters = planned.views.readers.keys() | planned.aggregates.by_name.keys()
        for name in self._built_views - with_filters:
            self.filters.forget(name)
        self._built_views = frozenset(with_filters)
        self.filters.keep_inputs(queries)
        self._variants.keep(queries)

    def _tables_as_they_are(self, asking: Callable[[str], QueryIds]) -> Sequence[FirstAnswer]:
        """The joins of tables that some queries are to see as they are now; `asking` says which."""
        planned = self._planned
        assert planned is not None
        answers = []
        for name in planned.joins.queries:
            ids = asking(name)
            if len(ids):
                signature = planned.joins.plan.by_name[name]
                first = signature.signature.inputs[0]
                holder = self.view_tables if first.role is Role.VIEW else self.tables
                rows = functools.partial(holder.current_rows, first.stream.lower())
                answers.append(FirstAnswer(signature, ids, rows))
        return answers

    # ----------------------------------------------------------------------------------------- as a place of the walk

    def relation(self, name: str) -> Relation:
        plan = self._plans.get(name)
        if plan is not None:
            return self._with_plan(Relation(plan, self.filters.of(name)), name)
        planned = self._planned
        assert planned is not None, f"no relation {name}"
        if name in planned.aggregates.by_name:
            aggregated = planned.aggregates.by_name[name]
            return self._with_plan(
                Relation(aggregated.queries, self.filters.of(name), aggregated.first), name
            )
        if name in planned.views.readers:
            first_seen = planned.views.first_versions.get(name)
            return self._with_plan(
                Relation(planned.views.readers[name], self.filters.of(name), first_seen), name
            )
        if (
            name not in planned.joins.relations
        ):  # a table without rows in this round, which is asked for all it has
            return self._with_plan(Relation(planned.counted.plans[name], self.filters.of(name)), name)
        signature, variant = planned.joins.relations[name]
        first, plan = planned.joins.first_versions[signature], planned.joins.queries[signature]
        if variant is not None:
            plan = self._variants.of(plan, variant)
        filters = self.filters.of_input(signature, MATCH) if variant == MATCH else self.filters.of(name)
        joined = planned.joins.plan.by_name[signature].signature
        is_for_workers = variant is None and planned.views.leaves_to_workers(joined)
        return self._with_plan(Relation(plan, filters, first, joined, is_for_workers=is_for_workers), name)

    def _with_plan(self, relation: Relation, name: str = "") -> Relation:
        """The relation of this name, or what is asked of rows of an input, with its filters as they are to be."""
        relation.filters.build(relation.plan.with_bodies, self._choices)
        counted = None if self._planned is None else self._planned.counted.ranked_ids.get(name)
        return replace(relation, counts=self.counts, counted_ids=counted) if counted else relation

    def input_filters(self, operator_input: OperatorInput) -> Relation | None:
        assert self._planned is not None
        signature, place = operator_input
        plan = self._planned.joins.queries[signature]
        asked = self.placements.asked_plan(plan, place, self._choices)
        return None if asked is None else self._with_plan(Relation(*asked))

    def view_rows(self, name: str, bodies: FilterOutput, below: Derived | None) -> Iterator[ViewRows]:
        planned = self._planned
        assert planned is not None, f"bodies of views over {name}"
        views, is_input = planned.views, planned.is_operator_input
        return view_rows(bodies, views.by_body, is_input, views.lasting, self._context.time_zone, below)

    def letter_queries(self, body_id: int, *, is_answer: bool) -> Sequence[int]:
        assert self._planned is not None

        def gets_letters(relation: str, ids: QueryIds) -> Mask:
            is_new: Mask = np.isin(ids, self.unanswered(relation))
            return is_new if is_answer else ~is_new

        return self._planned.letter_queries(body_id, gets_letters)

    def unanswered(self, relation: str) -> QueryIds:
        assert self._planned is not None
        return self.tables.unanswered(self._planned.tables, relation.lower())

    def uncounted(self, relation: str) -> QueryIds:
        assert self._planned is not None
        return self._result_counts.uncounted(self._planned, relation.lower())

    def _has_alerts(self, plan: StreamPlan) -> bool:
        """Whether some query of a relation is an alert query, or may be through a view."""
        alerts = self._catalog.alerts
        if not alerts.any or plan.bodies:
            return alerts.any
        segments = (*plan.segments, *plan.branches)
        return any(alerts.among(each.query_ids[each.is_live]).any() for each in segments)

    # ----------------------------------------------------------------------------------------- step 4

    def save(self, round_number: int) -> tuple[list[ListedFile], list[str]]:
        """Files of what the round has kept, and those that are listed no longer once it has committed."""
        saved = [state.save(round_number) for state in self._states]
        return [file for files, _ in saved for file in files], [name for _, gone in saved for name in gone]

    def commit(
        self,
        round_: Round,
        planned: PlannedFlow,
        progress: Mapping[str, StreamProgress],
        output: RoundOutput,
        choices: ExecutionChoices,
        busy: AbstractSet[str] = frozenset(),
    ) -> None:
        """Keep what was built; `progress` is that of all streams after the round. Events are added to the output.

        Rows of `busy` streams stay: rounds that were planned with them are worked on.
        """
        self._build(planned)
        end = RoundEnd(round_, planned, progress, output, choices, self.with_views(busy))
        for state in reversed(self._states):
            state.commit(end)

    def with_views(self, streams: AbstractSet[str]) -> frozenset[str]:
        """These streams, and the views whose rows are made of theirs, as far as joins keep any."""
        bases = (
            {name: self._catalog.views.base_streams(name) for name in self.joins.stage.stems}
            if streams
            else {}
        )
        return frozenset(streams).union(name for name, of in bases.items() if of & streams)

    def rollback(self) -> None:
        for state in reversed(self._states):
            state.rollback()

    def restore(self, progress: Mapping[str, StreamProgress], version: int, now_us: int) -> None:
        """After opening a home: what was kept after the last committed round, which saw this version."""
        blocks = self._kept_joins.stored_blocks()
        planned = self.plan(progress)
        if planned is not None:
            self._build(planned)  # so that tables know whether to keep history
        self.tables.restore(version, progress.keys())
        if planned is not None:
            self._kept_joins.restore(blocks, planned, now_us)
        self._aggregates.restore(now_us)

    def forget_stream(self, name: str) -> None:
        """A dropped stream leaves nothing."""
        self.filters.forget(name, waits=False)
        self._incarnations[name] = self._incarnations.get(name, 0) + 1

    # ----------------------------------------------------------------------------------------- to look at

    def table_rows(self, planned: PlannedFlow, name: str) -> pa.RecordBatch:
        """The rows of a table, between rounds."""
        self._build(planned)
        return self.tables.current_rows(name).batch.rows

    def next_deadline(self) -> int | None:
        """The first time at which time alone may change an aggregate; between rounds."""
        return self._aggregates.next_deadline()

    def aggregate_sizes(self) -> Mapping[Form, AggregateSizes]:
        """How much is kept of each class of rows that is aggregated, by the kind of structure, as of the last round."""
        return self._aggregates.sizes()

    def entries_of(self, aggregation: Aggregation, query_id: int, now_us: int) -> pa.RecordBatch | None:
        """The entries of an aggregation as a query, or the body of a view, sees them after the last round, to be asked at this
        time; None if no round has had it."""
        planned = (
            None if self._known is None else self._known[1].aggregates.by_name.get(aggregation.name.lower())
        )
        if planned is None or query_id not in planned.first.ids:
            return None
        (first_version,) = planned.first[np.array([query_id], np.int32)].tolist()
        return self._aggregates.entries(aggregation, first_version, now_us)

    def why_rows(self, name: str, reader: Aggregation) -> str | None:
        """Why tasks hand on the rows of a class, by its name in lower case, in the words of one that reads it; None: they hand on
        what these come to, or no query reads it."""
        planned = self.plan({})
        is_read = planned is not None and name in planned.aggregates.classes
        return why_rows(name, planned.views, planned.aggregates, reader) if planned and is_read else None

    def window_files(self) -> list[tuple[ListedFile, int]]:
        """The files of what is kept, in order, each with the arrival number of its last row."""
        return self._kept_joins.files()

    def events(self) -> Iterator[Event]:
        """What happened to the filters of inputs since this was last asked."""
        for filters in self.filters.of_inputs():
            yield from filters.events()

    def snapshot(self) -> dict[str, Any]:
        return self.joins.snapshot() | {
            "tables": self.tables.snapshot(),
            "counts": self.counts.snapshot(),
            "aggregates": self._aggregates.snapshot(),
        }

    def close(self) -> None:
        for state in self._states:
            state.close()
        self.filters.close()
