"""Where results go outside of the engine.

Enters: results of one round that have the same columns, in round order, or messages of alerts. Leaves: lines on standard output,
files, messages of a topic, requests to a webhook. Only when a sink has them for good does its cursor in the home advance; after a
crash, or a failure, it is given everything behind the cursor again.
"""

from eddyline.delivery.sinks.batches import MARKS, Batch, Item, MessageBatch, ResultBatch, result_batch
from eddyline.delivery.sinks.bodies import WEBHOOK_FORMATS
from eddyline.delivery.sinks.feed import MessageFeed, QueryFacts, SinkFeed, SinkSelection
from eddyline.delivery.sinks.files import FILE_FORMATS, FileSink
from eddyline.delivery.sinks.kafka import KafkaSink
from eddyline.delivery.sinks.sink import Sink, SinkError
from eddyline.delivery.sinks.stdout import STDOUT_FORMATS, StdoutSink
from eddyline.delivery.sinks.webhook import WEBHOOK_REFUSED, Webhook, WebhookSink

__all__ = [
    "FILE_FORMATS",
    "MARKS",
    "STDOUT_FORMATS",
    "WEBHOOK_FORMATS",
    "WEBHOOK_REFUSED",
    "Batch",
    "FileSink",
    "Item",
    "KafkaSink",
    "MessageBatch",
    "MessageFeed",
    "QueryFacts",
    "ResultBatch",
    "Sink",
    "SinkError",
    "SinkFeed",
    "SinkSelection",
    "StdoutSink",
    "Webhook",
    "WebhookSink",
    "result_batch",
]
