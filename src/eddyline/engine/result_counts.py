"""Which results of queries over tables are counted in a round, and which have to be counted first (multiplicities.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from eddyline.batch import QueryIds
from eddyline.catalog import Catalog
from eddyline.engine.counted_relations import CountedRelations, counted_relations
from eddyline.engine.multiplicities import Multiplicities
from eddyline.engine.operator_states import OperatorState, RoundEnd
from eddyline.engine.planned_flow import NO_COUNTS, PlannedFlow, PlannedTables
from eddyline.engine.view_plans import PlannedViews
from eddyline.model import ExecutionChoices, Signature
from eddyline.operators import DerivedNumbers, Operator


class ResultCounts(OperatorState):
    """Begun after tables and joins, which say what is new to the round."""

    def __init__(
        self,
        catalog: Catalog,
        unanswered: Callable[[str], QueryIds],
        unfilled: Callable[[], AbstractSet[str]],
    ) -> None:
        """`unanswered` are the queries of a relation that get a first answer in the running round, `unfilled` the views whose
        rows it has to find first."""
        self.counts = Multiplicities()
        self._catalog = catalog
        self._unanswered = unanswered
        self._unfilled = unfilled
        self._last: tuple[tuple[object, ...], CountedRelations] = (), NO_COUNTS
        self._known: CountedRelations | None = None  # all of these are counted
        self._missing: frozenset[int] = frozenset()  # queries that the running round has to count first

    def plan(
        self, tables: PlannedTables, signatures: Iterable[Signature], views: PlannedViews
    ) -> CountedRelations:
        """The same object until something changes."""
        names = [*tables.streams, *(view.name for view in views.ordered if view.is_table)]
        names += [each.name for each in signatures if each.is_of_tables]
        names += [each.name for each in self._catalog.plans.aggregations() if each.is_table]
        plans = {name.lower(): self._catalog.plan(name) for name in names}
        key = (*plans.values(), *views.ordered)
        if not are_same(self._last[0], key):
            self._last = key, counted_relations(plans, views.ordered, views.rank_of)
        return self._last[1]

    def begin(
        self, planned: PlannedFlow, numbers: DerivedNumbers, choices: ExecutionChoices
    ) -> Sequence[Operator]:
        counted = planned.counted
        answered = {name: self._unanswered(name) for name in counted.ids}
        missing = counted.missing(self.counts, answered) if counted is not self._known else frozenset()
        self._missing = counted.with_bodies_below(missing, self._unfilled())
        both = ((ids, answered[name]) for name, ids in counted.ids.items())
        newly = {each for ids, now in both for each in np.intersect1d(ids, now).tolist()}
        self.counts.begin(counted.sets_of(self._missing), counted.sets_of(newly))
        return ()

    def uncounted(self, planned: PlannedFlow, relation: str) -> QueryIds:
        """The queries of a relation, in lower case, that have to see its rows as they are before the round."""
        return planned.counted.uncounted(relation, self._missing, self._unfilled())

    def commit(self, end: RoundEnd) -> None:
        self.counts.commit()
        if end.planned.counted is not self._known:
            self.counts.keep(end.planned.counted.all_sets())
            self._known = end.planned.counted

    def rollback(self) -> None:
        self.counts.rollback()


def are_same(old: Sequence[object], new: Sequence[object]) -> bool:
    """Whether these are the same objects."""
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))
