"""References read where they are wanted: in a worker, or in the driver if there is little."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from eddyline.model import Stream
from eddyline.sources.captures import read_capture_file
from eddyline.sources.file_references import read_file_piece
from eddyline.sources.generators import read_generated
from eddyline.sources.ingest import Ingested
from eddyline.sources.kafka_messages import read_kafka
from eddyline.sources.references import Reference

Reader = Callable[[Reference, Stream, str], Iterator[Ingested]]

READERS: dict[str, Reader] = {
    "capture": read_capture_file,
    "file": read_file_piece,
    "generator": read_generated,
    "kafka": read_kafka,
}


def read(reference: Reference, stream: Stream, time_zone: str) -> Iterator[Ingested]:
    """The rows of a reference, some at a time, always the same. Raises UnreadableReference."""
    return READERS[reference.kind](reference, stream, time_zone)
