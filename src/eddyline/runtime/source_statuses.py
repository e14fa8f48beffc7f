"""The status of sources: position, what lies behind it, rate, failures, and when they are tried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from eddyline.errors import UnknownNameError, did_you_mean
from eddyline.pipeline import FileSource
from eddyline.runtime.deliveries import SinkStatus
from eddyline.runtime.endpoints import Feed
from eddyline.secrets import hidden
from eddyline.sources import SourcePart


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How far a source is. `n_behind` counts what its `unit` says (messages, files, rows); None: it cannot be known.

    `message` is the last failure, also of a source that has recovered; `n_failures` counts those since it last went well.
    """

    stream: str
    type: str
    what: str  # the topic, the folder
    position: str
    n_behind: int | None
    unit: str
    n_rows: int  # since it was opened
    rows_per_s: float
    is_failing: bool
    is_finished: bool
    n_failures: int
    message: str
    failed_at_us: int | None
    retry_in_s: float | None
    parts: tuple[SourcePart, ...] = field(default=())  # partitions of a topic


class WatchedPipeline(Protocol):
    """A pipeline at work, as the engine it runs on knows it. Safe from any thread."""

    def sources(self) -> Sequence[SourceStatus]: ...

    def sinks(self) -> Sequence[SinkStatus]: ...

    def retry_source(self, stream: str) -> None: ...

    def retry_sink(self, name: str) -> None: ...


def source_status(feed: Feed) -> SourceStatus:
    """Of a feed at work; nothing is asked of the source itself."""
    progress = feed.source.progress()
    kind, _, what = feed.identity.partition(" ")
    source = feed.settings.source
    is_failing = feed.n_failures > 0
    return SourceStatus(
        feed.stream.name,
        kind,
        hidden(what, source.path) if isinstance(source, FileSource) else what,
        progress.position,
        progress.n_behind,
        progress.unit,
        feed.n_rows,
        feed.meter.per_s(),
        is_failing,
        feed.is_finished,
        feed.n_failures,
        feed.message,
        feed.failed_at_us,
        round(feed.backoff.wait_s, 1) if is_failing else None,
        progress.parts,
    )


def feed_named(feeds: Sequence[Feed], stream: str) -> Feed:
    """The feed of a stream. Raises UnknownNameError."""
    for feed in feeds:
        if feed.name == stream.lower():
            return feed
    names = [feed.stream.name for feed in feeds]
    raise UnknownNameError(
        f"stream {stream} has no source here", hint=did_you_mean(stream, names, noun="source")
    )
