"""Rounds whose rows are read, filtered and joined in tasks, wherever these run.

  0 skip      as in rounds.py
  1 plan      the same, and the plan's files are written if it is a new version; references become tasks, by bytes
  3 work      tasks read, filter and write; if joins want many of the rows, more tasks join them
  4 commit    the round gets its number and its arrival numbers; what the tasks wrote is listed; what workers have not joined is
              joined here

The round has its group's turn from plan to commit (turns.py). While tasks run no lock is held, so rounds of other groups go on.

What tasks wrote for a round that does not commit is removed, or, after a crash, cleared at the next opening.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from eddyline.batch import TupleBatch
from eddyline.catalog import ListedFile
from eddyline.engine.aggregate_parts import FoldedClass, folded_classes
from eddyline.engine.aggregate_plans import NO_AGGREGATES, PlannedAggregates
from eddyline.engine.join_replica import ProbeTask, n_shares
from eddyline.engine.join_tasks import InputFilters, JoinedInputs
from eddyline.engine.plan_files import Generations, PlanFiles
from eddyline.engine.planned_flow import PlannedFlow
from eddyline.engine.replica_plans import ReplicaPlans
from eddyline.engine.round_work import Outcome, Planned
from eddyline.engine.rounds import RoundEngine
from eddyline.engine.task_outcomes import StreamTasks, TaskOutcomes
from eddyline.engine.task_size import TaskSize
from eddyline.engine.tasks import Task, TaskResult, by_bytes
from eddyline.errors import EddylineError, HomeError, IndexBuildError, RoundOvertakenError
from eddyline.functions import UserFunction
from eddyline.model import FIRST_ORDINAL, ExecutionChoices, Round
from eddyline.operators import OperatorInput
from eddyline.sources import PlannedInput
from eddyline.storage import StoredFile

RunTasks = Callable[[Sequence[Task | ProbeTask]], Sequence[TaskResult]]


class SharedRounds:
    """Runs rounds over references: `run` takes tasks somewhere and brings back what came of them, in the same order."""

    def __init__(
        self,
        rounds: RoundEngine,
        run: RunTasks,
        pack: Callable[[Sequence[UserFunction]], bytes],
        *,
        choices: ExecutionChoices | None = None,
    ) -> None:
        """With `choices`, all rounds of the engine are executed so from now on."""
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
        self._plans: dict[str, PlanFiles] = {}  # by stream
        self._input_plans: dict[str, dict[str, PlanFiles]] = {}  # what joins ask: by stream, then by plan
        self._sizes: dict[str, TaskSize] = {}  # by stream
        self._folded: tuple[PlannedAggregates, dict[str, tuple[FoldedClass, ...]]] = (NO_AGGREGATES, {})
        self._replicas = ReplicaPlans(rounds, pack)
        rounds.shares_rounds = True
        if choices is not None:
            rounds.choices = choices

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
                with self._rounds.working_on(inputs):
                    outcome = self._rounds.turns.run(
                        inputs, lambda: self._try(inputs, position_of, token, now_us), is_alone=True
                    )
            except RoundOvertakenError:  # the stream has other times now: what is late may have changed
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
                rounds.memory.check(())  # the rows are elsewhere
                rounds.at_step("1 plan")
                planned = rounds.plan(inputs, now_us)
                keyed = [name for name, stream in planned.streams.items() if stream.is_keyed]
                assert not keyed, f"rows of {keyed} change tables, which are in the driver alone"
                queries, version = rounds.catalog.queries, planned.version
                generations = {
                    name: queries.later_generations(planned.plans[name], version) for name in inputs
                }
            rounds.compile_if_cold()
            shares = [self._share(planned, name, inputs[name], generations[name]) for name in inputs]
        work = TaskOutcomes(self._durable, shares, planned_at=time.perf_counter())
        rounds.at_step("3 work")
        try:
            self._work(shares, planned.choices)
            self._join(planned, work)
            work.worked_at = time.perf_counter()
            positions = {share.name: position_of(share.name, share.position()) for share in shares}
            outcome = rounds.commit_shared(planned, work, token=token, positions=positions, began=began)
        except BaseException:
            with rounds.lock:
                if not rounds.is_closed:  # else the next opening clears what is left
                    work.discard()
            raise
        with contextlib.suppress(EddylineError):  # an opening clears what is left
            work.forget_wanted()
        rounds.tell(work.measured(outcome.round.number, began, time.perf_counter()))
        return outcome

    def _share(
        self, planned: Planned, name: str, offered: PlannedInput, generations: Generations
    ) -> StreamTasks:
        """The tasks of one stream, with the round lock held."""
        rounds, stream, plan = self._rounds, planned.streams[name], planned.plans[name]
        with rounds.lock:
            sample = rounds.sample(name, planned.choices.structures.sampled_rows)
        stage = rounds.flow.filters.of(name)
        parts = stage.prepare(plan.with_bodies, sample, 0, planned.choices)
        if name not in self._plans:
            self._plans[name] = self._plan_files(name)
        flow = planned.flow
        classes = () if flow is None else self._folded_classes(flow).get(name, ())
        names = self._plans[name].write(
            stream, plan, parts, generations, rounds.functions, planned.choices, classes
        )
        joins = self._joined_inputs(planned, name, sample)
        size = self._sizes.setdefault(name, TaskSize())
        groups = by_bytes(offered.references, size.nbytes(planned.choices), planned.choices.most_tasks)
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
                views=None if flow is None else flow.task_views(name, {each.view.name for each in classes}),
            )
            for k, group in enumerate(groups)
        ]
        return StreamTasks(name, offered, tasks, joins=joins)

    def _folded_classes(self, flow: PlannedFlow) -> dict[str, tuple[FoldedClass, ...]]:
        """The classes whose rows tasks fold, by stream: the same objects until a version has other aggregates."""
        if self._folded[0] is not flow.aggregates:
            self._folded = flow.aggregates, folded_classes(flow.views, flow.aggregates)
        return self._folded[1]

    def _joined_inputs(self, planned: Planned, name: str, sample: TupleBatch) -> JoinedInputs | None:
        """What joins want of a stream, None if it is in none."""
        if planned.flow is None or name not in planned.flow.joins.plan.inputs:
            self._release_inputs(name, frozenset())
            return None
        flow, stream, choices = self._rounds.flow, planned.streams[name], planned.choices
        known = self._input_plans.setdefault(name, {})
        used: set[str] = set()
        columns: set[str] = set()
        inputs: list[tuple[OperatorInput, InputFilters | None]] = []
        for each in planned.flow.joins.plan.signatures:
            for place in each.signature.places(name):
                columns |= each.stored_columns(place)
                queries = planned.flow.joins.queries[each.name]
                asked, filters = flow.placements.asked_plan(queries, place, choices), None
                if asked is not None:
                    plan, stage = asked
                    parts = stage.prepare(plan.with_bodies, sample, 0, choices)
                    used.add(plan.stream)
                    if plan.stream not in known:
                        known[plan.stream] = self._plan_files(plan.stream)
                    none = np.empty(0, np.int32), np.empty(0, np.int32)
                    names = known[plan.stream].write(
                        stream, plan, parts, none, self._rounds.functions, choices
                    )
                    filters = InputFilters(names, stage.router.routing())
                inputs.append(((each.name, place), filters))
        self._release_inputs(name, used)
        ordered = tuple(field for field in stream.schema.names if field in columns)
        return JoinedInputs(ordered, tuple(inputs))

    def _release_inputs(self, stream: str, used: AbstractSet[str]) -> None:
        """Let go of plans by which no join asks for rows of a stream any more."""
        known = self._input_plans.get(stream, {})
        for plan in known.keys() - used:
            del known[plan]
            self._durable.release(plan)

    def _plan_files(self, plan: str) -> PlanFiles:
        return PlanFiles(self._durable.store, self._pack, functools.partial(self._durable.keep, plan))

    def _join(self, planned: Planned, work: TaskOutcomes) -> None:
        """Let workers join the rows of a round, if these are many."""
        if planned.flow is None or work.n_wanted < planned.choices.join_from_rows:
            return
        with self._pinned_files():
            with self._rounds.round_lock:
                tasks, names = self._probe_tasks(planned, work)
            if tasks:
                work.joined, work.joined_signatures = self._run(tasks), names
        for result in work.joined:
            result.check()

    @contextlib.contextmanager
    def _pinned_files(self) -> Iterator[None]:
        """Files that are listed now stay until workers have read them, whatever rounds of other groups unlist."""
        with self._rounds.lock:
            self._rounds.check_open()
            self._durable.pin()
        try:
            yield
        finally:
            with self._rounds.lock:
                self._durable.unpin()

    def _probe_tasks(self, planned: Planned, work: TaskOutcomes) -> tuple[list[ProbeTask], frozenset[str]]:
        """Tasks that join, and the signatures they do that for. The caller holds the round lock."""
        rounds, flow, durable = self._rounds, self._rounds.flow, self._durable
        assert planned.flow is not None
        plan, names = self._replicas.plan(planned, work.streams)
        if not names:
            return [], names
        wanted = work.wanted(FIRST_ORDINAL, planned)
        with rounds.lock:
            busy = flow.with_views(rounds.turns.busy())
        tables: dict[str, list[StoredFile]] = {}
        for name, file in flow.tables.files():
            tables.setdefault(name, []).append(_stored(file))
        n_tasks = n_shares(work.n_wanted, planned.choices.join_from_rows // 2, planned.choices.most_tasks)
        first = ProbeTask(
            store=str(durable.store.folder.absolute()),
            epoch=durable.epoch,
            plan=plan,
            windows=tuple((_stored(file), last) for file, last in flow.window_files()),
            tables={name: tuple(files) for name, files in tables.items()},
            rows=wanted.tasks,
            ends=wanted.ends,
            inputs=wanted.inputs,
            round=Round(
                0,
                planned.version,
                planned.now_us,
                planned.seed,
                FIRST_ORDINAL,
                work.n_rows(),
                first_derived=0,
            ),
            before=planned.flow.before,
            busy=busy,
            time_zone=rounds.time_zone,
            routing={name: flow.filters.of(name.lower()).router.routing() for name in names},
            options=rounds.routing,
            expected_work=flow.joins.stage.expected_work(),
            number=0,
            n_tasks=n_tasks,
        )
        return [replace(first, number=number) for number in range(n_tasks)], names

    def _work(self, shares: Sequence[StreamTasks], choices: ExecutionChoices) -> None:
        results = self._run([task for share in shares for task in share.tasks])
        at = 0
        for share in shares:
            share.results = results[at : at + len(share.tasks)]
            at += len(share.tasks)
        for share in shares:
            share.check()
            n_read = sum(reference.nbytes for reference in share.planned.references)
            cpu_s = sum(result.cpu_seconds for result in share.results)
            self._sizes[share.name].learn(n_read, cpu_s, choices)


def _stored(file: ListedFile) -> StoredFile:
    return StoredFile(file.name, file.nbytes, file.checksum)
