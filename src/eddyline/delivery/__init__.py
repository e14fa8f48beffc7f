"""Delivery: results retained for readers, and messages of alerts.

Enters: matches of committed rounds. Leaves: `Result` rows by query, newest kept, what was dropped counted.
"""

from eddyline.delivery.alerts import (
    FIRING,
    OPEN,
    AlertNotice,
    AlertTiming,
    AlertTransitions,
    MatchingRow,
    alert_transitions,
    due_us,
    row_changes,
)
from eddyline.delivery.result_log import ResultEntry, ResultLog, newest_pairs
from eddyline.delivery.silences import silenced_messages, unsent_messages
from eddyline.delivery.sinks import (
    FILE_FORMATS,
    MARKS,
    STDOUT_FORMATS,
    WEBHOOK_FORMATS,
    WEBHOOK_REFUSED,
    FileSink,
    Item,
    KafkaSink,
    MessageFeed,
    QueryFacts,
    Sink,
    SinkError,
    SinkFeed,
    SinkSelection,
    StdoutSink,
    Webhook,
    WebhookSink,
    result_batch,
)
from eddyline.delivery.sinks.addresses import is_known_private
from eddyline.delivery.sinks.posting import target_of
from eddyline.delivery.sinks.sink import SinkClosedError
from eddyline.delivery.sinks.texts import json_lines
from eddyline.delivery.sinks.webhook import BATCH, TIMEOUT_S, is_header_value
from eddyline.documents import Result, Results, jsonable

__all__ = [
    "BATCH",
    "FILE_FORMATS",
    "FIRING",
    "MARKS",
    "OPEN",
    "STDOUT_FORMATS",
    "TIMEOUT_S",
    "WEBHOOK_FORMATS",
    "WEBHOOK_REFUSED",
    "AlertNotice",
    "AlertTiming",
    "AlertTransitions",
    "FileSink",
    "Item",
    "KafkaSink",
    "MatchingRow",
    "MessageFeed",
    "QueryFacts",
    "Result",
    "ResultEntry",
    "ResultLog",
    "Results",
    "Sink",
    "SinkClosedError",
    "SinkError",
    "SinkFeed",
    "SinkSelection",
    "StdoutSink",
    "Webhook",
    "WebhookSink",
    "alert_transitions",
    "due_us",
    "is_header_value",
    "is_known_private",
    "json_lines",
    "jsonable",
    "newest_pairs",
    "result_batch",
    "row_changes",
    "silenced_messages",
    "target_of",
    "unsent_messages",
]
