"""What a round does about views: who reads them, in which order rows pass from one to the other, and how far time is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from eddyline.catalog import in_order, watermark_us
from eddyline.engine.identities import lasting_components
from eddyline.engine.join_visibility import FirstVersions
from eddyline.model import Aggregation, Signature, StreamPlan, ViewRelation
from eddyline.operators import Mask, RoundProgress


@dataclass(frozen=True, eq=False)
class PlannedViews:
    """The views that queries read, as of one version."""

    ordered: tuple[ViewRelation, ...] = ()  # those they read before them
    readers: Mapping[str, StreamPlan] = field(
        default_factory=dict
    )  # by view: the plan of the queries that read it
    # signatures, by how many joins there are below their inputs: each level after the rows of the one before
    join_levels: tuple[frozenset[str], ...] = (frozenset(),)
    # views, by the level before which all of their rows are there; those of a union may come from several levels
    view_levels: Mapping[str, int] = field(default_factory=dict)
    # by view without a name whose rows only come: from which version on each of its readers sees them
    first_versions: Mapping[str, FirstVersions] = field(default_factory=dict)
    # relations that are aggregated, by how many joins and aggregations there are up to them
    aggregation_levels: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> Mapping[str, ViewRelation]:
        return {view.name: view for view in self.ordered}

    @cached_property
    def by_body(self) -> Mapping[int, ViewRelation]:
        """Views by the ids of their bodies."""
        return {feed.body_id: view for view in self.ordered for feed in view.feeds}

    @cached_property
    def sources(self) -> frozenset[str]:
        """The relations that bodies are registered on, in lower case."""
        return frozenset(feed.source for view in self.ordered for feed in view.feeds)

    @cached_property
    def shared_numbers(self) -> frozenset[str]:
        """Views of which several rows may have the arrival number of one row."""
        found: set[str] = set()
        for view in self.ordered:
            of_several = (feed.shape.join is not None or feed.source in found for feed in view.feeds)
            if view.is_union or view.is_table or any(of_several):
                found.add(view.name)
        return frozenset(found)

    @cached_property
    def lasting(self) -> Mapping[int, Mask]:
        """By body: which components of its rows stay the same as long as a row is there; also that of the branch of a union."""
        found: dict[int, Mask] = {}
        for view in self.ordered:
            for feed in view.feeds:
                mask = np.zeros(view.stream.n_components, dtype=bool)
                of_shape = lasting_components(feed.shape, self.by_name)
                mask[: len(of_shape)] = of_shape
                mask[-1] |= view.is_union and not feed.shape.is_one_set
                found[feed.body_id] = mask
        return found

    def complete_before(self, level: int) -> frozenset[str]:
        """The views all of whose rows are there before this level of joins, and not before an earlier one."""
        return frozenset(name for name, at in self.view_levels.items() if at == level)

    @cached_property
    def _ranks(self) -> Mapping[str, tuple[int, int]]:
        levels = enumerate(self.join_levels, 1)
        joins = {name.lower(): (level, 0) for level, names in levels for name in names}
        joins |= {name: (level, 0) for name, level in self.aggregation_levels.items()}
        places = enumerate(self.ordered, 1)
        return joins | {view.name: (self.view_levels[view.name], place) for place, view in places}

    def rank_of(self, relation: str) -> tuple[int, int]:
        """When all rows of a relation are there: after those of all relations with a lower rank.

        The first number is how many joins there are below it, so how many levels of joins have to be done.
        """
        return self._ranks.get(relation, (0, 0))

    def unfinished(self, level: int) -> frozenset[str]:
        """The views that get more rows from this level of joins, or from a later one."""
        return frozenset(name for name, at in self.view_levels.items() if at > level)

    def leaves_to_workers(self, signature: Signature) -> bool:
        """Whether workers may take on a join: rows of declared streams look for partners in it.

        Outer joins, which are also decided by time, joins of tables alone, and what views need stay with the driver.
        """
        if signature.outer or signature.is_of_tables:
            return False
        reads_view = any(name.lower() in self.readers for name in signature.streams)
        return not reads_view and signature.name.lower() not in self.sources

    def query_of(self, body_id: int) -> int | None:
        """The query whose body this is, 0 if it is a view without a name; None if no query reads it any more."""
        feeds = self.by_body[body_id].feeds if body_id in self.by_body else ()
        return next((feed.query_id for feed in feeds if feed.body_id == body_id), None)

    def with_watermarks(self, progress: RoundProgress) -> RoundProgress:
        """The progress of streams, and what follows from it for views."""
        if not self.ordered:
            return progress
        watermarks = dict(progress.watermarks_us)
        for view in self.ordered:
            watermarks[view.name] = watermark_us(view, watermarks)
        return replace(progress, watermarks_us=watermarks)


NO_VIEWS = PlannedViews()


def planned_views(
    views: Iterable[ViewRelation],
    readers: Mapping[str, StreamPlan],
    signatures: Sequence[Signature],
    aggregations: Sequence[Aggregation],
    first_versions_of: Callable[[StreamPlan], FirstVersions],
) -> PlannedViews:
    """The views of a version, and in which order joins and aggregations come."""
    ordered = tuple(in_order(views))
    unnamed = (view.name for view in ordered if not view.query_ids and not view.is_table)
    first = {name: first_versions_of(readers[name]) for name in unnamed}
    join_levels, view_levels, aggregation_levels = _levels(ordered, signatures, aggregations)
    return PlannedViews(ordered, readers, join_levels, view_levels, first, aggregation_levels)


def _levels(
    views: Sequence[ViewRelation], signatures: Sequence[Signature], aggregations: Sequence[Aggregation]
) -> tuple[tuple[frozenset[str], ...], dict[str, int], dict[str, int]]:
    """The signatures of each level of joins, and how many levels there are below each view, and up to each aggregation."""
    by_view = {view.name: view for view in views}
    classes = {each.name.lower(): each.rows.lower() for each in aggregations}
    by_signature = {signature.name.lower(): signature for signature in signatures}
    known: dict[str, int] = {}

    def level(relation: str) -> int:
        """How many joins and aggregations there are between declared streams and a relation."""
        if relation not in known:
            if relation in classes:
                known[relation] = 1 + level(classes[relation])
            elif relation in by_signature:
                known[relation] = 1 + max(level(name.lower()) for name in by_signature[relation].streams)
            elif relation in by_view:
                known[relation] = max(level(feed.source) for feed in by_view[relation].feeds)
            else:
                known[relation] = 0
        return known[relation]

    levels = [level(name) - 1 for name in by_signature]
    aggregation_levels = {name: level(name) for name in classes}
    join_levels = (
        frozenset(each.name for each, at in zip(by_signature.values(), levels, strict=True) if at == number)
        for number in range(max((*levels, *(at - 1 for at in aggregation_levels.values())), default=0) + 1)
    )
    return tuple(join_levels), {name: level(name) for name in by_view}, aggregation_levels
