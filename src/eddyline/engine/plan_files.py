"""A plan as files, so that workers map it instead of being sent it.

The plan of a stream is written once as a base; a version after it is a small overlay that names what it shares with the base
and holds the rest. The predicate index is written the same way beside it (filters/saved_index.py). None of these files is listed
in the catalog: they can be written again at any time, and an opening clears them.

A worker reads a version once and keeps it, ready to filter, until later ones come.
"""

from __future__ import annotations

import io
import operator
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog import codec
from eddyline.engine.aggregate_parts import FoldedClass, ReadyClass, ready_classes
from eddyline.expressions import Context
from eddyline.filters import FilterStage, IndexPart, read_parts, write_base, write_overlay
from eddyline.functions import FunctionRegistry, UserFunction
from eddyline.model import ExecutionChoices, PlanChanges, Segment, Shape, Stream, StreamPlan
from eddyline.nesting import deep
from eddyline.storage import INDEX, PLAN, Store, StoredFile, map_arrays, write_arrays

OVERLAY_SHARE = 1 / 4  # of the base in bytes, from which on a new base is written
STAGES_KEPT = 32  # by a worker: versions, streams, and inputs of joins

Generations = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]  # ids ascending, and the generation of each


@dataclass(frozen=True, slots=True)
class PlanNames:
    """The files of one version of the plan of a stream: all a worker gets."""

    base: StoredFile
    overlay: StoredFile
    index_base: StoredFile | None
    index_overlay: StoredFile | None

    def names(self) -> list[str]:
        files = (self.base, self.overlay, self.index_base, self.index_overlay)
        return [file.name for file in files if file is not None]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a version is, beside the segments it may share with a base."""

    stream: Stream
    plan: StreamPlan
    generations: Generations  # of queries that have another than the first
    functions: bytes | None  # as the writer packed them; None if no query calls one
    choices: ExecutionChoices  # those of the round it was written for
    classes: tuple[FoldedClass, ...] = ()  # over the stream, whose rows tasks fold


# --------------------------------------------------------------------------------------------- writing


class PlanFiles:
    """The files of one stream, written as versions come.

    `pack` makes bytes of functions, for another process; `keep` is given the files that are needed from now on.
    """

    def __init__(
        self,
        store: Store,
        pack: Callable[[Sequence[UserFunction]], bytes],
        keep: Callable[[Sequence[str]], None],
    ) -> None:
        self._store = store
        self._pack = pack
        self._keep = keep
        self._base: tuple[StreamPlan, StoredFile] | None = None
        self._index: tuple[IndexPart, int, StoredFile] | None = None  # its version, its file
        self._last: tuple[Standing, tuple[IndexPart, ...], PlanNames] | None = None

    def write(
        self,
        stream: Stream,
        plan: StreamPlan,
        parts: tuple[IndexPart, ...],
        generations: Generations,
        functions: FunctionRegistry,
        choices: ExecutionChoices,
        classes: tuple[FoldedClass, ...] = (),
    ) -> PlanNames:
        """The files of this version; those of the last time if nothing changed."""
        if self._last is not None:
            known, known_parts, names = self._last
            is_same = len(known_parts) == len(parts) and all(map(operator.is_, known_parts, parts))
            is_same = is_same and (known.choices, known.classes) == (choices, classes)
            if is_same and known.plan is plan and known.stream is stream:
                return names
        segments = plan.with_bodies.segments
        calls = sorted({call for segment in segments for call in segment.shape.functions})
        declared = [found for call in calls if (found := functions.find(*call)) is not None]
        packed = self._pack(declared) if declared else None
        standing = Standing(stream, plan, generations, packed, choices, classes)
        base, overlay = self._write_plan(standing)
        names = PlanNames(base, overlay, *self._write_index(plan, parts))
        self._last = standing, parts, names
        self._keep(names.names())
        return names

    def _write_plan(self, standing: Standing) -> tuple[StoredFile, StoredFile]:
        plan = standing.plan
        if self._base is not None:
            shared, base = self._base
            overlay = self._store.put(PLAN, lambda file: _dump(file, standing, shared))
            if overlay.nbytes <= OVERLAY_SHARE * base.nbytes:
                return base, overlay
            self._store.remove([overlay.name])
        base = self._store.put(PLAN, lambda file: _dump(file, plan, None))
        self._base = plan, base
        return base, self._store.put(PLAN, lambda file: _dump(file, standing, plan))

    def _write_index(
        self, plan: StreamPlan, parts: tuple[IndexPart, ...]
    ) -> tuple[StoredFile | None, StoredFile | None]:
        if not parts:
            return None, None
        changed = None
        if self._index is not None and self._index[0].members is parts[0].members:
            changed = plan.changes.between(self._index[1], plan.version)
        if changed is None:
            base = self._store.put(INDEX, lambda file: write_base(file, parts[0], plan.stream, plan.version))
            self._index, changed = (parts[0], plan.version, base), {}
        assert self._index is not None
        if not changed and len(parts) == 1:
            return self._index[2], None
        masked = np.concatenate([np.empty(0, np.int32), *changed.values()])
        overlay = self._store.put(
            INDEX, lambda file: write_overlay(file, masked, parts[1:], plan.stream, plan.version)
        )
        return self._index[2], overlay


class _Pickler(pickle.Pickler):
    """Leaves out what a stage derives, and names what the base has instead of writing it again."""

    def __init__(self, file: io.BytesIO, buffers: list[pickle.PickleBuffer], shared: StreamPlan | None):
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        objects = [] if shared is None else _shared_objects(shared)
        self._places = {id(each): place for place, each in enumerate(objects)}

    def persistent_id(self, obj: Any) -> int | None:
        return self._places.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Segment):
            return _segment, (obj.shape, obj.ids, obj.slots, obj.is_live, obj.queries)
        if isinstance(obj, StreamPlan):
            return _plan, (obj.stream, obj.version, obj.segments, obj.bodies, obj.branches)
        assert not isinstance(obj, PlanChanges), "a plan is written without its history"
        return NotImplemented


def _segment(
    shape: Shape,
    ids: npt.NDArray[np.int32],
    slots: tuple[pa.Array, ...],
    is_live: npt.NDArray[np.bool_],
    queries: npt.NDArray[np.int32] | None,
) -> Segment:
    """A segment of which nothing is derived yet."""
    return Segment(shape, ids, slots, is_live, queries=queries)


def _plan(
    stream: str,
    version: int,
    segments: tuple[Segment, ...],
    bodies: tuple[Segment, ...],
    branches: tuple[Segment, ...],
) -> StreamPlan:
    """A plan without its history."""
    return StreamPlan(stream, version, segments, bodies=bodies, branches=branches)


def _shared_objects(plan: StreamPlan) -> list[Any]:
    """What an overlay may name, in an order both sides find."""
    return list(_walk(plan))


def _walk(plan: StreamPlan) -> Iterator[Any]:
    for segment in plan.with_bodies.segments:
        yield segment
        yield segment.shape
        yield segment.ids
        yield from segment.slots


@deep
def _dump(file: BinaryIO, what: Any, shared: StreamPlan | None) -> None:
    """Write an object; arrays lie behind it, to be mapped."""
    head, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(head, buffers, shared).dump(what)
    arrays = {"head": np.frombuffer(head.getvalue(), np.uint8)}
    for k, buffer in enumerate(buffers):
        arrays[f"buffer{k}"] = np.frombuffer(buffer.raw(), np.uint8)
    write_arrays(file, {"n_buffers": len(buffers)}, arrays)


# --------------------------------------------------------------------------------------------- reading


class _Unpickler(pickle.Unpickler):
    def __init__(self, head: bytes, buffers: Sequence[Any], shared: StreamPlan | None) -> None:
        super().__init__(io.BytesIO(head), buffers=buffers)
        self._objects = [] if shared is None else _shared_objects(shared)

    def persistent_load(self, pid: Any) -> Any:
        return self._objects[pid]


@deep
def _load(store: Store, file: StoredFile, shared: StreamPlan | None) -> Any:
    description, arrays = map_arrays(store.read(file))
    buffers = [arrays[f"buffer{k}"] for k in range(description["n_buffers"])]
    return _Unpickler(arrays["head"].tobytes(), buffers, shared).load()


@dataclass(frozen=True, slots=True)
class ReadyStage:
    """A version of a stream, ready to filter."""

    standing: Standing
    stage: FilterStage
    classes: Mapping[str, ReadyClass]  # whose rows tasks fold, by name in lower case

    @property
    def stream(self) -> Stream:
        return self.standing.stream

    def generations_of(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        known, generations = self.standing.generations
        found = np.ones(len(ids), np.int32)
        if len(known):
            places = np.minimum(np.searchsorted(known, ids), len(known) - 1)
            here = known[places] == ids
            found[here] = generations[places[here]]
        return found


_stages: dict[PlanNames, ReadyStage] = {}  # of this process, the last used last
_bases: dict[StoredFile, StreamPlan] = {}
worker_functions = FunctionRegistry()  # of this process: whatever versions it reads, setup runs once


def ready_stage(folder: Path, names: PlanNames, time_zone: str) -> ReadyStage:
    """The version these files hold. Raises StoreError if one is gone or damaged."""
    ready = _stages.pop(names, None)
    if ready is None:
        ready = _read(Store(folder, 0), names, time_zone)
    _stages[names] = ready
    while len(_stages) > STAGES_KEPT:
        del _stages[next(iter(_stages))]
    used = {each.base for each in _stages}
    for base in [base for base in _bases if base not in used]:
        del _bases[base]
    return ready


def _read(store: Store, names: PlanNames, time_zone: str) -> ReadyStage:
    base = _bases.get(names.base)
    if base is None:
        base = _bases[names.base] = _load(store, names.base, None)
    standing: Standing = _load(store, names.overlay, base)
    if standing.functions is not None:
        worker_functions.adopt(pickle.loads(standing.functions))
    stage = FilterStage(Context(0, time_zone, worker_functions.call))
    parts: tuple[IndexPart, ...] = ()
    if names.index_base is not None:
        known: dict[str, Shape] = {
            codec.shape_to(segment.shape): segment.shape for segment in standing.plan.with_bodies.segments
        }
        overlay = None if names.index_overlay is None else store.read(names.index_overlay)

        def shape_of(stored: str) -> Shape:
            """That of the plan; the index may know one more, whose last query was dropped."""
            return known.get(stored) or codec.shape_from(stored)

        parts = read_parts(store.read(names.index_base), overlay, shape_of)
    stage.adopt(standing.plan.with_bodies, standing.choices, parts)
    return ReadyStage(standing, stage, ready_classes(standing.classes, Context(0, time_zone)))
