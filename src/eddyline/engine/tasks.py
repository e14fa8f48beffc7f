"""What a worker does in a round: reads its references, filters their rows, writes what came of it to the store.

A task knows the files of its plan, not the plan; it says what it wrote, not what is in it. It writes only new names, and numbers
rows from 0: which numbers they get, and whether any of it has happened, is for the commit to say. So a task may be tried again,
run twice, or outlive the process that started it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from eddyline.batch import QueryIds, TupleBatch
from eddyline.engine.aggregate_parts import PartialAggregates
from eddyline.engine.dataflow import Arrivals, Relation, Walk
from eddyline.engine.event_time import LaneTimes, event_times, late_rows
from eddyline.engine.join_calls import JoinCalls
from eddyline.engine.join_replica import ProbeTask, walk_share
from eddyline.engine.join_tasks import HandedOnRows, JoinedInputs
from eddyline.engine.letters import misfit_letters
from eddyline.engine.plan_files import PlanNames, ReadyStage, ready_stage, worker_functions
from eddyline.engine.round_output import RoundOutput
from eddyline.engine.view_rows import ViewRows, view_rows
from eddyline.engine.view_tasks import HandedOnViews, TaskViews
from eddyline.engine.written_output import WrittenOutput
from eddyline.errors import IndexBuildError, StoreError
from eddyline.filters import FilterOutput
from eddyline.model import Round
from eddyline.operators import Derived, DerivedNumbers, Operator, OperatorInput, RoundProgress, arrived_rows
from eddyline.routing import Routing, RoutingOptions, WalkRecord, combined_record
from eddyline.sources import (
    MOST_IGNORED,
    IngestedRows,
    ReadCount,
    Reference,
    SchemaChange,
    UnreadableReference,
    read,
)
from eddyline.storage import Store, StoredFile
from eddyline.types import python_rows

RECENT_ROWS = 1_000  # handed back, to be looked at and judged by
RECENT_BYTES = 1 << 20  # of the last references: enough to find them in


@dataclass(frozen=True, slots=True)
class Task:
    """Some references of one stream, to be worked on in one place."""

    store: str
    epoch: int
    plan: PlanNames
    stream: str
    references: tuple[Reference, ...]
    version: int
    now_us: int
    seed: int
    watermark_us: int | None
    time_zone: str
    is_last: bool  # of its stream: hands back its newest rows
    routing: Routing  # how expensive filters are run
    options: RoutingOptions
    joins: JoinedInputs | None = None  # what joins want of the rows
    views: TaskViews | None = None  # those that are over the stream


@dataclass(slots=True)
class Refused:
    """A reference that could not be read, or whose rows lack what a query needs, by its place among those of the task."""

    place: int
    why: str
    change: SchemaChange | None = None


@dataclass(slots=True)
class TaskResult:
    """What came of a task. With `refused`, `faulty` or `is_numbered`, nothing was written and nothing else counts."""

    output: RoundOutput = field(default_factory=RoundOutput)
    counts: list[ReadCount] = field(default_factory=list)  # by reference
    files: list[tuple[str, StoredFile]] = field(default_factory=list)  # kind, file
    times: LaneTimes = field(default_factory=LaneTimes)
    n_late: int = 0
    recent: pa.RecordBatch | None = None  # the newest rows
    refused: Refused | None = None
    faulty: IndexBuildError | None = None  # queries with which an index cannot be built here
    is_numbered: bool = False  # rows bring their own arrival numbers, which one place alone can check
    nbytes: int = 0  # of rows, as they were filtered
    ignored: dict[str, str] = field(default_factory=dict)  # columns that were not read, and why
    wanted: StoredFile | None = None  # rows for joins
    n_wanted: int = 0  # how many of them
    view_rows: StoredFile | None = None  # rows of views over the stream
    parts: StoredFile | None = None  # what rows of classes come to
    derived: StoredFile | None = (
        None  # results numbered like derived rows: those of further branches of unions
    )
    n_counted: int = 0  # rows that are not late
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def n_rows(self) -> int:
        return sum(count.n_rows for count in self.counts)

    def check(self) -> None:
        """Raise the error of an index that could not be built."""
        if self.faulty is not None:
            raise self.faulty


class _Numbered(Exception):
    """Rows bring arrival numbers of their own."""


def run_task(task: Task | ProbeTask) -> TaskResult:
    """Do the work of a task. Raises StoreError if the store cannot be read or written: then it is to be tried elsewhere."""
    try:
        return _run_probe(task) if isinstance(task, ProbeTask) else _run_filters(task)
    except IndexBuildError as error:
        if not error.whys:
            raise
        return TaskResult(faulty=error)


def _run_filters(task: Task) -> TaskResult:
    began, cpu = time.perf_counter(), time.process_time()
    ready = ready_stage(Path(task.store), task.plan, task.time_zone)
    ready.stage.follow_routing(task.routing, task.options)
    work = _Work(task, ready)
    first_recent = _first_recent(task)
    place = 0
    try:
        for place, reference in enumerate(task.references):
            work.read(reference, keeps_recent=place >= first_recent)
        work.filter()
        for place in range(len(task.references)):
            work.complete_letters(place)
        result = work.finish()
    except UnreadableReference as error:
        work.discard()
        return TaskResult(refused=Refused(place, str(error), error.change))
    except _Numbered:
        work.discard()
        return TaskResult(is_numbered=True)
    except BaseException:
        work.discard()
        raise
    result.seconds, result.cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    return result


def _run_probe(task: ProbeTask) -> TaskResult:
    """Join a share of the rows of a round."""
    began, cpu = time.perf_counter(), time.process_time()
    written = WrittenOutput(Store(Path(task.store), task.epoch), is_of_arrivals=False)
    try:
        result = TaskResult(walk_share(task, written.keep))
        result.files = written.finish(result.output)
    except BaseException:
        written.discard()
        raise
    result.output.functions = [worker_functions.drain()]
    result.seconds, result.cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    return result


def _first_recent(task: Task) -> int:
    """The first of the references whose rows are kept to look back on: the last ones of the last task."""
    place, nbytes = len(task.references), 0
    while task.is_last and place > 0 and nbytes < RECENT_BYTES:
        place -= 1
        nbytes += task.references[place].nbytes
    return place


@dataclass(slots=True)
class _Part:
    """Where the rows of a reference stand among those of its task."""

    reference: Reference
    first_row: int
    end_row: int
    is_cut: bool  # read without the columns no query needs
    unfit: list[int]  # places of its letters of rows that do not fit


class _TaskFlow:
    """The dataflow of a task: the filters of one stream, and what hands on rows, or what they come to."""

    holds_state = False

    def __init__(self, task: Task, ready: ReadyStage) -> None:
        self.calls = JoinCalls()
        self._time_zone = task.time_zone
        self._classes = ready.classes
        self._classes_by_body = {each.view.feeds[0].body_id: each.view for each in ready.classes.values()}
        self.aggregates = PartialAggregates(ready.classes)
        self._stream = Relation(ready.standing.plan, ready.stage, generations_of=ready.generations_of)
        self._inputs: dict[OperatorInput, Relation | None] = {}
        self.handed_on: HandedOnRows | None = None
        self.operators: Sequence[Operator] = (self.aggregates,)
        self.views = None if task.views is None else HandedOnViews(task.views)
        if task.joins is not None:
            self.handed_on = HandedOnRows(ready.stream.name, task.joins)
            self.operators = (self.handed_on, self.aggregates)
            for who, filters in task.joins.inputs:
                self._inputs[who] = None
                if filters is not None:
                    found = ready_stage(Path(task.store), filters.plan, task.time_zone)
                    found.stage.follow_routing(filters.routing, task.options)
                    self._inputs[who] = Relation(found.standing.plan, found.stage)

    @property
    def columns(self) -> frozenset[str]:
        """Columns that some query, or the joins, need."""
        plans = [self._stream.plan, *(each.plan for each in self._inputs.values() if each is not None)]
        handed_on = frozenset() if self.handed_on is None else self.handed_on.columns
        return handed_on.union(*(plan.columns for plan in plans))

    def relation(self, name: str) -> Relation:
        return self._classes[name].relation if name in self._classes else self._stream

    def input_filters(self, operator_input: OperatorInput) -> Relation | None:
        return self._inputs[operator_input]

    def view_rows(self, name: str, bodies: FilterOutput, below: Derived | None) -> Iterator[ViewRows]:
        assert self.views is not None, f"bodies of views over {name}"
        self.views.take(bodies)
        return view_rows(bodies, self._classes_by_body, lambda _: True, {}, self._time_zone, below)

    def letter_queries(self, body_id: int, *, is_answer: bool) -> Sequence[int]:
        return () if self.views is None else self.views.views.letter_queries.get(body_id, ())

    def unanswered(self, relation: str) -> QueryIds:
        return np.empty(0, np.int32)

    def uncounted(self, relation: str) -> QueryIds:
        return np.empty(0, np.int32)

    def walk_records(self) -> Iterator[tuple[str, WalkRecord]]:
        """What was observed of expensive filters, by relation."""
        for relation in (self._stream, *self._inputs.values()):
            records = [] if relation is None else relation.filters.take_walk_records()
            if relation is not None and records:
                yield relation.plan.stream.lower(), combined_record(records)


class _Work:
    """A task while it runs.

    Rows of small references are filtered together: what a batch costs besides its rows, in the filters and as parts of the
    outbox, is paid once. Only columns that some query needs are read, where a file lets one choose. Rows to look back on are read
    whole from the start, dead letters are completed afterwards: both may be asked about any column.
    """

    def __init__(self, task: Task, ready: ReadyStage) -> None:
        self._task = task
        self._ready = ready
        self._store = Store(Path(task.store), task.epoch)
        self._written = WrittenOutput(self._store, is_of_arrivals=True)
        self._flow = _TaskFlow(task, ready)
        self._result = TaskResult()
        self._parts: list[_Part] = []
        self._waiting: list[pa.RecordBatch] = []
        self._lanes: list[tuple[str, int]] = []  # of the rows that wait, and how many of each
        self._n_waiting = 0
        self._n_rows = 0  # filtered
        self._recent: list[pa.RecordBatch] = []
        self._round = Round(0, task.version, task.now_us, task.seed, 0, {})
        self._rows_at_once = ready.stage.rows_at_once()
        time_column = ready.stream.time
        self._needed = self._flow.columns | ({time_column} if time_column else set())

    def read(self, reference: Reference, *, keeps_recent: bool) -> None:
        n_units = 0
        first = self._n_rows + self._n_waiting
        part = _Part(reference, first, first, False, [])
        # what has dead letters is likely to have more
        needed = None if keeps_recent or self._result.output.letters else self._needed
        for ingested in read(reference, self._ready.stream, self._task.time_zone, needed):
            if ingested.arrival is not None and len(ingested.arrival):
                raise _Numbered
            lacking = ingested.change.change_for(self._ready.standing.plan)
            if lacking is not None and ingested.rows.num_rows:
                raise UnreadableReference("; ".join(lacking.missing.values()), lacking)
            part.unfit += self._add(ingested, reference.lane, keeps_recent=keeps_recent)
            part.end_row += ingested.rows.num_rows
            part.is_cut = part.is_cut or bool(ingested.left_out)
            n_units += ingested.rows.num_rows + len(ingested.misfits)
        self._parts.append(part)
        self._result.counts.append(ReadCount(part.end_row - first, n_units=n_units))

    def _add(self, ingested: IngestedRows, lane: str, *, keeps_recent: bool) -> list[int]:
        """Take rows to be filtered; gives the places of the letters of those that do not fit."""
        result, rows, stream = self._result, ingested.rows, self._ready.stream
        if len(result.ignored) < MOST_IGNORED:
            result.ignored.update(ingested.change.ignored)
        output = result.output
        first_letter = output.n_older_letters + len(output.letters)
        output.add_letters(misfit_letters(0, stream.name, ingested.misfits))
        unfit = list(range(first_letter, first_letter + len(ingested.misfits)))
        result.nbytes += sum(
            column.nbytes
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
            if name not in ingested.left_out
        )
        if keeps_recent:
            self._keep_recent(rows)
        for piece in _pieces(rows, self._rows_at_once):
            if self._n_waiting + piece.num_rows > self._rows_at_once:
                self.filter()
            self._waiting.append(piece)
            self._lanes.append((lane, piece.num_rows))
            self._n_waiting += piece.num_rows
        return unfit

    def filter(self) -> None:
        """Filter the rows that wait, as one batch."""
        if not self._n_waiting:
            return
        rows = self._waiting[0] if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
        lanes, self._waiting, self._lanes, self._n_waiting = self._lanes, [], [], 0
        task, result, stream = self._task, self._result, self._ready.stream
        times = event_times(stream, rows, task.time_zone)
        is_late = late_rows(times, task.watermark_us, rows.num_rows)
        first, n = self._n_rows, rows.num_rows
        arrival = np.arange(first, first + n, dtype=np.int64)
        batch = TupleBatch(stream.name, rows, arrival, np.ones(n, np.int8), is_late)
        arrivals = Arrivals({stream.name.lower(): batch})
        if task.joins is not None:
            arrivals.rows[stream.name.lower()] = arrived_rows(batch, times, result.n_counted)
        walk = Walk(self._flow, self._round, result.output, self._written.keep)
        walk.run(arrivals, DerivedNumbers(result.output.n_derived), RoundProgress({}, {}), None)
        self._flow.calls.forget({})
        result.n_counted += n - int(np.count_nonzero(is_late))
        result.times.add(times, lanes)
        result.n_late += int(np.count_nonzero(is_late))
        self._n_rows += n

    def complete_letters(self, place: int) -> None:
        """Give dead letters of a reference, if it was read with fewer columns, their whole rows."""
        output, part = self._result.output, self._parts[place]
        letters, n_older = output.letters, output.n_older_letters
        if not letters or not part.is_cut:
            return
        waiting: dict[int, list[int]] = {}  # letters by row
        for place, letter in enumerate(letters):
            if letter.arrival is not None and part.first_row <= letter.arrival < part.end_row:
                waiting.setdefault(letter.arrival, []).append(place)
        if not waiting and not any(place >= n_older for place in part.unfit):
            return
        unfit = iter(part.unfit)
        arrivals, at = sorted(waiting), 0
        end = part.first_row
        for whole in read(part.reference, self._ready.stream, self._task.time_zone):
            begin, end = end, end + whole.rows.num_rows
            while at < len(arrivals) and arrivals[at] < end:
                row = python_rows(whole.rows.slice(arrivals[at] - begin, 1))[0]
                for place in waiting[arrivals[at]]:
                    letters[place] = replace(letters[place], row=row)
                at += 1
            for misfit, place in zip(whole.misfits, unfit, strict=False):  # both in the order of the file
                if place >= n_older:
                    letters[place - n_older] = replace(letters[place - n_older], row=misfit.row)
        assert at == len(arrivals), f"{len(arrivals) - at} rows of dead letters are gone"

    def _keep_recent(self, rows: pa.RecordBatch) -> None:
        self._recent.append(rows.slice(max(0, rows.num_rows - RECENT_ROWS)))
        while sum(each.num_rows for each in self._recent[1:]) >= RECENT_ROWS:
            del self._recent[0]

    def finish(self) -> TaskResult:
        """Flush what was written."""
        result, flow = self._result, self._flow
        result.files = self._written.finish(result.output)
        result.derived = self._written.finish_derived()
        if flow.handed_on is not None:
            result.wanted, result.n_wanted = flow.handed_on.finish(self._store), flow.handed_on.n_rows
        if flow.views is not None:
            result.view_rows = flow.views.finish(self._store)
        result.parts = flow.aggregates.finish(self._store)
        if self._recent:
            newest = pa.concat_batches(self._recent)
            last = newest.slice(max(0, newest.num_rows - RECENT_ROWS))
            result.recent = last.take(pa.array(np.arange(last.num_rows)))  # a slice would carry all of it
        result.output.functions = [worker_functions.drain()]
        result.output.walked = dict(flow.walk_records())
        return result

    def discard(self) -> None:
        """Leave nothing, as far as that can be done now."""
        self._written.discard()
        with contextlib.suppress(
            StoreError
        ):  # an opening clears what is left; what went wrong is the error to report
            files = [file for _, file in self._result.files]
            result = self._result
            others = (result.wanted, result.view_rows, result.parts, result.derived)
            files += [file for file in others if file is not None]
            self._store.remove(file.name for file in files)


def _pieces(rows: pa.RecordBatch, n_rows: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, rows.num_rows, n_rows):
        yield rows.slice(first, n_rows)


def by_bytes(references: Sequence[Reference], task_bytes: int, most: int) -> list[tuple[Reference, ...]]:
    """References cut into tasks, in order: each of about so many bytes, and no more tasks than `most`."""
    total = sum(reference.nbytes for reference in references)
    size = max(task_bytes, -(-total // max(1, most)))
    tasks: list[list[Reference]] = []
    filled = size
    for reference in references:
        if filled >= size and len(tasks) < most:
            tasks.append([])
            filled = 0
        tasks[-1].append(reference)
        filled += reference.nbytes
    return [tuple(task) for task in tasks]
