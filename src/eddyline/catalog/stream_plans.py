"""The running queries of each relation, in families, and the plan made of them: the same object until something changes.

A relation is a stream, the rows of a join, or a view. The bodies of views that other queries read are in plans as well, apart
from the queries (`views.py`).

A union is in the family of its shape, and so in the plan of the relation of its first branch. Its other branches are in plans of
their relations, under ids of their own: segments with the constants and the masks of those of the family.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog.families import QueryFamily
from eddyline.model import (
    FIRST_BODY,
    FIRST_BRANCH,
    Aggregation,
    PlanChanges,
    Segment,
    Shape,
    Signature,
    StreamPlan,
    ascending,
)

CHANGES_KEPT = 20_000  # per stream, then the newer half; an index further behind is built anew
IDS_KEPT = 1_000  # of branches, for queries that left


class StreamPlans:
    """Families by shape, shapes and plans by stream, and which queries changed in which version.

    Streams go by their names in lower case; the rows of a join are a stream under the name of its signature.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.families: dict[Shape, QueryFamily] = {}
        self.shapes_of: dict[str, dict[Shape, None]] = {}  # stream -> its shapes, in order of appearance
        self.reads: dict[str, dict[Shape, None]] = {}  # relation -> shapes of queries and bodies that read it
        self.is_read_anew = (
            False  # some relation is read that was not, or no longer, since this was last cleared
        )
        self._bodies: dict[str, dict[Shape, QueryFamily]] = {}  # relation -> bodies of views over it
        self._body_versions: dict[int, int] = {}  # from which on each body sees rows
        self._branches: dict[str, dict[Shape, Shape]] = {}  # relation -> branches of unions, and their unions
        self._branch_ids: dict[Shape, dict[int, int]] = {}  # by branch: the ids it has for queries
        self._next_branch = FIRST_BRANCH
        self._signatures: dict[str, Signature] = {}  # of the active joins, by the stream of their rows
        self._aggregations: dict[str, Aggregation] = {}  # the active ones, by the relation they make
        self._plans: dict[str, StreamPlan] = {}
        self._changes: dict[str, PlanChanges] = {}  # by stream
        self._unplanned = PlanChanges()  # of queries that are not active, which no plan shows

    def add_stream(self, key: str) -> None:
        """A stream was declared, or declared anew."""
        self.shapes_of.setdefault(key, {})
        self._plans.pop(key, None)

    def drop_stream(self, key: str) -> None:
        self.shapes_of.pop(key, None)
        self._plans.pop(key, None)

    def find(self, key: str) -> StreamPlan | None:
        """The plan of a stream, if it is current."""
        return self._plans.get(key)

    def build(self, key: str, name: str, version: int) -> StreamPlan:
        """Make the plan of a stream, whose name is spelled like this, as of a version."""
        segments = [s for shape in self.shapes_of.get(key, {}) for s in self.families[shape].segments()]
        bodies = [s for family in self._bodies.get(key, {}).values() for s in family.segments()]
        for segment in bodies:
            known = [self._body_versions.get(body_id, 0) for body_id in segment.ids.tolist()]
            segment.cache["first versions"] = np.array(known, np.int64)
        branches = [
            self._branch_segment(branch, segment)
            for branch, union in self._branches.get(key, {}).items()
            for segment in self.families[union].segments()
        ]
        changes = self._changes.setdefault(key, PlanChanges(version))
        plan = self._plans[key] = StreamPlan(
            name, version, tuple(segments), changes, tuple(bodies), tuple(branches)
        )
        return plan

    def _branch_segment(self, branch: Shape, segment: Segment) -> Segment:
        """The queries of a segment of a union in one of its branches."""
        known = segment.cache.get(branch.key)
        if known is None:
            ids = self._ids_in(branch, segment.ids)
            order = np.argsort(ids, kind="stable")
            is_ordered = bool((order[1:] > order[:-1]).all())
            slots = segment.slots if is_ordered else tuple(s.take(pa.array(order)) for s in segment.slots)
            known = segment.cache[branch.key] = order, ids[order], slots, segment.ids[order], {}
        order, ids, slots, queries, cache = known
        return Segment(branch, ids, slots, segment.is_live[order], cache, queries)

    def _ids_in(
        self, branch: Shape, query_ids: Sequence[int] | npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int32]:
        """The ids that a branch has for queries; new ones for those it did not have yet."""
        known = self._branch_ids.setdefault(branch, {})
        ids = query_ids.tolist() if isinstance(query_ids, np.ndarray) else query_ids
        for query_id in ids:
            if query_id not in known:
                known[query_id] = self._next_branch
                self._next_branch += 1
        return np.fromiter((known[query_id] for query_id in ids), np.int32, len(ids))

    def _forget_dropped(self, branch: Shape, family: QueryFamily) -> None:
        """Let go of the ids of queries that left, once they are more than those that are there."""
        known = self._branch_ids[branch]
        if len(known) > 2 * len(family) + IDS_KEPT:
            self._branch_ids[branch] = {query_id: known[query_id] for query_id in family.ids()}

    def branch_id(self, branch: Shape, query_id: int) -> int:
        """The id that a branch of a union has for a query; 0 if the query does not run."""
        return self._branch_ids.get(branch, {}).get(query_id, 0)

    def query_of(self, branch_id: int) -> int:
        """The query that has a branch of this id; 0 if it was dropped."""
        known = (item for ids in self._branch_ids.values() for item in ids.items())
        return next((query_id for query_id, found in known if found == branch_id), 0)

    def unions_on(self, key: str) -> dict[Shape, Shape]:
        """The branches of unions that are on a relation, besides first ones, each with its union."""
        return self._branches.get(key, {})

    def signatures(self) -> tuple[Signature, ...]:
        """What the active joins have in common, each once."""
        return tuple(self._signatures.values())

    def aggregations(self) -> tuple[Aggregation, ...]:
        """Those that active queries read, each once."""
        return tuple(self._aggregations.values())

    def derived_name(self, key: str) -> str | None:
        """The name of a relation that an operator makes, as it is spelled; None: it is no such relation."""
        found = self._signatures.get(key) or self._aggregations.get(key)
        return None if found is None else found.name

    def family(self, shape: Shape) -> QueryFamily:
        """The queries of a shape; a new family if there is none."""
        family = self.families.get(shape)
        if family is None:
            family = self.families[shape] = QueryFamily(shape)
            self.shapes_of.setdefault(shape.stream.lower(), {})[shape] = None
            for branch in shape.branches:
                self._branches.setdefault(branch.stream.lower(), {})[branch] = shape
            self._begin_reading(shape)
        return family

    def _begin_reading(self, shape: Shape) -> None:
        """A family of a shape begins, of queries or of bodies."""
        for branch in shape.all_branches:
            if branch.join is not None:
                self._signatures.setdefault(branch.stream.lower(), branch.join.signature)
            if branch.aggregating is not None:
                self._aggregations.setdefault(branch.stream.lower(), branch.aggregating.aggregation)
        for name in map(str.lower, shape.relations):
            self.is_read_anew |= name not in self.reads
            self.reads.setdefault(name, {})[shape] = None

    def _end_reading(self, shape: Shape) -> None:
        """The family of a shape has no queries any more, or no bodies."""
        key = shape.stream.lower()
        if shape in self.families or shape in self._bodies.get(key, {}):
            return
        for name in map(str.lower, shape.relations):
            self.reads[name].pop(shape, None)
            if not self.reads[name]:
                del self.reads[name]
                self.is_read_anew = True
        for branch in shape.all_branches:
            key = branch.stream.lower()
            if not any(known.get(key) for known in (self.shapes_of, self._bodies, self._branches)):
                self._signatures.pop(key, None)
                self._aggregations.pop(key, None)

    def add_body(
        self, shape: Shape, body_id: int, constants: Sequence[object], first_version: int, version: int
    ) -> None:
        """Let the body of a view run, which sees rows from `first_version` on."""
        families = self._bodies.setdefault(shape.stream.lower(), {})
        if shape not in families:
            families[shape] = QueryFamily(shape)
            self._begin_reading(shape)
        self._body_versions[body_id] = first_version
        families[shape].add(body_id, constants)
        self._note(shape, [body_id], version)

    def remove_body(self, shape: Shape, body_id: int, version: int) -> None:
        """End the body of a view."""
        key = shape.stream.lower()
        families = self._bodies[key]
        families[shape].remove([body_id])
        self._body_versions.pop(body_id, None)
        self._note(shape, [body_id], version)
        if not len(families[shape]):
            del families[shape]
            if not families:
                del self._bodies[key]
            self._end_reading(shape)

    def touch(self, shape: Shape, ids: Sequence[int] | npt.NDArray[np.int32], version: int) -> None:
        """The plan of the shape's stream is no longer current, because of these queries; a family without queries goes."""
        self._note(shape, ids, version)
        for branch in shape.branches:
            self._note(branch, self._ids_in(branch, ids), version)
            self._forget_dropped(branch, self.families[shape])
        if not len(self.families[shape]):
            del self.families[shape]
            self.shapes_of[shape.stream.lower()].pop(shape, None)
            for branch in shape.branches:
                del self._branches[branch.stream.lower()][branch]
                self._branch_ids.pop(branch, None)
            self._end_reading(shape)

    def _note(self, shape: Shape, ids: Sequence[int] | npt.NDArray[np.int32], version: int) -> None:
        key = shape.stream.lower()
        self._plans.pop(key, None)
        changes = self._changes.get(key)
        if changes is None:
            self._changes[key] = PlanChanges(version)
        else:
            if len(changes) >= CHANGES_KEPT:
                changes = self._changes[key] = changes.newest(CHANGES_KEPT // 2)
            changes.note(version, shape, np.asarray(ids, np.int32))

    def note_unplanned(self, shape: Shape, ids: Sequence[int], version: int) -> None:
        """Queries changed without being active before or after, so that no plan is another."""
        if len(self._unplanned) >= CHANGES_KEPT:
            self._unplanned = PlanChanges(version)
        else:
            self._unplanned.note(version, shape, np.asarray(ids, np.int32))

    def changed_between(self, after: int, until: int) -> npt.NDArray[np.int32] | None:
        """Queries that came, went or changed in versions later than `after`, up to `until`; None if that is no longer known."""
        found = [np.empty(0, np.int32)]
        for changes in (self._unplanned, *self._changes.values()):
            between = changes.between(after, until)
            if between is None:
                return None
            found += between.values()
        ids = ascending(np.concatenate(found))
        return ids[ids < FIRST_BODY]
