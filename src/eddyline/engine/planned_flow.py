"""What a round does about operators, pinned with its version: joins, tables, views, and where their streams are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eddyline.engine.counted_relations import CountedRelations
from eddyline.engine.join_visibility import FirstVersions
from eddyline.engine.tables import PlannedTables
from eddyline.engine.view_plans import NO_VIEWS, PlannedViews
from eddyline.engine.view_tasks import TaskViews
from eddyline.joins import JoinPlan
from eddyline.model import Stream, StreamPlan, StreamProgress
from eddyline.operators import RoundProgress

NO_TABLES = PlannedTables({}, {})
NO_COUNTS = CountedRelations()


@dataclass(frozen=True, eq=False)
class PlannedFlow:
    """What a round does about operators: joins, and tables."""

    joins: JoinPlan
    plans: dict[str, StreamPlan]  # of the signatures' relations, by name
    streams: dict[str, Stream]  # by name in lower case, all that some signature reads
    progress: dict[str, StreamProgress]
    first_versions: dict[str, FirstVersions]  # by signature
    groups: list[frozenset[str]]  # streams that joins connect
    incarnations: dict[str, int]  # how often a stream of a name was dropped
    # by derived relation, in lower case: its signature, and the variant of the plan of its queries
    derived_relations: dict[str, tuple[str, str | None]]
    views: PlannedViews = NO_VIEWS
    silent_views: frozenset[int] = (
        frozenset()
    )  # queries of views that are paused, so that only readers get rows
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

    def task_views(self, name: str) -> TaskViews | None:
        """The views over a stream whose rows tasks find; None if there are none."""
        if name not in self.views.sources:
            return None
        feeds = [(view, feed) for view in self.views.ordered for feed in view.feeds if feed.source == name]
        return TaskViews(
            {feed.body_id: view.stream.name for view, feed in feeds},
            {feed.body_id: feed.query_id for _, feed in feeds if feed.query_id in self.silent_views},
            {feed.body_id: feed.shape.branch for view, feed in feeds if view.is_union},
        )

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
