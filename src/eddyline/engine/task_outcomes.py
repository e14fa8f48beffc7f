"""What the tasks of a round came to, before the round has a number, and as the work of the round once it has one.

Tasks count their rows from 0. Tasks that join count the rows they derive from 0, and rows of the round from FIRST_ORDINAL on,
above every arrival number: rows of earlier rounds keep theirs. The commit lists their files with the numbers to add.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.catalog import ListedFile, ReadInput
from eddyline.engine.aggregate_parts import shared_parts
from eddyline.engine.dataflow import Arrivals
from eddyline.engine.durable import Durable
from eddyline.engine.event_time import LaneTimes, advanced, event_times, late_rows
from eddyline.engine.join_tasks import JoinedInputs, TaskRows, shared_rows
from eddyline.engine.letters import misfit_letters
from eddyline.engine.round_output import RoundOutput
from eddyline.engine.round_work import Planned, Work
from eddyline.engine.tasks import Task, TaskResult
from eddyline.engine.view_tasks import shared_view_rows
from eddyline.events import RoundMeasured
from eddyline.model import Round, Stream
from eddyline.operators import Mask, OperatorInput
from eddyline.sources import PlannedInput, Reference, SchemaChange, reference_to
from eddyline.storage import OUTBOX, StoredFile, StoredPart


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
class StreamTasks:
    """The part of one stream in a round: its tasks, and what came of them."""

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
            result.check()
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


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Rows that joins want, in files of tasks."""

    tasks: Mapping[str, tuple[TaskRows, ...]]  # by stream: what each task handed on
    ends: Mapping[str, int]  # by stream: the number behind its rows
    inputs: Mapping[str, tuple[OperatorInput, ...]]  # by stream: the inputs that want some


class TaskOutcomes:
    """What the tasks of a round came to, by stream."""

    def __init__(self, durable: Durable, streams: Sequence[StreamTasks], *, planned_at: float) -> None:
        self._durable = durable
        self._streams = streams
        self._planned_at = planned_at
        self.worked_at = planned_at
        self.joined: Sequence[TaskResult] = ()  # what tasks that join came to
        self.joined_signatures: frozenset[str] = frozenset()

    @property
    def streams(self) -> list[str]:
        return [each.name for each in self._streams]

    @property
    def results(self) -> list[TaskResult]:
        """Those of tasks that read rows."""
        return [result for each in self._streams for result in each.results]

    @property
    def n_wanted(self) -> int:
        """How many rows joins want."""
        return sum(result.n_wanted for result in self.results)

    def n_rows(self) -> dict[str, int]:
        return {each.name: each.n_rows for each in self._streams}

    def wanted(self, first: int, planned: Planned) -> WantedRows:
        """The rows that joins want; those of the round are numbered from `first` on."""
        tasks: dict[str, list[TaskRows]] = {}
        ends: dict[str, int] = {}
        for each in self._streams:
            at = planned.progress[each.name]
            n_before = at.n_rows - at.n_late
            for result in each.results:
                if each.joins is not None:
                    rows = TaskRows(result.wanted, first, n_before, result.n_counted)
                    tasks.setdefault(each.name, []).append(rows)
                first += result.n_rows
                n_before += result.n_counted
            ends[each.name] = first
        inputs = {
            each.name: tuple(who for who, _ in each.joins.inputs)
            for each in self._streams
            if each.joins is not None
        }
        return WantedRows({name: tuple(rows) for name, rows in tasks.items()}, ends, inputs)

    def arrivals(self, round_: Round, planned: Planned) -> Arrivals:
        """The rows that joins and views want, with the numbers of the round."""
        assert planned.flow is not None
        wanted = self.wanted(round_.first_arrival, planned)
        found = shared_rows(
            self._durable.store, wanted.tasks, wanted.ends, wanted.inputs, planned.flow.joins.plan.schemas
        )
        found.views = list(
            shared_view_rows(
                self._durable.store,
                self._files(round_, lambda result: result.view_rows),
                planned.flow.views.by_name,
                planned.flow.is_operator_input,
                self._durable.time_zone,
            )
        )
        found.parts = list(
            shared_parts(self._durable.store, self._files(round_, lambda result: result.parts))
        )
        return found

    def _files(
        self, round_: Round, file_of: Callable[[TaskResult], StoredFile | None]
    ) -> Iterator[tuple[StoredFile, int]]:
        """Files of tasks, those that have one, each with the arrival number of the task's first row."""
        first = round_.first_arrival
        for result in self.results:
            file = file_of(result)
            if file is not None:
                yield file, first
            first += result.n_rows

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
        for each in self._streams:
            stream = planned.streams[each.name]
            times = LaneTimes()
            work.files += each.input_files(round_, first)
            work.inputs += each.inputs(first)
            for result in each.results:
                self._add(work, round_, result, first)
                times.merge(result.times)
                first += result.n_rows
            n_late = sum(result.n_late for result in each.results)
            work.times[each.name] = times
            work.progress[each.name] = advanced(
                planned.progress[each.name],
                stream,
                each.n_rows,
                n_late,
                times,
                each.planned.lanes,
                now_us=round_.now_us,
                watched_us=watch(each.name, round_.now_us),
            )
            letters = misfit_letters(round_.number, stream.name, each.planned.misfits)
            if letters:
                work.output.add_letters(letters)
                work.files += self._durable.write_letters(round_, letters)
            recent = each.results[-1].recent if each.results else None
            if recent is not None:
                recent_times = event_times(stream, recent, self._durable.time_zone)
                watermark_us = planned.progress[each.name].watermark_us
                is_late = late_rows(recent_times, watermark_us, recent.num_rows)
                work.recent[each.name] = _recent_rows(stream, recent, first, is_late)
            work.output.events += [
                replace(event, round_number=round_.number) for event in each.planned.events
            ]
            work.ignored[each.name] = {
                name: why for result in each.results for name, why in result.ignored.items()
            }
        work.last_arrival = first - 1 if first > round_.first_arrival else 0
        for result in self.joined:  # the rows they derived follow each other
            self._add(work, round_, result, round_.first_derived + work.output.n_derived)
        work.output.name_letters(find_name)
        work.n_tasks = len(self.results) + len(self.joined)
        work.planned_at, work.worked_at = self._planned_at, self.worked_at
        longest = max((result.seconds for result in self.results), default=0.0)
        work.waiting_s = max(0.0, self.worked_at - self._planned_at - longest)
        return work

    def _add(self, work: Work, round_: Round, result: TaskResult, first: int) -> None:
        matches: list[StoredPart] = list(work.matches)  # type: ignore[arg-type]
        for kind, file in result.files:
            listed = ListedFile(
                file.name, kind, round_.number, file.nbytes, file.checksum, first, round_.first_arrival
            )
            work.files.append(listed)
            if kind == OUTBOX:
                matches += self._durable.new_parts(listed)
        if result.derived is not None:
            file, first_derived = result.derived, round_.first_derived + work.output.n_derived
            listed = ListedFile(
                file.name, OUTBOX, round_.number, file.nbytes, file.checksum, first_derived, first
            )
            work.files.append(listed)
            matches += self._durable.new_parts(listed)
        work.matches = matches
        work.n_late += result.n_late
        work.output.merge(result.output, round_, first)

    def forget_wanted(self) -> None:
        """Remove the files of what was handed on: what operators keep of it is in files of their own."""
        files = [file for each in self.results for file in (each.wanted, each.view_rows, each.parts)]
        self._durable.store.remove(file.name for file in files if file is not None)

    def measured(self, round_number: int, began: float, ended: float) -> RoundMeasured:
        """What the round took."""
        results = self.results
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
        results = (*self.results, *self.joined)
        names = [file.name for result in results for _, file in result.files]
        names += [result.derived.name for result in results if result.derived is not None]
        self._durable.remove_unlisted(names)
        self.forget_wanted()


def _recent_rows(stream: Stream, rows: pa.RecordBatch, end: int, is_late: Mask) -> TupleBatch:
    n = rows.num_rows
    numbers = np.arange(end - n, end, dtype=np.int64)
    return TupleBatch(stream.name, rows, numbers, np.ones(n, np.int8), is_late)
