"""Where results go outside of the engine.

Enters: `ResultBatch`, results of one round that have the same columns, in round order. Leaves: lines on standard output,
files, or messages of a topic. Only when a sink has results for good does its cursor in the home advance; after a crash, or a
failure, it is given everything behind the cursor again.
"""

from eddyline.delivery.sinks.batches import MARKS, ResultBatch, result_batch
from eddyline.delivery.sinks.feed import QueryFacts, SinkFeed, Wanted
from eddyline.delivery.sinks.files import FILE_FORMATS, FileSink
from eddyline.delivery.sinks.kafka import KafkaSink
from eddyline.delivery.sinks.sink import Sink, SinkError
from eddyline.delivery.sinks.stdout import STDOUT_FORMATS, StdoutSink

__all__ = [
    "FILE_FORMATS",
    "MARKS",
    "STDOUT_FORMATS",
    "FileSink",
    "KafkaSink",
    "QueryFacts",
    "ResultBatch",
    "Sink",
    "SinkError",
    "SinkFeed",
    "StdoutSink",
    "Wanted",
    "result_batch",
]
