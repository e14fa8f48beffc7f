"""Which queries over tables have results that are counted (multiplicities.py), in which order, and which have to be counted anew.

A query is counted once the rows of all relations it reads are there. The *rank* of a relation says when that is: how many joins
there are below it, and its place among views, each after those it reads. What is counted for the body of a view are rows of the
view, which has a higher rank than all that the body reads.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from eddyline.batch import QueryIds
from eddyline.engine.join_visibility import is_body
from eddyline.model import StreamPlan, ViewRelation

Rank = tuple[int, int]  # joins below, and the place among views


@dataclass(frozen=True, eq=False)
class CountedRelations:
    """The counted queries and bodies of a version, by table in lower case."""

    plans: Mapping[str, StreamPlan] = field(default_factory=dict)  # of all tables
    ids: Mapping[str, QueryIds] = field(default_factory=dict)
    ranked_ids: Mapping[str, Sequence[tuple[Rank, QueryIds]]] = field(
        default_factory=dict
    )  # the same, by rank
    sets: Mapping[int, int] = field(default_factory=dict)  # under which id each is counted, if not its own
    # the bodies of views that are tables, by the relation they are over: each with its view
    bodies: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)

    def sets_of(self, ids: Iterable[int]) -> set[int]:
        """Under which ids these are counted."""
        return {self.sets.get(each, each) for each in ids}

    def all_sets(self) -> set[int]:
        return self.sets_of(query_id for ids in self.ids.values() for query_id in ids.tolist())

    def missing(self, known: Container[int], answered: Mapping[str, QueryIds]) -> frozenset[int]:
        """Those that have no counts, and do not get them with a first answer; `answered` are the ids that get one."""
        return frozenset(
            query_id
            for name, ids in self.ids.items()
            for query_id in ids[is_body(ids) | ~np.isin(ids, answered[name])].tolist()
            if self.sets.get(query_id, query_id) not in known
        )

    def with_bodies_below(self, missing: AbstractSet[int], unfilled: AbstractSet[str]) -> frozenset[int]:
        """These, and all counted bodies below them and below views that are to be filled: they are counted anew, to give their
        rows again."""
        if not missing and not unfilled:
            return frozenset()
        needed = {
            body_id
            for relation, bodies in self.bodies.items()
            for body_id, view in bodies
            if body_id in self.ids.get(relation, ()) and self._is_needed(view, missing, unfilled)
        }
        return frozenset(missing | needed)

    def uncounted(
        self, relation: str, missing: AbstractSet[int], unfilled: AbstractSet[str] = frozenset()
    ) -> QueryIds:
        """The ids of a relation that have to see the rows it has: those that are missing, and bodies below them and below views
        that are to be filled."""
        if not missing and not unfilled:
            return np.empty(0, np.int32)
        own = [each for each in self.ids.get(relation, ()) if each in missing]
        below = [
            body_id
            for body_id, view in self.bodies.get(relation, ())
            if body_id not in own and self._is_needed(view, missing, unfilled)
        ]
        return np.array(sorted([*own, *below]), np.int32)

    def _is_needed(self, view: str, missing: AbstractSet[int], unfilled: AbstractSet[str]) -> bool:
        return view in unfilled or len(self.uncounted(view, missing, unfilled)) > 0


def counted_relations(
    plans: Mapping[str, StreamPlan], views: Iterable[ViewRelation], rank_of: Callable[[str], Rank]
) -> CountedRelations:
    """`plans` are those of all tables, by name in lower case."""
    bodies: dict[str, list[tuple[int, str]]] = {}
    for view in views:
        for feed in view.feeds if view.is_table else ():
            bodies.setdefault(feed.source, []).append((feed.body_id, view.name))
    counted = {name: plan.counted_ids for name, plan in plans.items() if len(plan.counted_ids)}
    sets = {own: of for name in counted for own, of in plans[name].counted_sets.items()}
    ranks: dict[int, Rank] = {}  # by union that is one set: the highest of its relations
    for name in counted:
        for set_id in plans[name].counted_sets.values():
            ranks[set_id] = max(rank_of(name), ranks.get(set_id, rank_of(name)))
    ranked = {
        name: _by_rank(ids, rank_of(name), {own: ranks[of] for own, of in plans[name].counted_sets.items()})
        for name, ids in counted.items()
    }
    return CountedRelations(plans, counted, ranked, sets, bodies)


def _by_rank(ids: QueryIds, rank: Rank, others: Mapping[int, Rank]) -> list[tuple[Rank, QueryIds]]:
    """The ids of a relation of this rank, but those of others."""
    found = {rank: ids[~np.isin(ids, np.array(list(others), np.int32))]}
    for other in sorted(set(others.values())):
        mine = np.array([each for each, its in others.items() if its == other], np.int32)
        found[other] = np.concatenate([found.get(other, mine[:0]), mine])
    return [(each, mine) for each, mine in sorted(found.items()) if len(mine)]
