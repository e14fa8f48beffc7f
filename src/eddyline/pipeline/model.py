"""What a pipeline file says, with everything checked and filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eddyline.delivery import Webhook
from eddyline.documents import Place
from eddyline.engine import Limits, Retention
from eddyline.kafka import Cluster
from eddyline.model import Stream
from eddyline.routing import AUTO
from eddyline.secrets import Text
from eddyline.sources import ColumnGenerator, FileFormat

TICK_US = 10_000_000
POLL_US = 1_000_000
KAFKA_POLL_US = 100_000
GATHER_US = 100_000
KAFKA_EVERY_US = 100_000
FILE_EVERY_US = 5_000_000
BYTES_PER_FILE = 64 << 20


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`[engine]`, and what of `[limits]` concerns memory."""

    home: Path
    time_zone: str | None = None  # None: what the home has, UTC for a new one
    seed: int = 0
    tick_us: int = TICK_US
    limits: Limits = field(default_factory=Limits)
    retention: Retention | None = None  # None: what the home has
    audit: float = 0.0  # the share of rounds that another engine evaluates again
    routing: str | Mapping[str, Any] = AUTO  # who orders expensive conditions, and how
    is_strict: bool = False  # they run in the order of the text


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How much goes into one round, and how fast sources are read."""

    rows_per_round: int = 10_000
    bytes_per_round: int = 16 << 20
    job_from_bytes: int = (
        1 << 20
    )  # with Spark: what lies ready goes to workers from so much on; a job takes about 0.1 s
    bytes_per_job: int = 256 << 20
    rows_per_second: float | None = None  # of each source; None: as fast as it goes


@dataclass(frozen=True, slots=True)
class FileSource:
    """`source = { type = "files", … }`: a folder that new files come into."""

    path: Text  # relative paths start at the folder of the pipeline file
    format: str  # json, csv, parquet or arrow
    glob: str | None = None  # None: the usual endings of the format
    poll_us: int = POLL_US
    columns: tuple[str, ...] = ()  # of CSV files without a header
    delimiter: str = ","
    on_change: str = "refuse"  # what if the home's position is of another folder: refuse, continue or restart
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class StdinSource:
    """`source = { type = "stdin", … }`: lines on standard input."""

    format: str = "json"
    columns: tuple[str, ...] = ()
    delimiter: str = ","
    every_us: int = GATHER_US  # rows wait at most so long for others
    on_change: str = "refuse"
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class GeneratorSource:
    """`source = { type = "generator", … }`: made-up rows, the same for the same seed."""

    columns: tuple[ColumnGenerator, ...]
    rate: float | None = None  # rows per second; None: as fast as they are taken
    rows: int | None = None  # how many in all; None: no end
    seed: int = 0
    on_change: str = "refuse"
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """`source = { type = "kafka", … }`: a topic, each message a row."""

    cluster: Cluster
    topic: str
    payload: FileFormat
    start: str = "earliest"  # where the first read begins: earliest or latest
    on_gone: str = "refuse"  # what if messages are gone, or the topic is another: refuse or earliest
    poll_us: int = KAFKA_POLL_US
    on_change: str = "refuse"
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TableFile:
    """`[tables.NAME]`: the file or folder of a table that stays the same until it is written anew."""

    path: Path
    written: str  # the path as the pipeline file has it
    place: Place | None = field(default=None, compare=False)


SourceSettings = FileSource | StdinSource | GeneratorSource | KafkaTopic


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """`[streams.NAME]`: the declaration, and where its rows come from (None: only pushed); or a static table."""

    stream: Stream
    source: SourceSettings | None = None
    place: Place | None = field(default=None, compare=False)
    rows_per_second: float | None = None  # None: what the limits of the pipeline say
    table: TableFile | None = None  # `[tables.NAME]`


@dataclass(frozen=True, slots=True)
class RulesTable:
    """`[[rules.tables]]`: a table whose every row is a query made from a template."""

    name: str  # of the queries, formatted with the row: "watch-{user}"
    template: str  # SQL with :parameters
    template_file: Path | None  # where the template was read from, if it was
    file: Path  # CSV or Parquet
    key: tuple[str, ...]  # the columns that tell rows apart; changed rows are found by them
    properties: Mapping[str, Any] = field(default_factory=dict)  # view properties, such as owner
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RulesSettings:
    """`[rules]`."""

    patterns: tuple[str, ...] = ()  # as written
    files: tuple[Path, ...] = ()  # those that match now, in name order, each once
    tables: tuple[RulesTable, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """`[[sinks]]`: where results, or alerts, go."""

    name: str  # its cursor in the home goes by this name
    type: str  # stdout, file, kafka or webhook
    format: str  # jsonl, text, csv or parquet; json or alertmanager
    takes: str = "results"  # or "alerts": what the alerts of queries say
    path: Text | None = None
    queries: tuple[str, ...] = ()  # patterns of query names; none: all
    streams: tuple[str, ...] = ()  # names of streams; none: all
    start: str = "now"  # a new sink begins with what comes now, or at the "beginning" of what is kept
    every_us: int = (
        FILE_EVERY_US  # a file is closed, a transaction committed when its first result is so old,
    )
    bytes_per_file: int = BYTES_PER_FILE  # a file also when it has grown to this
    cluster: Cluster | None = None  # of Kafka
    topic: str = ""
    webhook: Webhook | None = None
    place: Place | None = field(default=None, compare=False)

    @property
    def secrets(self) -> tuple[Text | None, ...]:
        """All settings that may hold secrets: messages about the sink must not contain their values."""
        return (self.path, *(() if self.webhook is None else self.webhook.texts))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline file that has no mistakes."""

    path: Path
    text: str = field(repr=False)
    engine: EngineSettings
    streams: tuple[StreamSettings, ...] = ()
    functions: tuple[str, ...] = ()  # modules to import
    rules: RulesSettings = field(default_factory=RulesSettings)
    sinks: tuple[SinkSettings, ...] = ()
    limits: RunLimits = field(default_factory=RunLimits)

    @property
    def folder(self) -> Path:
        """Where relative paths start."""
        return self.path.parent

    def stream(self, name: str) -> StreamSettings | None:
        return next((s for s in self.streams if s.stream.name.lower() == name.lower()), None)
