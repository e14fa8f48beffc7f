"""How far a stream has come: what its handle, its counters and its page show."""

from __future__ import annotations

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
    progress = rounds.progress.get(stream.name.lower(), StreamProgress())
    catalog = rounds.catalog
    joined = [each.name for each in catalog.plans.signatures() if each.places(stream.name)]
    aggregated = [
        each.name
        for each in catalog.plans.aggregations()
        if stream.name.lower() in catalog.views.base_streams(each.rows)
    ]
    n_queries = sum(catalog.plan(name).n_queries for name in (stream.name, *joined, *aggregated))
    return StreamState(stream.name, progress.n_rows, progress.n_late, progress.watermark_us, n_queries)
