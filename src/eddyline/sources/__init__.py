"""Where rows come from.

Enters: data as users have it, or a folder, a topic, a pipe, a generator to take it from. Leaves: `Ingested`, a record batch in
the schema of the stream, the arrival order if the data gives one, and the rows that do not fit; a source also says how far it
was read.
"""

from eddyline.sources.files import FolderSource
from eddyline.sources.formats import FileFormat
from eddyline.sources.generators import ColumnGenerator, Generator
from eddyline.sources.ingest import Ingested, Misfit, infer_schema, ingest
from eddyline.sources.kafka import KafkaSource
from eddyline.sources.positions import FolderPosition, Source, SourceError, Taken
from eddyline.sources.stdin import StdinSource

__all__ = [
    "ColumnGenerator",
    "FileFormat",
    "FolderPosition",
    "FolderSource",
    "Generator",
    "Ingested",
    "KafkaSource",
    "Misfit",
    "Source",
    "SourceError",
    "StdinSource",
    "Taken",
    "infer_schema",
    "ingest",
]
