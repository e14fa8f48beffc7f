"""Where rows come from.

Enters: data as users have it, or a folder, a topic, a pipe, a generator to take it from. Leaves: `IngestedRows`, a record batch
in the schema of the stream, the arrival order if the data gives one, and the rows that do not fit; a source also says how far it
was read.
"""

from eddyline.choices import FORMATS
from eddyline.sources.captures import capture_reference, captured_rows, with_all_columns
from eddyline.sources.changes import as_changes, ingest_changes
from eddyline.sources.declared_tables import beside, static_table, table_of
from eddyline.sources.event_times import with_read_times
from eddyline.sources.files import FolderSource
from eddyline.sources.formats import FRAMINGS, MESSAGE_FORMATS, FileFormat
from eddyline.sources.generators import KINDS, ColumnGenerator, Generator, default_generator
from eddyline.sources.ingestion import PUSHED, IngestedRows, Lanes, Misfit, as_table, infer_schema, ingest
from eddyline.sources.kafka import KafkaSource
from eddyline.sources.kafka_messages import OF_THE_MESSAGE, MessageRows
from eddyline.sources.kafka_offsets import ON_GONE, STARTS
from eddyline.sources.payloads import unfit_for_csv
from eddyline.sources.positions import FolderPosition, Source, SourceBatch, SourceError, SourcePart
from eddyline.sources.reading import read, reference_from, reference_to
from eddyline.sources.references import (
    PlannedInput,
    ReadCount,
    Reference,
    ReferenceSource,
    UnreadableReference,
)
from eddyline.sources.rows import ARRIVAL, rows_in_schema
from eddyline.sources.sample import Proposal, propose
from eddyline.sources.schema_changes import MOST_IGNORED, SchemaChange, SchemaChanged, shown_name
from eddyline.sources.static_tables import TABLE_FORMATS, StaticTable, StaticTableChange, TableRows
from eddyline.sources.stdin import StdinLines

__all__ = [
    "ARRIVAL",
    "FORMATS",
    "FRAMINGS",
    "KINDS",
    "MESSAGE_FORMATS",
    "MOST_IGNORED",
    "OF_THE_MESSAGE",
    "ON_GONE",
    "PUSHED",
    "STARTS",
    "TABLE_FORMATS",
    "ColumnGenerator",
    "FileFormat",
    "FolderPosition",
    "FolderSource",
    "Generator",
    "IngestedRows",
    "KafkaSource",
    "Lanes",
    "MessageRows",
    "Misfit",
    "PlannedInput",
    "Proposal",
    "ReadCount",
    "Reference",
    "ReferenceSource",
    "SchemaChange",
    "SchemaChanged",
    "Source",
    "SourceBatch",
    "SourceError",
    "SourcePart",
    "StaticTable",
    "StaticTableChange",
    "StdinLines",
    "TableRows",
    "UnreadableReference",
    "as_changes",
    "as_table",
    "beside",
    "capture_reference",
    "captured_rows",
    "default_generator",
    "infer_schema",
    "ingest",
    "ingest_changes",
    "propose",
    "read",
    "reference_from",
    "reference_to",
    "rows_in_schema",
    "shown_name",
    "static_table",
    "table_of",
    "unfit_for_csv",
    "with_all_columns",
    "with_read_times",
]
