"""Joins in workers: a worker holds what the driver holds, and joins a share of the rows of a round.

Workers reach all files of windows and tables, so nothing is exchanged between them: what a worker has not seen yet it reads
before it joins, which is what earlier rounds added, and its part of the round is some of the rows that look for partners. However
often a key is there, its rows are spread over all workers.

Files are in order of arrival, so how far a worker has come is one number for each stream. What the running round brings is built,
joined and let go of again: it comes with the files of the round once it has committed.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eddyline.engine.join_calls import JoinCalls
from eddyline.engine.join_tasks import TaskRows, shared_rows
from eddyline.engine.join_visibility import FirstVersions, visible
from eddyline.engine.plan_files import PlanNames, ReadyStage, ready_stage, worker_functions
from eddyline.engine.rule_tables import RuleTables
from eddyline.engine.tables import fitted
from eddyline.engine.window_files import stored_rows
from eddyline.expressions import Context
from eddyline.filters import FilterOutput, FilterStage
from eddyline.joins import JoinedRows, JoinPlan, JoinStage, KeyedTable, RoundProgress, Share, TableChanges
from eddyline.model import Round, Stream
from eddyline.nesting import deep_recursion
from eddyline.storage import Store, StoredFile, WindowBlock, read_table, read_windows


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """What workers do for joins, as of one version: a file, read once."""

    plan: JoinPlan
    filters: dict[str, PlanNames]  # by signature that workers join
    first_versions: dict[str, FirstVersions]
    keyed: dict[str, Stream]  # by name in lower case
    incarnations: dict[str, int]  # how often a stream of a name was dropped
    home: str  # what tells one home, and one life of it, from others


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
    standing: RoundProgress  # before the round
    time_zone: str
    number: int  # which of `n_tasks` it is
    n_tasks: int

    @property
    def stream(self) -> str:
        return ", ".join(sorted(self.rows))


@dataclass(slots=True)
class _Replica:
    """What this worker holds."""

    known: ReplicaPlan
    stage: JoinStage
    tables: dict[str, KeyedTable]
    rules: RuleTables
    ready: dict[str, ReadyStage] = field(default_factory=dict)
    calls: JoinCalls = field(default_factory=JoinCalls)
    arrived: int = 0  # up to which number windows are here
    changed: dict[str, list[StoredFile]] = field(default_factory=dict)  # which files of each table are


_replicas: dict[str, _Replica] = {}  # by home; a worker serves one, as a rule
_plans: dict[StoredFile, ReplicaPlan] = {}
PLANS_KEPT = 4


def joined_share(task: ProbeTask) -> tuple[list[tuple[FilterOutput, ReadyStage]], int]:
    """What the task's share of the rows makes, numbered from 0, for the queries of each signature; and how many rows it made."""
    store = Store(Path(task.store), task.epoch)
    replica = _replica(store, task)
    _catch_up(store, task, replica)
    rows = shared_rows(store, task.rows, task.ends, task.inputs, replica.known.plan.schemas)
    stage = replica.stage
    stage.begin(0)
    try:
        share = Share(task.number, task.n_tasks, frozenset(replica.known.filters))
        found = [
            (_filtered(replica, made, task.round), replica.ready[made.signature])
            for made in stage.push(rows.came, rows.wanted, task.standing, task.round, share)
            if isinstance(made, JoinedRows)
        ]
        return found, stage.n_derived
    finally:
        stage.rollback()
        replica.calls.forget(stage.windows.first_arrivals())


def _filtered(replica: _Replica, made: JoinedRows, round_: Round) -> FilterOutput:
    signature = replica.known.plan.by_name[made.signature].signature
    stage = replica.ready[made.signature].stage
    output = stage.push(made.batch, round_, replica.calls.known(signature, made.batch))
    replica.calls.keep(signature, made.batch, stage.call_results)
    return visible(output, made.version, replica.known.first_versions[made.signature])


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
        stage = JoinStage(Context(0, task.time_zone, worker_functions.call))
        tables: dict[str, KeyedTable] = {}
        stage.tables = tables

        def make_filters() -> FilterStage:
            return FilterStage(Context(0, task.time_zone, worker_functions.call))

        rules = RuleTables(tables, stage.evaluate, make_filters)
        stage.look_up = rules.partner
        replica = _replicas[known.home] = _Replica(known, stage, tables, rules)
    if replica.known is not known or not replica.ready:
        _adopt(replica, known, task)
    return replica


def _adopt(replica: _Replica, known: ReplicaPlan, task: ProbeTask) -> None:
    """Stand where a plan does. One older than the last only says whose filters are wanted: nothing that came since goes."""
    if known.plan.version > replica.stage.plan.version:
        for gone in replica.tables.keys() - known.keyed.keys():
            del replica.tables[gone]
            replica.changed.pop(gone, None)
        born = [
            name for name, n in known.incarnations.items() if replica.known.incarnations.get(name, 0) != n
        ]
        replica.stage.forget(born)
        for name, stream in known.keyed.items():
            table = replica.tables.get(name)
            if table is None or table.key != stream.key or name in born:
                _begin_table(replica, name, stream)
            elif table.schema != stream.schema:
                table.reshape(stream.schema)
        replica.stage.build(known.plan)
    ready = {
        name: ready_stage(Path(task.store), names, task.time_zone) for name, names in known.filters.items()
    }
    replica.rules.fit(known.plan, {name: each.standing.plan for name, each in ready.items()})
    replica.known, replica.ready = known, ready


def _catch_up(store: Store, task: ProbeTask, replica: _Replica) -> None:
    """Read what earlier rounds added."""
    for file, last in task.windows:
        if last > replica.arrived:
            for block in read_windows(store.read(file)):
                later = np.flatnonzero(block.arrival > replica.arrived)
                if len(later):
                    _take(replica.stage, block, later)
            replica.arrived = last
    for name, files in task.tables.items():
        if name in replica.known.keyed:
            _catch_up_table(store, name, files, replica)
    replica.stage.commit(task.standing, task.round)


def _catch_up_table(store: Store, name: str, files: Sequence[StoredFile], replica: _Replica) -> None:
    known = replica.changed.get(name, [])
    if known != list(files[: len(known)]):  # a file of the whole table has taken the place of some
        _begin_table(replica, name, replica.known.keyed[name])
        replica.stage.build(replica.stage.plan)  # which gives the table its keys
        replica.rules.fill()
        known = []
    table = replica.tables[name]
    for file in files[len(known) :]:
        for block in read_table(store.read(file)):
            rows = fitted(block.rows, table.schema)
            marks = block.arrival, block.time_us, block.is_delete, block.round_version
            changes = TableChanges(rows, *marks)
            replica.rules.changed(name, changes, table.apply(changes))
            replica.rules.commit()
            table.commit()
    replica.changed[name] = list(files)


def _begin_table(replica: _Replica, name: str, stream: Stream) -> None:
    replica.tables[name] = KeyedTable(stream.schema, stream.key, replica.stage.evaluate)
    replica.changed.pop(name, None)


def _take(stage: JoinStage, block: WindowBlock, rows: npt.NDArray[np.int64]) -> None:
    stage.windows.restore(block.stream, lambda bits: stored_rows(block.take(rows), bits))


def n_shares(n_rows: int, least: int, most: int) -> int:
    """Into how many tasks rows that look for partners are cut."""
    return max(1, min(most, n_rows // max(1, least)))
