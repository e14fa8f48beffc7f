"""The rooms wired in one process, and the round protocol: read this first.

A push, or a tick, is a round. It walks through the same steps as on Spark:

  0 skip      a token seen before returns the round it belonged to
  1 plan      pin the catalog version, where each stream stands, now() and the seed
  2 capture   the rows as the stream's schema has them, numbered in order of arrival; rows that do not fit set apart
  3 work      filters; what they build is held apart
  4 commit    the only point from which anything has happened: numbers advance, results and dead letters are kept
  5 deliver   callbacks are told, readers are woken

A round that fails before step 4 leaves nothing behind.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.batch import TupleBatch
from eddyline.catalog import Catalog
from eddyline.delivery import ResultLog
from eddyline.errors import ClosedError, SchemaError
from eddyline.events import CallbackFailed, Event, ResultsDropped, RoundCommitted
from eddyline.expressions import Context
from eddyline.filters import FilterOutput, FilterStage
from eddyline.functions import Functions
from eddyline.model import DeadLetter, Round, Stream, StreamProgress
from eddyline.sources import Ingested
from eddyline.sql import Shapes
from eddyline.storage import DeadLetters, RecentRows
from eddyline.types import TIMESTAMP, TIMESTAMP_NTZ

REMEMBERED_TOKENS = 100_000
REMEMBERED_OUTPUTS = 64  # rounds with a token whose pairs can be asked for again
EVENTS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept in memory."""

    results_per_query: int = 100
    result_bytes: int = 64 << 20
    recent_rows: int = 10_000
    recent_bytes: int = 64 << 20
    dead_letters: int = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """A committed round: what came in and what matched. `outputs` is None where it is no longer kept."""

    round: Round
    outputs: Mapping[str, FilterOutput] | None
    n_results: int
    n_dead: int
    n_late: int
    is_repeat: bool = False


@dataclass(slots=True)
class _Planned:
    """Step 1: what a round works with."""

    version: int
    number: int
    now_us: int
    first_arrival: int
    progress: dict[str, StreamProgress]


@dataclass(slots=True)
class _Worked:
    """Steps 2 and 3: all a round made, not yet visible to anybody."""

    batches: dict[str, TupleBatch]
    outputs: dict[str, FilterOutput] = field(default_factory=dict)
    misfits: list[DeadLetter] = field(default_factory=list)
    progress: dict[str, StreamProgress] = field(default_factory=dict)


class RoundEngine:
    """Catalog, stages and what they keep, driven round by round under one lock."""

    def __init__(self, *, time_zone: str, limits: Limits, clock: Callable[[], int], seed: int) -> None:
        self.lock = threading.RLock()
        self.delivered = threading.Condition(self.lock)
        self.catalog = Catalog()
        self.functions = Functions()
        self.shapes = Shapes(time_zone=time_zone)
        self.limits = limits
        self.time_zone = time_zone
        self.results = ResultLog(limits.results_per_query, limits.result_bytes)
        self.dead_letters = DeadLetters(limits.dead_letters)
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self.recent: dict[str, RecentRows] = {}
        self.progress: dict[str, StreamProgress] = {}
        self.callbacks: dict[int, list[Callable[[int, int], None]]] = {}
        self.listeners: list[Callable[[Event], None]] = []
        self.is_closed = False
        self._clock = clock
        self._seed = seed
        self._stages: dict[str, FilterStage] = {}
        self._last_round = 0
        self._last_arrival = 0
        self._last_now_us = 0
        self._tokens: OrderedDict[str, Outcome] = OrderedDict()
        self._tokens_with_outputs: deque[str] = deque()

    # ----------------------------------------------------------------------------------------- rounds

    def run_round(
        self, inputs: Mapping[str, Ingested], *, token: str | None = None, now_us: int | None = None
    ) -> Outcome:
        """One round over rows of any streams; none at all is a tick."""
        with self.lock:
            self.check_open()
            if token is not None and token in self._tokens:  # 0 skip
                return replace(self._tokens[token], is_repeat=True)
            began = time.perf_counter()
            planned = self._plan(inputs, now_us)
            round_ = Round(
                number=planned.number,
                version=planned.version,
                now_us=planned.now_us,
                seed=self._seed + planned.number,
                first_arrival=planned.first_arrival,
                n_rows={name: ingested.rows.num_rows for name, ingested in inputs.items()},
                token=token,
            )
            worked = self._capture(planned, inputs)
            self._work(round_, worked)
            outcome = self._commit(round_, worked)
            self._deliver(outcome, time.perf_counter() - began)
            return outcome

    def _plan(self, inputs: Mapping[str, Ingested], now_us: int | None) -> _Planned:
        now = self._clock() if now_us is None else now_us
        return _Planned(
            version=self.catalog.version,
            number=self._last_round + 1,
            now_us=max(now, self._last_now_us),  # a clock set back does not turn time back
            first_arrival=self._last_arrival + 1,
            progress={name: self.progress.get(name, StreamProgress()) for name in inputs},
        )

    def _capture(self, planned: _Planned, inputs: Mapping[str, Ingested]) -> _Worked:
        arrivals = _arrival_numbers(inputs, planned.first_arrival)
        worked = _Worked({})
        for name, ingested in inputs.items():
            stream = self.catalog.stream(name)
            times = _event_times(stream, ingested.rows)
            before = planned.progress[name]
            is_late = np.zeros(ingested.rows.num_rows, dtype=bool)
            if times is not None and before.watermark_us is not None:
                is_late = np.asarray(
                    pc.less(times, before.watermark_us).fill_null(False).to_numpy(zero_copy_only=False)
                )
            worked.batches[name] = TupleBatch(
                stream.name, ingested.rows, arrivals[name], np.ones(ingested.rows.num_rows, np.int8), is_late
            )
            worked.progress[name] = _advanced(before, stream, times, is_late)
            worked.misfits += [
                DeadLetter(planned.number, stream.name, misfit.row, "ROW_DOES_NOT_FIT", misfit.message)
                for misfit in ingested.misfits
            ]
        return worked

    def _work(self, round_: Round, worked: _Worked) -> None:
        for name, batch in worked.batches.items():
            stage = self._stages.get(name)
            if stage is None:
                stage = self._stages[name] = FilterStage(Context(0, self.time_zone, self.functions.call))
            stage.build(self.catalog.plan(name))
            worked.outputs[name] = stage.push(batch, round_)

    def _commit(self, round_: Round, worked: _Worked) -> Outcome:
        self._last_round = round_.number
        self._last_now_us = round_.now_us
        n_dropped = n_late = 0
        for name, batch in worked.batches.items():
            self.progress[name] = worked.progress[name]
            n_late += int(batch.is_late.sum())
            if len(batch):
                self._last_arrival = max(self._last_arrival, int(batch.arrival[-1]))
                self._recent(name).append(round_.version, batch)
            for part in worked.outputs[name].parts:
                n_dropped += self.results.append(round_.number, round_.version, part)
        n_dead = len(worked.misfits) + self._bury(round_, worked)
        if n_dropped:
            self._announce(ResultsDropped(round_.number, n_dropped))
        n_results = sum(output.n_matches for output in worked.outputs.values())
        outcome = Outcome(round_, worked.outputs, n_results, n_dead, n_late)
        if round_.token is not None:
            self._remember(round_.token, outcome)
        return outcome

    def _bury(self, round_: Round, worked: _Worked) -> int:
        """Keep the newest dead letters, count all."""
        self.dead_letters.add(worked.misfits)
        n = 0
        for name, output in worked.outputs.items():
            dead, batch = output.dead, worked.batches[name]
            kept_from = max(0, len(dead.rows) - self.dead_letters.capacity)
            for at, (row, query_id, failure) in enumerate(
                zip(dead.rows, dead.query_ids, dead.failures, strict=True)
            ):
                if at < kept_from:
                    self.dead_letters.count(failure.error, int(query_id))
                    continue
                letter = DeadLetter(
                    round_number=round_.number,
                    stream=batch.stream,
                    row=batch.rows.slice(int(row), 1).to_pylist()[0],
                    error=failure.error,
                    message=failure.message,
                    query_id=int(query_id),
                    query=self.catalog.name_of(int(query_id)),
                    arrival=int(batch.arrival[row]),
                )
                self.dead_letters.add([letter])
            n += len(dead.rows)
        return n

    def _deliver(self, outcome: Outcome, seconds: float) -> None:
        round_ = outcome.round
        self._announce(
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
        if self.callbacks and outcome.outputs is not None:
            told = np.fromiter(self.callbacks, np.int32)
            for output in outcome.outputs.values():
                for part in output.parts:
                    for query_id in np.intersect1d(told, part.query_ids):
                        self._call_back(int(query_id), round_.number)

    def _call_back(self, query_id: int, round_number: int) -> None:
        for callback in list(self.callbacks.get(query_id, ())):
            try:
                callback(query_id, round_number)
            except Exception as error:  # a subscriber's fault is told, and never reaches another
                message = f"{type(error).__name__}: {error}"
                self._announce(CallbackFailed(round_number, self.catalog.name_of(query_id), message))

    def _announce(self, event: Event) -> None:
        self.events.append(event)
        for listener in self.listeners:
            listener(event)

    def _remember(self, token: str, outcome: Outcome) -> None:
        self._tokens[token] = outcome
        if len(self._tokens) > REMEMBERED_TOKENS:
            self._tokens.popitem(last=False)
        self._tokens_with_outputs.append(token)
        if len(self._tokens_with_outputs) > REMEMBERED_OUTPUTS:
            old = self._tokens_with_outputs.popleft()
            self._tokens[old] = replace(self._tokens[old], outputs=None)

    # ----------------------------------------------------------------------------------------- streams

    def forget_stream(self, name: str) -> None:
        """A dropped stream leaves nothing: declared again, it starts anew."""
        self._stages.pop(name, None)
        self.progress.pop(name, None)
        self.recent.pop(name, None)

    def context(self) -> Context:
        """For judging rows outside a round: the time of the last one."""
        return Context(self._last_now_us or self._clock(), self.time_zone, self.functions.call)

    def stages(self) -> Iterator[tuple[str, FilterStage]]:
        return iter(self._stages.items())

    def now_us(self) -> int:
        return self._clock()

    def check_open(self) -> None:
        if self.is_closed:
            raise ClosedError("this engine was closed", hint="Open another with eddyline.open().")

    def _recent(self, name: str) -> RecentRows:
        rows = self.recent.get(name)
        if rows is None:
            rows = self.recent[name] = RecentRows(self.limits.recent_rows, self.limits.recent_bytes)
        return rows


def _arrival_numbers(inputs: Mapping[str, Ingested], first: int) -> dict[str, npt.NDArray[np.int64]]:
    """The data's own numbers where it has them, else one after the other in the order the streams were given."""
    given = [i.arrival for i in inputs.values() if i.arrival is not None and len(i.arrival)]
    unnumbered = [name for name, i in inputs.items() if i.arrival is None and i.rows.num_rows]
    if given and unnumbered:
        raise SchemaError(
            "some streams of this push have an _arrival column and some do not",
            detail=f"Without: {', '.join(unnumbered)}.",
            hint="Number the rows of all of them, or of none.",
        )
    if given:
        together = np.sort(np.concatenate(given))
        if together[0] < first:
            raise SchemaError(
                f"_arrival {int(together[0])} is not after the rows already seen",
                detail=f"The last row had {first - 1}.",
                hint="Arrival numbers only grow; leave the column out to have rows numbered as they come.",
            )
        if (np.diff(together) == 0).any():
            twice = int(together[np.flatnonzero(np.diff(together) == 0)[0]])
            raise SchemaError(f"_arrival {twice} is there in two streams", hint="Every row needs its own.")
    numbers: dict[str, npt.NDArray[np.int64]] = {}
    for name, ingested in inputs.items():
        n = ingested.rows.num_rows
        if given:
            numbers[name] = ingested.arrival if ingested.arrival is not None else np.empty(0, np.int64)
        else:
            numbers[name] = np.arange(first, first + n, dtype=np.int64)
            first += n
    return numbers


def _event_times(stream: Stream, rows: pa.RecordBatch) -> pa.Array | None:
    """The stream's time column as microseconds; numbers stand for themselves."""
    if stream.time is None:
        return None
    column = rows.column(stream.time)
    return column.view(pa.int64()) if column.type in (TIMESTAMP, TIMESTAMP_NTZ) else column.cast(pa.int64())


def _advanced(
    before: StreamProgress, stream: Stream, times: pa.Array | None, is_late: npt.NDArray[np.bool_]
) -> StreamProgress:
    latest = before.max_time_us
    if times is not None and len(times) > times.null_count:
        newest = pc.max(times).as_py()
        latest = newest if latest is None else max(latest, newest)
    return StreamProgress(
        n_rows=before.n_rows + len(is_late),
        max_time_us=latest,
        watermark_us=None if latest is None else latest - stream.lateness_us,
        n_late=before.n_late + int(is_late.sum()),
    )
