"""From the queries that stand on joins to what is to be done for them: what is kept of each input, and who wants which rows.

A *local* plan is what the queries of a signature say of one input alone. Rows of its stream that no query needs by it are neither
kept nor joined there. Outer joins have two more: what makes a match, and what is asked of matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog import Catalog
from eddyline.filters import is_dear, is_dear_by_calls
from eddyline.joins import JoinPlan, Need, RangeKey, SignaturePlan, range_keys
from eddyline.model import (
    AGE,
    BEHIND,
    IDENTITY,
    OLDER,
    TABLE_VIEW,
    Atom,
    AtomKind,
    Clause,
    Column,
    Condition,
    Input,
    Join,
    JoinInput,
    PlanChanges,
    Role,
    Segment,
    Shape,
    Signature,
    Stream,
    StreamPlan,
)
from eddyline.types import BINARY

WINDOW_MARKS = (BEHIND, AGE, OLDER)


def join_plan(
    version: int,
    catalog: Catalog,
    plans: Mapping[str, StreamPlan],
    same: Mapping[str, SignaturePlan],
    before: Mapping[str, SignaturePlan],
) -> JoinPlan:
    """What all joins need; `plans` are those of the streams of their rows, by name.

    `same` are known and have not changed; `before` are all that were.
    """
    signatures = [
        same.get(signature.name)
        or signature_plan(signature, plans[signature.name], catalog, before.get(signature.name))
        for signature in catalog.plans.signatures()
    ]
    streams = {name for each in signatures for name in each.signature.streams}
    schemas = {name.lower(): relation_schema(catalog.relations.get(name)) for name in streams}
    return JoinPlan(version, tuple(signatures), schemas)


def relation_schema(stream: Stream) -> pa.Schema:
    """The columns that operators get of a relation: those of a view, where its rows come from and, if it is over tables, what
    tells them apart."""
    is_kept = stream.source == TABLE_VIEW
    entry = JoinInput(stream.name, Role.VIEW if is_kept else Role.WINDOW, stream.n_components)
    lineage = [pa.field(name, pa.int64()) for name in entry.lineage_columns]
    return pa.schema([*stream.schema, *lineage, *([pa.field(IDENTITY, BINARY)] if is_kept else [])])


def signature_plan(
    signature: Signature, plan: StreamPlan, catalog: Catalog, before: SignaturePlan | None
) -> SignaturePlan:
    # columns only queries that are gone have asked for stay: indexes still look at them until they are built anew
    columns = [set(before.columns[at]) if before is not None else set() for at in range(len(signature))]
    marks = [set(before.marks[at]) if before is not None else set() for at in range(len(signature))]
    for joined in plan.columns:
        place, _, name = joined.partition(".")
        (marks if name in WINDOW_MARKS else columns)[int(place)].add(name)
    needs: list[dict[Need, None]] = [{} for _ in signature.inputs]
    for shape, segments in plan.with_bodies.by_shape.items():
        since = [catalog.queries.first_versions(each)[each.is_live] for each in segments if each.n_live]
        if since:
            first = min(int(each.min()) for each in since)
            for at, need in _needs(shape, first):
                needs[at][need] = None
    live = [shape for shape, segments in plan.with_bodies.by_shape.items() if any(s.n_live for s in segments)]
    return SignaturePlan(
        signature,
        tuple(map(frozenset, columns)),
        tuple(map(frozenset, marks)),
        tuple(tuple(each) for each in needs),
        _ranges(signature, live),
        _needs_one(signature, live),
    )


def _ranges(signature: Signature, shapes: Sequence[Shape]) -> tuple[RangeKey, ...]:
    """The comparisons of two inputs that all queries have; of an outer join other conditions make a match."""
    if signature.outer or not shapes:
        return ()
    first, *others = [shape.condition.clauses for shape in shapes]
    common = [clause for clause in first if all(clause in clauses for clauses in others)]
    return range_keys(len(signature), common)


def _needs_one(signature: Signature, shapes: Iterable[Shape]) -> bool:
    """Whether any one row of a table is enough to refute that a row of input 0 is alone: no query says more of a match than the
    key. Where a stream comes to a table, each match of LEFT JOIN is needed at the same time."""
    is_anti = signature.outer == "left anti" and signature.inputs[1].role in (Role.TABLE, Role.VIEW)
    if not is_anti and not (signature.outer and signature.is_of_tables):
        return False
    conditions = [shape.join.on for shape in shapes if shape.join is not None]
    return not any(on.clauses or on.never for on in conditions)


def _needs(shape: Shape, first_version: int) -> Iterable[tuple[int, Need]]:
    """What the queries of a shape want kept of each input."""
    join = shape.join
    assert join is not None, shape.key
    drivers = [
        at for at, entry in enumerate(join.signature.inputs) if entry.role in (Role.WINDOW, Role.CURRENT)
    ]
    for place, entry in enumerate(join.signature.inputs):
        if entry.role is Role.WINDOW:
            window = shape.inputs[place].window
            partners = [other for other in drivers if other != place]
            yield (
                place,
                Need(
                    first_version,
                    None if window is None else window.n_rows,
                    None if window is None else window.duration_us,
                    _bounds(join, place, partners),
                    tuple((at, reach) for at in partners if (reach := join.reach_us[at][place]) is not None),
                ),
            )


def _bounds(join: Join, place: int, partners: list[int]) -> tuple[tuple[int, int], ...]:
    """How far each partner reaches; nothing if one of them may come at any time."""
    reaches = [(at, join.reach_us[place][at]) for at in partners]
    found = tuple((at, reach) for at, reach in reaches if reach is not None)
    return found if len(found) == len(reaches) else ()


# --------------------------------------------------------------------------------------------- plans that follow from others

MATCH = "match"  # an outer join: what makes a row of input 1 a partner, for queries that may take the row of input 0
BOTH = "both"  # and what the query asks of the two together


def local(place: int) -> str:
    """What is said of one input alone."""
    return f"input {place}"


def cheap(place: int) -> str:
    """The same without what is expensive to ask."""
    return f"cheaply, input {place}"


class DerivedPlans:
    """Plans for the same queries with another condition, made once for each plan."""

    def __init__(self) -> None:
        self._plans: dict[tuple[str, str], tuple[StreamPlan, StreamPlan]] = {}
        self._shapes: dict[tuple[Shape, str], Shape] = {}

    def of(self, plan: StreamPlan, variant: str) -> StreamPlan:
        known = self._plans.get((plan.stream, variant))
        if known is None or known[0] is not plan:
            known = self._plans[plan.stream, variant] = plan, self._plan(plan, variant)
        return known[1]

    def wants_all(self, plan: StreamPlan, variant: str) -> bool:
        """Whether some query has nothing to say of an input alone, so that it wants all of its rows."""
        return any(
            not s.shape.condition.clauses for s in self.of(plan, variant).with_bodies.segments if s.n_live
        )

    def is_dear(self, plan: StreamPlan, place: int) -> bool:
        """Whether it is expensive to ask what is said of one input alone."""
        shapes = (s.shape for s in self.of(plan, local(place)).with_bodies.segments if s.n_live)
        return any(is_dear(clause) for shape in shapes for clause in shape.condition.clauses)

    def is_dear_by_calls(self, plan: StreamPlan, place: int) -> bool:
        """Whether all that is expensive are functions, whose results on a row are remembered."""
        shapes = (s.shape for s in self.of(plan, local(place)).with_bodies.segments if s.n_live)
        dear = (clause for shape in shapes for clause in shape.condition.clauses if is_dear(clause))
        return all(is_dear_by_calls(clause) for clause in dear)

    def keep(self, plans: Mapping[str, StreamPlan]) -> None:
        """Forget what no longer stands."""
        self._plans = {key: made for key, made in self._plans.items() if key[0] in plans}
        standing = {shape for plan in plans.values() for shape in plan.with_bodies.by_shape}
        self._shapes = {key: shape for key, shape in self._shapes.items() if key[0] in standing}

    def _plan(self, plan: StreamPlan, variant: str) -> StreamPlan:
        changes = _DerivedChanges(plan.changes, variant, self)
        segments, bodies, branches = (
            tuple(self._segment(segment, variant) for segment in each)
            for each in (plan.segments, plan.bodies, plan.branches)
        )
        return StreamPlan(f"{plan.stream}/{variant}", plan.version, segments, changes, bodies, branches)

    def _segment(self, segment: Segment, variant: str) -> Segment:
        cache: dict[str, Any] = segment.cache.setdefault(variant, {})
        shape = self.shape(segment.shape, variant)
        return Segment(shape, segment.ids, segment.slots, segment.is_live, cache, segment.queries)

    def shape(self, shape: Shape, variant: str) -> Shape:
        """The same object for the same shape."""
        known = self._shapes.get((shape, variant))
        if known is None:
            known = self._shapes[shape, variant] = _derived(shape, variant)
        return known


def _derived(shape: Shape, variant: str) -> Shape:
    join = shape.join
    assert join is not None, shape.key
    key = f"{shape.key}; {variant}"
    if variant == MATCH:
        matching = replace(join.on, clauses=(*join.on.clauses, *_plain_clauses_of_left(shape.condition)))
        return replace(shape, key=key, projection=(), condition=matching)
    if variant == BOTH:
        both = shape.condition
        condition = Condition((*join.on.clauses, *both.clauses), (*join.on.never, *both.never))
        return replace(shape, key=key, condition=condition)
    place = int(variant.removeprefix("cheaply, ").removeprefix("input "))
    condition = join.local[place]
    if variant == cheap(place):
        condition = replace(condition, clauses=tuple(c for c in condition.clauses if not is_dear(c)))
    entry = shape.inputs[place]
    inputs = (Input(entry.alias, entry.stream),)
    return replace(shape, key=key, inputs=inputs, projection=(), condition=condition, join=None)


def _plain_clauses_of_left(where: Condition) -> Iterable[Clause]:
    """What WHERE of an outer join compares of columns of input 0 alone, which is never in error.

    A query that refutes a row by it need not know whether the row has a partner.
    """
    return (clause for clause in where.clauses if all(map(_is_plain_of_left, clause.atoms)))


def _is_plain_of_left(atom: Atom) -> bool:
    is_plain = atom.kind in (AtomKind.COMPARE, AtomKind.IN, AtomKind.NULL_TEST)
    return is_plain and isinstance(atom.attribute, Column) and atom.attribute.name.startswith("0.")


class _DerivedChanges(PlanChanges):
    """The same changes, of the shapes that follow."""

    def __init__(self, changes: PlanChanges, variant: str, plans: DerivedPlans) -> None:
        super().__init__(changes.since)
        self._of = changes
        self._variant = variant
        self._plans = plans

    def between(self, after: int, until: int) -> dict[Shape, npt.NDArray[np.int32]] | None:
        found = self._of.between(after, until)
        if found is None:
            return None
        return {self._plans.shape(shape, self._variant): ids for shape, ids in found.items()}
