"""What the rounds of an engine share: the catalog, the dataflow, the logs, and how far they have come; and reads of it.

A thread takes the turn of its streams first (turns.py), then the round lock, then the lock; so no thread that holds the lock may
start a round.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.catalog import suspend_queries
from eddyline.delivery import ResultLog
from eddyline.engine.alerting import Alerting
from eddyline.engine.announcements import Announcements
from eddyline.engine.callbacks import Callbacks
from eddyline.engine.driver_flow import DriverFlow
from eddyline.engine.durable import Durable
from eddyline.engine.event_clock import EventClock
from eddyline.engine.fair_lock import FairLock
from eddyline.engine.filter_events import filter_events
from eddyline.engine.function_watch import NAMED, FunctionWatch
from eddyline.engine.memory import Holder, Memory
from eddyline.engine.push_tokens import PushTokens
from eddyline.engine.round_store import RoundStore
from eddyline.engine.round_work import Limits, Outcome, Planned, Work
from eddyline.engine.turns import Turns
from eddyline.errors import (
    ClosedError,
    EddylineError,
    IndexBuildError,
)
from eddyline.events import (
    AlertsDelayed,
    CallbackFailed,
    Event,
    KernelsCompiling,
    QueriesNotIndexed,
)
from eddyline.expressions import Context
from eddyline.filters import FilterStage
from eddyline.functions import FunctionRegistry
from eddyline.kernels import compile_if_cold, warm_up
from eddyline.model import (
    DEFAULT_CHOICES,
    FIRST_BODY,
    FIRST_BRANCH,
    FIRST_DERIVED,
    Message,
    Round,
    Stream,
    StreamProgress,
    UserCall,
)
from eddyline.routing import ADAPTIVE, RoutingOptions, WalkRecord
from eddyline.sql import Shapes
from eddyline.statistics import RoundRecords
from eddyline.storage import DeadLetters, RecentRows


class EngineState:
    """Everything that is registered, kept and announced. Rounds change it (rounds.py); all others read."""

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
        """`clock` is that of now(); filters and probes are measured by their own, unless a `work_clock` is given."""
        time_zone = store.time_zone
        self.turns = Turns()  # of groups of streams
        self.round_lock = FairLock()  # one round at a time works here
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
        self._filter_clock = {} if work_clock is None else {"clock": work_clock}
        self.seed = seed
        self.last_round = 0
        self.last_rounds: dict[str, int] = {}  # by stream, of this process
        self.incarnations: dict[str, int] = {}  # how often a stream of a name was dropped in this process
        self.last_arrival = 0
        self.next_derived = FIRST_DERIVED  # the number of the next row that joins and tables make
        self.last_now_us = 0
        self.tokens = PushTokens(store)
        self.alerting = Alerting(self.catalog, durable, time_zone)
        self.function_watch = FunctionWatch(self.catalog, self.functions)
        self.flow = DriverFlow(
            self.catalog,
            self._context(),
            self._new_filters,
            routing=routing,
            seed=seed,
            durable=durable,
            most_groups=limits.groups,
            **({} if work_clock is None else {"work_clock": work_clock}),
        )
        self.choices = DEFAULT_CHOICES  # of the next rounds
        self.event_clock = EventClock()
        # streams of which rows may lie ready that no round has read, as the runner that reads their sources knows
        self.unread: Callable[[], AbstractSet[str]] = frozenset
        self.in_tasks: Counter[str] = Counter()  # streams of which rounds are worked on in tasks
        self.shares_rounds = False  # whether rounds may be worked on in tasks
        self._timed: tuple[int, dict[str, Stream]] = (-1, {})  # by catalog version
        self.memory = Memory(limits.memory, self._holders)
        self.at_step: Callable[[str], None] = (
            _no_step  # called before every step; tests end the process there
        )

    # ----------------------------------------------------------------------------------------- time

    def now_us(self) -> int:
        return self._clock()

    def next_now_us(self) -> int:
        """The time a round would have that began now."""
        return max(self._clock(), self.last_now_us)

    def until_deadline_s(self) -> float:
        """How long until time alone may change an aggregate; infinite if it never does."""
        with self.lock:
            deadline = self.flow.next_deadline()
            return math.inf if deadline is None else (deadline - self._clock()) / 1e6

    def context(self) -> Context:
        """For judging rows outside a round: the time of the last one."""
        return Context(self.last_now_us or self._clock(), self.time_zone, self.functions.call)

    def timed_streams(self) -> dict[str, Stream]:
        """All streams with a time and no key, whose rows others may wait for."""
        version = self.catalog.version
        if self._timed[0] != version:
            streams = [s for s in self.catalog.streams() if s.time is not None and not s.is_keyed]
            self._timed = version, {stream.name.lower(): stream for stream in streams}
        return self._timed[1]

    def let_time_pass(self, round_: Round, planned: Planned, work: Work) -> None:
        """Lift the watermarks of streams that are silent; with the round lock and the lock held."""
        with_rows = {name for name, n in round_.n_rows.items() if n}
        unread = with_rows | self.in_tasks.keys() | self.unread()
        groups = [] if planned.flow is None else planned.flow.groups
        progress = self.progress | work.progress
        lifted = self.event_clock.lifted(groups, planned.timed, progress, round_.now_us, unread)
        busy = self.turns.busy()  # a round of theirs was planned with what they are
        work.progress |= {name: at for name, at in lifted.items() if name not in busy}

    @contextlib.contextmanager
    def working_on(self, streams: Iterable[str]) -> Iterator[None]:
        """Rows of these streams are worked on in tasks: meanwhile they are not silent."""
        names = [name.lower() for name in streams]
        with self.lock:
            self.in_tasks.update(names)
        try:
            yield
        finally:
            with self.lock:
                self.in_tasks -= Counter(names)

    # ----------------------------------------------------------------------------------------- what is open

    def check_open(self) -> None:
        if self.is_closed:
            raise ClosedError("this engine was closed", hint="Open another with eddyline.open().")

    def condition(self) -> threading.Condition:
        """One over the lock."""
        return threading.Condition(self.lock)  # type: ignore[arg-type]  # which has what a condition asks for

    def close(self) -> None:
        """End after the round in flight; readers that wait are woken."""
        with self.round_lock, self.lock:
            if not self.is_closed:
                self.flow.close()
                self.records.close()
                self.alerting.close()
                self.functions.close()
                self.store.save_counts(self.last_round, self.results, self.dead_letters)
                self.store.close()
            self.is_closed = True
            self.delivered.notify_all()

    def _holders(self) -> list[Holder]:
        """What holds memory. Rounds may change it meanwhile: these are estimates."""
        stems, tables, views = self.flow.joins.stage.stems, self.flow.tables.tables, self.flow.view_tables
        results, remembered = self.results.nbytes, self.tokens.nbytes
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
                Holder(
                    f"rows of view {name} that joins look up", table.nbytes, "narrow what the view selects"
                )
                for name, table in list(views.tables.items())
            ),
            Holder("counts of results", self.flow.counts.nbytes, "drop queries with DISTINCT or EXISTS"),
            *(
                Holder(f"the index of {name}", stage.index.nbytes, "drop queries that are not needed")
                for name, stage in self.flow.filters.of_relations()
            ),
        ]

    # ----------------------------------------------------------------------------------------- filters

    def _context(self) -> Context:
        return Context(0, self.time_zone, self.functions.call)

    def _new_filters(self) -> FilterStage:
        return FilterStage(
            self._context(),
            in_background=True,
            options=self.routing,
            declared_cost=self._declared_cost,
            **self._filter_clock,
        )

    def _declared_cost(self, call: UserCall) -> float | None:
        declared = self.functions.find(call.function, call.version)
        return None if declared is None else declared.cost_s

    def learn(self, walked: Mapping[str, WalkRecord], round_number: int) -> Iterator[Event]:
        """Take in what workers observed of expensive filters, by relation; gives what that changed. The round lock is held."""
        for relation, record in walked.items():
            filters = self.flow.filters.find(relation)
            if filters is not None:  # the stream was not dropped
                filters.learn([record], round_number)
                yield from filter_events(relation, filters.decisions(), filters.router.keys)

    def warm_up(self) -> None:
        """Load all kernels, so that no round waits for one."""
        self.compile_if_cold()
        warm_up()

    def compile_if_cold(self) -> None:
        """Compile the kernels if this machine has not done so, and say how far that is."""
        compile_if_cold(
            lambda far: self.tell(
                KernelsCompiling(self.last_round, far.n_done, far.n_parts, far.seconds, far.left_s, str(far))
            )
        )

    def placed(self, stream: str, query_id: int) -> dict[str, Any] | None:
        """The structure of the predicate index that serves a query, as far as it is built."""
        stage = self.flow.filters.find(stream.lower())
        return None if stage is None else stage.structure_of(query_id)

    def stages(self) -> Iterator[tuple[str, FilterStage]]:
        return iter(self.flow.filters.of_relations())

    # ----------------------------------------------------------------------------------------- events and messages

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

    def say(
        self, query: str, text: str, *, row: Mapping[str, Any] | None = None, severity: str = "error"
    ) -> None:
        """A message of the engine itself, under a name that is no query's; all subscribers of messages get it."""
        with self.lock:
            self.check_open()
            last, now = self.last_round, self.last_now_us
            self.send(
                self.alert(last, lambda: [self.alerting.say(query, text, row or {}, severity, last, now)])
            )

    def alert(self, round_number: int, step: Callable[[], list[Message]]) -> list[Message]:
        """Step 4b. The round has happened: what cannot be written now is made up for by the next one."""
        try:
            return step()
        except EddylineError as error:
            self.announce(AlertsDelayed(round_number, str(error)))
        except MemoryError as error:
            self.memory.let_go(error)
            self.announce(AlertsDelayed(round_number, "there was not enough memory"))
        return []

    def send(self, messages: Sequence[Message]) -> None:
        """Call those who listen to messages of alerts."""
        for message in messages if self.alerting.listeners else ():
            for listener in list(self.alerting.listeners):
                try:
                    listener(message)
                except Exception as error:  # a subscriber's fault is an event, and never reaches another
                    fault = f"{type(error).__name__}: {error}"
                    self.announce(CallbackFailed(message.round, message.query, fault))

    # ----------------------------------------------------------------------------------------- streams and queries

    def group_of(self, streams: Sequence[str]) -> list[str]:
        """These streams, by name in lower case, and those they are joined with now."""
        with self.lock:
            flow = self.flow.plan(self.progress)
        return list(streams) if flow is None else flow.with_partners(list(streams))

    def by_token(self, token: str) -> Outcome | None:
        """The round a token belonged to; with the lock held."""
        return self.tokens.find(token)

    def table_rows(self, name: str) -> pa.RecordBatch:
        """The rows of a keyed stream as they stand. To have them unchanged in the next round, take the round lock before."""
        with self.round_lock:
            with self.lock:
                planned = self.flow.plan(self.progress)
            assert planned is not None, f"{name} is no table"
            return self.flow.table_rows(planned, name)

    def sample(self, name: str, n_rows: int) -> TupleBatch:
        """So many of the last rows of a stream, by which an index is judged."""
        stream = self.catalog.stream(name)
        rows = self.recent_rows(name).last(n_rows, stream.schema)
        return old_rows(stream.name, rows)

    def recent_rows(self, name: str) -> RecentRows:
        rows = self.recent.get(name)
        if rows is None:
            rows = self.recent[name] = RecentRows(self.limits.recent_rows, self.limits.recent_bytes)
        return rows

    def suspend_faulty(self, error: IndexBuildError) -> None:
        """Suspend the queries with which the index cannot be built, and say so. Raises the error if it is no query's fault."""
        if not error.whys:
            raise error
        with self.round_lock, self.lock:
            self.check_open()
            queries_of = self.catalog.views.queries_of
            whys = {each: why for i, why in error.whys.items() for each in queries_of(i)}
            views = [each for i in error.whys if FIRST_BODY <= i < FIRST_BRANCH for each in queries_of(i)]
            ids = suspend_queries(self.catalog, whys, self.now_us(), views=views)
            if not ids:  # they were dropped, paused or suspended since the round was planned
                return
            named = tuple(
                (self.catalog.queries.name_of(i), self.catalog.queries.owner_of(i)) for i in ids[:NAMED]
            )
            owners = tuple(sorted({*map(self.catalog.queries.owner_of, ids)} - {""}))
            why = whys[ids[0]]
            self.announce(QueriesNotIndexed(self.last_round, why, len(ids), named, owners))

    def forget_stream(self, name: str) -> None:
        """A dropped stream leaves nothing: declared again, it starts anew."""
        self.flow.forget_stream(name)
        self.event_clock.forget(name)
        self.incarnations[name] = self.incarnations.get(name, 0) + 1
        self.last_rounds.pop(name, None)
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
        self.last_rounds[name] = -1  # a round in tasks that read it otherwise is planned again


def _no_step(step: str) -> None:
    """Without tests that end the process at a step."""


def old_rows(name: str, rows: pa.RecordBatch, is_late: npt.NDArray[np.bool_] | None = None) -> TupleBatch:
    """Rows of an earlier round, to look back on; what numbers they had no longer matters."""
    n = rows.num_rows
    late = np.zeros(n, dtype=bool) if is_late is None else is_late
    return TupleBatch(name, rows, np.zeros(n, np.int64), np.ones(n, np.int8), late)
