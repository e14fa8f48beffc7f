"""What a round does about aggregates: which classes of rows there are, who reads what is made of them, and from when on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from eddyline.aggregates import Reader
from eddyline.batch import QueryIds
from eddyline.catalog import Catalog
from eddyline.engine.join_visibility import FirstVersions, first_versions
from eddyline.model import AggregateCall, Aggregation, StreamPlan, TemporalBound


@dataclass(frozen=True, eq=False)
class PlannedAggregation:
    """An aggregation as of one version, with the queries that read it."""

    aggregation: Aggregation
    queries: StreamPlan
    first: FirstVersions
    reader: Reader
    base_streams: frozenset[str]  # that the rows of its class are made of, in lower case
    joins_streams: bool  # whether the rows of its class are combinations of several streams without a key

    @property
    def depends_on_time(self) -> bool:
        """Whether time alone may change its entries: with every round, whatever rows it has."""
        aggregation = self.aggregation
        return bool(aggregation.bounds or self.reader.deadlines) or aggregation.keep_us is not None

    def ids_of(self, epoch: int, *, is_newest: bool) -> QueryIds | None:
        """The queries and bodies of an epoch; None: all of them are, and there are no newer ones."""
        if is_newest and len(self.reader.epochs) == 1:
            return None
        found: QueryIds = self.first.ids[self.first.versions == epoch]
        return found

    def epochs_of(self, ids: QueryIds) -> dict[int, QueryIds]:
        """These queries, by epoch."""
        versions = self.first[ids]
        return {int(epoch): ids[versions == epoch] for epoch in np.unique(versions)}


@dataclass(frozen=True, eq=False)
class PlannedAggregates:
    """The aggregations of a version, by the relation they make, in lower case."""

    by_name: Mapping[str, PlannedAggregation] = field(default_factory=dict)

    @cached_property
    def classes(self) -> Mapping[str, list[PlannedAggregation]]:
        """By the relation of the rows of a class, in lower case."""
        found: dict[str, list[PlannedAggregation]] = {}
        for each in self.by_name.values():
            found.setdefault(each.aggregation.rows.lower(), []).append(each)
        return found

    @cached_property
    def table_classes(self) -> frozenset[str]:
        """Classes of rows that come and go: what is kept of them follows from the tables, which are stored."""
        return frozenset(name for name, each in self.classes.items() if each[0].aggregation.reads_table)

    def plans(self) -> Iterable[StreamPlan]:
        return (each.queries for each in self.by_name.values())


NO_AGGREGATES = PlannedAggregates()


def planned_aggregates(
    catalog: Catalog, plans: Mapping[str, StreamPlan], last: PlannedAggregates | None
) -> PlannedAggregates:
    """The aggregations that queries read, given the plan of each; what has not changed is taken from the last plan."""
    known = {} if last is None else last.by_name
    found: dict[str, PlannedAggregation] = {}
    for aggregation in catalog.plans.aggregations():
        name = aggregation.name.lower()
        before, plan = known.get(name), plans[name]
        if before is not None and before.queries is plan:
            found[name] = before
        else:
            first = first_versions(plan, catalog)
            epochs = tuple(np.unique(first.versions).tolist())
            reader = Reader(aggregation, _calls(plan), epochs, _deadlines(plan))
            streams = frozenset(catalog.views.base_streams(aggregation.rows))
            joins_streams = _joins_streams(catalog, aggregation)
            found[name] = PlannedAggregation(aggregation, plan, first, reader, streams, joins_streams)
    return PlannedAggregates(found)


def _joins_streams(catalog: Catalog, aggregation: Aggregation) -> bool:
    view = catalog.views.relation(aggregation.rows)
    assert view is not None, aggregation.rows
    joins = (feed.shape.join for feed in view.feeds if feed.shape.join is not None)
    return any(sum(not entry.role.is_table for entry in each.signature.inputs) > 1 for each in joins)


def _deadlines(plan: StreamPlan) -> tuple[TemporalBound, ...]:
    """What the queries of an aggregation compare with now(), each once."""
    aggregating = (s.shape.aggregating for s in plan.with_bodies.segments if s.n_live)
    found = dict.fromkeys(bound for each in aggregating if each is not None for bound in each.deadlines)
    return tuple(found)


def _calls(plan: StreamPlan) -> tuple[AggregateCall, ...]:
    """What the queries of an aggregation need, each once."""
    found: dict[str, AggregateCall] = {}
    for segment in plan.with_bodies.segments:
        if segment.n_live:
            assert segment.shape.aggregating is not None, segment.shape.key
            found |= {call.name: call for call in segment.shape.aggregating.calls}
    return tuple(found[name] for name in sorted(found))
