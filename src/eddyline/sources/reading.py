"""References read where they are wanted: in a worker, in the driver if there is little, or later, to look at a row again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from eddyline.catalog import codec
from eddyline.model import Stream
from eddyline.sources.captures import read_capture_file
from eddyline.sources.event_times import with_read_times
from eddyline.sources.file_references import FILE, read_file_piece
from eddyline.sources.formats import FileFormat
from eddyline.sources.generators import ColumnGenerator, read_generated
from eddyline.sources.ingestion import PUSHED, IngestedRows
from eddyline.sources.kafka_messages import read_kafka
from eddyline.sources.positions import FilePlace, FileState
from eddyline.sources.references import Reference
from eddyline.storage import CAPTURE
from eddyline.types import type_name

Reader = Callable[[Reference, Stream, str], Iterator[IngestedRows]]

READERS: dict[str, Reader] = {
    CAPTURE: read_capture_file,
    FILE: read_file_piece,
    "generator": read_generated,
    "kafka": read_kafka,
}


def read(
    reference: Reference, stream: Stream, time_zone: str, needed: frozenset[str] | None = None
) -> Iterator[IngestedRows]:
    """The rows of a reference, some at a time, always the same. Raises UnreadableReference.

    Columns that are not `needed` may be left out, where that saves something and costs no row: see `IngestedRows.left_out`.
    """
    if reference.kind == FILE:
        found = read_file_piece(reference, stream, time_zone, needed)
    else:
        found = READERS[reference.kind](reference, stream, time_zone)
    return (with_read_times(stream, ingested, time_zone) for ingested in found)


# --------------------------------------------------------------------------------------------- kept with the round


def reference_to(reference: Reference) -> str:
    """A reference as JSON, to be kept with the round that read it. The store it may lie in is not named: homes move."""
    what = dict(reference.what)
    if reference.kind == CAPTURE:
        del what["store"]
    elif reference.kind == FILE:
        what |= {
            "format": what["format"].to_json(),
            "state": dataclasses.astuple(what["state"]),
            "place": dataclasses.astuple(what["place"]),
        }
    elif reference.kind == "generator":
        what["columns"] = [_generator_to(column) for column in what["columns"]]
    body = {"kind": reference.kind, "what": what, "nbytes": reference.nbytes}
    return json.dumps(body | ({"lane": reference.lane} if reference.lane else {}), ensure_ascii=False)


def reference_from(text: str, store: Path) -> Reference:
    """The inverse of `reference_to`, for a home whose store is this one now."""
    body = json.loads(text)
    kind, what = body["kind"], body["what"]
    if kind == CAPTURE:
        what["store"] = str(store)
    elif kind == FILE:
        what |= {
            "format": FileFormat.from_json(what["format"]),
            "state": FileState(*what["state"]),
            "place": FilePlace(*what["place"]),
        }
    elif kind == "generator":
        what["columns"] = tuple(_generator_from(column) for column in what["columns"])
    return Reference(kind, what, body["nbytes"], body.get("lane", PUSHED))


def _generator_to(column: ColumnGenerator) -> dict[str, Any]:
    stored = {f.name: getattr(column, f.name) for f in dataclasses.fields(column)}
    values = [codec.value_to(value, column.type) for value in column.values]
    return stored | {"type": type_name(column.type), "values": values}


def _generator_from(stored: dict[str, Any]) -> ColumnGenerator:
    t = codec.type_from(stored["type"])
    values = tuple(codec.value_from(value, t) for value in stored["values"])
    return ColumnGenerator(**stored | {"type": t, "values": values, "weights": tuple(stored["weights"])})
