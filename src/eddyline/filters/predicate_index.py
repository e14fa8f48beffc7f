"""The predicate index of a stream: a few immutable parts, followed from version to version.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: adding and removing
queries while tuples flow.

The first part is the base. Queries added since are in small parts after it, the overlay; queries dropped since are masked in
the part that has them. A query that was replaced or resumed is masked where it was and added to the newest part. When the
overlay has grown, or much of the base is masked, both are built into a new base beside the running rounds; it is adopted
between two rounds, with the changes made meanwhile applied to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.batch import Positions, QueryIds
from eddyline.errors import IndexBuildError
from eddyline.events import Event, IndexBuildFailed, IndexBuilt
from eddyline.expressions import Context
from eddyline.filters.assembly import PlacedStructure
from eddyline.filters.batch_evaluation import BatchEvaluation
from eddyline.filters.boxes import is_computed
from eddyline.filters.faults import isolate_faults, unbuildable_error
from eddyline.filters.grouped_filters import grouped_filter
from eddyline.filters.index_part import FEW_ROWS, IndexPart
from eddyline.model import DEFAULT_CHOICES, Segment, Shape, StreamPlan, StructureChoices, ascending


@dataclass(slots=True)
class _Build:
    """A new part for `parts[first:until]`, made beside the rounds from the plan of one version."""

    plan: StreamPlan
    first: int
    until: int
    thread: threading.Thread | None = None
    part: IndexPart | None = None
    error: Exception | None = None
    seconds: float = 0.0


class PredicateIndex:
    """Follows the plans of a stream.

    With `columns_only` it holds only queries with computed attributes, and leaves these attributes undecided.
    """

    def __init__(self, context: Context, *, in_background: bool, columns_only: bool = False) -> None:
        self.parts: tuple[IndexPart, ...] = ()
        self.plan: StreamPlan | None = None
        self.events: list[Event] = []
        self._choices = DEFAULT_CHOICES.structures  # by which the parts are built
        self._context = context
        self._in_background = in_background
        self._columns_only = columns_only
        self._build: _Build | None = None
        self._n_sampled = 0  # rows the base was judged by

    # ----------------------------------------------------------------------------------------- follow

    def follow(
        self, plan: StreamPlan, choices: StructureChoices, evaluation: BatchEvaluation, round_number: int
    ) -> None:
        """Bring the index to the version of the plan. The rows of the round are the sample by which structures are chosen.

        By other choices than before it is built anew.

        Raises IndexBuildError with the queries at fault if that cannot be built; then the index stays at its version.
        """
        before, self._choices = self._choices, choices
        is_adopted = self._adopt(round_number)
        if plan is self.plan and not is_adopted and choices == before:
            self._reconsider(evaluation, round_number)
            return
        changed = None
        if self.plan is not None and choices == before:
            changed = plan.changes.between(self.plan.version, plan.version)
        sample = self._sample(evaluation)
        if changed is None:
            try:
                parts = self._parts_of(self._members(plan, None), sample)
            except BaseException:
                self._choices = before
                raise
            self._build = None  # what is being built belongs to another history
            self._n_sampled = len(evaluation.batch)
            self.plan, self.parts = plan, parts
            return
        parts = self._changed_parts(plan, changed, sample) if changed else self.parts
        self.plan, self.parts = plan, parts
        if changed or is_adopted:
            self._maintain(plan, sample, round_number)

    def adopt(self, plan: StreamPlan, choices: StructureChoices, parts: tuple[IndexPart, ...]) -> None:
        """Stand where the plan does, with parts that were built for it elsewhere."""
        self.plan, self.parts, self._build, self._choices = plan, parts, None, choices
        self._n_sampled = FEW_ROWS  # the builder has sampled them

    def _reconsider(self, evaluation: BatchEvaluation, round_number: int) -> None:
        """A base built before there were rows to judge by is built again when they have come."""
        if self._n_sampled < FEW_ROWS <= len(evaluation.batch) and self._build is None and self.parts:
            assert self.plan is not None
            self._n_sampled = len(evaluation.batch)
            if self.parts[0].n_built > self._choices.small_index:
                self._start(_Build(self.plan, 0, len(self.parts)), self._sample(evaluation), round_number)

    def wait(self) -> None:
        """Until nothing is being built; it is adopted by the next round."""
        if self._build is not None and self._build.thread is not None:
            self._build.thread.join()

    @property
    def is_building(self) -> bool:
        return self._build is not None

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def find(self, query_id: int) -> tuple[int, IndexPart, PlacedStructure] | None:
        """The place of a query: the number of its part, the part, and its structure there. None if it can never match."""
        for number in reversed(range(len(self.parts))):
            part = self.parts[number]
            for placed in part.structures:
                if query_id in placed.structure.live_ids():
                    return number, part, placed
        return None

    def check(self) -> None:
        for part in self.parts:
            part.check()
        live = [placed.structure.live_ids() for part in self.parts for placed in part.structures]
        ids = np.concatenate([np.empty(0, np.int32), *live])
        assert len(np.unique(ids)) == len(ids), "a query is live in two parts of the index"

    # ----------------------------------------------------------------------------------------- inside

    @property
    def _n_busy(self) -> int:
        """How many parts stay as they are, because what is being built will take their place."""
        return 0 if self._build is None else self._build.until

    def _changed_parts(
        self, plan: StreamPlan, changed: dict[Shape, QueryIds], sample: BatchEvaluation
    ) -> tuple[IndexPart, ...]:
        """The parts without what went, and one for what came, together with the newest part while that is small."""
        changed_ids = _together(changed.values())
        masked = [part.without(changed_ids) for part in self.parts]
        parts = [part for k, part in enumerate(masked) if k < self._n_busy or part.n_queries]
        n_new = sum(len(ids) for ids in changed.values())
        members: list[dict[Shape, QueryIds]] = [changed]
        while len(parts) > max(1, self._n_busy) and parts[-1].n_built + n_new <= self._choices.small_part:
            n_new += parts[-1].n_built
            members.append(_by_shape(parts.pop().members))
        return (*parts, *self._parts_of(self._members(plan, _union(members)), sample))

    def _maintain(self, plan: StreamPlan, sample: BatchEvaluation, round_number: int) -> None:
        if self._build is not None or not self.parts:
            return
        choices = self._choices
        n_base, n_all = self.parts[0].n_built, sum(part.n_built for part in self.parts)
        n_overlay = n_all - n_base
        n_live = [part.n_queries for part in self.parts]
        is_worn = (
            n_overlay > choices.overlay_share * n_base or n_base - n_live[0] > choices.masked_share * n_base
        )
        n_masked = n_overlay - sum(n_live[1:])
        is_overlay_worn = n_masked > max(choices.masked_share * n_overlay, choices.small_part)
        if n_all <= choices.small_index:
            if len(self.parts) > 1 or is_worn:
                try:
                    self.parts = self._parts_of(self._members(plan, None), sample)
                except Exception as error:  # the rounds go on with what they have
                    self._tell_failure(round_number, error)
        elif is_worn:
            self._start(_Build(plan, 0, len(self.parts)), sample, round_number)
        elif len(self.parts) > choices.most_parts or is_overlay_worn:
            self._start(_Build(plan, 1, len(self.parts)), sample, round_number)

    def _start(self, build: _Build, sample: BatchEvaluation, round_number: int) -> None:
        # what is computed on the rows belongs to this thread, so the other one gets rows of its own
        own = BatchEvaluation(sample.batch.take(np.arange(len(sample.batch))), self._context)
        wanted_ids = (
            None if build.first == 0 else _union(_by_shape(p.members) for p in self.parts[build.first :])
        )

        def work() -> None:
            began = time.perf_counter()
            try:
                build.part = self._part(self._members(build.plan, wanted_ids), own)
            except Exception as error:  # the rounds go on with what they have; the next round reports it
                build.error = error
            build.seconds = time.perf_counter() - began

        if self._in_background:
            build.thread = threading.Thread(target=work, name="eddyline-index", daemon=True)
            build.thread.start()
            self._build = build
        else:
            self._build = build
            work()
            self._adopt(round_number)

    def _adopt(self, round_number: int) -> bool:
        """Take over what was built, if it is done, without the queries that changed since its version."""
        build = self._build
        if build is None or self.plan is None or (build.thread is not None and build.thread.is_alive()):
            return False
        self._build = None
        if build.part is None:
            assert build.error is not None
            self._tell_failure(round_number, build.error)
            return False
        changed = self.plan.changes.between(build.plan.version, self.plan.version)
        if changed is None:
            return False
        try:
            part = build.part.without(_together(changed.values())) if changed else build.part
        except Exception as error:  # the rounds go on with what they have
            self._tell_failure(round_number, error)
            return False
        built = (part,) if part.n_queries else ()
        self.parts = (*self.parts[: build.first], *built, *self.parts[build.until :])
        self.events.append(IndexBuilt(round_number, self.plan.stream, part.n_built, build.seconds))
        return True

    def _tell_failure(self, round_number: int, error: Exception) -> None:
        assert self.plan is not None
        error_text = f"{type(error).__name__}: {error}"
        self.events.append(IndexBuildFailed(round_number, self.plan.stream, error_text))

    def _parts_of(
        self, members: Sequence[tuple[Segment, Positions]], sample: BatchEvaluation
    ) -> tuple[IndexPart, ...]:
        """A part of these queries; several, if they can only be built apart. Raises IndexBuildError with those at fault."""
        if not members:
            return ()
        try:
            return (self._part(members, sample),)
        except IndexBuildError:
            raise
        except Exception:
            return self._parts_apart(members, sample)

    def _parts_apart(
        self, members: Sequence[tuple[Segment, Positions]], sample: BatchEvaluation
    ) -> tuple[IndexPart, ...]:
        ends = np.cumsum([len(positions) for _, positions in members])

        def build(first: int, until: int) -> IndexPart:
            some = [
                (segment, positions[max(0, first - before) : max(0, until - before)])
                for (segment, positions), before in zip(members, [0, *ends.tolist()], strict=False)
            ]
            return self._part([each for each in some if len(each[1])], sample)

        found = isolate_faults(int(ends[-1]), build)
        if found.faults:
            ids = np.concatenate([segment.ids[positions] for segment, positions in members])
            raise unbuildable_error({int(ids[at]): error for at, error in found.faults.items()})
        return tuple(found.built_parts)

    def _part(self, members: Sequence[tuple[Segment, Positions]], sample: BatchEvaluation) -> IndexPart:
        return IndexPart.build(members, self._context, sample, self._choices, columns_only=self._columns_only)

    def _sample(self, evaluation: BatchEvaluation) -> BatchEvaluation:
        """Some rows of the batch, spread over it."""
        n, n_sampled = len(evaluation.batch), self._choices.sampled_rows
        if n <= n_sampled:
            return evaluation
        rows = np.linspace(0, n - 1, n_sampled).astype(np.int64)
        return BatchEvaluation(evaluation.batch.take(rows), evaluation.context)

    def _members(
        self, plan: StreamPlan, wanted_ids: dict[Shape, QueryIds] | None
    ) -> list[tuple[Segment, Positions]]:
        """The segments and positions of these queries in the plan now; None: of all queries."""
        found = []
        segments: Iterable[Segment] = plan.segments
        if wanted_ids is not None:
            segments = [s for shape in wanted_ids for s in plan.by_shape.get(shape, ())]
        for segment in segments:
            if self._columns_only and not self._has_computed(segment):
                continue
            if wanted_ids is None:
                positions = np.flatnonzero(segment.is_live)
            else:
                positions = positions_of(segment, wanted_ids[segment.shape])
            if len(positions):
                found.append((segment, positions))
        return found

    def _has_computed(self, segment: Segment) -> bool:
        grouped = grouped_filter(segment, self._context)
        return any(
            is_computed(atom)
            for clause in (*grouped.grouped_clauses, *grouped.bounded_clauses)
            for atom in clause.atoms
        )


def positions_of(segment: Segment, ids: QueryIds) -> Positions:
    """The positions of those of these queries that are in the segment and live."""
    places = np.searchsorted(segment.ids, ids)
    places[places == len(segment.ids)] = 0
    return places[(segment.ids[places] == ids) & segment.is_live[places]]


def _together(ids: Iterable[QueryIds]) -> QueryIds:
    return ascending(np.concatenate([np.empty(0, np.int32), *ids]))


def _by_shape(members: Iterable[tuple[Shape, QueryIds]]) -> dict[Shape, QueryIds]:
    """Ids by shape; a shape may come in several pieces."""
    found: dict[Shape, list[QueryIds]] = {}
    for shape, ids in members:
        found.setdefault(shape, []).append(ids)
    return {shape: _together(pieces) for shape, pieces in found.items()}


def _union(groups: Iterable[dict[Shape, QueryIds]]) -> dict[Shape, QueryIds]:
    return _by_shape((shape, ids) for group in groups for shape, ids in group.items())
