"""What a round does about operators, pinned with its version: a part for each kind, and where their streams are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

from eddyline.batch import QueryIds
from eddyline.engine.aggregate_plans import NO_AGGREGATES, PlannedAggregates
from eddyline.engine.counted_relations import CountedRelations
from eddyline.engine.join_visibility import FirstVersions
from eddyline.engine.view_plans import NO_VIEWS, PlannedViews
from eddyline.engine.view_tasks import TaskViews
from eddyline.joins import JoinPlan
from eddyline.model import Stream, StreamPlan, StreamProgress, ViewRelation
from eddyline.operators import Mask, RoundProgress


@dataclass(frozen=True, slots=True)
class PlannedTables:
    """The tables as of a round, and the queries without an answer yet, by stream, signature or view: names in lower case."""

    streams: dict[str, Stream]
    newcomers: dict[str, tuple[StreamPlan, FirstVersions]]
    views: Mapping[str, Sequence[ViewRelation]] = field(default_factory=dict)  # by the relation they are over
    # by class of rows that may fail: the aggregations whose new queries have to know which do
    aggregations: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedJoins:
    """The joins of a version, and the queries that read them."""

    plan: JoinPlan
    queries: dict[str, StreamPlan]  # of each signature, by name
    first_versions: dict[str, FirstVersions]  # by signature
    # by derived relation, in lower case: its signature, and the variant of the plan of its queries
    relations: dict[str, tuple[str, str | None]]


NO_TABLES = PlannedTables({}, {})
NO_COUNTS = CountedRelations()


@dataclass(frozen=True, eq=False)
class PlannedFlow:
    """What a round does about operators: a part for each kind, and the streams they read."""

    streams: dict[str, Stream]  # by name in lower case, all that some signature reads
    progress: dict[str, StreamProgress]
    groups: list[frozenset[str]]  # streams that operators connect
    incarnations: dict[str, int]  # how often a stream of a name was dropped
    joins: PlannedJoins
    views: PlannedViews = NO_VIEWS
    aggregates: PlannedAggregates = NO_AGGREGATES
    silent_views: frozenset[int] = frozenset()  # queries of views that are paused: only readers get rows
    tables: PlannedTables = NO_TABLES
    counted: CountedRelations = NO_COUNTS

    @property
    def before(self) -> RoundProgress:
        """The progress of relations before the round."""
        return self.views.with_watermarks(round_progress(self.progress))

    def after(self, progress: Mapping[str, StreamProgress]) -> RoundProgress:
        """That after the round, given what it moved."""
        moved = {name: progress.get(name, at) for name, at in self.progress.items()}
        return self.views.with_watermarks(round_progress(moved))

    @cached_property
    def kept_views(self) -> Mapping[str, ViewRelation]:
        """The views over tables that joins look up, as far as they are not suspended."""
        views = self.views.by_name
        return {name: views[name] for name in self.joins.plan.view_names if name in views}

    def is_operator_input(self, view: str) -> bool:
        """Whether a join or an aggregation reads the rows of a view."""
        return view in self.joins.plan.inputs or view in self.aggregates.classes

    def task_views(self, name: str, folded: AbstractSet[str]) -> TaskViews | None:
        """The views over a stream whose rows tasks find; None if there are none. Rows of classes that are `folded` stay there."""
        if name not in self.views.sources:
            return None
        feeds = [(view, feed) for view in self.views.ordered for feed in view.feeds if feed.source == name]
        return TaskViews(
            {feed.body_id: view.stream.name for view, feed in feeds if view.name not in folded},
            {feed.body_id: ids for _, feed in feeds if (ids := self.letter_queries(feed.body_id))},
            {feed.body_id: feed.shape.branch for view, feed in feeds if view.is_union},
        )

    def letter_queries(
        self, body_id: int, gets_letters: Callable[[str, QueryIds], Mask] | None = None
    ) -> list[int]:
        """The queries that get the dead letters of a body: of a view that gives no results of its own now; of a view without a
        name, those that contain it and get letters, given the relation they read and their ids; None: all."""
        query_id = self.views.query_of(body_id)
        if query_id is None or query_id:
            return [query_id] if query_id in self.silent_views else []
        name = self.views.by_body[body_id].name
        signatures = (each.signature for each in self.joins.plan.signatures)
        joins = [each.name for each in signatures if name in map(str.lower, each.streams)]
        found: set[int] = set()
        aggregated = [
            each for each in self.aggregates.by_name.values() if each.aggregation.rows.lower() == name
        ]
        # of rows that only come, new queries see what others do
        over_streams = {
            each.aggregation.name.lower() for each in aggregated if not each.aggregation.reads_table
        }
        for relation, plan in (
            (name, self.views.readers[name]),
            *((each.lower(), self.joins.queries[each]) for each in joins),
            *((each.aggregation.name.lower(), each.queries) for each in aggregated),
        ):
            for segment in (*plan.segments, *plan.branches):
                is_meant = segment.is_live
                if gets_letters is not None and relation not in over_streams:
                    is_meant = is_meant & gets_letters(relation, segment.ids)
                found.update(segment.query_ids[is_meant].tolist())
            for segment in plan.bodies:
                for each in segment.ids[segment.is_live].tolist():
                    found.update(self.letter_queries(each, gets_letters))
        return sorted(found)

    def with_partners(self, names: list[str]) -> list[str]:
        """These streams and all they are joined with."""
        partners = [sorted(group) for group in self.groups if group & set(names)]
        return list(dict.fromkeys([*names, *(name for group in partners for name in group)]))


def round_progress(progress: Mapping[str, StreamProgress]) -> RoundProgress:
    """Rows that counted, late ones left out, and watermarks: what is still to come of a stream is bounded by its own."""
    return RoundProgress(
        {name: at.n_rows - at.n_late for name, at in progress.items()},
        {name: at.watermark_us for name, at in progress.items()},
    )
