"""Results as messages of a topic: each there once, whatever crashes in between. The header of a run says which broker."""

from __future__ import annotations

import json
import sys

import pytest

from eddyline.delivery.sinks import KafkaSink, QueryFacts, SinkError, SinkFeed, SinkSelection
from eddyline.kafka import Cluster, Writer
from tests.delivery.test_sinks import NAMES, STREAMS, Clock, batch, part
from tests.kafka_broker import Broker, RealBroker, wait_for


def sink(broker: Broker, topic: str, *, home_id: str = "3f9a1c", last_round: int = 0, **options) -> KafkaSink:
    """Names are by topic, so that tests share a broker and nothing else."""
    options = {"every_s": 0.0, "answer_s": 10.0, **options}
    return KafkaSink(
        broker.cluster, topic, name=f"alerts {topic}", home_id=home_id, last_round=last_round, **options
    )


def written_topic(broker: Broker) -> str:
    """The mock makes a topic when it is first written to."""
    topic = broker.topic()
    if not broker.is_real:
        broker.write(topic, [json.dumps({"_round": 0, "sym": "first"})], keys=["first"])
    return topic


def rounds_in(broker: Broker, topic: str) -> list[tuple[int, str]]:
    """Round and symbol of every result in a topic."""
    found = [json.loads(value) for key, value in broker.committed(topic) if key != "first"]
    return [(row["_round"], row["sym"]) for row in found]


# --------------------------------------------------------------------------------------------- form


def test_a_result_is_a_json_message_keyed_by_its_query(broker):
    topic = written_topic(broker)
    given = sink(broker, topic)
    given.write(7, [batch(7, [1, 2], sym=["A", "B"], price=[1.5, None])])
    assert given.flush()
    given.close()
    [first, second] = [each for each in broker.committed(topic) if each[0] != "first"]
    assert first == (
        "cheap",
        '{"_query": "cheap", "_query_id": 1, "_generation": 1, "_arrival": 10, "_round": 7, "_change": "insert", '
        '"_late": false, "sym": "A", "price": 1.5}',
    )
    assert (second[0], json.loads(second[1])["price"]) == ("watch-ann", None)


def test_rounds_share_a_transaction_for_a_while(broker):
    clock = Clock()
    given = sink(broker, written_topic(broker), every_s=5.0, clock=clock)
    assert not given.is_due()
    given.write(1, [batch(1, [1])])
    clock.now = 4.0
    given.write(2, [batch(2, [1])])
    assert not given.is_due()
    clock.now = 5.0
    assert given.is_due()
    given.flush()
    assert not given.is_due()
    given.close()


# --------------------------------------------------------------------------------------------- exactly once


def test_rounds_that_were_committed_and_not_acknowledged_are_not_written_again(real_broker: RealBroker):
    topic = real_broker.topic()
    first = sink(real_broker, topic, last_round=5)
    for number in (3, 4):
        first.write(number, [batch(number, [1])])
    first.flush()
    first.close()  # the process ends before its cursor advances
    again = sink(real_broker, topic, last_round=5)
    for number in (3, 4, 5):
        again.write(number, [batch(number, [1])])
        again.flush()
    again.close()
    assert rounds_in(real_broker, topic) == [(3, "S0"), (4, "S0"), (5, "S0")]


def test_what_was_written_and_not_committed_never_was(real_broker: RealBroker):
    topic = real_broker.topic()
    name = f"eddyline-3f9a1c-alerts_{topic}"
    from confluent_kafka import KafkaException

    crashed = Writer(real_broker.cluster, topic, name)
    crashed._producer.begin_transaction()
    crashed._producer.produce(topic, json.dumps({"_round": 1, "sym": "half"}), "k")
    assert crashed._producer.flush(30) == 0
    given = sink(real_broker, topic)
    given.write(1, [batch(1, [1])])
    given.flush()
    with pytest.raises(KafkaException, match="fenced"):  # the one that was thought to be dead cannot go on
        crashed._producer.commit_transaction(30)
    given.close()
    assert rounds_in(real_broker, topic) == [(1, "S0")]


def test_a_sink_of_another_process_ends_this_one(real_broker: RealBroker):
    topic = real_broker.topic()
    first, second = sink(real_broker, topic), sink(real_broker, topic, last_round=1)
    first.write(1, [batch(1, [1])])
    first.flush()
    second.write(1, [batch(1, [1])])
    first.write(2, [batch(2, [1])])
    with pytest.raises(SinkError) as refused:
        first.flush()
    assert refused.value.hint == "Is the home open twice, or was it copied?"
    second.write(2, [batch(2, [1])])
    second.flush()
    assert rounds_in(real_broker, topic) == [(1, "S0"), (2, "S0")]


@pytest.mark.thorough
def test_a_broker_that_crashes_and_comes_back_gets_every_round_once(real_broker: RealBroker):
    topic = real_broker.topic()
    acknowledged: list[int] = []
    clock = Clock()
    feed = SinkFeed(
        sink(real_broker, topic, answer_s=2.0),
        SinkSelection(),
        cursor=0,
        facts_of=lambda query_id, generation: QueryFacts(NAMES[query_id], STREAMS[query_id]),
        acknowledge=acknowledged.append,
        clock=clock,
    )
    rounds = [(number, [part([1])]) for number in range(1, 7)]
    feed.offer(rounds[:3], 3)
    feed.flush()
    wait_for(lambda: rounds_in(real_broker, topic) == [(1, "S0"), (2, "S0"), (3, "S0")])
    wait_for(lambda: real_broker.mark(f"eddyline-3f9a1c-alerts_{topic}", topic) == 3)
    real_broker.crash()  # not before: a broker that is killed while it ends a transaction may never end it
    try:
        with pytest.raises(SinkError):
            feed.offer(rounds[:5], 5)
    finally:
        real_broker.start()

    def is_taken() -> bool:
        try:
            feed.offer(rounds, 6)
            feed.flush()
            return True
        except SinkError:
            return False

    wait_for(is_taken)
    feed.sink.close()
    assert acknowledged[-1] == 6
    assert rounds_in(real_broker, topic) == [(number, "S0") for number in range(1, 7)]


# --------------------------------------------------------------------------------------------- refusals


def test_a_topic_ahead_of_the_home_is_refused(real_broker: RealBroker):
    topic = real_broker.topic()
    first = sink(real_broker, topic, last_round=50)
    first.write(50, [batch(50, [1])])
    first.flush()
    first.close()
    put_back = sink(real_broker, topic, last_round=40)
    with pytest.raises(SinkError) as refused:
        put_back.write(41, [batch(41, [1])])
    assert refused.value.problem == (
        f"sink alerts {topic}: topic {topic} has results up to round 50, the home only up to 40"
    )
    assert (
        refused.value.hint == "Give the sink another name; its results then come after those that are there."
    )


def test_a_topic_that_is_not_there_is_told_with_the_nearest_name(broker):
    topic = written_topic(broker)
    given = sink(broker, topic[:-1] + "_")
    with pytest.raises(SinkError) as refused:
        given.write(1, [batch(1, [1])])
    assert refused.value.problem.endswith(f"there is no topic {topic[:-1]}_ at {broker.servers}")
    assert refused.value.hint == f"Make it. Did you mean {topic}?"


def test_a_cluster_that_does_not_answer_is_told_after_a_while():
    given = KafkaSink(
        Cluster.of("127.0.0.1:1"), "t", name="alerts", home_id="3f9a1c", last_round=0, answer_s=0.5
    )
    with pytest.raises(SinkError) as refused:
        given.write(1, [batch(1, [1])])
    assert refused.value.problem == "sink alerts: writing to topic t cannot begin"
    assert refused.value.hint.startswith("Is 127.0.0.1:1 right, and does it run?")


def test_a_result_that_is_too_large_for_the_topic_is_told(real_broker: RealBroker):
    topic = real_broker.topic(max_message_bytes="1000")
    given = sink(real_broker, topic)
    given.write(1, [batch(1, [1], sym=["x" * 5_000])])
    with pytest.raises(SinkError) as refused:
        given.flush()
    assert "too large" in str(refused.value)
    given.close()
    assert rounds_in(real_broker, topic) == []


def test_without_the_client_library_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SinkError, match="sink alerts: Kafka needs the package confluent-kafka"):
        KafkaSink(Cluster.of("localhost:1"), "t", name="alerts", home_id="3f9a1c", last_round=0)
