"""From the queries that stand on joins to what is to be done for them: what is kept of each input, and who wants which rows.

A *local* plan is what the queries of a signature say of one input alone. Rows of its stream that nobody wants by it are neither
kept nor joined there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog import Catalog
from eddyline.joins.plan import JoinPlan, Need, SignaturePlan
from eddyline.model import (
    AGE,
    BEHIND,
    OLDER,
    Changes,
    Input,
    Join,
    Role,
    Segment,
    Shape,
    Signature,
    StreamPlan,
)

_MARKS = (BEHIND, AGE, OLDER)


def join_plan(version: int, catalog: Catalog, plans: Mapping[str, StreamPlan]) -> JoinPlan:
    """What all joins need; `plans` are those of the streams of their rows, by name."""
    signatures = [
        signature_plan(signature, plans[signature.name], catalog) for signature in catalog.signatures()
    ]
    streams = {name for each in signatures for name in each.signature.streams}
    schemas: dict[str, pa.Schema] = {name.lower(): catalog.stream(name).schema for name in streams}
    return JoinPlan(version, tuple(signatures), schemas)


def signature_plan(signature: Signature, plan: StreamPlan, catalog: Catalog) -> SignaturePlan:
    columns: list[set[str]] = [set() for _ in signature.inputs]
    marks: list[set[str]] = [set() for _ in signature.inputs]
    for joined in plan.columns:
        place, _, name = joined.partition(".")
        (marks if name in _MARKS else columns)[int(place)].add(name)
    needs: list[dict[Need, None]] = [{} for _ in signature.inputs]
    for shape, segments in plan.by_shape.items():
        since = [catalog.first_versions(each)[each.is_live] for each in segments if each.n_live]
        if since:
            first = min(int(each.min()) for each in since)
            for place, need in _needs(shape, first):
                needs[place][need] = None
    return SignaturePlan(
        signature,
        tuple(map(frozenset, columns)),
        tuple(map(frozenset, marks)),
        tuple(tuple(each) for each in needs),
    )


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


# --------------------------------------------------------------------------------------------- local plans


class LocalPlans:
    """The local plans of the inputs of all signatures, made once for each plan."""

    def __init__(self) -> None:
        self._plans: dict[tuple[str, int], tuple[StreamPlan, StreamPlan | None]] = {}
        self._shapes: dict[tuple[Shape, int], Shape] = {}

    def of(self, plan: StreamPlan, place: int) -> StreamPlan | None:
        """Who wants which rows of an input, or None: somebody wants them all."""
        known = self._plans.get((plan.stream, place))
        if known is None or known[0] is not plan:
            known = self._plans[plan.stream, place] = plan, self._plan(plan, place)
        return known[1]

    def keep(self, plans: Mapping[str, StreamPlan]) -> None:
        """Forget what no longer stands."""
        self._plans = {key: made for key, made in self._plans.items() if key[0] in plans}
        standing = {shape for plan in plans.values() for shape in plan.by_shape}
        self._shapes = {key: local for key, local in self._shapes.items() if key[0] in standing}

    def _plan(self, plan: StreamPlan, place: int) -> StreamPlan | None:
        segments = []
        for segment in plan.segments:
            if not segment.n_live:
                continue
            shape = self.shape(segment.shape, place)
            if not shape.condition.clauses:
                return None
            cache: dict[str, Any] = segment.cache.setdefault(f"local {place}", {})
            segments.append(Segment(shape, segment.ids, segment.slots, segment.is_live, cache))
        changes = _LocalChanges(plan.changes, place, self)
        return StreamPlan(f"{plan.stream}/{place}", plan.version, tuple(segments), changes)

    def shape(self, shape: Shape, place: int) -> Shape:
        """What a shape says of one input: the same object for the same shape."""
        known = self._shapes.get((shape, place))
        if known is None:
            assert shape.join is not None, shape.key
            entry = shape.inputs[place]
            known = self._shapes[shape, place] = replace(
                shape,
                key=f"{shape.key}; input {place}",
                inputs=(Input(entry.alias, entry.stream),),
                projection=(),
                condition=shape.join.local[place],
                join=None,
            )
        return known


class _LocalChanges(Changes):
    """The same changes, of the local shapes."""

    def __init__(self, changes: Changes, place: int, plans: LocalPlans) -> None:
        super().__init__(changes.since)
        self._of = changes
        self._place = place
        self._plans = plans

    def between(self, after: int, until: int) -> dict[Shape, npt.NDArray[np.int32]] | None:
        found = self._of.between(after, until)
        if found is None:
            return None
        return {self._plans.shape(shape, self._place): ids for shape, ids in found.items()}
