"""Lines and messages into the schema of a stream. One that does not fit costs its row, and says where it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from eddyline.model import Stream
from eddyline.sources.avro import AvroMessages
from eddyline.sources.csv_rows import CsvRows, unfit_for_csv
from eddyline.sources.formats import FileFormat
from eddyline.sources.ingestion import IngestedRows
from eddyline.sources.json_lines import JsonLines
from eddyline.sources.lines import Line

__all__ = ["AvroMessages", "CsvRows", "Decoder", "JsonLines", "decoder_for", "unfit_for_csv"]


class Decoder(Protocol):
    """Lines or messages of one format into rows of one stream."""

    def rows(
        self, lines: Sequence[Line], first: int, where: str, places: Sequence[str] | None = None
    ) -> IngestedRows:
        """Rows of these lines; `first` is the number of the first line, `where` the name of the file or the like.

        `places` instead say for each line where it was: "topic trades, partition 0, offset 17".
        """
        ...


def decoder_for(payload: FileFormat, stream: Stream, time_zone: str) -> Decoder:
    """The decoder of lines or messages that are written so. CSV without `columns` has those of the stream, in their order.

    Raises SchemaError if what is said about the format cannot go with the stream.
    """
    if payload.name == "json":
        return JsonLines(stream, time_zone)
    if payload.name == "csv":
        return CsvRows(stream, time_zone, payload.columns or stream.schema.names, payload.delimiter)
    assert payload.name == "avro", f"{payload.name} has no lines or messages"
    return AvroMessages(stream, time_zone, payload)
