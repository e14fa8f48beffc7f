"""A Kafka broker for tests: a real one where its jars are at hand, else the mock cluster of the client library.

EDDYLINE_KAFKA_JARS=folder make test     the folder holds the jars of Kafka; CONTRIBUTING.md says how to fill it

The mock knows no transactions that abort, no compaction, no retention, and its topics cannot be deleted or grow. Tests of these
take `real_broker`, which skips them there, and says so.
"""

from __future__ import annotations

import base64
import functools
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from eddyline.kafka import Cluster, let_go

JARS = "EDDYLINE_KAFKA_JARS"
START_S = 120
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
log.cleaner.backoff.ms=100
log.cleaner.dedupe.buffer.size=2097152
"""


def broker_name() -> str:
    """Which broker the tests use, for the header of a run."""
    folder = os.environ.get(JARS)
    if not folder:
        return f"librdkafka's mock cluster ({JARS} is not set)"
    found = [
        re.fullmatch(r"kafka_[\d.]+-([\d.]+)\.jar", path.name) for path in Path(folder).glob("kafka_*.jar")
    ]
    versions = [each[1] for each in found if each]
    assert versions, f"{JARS} is {folder}, and there is no kafka_….jar in it"
    return f"Apache Kafka {versions[0]} ({JARS})"


class Broker:
    """What tests do with a cluster besides reading it through eddyline."""

    is_real: bool
    servers: str

    @property
    def cluster(self) -> Cluster:
        return Cluster.of(self.servers)

    @functools.cached_property
    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    @functools.cached_property
    def producer(self) -> Any:
        from confluent_kafka import Producer

        # idempotent: a batch that a topic made a moment ago refuses at first does not come behind the next one
        return Producer(
            {"bootstrap.servers": self.servers, "enable.idempotence": self.is_real, "log_level": 0}
        )

    def transactional(self, name: str) -> Any:
        """A producer whose transactions have begun to be possible."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": name, "log_level": 0})
        producer.init_transactions(30)
        return producer

    def topic(self, n_partitions: int = 1, **config: str) -> str:
        """A new topic. The mock makes it when it is first written to, with four partitions."""
        name = f"t{uuid.uuid4().hex[:8]}"
        if self.is_real:
            self.make_topic(name, n_partitions, **config)
        return name

    def make_topic(self, name: str, n_partitions: int = 1, **config: str) -> None:
        from confluent_kafka.admin import NewTopic

        spelt = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, n_partitions, 1, config=spelt)])[name].result(30)

    def add_partitions(self, name: str, n_partitions: int) -> None:
        """Let a topic have so many."""
        from confluent_kafka.admin import NewPartitions

        self.admin.create_partitions([NewPartitions(name, n_partitions)])[name].result(30)
        wait_for(
            lambda: len(self.admin.list_topics(name, timeout=30).topics[name].partitions) == n_partitions
        )
        self.__dict__.pop("producer", None)  # it remembers how many there were

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(30)
        wait_for(lambda: name not in self.admin.list_topics(timeout=30).topics)

    def write(
        self,
        topic: str,
        values: Iterable[str | bytes | None],
        *,
        partition: int = 0,
        keys: Sequence[str | bytes | None] | None = None,
    ) -> None:
        for number, value in enumerate(values):
            key = None if keys is None else keys[number]
            self.producer.produce(topic, value, key, partition)
        assert self.producer.flush(30) == 0

    def committed(self, topic: str) -> list[tuple[str, str]]:
        """Key and value of every message that a reader of committed transactions finds now, by partition."""
        from confluent_kafka import Consumer, TopicPartition

        places = [
            TopicPartition(topic, p)
            for p in self.admin.list_topics(topic, timeout=30).topics[topic].partitions
        ]
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "tests",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        found = []
        try:
            for place in places:
                place.offset = 0
                consumer.assign([place])
                while True:
                    message = consumer.poll(30)
                    assert message is not None
                    if message.error() is not None:
                        assert message.error().name() == "_PARTITION_EOF", message.error()
                        break
                    found.append(((message.key() or b"").decode(), message.value().decode()))
        finally:
            consumer.close()
        return found

    def mark(self, group: str, topic: str) -> int:
        """What a group has committed for the first partition, once no transaction is about to change it."""
        from confluent_kafka import Consumer, TopicPartition

        options = {"group.id": group, "isolation.level": "read_committed", "log_level": 0}
        consumer = Consumer({"bootstrap.servers": self.servers, **options})
        try:
            return int(consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset)
        finally:
            consumer.close()


class MockBroker(Broker):
    is_real = False

    def __init__(self) -> None:
        from confluent_kafka import Producer

        self._cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})  # lives as long as this client
        brokers = self._cluster.list_topics(timeout=30).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def stop(self) -> None:
        self.__dict__.pop("admin", None)
        self.__dict__.pop("producer", None)
        del self._cluster


class RealBroker(Broker):
    """One node of Apache Kafka, its own controller, on loopback ports, in a folder of its own."""

    is_real = True

    def __init__(self, jars: Path) -> None:
        # It loads the engine, for which the process that only hands out tests has no use.
        from eddyline.spark import java_home

        self._folder = Path(tempfile.mkdtemp(prefix="eddyline-kafka-"))
        port, controller = _free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        self._java = [
            str(java_home() / "bin" / "java"),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
        ]
        self._java += ["-cp", f"{jars}/*"]
        settings = SETTINGS.format(port=port, controller=controller, folder=self._folder)
        (self._folder / "server.properties").write_text(settings)
        cluster_id = base64.urlsafe_b64encode(b"eddyline" + uuid.uuid4().bytes[:8]).decode().rstrip("=")
        self._run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c").wait(START_S)
        self._process = self._started()

    def crash(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        self._process = self._started()

    def stop(self) -> None:
        self.crash()
        shutil.rmtree(self._folder)

    def _started(self) -> subprocess.Popen[bytes]:
        process = self._run("kafka.Kafka")
        deadline = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", int(self.servers.partition(":")[2])), 1).close()
                return process
            except OSError:
                time.sleep(0.2)
        process.kill()
        pytest.fail(f"the broker did not start:\n{(self._folder / 'broker.log').read_text()[-2000:]}")

    def _run(self, tool: str, *arguments: str) -> subprocess.Popen[bytes]:
        with open(self._folder / "broker.log", "ab") as log:
            command = [*self._java, tool, *arguments, str(self._folder / "server.properties")]
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for(is_so: Any, seconds: float = 60) -> None:
    """Wait until something is so; how long that takes is not what is tested."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One for the whole run."""
    pytest.importorskip("confluent_kafka")
    jars = os.environ.get(JARS)
    started = RealBroker(Path(jars)) if jars else MockBroker()
    yield started
    let_go()
    started.stop()


@pytest.fixture(scope="session")
def real_broker(broker: Broker) -> RealBroker:
    if not isinstance(broker, RealBroker):
        pytest.skip(f"librdkafka's mock cluster cannot do this; set {JARS} to run it with a real broker")
    return broker
