"""How a cluster is reached, and how what its client says becomes an error of ours.

Options are kept as they were written. Secrets in them are looked up when a client is made, in the process that makes it, and
what the client says is cleared of them.
"""

from __future__ import annotations

import ctypes
import logging
import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from eddyline.errors import EddylineError
from eddyline.secrets import Secret, SecretError, Text, hidden, revealed_text, text_with_secrets

ANSWER_S = 10.0  # how long a cluster may be silent before it counts as gone
SERVERS = "bootstrap.servers"
UNKNOWN_NAMES = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"}

# What reading and writing exactly once depends on is not for options to say.
_OURS = {
    "auto.offset.reset": 'A source says start = "earliest" or "latest".',
    "enable.auto.commit": "Nothing is committed to Kafka: how far a topic was read is part of the home.",
    "enable.auto.offset.store": "Nothing is committed to Kafka: how far a topic was read is part of the home.",
    "enable.idempotence": "A sink always writes so.",
    "enable.partition.eof": "It is always on.",
    "isolation.level": "Only messages of committed transactions are read.",
    "metadata.broker.list": 'Say servers = "host:port".',
    SERVERS: 'Say servers = "host:port".',
    "transactional.id": "A sink has one of its own, made of the home and its name.",
}

_logger = logging.getLogger("eddyline.kafka")
_logger.addHandler(
    logging.NullHandler()
)  # the client's chatter is for those who ask; what matters is an error or an event


class KafkaFailure(EddylineError):
    """Kafka does not do what was asked of it now."""


class UnknownTopic(KafkaFailure):
    """There is no such topic. `known` are those there are."""

    def __init__(self, topic: str, known: list[str]) -> None:
        super().__init__(f"there is no topic {topic}")
        self.known = known


def check_library() -> None:
    """Raises KafkaFailure if the client library is not installed."""
    library()


def library() -> Any:
    """The client library. Raises KafkaFailure if it is not installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise KafkaFailure(
            "Kafka needs the package confluent-kafka, which is not installed",
            detail=str(error),
            hint="Run: pip install 'eddyline[kafka]'.",
        ) from None
    return confluent_kafka


def unusable_option(name: str) -> str | None:
    """Why an option is not for users to set, or None if it is."""
    return _OURS.get(name)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as it is written: options as librdkafka names them, values with secrets as references."""

    options: tuple[tuple[str, str], ...]  # bootstrap.servers among them
    folder: str = "."  # where relative paths of secret files start

    @classmethod
    def of(cls, servers: str, options: Mapping[str, str] | None = None, folder: Path | str = ".") -> Cluster:
        """With servers as host:port, several with commas between them."""
        return cls(((SERVERS, servers), *sorted((options or {}).items())), str(folder))

    @property
    def servers(self) -> str:
        """The servers as host:port, as the user wrote them."""
        return dict(self.options)[SERVERS]

    def to_json(self) -> dict[str, Any]:
        """All of it, for connections from other processes; without secrets."""
        return {"options": dict(self.options), "folder": self.folder}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Cluster:
        return cls(tuple(stored["options"].items()), stored["folder"])

    def problems(self) -> list[SecretError]:
        """Secrets that are missing on this machine."""
        return [error for text in self._texts() if isinstance(text, Secret) for error in text.problems()]

    def revealed_options(self) -> dict[str, str]:
        """The options themselves, looked up now. Raises KafkaFailure if a secret is missing."""
        try:
            return {
                name: revealed_text(text) for (name, _), text in zip(self.options, self._texts(), strict=True)
            }
        except SecretError as error:
            raise KafkaFailure(error.problem, detail=error.detail, hint=error.hint) from None

    def hide(self, message: str) -> str:
        """The message without what the secrets hold."""
        return hidden(message, *self._texts())

    def _texts(self) -> list[Text]:
        return [text_with_secrets(value, Path(self.folder)) for _, value in self.options]


class Complaints:
    """What the client said last when something was wrong."""

    def __init__(self) -> None:
        self.last: str | None = None

    def __call__(self, error: Any) -> None:
        if self.last is None or error.name() != "_ALL_BROKERS_DOWN":  # why each of them is down tells more
            self.last = error.str()


def new_client(
    cluster: Cluster, kind: Callable[..., Any], options: Mapping[str, Any], complaints: Complaints
) -> Any:
    """A client of one kind. Raises KafkaFailure if the options cannot be used."""
    client_options = {
        "client.id": "eddyline",
        **cluster.revealed_options(),
        **options,
        "error_cb": complaints,
    }
    try:
        return kind(client_options, logger=_logger)
    except library().KafkaException as error:
        raise client_failure(cluster, "the options for Kafka cannot be used", error) from None
    except (TypeError, ValueError) as error:
        raise KafkaFailure("the options for Kafka cannot be used", detail=cluster.hide(str(error))) from None


def client_failure(
    cluster: Cluster, problem: str, error: Exception, complaints: Complaints | None = None
) -> KafkaFailure:
    """What an exception of the client is for users: with the client's last complaint if it only ran out of time."""
    fault = error.args[0] if error.args else error
    reason = fault.str() if hasattr(fault, "str") else str(fault)
    is_silence = hasattr(fault, "name") and fault.name() in ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN")
    if is_silence and complaints is not None and complaints.last is not None:
        reason = complaints.last
    hint = (
        f"Is {cluster.servers} right, and does it run? Are the options for signing in right? It is tried again."
        if is_silence
        else None
    )
    return KafkaFailure(problem, detail=cluster.hide(reason), hint=hint)


# --------------------------------------------------------------------------------------------- processes


class ClientHolder(Protocol):
    """An object that holds clients."""

    clients: tuple[Any, ...]


_holders: weakref.WeakSet[ClientHolder] = weakref.WeakSet()
_at_fork: list[Callable[[], None]] = []


def holds(holder: ClientHolder) -> None:
    """Clients of this process, which a child of it is to leave alone."""
    _holders.add(holder)


def at_fork(forget: Callable[[], None]) -> None:
    """Have this called in a child of this process."""
    _at_fork.append(forget)


def _abandon() -> None:
    """In a child: the clients of its parent came along without their threads, so that ending one would wait for ever.

    A reference that is never given back keeps Python from ending them.
    """
    for holder in list(_holders):
        for client in holder.clients:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    _holders.clear()
    for forget in _at_fork:
        forget()


os.register_at_fork(after_in_child=_abandon)
