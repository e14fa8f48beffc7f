"""Joins in workers: a worker holds what the driver holds, and joins a share of the rows of a round.

Workers reach all files of windows and tables, so nothing is exchanged between them: what a worker has not seen yet it reads
before it joins, which is what earlier rounds added, and its part of the round is some of the rows that look for partners, which
follow each other (join_shares.py). However often a key is there, its rows are spread over all workers.

Files are in order of arrival, so how far a worker has come is one number for each stream. What the running round brings is built,
joined and let go of again: it comes with the files of the round once it has committed. Until then its rows are counted from
FIRST_ORDINAL on, and what they derive from 0.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eddyline.batch import QueryIds
from eddyline.engine.dataflow import Relation, Walk
from eddyline.engine.join_calls import JoinCalls
from eddyline.engine.join_operator import Joins
from eddyline.engine.join_shares import share_bounds
from eddyline.engine.join_tasks import TaskRows, shared_rows
from eddyline.engine.join_visibility import FirstVersions
from eddyline.engine.plan_files import PlanNames, ReadyStage, ready_stage, worker_functions
from eddyline.engine.round_output import RoundOutput
from eddyline.engine.tables import fitted
from eddyline.engine.view_rows import ViewRows
from eddyline.engine.window_files import stored_rows
from eddyline.expressions import Context
from eddyline.filters import FilterOutput, FilterStage
from eddyline.joins import JoinPlan, JoinStage, KeyedTable, TableChanges
from eddyline.model import ExecutionChoices, Round, Stream
from eddyline.nesting import deep_recursion
from eddyline.operators import Derived, DerivedNumbers, Operator, OperatorInput, RoundProgress, Share
from eddyline.routing import Routing, RoutingOptions, combined_record
from eddyline.storage import Store, StoredFile, WindowBlock, read_table, read_windows


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """What workers do for joins, as of one version: a file, read once."""

    plan: JoinPlan
    filters: dict[str, PlanNames]  # by signature that workers join
    routing: RoutingOptions  # of probe orders
    seed: int
    first_versions: dict[str, FirstVersions]
    keyed: dict[str, Stream]  # by name in lower case
    incarnations: dict[str, int]  # how often a stream of a name was dropped
    home: str  # what tells one home, and one life of it, from others
    choices: ExecutionChoices


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """A share of the rows of a round, to be joined in one place."""

    store: str
    epoch: int
    plan: StoredFile
    windows: tuple[tuple[StoredFile, int], ...]  # in order, each with its last arrival number
    tables: Mapping[str, tuple[StoredFile, ...]]  # by stream, in order
    rows: Mapping[str, tuple[TaskRows, ...]]  # what the tasks of the round found wanted, by stream
    ends: Mapping[str, int]
    inputs: Mapping[str, tuple[tuple[str, int], ...]]
    round: Round
    before: RoundProgress  # the round
    busy: frozenset[str]  # streams of which other rounds are worked on
    time_zone: str
    routing: Mapping[str, Routing]  # by signature: how expensive filters are run
    options: RoutingOptions
    expected_work: Mapping[OperatorInput, float]  # of a row that looks for partners, by its input
    number: int  # which of `n_tasks` it is
    n_tasks: int

    @property
    def stream(self) -> str:
        return ", ".join(sorted(self.rows))


class _Replica:
    """What this worker holds; a `FlowPlace` that joins a share of each round."""

    holds_state = True

    def __init__(self, known: ReplicaPlan, context: Context) -> None:
        self.known = known
        self.tables: dict[str, KeyedTable] = {}
        self.joins = Joins(
            context, self.tables, lambda: FilterStage(context), routing=known.routing, seed=known.seed
        )
        self.operators: Sequence[Operator] = (self.joins,)
        self.calls = JoinCalls()
        self.ready: dict[str, tuple[ReadyStage, FirstVersions]] = {}  # by relation, in lower case
        self.arrived = 0  # up to which number windows are here
        self.changed: dict[str, list[StoredFile]] = {}  # which files of each table are
        self.incarnations = known.incarnations  # of the streams whose rows are here

    def relation(self, name: str) -> Relation:
        ready, first = self.ready[name]
        plan = ready.standing.plan
        signature = self.known.plan.by_name[plan.stream].signature
        return Relation(plan, ready.stage, first, signature, ready.generations_of, is_for_workers=True)

    def input_filters(self, operator_input: OperatorInput) -> Relation | None:
        raise AssertionError(f"rows of {operator_input} come with what is wanted of them")

    def view_rows(self, name: str, bodies: FilterOutput, below: Derived | None) -> Iterator[ViewRows]:
        raise AssertionError(f"views over {name} are in the driver")

    def letter_queries(self, body_id: int, *, is_answer: bool) -> Sequence[int]:
        raise AssertionError(f"body {body_id} is in the driver")

    def unanswered(self, relation: str) -> QueryIds:
        return np.empty(0, np.int32)

    def uncounted(self, relation: str) -> QueryIds:
        return np.empty(0, np.int32)


_replicas: dict[str, _Replica] = {}  # by home; a worker serves one, as a rule
_plans: dict[StoredFile, ReplicaPlan] = {}
PLANS_KEPT = 4


def walk_share(task: ProbeTask, keep: Callable[[str, Relation, FilterOutput], None]) -> RoundOutput:
    """Join the task's share of the rows. What is derived is numbered from 0, and follows what tasks before this one derive."""
    store = Store(Path(task.store), task.epoch)
    replica = _replica(store, task)
    _catch_up(store, task, replica)
    arrivals = shared_rows(store, task.rows, task.ends, task.inputs, replica.known.plan.schemas)
    output, numbers = RoundOutput(), DerivedNumbers(0)
    signatures = frozenset(replica.known.filters)
    bounds = share_bounds(replica.known.plan, signatures, arrivals, task.expected_work, task.n_tasks)
    share = Share(bounds[task.number], signatures)
    for name, routing in task.routing.items():
        replica.ready[name.lower()][0].stage.follow_routing(routing, task.options)
    replica.joins.begin(replica.known.plan, numbers, replica.known.choices)
    try:
        Walk(replica, task.round, output, keep).run(arrivals, numbers, task.before, None, share)
    finally:
        replica.joins.rollback()
        replica.calls.forget(replica.joins.stage.windows.first_arrivals())
    for name, (ready, _) in replica.ready.items():
        records = ready.stage.take_walk_records()
        if records:
            output.walked[name] = combined_record(records)
    output.probes = replica.joins.stage.take_probe_counts()
    return output


def _replica(store: Store, task: ProbeTask) -> _Replica:
    """What this worker holds, under the plan of the task."""
    known = _plans.get(task.plan)
    if known is None:
        with deep_recursion():
            known = _plans[task.plan] = pickle.loads(store.read(task.plan).to_pybytes())
        while len(_plans) > PLANS_KEPT:
            del _plans[next(iter(_plans))]
    replica = _replicas.get(known.home)
    if replica is None:
        _replicas.clear()  # of a home that is no longer served
        replica = _replicas[known.home] = _Replica(known, Context(0, task.time_zone, worker_functions.call))
    if replica.known is not known or not replica.ready:
        _adopt(replica, known, task)
    return replica


def _adopt(replica: _Replica, known: ReplicaPlan, task: ProbeTask) -> None:
    """Stand where a plan does. One older than the last only says whose filters are wanted: nothing that came since goes."""
    stage = replica.joins.stage
    is_newer = known.plan.version > stage.plan.version
    if is_newer:
        for gone in replica.tables.keys() - known.keyed.keys():
            del replica.tables[gone]
            replica.changed.pop(gone, None)
        renewed = [name for name, n in known.incarnations.items() if replica.incarnations.get(name, 0) != n]
        stage.forget(renewed)
        replica.incarnations = known.incarnations
        for name, stream in known.keyed.items():
            table = replica.tables.get(name)
            if table is None or table.key != stream.key or name in renewed:
                _begin_table(replica, name, stream)
            elif table.schema != stream.schema:
                table.reshape(stream.schema)
    ready = {
        name: ready_stage(Path(task.store), names, task.time_zone) for name, names in known.filters.items()
    }
    plans = {name: each.standing.plan for name, each in ready.items()}
    if is_newer:
        replica.joins.build(known.plan, plans)
    else:
        replica.joins.rules.fit(known.plan, plans)
    replica.known = known
    replica.ready = {name.lower(): (each, known.first_versions[name]) for name, each in ready.items()}


def _catch_up(store: Store, task: ProbeTask, replica: _Replica) -> None:
    """Read what earlier rounds added."""
    for file, last in task.windows:
        if last > replica.arrived:
            for block in read_windows(store.read(file)):
                later = np.flatnonzero(block.arrival > replica.arrived)
                if len(later):
                    _take(replica.joins.stage, block, later)
            replica.arrived = last
    for name, files in task.tables.items():
        if name in replica.known.keyed:
            _catch_up_table(store, name, files, replica)
    replica.joins.stage.commit(task.before, task.round, task.busy)


def _catch_up_table(store: Store, name: str, files: Sequence[StoredFile], replica: _Replica) -> None:
    known = replica.changed.get(name, [])
    if known != list(files[: len(known)]):  # a file of the whole table has taken the place of some
        _begin_table(replica, name, replica.known.keyed[name])
        replica.joins.stage.build(replica.joins.stage.plan)  # which gives the table its keys
        replica.joins.rules.fill()
        known = []
    table = replica.tables[name]
    for file in files[len(known) :]:
        for block in read_table(store.read(file)):
            rows = fitted(block.rows, table.schema)
            marks = block.arrival, block.time_us, block.is_delete, block.round_version
            changes = TableChanges(rows, *marks)
            replica.joins.rules.changed(name, changes, table.apply(changes))
            replica.joins.rules.commit()
            table.commit()
    replica.changed[name] = list(files)


def _begin_table(replica: _Replica, name: str, stream: Stream) -> None:
    replica.tables[name] = KeyedTable(stream.schema, stream.key, replica.joins.stage.evaluate)
    replica.changed.pop(name, None)


def _take(stage: JoinStage, block: WindowBlock, rows: npt.NDArray[np.int64]) -> None:
    stage.windows.restore(block.stream, lambda bits: stored_rows(block.take(rows), bits))


def n_shares(n_rows: int, least: int, most: int) -> int:
    """Into how many tasks rows that look for partners are cut."""
    return max(1, min(most, n_rows // max(1, least)))
