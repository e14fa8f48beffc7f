"""Rounds whose rows are read and filtered in tasks, wherever these run.

  0 skip      as in rounds.py
  1 plan      the same, and the plan's files are written if it is a new version; references become tasks, by bytes
  3 work      tasks read, filter and write; no lock is held meanwhile, so rounds of other streams go on
  4 commit    the round gets its number and its arrival numbers; what the tasks wrote is listed; rows that joins want, which tasks
              have found, are joined here (join_tasks.py)

What tasks wrote for a round that does not commit is removed, or, after a crash, cleared at the next opening.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.catalog import ListedFile, ReadInput
from eddyline.engine.dataflow import Arrivals
from eddyline.engine.durable import Durable
from eddyline.engine.event_time import LaneTimes, advanced
from eddyline.engine.join_groups import groups_of
from eddyline.engine.join_replica import ProbeTask, n_shares
from eddyline.engine.join_tasks import InputFilters, JoinedInputs, TaskRows, shared_rows
from eddyline.engine.letters import misfit_letters
from eddyline.engine.plan_files import Generations, PlanFiles
from eddyline.engine.replica_plans import ReplicaPlans
from eddyline.engine.round_output import RoundOutput
from eddyline.engine.round_work import Outcome, Planned, Work
from eddyline.engine.rounds import RoundEngine
from eddyline.engine.task_size import TaskSize
from eddyline.engine.tasks import Task, TaskResult, by_bytes
from eddyline.engine.view_rows import arrived_view_rows
from eddyline.engine.view_tasks import shared_view_rows
from eddyline.errors import EddylineError, HomeError, IndexBuildError, RoundOvertakenError
from eddyline.events import RoundMeasured
from eddyline.functions import UserFunction
from eddyline.model import Round, Stream
from eddyline.operators import OperatorInput
from eddyline.sources import PlannedInput, Reference, SchemaChange, reference_to
from eddyline.storage import OUTBOX, StoredFile, StoredPart

TASK_BYTES = 8 << 20
MOST_TASKS = 256
JOIN_FROM_ROWS = 50_000  # fewer are joined sooner than a job is started

RunTasks = Callable[[Sequence[Task | ProbeTask]], Sequence[TaskResult]]


class ReferenceRefused(Exception):
    """A reference could not be read; nothing has happened. With a `change`, it can be once the catalog has followed that."""

    def __init__(
        self, stream: str, reference: Reference, why: str, change: SchemaChange | None = None
    ) -> None:
        super().__init__(why)
        self.stream = stream
        self.reference = reference
        self.why = why
        self.change = change


class RowsNumbered(Exception):
    """Rows bring their own arrival numbers, so they have to pass through the driver; nothing has happened."""


@dataclass(slots=True)
class _Share:
    """The part of one stream in a round."""

    name: str
    planned: PlannedInput
    tasks: list[Task]
    results: Sequence[TaskResult] = ()
    joins: JoinedInputs | None = None

    @property
    def n_rows(self) -> int:
        return sum(result.n_rows for result in self.results)

    def check(self) -> None:
        for task, result in zip(self.tasks, self.results, strict=True):
            _check_index(result)
            if result.refused is not None:
                reference = task.references[result.refused.place]
                raise ReferenceRefused(self.name, reference, result.refused.why, result.refused.change)
            if result.is_numbered:
                raise RowsNumbered(self.name)

    def position(self) -> object:
        return self.planned.position([count for result in self.results for count in result.counts])

    def input_files(self, round_: Round, first: int) -> list[ListedFile]:
        """Files that became the round's own, each with the arrival number of its first row."""
        counts = [count.n_rows for result in self.results for count in result.counts]
        assert len(self.planned.files) in (0, len(counts)), (
            f"{self.planned.files} of {len(counts)} references"
        )
        return [
            ListedFile(file.name, kind, round_.number, file.nbytes, file.checksum, at)
            for (kind, file), at in zip(
                self.planned.files, itertools.accumulate(counts, initial=first), strict=False
            )
        ]

    def inputs(self, first: int) -> list[ReadInput]:
        """What was read by reference, each with the arrival number of its first row."""
        references = [reference for task in self.tasks for reference in task.references]
        counts = [count.n_rows for result in self.results for count in result.counts]
        return [
            ReadInput(at, n, self.name, reference_to(reference))
            for reference, n, at in zip(
                references, counts, itertools.accumulate(counts, initial=first), strict=False
            )
            if n
        ]


class SharedWork:
    """What the tasks of a round came to, by stream, before it has a number."""

    def __init__(self, durable: Durable, shares: Sequence[_Share], *, planned_at: float) -> None:
        self._durable = durable
        self._shares = shares
        self._planned_at = planned_at
        self.worked_at = planned_at
        self.joined: Sequence[TaskResult] = ()  # what tasks that join came to

    def n_rows(self) -> dict[str, int]:
        return {share.name: share.n_rows for share in self._shares}

    def numbered(
        self,
        round_: Round,
        planned: Planned,
        find_name: Callable[[int], str | None],
        watch: Callable[[str, int], int],
        most_letters: int,
    ) -> Work:
        """The work of this round: arrival numbers follow the order of streams, references and rows."""
        work = Work(round_.n_rows, RoundOutput(most_letters))
        first = round_.first_arrival
        for share in self._shares:
            stream = planned.streams[share.name]
            times = LaneTimes()
            work.files += share.input_files(round_, first)
            work.inputs += share.inputs(first)
            for result in share.results:
                self._add(work, round_, result, first)
                times.merge(result.times)
                first += result.n_rows
            n_late = sum(result.n_late for result in share.results)
            work.times[share.name] = times
            work.progress[share.name] = advanced(
                planned.progress[share.name],
                stream,
                share.n_rows,
                n_late,
                times,
                share.planned.lanes,
                now_us=round_.now_us,
                watched_us=watch(share.name, round_.now_us),
            )
            letters = misfit_letters(round_.number, stream.name, share.planned.misfits)
            if letters:
                work.output.add_letters(letters)
                work.files += self._durable.write_letters(round_, letters)
            recent = share.results[-1].recent if share.results else None
            if recent is not None:
                work.recent[share.name] = _recent_rows(stream, recent, first)
            work.output.events += [
                replace(event, round_number=round_.number) for event in share.planned.events
            ]
            work.ignored[share.name] = {
                name: why for result in share.results for name, why in result.ignored.items()
            }
        work.last_arrival = first - 1 if first > round_.first_arrival else 0
        results = [result for share in self._shares for result in share.results]
        work.output.name_letters(find_name)
        work.n_tasks = len(results)
        work.planned_at, work.worked_at = self._planned_at, self.worked_at
        longest = max((result.seconds for result in results), default=0.0)
        work.waiting_s = max(0.0, self.worked_at - self._planned_at - longest)
        return work

    def _add(self, work: Work, round_: Round, result: TaskResult, first: int) -> None:
        matches: list[StoredPart] = list(work.matches)  # type: ignore[arg-type]
        for kind, file in result.files:
            listed = ListedFile(file.name, kind, round_.number, file.nbytes, file.checksum, first)
            work.files.append(listed)
            if kind == OUTBOX:
                matches += self._durable.new_parts(listed)
        work.matches = matches
        work.n_late += result.n_late
        work.output.merge(result.output, round_, first)

    @property
    def n_wanted(self) -> int:
        """How many rows joins want."""
        return sum(result.n_wanted for share in self._shares for result in share.results)

    @property
    def streams(self) -> list[str]:
        return [share.name for share in self._shares]

    def handed_on(
        self, round_: Round, planned: Planned
    ) -> tuple[dict[str, tuple[TaskRows, ...]], dict[str, int], dict[str, tuple[tuple[str, int], ...]]]:
        """By stream: what each task handed on, the arrival number behind its rows, and the inputs that want some."""
        tasks: dict[str, list[TaskRows]] = {}
        ends: dict[str, int] = {}
        first = round_.first_arrival
        for share in self._shares:
            at = planned.progress[share.name]
            n_before = at.n_rows - at.n_late
            for result in share.results:
                if share.joins is not None:
                    rows = TaskRows(result.wanted, first, n_before, result.n_counted)
                    tasks.setdefault(share.name, []).append(rows)
                first += result.n_rows
                n_before += result.n_counted
            ends[share.name] = first
        inputs = {
            share.name: tuple(who for who, _ in share.joins.inputs) for share in self._shares if share.joins
        }
        return {name: tuple(rows) for name, rows in tasks.items()}, ends, inputs

    def arrivals(self, round_: Round, planned: Planned) -> Arrivals:
        """The rows that joins want."""
        assert planned.flow is not None
        handed_on = self.handed_on(round_, planned)
        found = shared_rows(self._durable.store, *handed_on, planned.flow.joins.schemas)
        found.batches = shared_view_rows(self._durable.store, self._view_files(round_))
        for name, batch in found.batches.items():
            if name in planned.flow.joins.inputs:
                view = planned.flow.views.by_name[name]
                found.rows[name] = arrived_view_rows(view, batch, self._durable.time_zone)
        return found

    def _view_files(self, round_: Round) -> Iterator[tuple[StoredFile, int]]:
        """What tasks found of views, each with the arrival number of the task's first row."""
        first = round_.first_arrival
        for share in self._shares:
            for result in share.results:
                if result.view_rows is not None:
                    yield result.view_rows, first
                first += result.n_rows

    def add_joined(self, work: Work, round_: Round, find_name: Callable[[int], str | None]) -> None:
        """Take in what tasks that join came to: the rows they made follow each other."""
        for result in self.joined:
            self._add(work, round_, result, round_.first_derived + work.output.n_derived)
            work.n_tasks += 1
        work.output.name_letters(find_name)

    def forget_wanted(self) -> None:
        """Remove the files of rows that were handed on: what joins keep of them is in files of their own."""
        results = [result for share in self._shares for result in share.results]
        files = [file for result in results for file in (result.wanted, result.view_rows)]
        self._durable.store.remove(file.name for file in files if file is not None)

    def measured(self, round_number: int, began: float, ended: float) -> RoundMeasured:
        """What the round took."""
        results = [result for share in self._shares for result in share.results]
        return RoundMeasured(
            round_number,
            n_tasks=len(results),
            nbytes=sum(result.nbytes for result in results),
            cpu_seconds=sum(result.cpu_seconds for result in results),
            longest_task_s=max((result.seconds for result in results), default=0.0),
            plan_s=self._planned_at - began,
            work_s=self.worked_at - self._planned_at,
            commit_s=ended - self.worked_at,
        )

    def discard(self) -> None:
        """Remove what the tasks wrote, unless it was committed after all."""
        results = [*(result for share in self._shares for result in share.results), *self.joined]
        names = [file.name for result in results for _, file in result.files]
        self._durable.remove_unlisted(names)
        self.forget_wanted()


class SharedRounds:
    """Runs rounds over references: `run` takes tasks somewhere and brings back what came of them, in the same order."""

    def __init__(
        self,
        rounds: RoundEngine,
        run: RunTasks,
        pack: Callable[[Sequence[UserFunction]], bytes],
        *,
        task_bytes: int = TASK_BYTES,
        most_tasks: int = MOST_TASKS,
        join_from_rows: int = JOIN_FROM_ROWS,
    ) -> None:
        """Rounds in which joins want fewer rows than `join_from_rows` are joined in this process."""
        if rounds.durable is None:
            raise HomeError(
                "an engine in memory cannot share its rounds with workers",
                detail="They read plans from a folder and write results to it.",
                hint='Open it with a home: eddyline.open("folder/").',
            )
        self._rounds = rounds
        self._durable = rounds.durable
        self._run = run
        self._pack = pack
        self._task_bytes = task_bytes
        self._most_tasks = most_tasks
        self._plans: dict[str, PlanFiles] = {}
        self._sizes: dict[str, TaskSize] = {}  # by stream
        self._join_from_rows = join_from_rows
        self._replicas = ReplicaPlans(rounds, pack)
        self._turns: dict[str, threading.Lock] = {}  # by group of streams

    def run_round(
        self,
        inputs: Mapping[str, PlannedInput],
        *,
        position_of: Callable[[str, object], object] = lambda name, position: position,
        token: str | None = None,
        now_us: int | None = None,
    ) -> Outcome:
        """One round over what sources offer. `position_of` says what is committed for a stream, given where its source stands.

        Raises ReferenceRefused or RowsNumbered; then nothing has happened.
        """
        while True:
            try:
                with self._rounds.working_on(inputs), self._group_turn(inputs):
                    outcome = self._try(inputs, position_of, token, now_us)
            except (
                RoundOvertakenError
            ):  # a round of the same stream came between: what is late may have changed
                continue
            except IndexBuildError as error:
                try:
                    self._rounds.suspend_faulty(error)
                except BaseException:
                    self._remove_input(inputs)
                    raise
                continue
            except BaseException:
                self._remove_input(inputs)
                raise
            if outcome.is_repeat:
                self._remove_input(inputs)
            return outcome

    @contextlib.contextmanager
    def _group_turn(self, inputs: Iterable[str]) -> Iterator[None]:
        """Rounds of streams that are joined with each other take turns, from plan to commit; others go side by side."""
        with self._rounds.lock:
            catalog = self._rounds.catalog
            groups = groups_of(catalog.plans.signatures(), catalog.views.base_streams)
            mine = {name.lower() for name in inputs}
            joined = sorted("\n".join(sorted(group)) for group in groups if group & mine)
            locks = [self._turns.setdefault(name, threading.Lock()) for name in joined]
        with contextlib.ExitStack() as held:
            for lock in locks:
                held.enter_context(lock)
            yield

    def _remove_input(self, inputs: Mapping[str, PlannedInput]) -> None:
        """Remove files that would have become the round's own, unless it was committed after all."""
        names = [file.name for offered in inputs.values() for _, file in offered.files]
        with (
            self._rounds.lock,
            contextlib.suppress(EddylineError),
        ):  # the round's own error is the one to tell
            if not self._rounds.is_closed:
                self._durable.remove_unlisted(names)

    def _try(
        self,
        inputs: Mapping[str, PlannedInput],
        position_of: Callable[[str, object], object],
        token: str | None,
        now_us: int | None,
    ) -> Outcome:
        rounds, began = self._rounds, time.perf_counter()
        with rounds.round_lock:
            with rounds.lock:
                rounds.check_open()
                rounds.at_step("0 skip")
                known = None if token is None else rounds.by_token(token)
                if known is not None:
                    return replace(known, is_repeat=True)
                rounds.memory.check(0)  # the rows are elsewhere
                rounds.at_step("1 plan")
                planned = rounds.plan(inputs, now_us)
                keyed = [name for name, stream in planned.streams.items() if stream.is_keyed]
                assert not keyed, f"rows of {keyed} change tables, which are in the driver alone"
                generations = {name: rounds.catalog.later_generations(name) for name in inputs}
            rounds.compile_if_cold()
            shares = [self._share(planned, name, inputs[name], generations[name]) for name in inputs]
        work = SharedWork(self._durable, shares, planned_at=time.perf_counter())
        rounds.at_step("3 work")
        try:
            self._work(shares)
            work.worked_at = time.perf_counter()
            positions = {share.name: position_of(share.name, share.position()) for share in shares}
            outcome = rounds.commit_shared(
                planned, work, token=token, positions=positions, began=began, join=self._join
            )
        except BaseException:
            with rounds.lock:
                work.discard()
            raise
        with contextlib.suppress(EddylineError):  # an opening clears what is left
            work.forget_wanted()
        rounds.tell(work.measured(outcome.round.number, began, time.perf_counter()))
        return outcome

    def _share(self, planned: Planned, name: str, offered: PlannedInput, generations: Generations) -> _Share:
        """The tasks of one stream, with the round lock held."""
        rounds, stream, plan = self._rounds, planned.streams[name], planned.plans[name]
        with rounds.lock:
            sample = rounds.sample(name)
        stage = rounds.flow.filters(name)
        parts = stage.prepare(plan.with_bodies, sample, 0)
        files = self._plans.get(name)
        if files is None:
            files = self._plans[name] = PlanFiles(self._durable.store, self._pack)
        names = files.write(stream, plan, parts, generations, rounds.functions)
        self._durable.keep(name, names.names())
        joins = self._joined_inputs(planned, name, sample)
        self._durable.keep(f"{name}, joins", () if joins is None else joins.names())
        size = self._sizes.setdefault(name, TaskSize(self._task_bytes))
        groups = by_bytes(offered.references, size.nbytes, self._most_tasks)
        routing = stage.router.routing()
        tasks = [
            Task(
                store=str(self._durable.store.folder.absolute()),
                epoch=self._durable.epoch,
                plan=names,
                stream=stream.name,
                references=group,
                version=planned.version,
                now_us=planned.now_us,
                seed=planned.seed,
                watermark_us=planned.progress[name].watermark_us,
                time_zone=rounds.time_zone,
                is_last=k == len(groups) - 1,
                routing=routing,
                options=rounds.routing,
                joins=joins,
                views=None if planned.flow is None else planned.flow.task_views(name),
            )
            for k, group in enumerate(groups)
        ]
        return _Share(name, offered, tasks, joins=joins)

    def _joined_inputs(self, planned: Planned, name: str, sample: TupleBatch) -> JoinedInputs | None:
        """What joins want of a stream, None if it is in none."""
        if planned.flow is None or name not in planned.flow.joins.inputs:
            return None
        flow, stream = self._rounds.flow, planned.streams[name]
        columns: set[str] = set()
        inputs: list[tuple[OperatorInput, InputFilters | None]] = []
        for each in planned.flow.joins.signatures:
            for place in each.signature.places(name):
                columns |= each.stored_columns(place)
                found, filters = flow.input_plan(planned.flow, each.name, place), None
                if found is not None:
                    plan, stage = found
                    parts = stage.prepare(plan.with_bodies, sample, 0)
                    files = self._plans.get(plan.stream)
                    if files is None:
                        files = self._plans[plan.stream] = PlanFiles(self._durable.store, self._pack)
                    nothing = np.empty(0, np.int32)
                    names = files.write(stream, plan, parts, (nothing, nothing), self._rounds.functions)
                    filters = InputFilters(names, stage.router.routing())
                inputs.append(((each.name, place), filters))
        ordered = tuple(field for field in stream.schema.names if field in columns)
        return JoinedInputs(ordered, tuple(inputs))

    def _join(self, round_: Round, planned: Planned, work: SharedWork) -> frozenset[str]:
        """Let workers join the rows of a round, if these are many; gives the signatures they have joined.

        The caller holds the round lock.
        """
        if work.n_wanted < self._join_from_rows:
            return frozenset()
        plan, names = self._replicas.plan(planned, work.streams)
        if not names:
            return names
        assert planned.flow is not None
        flow, durable = self._rounds.flow, self._durable
        rows, ends, inputs = work.handed_on(round_, planned)
        tables: dict[str, list[StoredFile]] = {}
        for name, file in flow.tables.files():
            tables.setdefault(name, []).append(_stored(file))
        routing = {name: flow.filters(name.lower()).router.routing() for name in names}
        n_tasks = n_shares(work.n_wanted, self._join_from_rows // 2, self._most_tasks)
        work.joined = self._run(
            [
                ProbeTask(
                    store=str(durable.store.folder.absolute()),
                    epoch=durable.epoch,
                    plan=plan,
                    windows=tuple((_stored(file), last) for file, last in flow.window_files()),
                    tables={name: tuple(files) for name, files in tables.items()},
                    rows=rows,
                    ends=ends,
                    inputs=inputs,
                    round=round_,
                    before=planned.flow.before,
                    time_zone=self._rounds.time_zone,
                    routing=routing,
                    options=self._rounds.routing,
                    number=number,
                    n_tasks=n_tasks,
                )
                for number in range(n_tasks)
            ]
        )
        for result in work.joined:
            _check_index(result)
        return names

    def _work(self, shares: Sequence[_Share]) -> None:
        results = self._run([task for share in shares for task in share.tasks])
        at = 0
        for share in shares:
            share.results = results[at : at + len(share.tasks)]
            at += len(share.tasks)
        for share in shares:
            share.check()
            n_read = sum(reference.nbytes for reference in share.planned.references)
            self._sizes[share.name].learn(n_read, sum(result.cpu_seconds for result in share.results))


def _check_index(result: TaskResult) -> None:
    if result.faulty is not None:
        raise result.faulty


def _stored(file: ListedFile) -> StoredFile:
    return StoredFile(file.name, file.nbytes, file.checksum)


def _recent_rows(stream: Stream, rows: pa.RecordBatch, end: int) -> TupleBatch:
    n = rows.num_rows
    return TupleBatch(
        stream.name,
        rows,
        np.arange(end - n, end, dtype=np.int64),
        np.ones(n, np.int8),
        np.zeros(n, dtype=bool),
    )
