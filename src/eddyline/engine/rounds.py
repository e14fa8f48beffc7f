"""The rooms wired in one process, and the round protocol: read this first.

A push, or a tick, is a round. It walks through the same steps as on Spark:

  0 skip      a token seen before returns the round it belonged to
  1 plan      pin the catalog version, the progress of each stream, now() and the seed
  2 capture   the rows as the stream's schema has them, numbered in order of arrival; rows that do not fit set apart
  3 work      the walk over relations and operators (dataflow.py); what they build is held apart
  4 commit    the only point from which anything has happened: numbers advance, results and dead letters are kept
  4b alert    the results move alerts (alerting.py)
  5 deliver   callbacks are called, readers are woken

A round that fails before step 4 leaves nothing behind.

Rounds that work in this process run one at a time, first come, first served (fair_lock.py). One whose work is done in tasks
(shared_work.py) has the turn of its group meanwhile (turns.py), and no lock. What is registered and kept is guarded by one lock,
which a round holds only while it plans, commits and delivers: queries come and go while it works, and are in the next version.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from eddyline.catalog import CommittedRound
from eddyline.engine.after_commit import follow_up
from eddyline.engine.capturing import capture
from eddyline.engine.dataflow import Arrivals, Relation, Walk
from eddyline.engine.engine_state import EngineState
from eddyline.engine.restoring import restore
from eddyline.engine.round_output import RoundOutput
from eddyline.engine.round_store import RoundStore
from eddyline.engine.round_work import Limits, Outcome, Planned, Work
from eddyline.engine.task_outcomes import TaskOutcomes
from eddyline.errors import (
    ClosedError,
    EddylineError,
    IndexBuildError,
    MemoryLimitError,
    RoundOvertakenError,
    StreamChangedError,
)
from eddyline.events import ResultsDropped
from eddyline.filters import FilterOutput
from eddyline.model import CLOSED, Round, StreamProgress
from eddyline.operators import WHOLE, DerivedNumbers, RoundProgress, Share
from eddyline.routing import ADAPTIVE, RoutingOptions
from eddyline.sources import IngestedRows, SchemaChanged, as_changes, with_read_times

NO_PROGRESS = RoundProgress({}, {})


class RoundEngine(EngineState):
    """The protocol: an engine's state, driven round by round."""

    def __init__(
        self,
        *,
        store: RoundStore,
        limits: Limits,
        clock: Callable[[], int],
        seed: int,
        routing: RoutingOptions = ADAPTIVE,
        work_clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(
            store=store, limits=limits, clock=clock, seed=seed, routing=routing, work_clock=work_clock
        )
        if self.durable is not None:
            restore(self, self.durable)

    def run_round(
        self,
        inputs: Mapping[str, IngestedRows],
        *,
        token: str | None = None,
        now_us: int | None = None,
        positions: Mapping[str, object] | None = None,
    ) -> Outcome:
        """One round over rows of any streams; none at all is a tick. `positions` say how far each source was read.

        Raises SchemaChanged if a query needs a column that was not written with the rows; then nothing has happened. A query
        with which the predicate index cannot be built is suspended before the round.
        """

        def work() -> Outcome:
            with self.round_lock:
                while True:
                    try:
                        return self._try_round(inputs, token, now_us, positions)
                    except IndexBuildError as error:
                        self.suspend_faulty(error)

        return self.turns.run(inputs, work)

    def _try_round(
        self,
        inputs: Mapping[str, IngestedRows],
        token: str | None,
        now_us: int | None,
        positions: Mapping[str, object] | None,
    ) -> Outcome:
        with self.lock:
            self.check_open()
            self.at_step("0 skip")
            known = None if token is None else self.tokens.find(token)
            if known is not None:
                return replace(known, is_repeat=True)
            if inputs:  # a tick makes room rather than takes it
                self.memory.check([each.rows for each in inputs.values()])
            began = time.perf_counter()
            self.at_step("1 plan")
            planned = self.plan(inputs, now_us)
            for name, stream in planned.streams.items():
                if inputs[name].rows.schema != stream.schema:
                    raise StreamChangedError(f"stream {stream.name} has another schema than the rows")
                lacking = inputs[name].change.change_for(planned.plans[name])
                if lacking is not None and inputs[name].rows.num_rows:
                    raise SchemaChanged(stream.name, lacking)
            inputs = {
                name: with_read_times(stream, inputs[name], self.time_zone)
                for name, stream in planned.streams.items()
            }
            inputs = {
                name: as_changes(stream, inputs[name]) if stream.is_keyed else inputs[name]
                for name, stream in planned.streams.items()
            }
            round_ = self._numbered(planned, {n: i.rows.num_rows for n, i in inputs.items()}, token)
        self.compile_if_cold()
        planned_at = time.perf_counter()
        try:
            self.at_step("2 capture")
            arrivals, work = capture(self, round_, planned, inputs)
            self.at_step("3 work")
            with self.lock:
                self.let_time_pass(round_, planned, work)
            self._walk(round_, planned, arrivals, work)
            work.planned_at, work.worked_at = planned_at, time.perf_counter()
        except MemoryError as error:
            raise self._out_of_memory(error) from None
        except BaseException:
            self._abort()
            raise
        return self._end(round_, planned, work, positions or {}, began)

    def commit_shared(
        self,
        planned: Planned,
        tasks: TaskOutcomes,
        *,
        token: str | None,
        positions: Mapping[str, object],
        began: float,
    ) -> Outcome:
        """Steps 4 to 7 of a round whose work was done in tasks, in its turn. It gets its number only now: rounds of other groups
        may have come between. Raises RoundOvertakenError if a stream has other times now."""
        with self.round_lock:
            with self.lock:
                self.check_open()
                for name, number in planned.last_rounds.items():
                    if self.incarnations.get(name, 0) != planned.incarnations[name]:
                        raise StreamChangedError(f"stream {name} was dropped while its rows were worked on")
                    if self.last_rounds.get(name, 0) != number:
                        raise RoundOvertakenError(f"stream {name} changed while its rows were worked on")
                round_ = self._numbered(planned, tasks.n_rows(), token)
                work = tasks.numbered(
                    round_,
                    planned,
                    self.catalog.queries.find_name,
                    self.event_clock.watch,
                    self.dead_letters.capacity,
                )
                self.let_time_pass(round_, planned, work)
            if planned.flow is not None:
                try:
                    rest = Share(without=tasks.joined_signatures)
                    self._walk(round_, planned, tasks.arrivals(round_, planned), work, rest)
                    work.outputs = None
                except MemoryError as error:
                    raise self._out_of_memory(error) from None
                except BaseException:
                    self._abort()
                    raise
            work.output.events += self.learn(work.output.walked, round_.number)
            return self._end(round_, planned, work, positions, began)

    def _numbered(self, planned: Planned, n_rows: dict[str, int], token: str | None) -> Round:
        return Round(
            number=self.last_round + 1,
            version=planned.version,
            now_us=planned.now_us,
            seed=planned.seed,
            first_arrival=self.last_arrival + 1,
            n_rows=n_rows,
            token=token,
            first_derived=self.next_derived,
        )

    def _end(
        self, round_: Round, planned: Planned, work: Work, positions: Mapping[str, object], began: float
    ) -> Outcome:
        try:
            with self.lock:
                self.at_step("4 commit")
                self.memory.check_commit()
                outcome = self._commit(round_, planned, work, positions)
        except MemoryError as error:
            if self.last_round == round_.number:
                raise self._interrupted(error, round_) from None
            raise self._out_of_memory(error) from None
        except BaseException:
            self._abort()
            raise
        with self.lock:
            follow_up(self, outcome, work, began)
        return outcome

    def plan(self, inputs: Iterable[str], now_us: int | None = None) -> Planned:
        """Step 1, with the lock held: pin the version, the progress of each stream, now() and the seed."""
        names = list(inputs)
        flow = self.flow.plan(self.progress)
        self.turns.check(names, [] if flow is None else flow.groups)
        group = names if flow is None else flow.with_partners(names)
        now = self._clock() if now_us is None else now_us
        timed = self.timed_streams()
        return Planned(
            version=self.catalog.version,
            now_us=max(now, self.last_now_us),  # a clock set back does not turn time back
            seed=self.seed + self.last_round + 1,
            progress={name: self.progress.get(name, StreamProgress()) for name in names},
            streams={name: self.catalog.stream(name) for name in names},
            plans={name: self.catalog.plan(name) for name in names},
            last_rounds={name: self.last_rounds.get(name, 0) for name in group},
            incarnations={
                name: self.incarnations.get(name, 0)
                for name in (*group, *(() if flow is None else flow.streams), *timed)
            },
            timed=timed,
            flow=flow,
            choices=self.choices,
        )

    def _walk(
        self, round_: Round, planned: Planned, arrivals: Arrivals, work: Work, share: Share = WHOLE
    ) -> None:
        """Step 3 in this process: the walk, and what it made is written."""
        flow, output = planned.flow, work.output
        if share is not WHOLE:  # after what tasks made of other parts, and wrote
            output = RoundOutput(self.dead_letters.capacity)
        numbers = DerivedNumbers(round_.first_derived + work.output.n_derived)
        self.flow.begin(planned, numbers)
        outputs: dict[str, FilterOutput] = {}
        work.outputs = outputs
        closed: list[FilterOutput] = []

        def keep(relation: str, _: Relation, found: FilterOutput) -> None:
            if found.batch.leave_reason == CLOSED:
                closed.append(found)
                return
            outputs[relation if relation not in outputs else f"{relation} ({len(outputs)})"] = found

        before, after = (NO_PROGRESS, None) if flow is None else (flow.before, flow.after(work.progress))
        Walk(self.flow, round_, output, keep).run(arrivals, numbers, before, after, share)
        output.events += self.flow.events()
        if output.letters:
            with self.lock:
                output.name_letters(self.catalog.queries.find_name)
        files, matches = self.store.write(round_, outputs.values(), output.letters, self._generations)
        work.files += files
        work.matches = [*work.matches, *matches]
        files, work.closed_rows = self.store.write_closed(
            round_, list(self.alerting.alert_parts(closed)), self._generations
        )
        work.files += files
        if flow is not None:
            files, work.gone = self.flow.save(round_.number)
            work.files += files
        if output is not work.output:
            work.output.merge(output, round_, 0)

    def _generations(self, ids: npt.NDArray[np.int32], version: int) -> npt.NDArray[np.int32]:
        with self.lock:
            return self.catalog.queries.generations_at(ids, version)

    def _commit(
        self, round_: Round, planned: Planned, work: Work, positions: Mapping[str, object]
    ) -> Outcome:
        self.check_open()
        # a stream dropped meanwhile leaves nothing, also to another of its name
        gone = {
            name
            for name, incarnation in planned.incarnations.items()
            if self.incarnations.get(name, 0) != incarnation
        }
        progress = {name: after for name, after in work.progress.items() if name not in gone}
        positions = {name: at for name, at in positions.items() if name not in gone}
        last_arrival = max(self.last_arrival, work.last_arrival)
        output = work.output
        done = CommittedRound(
            round_, last_arrival, output.n_results, output.n_dead, work.n_late, output.n_derived
        )
        self.store.commit(done, progress, work.files, positions, work.inputs, work.gone)
        self.last_round, self.last_arrival = round_.number, last_arrival
        self.next_derived = round_.first_derived + output.n_derived
        self.last_now_us = max(self.last_now_us, round_.now_us)
        self.last_rounds.update(dict.fromkeys(progress, round_.number))
        self.progress.update(progress)
        if planned.flow is not None:
            self.flow.commit(round_, planned.flow, self.progress, output, planned.choices, self.turns.busy())
        for name, rows in work.recent.items():
            if name in progress:
                self.recent_rows(name).append(round_.version, rows)
        n_dropped = sum(self.results.append(round_.number, round_.version, each) for each in work.matches)
        for (error, query_id), n in output.more_dead.items():
            self.dead_letters.count(error, query_id, n)
        self.dead_letters.add(output.letters)
        for event in output.events:
            self.announce(event)
        for name, ignored in work.ignored.items():
            self.announcements.announce_ignored(round_.number, planned.streams[name].name, ignored)
        for name, times in work.times.items():
            self.announcements.announce_implausible(round_, planned.streams[name], times)
        if n_dropped:
            self.announce(ResultsDropped(round_.number, n_dropped))
        outcome = Outcome(round_, work.outputs, output.n_results, output.n_dead, work.n_late)
        if round_.token is not None:
            self.tokens.remember(round_.token, outcome)
        return outcome

    def _abort(self) -> None:
        """A round that failed leaves nothing behind. What cannot be removed now is cleared at the next opening."""
        self.flow.rollback()
        with self.lock, contextlib.suppress(EddylineError):  # the round's own error is the one to tell
            self.store.abort()

    def _interrupted(self, error: MemoryError, round_: Round) -> ClosedError:
        """A round has happened, and memory ran out before this engine knew all of it: it cannot go on from there."""
        self.memory.let_go(error)
        self.close()
        kept = "Its rows and results are in the home" if self.durable is not None else "It was in memory"
        again = "Open the home again" if self.durable is not None else "Open another engine"
        return ClosedError(
            f"round {round_.number} has happened, but memory ran out before the engine had taken note of all of it",
            detail=f"{kept}. This engine was closed.",
            hint=f"{again}, with more memory or less to hold. Do not push the rows of this round once more"
            + (", unless with its token." if round_.token is not None else "."),
        )

    def _out_of_memory(self, error: MemoryError) -> MemoryLimitError:
        """Undo a round for which there was no memory."""
        refusal = self.memory.ran_out(error)  # first: undoing needs a little of what the round has taken
        self._abort()
        return refusal
