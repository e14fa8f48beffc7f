"""The dataflow of the driver: the filters of all relations, its tables and joins, and what they keep from round to round.

plan      the plans of all signatures are pinned, with the version
walk      tables change; the filters of inputs say which rows each wants (join_plans.py); joins build and probe; what comes of it
          are rows of relations of their own (dataflow.py)
commit    what was built stays, and rows that no join can need any more leave
abort     what was built is undone
"""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from eddyline.batch import QueryIds
from eddyline.catalog import Catalog, ListedFile
from eddyline.engine.counted_relations import CountedRelations, counted_relations
from eddyline.engine.dataflow import Relation
from eddyline.engine.durable import Durable
from eddyline.engine.join_calls import JoinCalls
from eddyline.engine.join_groups import groups_of
from eddyline.engine.join_operator import FirstAnswer, JoinLevel, Joins
from eddyline.engine.join_plans import BOTH, MATCH, DerivedPlans, cheap, join_plan, local
from eddyline.engine.join_visibility import first_versions
from eddyline.engine.multiplicities import Multiplicities
from eddyline.engine.planned_flow import NO_TABLES, PlannedFlow
from eddyline.engine.relation_filters import RelationFilters
from eddyline.engine.round_work import Planned
from eddyline.engine.tables import PlannedTables, Tables, horizons
from eddyline.engine.view_plans import PlannedViews, planned_views
from eddyline.engine.view_rows import ViewRows, view_rows
from eddyline.engine.view_tables import ViewTableLevel, ViewTables
from eddyline.engine.window_files import WindowFiles, stored_rows
from eddyline.events import Event
from eddyline.expressions import Context
from eddyline.filters import FilterOutput, FilterStage
from eddyline.joins import KeyedTable, ProbeCounters
from eddyline.model import (
    DEFAULT_CHOICES,
    ExecutionChoices,
    QueryState,
    Role,
    Round,
    Signature,
    Stream,
    StreamPlan,
    StreamProgress,
)
from eddyline.operators import Derived, DerivedNumbers, Mask, Operator, OperatorInput


class DriverFlow:
    """The dataflow of one engine; a `FlowPlace` that holds all state."""

    def __init__(
        self,
        catalog: Catalog,
        context: Context,
        new_filters: Callable[[], FilterStage],
        *,
        policy: str,
        seed: int,
        durable: Durable | None = None,
    ) -> None:
        self._catalog = catalog
        self._context = context
        tables: dict[str, KeyedTable] = {}
        self.view_tables = ViewTables(lambda key, rows: self.joins.stage.evaluate(key, rows))
        self.joins = Joins(
            context,
            ChainMap(tables, cast(dict[str, KeyedTable], self.view_tables.tables)),
            new_filters,
            policy=policy,
            seed=seed,
            changes_of=lambda name: self.tables.changes_of(name),
            first_answers=lambda: self._tables_as_they_are(self.unanswered),
            recounts=lambda: self._tables_as_they_are(self.uncounted),
        )
        self.tables = Tables(
            catalog, tables, self.joins.stage.evaluate, durable, context.time_zone, self.uncounted
        )
        self.counts = Multiplicities()
        self.calls = JoinCalls()
        self._window_files = None if durable is None else WindowFiles(durable)
        self._known: tuple[tuple[object, ...], PlannedFlow] | None = None
        self.filters = RelationFilters(new_filters)
        self._variants = DerivedPlans()
        self._incarnations: dict[str, int] = {}  # how often a stream of a name was dropped
        self._built_incarnations: dict[str, int] = {}  # as operators know it
        self._built_views: frozenset[str] = frozenset()  # those that had readers then
        self._plans: Mapping[str, StreamPlan] = {}  # of the running round: those of base relations
        self._planned: PlannedFlow | None = None  # of the running round
        self._choices = DEFAULT_CHOICES  # of the running round
        self._levels: tuple[Operator, ...] = ()  # of the running round
        self._counted: tuple[tuple[object, ...], CountedRelations] = (), CountedRelations()
        self._known_counts: CountedRelations | None = None  # all of these are counted
        self._missing: frozenset[int] = frozenset()  # queries that the running round has to count first

    # ----------------------------------------------------------------------------------------- step 1

    def plan(self, progress: Mapping[str, StreamProgress]) -> PlannedFlow | None:
        """What operators need, as of now; None if there are none."""
        catalog = self._catalog
        tables = self.tables.plan()
        signatures, views = catalog.plans.signatures(), list(catalog.views.relations)
        is_any_kept = bool(self.joins.stage.stems) or (
            self._window_files is not None and self._window_files.has_any
        )
        if not signatures and not is_any_kept and tables is None and not views:
            return None
        plans = {signature.name: catalog.plan(signature.name) for signature in signatures}
        readers = {view.name: catalog.plan(view.name) for view in views}
        names = {name.lower() for signature in signatures for name in signature.streams}
        names |= {base for name in (*names, *readers) for base in catalog.views.base_streams(name)}
        streams = {name: catalog.relation(name) for name in sorted(names)}
        keyed = () if tables is None else tables.streams.values()
        key = (*plans.values(), *streams.values(), *keyed, *views, *readers.values())
        if self._known is None or not _all_same(self._known[0], key):
            self._known = key, self._new_plan(plans, streams, planned_views(views, readers, signatures))
        at = {name: progress.get(name, StreamProgress()) for name in streams if name not in readers}
        silent = [
            i for view in views for i in view.query_ids if catalog.queries.state(i) is not QueryState.RUNNING
        ]
        return replace(
            self._known[1],
            progress=at,
            tables=tables or NO_TABLES,
            silent_views=frozenset(silent),
            counted=self._counted_relations(tables or NO_TABLES, signatures, self._known[1].views),
        )

    def _counted_relations(
        self, tables: PlannedTables, signatures: Iterable[Signature], views: PlannedViews
    ) -> CountedRelations:
        """The same object until something changes."""
        names = [*tables.streams, *(view.name for view in views.ordered if view.is_table)]
        names += [each.name for each in signatures if each.is_of_tables]
        plans = {name.lower(): self._catalog.plan(name) for name in names}
        key = (*plans.values(), *views.ordered)
        if not _all_same(self._counted[0], key):
            self._counted = key, counted_relations(plans, views.ordered, views.rank_of)
        return self._counted[1]

    def _new_plan(
        self, plans: dict[str, StreamPlan], streams: dict[str, Stream], views: PlannedViews
    ) -> PlannedFlow:
        """The next plan; of signatures in which nothing has changed, what the last one knew."""
        catalog, last = self._catalog, None if self._known is None else self._known[1]
        same = {} if last is None else {n: last for n, plan in plans.items() if last.plans.get(n) is plan}
        signatures = catalog.plans.signatures()
        return PlannedFlow(
            join_plan(
                0 if last is None else last.joins.version + 1,
                catalog,
                plans,
                {name: known.joins.by_name[name] for name, known in same.items()},
                {} if last is None else last.joins.by_name,
            ),
            plans,
            streams,
            {},
            {
                name: same[name].first_versions[name] if name in same else first_versions(plan, catalog)
                for name, plan in plans.items()
            },
            groups_of(signatures, catalog.views.base_streams),
            dict(self._incarnations),
            {
                (name if variant is None else f"{name}/{variant}").lower(): (name, variant)
                for name in plans
                for variant in (None, BOTH, MATCH)
            },
            views,
        )

    # ----------------------------------------------------------------------------------------- step 3

    def begin(self, round_plan: Planned, numbers: DerivedNumbers) -> None:
        """A round begins."""
        self._planned, self._plans, self._levels = round_plan.flow, round_plan.plans, ()
        self._choices = round_plan.choices
        planned = round_plan.flow
        if planned is not None:
            self.calls.shared_numbers = planned.views.shared_numbers
            self._levels = tuple(
                operator
                for level, names in enumerate(planned.views.join_levels)
                for operator in (
                    ViewTableLevel(
                        self.view_tables,
                        planned.kept_views.keys() & planned.views.complete_before(level),
                        level,
                    ),
                    JoinLevel(self.joins, names, planned.views.unfinished(level), level + 1),
                )
            )
            self._build(planned)
            self.view_tables.begin(planned.kept_views.keys())
            self.tables.begin(planned.tables, numbers)
            self.joins.begin(planned.joins, numbers, self._choices)
            self._begin_counts(planned)

    def _begin_counts(self, planned: PlannedFlow) -> None:
        """Find out which results are not counted yet."""
        counted = planned.counted
        answered = {name: self.unanswered(name) for name in counted.ids}
        self._missing = frozenset()
        if counted is not self._known_counts:
            self._missing = counted.missing(self.counts, answered)
        self._missing = counted.with_bodies_below(self._missing, self.view_tables.missing)
        both = ((ids, answered[name]) for name, ids in counted.ids.items())
        newly = {each for ids, now in both for each in np.intersect1d(ids, now).tolist()}
        self.counts.begin(counted.sets_of(self._missing), counted.sets_of(newly))

    def _build(self, planned: PlannedFlow) -> None:
        stage = self.joins.stage
        if planned.joins.version <= stage.plan.version:
            return  # a round that was planned earlier may work later: what was built since then stays
        renewed = [
            name for name, n in planned.incarnations.items() if self._built_incarnations.get(name, 0) != n
        ]
        stage.forget(renewed)
        self.tables.forget(renewed)
        self._built_incarnations = planned.incarnations
        self.tables.fit(planned.tables)
        self.view_tables.fit(planned.joins.view_names, planned.kept_views, planned.joins.schemas)
        dropped = stage.plan.by_name.keys() - planned.plans.keys()
        self.joins.build(planned.joins, planned.plans)
        for name in dropped:
            for relation in (name.lower(), f"{name}/{BOTH}".lower()):
                self.filters.forget(relation)
        for name in self._built_views - planned.views.readers.keys():
            self.filters.forget(name)
        self._built_views = frozenset(planned.views.readers)
        self.filters.keep_inputs(planned.plans)
        self._variants.keep(planned.plans)

    def _tables_as_they_are(self, asking: Callable[[str], QueryIds]) -> Sequence[FirstAnswer]:
        """The joins of tables that some queries are to see as they are now; `asking` says which."""
        planned = self._planned
        assert planned is not None
        answers = []
        for name in planned.plans:
            ids = asking(name)
            if len(ids):
                signature = planned.joins.by_name[name]
                first = signature.signature.inputs[0]
                holder = self.view_tables if first.role is Role.VIEW else self.tables
                rows = functools.partial(holder.current_rows, first.stream.lower())
                answers.append(FirstAnswer(signature, ids, rows))
        return answers

    # ----------------------------------------------------------------------------------------- as a place of the walk

    @property
    def operators(self) -> Sequence[Operator]:
        return () if self._planned is None else (self.tables, *self._levels)

    def relation(self, name: str) -> Relation:
        plan = self._plans.get(name)
        if plan is not None:
            return self._with_plan(Relation(plan, self.filters.of(name)), name)
        planned = self._planned
        assert planned is not None, f"no relation {name}"
        if name in planned.views.readers:
            return self._with_plan(Relation(planned.views.readers[name], self.filters.of(name)), name)
        if (
            name not in planned.derived_relations
        ):  # a table without rows in this round, which is asked for all it has
            return self._with_plan(Relation(planned.counted.plans[name], self.filters.of(name)), name)
        signature, variant = planned.derived_relations[name]
        first, plan = planned.first_versions[signature], planned.plans[signature]
        if variant is not None:
            plan = self._variants.of(plan, variant)
        filters = self.filters.of_input(signature, MATCH) if variant == MATCH else self.filters.of(name)
        joined = planned.joins.by_name[signature].signature
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
        plan = self._planned.plans[signature]
        variant = self._variant(self._choices, plan, place)
        if self._variants.wants_all(plan, variant):
            return None
        return self._with_plan(
            Relation(self._variants.of(plan, variant), self.filters.of_input(signature, variant))
        )

    def view_rows(self, name: str, bodies: FilterOutput, below: Derived | None) -> Iterator[ViewRows]:
        planned = self._planned
        assert planned is not None, f"bodies of views over {name}"
        views, is_input = planned.views, planned.joins.inputs.__contains__
        return view_rows(bodies, views.by_body, is_input, views.lasting, self._context.time_zone, below)

    def letter_queries(self, body_id: int, *, is_answer: bool) -> Sequence[int]:
        assert self._planned is not None

        def is_told(relation: str, ids: QueryIds) -> Mask:
            is_new: Mask = np.isin(ids, self.unanswered(relation))
            return is_new if is_answer else ~is_new

        return self._planned.letter_queries(body_id, is_told)

    def unanswered(self, relation: str) -> QueryIds:
        assert self._planned is not None
        return self.tables.unanswered(self._planned.tables, relation.lower())

    def uncounted(self, relation: str) -> QueryIds:
        assert self._planned is not None
        return self._planned.counted.uncounted(relation.lower(), self._missing, self.view_tables.missing)

    def _variant(self, choices: ExecutionChoices, plan: StreamPlan, place: int) -> str:
        """By which plan it is decided who wants rows of an input: by all that is said of it, or first by what is cheap to ask."""
        if self._variants.is_dear(plan, place) and self._asks_later(choices, plan.stream, place):
            return cheap(place)
        return local(place)

    def _asks_later(self, choices: ExecutionChoices, signature: str, place: int) -> bool:
        """Whether expensive conditions on an input are asked only of rows that have found partners."""
        n_rows, n_matched = self.joins.stage.match_counts(signature, place)
        return n_rows >= choices.judged_by and n_matched < choices.few_matched * n_rows

    def input_plan(
        self, plan: StreamPlan, place: int, choices: ExecutionChoices
    ) -> tuple[StreamPlan, FilterStage] | None:
        """What the queries of a signature say of one input alone, for tasks; None: some query needs all of its rows."""
        variant = self._variant(choices, plan, place)
        if self._variants.wants_all(plan, variant):
            return None
        return self._variants.of(plan, variant), self.filters.of_input(plan.stream, variant)

    # ----------------------------------------------------------------------------------------- step 4

    def save(self, round_number: int) -> tuple[list[ListedFile], list[str]]:
        """Files of what the round has kept, and those that are listed no longer once it has committed."""
        files, unlisted = self.tables.save(round_number)
        if self._window_files is not None:
            files += self._window_files.write(round_number, self.joins.stage)
            unlisted += self._window_files.gone
        return files, unlisted

    def commit(
        self,
        round_: Round,
        planned: PlannedFlow,
        progress: Mapping[str, StreamProgress],
        probes: Mapping[OperatorInput, ProbeCounters],
        busy: AbstractSet[str] = frozenset(),
    ) -> None:
        """Keep what was built; `progress` is that of all streams after the round, `probes` was done in other places.

        Rows of `busy` streams stay: rounds that were planned with them are worked on.
        """
        self._build(planned)
        self.joins.stage.add_probe_counts(probes)
        after = planned.after(progress)
        self.joins.commit(after, round_, self.with_views(busy))
        self.calls.forget(self.joins.stage.windows.first_arrivals())
        own = {name: at.watermark_us for name, at in progress.items()}
        signatures = [each.signature for each in planned.joins.signatures]
        self.tables.commit(round_, horizons(signatures, after.watermarks_us, own))
        self.view_tables.commit()
        self.counts.commit()
        if planned.counted is not self._known_counts:
            self.counts.keep(planned.counted.all_sets())
            self._known_counts = planned.counted
        if self._window_files is not None:
            self._window_files.commit()

    def with_views(self, streams: AbstractSet[str]) -> frozenset[str]:
        """These streams, and the views whose rows are made of theirs, as far as joins keep any."""
        bases = (
            {name: self._catalog.views.base_streams(name) for name in self.joins.stage.stems}
            if streams
            else {}
        )
        return frozenset(streams).union(name for name, of in bases.items() if of & streams)

    def rollback(self) -> None:
        self.joins.rollback()
        self.tables.rollback()
        self.view_tables.rollback()
        self.counts.rollback()
        if self._window_files is not None:
            self._window_files.rollback()

    def restore(self, progress: Mapping[str, StreamProgress], version: int, now_us: int) -> None:
        """After opening a home: what was kept after the last committed round, which saw this version."""
        assert self._window_files is not None
        blocks = list(self._window_files.restore())
        planned = self.plan(progress)
        if planned is None:
            self.tables.restore(version, progress.keys())
            return
        self._build(planned)  # so that tables know whether to keep history
        self.tables.restore(version, progress.keys())
        self.joins.rules.fill()
        for block in blocks:
            self.joins.stage.windows.restore(block.stream, functools.partial(stored_rows, block))
        self.joins.stage.commit(planned.before, Round(0, 0, now_us, 0, 0, {}))

    def forget_stream(self, name: str) -> None:
        """A dropped stream leaves nothing."""
        self.filters.forget(name, waits=False)
        self._incarnations[name] = self._incarnations.get(name, 0) + 1

    # ----------------------------------------------------------------------------------------- to look at

    def table_rows(self, planned: PlannedFlow, name: str) -> pa.RecordBatch:
        """The rows of a table, between rounds."""
        self._build(planned)
        return self.tables.current_rows(name).batch.rows

    def window_files(self) -> list[tuple[ListedFile, int]]:
        """The files of what is kept, in order, each with the arrival number of its last row."""
        return [] if self._window_files is None else self._window_files.files()

    def events(self) -> Iterator[Event]:
        """What happened to the filters of inputs since this was last asked."""
        for filters in self.filters.of_inputs():
            yield from filters.events()

    def snapshot(self) -> dict[str, Any]:
        return self.joins.snapshot() | {"tables": self.tables.snapshot(), "counts": self.counts.snapshot()}

    def close(self) -> None:
        self.joins.close()
        self.filters.close()


def _all_same(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))
