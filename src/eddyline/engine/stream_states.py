"""How far a stream has come: what its handle, its counters and its page show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from eddyline.engine.rounds import RoundEngine
from eddyline.model import Stream, StreamProgress


@dataclass(frozen=True, slots=True)
class StreamState:
    """Rows that arrived, rows that came behind the watermark, the watermark, and how many queries read the stream now."""

    name: str
    n_rows: int
    n_late: int
    watermark_us: int | None
    n_queries: int


def stream_state(rounds: RoundEngine, stream: Stream) -> StreamState:
    """As of the last committed round."""
    return stream_states(rounds, [stream])[0]


def stream_states(rounds: RoundEngine, streams: Sequence[Stream]) -> list[StreamState]:
    """The same of several."""
    catalog = rounds.catalog
    n_over: Counter[str] = Counter()  # queries of what is made of the rows of each stream
    for signature in catalog.plans.signatures():
        for name in {each.lower() for each in signature.streams}:
            n_over[name] += catalog.plan(signature.name).n_queries
    for aggregation in catalog.plans.aggregations():
        for name in catalog.views.base_streams(aggregation.rows):
            n_over[name] += catalog.plan(aggregation.name).n_queries
    return [_state(rounds, stream, n_over[stream.name.lower()]) for stream in streams]


def _state(rounds: RoundEngine, stream: Stream, n_over: int) -> StreamState:
    progress = rounds.progress.get(stream.name.lower(), StreamProgress())
    n_queries = rounds.catalog.plan(stream.name).n_queries + n_over
    return StreamState(stream.name, progress.n_rows, progress.n_late, progress.watermark_us, n_queries)
