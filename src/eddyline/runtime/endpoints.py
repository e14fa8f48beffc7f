"""The ends of a pipeline: sources opened where the last committed round left them, sinks behind their cursors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, TextIO

import pyarrow as pa

from eddyline.backoff import Backoff
from eddyline.catalog import QueryRecord
from eddyline.delivery import (
    WEBHOOK_REFUSED,
    FileSink,
    Item,
    KafkaSink,
    MessageFeed,
    QueryFacts,
    Sink,
    SinkFeed,
    SinkSelection,
    StdoutSink,
    WebhookSink,
)
from eddyline.engine import RoundEngine
from eddyline.errors import QueryStateError
from eddyline.events import SinkRefused, SinkUnknown
from eddyline.model import DeadLetter, Properties, Shape, Stream
from eddyline.pipeline import (
    FileSource,
    GeneratorSource,
    KafkaTopic,
    Mistake,
    Pipeline,
    PipelineError,
    SinkSettings,
    SourceSettings,
    StreamSettings,
    folder_of,
)
from eddyline.runtime.pace import Pace
from eddyline.runtime.rate import RateMeter
from eddyline.sources import (
    FileFormat,
    FolderPosition,
    FolderSource,
    Generator,
    IngestedRows,
    KafkaSource,
    Source,
    SourceBatch,
    StdinLines,
)
from eddyline.sql import stream_words, table_keys

FACTS_KEPT = 100_000
MOST_ANNOUNCED = 100  # queries that name a sink that is not there
MESSAGES_AT_ONCE = 1_000  # a sink is given no more of a round at a time


# --------------------------------------------------------------------------------------------- sources


@dataclass(slots=True)
class Feed:
    """A source at work: what it feeds, and what it handed over last."""

    settings: StreamSettings
    source: Source
    stream: Stream
    identity: str
    backoff: Backoff  # after failures
    held: SourceBatch | None = None  # what was taken and is not committed yet
    n_failures: int = 0
    failing_since: float = 0.0  # by the clock of the run, if it fails
    is_read_up: bool = False  # nothing was there when it was asked last
    message: str = ""  # the last failure
    failed_at_us: int | None = None
    n_rows: int = 0  # committed since it was opened
    meter: RateMeter = field(default_factory=RateMeter)
    pace: Pace = field(default_factory=Pace)

    @property
    def name(self) -> str:
        return self.stream.name.lower()

    @property
    def is_pending(self) -> bool:
        """Whether something that was there already has still to be worked on."""
        return self.held is not None or self.n_failures > 0 or self.source.is_pending

    @property
    def is_finished(self) -> bool:
        return self.held is None and self.source.is_finished

    def position(self, at: Any) -> dict[str, Any]:
        """What is committed: how far the source was read, and which source it was."""
        return {"source": self.identity, "at": at}

    def follow(self, stream: Stream) -> None:
        """The stream was declared anew: read on in its schema."""
        self.stream = stream
        self.source.redeclare(stream)

    def in_schema(self, rows: IngestedRows, schema: pa.Schema) -> IngestedRows:
        """Rows that were read before a column was added have NULL there."""
        batch = rows.rows
        if batch.schema.equals(schema):
            return rows
        names = set(batch.schema.names)
        columns = [
            batch.column(f.name) if f.name in names else pa.nulls(batch.num_rows, f.type) for f in schema
        ]
        return replace(rows, rows=pa.RecordBatch.from_arrays(columns, schema=schema))


def open_feed(
    pipeline: Pipeline,
    settings: StreamSettings,
    rounds: RoundEngine,
    *,
    is_once: bool,
    stdin: BinaryIO | None,
    wake: Callable[[], None],
    backoff: Backoff,
) -> Feed:
    """Open the source of a stream at its committed position. Raises PipelineError if that is of another source."""
    source = settings.source
    assert source is not None
    with rounds.lock:
        stream = rounds.catalog.stream(settings.stream.name)
        stored = rounds.store.position(stream.name.lower())
    identity = _identity(source)
    at = _position(pipeline, settings, source, identity, stored)
    opened = _open(pipeline, source, stream, rounds, at, is_once, stdin, wake)
    pace = Pace(settings.rows_per_second or pipeline.limits.rows_per_second)
    return Feed(settings, opened, stream, identity, backoff, pace=pace)


def _identity(source: SourceSettings) -> str:
    """Which source a position belongs to, as it is written: moving everything together changes nothing."""
    if isinstance(source, FileSource):
        return f"files {source.path}"
    if isinstance(source, KafkaTopic):
        return f"kafka {source.topic}"
    return "generator" if isinstance(source, GeneratorSource) else "stdin"


def _position(
    pipeline: Pipeline, settings: StreamSettings, source: SourceSettings, identity: str, stored: Any
) -> Any:
    if stored is None or stored["source"] == identity:
        return None if stored is None else stored["at"]
    if source.on_change == "restart":
        return None
    if source.on_change == "continue" and str(stored["source"]).split()[0] == identity.split()[0]:
        return stored["at"]
    name = settings.stream.name
    assert source.place is not None
    mistake = Mistake(
        source.place,
        f"stream {name} was fed by another source so far",
        detail=f"The home remembers how far {stored['source']!r} was read; this is {identity!r}.",
        hint='Say what to do: on_change = "restart" reads this source from its beginning,'
        ' on_change = "continue" goes on where the other one ended.',
    )
    raise PipelineError(pipeline.path, [mistake])


def _open(
    pipeline: Pipeline,
    source: SourceSettings,
    stream: Stream,
    rounds: RoundEngine,
    at: Any,
    is_once: bool,
    stdin: BinaryIO | None,
    wake: Callable[[], None],
) -> Source:
    time_zone = rounds.time_zone
    if isinstance(source, FileSource):
        return FolderSource(
            folder_of(pipeline, source.path),
            FileFormat(source.format, source.columns, source.delimiter),
            stream,
            time_zone,
            position=FolderPosition.from_json(at),
            glob=source.glob,
            poll_s=source.poll_us / 1e6,
        )
    if isinstance(source, KafkaTopic):
        return KafkaSource(
            source.cluster,
            source.topic,
            source.payload,
            stream,
            time_zone,
            position=at,
            start=source.start,
            on_gone=source.on_gone,
            poll_s=source.poll_us / 1e6,
        )
    if isinstance(source, GeneratorSource):
        return Generator(
            stream,
            source.columns,
            seed=source.seed,
            rate=source.rate,
            n_rows=source.rows,
            position=at,
            is_paced=not is_once,
            clock_us=rounds.now_us,
        )
    return StdinLines(
        stdin or sys.stdin.buffer,
        FileFormat(source.format, source.columns, source.delimiter),
        stream,
        time_zone,
        position=at,
        every_s=source.every_us / 1e6,
        wake=wake,
    )


# --------------------------------------------------------------------------------------------- sinks


def open_sink(
    pipeline: Pipeline,
    settings: SinkSettings,
    rounds: RoundEngine,
    facts: KnownQueries,
    stdout: TextIO | None,
) -> SinkFeed:
    """Open a sink behind its cursor; a new one starts where its settings say. Raises SinkError."""
    takes_alerts = settings.takes == "alerts"
    reader = _Reader(rounds, f"alerts sink {settings.name}" if takes_alerts else f"sink {settings.name}")
    with rounds.lock:
        log = rounds.alerting.log
        first, last = (log.first_id() - 1, log.last_id()) if takes_alerts else (0, rounds.last_round)
        cursor = reader.opened(first if settings.start == "beginning" else last)
    sink = _open_sink(pipeline, settings, rounds, facts, cursor, last, stdout)
    selection = SinkSelection(settings.queries, settings.streams, settings.name)
    if not takes_alerts:
        return SinkFeed(sink, selection, cursor=cursor, facts_of=facts, acknowledge=reader.acknowledge)
    at_once = MESSAGES_AT_ONCE if settings.webhook is None else settings.webhook.batch
    return MessageFeed(
        sink, selection, cursor=cursor, facts_of=facts, acknowledge=reader.acknowledge, at_once=at_once
    )


def _open_sink(
    pipeline: Pipeline,
    settings: SinkSettings,
    rounds: RoundEngine,
    facts: KnownQueries,
    cursor: int,
    last: int,
    stdout: TextIO | None,
) -> Sink:
    time_zone = rounds.time_zone
    if settings.webhook is not None:
        noted = _Reader(rounds, f"request of {settings.takes} sink {settings.name}")
        return WebhookSink(
            settings.webhook,
            name=settings.name,
            home_id=home_id(rounds),
            refuse=DeadLetterRefusal(rounds, settings.name, facts),
            noted_round=noted.last(),
            note=noted.acknowledge,
        )
    if settings.cluster is not None:
        return KafkaSink(
            settings.cluster,
            settings.topic,
            name=settings.name,
            home_id=home_id(rounds),
            last_round=last,
            takes=settings.takes,
            every_s=settings.every_us / 1e6,
        )
    if settings.path is None:
        return StdoutSink(
            stdout or sys.stdout, name=settings.name, format=settings.format, time_zone=time_zone
        )
    return FileSink(
        folder_of(pipeline, settings.path),
        name=settings.name,
        home_id=home_id(rounds),
        cursor=cursor,
        takes=settings.takes,
        format=settings.format,
        every_s=settings.every_us / 1e6,
        bytes_per_file=settings.bytes_per_file,
        time_zone=time_zone,
    )


def home_id(rounds: RoundEngine) -> str:
    """Tells files of one home from those of another; an engine in memory is a new home every time."""
    with rounds.lock:
        return rounds.store.identity()


class _Reader:
    """A number kept in the home under a name; an engine in memory keeps none."""

    def __init__(self, rounds: RoundEngine, name: str) -> None:
        self._rounds = rounds
        self._name = name

    def last(self) -> int:
        """The number that was kept, or 0."""
        with self._rounds.lock:
            return self._rounds.store.reader_cursor(self._name) or 0

    def opened(self, start: int) -> int:
        """The number that was kept; the first time `start`, kept now, so that a crash before the first result changes nothing."""
        with self._rounds.lock:
            known = self._rounds.store.reader_cursor(self._name)
            if known is None:
                self.acknowledge(start)
            return start if known is None else known

    def acknowledge(self, number: int) -> None:
        with self._rounds.lock:
            self._rounds.store.set_reader_cursor(self._name, number)


class DeadLetterRefusal:
    """Makes dead letters of what a receiver will never take."""

    def __init__(self, rounds: RoundEngine, sink: str, facts: KnownQueries) -> None:
        self._rounds = rounds
        self._sink = sink
        self._facts = facts

    def __call__(self, items: Sequence[Item], why: str) -> None:
        rounds = self._rounds
        letters = [
            DeadLetter(
                round_number=item.round_number,
                stream=self._facts(item.query_id, item.generation).stream,
                row=item.row,
                error=WEBHOOK_REFUSED,
                message=why,
                query_id=item.query_id or None,
                query=item.query,
                arrival=item.arrival,
            )
            for item in items
        ]
        stored = rounds.store.put_letters(letters)
        with rounds.lock:
            rounds.store.list_letters(rounds.last_round, stored, len(letters))
            rounds.dead_letters.add(letters)
            rounds.announce(SinkRefused(rounds.last_round, self._sink, len(letters), why))


class KnownQueries:
    """What sinks ask about the queries that results belong to, in the generation they had, also of those dropped since.

    Says so if a query names a sink that is none of `sinks`.
    """

    def __init__(self, rounds: RoundEngine, sinks: Collection[str]) -> None:
        self._rounds = rounds
        self._sinks = sinks
        self._known: dict[tuple[int, int], QueryFacts] = {}
        self._announced_sinks: set[tuple[str, str]] = set()

    def __call__(self, query_id: int, generation: int) -> QueryFacts:
        found = self._known.get((query_id, generation))
        if found is None:
            if len(self._known) >= FACTS_KEPT:
                self._known.clear()
            found = self._known[query_id, generation] = self._find(query_id, generation)
        return found

    def _find(self, query_id: int, generation: int) -> QueryFacts:
        if query_id == 0:  # the engine itself
            return QueryFacts("", "")
        with self._rounds.lock:
            registered = self._registered(query_id)
            if registered is not None and registered.generation == generation:
                return self._facts(registered.name, registered.shape, registered.properties)
            store = self._rounds.store
            past = store.past_query(query_id, generation)
            if past is not None:
                return self._facts(past.name, past.shape, past.properties)
            if registered is not None:
                return self._facts(registered.name, registered.shape, registered.properties)
            known = store.past_name_and_shape(query_id)
            name, stream = (None, "") if known is None else (known[0], stream_words(known[1]))
            return QueryFacts(name or f"q{query_id}", stream)

    def _registered(self, query_id: int) -> QueryRecord | None:
        try:
            return self._rounds.catalog.record(query_id)
        except QueryStateError:
            return None

    def _facts(self, name: str, shape: Shape, stated: Properties) -> QueryFacts:
        for sink in stated.deliver:
            if sink in self._sinks or (name, sink) in self._announced_sinks:
                continue
            if len(self._announced_sinks) < MOST_ANNOUNCED:
                self._announced_sinks.add((name, sink))
                self._rounds.announce(SinkUnknown(self._rounds.last_round, name, sink))
        joins = shape.streams if shape.join is not None or shape.branches else ()
        resolves = (
            stated.resolve_us is not None
            or table_keys(shape, self._rounds.catalog.relations.table_key) is not None
        )
        return QueryFacts(name, stream_words(shape), stated.deliver, resolves, joins)
