"""The ends of a pipeline: sources opened where the last committed round left them, sinks behind their cursors."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TextIO

import pyarrow as pa

from eddyline.api.engine import Engine
from eddyline.api.pipeline.mistakes import Mistake, PipelineError
from eddyline.api.pipeline.model import (
    FileSource,
    GeneratorSource,
    KafkaTopic,
    Pipeline,
    SinkSettings,
    SourceSettings,
    StreamSettings,
)
from eddyline.api.pipeline.open import folder_of
from eddyline.delivery.sinks import FileSink, KafkaSink, QueryFacts, Sink, SinkFeed, StdoutSink, Wanted
from eddyline.errors import QueryStateError
from eddyline.model import Stream
from eddyline.sources import (
    FileFormat,
    FolderPosition,
    FolderSource,
    Generator,
    Ingested,
    KafkaSource,
    Source,
    StdinSource,
    Taken,
)

HOME_ID = "home id"
FACTS_KEPT = 100_000


# --------------------------------------------------------------------------------------------- sources


@dataclass(slots=True)
class Feed:
    """A source at work: what it feeds, and what it handed over last."""

    settings: StreamSettings
    source: Source
    stream: Stream
    identity: str
    held: Taken | None = None  # what was taken and is not committed yet
    n_failures: int = 0
    resume_at: float = 0.0

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

    def in_schema(self, rows: Ingested, schema: pa.Schema) -> Ingested:
        """Rows that were read before a column was added have NULL there."""
        given = rows.rows
        if given.schema.equals(schema):
            return rows
        names = set(given.schema.names)
        columns = [
            given.column(f.name) if f.name in names else pa.nulls(given.num_rows, f.type) for f in schema
        ]
        return replace(rows, rows=pa.RecordBatch.from_arrays(columns, schema=schema))


def open_feed(
    pipeline: Pipeline,
    settings: StreamSettings,
    engine: Engine,
    *,
    is_once: bool,
    stdin: BinaryIO | None,
    wake: Callable[[], None],
) -> Feed:
    """Open the source of a stream at its committed position. Raises PipelineError if that is of another source."""
    source, rounds = settings.source, engine.rounds
    assert source is not None
    with rounds.lock:
        stream = rounds.catalog.stream(settings.stream.name)
        stored = None if rounds.durable is None else rounds.durable.rounds.position(stream.name.lower())
    identity = _identity(source)
    at = _position(pipeline, settings, source, identity, stored)
    return Feed(settings, _open(pipeline, source, stream, engine, at, is_once, stdin, wake), stream, identity)


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
    engine: Engine,
    at: Any,
    is_once: bool,
    stdin: BinaryIO | None,
    wake: Callable[[], None],
) -> Source:
    time_zone = engine.rounds.time_zone
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
            clock_us=engine.rounds.now_us,
        )
    return StdinSource(
        stdin or sys.stdin.buffer,
        FileFormat(source.format, source.columns, source.delimiter),
        stream,
        time_zone,
        position=at,
        every_s=source.every_us / 1e6,
        wake=wake,
    )


# --------------------------------------------------------------------------------------------- sinks


def open_sink(pipeline: Pipeline, settings: SinkSettings, engine: Engine, stdout: TextIO | None) -> SinkFeed:
    """Open a sink behind its cursor; a new one starts where its settings say. Raises SinkError."""
    rounds = engine.rounds
    reader = f"sink {settings.name}"
    cursor = last_round = 0
    if rounds.durable is not None:
        with rounds.lock:
            log = rounds.durable.rounds
            known, last = log.cursor(reader), log.last()
            if known is None:
                known = (0 if settings.start == "beginning" or last is None else last.round.number, 0)
                log.set_cursor(reader, *known)  # now, so that a crash before its first result changes nothing
            cursor, last_round = known[0], 0 if last is None else last.round.number

    def acknowledge(round_number: int) -> None:
        if rounds.durable is not None:
            with rounds.lock:
                rounds.durable.rounds.set_cursor(reader, round_number, 0)

    return SinkFeed(
        _open_sink(pipeline, settings, engine, cursor, last_round, stdout),
        Wanted(settings.queries, settings.streams),
        cursor=cursor,
        facts_of=_Facts(engine),
        acknowledge=acknowledge,
    )


def _open_sink(
    pipeline: Pipeline,
    settings: SinkSettings,
    engine: Engine,
    cursor: int,
    last_round: int,
    stdout: TextIO | None,
) -> Sink:
    time_zone = engine.rounds.time_zone
    if settings.cluster is not None:
        return KafkaSink(
            settings.cluster,
            settings.topic,
            name=settings.name,
            home_id=home_id(engine),
            last_round=last_round,
            every_s=settings.every_us / 1e6,
        )
    if settings.path is None:
        return StdoutSink(
            stdout or sys.stdout, name=settings.name, format=settings.format, time_zone=time_zone
        )
    return FileSink(
        folder_of(pipeline, settings.path),
        name=settings.name,
        home_id=home_id(engine),
        cursor=cursor,
        format=settings.format,
        every_s=settings.every_us / 1e6,
        bytes_per_file=settings.bytes_per_file,
        time_zone=time_zone,
    )


def home_id(engine: Engine) -> str:
    """Tells files of one home from those of another; an engine in memory is a new home every time."""
    durable = engine.rounds.durable
    if durable is None:
        return uuid.uuid4().hex[:6]
    with engine.rounds.lock:
        known = durable.database.setting(HOME_ID)
        if known is None:
            known = uuid.uuid4().hex[:6]
            with durable.database.transaction():
                durable.database.set(HOME_ID, known)
        return known


class _Facts:
    """Name and stream of the queries that results belong to, also of those dropped since."""

    def __init__(self, engine: Engine) -> None:
        self._rounds = engine.rounds
        self._known: dict[tuple[int, int], QueryFacts] = {}

    def __call__(self, query_id: int, generation: int) -> QueryFacts:
        found = self._known.get((query_id, generation))
        if found is None:
            if len(self._known) >= FACTS_KEPT:
                self._known.clear()
            found = self._known[query_id, generation] = self._find(query_id)
        return found

    def _find(self, query_id: int) -> QueryFacts:
        with self._rounds.lock:
            try:
                record = self._rounds.catalog.record(query_id)
                return QueryFacts(record.name, record.shape.stream)
            except QueryStateError:
                durable = self._rounds.durable
                past = None if durable is None else durable.database.past_query(query_id)
                name, stream = (None, "") if past is None else (past[0], past[1].stream)
                return QueryFacts(name or f"q{query_id}", stream)
