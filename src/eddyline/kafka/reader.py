"""Reading a topic: what it holds, and its messages within bounds.

A reader is one consumer, which gets its ranges assigned and belongs to no group, and one administrator, which is asked about the
topic. Both see only what committed transactions wrote: the end of a partition is its last stable offset. Messages have gaps
where records of transactions were, or what compaction removed. So a range is over when the consumer's position has passed
its end, whatever the last message was.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eddyline.kafka.cluster import (
    ANSWER_S,
    UNKNOWN_NAMES,
    Cluster,
    Complaints,
    KafkaFailure,
    UnknownTopic,
    at_fork,
    client_failure,
    holds,
    library,
    new_client,
)

MESSAGES_AT_ONCE = 10_000
LOOK_S = 0.1  # how long to wait for a message before looking at the consumer's position
IDLE_READERS = 4  # kept for a cluster

_CONSUMER: dict[str, Any] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",  # offsets that are gone are for the source to judge
}
_PACE = {  # for users to set otherwise
    "group.id": "eddyline",  # asked for by the client, never joined
    "fetch.wait.max.ms": "20",  # a range lies ready; only behind its end is there anything to wait for
    "fetch.queue.backoff.ms": "5",
    "queued.max.messages.kbytes": str(16 << 10),  # read ahead, beyond the range too
}
_NO_ID = "A" * 22  # what a broker that knows no ids says
_PASSING = {"_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE", "_TIMED_OUT", "_MAX_POLL_EXCEEDED"}


@dataclass(frozen=True, slots=True)
class MessageRange:
    """Messages of one partition with offsets from `start`, below `end`."""

    partition: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class TopicState:
    """What a topic holds now, by partition."""

    topic_id: str | None  # None: the cluster has no ids
    starts: dict[int, int]  # the first offset that is there
    ends: dict[int, int]  # the last stable offset: the next one to be readable


class OffsetsGone(KafkaFailure):
    """A range begins where the partition has no messages any more, or not yet again."""


class TopicReader:
    """A consumer and an administrator of one cluster, for one thread at a time."""

    def __init__(self, cluster: Cluster, *, answer_s: float = ANSWER_S) -> None:
        """Raises KafkaFailure if the options cannot be used."""
        kafka = library()
        self.cluster = cluster
        self._answer_s = answer_s
        self._complaints = Complaints()
        pace = {name: value for name, value in _PACE.items() if name not in dict(cluster.options)}
        self._consumer = new_client(cluster, kafka.Consumer, {**pace, **_CONSUMER}, self._complaints)
        self._renew_admin()
        holds(self)

    def _renew_admin(self) -> None:
        self._admin = new_client(self.cluster, library().admin.AdminClient, {}, self._complaints)
        self.clients = (self._consumer, self._admin)

    def close(self) -> None:
        self._consumer.close()

    # ----------------------------------------------------------------------------------------- the topic

    def topic_state(self, topic: str) -> TopicState:
        """What the topic holds now. Raises KafkaFailure, UnknownTopic."""
        kafka = library()
        try:
            metadata = self._consumer.list_topics(topic, timeout=self._answer_s)
        except kafka.KafkaException as error:
            raise self._failure(f"the Kafka cluster of topic {topic} does not answer", error) from None
        found = metadata.topics.get(topic)
        if found is None or found.error is not None:
            raise self._no_topic(topic, None if found is None else found.error)
        partitions = sorted(found.partitions)
        has_controller = metadata.controller_id in metadata.brokers  # who knows the ids
        topic_id = self.topic_id(topic) if has_controller else None
        try:
            starts, ends = self._bounds(topic, partitions)
        except kafka.KafkaException as error:
            raise self._failure(f"the offsets of topic {topic} cannot be asked for", error) from None
        return TopicState(topic_id, starts, ends)

    def _bounds(self, topic: str, partitions: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
        """The first and the last stable offset of each partition."""
        try:
            return self._queried_bounds(topic, partitions)
        except library().KafkaException as error:
            if error.args[0].name() != "_UNKNOWN_PARTITION":
                raise
            self._renew_admin()  # it remembers how many partitions there were
            return self._queried_bounds(topic, partitions)

    def _queried_bounds(self, topic: str, partitions: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
        kafka = library()
        places = [kafka.TopicPartition(topic, number) for number in partitions]
        isolation = kafka.IsolationLevel.READ_COMMITTED
        answers = [
            self._admin.list_offsets(
                dict.fromkeys(places, which), isolation_level=isolation, request_timeout=self._answer_s
            )
            for which in (kafka.admin.OffsetSpec.earliest(), kafka.admin.OffsetSpec.latest())
        ]
        starts, ends = (
            {place.partition: self._answer(future).offset for place, future in each.items()}
            for each in answers
        )
        return starts, ends

    def topic_id(self, topic: str) -> str | None:
        """Which topic of this name it is: one that is made anew has another. None if the cluster has no ids."""
        kafka = library()
        answers = self._admin.describe_topics(kafka.TopicCollection([topic]), request_timeout=self._answer_s)
        try:
            found = str(self._answer(answers[topic]).topic_id)
        except kafka.KafkaException as error:
            if error.args[0].name() in UNKNOWN_NAMES:
                raise self._no_topic(topic, error.args[0]) from None
            raise self._failure(f"topic {topic} cannot be asked for", error) from None
        return None if found == _NO_ID else found

    def topics(self) -> list[str]:
        """Names of the topics there are, without Kafka's own."""
        try:
            found = self._admin.list_topics(timeout=self._answer_s).topics
        except library().KafkaException as error:
            raise self._failure("the topics cannot be asked for", error) from None
        return sorted(name for name in found if not name.startswith("__"))

    def _no_topic(self, topic: str, error: Any) -> KafkaFailure:
        if error is None or error.name() in UNKNOWN_NAMES:
            return UnknownTopic(topic, self.topics())
        return self._failure(f"topic {topic} cannot be read", library().KafkaException(error))

    def _answer(self, future: Any) -> Any:
        return future.result(timeout=2 * self._answer_s)

    def _failure(self, problem: str, error: Exception) -> KafkaFailure:
        self._consumer.poll(0)  # complaints arrive when a client is polled
        self._admin.poll(0)
        return client_failure(self.cluster, problem, error, self._complaints)

    # ----------------------------------------------------------------------------------------- messages

    def messages(
        self, topic: str, ranges: Sequence[MessageRange], clock: Callable[[], float] = time.monotonic
    ) -> Generator[list[Any]]:
        """The messages of these ranges, at most one range of a partition, offsets ascending within each.

        Raises OffsetsGone, KafkaFailure.
        """
        kafka = library()
        unread = {each.partition: each for each in ranges if len(each)}
        self._consumer.assign([kafka.TopicPartition(topic, r.partition, r.start) for r in unread.values()])
        heard_at = clock()
        try:
            while unread:
                came = self._next()
                messages, ended = [], {}
                for message in came:
                    message_range = unread.get(message.partition())
                    if message.error() is not None:
                        if message_range is None or not self._is_end(topic, message):
                            continue
                        ended[message_range.partition] = message.offset()
                    elif message_range is not None and message.offset() < message_range.end:
                        messages.append(message)
                if messages:
                    yield messages
                    heard_at = clock()
                done = self._finished_partitions(topic, unread, ended)
                for partition in done:
                    del unread[partition]
                if done and unread:
                    self._consumer.incremental_unassign([kafka.TopicPartition(topic, p) for p in done])
                if not (messages or done) and clock() - heard_at > self._answer_s:
                    silence = kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT))
                    raise self._failure(f"messages of topic {topic} do not come", silence)
        finally:
            self._consumer.unassign()

    def _next(self) -> list[Any]:
        """What has come, waiting for it a moment."""
        first = self._consumer.poll(LOOK_S)
        return [] if first is None else [first, *self._consumer.consume(MESSAGES_AT_ONCE, 0)]

    def _is_end(self, topic: str, message: Any) -> bool:
        """Whether this tells of the end of a partition. Raises what cannot pass by itself."""
        error = message.error()
        name = error.name()
        if name == "_PARTITION_EOF":
            return True
        if name in _PASSING:
            self._complaints(error)
            return False
        where = f"partition {message.partition()} of topic {topic}"
        if name in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            raise OffsetsGone(f"{where} has no offset {message.offset()}", detail=error.str())
        raise self._failure(f"{where} cannot be read", library().KafkaException(error))

    def _finished_partitions(
        self, topic: str, unread: dict[int, MessageRange], ended: dict[int, int]
    ) -> list[int]:
        """Partitions whose range is behind the consumer."""
        kafka = library()
        places = self._consumer.position([kafka.TopicPartition(topic, partition) for partition in unread])
        return [
            place.partition
            for place in places
            if max(place.offset, ended.get(place.partition, -1)) >= unread[place.partition].end
        ]


# --------------------------------------------------------------------------------------------- readers kept

_idle: dict[Cluster, list[TopicReader]] = {}
_lock = threading.Lock()


@contextmanager
def borrowed_reader(cluster: Cluster, *, answer_s: float = ANSWER_S) -> Iterator[TopicReader]:
    """A reader of this process, kept for the next one who needs it, unless something failed."""
    with _lock:
        waiting = _idle.get(cluster)
        reader = waiting.pop() if waiting else None
    reader = reader or TopicReader(cluster, answer_s=answer_s)
    reader._answer_s = answer_s
    try:
        yield reader
    except BaseException:
        reader.close()  # the next one is made anew, with secrets as they are then
        raise
    with _lock:
        waiting = _idle.setdefault(cluster, [])
        if len(waiting) < IDLE_READERS:
            waiting.append(reader)
            return
    reader.close()


def let_go(cluster: Cluster | None = None) -> None:
    """Close the readers of a cluster that are not in use; without a cluster, of all."""
    with _lock:
        chosen = list(_idle) if cluster is None else [cluster]
        readers = [reader for each in chosen for reader in _idle.pop(each, [])]
    for reader in readers:
        reader.close()


def _forget() -> None:
    """In a child: none of these is ours, and another thread may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


at_fork(_forget)
atexit.register(let_go)
