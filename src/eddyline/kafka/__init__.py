"""The door to Kafka: the only room that knows the client library.

Enters: options of a cluster as users write them. Leaves: what a topic holds, its messages within bounds, and messages written
together with a mark, all or nothing; or a `KafkaFailure` in words.
"""

from eddyline.kafka.cluster import (
    ANSWER_S,
    Cluster,
    KafkaFailure,
    UnknownTopic,
    check_library,
    unusable_option,
)
from eddyline.kafka.reader import MessageRange, OffsetsGone, TopicReader, TopicState, borrowed_reader, let_go
from eddyline.kafka.writer import Writer

__all__ = [
    "ANSWER_S",
    "Cluster",
    "KafkaFailure",
    "MessageRange",
    "OffsetsGone",
    "TopicReader",
    "TopicState",
    "UnknownTopic",
    "Writer",
    "borrowed_reader",
    "check_library",
    "let_go",
    "unusable_option",
]
