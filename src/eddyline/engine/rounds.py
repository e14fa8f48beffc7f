"""The rooms wired in one process, and the round protocol: read this first.

A push, or a tick, is a round. It walks through the same steps as on Spark:

  0 skip      a token seen before returns the round it belonged to
  1 plan      pin the catalog version, where each stream stands, now() and the seed
  2 capture   the rows as the stream's schema has them, numbered in order of arrival; rows that do not fit set apart
  3 work      the walk over relations and operators (dataflow.py); what they build is held apart
  4 commit    the only point from which anything has happened: numbers advance, results and dead letters are kept
  4b alert    the results move alerts (alerting.py)
  5 deliver   callbacks are called, readers are woken

A round that fails before step 4 leaves nothing behind.

Rounds run one at a time, first come, first served (fair_lock.py). What is registered and kept is guarded by one lock, which a
round holds only while it plans, commits and delivers: queries come and go while it works, and are in the next round's version.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.catalog import CommittedRound, suspend_queries
from eddyline.delivery import ResultLog
from eddyline.engine.alerting import Alerting
from eddyline.engine.announcements import Announcements
from eddyline.engine.arrivals import arrival_numbers
from eddyline.engine.callbacks import Callbacks
from eddyline.engine.dataflow import Arrivals, Relation, Walk
from eddyline.engine.driver_flow import DriverFlow
from eddyline.engine.durable import GC_EVERY, Durable
from eddyline.engine.event_clock import EventClock
from eddyline.engine.event_time import LaneTimes, advanced, event_times, late_rows
from eddyline.engine.fair_lock import FairLock
from eddyline.engine.filter_events import filter_events
from eddyline.engine.function_watch import NAMED, FunctionWatch
from eddyline.engine.letters import misfit_letters
from eddyline.engine.memory import Holder, Memory
from eddyline.engine.push_tokens import PushTokens
from eddyline.engine.restored_counts import COUNTS_EVERY, restore_counts
from eddyline.engine.round_output import RoundOutput
from eddyline.engine.round_store import RoundStore
from eddyline.engine.round_work import Limits, Outcome, Planned, Work
from eddyline.errors import (
    ClosedError,
    EddylineError,
    IndexBuildError,
    MemoryLimitError,
    RoundOvertakenError,
    StreamChangedError,
)
from eddyline.events import (
    AlertsDelayed,
    CallbackFailed,
    CleanupFailed,
    Event,
    KernelsCompiling,
    MemoryRanOut,
    QueriesNotIndexed,
    ResultsDropped,
    RetentionRemoved,
    RoundCommitted,
    StoreFileDamaged,
)
from eddyline.expressions import Context
from eddyline.filters import FilterOutput, FilterStage
from eddyline.functions import FunctionRegistry
from eddyline.kernels import compile_if_cold, warm_up
from eddyline.model import (
    FIRST_DERIVED,
    Message,
    Round,
    Stream,
    StreamProgress,
    UserCall,
)
from eddyline.operators import WHOLE, DerivedNumbers, RoundProgress, Share, arrived_rows
from eddyline.routing import ADAPTIVE, RoutingOptions, WalkRecord
from eddyline.sources import IngestedRows, SchemaChanged, as_changes, with_read_times
from eddyline.sql import Shapes
from eddyline.statistics import RoundRecord, RoundRecords
from eddyline.storage import CAPTURE, DEAD_LETTERS, OUTBOX, DeadLetters, RecentRows

if TYPE_CHECKING:
    from eddyline.engine.shared_work import SharedWork

NO_PROGRESS = RoundProgress({}, {})
MESSAGES_KEPT = 10_000  # of alerts, in memory; a home has its retention
SAMPLE_ROWS = 1_024


class RoundEngine:
    """Catalog, stages and what they keep, driven round by round.

    A thread that needs both takes the round lock before the lock; so no thread that holds the lock may start a round.
    """

    def __init__(
        self,
        *,
        store: RoundStore,
        limits: Limits,
        clock: Callable[[], int],
        seed: int,
        routing: RoutingOptions = ADAPTIVE,
    ) -> None:
        time_zone = store.time_zone
        self.round_lock = FairLock()  # one round at a time
        self.lock = FairLock(self.round_lock)  # whatever is registered or kept
        self.delivered = self.condition()
        self.store = store
        self.durable = durable = store if isinstance(store, Durable) else None
        self.catalog = store.catalog
        self.functions = FunctionRegistry()
        self.shapes = Shapes(time_zone=time_zone)
        self.limits = limits
        self.routing = routing
        self.time_zone = time_zone
        self.results = ResultLog(limits.results_per_query, limits.result_bytes)
        self.dead_letters = DeadLetters(limits.dead_letters)
        self.announcements = Announcements()
        self.records = RoundRecords(store.folder)
        self.n_results_before = 0  # of rounds before the home was opened
        self.recent: dict[str, RecentRows] = {}
        self.progress: dict[str, StreamProgress] = {}
        self.callbacks = Callbacks()
        self.on_dropped: list[Callable[[Iterable[int]], None]] = []  # called with the ids of dropped queries
        self.is_closed = False
        self._clock = clock
        self.seed = seed
        self._last_round = 0
        self._last_rounds: dict[str, int] = {}  # by stream, of this process
        self._incarnations: dict[str, int] = {}  # how often a stream of a name was dropped in this process
        self._last_arrival = 0
        self._next_made = FIRST_DERIVED  # the number of the next row that joins and tables make
        self._last_now_us = 0
        self._tokens = PushTokens(store)
        self.alerting = Alerting(self.catalog, durable, time_zone)
        self.function_watch = FunctionWatch(self.catalog, self.functions)
        self.flow = DriverFlow(
            self.catalog,
            self._context(),
            self._new_filters,
            policy=routing.policy,
            seed=seed,
            durable=durable,
        )
        self.event_clock = EventClock()
        # streams of which rows may lie ready that no round has read, as the runner that reads their sources knows
        self.unread: Callable[[], AbstractSet[str]] = frozenset
        self._in_tasks: Counter[str] = Counter()  # streams of which rounds are worked on in tasks
        self._timed: tuple[int, dict[str, Stream]] = (-1, {})  # by catalog version
        self.memory = Memory(limits.memory, self._holders)
        self.at_step: Callable[[str], None] = (
            _no_step  # called before every step; tests end the process there
        )
        if durable is not None:
            self._restore(durable)

    # ----------------------------------------------------------------------------------------- rounds

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
        with self.round_lock:
            while True:
                try:
                    return self._try_round(inputs, token, now_us, positions)
                except IndexBuildError as error:
                    self.suspend_faulty(error)

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
            known = None if token is None else self._tokens.find(token)
            if known is not None:
                return replace(known, is_repeat=True)
            if inputs:  # a tick makes room rather than takes it
                self.memory.check(sum(each.rows.nbytes for each in inputs.values()))
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
            arrivals, work = self._capture(round_, planned, inputs)
            self.at_step("3 work")
            with self.lock:
                self._let_time_pass(round_, planned, work)
            self._walk(round_, planned, arrivals, work)
            work.planned_at, work.worked_at = planned_at, time.perf_counter()
        except MemoryError as error:
            raise self._out_of_memory(error) from None
        except BaseException:
            self._abort()
            raise
        return self._end(round_, planned, work, positions or {}, began)

    def suspend_faulty(self, error: IndexBuildError) -> None:
        """Suspend the queries with which the index cannot be built, and say so. Raises the error if it is no query's fault."""
        if not error.whys:
            raise error
        with self.round_lock, self.lock:
            self.check_open()
            ids = suspend_queries(self.catalog, error.whys, self.now_us())
            if not ids:  # they were dropped, paused or suspended since the round was planned
                return
            named = tuple(
                (self.catalog.queries.name_of(i), self.catalog.queries.owner_of(i)) for i in ids[:NAMED]
            )
            owners = tuple(sorted({*map(self.catalog.queries.owner_of, ids)} - {""}))
            why = error.whys[ids[0]]
            self.announce(QueriesNotIndexed(self._last_round, why, len(ids), named, owners))

    def commit_shared(
        self,
        planned: Planned,
        shared: SharedWork,
        *,
        token: str | None,
        positions: Mapping[str, object],
        began: float,
        join: Callable[[Round, Planned, SharedWork], frozenset[str]],
    ) -> Outcome:
        """Steps 4 to 7 of a round whose work was done in tasks. It gets its number only now: other rounds may have come between,
        but none of its own streams. Raises RoundOvertakenError if one did. `join` may join some signatures elsewhere."""
        with self.round_lock:
            with self.lock:
                self.check_open()
                for name, number in planned.last_rounds.items():
                    if self._incarnations.get(name, 0) != planned.incarnations[name]:
                        raise StreamChangedError(f"stream {name} was dropped while its rows were worked on")
                    if self._last_rounds.get(name, 0) != number:
                        raise RoundOvertakenError(f"another round of stream {name} came between")
                round_ = self._numbered(planned, shared.n_rows(), token)
                work = shared.numbered(
                    round_,
                    planned,
                    self.catalog.queries.find_name,
                    self.event_clock.watch,
                    self.dead_letters.capacity,
                )
                self._let_time_pass(round_, planned, work)
            if planned.flow is not None:
                try:
                    joined = join(round_, planned, shared)
                    with self.lock:
                        shared.add_joined(work, round_, self.catalog.queries.find_name)
                    self._walk(round_, planned, shared.arrivals(round_, planned), work, Share(without=joined))
                    work.outputs = None
                except MemoryError as error:
                    raise self._out_of_memory(error) from None
                except BaseException:
                    self._abort()
                    raise
            return self._end(round_, planned, work, positions, began)

    def _numbered(self, planned: Planned, n_rows: dict[str, int], token: str | None) -> Round:
        return Round(
            number=self._last_round + 1,
            version=planned.version,
            now_us=planned.now_us,
            seed=planned.seed,
            first_arrival=self._last_arrival + 1,
            n_rows=n_rows,
            token=token,
            first_derived=self._next_made,
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
            if self._last_round == round_.number:
                raise self._interrupted(error, round_) from None
            raise self._out_of_memory(error) from None
        except BaseException:
            self._abort()
            raise
        with self.lock:  # the round has happened: nothing below makes it fail
            self.at_step("4b alert")
            messages = self._alert(
                round_.number, lambda: self.alerting.after(round_, work.matches, work.outputs)
            )
            self.at_step("5 deliver")
            ended = time.perf_counter()
            with self._afterwards(round_.number, "callbacks"):
                self._deliver(outcome, work, ended - began)
                self._tell_messages(messages)
            with self._afterwards(round_.number, "statistics"):
                for event in self.function_watch.after(round_.number, work.output.functions, round_.now_us):
                    self.announce(event)
                self.records.add(_record(outcome, work, began, ended))
                if round_.number % COUNTS_EVERY == 0:
                    self.store.save_counts(self._last_round, self.results, self.dead_letters)
            if round_.number % GC_EVERY == 0:
                self.at_step("7 gc")
                with self._afterwards(round_.number, "cleanup"):
                    self._collect_garbage(round_.number)
            self.at_step("end")
        return outcome

    @contextlib.contextmanager
    def _afterwards(self, round_number: int, step: str) -> Iterator[None]:
        """Around a step after the commit: if there is no memory for it, that is an event."""
        try:
            yield
        except MemoryError as error:
            self.memory.let_go(error)
            self.announce(MemoryRanOut(round_number, step, "there was not enough memory"))

    def plan(self, inputs: Iterable[str], now_us: int | None = None) -> Planned:
        """Step 1, with the lock held: pin the version, where each stream stands, now() and the seed."""
        names = list(inputs)
        flow = self.flow.plan(self.progress)
        group = names if flow is None else flow.with_partners(names)
        now = self._clock() if now_us is None else now_us
        timed = self._timed_streams()
        return Planned(
            version=self.catalog.version,
            now_us=max(now, self._last_now_us),  # a clock set back does not turn time back
            seed=self.seed + self._last_round + 1,
            progress={name: self.progress.get(name, StreamProgress()) for name in names},
            streams={name: self.catalog.stream(name) for name in names},
            plans={name: self.catalog.plan(name) for name in names},
            last_rounds={name: self._last_rounds.get(name, 0) for name in group},
            incarnations={
                name: self._incarnations.get(name, 0)
                for name in (*group, *(() if flow is None else flow.streams), *timed)
            },
            timed=timed,
            flow=flow,
        )

    def _timed_streams(self) -> dict[str, Stream]:
        version = self.catalog.version
        if self._timed[0] != version:
            streams = [s for s in self.catalog.streams() if s.time is not None and not s.is_keyed]
            self._timed = version, {stream.name.lower(): stream for stream in streams}
        return self._timed[1]

    def _let_time_pass(self, round_: Round, planned: Planned, work: Work) -> None:
        """Lift the watermarks of streams that are silent; with the round lock and the lock held."""
        with_rows = {name for name, n in round_.n_rows.items() if n}
        unread = with_rows | self._in_tasks.keys() | self.unread()
        groups = [] if planned.flow is None else planned.flow.groups
        progress = self.progress | work.progress
        lifted = self.event_clock.lifted(groups, planned.timed, progress, round_.now_us, unread)
        work.progress |= lifted

    @contextlib.contextmanager
    def working_on(self, streams: Iterable[str]) -> Iterator[None]:
        """Rows of these streams are worked on in tasks: meanwhile they are not silent."""
        names = [name.lower() for name in streams]
        with self.lock:
            self._in_tasks.update(names)
        try:
            yield
        finally:
            with self.lock:
                self._in_tasks -= Counter(names)

    def _capture(
        self, round_: Round, planned: Planned, inputs: Mapping[str, IngestedRows]
    ) -> tuple[Arrivals, Work]:
        numbers = arrival_numbers(inputs, round_.first_arrival)
        batches: dict[str, TupleBatch] = {}
        arrivals = Arrivals()
        work = Work(round_.n_rows, RoundOutput(self.dead_letters.capacity))
        for name, ingested in inputs.items():
            stream, before, n = planned.streams[name], planned.progress[name], ingested.rows.num_rows
            times = event_times(stream, ingested.rows, self.time_zone)
            is_late = late_rows(times, before.watermark_us, n)
            n_late = int(np.count_nonzero(is_late))
            batch = batches[name] = TupleBatch(
                stream.name, ingested.rows, numbers[name], np.ones(n, np.int8), is_late
            )
            if not stream.is_keyed:
                arrivals.batches[name] = batch
            if planned.flow is not None and (stream.is_keyed or (n and name in planned.flow.streams)):
                rows = arrived_rows(batch, times, before.n_rows - before.n_late)
                arrivals.rows[name] = replace(rows, is_delete=ingested.is_delete)
            work.n_late += n_late
            came = LaneTimes()
            came.add(times, ingested.lanes.of(n))
            work.times[name] = came
            watched_us = self.event_clock.watch(name, round_.now_us)
            work.progress[name] = advanced(
                before,
                stream,
                n,
                n_late,
                came,
                ingested.lanes,
                now_us=round_.now_us,
                watched_us=watched_us,
            )
            if n:
                work.recent[name] = batches[name]
                work.last_arrival = max(work.last_arrival, int(numbers[name][-1]))
            work.output.add_letters(misfit_letters(round_.number, stream.name, ingested.misfits))
            work.ignored[name] = ingested.change.ignored
        work.files += self.store.capture(round_.number, batches)
        return arrivals, work

    def warm_up(self) -> None:
        """Load all kernels, so that no round waits for one."""
        self.compile_if_cold()
        warm_up()

    def compile_if_cold(self) -> None:
        """Compile the kernels if this machine has not done so, and say how far that is."""
        compile_if_cold(
            lambda far: self.tell(
                KernelsCompiling(self._last_round, far.n_done, far.n_parts, far.seconds, far.left_s, str(far))
            )
        )

    def announce(self, event: Event) -> None:
        """Announce something with the lock held."""
        self.announcements.announce(event)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with every event from now on."""
        with self.lock:
            self.announcements.listen(listener)

    def unlisten(self, listener: Callable[[Event], None]) -> None:
        """Call it no more."""
        with self.lock:
            self.announcements.unlisten(listener)

    def tell(self, event: Event) -> None:
        """Announce something from outside a round."""
        with self.lock:
            self.announce(event)

    def _context(self) -> Context:
        return Context(0, self.time_zone, self.functions.call)

    def _new_filters(self) -> FilterStage:
        return FilterStage(
            self._context(), in_background=True, options=self.routing, declared_cost=self._declared_cost
        )

    def _declared_cost(self, call: UserCall) -> float | None:
        declared = self.functions.find(call.function, call.version)
        return None if declared is None else declared.cost_s

    def learn(self, walked: Mapping[str, Sequence[WalkRecord]], round_number: int) -> None:
        """Take in what workers observed of expensive filters, by relation, and announce what that changed."""
        events: list[Event] = []
        with self.round_lock:
            for relation, records in walked.items():
                filters = self.flow.find_filters(relation)
                if filters is not None:  # the stream was not dropped
                    filters.learn(records, round_number)
                    events += filter_events(relation, filters.decisions(), filters.router.keys)
        for event in events:
            self.tell(event)

    def _walk(
        self, round_: Round, planned: Planned, arrivals: Arrivals, work: Work, share: Share = WHOLE
    ) -> None:
        """Step 3 in this process: the walk, and what it made is written."""
        flow, output = planned.flow, work.output
        if share is not WHOLE:  # after what tasks made of other parts, and wrote
            output = RoundOutput(self.dead_letters.capacity)
        numbers = DerivedNumbers(round_.first_derived + work.output.n_derived)
        self.flow.begin(flow, planned.plans, numbers)
        outputs: dict[str, FilterOutput] = {}
        work.outputs = outputs

        def keep(relation: str, _: Relation, found: FilterOutput) -> None:
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
            if self._incarnations.get(name, 0) != incarnation
        }
        progress = {name: after for name, after in work.progress.items() if name not in gone}
        positions = {name: at for name, at in positions.items() if name not in gone}
        last_arrival = max(self._last_arrival, work.last_arrival)
        output = work.output
        done = CommittedRound(
            round_, last_arrival, output.n_results, output.n_dead, work.n_late, output.n_derived
        )
        self.store.commit(done, progress, work.files, positions, work.inputs, work.gone)
        self._last_round, self._last_arrival = round_.number, last_arrival
        self._next_made = round_.first_derived + output.n_derived
        self._last_now_us = max(self._last_now_us, round_.now_us)
        self._last_rounds.update(dict.fromkeys(progress, round_.number))
        self.progress.update(progress)
        if planned.flow is not None:
            self.flow.commit(round_, planned.flow, self.progress, output.probes)
        for name, rows in work.recent.items():
            if name in progress:
                self._recent(name).append(round_.version, rows)
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
            self._tokens.remember(round_.token, outcome)
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

    def _holders(self) -> list[Holder]:
        """What holds memory. Rounds may change it meanwhile: these are estimates."""
        stems, tables = self.flow.joins.stage.stems, self.flow.tables.tables
        results, remembered = self.results.nbytes, self._tokens.nbytes
        return [
            Holder("results kept in memory", results, "lower result_bytes"),
            Holder("what pushes with tokens gave", remembered, "push fewer rows at once"),
            *(
                Holder(f"recent rows of {name}", rows.nbytes, "lower recent_rows")
                for name, rows in list(self.recent.items())
            ),
            *(
                Holder(f"rows of {name} that joins keep", stem.nbytes, "let joins look back less far")
                for name, stem in list(stems.items())
            ),
            *(
                Holder(f"table {name}", table.nbytes, "delete rows of tables that no query needs")
                for name, table in list(tables.items())
            ),
            *(
                Holder(f"the index of {name}", stage.index.nbytes, "drop queries that are not needed")
                for name, stage in self.flow.all_filters()
            ),
        ]

    def _collect_garbage(self, round_number: int) -> None:
        """The round has happened: if its files cannot be removed, that is an event, and tried again later."""
        if self.durable is None:
            while self.alerting.forget(MESSAGES_KEPT):
                pass
        else:
            try:
                self.durable.collect_garbage(read_to=self.alerting.cursor)
            except EddylineError as error:
                self.announce(CleanupFailed(round_number, str(error)))
            self._tell_removed(round_number, self.durable)

    def _tell_removed(self, round_number: int, durable: Durable) -> None:
        for removal, most in durable.removed():
            self.announce(
                RetentionRemoved(
                    round_number, removal.what, removal.n, removal.until_us, len(removal.of), tuple(most)
                )
            )

    def _deliver(self, outcome: Outcome, work: Work, seconds: float) -> None:
        round_ = outcome.round
        self.announce(
            RoundCommitted(
                round_.number,
                round_.version,
                sum(round_.n_rows.values()),
                outcome.n_results,
                outcome.n_dead,
                outcome.n_late,
                seconds,
            )
        )
        self.delivered.notify_all()
        fault = partial(self._callback_failed, round_.number)
        self.callbacks.deliver(round_, work.matches, work.outputs, self.catalog.queries.name_of, fault)

    def _callback_failed(self, round_number: int, name: str, error: Exception) -> None:
        self.announce(CallbackFailed(round_number, name, f"{type(error).__name__}: {error}"))

    def _alert(self, round_number: int, step: Callable[[], list[Message]]) -> list[Message]:
        """Step 4b. The round has happened: what cannot be written now is made up for by the next one."""
        try:
            return step()
        except EddylineError as error:
            self.announce(AlertsDelayed(round_number, str(error)))
        except MemoryError as error:
            self.memory.let_go(error)
            self.announce(AlertsDelayed(round_number, "there was not enough memory"))
        return []

    def say(
        self, query: str, text: str, *, row: Mapping[str, Any] | None = None, severity: str = "error"
    ) -> None:
        """A message of the engine itself, under a name that is no query's; all subscribers of messages get it."""
        with self.lock:
            self.check_open()
            last, now = self._last_round, self._last_now_us
            self._tell_messages(
                self._alert(last, lambda: [self.alerting.say(query, text, row or {}, severity, last, now)])
            )

    def _tell_messages(self, messages: Sequence[Message]) -> None:
        for message in messages if self.alerting.listeners else ():
            for listener in list(self.alerting.listeners):
                try:
                    listener(message)
                except Exception as error:  # a subscriber's fault is an event, and never reaches another
                    said = f"{type(error).__name__}: {error}"
                    self.announce(CallbackFailed(message.round, message.query, said))

    def by_token(self, token: str) -> Outcome | None:
        """The round a token belonged to; with the lock held."""
        return self._tokens.find(token)

    def _restore(self, durable: Durable) -> None:
        """After opening a home: go on where the last committed round ended."""
        last = durable.rounds.last()
        if last is not None:
            self._last_round, self._last_arrival = last.round.number, last.last_arrival
            self._last_now_us = last.round.now_us
        self._next_made = durable.rounds.next_derived()
        self.progress = durable.rounds.progress()
        self.flow.restore(self.progress, 0 if last is None else last.round.version, self._last_now_us)
        newest = durable.newest(OUTBOX, self.limits.result_bytes)
        if len(newest) < durable.rounds.files.count(OUTBOX):
            self.results.begin_later(newest[0].round_number if newest else self._last_round)
        for file in newest:
            for part in durable.parts(file):
                self.results.append(file.round_number, durable.rounds.version_of(file.round_number), part)
        dead = durable.newest(DEAD_LETTERS, self.limits.recent_bytes)
        for file in dead:
            self.dead_letters.add(durable.dead_letters(file))
        self.dead_letters.n_total = durable.rounds.n_dead()
        self.n_results_before = durable.rounds.n_results()
        held = {OUTBOX: newest, DEAD_LETTERS: dead}
        restore_counts(durable, self._last_round, self.results, self.dead_letters, held)
        for file in durable.newest(CAPTURE, self.limits.recent_bytes):
            for name, rows in durable.rows(file):
                if self.catalog.find_stream(name) is not None:
                    version = durable.rounds.version_of(file.round_number)
                    self._recent(name).append(version, _old_rows(name, rows))
        if self.alerting.cursor < self._last_round:
            self._alert(self._last_round, lambda: self.alerting.catch_up(self._last_round))
        self._tell_removed(self._last_round, durable)
        for name, message in durable.damaged.items():
            self.announce(StoreFileDamaged(self._last_round, name, message))

    # ----------------------------------------------------------------------------------------- streams

    def forget_stream(self, name: str) -> None:
        """A dropped stream leaves nothing: declared again, it starts anew."""
        self.flow.forget_stream(name)
        self.event_clock.forget(name)
        self._incarnations[name] = self._incarnations.get(name, 0) + 1
        self._last_rounds.pop(name, None)
        self.announcements.forget_stream(name)
        self.progress.pop(name, None)
        self.recent.pop(name, None)
        self.results.forget_stream(name)

    def forget_queries(self, query_ids: Sequence[int]) -> None:
        """Dropped queries leave no results and no callbacks, and readers that wait for them are woken; with the lock held."""
        for query_id in query_ids:
            self.results.forget(query_id)
        for forget in self.on_dropped:
            forget(query_ids)
        self.delivered.notify_all()

    def forget_times(self, name: str) -> None:
        """A stream says otherwise from now on when rows happened; with the lock held."""
        self.event_clock.forget(name)
        if name in self.progress:
            at = self.progress[name]
            self.progress[name] = StreamProgress(n_rows=at.n_rows, n_late=at.n_late)
        self._last_rounds[name] = -1  # a round in tasks that read it otherwise is planned again

    def table_rows(self, name: str) -> pa.RecordBatch:
        """The rows of a keyed stream as they stand. To have them unchanged in the next round, take the round lock before."""
        with self.round_lock:
            with self.lock:
                planned = self.flow.plan(self.progress)
            assert planned is not None, f"{name} is no table"
            return self.flow.table_rows(planned, name)

    def context(self) -> Context:
        """For judging rows outside a round: the time of the last one."""
        return Context(self._last_now_us or self._clock(), self.time_zone, self.functions.call)

    def next_now_us(self) -> int:
        """The time a round would have that began now."""
        return max(self._clock(), self._last_now_us)

    def close(self) -> None:
        """End after the round in flight; readers that wait are woken."""
        with self.round_lock, self.lock:
            if not self.is_closed:
                self.flow.close()
                self.records.close()
                self.alerting.close()
                self.functions.close()
                self.store.save_counts(self._last_round, self.results, self.dead_letters)
                self.store.close()
            self.is_closed = True
            self.delivered.notify_all()

    def placed(self, stream: str, query_id: int) -> dict[str, Any] | None:
        """The structure of the predicate index that serves a query, as far as it is built."""
        stage = self.flow.find_filters(stream.lower())
        return None if stage is None else stage.structure_of(query_id)

    def stages(self) -> Iterator[tuple[str, FilterStage]]:
        return iter(self.flow.all_filters())

    def condition(self) -> threading.Condition:
        """One over the lock."""
        return threading.Condition(self.lock)  # type: ignore[arg-type]  # which has what a condition asks for

    def now_us(self) -> int:
        return self._clock()

    @property
    def last_now_us(self) -> int:
        """now() of the last round that has committed, or 0."""
        return self._last_now_us

    @property
    def last_round(self) -> int:
        """The number of the last round that has committed, or 0."""
        return self._last_round

    def check_open(self) -> None:
        if self.is_closed:
            raise ClosedError("this engine was closed", hint="Open another with eddyline.open().")

    def sample(self, name: str) -> TupleBatch:
        """Some of the last rows of a stream, by which an index is judged."""
        stream = self.catalog.stream(name)
        rows = self._recent(name).last(SAMPLE_ROWS, stream.schema)
        return _old_rows(stream.name, rows)

    def _recent(self, name: str) -> RecentRows:
        rows = self.recent.get(name)
        if rows is None:
            rows = self.recent[name] = RecentRows(self.limits.recent_rows, self.limits.recent_bytes)
        return rows


def _record(outcome: Outcome, work: Work, began: float, ended: float) -> RoundRecord:
    return RoundRecord(
        round_number=outcome.round.number,
        version=outcome.round.version,
        at_us=outcome.round.now_us,
        n_tasks=work.n_tasks,
        n_rows=sum(outcome.round.n_rows.values()),
        n_results=outcome.n_results,
        n_dead=outcome.n_dead,
        n_late=outcome.n_late,
        seconds=ended - began,
        plan_s=work.planned_at - began,
        work_s=work.worked_at - work.planned_at,
        waiting_s=work.waiting_s,
        commit_s=ended - work.worked_at,
        stages=tuple(work.output.records.values()),
    )


def _no_step(step: str) -> None:
    """Without tests that end the process at a step."""


def _old_rows(name: str, rows: pa.RecordBatch) -> TupleBatch:
    """Rows of an earlier round, to look back on; what numbers they had no longer matters."""
    n = rows.num_rows
    return TupleBatch(name, rows, np.zeros(n, np.int64), np.ones(n, np.int8), np.zeros(n, dtype=bool))
