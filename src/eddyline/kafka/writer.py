"""Writing to a topic, all or nothing, together with a mark that says how far.

A writer has a name of its own in the cluster. Opening it ends whatever an earlier writer of that name had begun: what that one
had committed is there, the rest is not, and it cannot write any more. The mark is the committed offset of a consumer group of
the same name, which has no members. It is written inside the transaction, so the next writer reads from it
exactly what is in the topic.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from eddyline.kafka.cluster import (
    ANSWER_S,
    UNKNOWN_NAMES,
    Cluster,
    Complaints,
    KafkaFailure,
    UnknownTopic,
    client_failure,
    holds,
    library,
    new_client,
)

PAUSE_S = 0.05  # before a step is tried again
_PASSING = {
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "UNSTABLE_OFFSET_COMMIT",
}


class Writer:
    """Writes messages with their mark."""

    def __init__(self, cluster: Cluster, topic: str, name: str, *, answer_s: float = ANSWER_S) -> None:
        """Become the one writer of this name. Raises KafkaFailure."""
        kafka = library()
        self._cluster = cluster
        self._topic = topic
        self._answer_s = answer_s
        self._complaints = Complaints()
        patience = {
            "socket.timeout.ms": int(answer_s * 1_000)
        }  # some steps of a transaction wait as long as this
        options = {"transactional.id": name, "enable.idempotence": True, **patience}
        self._producer = new_client(cluster, kafka.Producer, options, self._complaints)
        self.clients: tuple[Any, ...] = (self._producer,)
        holds(self)
        self._try(self._producer.init_transactions, f"writing to topic {topic} cannot begin")
        self.mark, self._group = self._read_mark(name)  # after the above: nothing is under way any more

    def write(self, messages: Iterable[tuple[bytes, bytes]], mark: int) -> None:
        """Write messages as (key, value), and the mark, all or nothing. After a KafkaFailure this writer is of no more use."""
        kafka = library()
        producer = self._producer
        try:
            producer.begin_transaction()
        except kafka.KafkaException as error:
            raise self._failure("a transaction cannot begin", error) from None
        for key, value in messages:
            self._produce(key, value)
        self._await_delivery()
        where = [kafka.TopicPartition(self._topic, 0, mark)]
        self._try(
            lambda timeout: producer.send_offsets_to_transaction(where, self._group, timeout),
            "the mark of a transaction cannot be written",
        )
        self._try(producer.commit_transaction, "a transaction cannot be committed")
        self.mark = mark

    def close(self) -> None:
        """What is under way and not committed never was; the next writer of the name ends it."""
        with contextlib.suppress(library().KafkaException):  # it tells again that it was fenced, say
            self._producer.purge()
            self._producer.flush(0)

    # ----------------------------------------------------------------------------------------- inside

    def _produce(self, key: bytes, value: bytes) -> None:
        """Hand a message over. Whether the cluster has it is known when the transaction is committed."""
        kafka = library()
        given_up_at = time.monotonic() + self._answer_s
        while True:
            try:
                self._producer.produce(self._topic, value, key)
                return
            except BufferError as error:  # as many wait as may; some leave with every answer of the cluster
                if time.monotonic() > given_up_at:
                    silence = kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT, str(error)))
                    raise self._failure(f"topic {self._topic} does not take messages", silence) from None
                self._producer.poll(0.1)
            except kafka.KafkaException as error:
                raise self._failure(f"topic {self._topic} does not take a message", error) from None

    def _await_delivery(self) -> None:
        """Wait until the cluster has answered for every message, as long as one answer may take."""
        kafka = library()
        problem = f"topic {self._topic} does not take messages"
        try:
            n_waiting = self._producer.flush(self._answer_s)
        except kafka.KafkaException as error:
            raise self._failure(problem, error) from None
        if n_waiting:
            raise self._failure(problem, kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT)))

    def _read_mark(self, name: str) -> tuple[int | None, Any]:
        """The mark that is there, and what stands for its group in a transaction."""
        kafka = library()
        options = {"group.id": name, "enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = new_client(self._cluster, kafka.Consumer, options, self._complaints)
        problem = f"how far topic {self._topic} was written cannot be asked for"
        try:
            self._check_topic(consumer)
            (found,) = self._try(lambda left_s: _committed_offsets(consumer, self._topic, left_s), problem)
            return (found.offset if found.offset >= 0 else None), consumer.consumer_group_metadata()
        except kafka.KafkaException as error:
            raise self._failure(problem, error) from None
        finally:
            consumer.close()

    def _check_topic(self, consumer: Any) -> None:
        """A consumer never makes a topic by asking for it, as a producer might."""
        found = consumer.list_topics(self._topic, timeout=self._answer_s).topics.get(self._topic)
        error = None if found is None else found.error
        if error is not None and error.name() not in UNKNOWN_NAMES:
            raise library().KafkaException(error)
        if found is None or error is not None:
            known = consumer.list_topics(timeout=self._answer_s).topics
            raise UnknownTopic(self._topic, sorted(name for name in known if not name.startswith("__")))

    def _try(self, step: Callable[[float], Any], problem: str) -> Any:
        """What one step gives, again if the cluster says that it may be, as long as an answer may take."""
        kafka = library()
        until = time.monotonic() + self._answer_s
        while True:
            left_s = max(0.1, until - time.monotonic())
            try:
                return step(left_s)
            except kafka.KafkaException as error:
                fault = error.args[0]
                if time.monotonic() >= until or not (fault.retriable() or fault.name() in _PASSING):
                    raise self._failure(problem, error) from None
            time.sleep(PAUSE_S)

    def _failure(self, problem: str, error: Exception) -> KafkaFailure:
        with contextlib.suppress(
            library().KafkaException
        ):  # the client tells a fatal one again when it is polled
            self._producer.poll(0)
        failure = client_failure(self._cluster, problem, error, self._complaints)
        fault = error.args[0]
        if fault.name() in ("_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"):
            failure.detail = "Another process writes under the same name."
            failure.hint = "Is the home open twice, or was it copied?"
        return failure


def _committed_offsets(consumer: Any, topic: str, timeout_s: float) -> Any:
    """What the group has committed for the first partition, which stands for the mark."""
    kafka = library()
    found = consumer.committed([kafka.TopicPartition(topic, 0)], timeout=timeout_s)
    if found[0].error is not None:
        raise kafka.KafkaException(found[0].error)
    return found
