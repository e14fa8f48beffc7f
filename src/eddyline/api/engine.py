"""The engine in the user's hands: declare streams, register queries, push rows."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, overload
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from eddyline.alerts import (
    Alert,
    AlertList,
    acknowledge,
    add_silence,
    alert_history,
    end_silence,
    is_pattern,
    messages,
    on_message,
    open_alerts,
    silences,
)
from eddyline.api.commands import Commands
from eddyline.api.matches import Matches
from eddyline.api.query import Query, QueryPage, QuerySet
from eddyline.api.run_log import SummaryLog
from eddyline.api.running import Running
from eddyline.catalog import Access, Database, Silence
from eddyline.control import Backup, Control, backup_of
from eddyline.delivery import Result
from eddyline.durations import duration_us
from eddyline.engine import (
    Durable,
    Limits,
    MemoryStore,
    Retention,
    RoundEngine,
    StreamState,
    declare,
    drop_queries,
    drop_stream,
    stream_state,
    wall_clock_us,
)
from eddyline.errors import (
    HomeError,
    PropertyError,
    QueryStateError,
    SchemaError,
    StreamChangedError,
)
from eddyline.events import (
    AuditDifference,
    Event,
    FunctionSuspended,
    IndexBuildFailed,
    KernelsCompiling,
    QueriesNotIndexed,
    QueriesSuspended,
    TableFailed,
)
from eddyline.explain import (
    TRIAL_ROWS,
    TRIAL_S,
    AggregatesExplanation,
    Counters,
    Explanation,
    FiltersExplanation,
    IndexExplanation,
    JoinsExplanation,
    Partition,
    SizeHistory,
    Tally,
    aggregate_facts,
    class_sizes,
    counters,
    explain,
    explain_index,
    filter_facts,
    has_filters,
    held_sizes,
    join_facts,
    partitions_of,
    try_record,
)
from eddyline.filters import Trial
from eddyline.functions import FunctionCounters
from eddyline.model import DeadLetter, Message, Stream
from eddyline.notebook import html_table
from eddyline.pipeline import RunLimits, share_of
from eddyline.proof import AuditCounters, Proof
from eddyline.receipts import Audit, Receipt, prove, receipt, record_written_out
from eddyline.routing import AUTO, routing_options
from eddyline.rules import Registrar, find_query
from eddyline.runtime import (
    RunProgress,
    SinkStatus,
    SourceStatus,
    StaticTables,
    Subscribers,
    Subscription,
    WatchedPipeline,
    WhenFull,
)
from eddyline.sources import StaticTable, infer_schema, ingest, ingest_changes, static_table, table_of
from eddyline.spark import results_frame, write_results_table
from eddyline.sql import AlterView, CreateStream, CreateView, Drop, Select, parse_statements, size_bytes
from eddyline.storage import local_folder
from eddyline.stream_properties import is_static, with_join_properties
from eddyline.time_properties import time_format, time_unit, with_time
from eddyline.types import type_name


def open_engine(
    home: str | os.PathLike[str] | None = None,
    *,
    time_zone: str | None = None,
    results_per_query: int = 100,
    result_bytes: int = 64 << 20,
    recent_rows: int = 10_000,
    dead_letters: int = 10_000,
    groups: int | None = None,
    memory: int | str | None = None,
    retention: Retention | None = None,
    clock: Callable[[], int] | None = None,
    seed: int = 0,
    audit: str | float | None = None,
    routing: str | Mapping[str, Any] = AUTO,
    strict: bool = False,
    create: bool = False,
) -> Engine:
    """Open an engine.

    home                a folder to keep everything in, made if it is not there; None: in memory
    time_zone           of the session, as in Spark: how TIMESTAMP shows as text, and what a time without zone means;
                        UTC if not given, and part of the home from its first day on
    results_per_query   how many results of each query stay in memory when there is no room for all
    result_bytes        how much memory results may take; a home keeps those that leave
    recent_rows         how many rows of each stream are kept for why_not
    dead_letters        how many dead letters are kept in memory
    groups              how many groups a class of aggregates may keep: rows of further ones are refused and counted; as many as
                        come if not given
    memory              how much the process may hold, such as "4 GB": rows for which there is no room are refused; 90 % of what
                        the machine or the container has if not given
    retention           how long and how much is kept in the home: results, dead letters, captured rows, earlier versions, rounds;
                        the setting stored in the home if not given
    clock               microseconds since 1970, for now(); the machine's clock if not given
    audit               the share of rounds that another engine evaluates again, such as "0.1 %" (docs/receipts.md); needs a home
    routing             which policy orders expensive conditions, such as "sweep", or with its options {"policy": "sweep",
                        "window": 200} (docs/filters.md); never changes results
    strict              expensive conditions run in the order of the text, each only where all before it are true, and an error
                        ends the pair; without it a false condition settles a pair, whatever others do
    create              make a home also in a folder that holds other files, which is refused otherwise
    """
    if time_zone is not None:
        try:
            ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError):
            raise PropertyError(
                f"there is no time zone {time_zone!r}", hint='Name one such as "UTC" or "Europe/Berlin".'
            ) from None
    limits = Limits(
        results_per_query,
        result_bytes,
        recent_rows,
        dead_letters=dead_letters,
        groups=groups,
        memory=None if memory is None else size_bytes(memory),
    )
    for name in ("results_per_query", "result_bytes", "recent_rows", "dead_letters", "groups", "memory"):
        if getattr(limits, name) is not None and getattr(limits, name) < 1:
            raise PropertyError(f"{name} is {getattr(limits, name)}", hint="Give a number of at least 1.")
    options = routing_options(routing, is_strict=strict)
    if home is None:
        if audit is not None:
            raise PropertyError(
                "an engine in memory keeps no rows that an audit could look at again",
                hint='Open it with a home: eddyline.open("folder/", audit=…).',
            )
        return Engine(
            RoundEngine(
                store=MemoryStore(time_zone or "UTC"),
                limits=limits,
                clock=clock or wall_clock_us,
                seed=seed,
                routing=options,
            )
        )
    folder = local_folder(home)
    durable = Durable(folder, time_zone=time_zone, retention=retention, clock=clock, create=create)
    try:
        with durable.database.opening():
            rounds = RoundEngine(
                store=durable,
                limits=limits,
                clock=clock or wall_clock_us,
                seed=seed,
                routing=options,
            )
    except BaseException:
        durable.close()
        raise
    engine = Engine(rounds)
    if audit is not None:
        try:
            engine.start_audit(audit)
        except BaseException:
            engine.close()
            raise
    return engine


_logger = logging.getLogger("eddyline")
IS_EVENT = {"is_event": True}  # in a log record: listeners of events have it already


def _log(event: Event) -> None:
    """Log what a user without listeners should still see."""
    if isinstance(event, KernelsCompiling):
        _logger.warning("eddyline: %s", event.message, extra=IS_EVENT)
    elif isinstance(event, IndexBuildFailed):
        line = "eddyline: the index of %s could not be built anew: %s"
        _logger.warning(line, event.stream, event.message, extra=IS_EVENT)
    elif isinstance(event, AuditDifference):
        n = event.n_missing + event.n_unexpected + event.n_different
        line = "the audit of round %d found %d results of %s that differ: %s"
        _logger.error("eddyline: " + line, event.round_number, n, event.query, event.example, extra=IS_EVENT)
    elif isinstance(event, TableFailed):
        line = "eddyline: table %s keeps the rows it has: %s"
        _logger.warning(line, event.table, event.message, extra=IS_EVENT)
    elif isinstance(event, (QueriesSuspended, QueriesNotIndexed, FunctionSuspended)):
        named = ", ".join(name for name, _ in event.queries[:10])
        line = "eddyline: %d queries suspended (%s): %s"
        _logger.warning(line, event.n_queries, named, event.message, extra=IS_EVENT)


class Engine:
    """Standing queries over streams, in one process. Safe to use from several threads; also a context manager."""

    def __init__(self, rounds: RoundEngine) -> None:
        self.rounds = rounds
        rounds.listen(_log)
        self.subscribers = Subscribers(rounds)
        self.registrar = Registrar(rounds)
        self.static_tables = StaticTables(rounds)
        self._control: Control | None = None
        self._access: Access | None = None
        self._audit: Audit | None = None
        self._pipeline: WatchedPipeline | None = None
        self._tally = Tally()
        self.summaries = SummaryLog(self)  # a line a minute in the log while it runs
        with rounds.lock:
            for event in rounds.announcements.events:  # of opening the home
                self._tally.heard(event)
            rounds.listen(self._tally.heard)
            self.join_history = SizeHistory(rounds, "streams", held_sizes)
            self.aggregate_history = SizeHistory(rounds, "classes", class_sizes)
            for history in (self.join_history, self.aggregate_history):
                rounds.listen(history.heard)

    # ----------------------------------------------------------------------------------------- streams

    def stream(
        self,
        name: str,
        schema: Any,
        *,
        time: str | None = None,
        time_unit: str | None = None,
        time_format: str | None = None,
        lateness: Any = 0,
        key: str | Sequence[str] | None = None,
        window: Any = None,
        idle: Any = None,
        delete: str | None = None,
    ) -> StreamHandle:
        """Declare a stream, or add nullable columns to one that is there.

        schema     a pyarrow schema, "sym STRING, price DOUBLE", a dict of types, example rows, or a DataFrame
        time       the column that says when a row happened, or such as "timestamp_millis(ts)"
        time_unit, time_format   how it says that, if it is a number ("s", "ms", "us", "ns") or text ("dd.MM.yyyy HH:mm", "iso")
        lateness   how far behind the newest a row may be before it counts as late, such as "5 seconds"
        key        the column or columns that identify a row, for a table kept at its latest rows
        window     what joins look back on if they do not say: "100 rows" or "10 minutes" (docs/joins.md)
        idle       after how long without rows joins no longer wait for this stream, such as "1 minute"
        delete     the BOOLEAN column that is true in rows that delete the row of their key
        """
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        declared = Stream(name, infer_schema(schema), lateness_us=duration_us(lateness or 0), key=keys)
        declared = with_time(declared, time, time_unit, time_format)
        return self._declare(with_join_properties(declared, window=window, idle=idle, delete=delete))

    def table(
        self,
        name: str,
        source: Any,
        *,
        key: str | Sequence[str] = (),
        schema: Any = None,
        format: str | None = None,
    ) -> StreamHandle:
        """Declare a static table and load it, in a round of its own: a keyed stream whose rows come all at once (docs/tables.md).

        source    the path of a Parquet, Arrow, CSV or JSON file or of a folder of them; an Arrow table; a DataFrame of pandas,
                  Polars or Spark
        key       the column or columns that tell rows apart; needed
        schema    as for `stream`, to have other types, or not all columns, of the data
        format    of the files, where their names do not tell

        A new version is loaded by `reload`, `tick`, or by itself while the engine runs over sources. The same version again
        does nothing.
        """
        keys = (key,) if isinstance(key, str) else tuple(key)
        zone = self.rounds.time_zone
        return self._table(
            *static_table(name, source, key=keys, schema=schema, file_format=format, time_zone=zone)
        )

    def _table(self, stream: Stream, table: StaticTable) -> StreamHandle:
        """Nothing is declared that cannot be read."""
        self.subscribers.check_may_run_round()
        rows = table.load()
        handle = self._declare(stream)
        self.static_tables.begin(table, rows, stream)
        return handle

    def reload(self, name: str | None = None) -> list[str]:
        """Load static tables that have changed where they lie, or the one of this name if it has; gives their names.

        Raises SourceError if one cannot be read, SchemaError if what is there is wrong; the rows from before then stay.
        """
        self.subscribers.check_may_run_round()
        return self.static_tables.reload(name)

    def _declare(self, stream: Stream) -> StreamHandle:
        return StreamHandle(self, declare(self.rounds, stream))

    def drop_stream(self, name: str) -> None:
        """Forget a stream that no query reads."""
        drop_stream(self.rounds, name)

    def streams(self) -> list[StreamHandle]:
        with self.rounds.lock:
            return [StreamHandle(self, stream) for stream in self.rounds.catalog.streams()]

    def start(
        self,
        spark: Any = None,
        *,
        sources: Mapping[str, Mapping[str, Any]] | None = None,
        master: str | None = None,
        confs: Mapping[str, str] | None = None,
        once: bool = False,
        job_from_bytes: int | None = None,
        bytes_per_job: int | None = None,
        rows_per_second: float | None = None,
        tick: Any = None,
        on_event: Callable[[Event], None] | None = None,
        on_progress: Callable[[RunProgress], None] | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> Running:
        """Run rounds on Spark over the sources of streams, in a thread of their own, until `stop` is called on what is returned.

        spark     the session to run on; without it one is started on this machine, or on `master`
        sources   where the rows of each stream come from, in the words of a pipeline file, by stream:
                  `{"trades": {"type": "files", "path": "in/", "format": "parquet"}}`
        once      end when everything that is there has been read
        job_from_bytes, bytes_per_job    from how much on what lies ready goes to workers (1 MB), how much into one round (256 MB)
        rows_per_second                  no source is read faster
        tick                             after so long without a round one without rows lets time pass ("10 seconds")
        on_event, on_progress, on_wait   are called with what happens, how far it is, and what the start of a session waits for

        With sources it ends by itself when all of them have ended, if they do; without, it goes on until `stop`.
        """
        stated_limits = {"job_from_bytes": job_from_bytes, "bytes_per_job": bytes_per_job}
        limits = RunLimits(
            **{name: value for name, value in stated_limits.items() if value is not None},
            rows_per_second=rows_per_second,
        )
        return Running(
            self,
            spark,
            sources=sources,
            master=master,
            confs=confs,
            once=once,
            limits=limits,
            tick_us=None if tick is None else duration_us(tick),
            on_event=on_event,
            on_progress=on_progress,
            on_wait=on_wait,
        )

    # ----------------------------------------------------------------------------------------- queries

    def query(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> Query:
        """Register a standing query: a SELECT, or a CREATE VIEW that names it.

        The same name and text again changes nothing; another text under the name replaces it in one version. A query that is
        paused stays so, unless `enabled` is given.
        `params` gives values to named parameters (`:limit`); a list serves `IN (:values)`.
        """
        with self.rounds.lock:
            self.rounds.check_open()
            return Query(self, self.registrar.one(text, name, params, properties))

    def query_many(
        self,
        queries: str | Iterable[Any] | Mapping[str, str],
        *,
        params: Any = None,
        name: str | None = None,
        **properties: Any,
    ) -> QuerySet:
        """Register many queries in one version, all or none.

        Either a template with named parameters and `params`, a table with a column for each (Arrow, pandas, Polars, dicts):
        every row is a query, named by formatting `name` with its values if given, such as "watch-{sym}". Or texts: a list,
        or a dict from names to texts.
        """
        with self.rounds.lock:
            self.rounds.check_open()
            if isinstance(queries, str):
                return QuerySet(self, self.registrar.template(queries, params, name, properties))
            if params is not None or name is not None:
                raise PropertyError(
                    "params and name go with a template",
                    hint="Give one SQL text, or put the names into a dict of texts.",
                )
            return QuerySet(self, self.registrar.texts(queries, properties))

    def queries(
        self, filter: str | Callable[[Query], bool] | None = None, page: int = 1, *, per_page: int = 100
    ) -> QueryPage:
        """Registered queries, a page at a time; `filter` is a part of the name or text, or a function."""
        if page < 1 or per_page < 1:
            raise PropertyError(f"page {page} of {per_page} queries each", hint="Both count from 1.")
        with self.rounds.lock:
            self.rounds.check_open()
            first, total = (page - 1) * per_page, 0
            shown: list[Query] = []
            for query_id in self.rounds.catalog.queries.ids():
                handle = Query(self, query_id)
                if filter is None or (
                    filter(handle) if callable(filter) else filter in f"{handle.name}\n{handle.text}"
                ):
                    if first <= total < first + per_page:
                        shown.append(handle)
                    total += 1
            return QueryPage(shown, total, page, per_page)

    def get(self, query: Query | str | int, *, owner: str = "") -> Query:
        """A registered query by name or id."""
        with self.rounds.lock:
            self.rounds.check_open()
            return Query(
                self, find_query(self.rounds, query.id if isinstance(query, Query) else query, owner)
            )

    def replace(
        self,
        query: Query | str | int,
        text: str,
        *,
        params: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> Query:
        """Give a query another text, in one version. Properties that are not given stay, and whether it runs or is paused."""
        with self.rounds.lock:
            handle = self.get(query)
            self.registrar.replace(handle.id, text, params, properties)
            return handle

    def drop(self, query: Query | str | int, *, cascade: bool = False) -> None:
        """End a query. One that others read as a view is refused, unless `cascade` ends them as well."""
        with self.rounds.lock:
            ids = [self.get(query).id]
            self.drop_ids(self.rounds.catalog.views.with_readers(ids) if cascade else ids)

    def drop_ids(self, ids: Iterable[int]) -> int:
        """End queries in one version; how many there were."""
        return drop_queries(self.rounds, ids)

    def sql(self, text: str) -> list[Any]:
        """Run statements separated by `;`: CREATE TABLE (a stream), CREATE VIEW (a query), ALTER VIEW, DROP, SELECT.

        Returns what each one made: a stream, a query, or None. Nothing is done if one of them is wrong by itself.
        """
        statements = parse_statements(text)
        return [self._run_or_load(statement) for statement in statements]

    def _run_or_load(self, statement: Any) -> Any:
        """Loading a table is a round, which a thread that holds the lock may not start."""
        if isinstance(statement, CreateStream) and is_static(statement.stream):
            with self.rounds.lock:
                known = self._known(statement)
            return known or self._table(*table_of(statement.stream, self.rounds.time_zone))
        return self._run(statement)

    def _known(self, statement: CreateStream) -> StreamHandle | None:
        """The stream of that name, if IF NOT EXISTS leaves it as it is. Raises SchemaError unless it may be replaced."""
        self.rounds.check_open()
        known = self.rounds.catalog.find_stream(statement.stream.name)
        if known is not None and statement.if_not_exists:
            return StreamHandle(self, known)
        if known is not None and not statement.replace:
            raise SchemaError(
                f"stream {known.name} already exists",
                hint="Write CREATE OR REPLACE TABLE to change it, or CREATE TABLE IF NOT EXISTS.",
            )
        return None

    def _run(self, statement: Any) -> Any:
        with self.rounds.lock:
            self.rounds.check_open()
            if isinstance(statement, Select):
                return self.query(statement.text)
            if isinstance(statement, CreateStream):
                return self._known(statement) or self._declare(statement.stream)
            if isinstance(statement, CreateView):
                return Query(self, self.registrar.view(statement))
            if isinstance(statement, AlterView):
                return Query(self, self.registrar.alter(statement))
            assert isinstance(statement, Drop), statement
            return self._drop_statement(statement)

    def _drop_statement(self, statement: Drop) -> None:
        catalog = self.rounds.catalog
        if statement.kind == "table":
            if statement.if_exists and catalog.find_stream(statement.name) is None:
                return
            self.drop_stream(statement.name)
            return
        if statement.if_exists and catalog.names.find(statement.name) is None:
            return
        self.drop(statement.name, cascade=statement.is_cascade)

    # ----------------------------------------------------------------------------------------- rows

    @overload
    def push(self, stream: str, data: Any, *, token: str | None = None) -> Matches: ...
    @overload
    def push(self, stream: Mapping[str, Any], *, token: str | None = None) -> Matches: ...
    def push(self, stream: str | Mapping[str, Any], data: Any = None, *, token: str | None = None) -> Matches:
        """Run a round over rows of one stream, or of several: `push("trades", rows)`, `push({"trades": a, "quotes": b})`.

        Rows are an Arrow table, a pandas or Polars DataFrame, or dicts. An `_arrival` column gives a total order. The same
        `token` again returns the round of the first time and does nothing, so a producer may retry, as long as the home keeps
        that round: 30 days and a million rounds, unless `retention` says otherwise; in memory the last 10,000 tokens are known.
        """
        inputs = dict(stream) if isinstance(stream, Mapping) else {stream: data}
        inputs = {name: list(rows) if isinstance(rows, Iterator) else rows for name, rows in inputs.items()}
        if isinstance(stream, Mapping) and data is not None:
            raise SchemaError(
                "push takes either a stream and its rows, or a dict of streams", hint="Put all into the dict."
            )
        self.subscribers.check_may_run_round()
        while True:
            with self.rounds.lock:
                self.rounds.check_open()
                declared = [self.rounds.catalog.stream(name) for name in inputs]
            ingested = {}
            try:
                for stream_, rows in zip(declared, inputs.values(), strict=True):
                    if stream_.name.lower() in ingested:
                        raise SchemaError(f"stream {stream_.name} is there twice in this push")
                    take = ingest_changes if stream_.is_keyed else ingest
                    ingested[stream_.name.lower()] = take(stream_, rows, self.rounds.time_zone)
            except MemoryError as error:
                raise self.rounds.memory.ran_out(error) from None
            try:
                matches = Matches(self, self.rounds.run_round(ingested, token=token))
            except StreamChangedError:
                continue
            pending = self.rounds.announcements.warnings
            while pending:
                warnings.warn(pending.popleft(), stacklevel=2)
            return matches

    def warm_up(self) -> None:
        """Load all inner loops now, compiling them if this machine never did, so that no round waits for one."""
        self.rounds.warm_up()

    def tick(self, now: int | None = None) -> Matches:
        """Run a round without rows, so that time passes; `now` in microseconds since 1970. Before it, static tables that have
        changed are loaded, if none was looked at within a second."""
        self.subscribers.check_may_run_round()
        self.static_tables.look()
        return Matches(self, self.rounds.run_round({}, now_us=now))

    # ----------------------------------------------------------------------------------------- looking

    def results_frame(
        self,
        spark: Any = None,
        *,
        queries: Sequence[Query | str | int] | None = None,
        after_round: int = 0,
        as_json: bool | None = None,
    ) -> Any:
        """The results that are kept, of later rounds and of all queries or some, as a Spark DataFrame (docs/spark.md)."""
        ids = None if queries is None else [self.get(query).id for query in queries]
        return results_frame(spark, self.rounds, queries=ids, after_round=after_round, as_json=as_json)

    def append_results(
        self,
        table: str,
        spark: Any = None,
        *,
        queries: Sequence[Query | str | int] | None = None,
        after_round: int = 0,
        as_json: bool = True,
    ) -> int:
        """Append the results a Spark table does not have yet, each once; returns the last round it has (docs/spark.md)."""
        ids = None if queries is None else [self.get(query).id for query in queries]
        return write_results_table(
            spark, self.rounds, table, queries=ids, after_round=after_round, as_json=as_json
        )

    def dead_letters(
        self, *, stream: str | None = None, query: Query | str | int | None = None
    ) -> DeadLetterList:
        """Rows that did not fit and (row, query) pairs that could not be decided, newest last."""
        with self.rounds.lock:
            letters = self.rounds.dead_letters
            query_id = None if query is None else self.get(query).id
            total = letters.n_total if query_id is None else letters.by_query[query_id]
            return DeadLetterList(letters.find(stream=stream, query_id=query_id), total)

    def explain(
        self, text: str, *, params: Mapping[str, Any] | None = None, **properties: Any
    ) -> Explanation:
        """How a query would be answered, without registering it. Refuses what `query` would refuse."""
        with self.rounds.lock:
            self.rounds.check_open()
            record, warnings = self.registrar.trial(text, params, properties)
            return explain(self.rounds, record, warnings)

    def try_query(
        self,
        text: str,
        *,
        params: Mapping[str, Any] | None = None,
        last: int = TRIAL_ROWS,
        samples: int = 5,
        timeout: float = TRIAL_S,
        **properties: Any,
    ) -> Trial:
        """How many of the `last` rows a query would have matched, without registering it. Refuses what `query` would refuse.

        samples   how many of the results to give, the newest first
        timeout   seconds after which it answers with the rows it has judged by then

        Rows are those kept for `why_not` (`recent_rows` of each stream). Of a join only the conditions on each stream are tried.
        """
        with self.rounds.lock:
            self.rounds.check_open()
            record, _ = self.registrar.trial(text, params, properties)
            record = record_written_out(self.rounds, record)
        return try_record(self.rounds, record, last=last, n_samples=samples, timeout_s=timeout)

    def explain_index(self) -> IndexExplanation:
        """The predicate index of every stream: its structures, how many queries each serves, what it costs a row."""
        with self.rounds.lock:
            self.rounds.check_open()
            return explain_index(self.rounds)

    def joins(self) -> JoinsExplanation:
        """What joins keep of each stream: rows and bytes held, and the keys they are found by; and which joins there are, and
        in which order new rows look for partners (docs/joins.md)."""
        with self.rounds.lock:
            self.rounds.check_open()
            return join_facts(self.rounds)

    def explain_aggregates(self, stream: str | None = None) -> AggregatesExplanation:
        """What aggregates keep, of a stream or of all, by class: the queries that share its rows, groups, slices, rows and bytes,
        when time changes an entry next, and late rows of the streams (docs/aggregates.md)."""
        with self.rounds.lock:
            self.rounds.check_open()
            return aggregate_facts(self.rounds, stream)

    def explain_filters(self, stream: str | None = None, *, bound: bool = True) -> FiltersExplanation:
        """The expensive conditions of the queries of a stream, or of all: their order and why it changed, what they cost, and
        what sharing them saves (docs/filters.md). `bound` says whether to work out how far that is from the best possible."""
        catalog = self.rounds.catalog
        joined = [each.name for each in catalog.plans.signatures() if has_filters(self.rounds, each)]
        named = [*(each.name for each in self.streams()), *joined] if stream is None else [stream]
        return FiltersExplanation([filter_facts(self.rounds, name, with_bound=bound) for name in named])

    def alerts(
        self,
        query: Query | str | int | None = None,
        *,
        owner: str | None = None,
        state: str | None = None,
        severity: str | None = None,
        silenced: bool | None = None,
        acknowledged: bool | None = None,
    ) -> AlertList:
        """Open alerts (docs/alerts.md), the oldest first: of one query or owner, in one state (pending, firing or held), of one
        severity, those that are silenced or acknowledged, or are not."""
        query_id = None if query is None else self.get(query, owner=owner or "").id
        found = open_alerts(
            self.rounds,
            query_id,
            owner,
            state,
            severity=severity,
            is_silenced=silenced,
            is_acknowledged=acknowledged,
        )
        return AlertList(found)

    def acknowledge(
        self,
        query: Query | str | int,
        key: Mapping[str, Any] | None = None,
        *,
        note: str = "",
        by: str = "",
        owner: str = "",
    ) -> list[Alert]:
        """Acknowledge an open alert: of the one with this key, or of all of the query. It holds until
        the alert resolves. Returns them."""
        handle = self.get(query, owner=owner)
        return acknowledge(self.rounds, handle.id, handle.name, key, note=note, by=by)

    def silence(
        self,
        query: Query | str | int,
        key: Mapping[str, Any] | None = None,
        *,
        for_: Any = None,
        until: Any = None,
        severity: str | None = None,
        reason: str = "",
        by: str = "",
        owner: str | None = None,
    ) -> Silence:
        """Send no messages of a query's alerts, or of those with this key, for so long or until a time. Alerts go on; what is
        left to say when it ends is sent then (docs/alerts.md). The name may be a pattern such as 'watch-*', for queries of
        one owner or of all, of one severity or any."""
        query_id: int | None = None
        if isinstance(query, str) and is_pattern(query) and not self.rounds.catalog.names.find_all(query):
            name = query
        else:
            handle = self.get(query, owner=owner or "")
            query_id, name = handle.id, handle.name
            owner = self.rounds.catalog.queries.owner_of(query_id)
        return add_silence(
            self.rounds,
            name,
            query_id,
            for_=for_,
            until=until,
            key=key,
            severity=severity,
            owner=owner,
            reason=reason,
            by=by,
        )

    def silences(
        self,
        query: Query | str | int | None = None,
        *,
        owner: str | None = None,
        over: bool | None = False,
    ) -> list[Silence]:
        """Silences that hold, the oldest first; with `over=True` those that are over, with None both, as far as they are kept."""
        query_id = None if query is None else self.get(query, owner=owner or "").id
        return silences(self.rounds, query_id, owner, is_over=over)

    def end_silence(self, silence: Silence | int, *, by: str = "") -> Silence:
        """Let a silence end now: what it kept back is settled in the next round."""
        return end_silence(self.rounds, silence if isinstance(silence, int) else silence.id, by=by)

    def alert_history(
        self,
        query: Query | str | int,
        key: Mapping[str, Any] | None = None,
        *,
        newest: int = 100,
        owner: str = "",
    ) -> list[dict[str, Any]]:
        """What happened to the alert of a key, as far as it is kept, the oldest first: when it opened, fired and resolved, who
        acknowledged and silenced it."""
        handle = self.get(query, owner=owner)
        return alert_history(self.rounds, handle.id, handle.name, key, newest)

    def messages(
        self,
        after: int = 0,
        *,
        newest: int | None = None,
        query: Query | str | int | None = None,
        owner: str | None = None,
    ) -> list[Message]:
        """Messages of alerts that are still kept: after an id, the `newest` alone, of one query or owner; the oldest first."""
        query_id = None if query is None else self.get(query, owner=owner or "").id
        return messages(self.rounds, after, newest, query_id, owner)

    def on_message(
        self,
        callback: Callable[[Message], None],
        *,
        queue: int | None = None,
        when_full: WhenFull = "drop_oldest",
    ) -> Subscription:
        """Call `callback` with every message of an alert, after its round is final. Call what is returned to end it.

        With `queue` it has a thread of its own, and so many messages may wait for it; `when_full` as for `Query.on_result`.
        """
        return on_message(self.rounds, self.subscribers, callback, queue, when_full)

    def receipt(self, result: Result | str) -> Receipt:
        """Everything a result follows from: a JSON document (docs/receipts.md). An id is round-row-query, such as 12-345-6."""
        return receipt(self, result)

    def prove(
        self, result: Result | str, *, spark: Any = None, on_wait: Callable[[str], None] | None = None
    ) -> Proof:
        """Let plain Spark SQL judge a result: the query's own text over its row, independent of this engine (docs/receipts.md).

        Runs on the session that is given, or on the one this process has; otherwise one is started, and `on_wait`
        is called with what that waits for.
        """
        find = self.rounds.functions.find
        return prove(receipt(self, result), spark=spark, find_function=find, on_wait=on_wait)

    def start_audit(self, share: str | float) -> None:
        """Have this share of rounds, such as "0.1 %", evaluated again by another engine, from the next round on."""
        share_of_rounds = share_of(share)
        self.stop_audit()
        if share_of_rounds:
            self._audit = Audit(self, share_of_rounds)

    def stop_audit(self) -> None:
        """End the audit after the round that is being looked at; what it counted is forgotten."""
        if self._audit is not None:
            self._audit.close()
            self._audit = None

    def finish_audit(self, timeout_s: float | None = None) -> bool:
        """Wait until every round that was chosen so far has been looked at; False if that takes longer."""
        return self._audit is None or self._audit.drain(timeout_s)

    def audited(self) -> AuditCounters | None:
        """What the audit looked at so far and how often it found a difference; None if there is none."""
        return None if self._audit is None else self._audit.counters

    def events(self) -> list[Event]:
        """The latest events of the engine, oldest first."""
        with self.rounds.lock:
            return list(self.rounds.announcements.events)

    def on_event(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with every event from now on."""
        self.rounds.listen(listener)

    def counters(self) -> Counters:
        """What happened since the engine was opened, and the present state, in numbers (docs/operations.md)."""
        return counters(self.rounds, self._tally, self.sinks(), self.audited())

    def sinks(self) -> Sequence[SinkStatus]:
        """How far each sink of the pipeline is that runs on this engine; none if there is no such."""
        return () if self._pipeline is None else self._pipeline.sinks()

    def sources(self) -> Sequence[SourceStatus]:
        """How far each source of the pipeline is that runs on this engine; none if there is no such."""
        return () if self._pipeline is None else self._pipeline.sources()

    def retry_sink(self, name: str) -> None:
        """Serve a sink that fails again at once, instead of after its pause."""
        self._running_pipeline().retry_sink(name)

    def retry_source(self, stream: str) -> None:
        """Read a source that fails again at once, instead of after its pause."""
        self._running_pipeline().retry_source(stream)

    def _running_pipeline(self) -> WatchedPipeline:
        if self._pipeline is None:
            raise QueryStateError(
                "no pipeline runs on this engine",
                hint="eddyline serve PIPELINE.toml runs its sources and sinks.",
            )
        return self._pipeline

    def watch_pipeline(self, pipeline: WatchedPipeline | None) -> None:
        """Whom to ask how far sources and sinks are, and to try them again."""
        self._pipeline = pipeline

    def backup(
        self,
        file: str | os.PathLike[str],
        *,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> Backup:
        """Write the home, as it is now, to a .tar or .tar.gz that `eddyline restore` makes a home of. Rounds go on meanwhile."""
        return backup_of(self, Path(file), on_progress)

    def functions(self) -> dict[str, FunctionCounters]:
        """What each function did so far, by name."""
        with self.rounds.lock:
            return {name: replace(counters) for name, counters in self.rounds.functions.counters.items()}

    @property
    def version(self) -> int:
        """Grows by one with every change of streams or queries."""
        return self.rounds.catalog.version

    @property
    def n_queries(self) -> int:
        return self.rounds.catalog.queries.n_queries

    # ----------------------------------------------------------------------------------------- end

    def listen(self) -> None:
        """Take commands of the command line on the socket of the home, until the engine is closed."""
        durable = self.rounds.durable
        if durable is None:
            raise HomeError(
                "an engine in memory has no home to take commands in",
                hint="Open it with a home: eddyline.open('folder').",
            )
        if self._control is None:
            self._control = Control(durable.home.socket, Commands(self))

    @property
    def access(self) -> Access:
        """Tokens and the audit log: in the home if there is one, else for as long as this engine is open."""
        with self.rounds.lock:
            self.rounds.check_open()
            if self._access is None:
                durable = self.rounds.durable
                database = Database(Path(":memory:")) if durable is None else durable.database
                self._access = Access.of(database, self.rounds.lock)
            return self._access

    def serve(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 8321,
        public_url: str | None = None,
        requests_per_s: float = 50.0,
    ) -> Any:
        """Serve this engine over HTTP, with the dashboard, from a thread of this process; `stop` ends it (docs/server.md).

        What is returned has `url` and, while no admin has a token, `link`, which logs a browser in once. Port 0 takes any that is
        free.
        """
        server = server_room()
        settings = server.Settings(host=host, port=port, public_url=public_url, requests_per_s=requests_per_s)
        return server.serve_in_thread(self, settings)

    def close(self) -> None:
        """End the engine; readers that wait are woken. Callbacks with a queue have some seconds to hear what is in it."""
        if self._control is not None:
            self._control.close()
            self._control = None
        self.stop_audit()
        self.subscribers.drain()
        self.rounds.close()
        self.subscribers.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        streams = ", ".join(stream.name for stream in self.rounds.catalog.streams())
        return f"<eddyline engine: {self.n_queries} queries over {streams or 'no streams'}, version {self.version}>"

    def _repr_html_(self) -> str:
        rows = [(each.name, each.n_rows, each.n_queries) for each in self.streams()]
        caption = f"eddyline, version {self.version}, {self.n_queries} queries"
        return html_table(caption, ("stream", "rows", "queries"), rows)


def server_room() -> Any:
    """The module of the server, which is imported late: it is above this one and needs libraries that may be missing."""
    try:
        return importlib.import_module("eddyline.server")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("eddyline"):
            raise
        raise PropertyError(
            "serving needs libraries that are not installed",
            detail=f"There is no {error.name}.",
            hint="Run: pip install 'eddyline[server]'",
        ) from None


class StreamHandle:
    """A declared stream."""

    def __init__(self, engine: Engine, stream: Stream) -> None:
        self._engine = engine
        self._stream = stream
        self.name = stream.name
        self.schema = stream.schema
        self.time = stream.time
        self.time_unit = time_unit(stream)
        self.time_format = time_format(stream)
        self.lateness_us = stream.lateness_us
        self.is_static = is_static(stream)  # a table that is loaded, see Engine.table

    @property
    def n_rows(self) -> int:
        """Rows that arrived so far."""
        return self._state().n_rows

    @property
    def n_late(self) -> int:
        """Rows that came behind the watermark."""
        return self._state().n_late

    @property
    def watermark_us(self) -> int | None:
        return self._state().watermark_us

    @property
    def n_queries(self) -> int:
        """Queries that read it now."""
        return self._state().n_queries

    @property
    def partitions(self) -> list[Partition]:
        """How far each partition of its source has come, the one furthest behind first."""
        with self._engine.rounds.lock:
            return partitions_of(self._engine.rounds, self.name)

    def _state(self) -> StreamState:
        return stream_state(self._engine.rounds, self._stream)

    def push(self, data: Any, *, token: str | None = None) -> Matches:
        return self._engine.push(self.name, data, token=token)

    def __repr__(self) -> str:
        columns = ", ".join(f"{f.name} {type_name(f.type)}" for f in self.schema)
        return f"<stream {self.name} ({columns})>"


class DeadLetterList(list[DeadLetter]):
    """Dead letters; `total` counts also those no longer kept."""

    def __init__(self, letters: list[DeadLetter], total: int) -> None:
        super().__init__(letters)
        self.total = total

    def _repr_html_(self) -> str:
        rows = [
            (each.round_number, each.stream, each.query, each.message, each.row) for each in reversed(self)
        ]
        columns = ("round", "stream", "query", "message", "row")
        return html_table(f"{self.total} dead letters, the newest first", columns, rows)
