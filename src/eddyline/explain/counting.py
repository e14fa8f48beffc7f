"""An engine in numbers: what it did since it was opened, and its present state.

What rounds and sinks announce is counted as it comes (`Tally`); the rest is looked up on request, under one short hold of
the engine's lock: nothing here grows with the number of queries, alerts, rounds or files.
"""

from __future__ import annotations

import bisect
import shutil
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eddyline.documents import Partition
from eddyline.engine import RoundEngine, stream_states
from eddyline.events import (
    Event,
    FiltersReordered,
    ResultsDropped,
    RoundCommitted,
    RoundFailed,
    RoundMeasured,
    SinkFailed,
    SinkOvertaken,
    SinkRefused,
)
from eddyline.explain.aggregate_state import AggregateCounters, aggregate_counters
from eddyline.explain.join_state import JoinCounters, held_facts, join_counters
from eddyline.explain.partitions import partitions_of
from eddyline.filters import FilterStage
from eddyline.functions import FunctionCounters
from eddyline.model import QueryState
from eddyline.proof import AuditCounters
from eddyline.runtime import SinkStatus

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Histogram:
    """How often something took how long: `counts[k]` up to `bounds_s[k]`, and the last of all longer ones."""

    __slots__ = ("bounds_s", "counts", "total_s")

    def __init__(self, bounds_s: Sequence[float] = BUCKETS_S) -> None:
        self.bounds_s = tuple(bounds_s)
        self.counts = [0] * (len(self.bounds_s) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect.bisect_left(self.bounds_s, seconds)] += 1
        self.total_s += seconds

    def frozen(self) -> Seconds:
        """What was counted so far."""
        return Seconds(self.bounds_s, tuple(self.counts), self.total_s)


@dataclass(frozen=True, slots=True)
class Seconds:
    """A histogram as it was: `counts` has one entry more than `bounds_s`, of all that took longer."""

    bounds_s: tuple[float, ...] = BUCKETS_S
    counts: tuple[int, ...] = (0,) * (len(BUCKETS_S) + 1)
    total_s: float = 0.0

    @property
    def n(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class StreamCounters:
    """A stream. Rows are counted since it was declared."""

    name: str
    n_rows: int
    n_late: int
    n_queries: int
    watermark_lag_s: float | None  # how far its event time is behind the clock; None without one
    index_bytes: int
    filters: FilterCounters
    kept_rows: int = 0  # for joins
    kept_bytes: int = 0
    partition_lag_s: Mapping[str, float] = field(default_factory=dict)  # the same by partition, of several


@dataclass(frozen=True, slots=True)
class FilterCounters:
    """The expensive conditions of a stream's queries, since rows first came to them in this process."""

    n_evaluations: int = 0
    n_sampled_evaluations: int = 0  # made only to know the filters better
    seconds: float = 0.0  # in filters
    overhead_s: float = 0.0  # of choosing among them
    n_reorders: int = 0


@dataclass(frozen=True, slots=True)
class AlertNumbers:
    """Alerts of all queries: what happened since the engine was opened, and how many are open, by state."""

    n_fired: int
    n_resolved: int
    n_suppressed: int
    n_unformatted: int
    n_withheld: int  # messages, by silences
    n_open: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SinkCounters:
    """A sink of the pipeline that runs. It counts results, or messages if it takes alerts; `n_behind` rounds, or messages."""

    name: str
    type: str
    takes: str
    n_behind: int
    n_delivered: int
    n_failures: int
    n_lost: int  # removed by retention before it took them
    n_refused: int  # dead letters now
    is_failing: bool
    message: str


@dataclass(frozen=True, slots=True)
class StoreCounters:
    """What the home takes on the disk. `kinds` has the files and bytes of results, dead letters and captured rows."""

    kinds: Mapping[str, tuple[int, int]]
    catalog_bytes: int
    free_bytes: int
    removed: Mapping[
        str, int
    ]  # results, dead letters and rows as they came, by retention, since the home is there


@dataclass(frozen=True, slots=True)
class Totals:
    """What a home has had in all, through restarts; an engine in memory, since it was opened. Rows: of its streams."""

    n_rounds: int
    n_rows: int
    n_results: int
    n_dead: int
    n_late: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What `Engine.counters` gives. Numbers are since the engine was opened, unless it says otherwise."""

    opened_us: int
    at_us: int
    version: int
    last_round: int
    n_rounds: int
    n_rounds_failed: int
    n_rows: int
    n_results: int
    n_results_dropped: int  # left memory before they were read
    n_dead: int
    n_late: int
    total: Totals
    round_seconds: Seconds
    n_tasks: int  # of rounds that were shared among workers
    task_cpu_s: float
    queries: Mapping[str, int]  # by state
    streams: tuple[StreamCounters, ...]
    alerts: AlertNumbers
    sinks: tuple[SinkCounters, ...]
    functions: Mapping[str, FunctionCounters]
    events: Mapping[str, int]  # by name
    joins: JoinCounters
    aggregates: AggregateCounters
    store: StoreCounters | None  # None: the engine is in memory
    audit: AuditCounters | None  # None: there is none

    @property
    def index_bytes(self) -> int:
        """Of the predicate indexes of all streams, in this process."""
        return sum(stream.index_bytes for stream in self.streams)


@dataclass(slots=True)
class _Counted:
    """What events say."""

    n_rounds: int = 0
    n_rounds_failed: int = 0
    n_rows: int = 0
    n_results: int = 0
    n_results_dropped: int = 0
    n_dead: int = 0
    n_late: int = 0
    n_tasks: int = 0
    task_cpu_s: float = 0.0
    events: Counter[str] = field(default_factory=Counter)
    sink_failures: Counter[str] = field(default_factory=Counter)
    sink_lost: Counter[str] = field(default_factory=Counter)
    sink_refused: Counter[str] = field(default_factory=Counter)
    reorders: Counter[str] = field(default_factory=Counter)  # of filters, by stream


class Tally:
    """Counts what an engine announces, from its opening on. Safe from any thread: some is announced without the lock."""

    def __init__(self) -> None:
        self.opened_us = time.time_ns() // 1000
        self._guard = threading.Lock()
        self._counted = _Counted()
        self._round_seconds = Histogram()

    def heard(self, event: Event) -> None:
        with self._guard:
            self._count(event)

    def _count(self, event: Event) -> None:
        counted = self._counted
        counted.events[type(event).__name__] += 1
        match event:
            case RoundCommitted():
                counted.n_rounds += 1
                counted.n_rows += event.n_rows
                counted.n_results += event.n_results
                counted.n_dead += event.n_dead
                counted.n_late += event.n_late
                self._round_seconds.add(event.seconds)
            case RoundMeasured():
                counted.n_tasks += event.n_tasks
                counted.task_cpu_s += event.cpu_seconds
            case RoundFailed():
                counted.n_rounds_failed += 1
            case ResultsDropped():
                counted.n_results_dropped += event.n_results
            case SinkFailed():
                counted.sink_failures[event.sink] += 1
            case SinkOvertaken():
                counted.sink_lost[event.sink] += event.n_results
            case SinkRefused():
                counted.sink_refused[event.sink] += event.n_results
            case FiltersReordered():
                counted.reorders[event.stream.lower()] += 1
            case _:
                pass

    def snapshot(self) -> tuple[_Counted, Seconds]:
        """A copy of what was counted so far."""
        with self._guard:
            counted = self._counted
            copied = replace(
                counted,
                events=counted.events.copy(),
                sink_failures=counted.sink_failures.copy(),
                sink_lost=counted.sink_lost.copy(),
                sink_refused=counted.sink_refused.copy(),
                reorders=counted.reorders.copy(),
            )
            return copied, self._round_seconds.frozen()


def counters(
    rounds: RoundEngine, tally: Tally, sinks: Sequence[SinkStatus] = (), audit: AuditCounters | None = None
) -> Counters:
    """The engine in numbers, with those of the sinks and of the audit that run on it. Raises ClosedError."""
    with rounds.lock:
        rounds.check_open()
        counted, round_seconds = tally.snapshot()
        alerting = rounds.alerting
        done = alerting.counters
        alerts = AlertNumbers(
            done.n_fired,
            done.n_resolved,
            done.n_suppressed,
            done.n_unformatted,
            done.n_withheld,
            alerting.n_open(),
        )
        streams = _streams(rounds, counted)
        joins, aggregates = join_counters(rounds), aggregate_counters(rounds)
        queries = {state.value: n for state, n in rounds.catalog.queries.n_by_state().items()}
        functions = {name: replace(each) for name, each in rounds.functions.counters.items()}
        version, last_round = rounds.catalog.version, rounds.last_round
        total = Totals(
            n_rounds=last_round,
            n_rows=sum(stream.n_rows for stream in streams),
            n_results=rounds.n_results_before + counted.n_results,
            n_dead=rounds.dead_letters.n_total,
            n_late=sum(stream.n_late for stream in streams),
        )
        store = rounds.store
        folder, kinds, removed = store.folder, store.file_counts(), store.removed_counts()
    return Counters(
        opened_us=tally.opened_us,
        at_us=time.time_ns() // 1000,
        version=version,
        last_round=last_round,
        n_rounds=counted.n_rounds,
        n_rounds_failed=counted.n_rounds_failed,
        n_rows=counted.n_rows,
        n_results=counted.n_results,
        n_results_dropped=counted.n_results_dropped,
        n_dead=counted.n_dead,
        n_late=counted.n_late,
        total=total,
        round_seconds=round_seconds,
        n_tasks=counted.n_tasks,
        task_cpu_s=counted.task_cpu_s,
        queries=queries,
        streams=streams,
        alerts=alerts,
        sinks=tuple(_sink(status, counted) for status in sinks),
        functions=functions,
        events=dict(counted.events),
        joins=joins,
        aggregates=aggregates,
        store=None if folder is None else _store(folder, kinds, removed),
        audit=audit,
    )


def _streams(rounds: RoundEngine, counted: _Counted) -> tuple[StreamCounters, ...]:
    now_us = rounds.now_us()
    stages = dict(rounds.stages())
    held = held_facts(rounds)
    found = []
    streams = rounds.catalog.streams()
    for stream, state in zip(streams, stream_states(rounds, streams), strict=True):
        watermark_us = state.watermark_us
        lag_s = None if watermark_us is None else (now_us - watermark_us) / 1e6
        stage = stages.get(stream.name.lower())
        found.append(
            StreamCounters(
                name=stream.name,
                n_rows=state.n_rows,
                n_late=state.n_late,
                n_queries=state.n_queries,
                watermark_lag_s=lag_s,
                index_bytes=0 if stage is None else stage.index.nbytes,
                filters=_filters(stage, counted.reorders[stream.name.lower()]),
                kept_rows=held.get(stream.name.lower(), {}).get("rows", 0),
                kept_bytes=held.get(stream.name.lower(), {}).get("nbytes", 0),
                partition_lag_s=_partition_lags(partitions_of(rounds, stream.name), now_us),
            )
        )
    return tuple(found)


def _partition_lags(partitions: Sequence[Partition], now_us: int) -> dict[str, float]:
    """How far partitions are behind the clock, where there are several."""
    known = [(each.name, each.watermark_us) for each in partitions if each.watermark_us is not None]
    return {name: (now_us - mark) / 1e6 for name, mark in known} if len(partitions) > 1 else {}


def _filters(stage: FilterStage | None, n_reorders: int) -> FilterCounters:
    if stage is None:
        return FilterCounters()
    totals = stage.router.totals
    return FilterCounters(totals.n_asked_rows, totals.n_extra, totals.seconds, totals.overhead_s, n_reorders)


def _sink(status: SinkStatus, counted: _Counted) -> SinkCounters:
    name = status.name
    return SinkCounters(
        name=name,
        type=status.type,
        takes=status.takes,
        n_behind=status.n_behind,
        n_delivered=status.n_delivered,
        n_failures=counted.sink_failures[name],
        n_lost=counted.sink_lost[name],
        n_refused=counted.sink_refused[name],
        is_failing=status.is_failing,
        message=status.message,
    )


def _store(folder: Path, kinds: Mapping[str, tuple[int, int]], removed: Mapping[str, int]) -> StoreCounters:
    catalog_bytes = sum(
        path.stat().st_size for name in ("catalog.db", "catalog.db-wal") if (path := folder / name).exists()
    )
    return StoreCounters(kinds, catalog_bytes, shutil.disk_usage(folder).free, removed)


def busiest(rounds: RoundEngine, most: int) -> dict[str, list[dict[str, Any]]]:
    """Queries with most results ("results") and with most dead letters ("failing"), the most first. The lock is held."""
    ids, counts = rounds.results.most_produced(2 * most)  # some of them may be dropped
    by_results = [_query_entry(rounds, int(i), int(n)) for i, n in zip(ids, counts, strict=True)]
    dead = rounds.dead_letters.by_query.most_common(2 * most)
    by_dead = [_query_entry(rounds, i, rounds.results.n_produced_by(i)) for i, _ in dead]
    return {
        "results": [query for query in by_results if query is not None][:most],
        "failing": [query for query in by_dead if query is not None][:most],
    }


def _query_entry(rounds: RoundEngine, query_id: int, n_results: int) -> dict[str, Any] | None:
    """One query in a list, or None if it was dropped."""
    state = rounds.catalog.queries.state(query_id)
    if state is QueryState.DROPPED:
        return None
    registration = rounds.catalog.queries.registration(query_id)
    return {
        "id": query_id,
        "name": registration.name(query_id),
        "owner": registration.properties.owner,
        "state": state.value,
        "n_results": n_results,
        "n_dead": rounds.dead_letters.by_query[query_id],
    }
