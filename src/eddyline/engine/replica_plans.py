"""What workers need to join, written for them: the plan of all joins, and the filters of the signatures they take on.

Which signatures these are is in view_plans.py.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.engine.join_replica import ReplicaPlan
from eddyline.engine.plan_files import PlanFiles, PlanNames
from eddyline.engine.planned_flow import PlannedFlow
from eddyline.engine.round_work import Planned
from eddyline.engine.rounds import RoundEngine
from eddyline.functions import UserFunction
from eddyline.joins import SignaturePlan
from eddyline.model import ExecutionChoices, Stream, joined_name
from eddyline.nesting import deep
from eddyline.storage import JOIN_PLAN, StoredFile


class ReplicaPlans:
    """Writes plans as versions come."""

    def __init__(self, rounds: RoundEngine, pack: Callable[[Sequence[UserFunction]], bytes]) -> None:
        self._rounds = rounds
        self._pack = pack
        self._files: dict[str, tuple[frozenset[str], PlanFiles]] = {}  # by signature, with its streams
        self._streams: dict[str, Stream] = {}  # what stands for a signature where a stream is expected
        self._last: dict[frozenset[str], tuple[tuple[Any, ...], StoredFile]] = {}  # by group of streams

    def plan(self, planned: Planned, streams: Iterable[str]) -> tuple[StoredFile, frozenset[str]]:
        """The file of the plan, and the signatures workers join when rows of these streams come.

        The caller holds the round lock.
        """
        flow, durable = planned.flow, self._rounds.durable
        assert flow is not None
        assert durable is not None
        group = frozenset(flow.with_partners(list(streams)))
        mine = [
            each
            for each in flow.joins.plan.signatures
            if flow.views.leaves_to_workers(each.signature)
            and group & {name.lower() for name in each.signature.streams}
        ]
        self._release_dropped(flow, group)
        names = {each.name: self._filters(flow, each, planned.choices) for each in mine}
        known, last = (flow.joins.plan, names, planned.choices), self._last.get(group)
        if last is None or last[0][0] is not known[0] or last[0][1:] != known[1:]:
            plan = ReplicaPlan(
                flow.joins.plan,
                names,
                self._rounds.routing,
                self._rounds.seed,
                {name: flow.joins.first_versions[name] for name in names},
                flow.tables.streams,
                flow.incarnations,
                f"{durable.store.folder.absolute()} {durable.epoch}",
                planned.choices,
            )

            @deep
            def write(file: BinaryIO) -> None:
                pickle.dump(plan, file, protocol=5)

            last = known, durable.store.put(JOIN_PLAN, write)
        for changed in [each for each in self._last if each & group and each != group]:
            del self._last[changed]  # no round of it is worked on: this one has the turn of its streams
            durable.release(_whose(changed))
        self._last[group] = last
        durable.keep(_whose(group), [last[1].name])
        return last[1], frozenset(names)

    def _release_dropped(self, flow: PlannedFlow, group: frozenset[str]) -> None:
        """Let go of what was written for signatures of a group that have no queries any more."""
        assert self._rounds.durable is not None
        for name in self._files.keys() - flow.joins.queries.keys():
            streams, _ = self._files[name]
            if streams & group:  # of others, rounds that were planned earlier may be worked on
                del self._files[name], self._streams[name]
                self._rounds.durable.release(_filters_of(name))

    def _filters(self, flow: PlannedFlow, each: SignaturePlan, choices: ExecutionChoices) -> PlanNames:
        rounds = self._rounds
        assert rounds.durable is not None
        plan = flow.joins.queries[each.name]
        sample = _no_rows(flow, each)
        filters = rounds.flow.filters.of(each.name.lower())
        parts = filters.prepare(plan.with_bodies, sample, 0, choices)
        if each.name not in self._files:
            keep = functools.partial(rounds.durable.keep, _filters_of(each.name))
            files = PlanFiles(rounds.durable.store, self._pack, keep)
            self._files[each.name] = frozenset(map(str.lower, each.signature.streams)), files
        _, files = self._files[each.name]
        with rounds.lock:
            catalog = rounds.catalog
            generations = catalog.queries.later_generations(catalog.plan(each.name), catalog.version)
        stream = self._streams.setdefault(each.name, Stream(each.name, sample.rows.schema))
        return files.write(stream, plan, parts, generations, rounds.functions, choices)


def _whose(group: frozenset[str]) -> str:
    return f"{JOIN_PLAN} of {', '.join(sorted(group))}"


def _filters_of(signature: str) -> str:
    return f"{JOIN_PLAN}, filters of {signature}"


def _no_rows(flow: PlannedFlow, each: SignaturePlan) -> TupleBatch:
    """A batch of a signature's stream, without rows."""
    fields = [pa.field("_", pa.null())]
    for place, entry in enumerate(each.signature.inputs):
        schema = flow.joins.plan.schemas[entry.stream.lower()]
        names = [*sorted(each.columns[place]), *sorted(each.marks[place])]
        for name in names:
            t = schema.field(name).type if name in schema.names else pa.int64()
            fields.append(pa.field(joined_name(place, name), t))
    rows = pa.RecordBatch.from_pylist([], schema=pa.schema(fields))
    nothing = np.empty(0, np.int64)
    return TupleBatch(each.name, rows, nothing, np.empty(0, np.int8), np.empty(0, dtype=bool))
