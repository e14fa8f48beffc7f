"""What the engine announces while it runs: plain records, past tense, safe to print or to send."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened in round `round_number`."""

    round_number: int


@dataclass(frozen=True, slots=True)
class RoundCommitted(Event):
    """A round is final: its rows are counted, its results can be read."""

    version: int
    n_rows: int
    n_results: int
    n_dead: int
    n_late: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RoundMeasured(Event):
    """What a round that was shared among tasks took: its own steps, and the work of all tasks together."""

    n_tasks: int
    nbytes: int  # of rows, as they were filtered
    cpu_seconds: float  # of all tasks
    longest_task_s: float
    plan_s: float
    work_s: float  # from handing out the tasks until the last was back, waiting included
    commit_s: float


@dataclass(frozen=True, slots=True)
class AuditDifference(Event):
    """Another engine finds other results for a query in this round: rows it misses, should not have, has with other values."""

    query: str
    query_id: int
    generation: int
    n_missing: int
    n_unexpected: int
    n_different: int
    example: str


@dataclass(frozen=True, slots=True)
class ResultsDropped(Event):
    """Unread results left their ring."""

    n_results: int


@dataclass(frozen=True, slots=True)
class GroupsRefused(Event):
    """A class of aggregates over these streams has as many groups as it may: rows of new ones are refused from this round on."""

    streams: str
    n_rows: int  # in this round
    most_groups: int


@dataclass(frozen=True, slots=True)
class CallbackFailed(Event):
    """A subscriber's callback raised; the results stay readable. Without a query: one that listens to events."""

    query: str
    message: str


@dataclass(frozen=True, slots=True)
class SubscriberOvertaken(Event):
    """A callback is slower than its queue is long: so many were dropped since the last such event. Without a query: messages."""

    query: str
    n_dropped: int


@dataclass(frozen=True, slots=True)
class StoreFileDamaged(Event):
    """A file of the store is not what was written, or is gone: what it held is missing, everything else is there."""

    file: str
    message: str


@dataclass(frozen=True, slots=True)
class CleanupFailed(Event):
    """Files past retention could not be removed; it is tried again later."""

    message: str


@dataclass(frozen=True, slots=True)
class RetentionRemoved(Event):
    """What was past its limits went: so many results, dead letters, rows as they came, messages, versions or rounds, since the
    last such event. Of rounds up to `until_us`; of so many queries or streams, those that had most of it with how much."""

    what: str
    n: int
    until_us: int | None  # now() of the newest of the rounds; None where that is not known
    n_names: int
    names: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class AlertsDelayed(Event):
    """A round is final, but what it means for alerts could not be written; the next round makes up for it."""

    message: str


@dataclass(frozen=True, slots=True)
class MemoryRanOut(Event):
    """A round is final, but a step after it had no memory: its results can be read, not every callback has heard them."""

    step: str  # callbacks, statistics or cleanup
    message: str


@dataclass(frozen=True, slots=True)
class KernelsCompiling(Event):
    """The inner loops are being compiled for this machine, once, and how far that is; the round waits for them.

    Said when it begins, now and then, and when all parts are done; `left_s` is judged by what those that are took.
    """

    n_done: int
    n_parts: int
    seconds: float
    left_s: float
    message: str


@dataclass(frozen=True, slots=True)
class FunctionRestarted(Event):
    """The process of an isolated function was lost in this round, so many times, and started anew. The last time says why."""

    function: str
    n_lost: int
    message: str


@dataclass(frozen=True, slots=True)
class FunctionSuspended(Event):
    """A function only failed: the queries that need it, in this version, see no rows until they are resumed. Some by name and
    owner."""

    function: str
    version: str
    message: str
    n_queries: int
    queries: tuple[tuple[str, str], ...]
    owners: tuple[str, ...]  # of all of them


@dataclass(frozen=True, slots=True)
class IndexBuilt(Event):
    """The predicate index of a stream, or a part of it, was built anew beside the rounds."""

    stream: str
    n_queries: int
    seconds: float


@dataclass(frozen=True, slots=True)
class QueriesNotIndexed(Event):
    """The predicate index cannot be built with these queries: they see no rows until they are resumed. Some by name and owner."""

    message: str
    n_queries: int
    queries: tuple[tuple[str, str], ...]
    owners: tuple[str, ...]  # of all of them


@dataclass(frozen=True, slots=True)
class IndexBuildFailed(Event):
    """It could not be; the rounds go on with the index they have."""

    stream: str
    message: str


@dataclass(frozen=True, slots=True)
class FiltersReordered(Event):
    """Expensive filters run in another order: at position `at` (from 0), `came` now drops more per second than `left`."""

    stream: str
    policy: str
    order: tuple[str, ...]  # by their SQL
    came: str
    left: str
    at: int
    came_per_s: float
    left_per_s: float


@dataclass(frozen=True, slots=True)
class ProbesReordered(Event):
    """New rows of a join's input look for partners in another order: at position `at` (from 0) in `came` instead of `left`."""

    join: str
    input: str
    policy: str
    order: tuple[str, ...]  # of the other inputs
    came: str
    left: str
    at: int


@dataclass(frozen=True, slots=True)
class ConditionsMoved(Event):
    """Expensive conditions on a join's input are asked before its rows look for partners, or after: seconds of a row each way, of
    asking and of looking; the share of rows that pass the conditions, and of rows that are asked if it is done after."""

    join: str
    input: str
    side: str
    before_s: float
    after_s: float
    udf_s: float
    probe_s: float
    pass_rate: float
    match_rate: float


@dataclass(frozen=True, slots=True)
class FilterDrifted(Event):
    """A filter passes another share of rows than it did, or takes another time; what was sampled before may no longer hold."""

    stream: str
    filter: str
    what: str  # pass rate or cost
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class PolicySwitched(Event):
    """Another policy decides on the order of expensive filters, because it would have been cheaper: seconds on a row."""

    stream: str
    before: str
    after: str
    before_s: float
    after_s: float


# --------------------------------------------------------------------------------------------- a running pipeline


@dataclass(frozen=True, slots=True)
class FileSetAside(Event):
    """A file of a source, or the rest of it, is not read; it is a dead letter too."""

    stream: str
    file: str
    message: str


@dataclass(frozen=True, slots=True)
class FileChanged(Event):
    """A file is not what it was when it was read."""

    stream: str
    file: str
    message: str


@dataclass(frozen=True, slots=True)
class ColumnAdded(Event):
    """A source has a new column, and its stream has it from now on; rows before have NULL there."""

    stream: str
    column: str
    type: str


@dataclass(frozen=True, slots=True)
class TimeImplausible(Event):
    """A row happened before 1990, or more than a year from now: its time may count in another unit. Reported once per stream."""

    stream: str
    column: str
    message: str


@dataclass(frozen=True, slots=True)
class ColumnIgnored(Event):
    """A source has values that are not read. Reported once."""

    stream: str
    column: str
    message: str


@dataclass(frozen=True, slots=True)
class QueriesSuspended(Event):
    """A source no longer has what these queries need: they see no rows until they are resumed. Some by name and owner."""

    stream: str
    column: str
    message: str
    n_queries: int
    queries: tuple[tuple[str, str], ...]
    owners: tuple[str, ...]  # of all of them


@dataclass(frozen=True, slots=True)
class TableLoaded(Event):
    """A static table is up to date: it has `n_rows` now, so many of them new or different, and so many are gone."""

    table: str
    n_rows: int
    n_changed: int
    n_deleted: int


@dataclass(frozen=True, slots=True)
class TableFailed(Event):
    """A new version of a static table cannot be loaded: the rows from before stay. Reported once; it is tried again."""

    table: str
    message: str


@dataclass(frozen=True, slots=True)
class SourceClosed(Event):
    """A stream was dropped: its source is no longer read."""

    stream: str


@dataclass(frozen=True, slots=True)
class SourceFailed(Event):
    """A source cannot be read now; it is tried again."""

    stream: str
    message: str


@dataclass(frozen=True, slots=True)
class SourceRecovered(Event):
    """A source that failed is read again, and its rows are committed: after so many failures, in so many seconds."""

    stream: str
    n_failures: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SourceStarted(Event):
    """A source is read from here on; what it had before is not."""

    stream: str
    message: str


@dataclass(frozen=True, slots=True)
class MessagesLost(Event):
    """Messages of a topic were gone before they were read, and it was said to go on. `n_offsets` is None if that is not known."""

    stream: str
    n_offsets: int | None
    message: str


@dataclass(frozen=True, slots=True)
class RoundFailed(Event):
    """A round could not be committed, so it has not happened; its rows are tried again."""

    message: str


@dataclass(frozen=True, slots=True)
class SinkFailed(Event):
    """A sink did not take results; they are kept and offered again."""

    sink: str
    message: str


@dataclass(frozen=True, slots=True)
class SinkRecovered(Event):
    """A sink that failed takes results again: after so many failures, in so many seconds."""

    sink: str
    n_failures: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SinkRefused(Event):
    """The receiver of a sink will never take these results, or messages: they are dead letters now."""

    sink: str
    n_results: int
    message: str


@dataclass(frozen=True, slots=True)
class SinkUnknown(Event):
    """A query names a sink that does not exist. Reported once for each pair."""

    query: str
    sink: str


@dataclass(frozen=True, slots=True)
class SinkOvertaken(Event):
    """Results, or messages, a sink had not taken were removed by retention."""

    sink: str
    n_results: int
