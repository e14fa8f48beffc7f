"""Topics of Kafka: read exactly once, with everything that can happen to a topic. The header of a run says which broker."""

from __future__ import annotations

import datetime
import io
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from eddyline.errors import SchemaError
from eddyline.events import MessagesLost, SourceStarted
from eddyline.kafka import Cluster, MessageRange, borrowed_reader, let_go
from eddyline.model import Stream
from eddyline.sources import FileFormat, IngestedRows, KafkaSource, SourceError, infer_schema, kafka_messages
from eddyline.sources import kafka as kafka_source
from eddyline.sources.changes import as_changes
from eddyline.sources.kafka_messages import read_kafka
from eddyline.sources.references import Reference, UnreadableReference
from tests.kafka_broker import Broker, RealBroker, wait_for

JSON = FileFormat("json")
STREAM = Stream("trades", infer_schema("n BIGINT"))
ALL = (10_000, 1 << 24)


@pytest.fixture(autouse=True)
def _let_go() -> Iterator[None]:
    yield
    let_go()


def rows(*numbers: int) -> list[str]:
    return [f'{{"n": {n}}}' for n in numbers]


def source(
    broker: Broker, topic: str, stream: Stream = STREAM, payload: FileFormat = JSON, **options: Any
) -> KafkaSource:
    return KafkaSource(broker.cluster, topic, payload, stream, "UTC", **{"poll_s": 0.0, **options})


def numbers(found: IngestedRows) -> list[int]:
    return found.rows.column("n").to_pylist()


def everything(given: KafkaSource, max_rows: int = 10_000) -> list[int]:
    """What is there now, round by round."""
    found: list[int] = []
    while (taken := given.take(max_rows, 1 << 24)) is not None:
        found += numbers(taken.rows)
    return found


def read(reference: Reference, stream: Stream = STREAM) -> list[IngestedRows]:
    """As a worker has it: through JSON."""
    what = json.loads(json.dumps(reference.what))
    return list(read_kafka(Reference(reference.kind, what, reference.nbytes), stream, "UTC"))


# --------------------------------------------------------------------------------------------- rows


def test_rows_come_by_partition_then_offset_and_the_position_says_how_far(broker):
    topic = broker.topic(2)
    broker.write(topic, rows(20, 21), partition=1)
    broker.write(topic, rows(10, 11, 12), partition=0)
    given = source(broker, topic)
    taken = given.take(*ALL)
    assert numbers(taken.rows) == [10, 11, 12, 20, 21]
    assert {p: n for p, n in taken.position["offsets"].items() if n} == {"0": 3, "1": 2}
    assert (taken.position["topic_id"] is not None) == broker.is_real
    assert given.take(*ALL) is None
    broker.write(topic, rows(13), partition=0)
    assert numbers(given.take(*ALL).rows) == [13]


def test_a_source_opened_at_a_position_goes_on_there(broker):
    topic = broker.topic()
    broker.write(topic, rows(1, 2, 3))
    first = source(broker, topic).take(2, 1 << 24)
    assert numbers(first.rows) == [1, 2]
    assert everything(source(broker, topic, position=json.loads(json.dumps(first.position)))) == [3]


def test_a_round_takes_its_share_of_every_partition(broker):
    topic = broker.topic(2)
    broker.write(topic, rows(*range(100)), partition=0)
    broker.write(topic, rows(*range(100, 103)), partition=1)
    given = source(broker, topic)
    taken = given.take(20, 1 << 24)
    assert numbers(taken.rows) == [*range(17), 100, 101, 102]
    assert given.is_pending
    assert everything(given, 20) == list(range(17, 100))
    assert not given.is_pending


def test_messages_larger_than_thought_end_a_round_early_and_none_is_lost(broker):
    topic = broker.topic()
    stream = Stream("big", infer_schema("n BIGINT, t STRING"))
    broker.write(topic, [json.dumps({"n": n, "t": "x" * 50_000}) for n in range(40)])
    given = source(broker, topic, stream)
    sizes, found = [], []
    while (taken := given.take(10_000, 100_000)) is not None:
        sizes.append(taken.rows.rows.num_rows)
        found += numbers(taken.rows)
    assert found == list(range(40))
    assert max(sizes[1:]) <= 4  # from the second round on it is known how large they are


@pytest.mark.parametrize(
    ("payload", "written"),
    [
        (JSON, [b'{"n": 1, "s": "a"}', b'{\n "s": "b,\\n",\n "n": 2}\n']),
        (FileFormat("csv"), [b"1,a", b'2,"b,\n"\r\n']),
        (FileFormat("csv", columns=("s", "n"), delimiter=";"), [b"a;1", b'"b,\n";2']),
    ],
)
def test_a_message_is_a_row_also_if_it_takes_several_lines(broker, payload, written):
    topic = broker.topic()
    broker.write(topic, written)
    stream = Stream("t", infer_schema("n INT, s STRING"))
    taken = source(broker, topic, stream, payload).take(*ALL)
    assert taken.rows.rows.to_pylist() == [{"n": 1, "s": "a"}, {"n": 2, "s": "b,\n"}]


def test_avro_messages_are_rows_and_one_of_another_schema_is_a_dead_letter(broker):
    fastavro = pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "trade", "fields": [{"name": "n", "type": "long"}]}
    payload = FileFormat("avro", avro_schema=json.dumps(schema), framing="confluent", schema_id=7)

    def framed(schema_id: int, n: int) -> bytes:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, schema, {"n": n})
        return b"\0" + schema_id.to_bytes(4) + written.getvalue()

    topic = broker.topic()
    broker.write(topic, [framed(7, 1), framed(8, 2), b"", framed(7, 3)])
    stream = Stream("trades", infer_schema("n BIGINT, _offset BIGINT"))
    given = source(broker, topic, stream, payload)
    [reference] = given.plan(*ALL).references
    [found] = read(reference, stream)
    assert found.rows.to_pylist() == [{"n": 1, "_offset": 0}, {"n": 3, "_offset": 3}]
    assert sorted(misfit.message.partition(", offset ")[2] for misfit in found.misfits) == ["1)", "2)"]


def test_what_does_not_fit_is_a_dead_letter_with_its_offset(broker):
    topic = broker.topic()
    broker.write(
        topic,
        ['{"n": 1}', "nonsense", None, "", '{"n": "x"}', '{"n": 2}'],
        keys=["a", "b", "c", "d", "e", "f"],
    )
    taken = source(broker, topic).take(*ALL)
    assert numbers(taken.rows) == [1, 2]
    found = {misfit.message.partition(", offset ")[2].rstrip(")")[0]: misfit for misfit in taken.rows.misfits}
    assert sorted(found) == ["1", "2", "3", "4"]
    assert found["2"].message == f"the message has no value (topic {topic}, partition 0, offset 2)"
    assert (found["2"].error, found["2"].row) == ("MESSAGE_WITHOUT_VALUE", {"_key": "c", "_text": None})
    assert found["3"].message == f"the message is empty (topic {topic}, partition 0, offset 3)"
    assert all(f"topic {topic}, partition 0, offset {at}" in misfit.message for at, misfit in found.items())


def test_a_message_without_a_value_deletes_where_the_key_is_that_of_the_message(broker):
    topic = broker.topic()
    broker.write(topic, ['{"n": 1}', None, None, "x", '{"n": 4}', None], keys=["a", "b", None, "d", "e", "a"])
    declared = Stream(
        "last", infer_schema("_key STRING, n BIGINT"), key=("_key",), properties=(("delete", "null"),)
    )
    taken = source(broker, topic, declared).take(*ALL)
    assert taken.rows.rows.to_pylist() == [
        {"_key": "a", "n": 1},
        {"_key": "b", "n": None},
        {"_key": None, "n": None},  # which the table sets apart
        {"_key": "e", "n": 4},
        {"_key": "a", "n": None},
    ]
    assert len(taken.rows.misfits) == 1
    changes = as_changes(declared, taken.rows)
    assert changes.is_delete.tolist() == [False, True, True, False, True]


def test_columns_of_the_message_itself_are_filled_also_between_rows_that_do_not_fit(broker):
    topic = broker.topic()
    stream = Stream(
        "t",
        infer_schema(
            "_key STRING, n INT, _offset BIGINT, _partition INT, _topic STRING, _timestamp TIMESTAMP"
        ),
    )
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    broker.write(
        topic,
        ['{"n": 0}', "bad", '{"n": 2}', None, '{"n": 4}', '{"n": 5}'],
        keys=["k0", "k1", None, "k3", b"\xff", "k5"],
    )
    taken = source(broker, topic, stream).take(*ALL)
    found = taken.rows.rows.to_pylist()
    assert [(row["_key"], row["n"], row["_offset"]) for row in found] == [
        ("k0", 0, 0),
        (None, 2, 2),
        ("k5", 5, 5),
    ]
    assert {(row["_topic"], row["_partition"]) for row in found} == {(topic, 0)}
    assert all(before < row["_timestamp"] < before + datetime.timedelta(minutes=10) for row in found)
    messages = sorted(misfit.message for misfit in taken.rows.misfits)
    assert messages[0].startswith("column _key: the key is not UTF-8 (")
    assert len(messages) == 3


def test_an_arrival_number_in_a_message_changes_no_order(broker):
    topic = broker.topic()
    broker.write(topic, ['{"n": 1, "_arrival": 7}', '{"n": 2}', '{"n": 3, "_arrival": 5}'])
    taken = source(broker, topic).take(*ALL)
    assert numbers(taken.rows) == [1, 2, 3]
    assert taken.rows.arrival is None
    assert taken.rows.misfits == []


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (
            "n INT, _offset STRING",
            "column _offset of stream t is STRING, and comes from the message as BIGINT",
        ),
        (
            "n INT, _Key DOUBLE",
            "column _Key of stream t is DOUBLE, and comes from the message as STRING or BINARY",
        ),
        ("_key STRING, _offset BIGINT", "stream t has no column for what is in a message"),
    ],
)
def test_columns_of_the_message_itself_have_their_types(schema, problem):
    with pytest.raises(SchemaError, match=problem):
        KafkaSource(Cluster.of("localhost:1"), "t", JSON, Stream("t", infer_schema(schema)), "UTC")


def test_a_new_column_is_read_from_the_next_round_on(broker):
    topic = broker.topic()
    broker.write(topic, ['{"n": 1}'])
    given = source(broker, topic)
    given.take(*ALL)
    given.redeclare(Stream("trades", infer_schema("n BIGINT, m INT")))
    broker.write(topic, ['{"n": 2, "m": 3}'])
    assert given.take(*ALL).rows.rows.to_pylist() == [{"n": 2, "m": 3}]


# --------------------------------------------------------------------------------------------- references


def test_references_are_read_elsewhere_and_every_time_the_same(broker, monkeypatch):
    monkeypatch.setattr(kafka_source, "REFERENCE_BYTES", 100)
    monkeypatch.setattr(kafka_messages, "ROWS_AT_ONCE", 7)
    topic = broker.topic(2)
    broker.write(topic, rows(*range(30)), partition=0)
    broker.write(topic, [*rows(100), "bad"], partition=1)
    given = source(broker, topic)
    planned = given.plan(*ALL)
    assert len(planned.references) > 3
    assert {reference.kind for reference in planned.references} == {"kafka"}
    assert all(0 < reference.nbytes <= 200 for reference in planned.references)
    first = [part for reference in planned.references for part in read(reference)]
    again = [part for reference in planned.references for part in read(reference)]
    assert [n for part in first for n in numbers(part)] == [*range(30), 100]
    assert [part.rows.to_pylist() for part in first] == [part.rows.to_pylist() for part in again]
    assert [part.misfits for part in first] == [part.misfits for part in again]
    assert len([misfit for part in first for misfit in part.misfits]) == 1

    behind = planned.position([])
    assert {p: n for p, n in behind["offsets"].items() if n} == {"0": 30, "1": 2}
    assert [r.what for r in given.plan(*ALL).references] == [r.what for r in planned.references], (
        "a plan moves nothing"
    )
    given.move_to(json.loads(json.dumps(behind)))
    assert given.plan(*ALL) is None
    assert given.take(*ALL) is None


def test_what_lies_ready_is_told_about(broker):
    topic = broker.topic()
    broker.write(topic, rows(*range(10, 60)))
    given = source(broker, topic)
    assert given.backlog_bytes() == 50 * kafka_source.FIRST_GUESS_BYTES
    planned = given.plan(*ALL)
    assert (
        sum(reference.nbytes for reference in planned.references)
        == given.backlog_bytes()
        == 50 * len('{"n": 10}')
    )
    given.move_to(planned.position([]))
    assert given.backlog_bytes() == 0


def test_messages_a_worker_could_not_read_are_told_and_offered_again(broker):
    topic = broker.topic()
    broker.write(topic, rows(1, 2))
    given = source(broker, topic)
    [reference] = given.plan(*ALL).references
    given.note_refusal(reference, "no answer")
    with pytest.raises(SourceError) as told:
        given.plan(*ALL)
    assert told.value.detail == "partition 0, offsets 0 to 2: no answer"
    assert [each.what for each in given.plan(*ALL).references] == [reference.what]


@pytest.mark.thorough
def test_a_process_forked_while_readers_wait_makes_its_own(broker):
    topic = broker.topic()
    broker.write(topic, rows(1, 2, 3))
    script = f"""
        import os, sys
        from eddyline.kafka import Cluster, MessageRange, borrowed_reader

        def read():
            with borrowed_reader(Cluster.of({broker.servers!r})) as reader:
                found = [m.offset() for some in reader.messages({topic!r}, [MessageRange(0, 0, 3)]) for m in some]
            assert found == [0, 1, 2], found
            return reader

        first = read()
        assert read() is first
        child = os.fork()
        if child == 0:
            assert read() is not first
            sys.exit(7)  # an orderly end, which ends what it holds
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert read() is first
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# --------------------------------------------------------------------------------------------- where it begins


def test_a_topic_read_from_its_end_remembers_where_that_was(broker):
    topic = broker.topic()
    broker.write(topic, rows(1, 2))
    taken = source(broker, topic, start="latest").take(*ALL)
    assert numbers(taken.rows) == []
    assert not taken.is_empty, "an event makes a round, which commits the position"
    [started] = taken.events
    assert isinstance(started, SourceStarted)
    assert started.message.startswith(f"topic {topic} is read from its end: partition 0 from offset 2")
    broker.write(topic, rows(3))
    assert everything(source(broker, topic, start="latest", position=taken.position)) == [3]


# --------------------------------------------------------------------------------------------- refusals


def test_a_topic_that_is_not_there_is_told_with_the_nearest_name(broker):
    topic = broker.topic()
    broker.write(topic, rows(1))
    with pytest.raises(SourceError) as refused:
        source(broker, topic[:-1] + "_").take(*ALL)
    assert refused.value.problem == f"there is no topic {topic[:-1]}_ at {broker.servers}"
    assert refused.value.hint == f"Did you mean {topic}?"


def test_a_cluster_that_does_not_answer_is_told_after_a_while():
    given = KafkaSource(Cluster.of("127.0.0.1:1"), "t", JSON, STREAM, "UTC", answer_s=0.5)
    with pytest.raises(SourceError) as refused:
        given.take(*ALL)
    assert refused.value.problem == "the Kafka cluster of topic t does not answer"
    assert "127.0.0.1:1" in refused.value.detail
    assert refused.value.hint.startswith("Is 127.0.0.1:1 right, and does it run?")


def test_options_the_client_does_not_know_are_refused():
    cluster = Cluster.of("127.0.0.1:1", {"fetch.wait.max.sm": "5"})
    with pytest.raises(SourceError, match="the options for Kafka cannot be used") as refused:
        KafkaSource(cluster, "t", JSON, STREAM, "UTC").take(*ALL)
    assert "fetch.wait.max.sm" in refused.value.detail


def test_without_the_client_library_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SourceError, match="Kafka needs the package confluent-kafka") as refused:
        KafkaSource(Cluster.of("localhost:1"), "t", JSON, STREAM, "UTC")
    assert refused.value.hint == "Run: pip install 'eddyline[kafka]'."


def test_secrets_are_looked_up_where_rows_are_read_and_are_nowhere_else(broker, monkeypatch, tmp_path):
    topic = broker.topic()
    broker.write(topic, rows(1, 2))
    (tmp_path / "password").write_text("correct-horse-battery\n")
    options = {"sasl.password": "${file:password}", "sasl.username": "${env:KAFKA_USER}"}
    cluster = Cluster.of("${env:KAFKA_AT}", options, tmp_path)
    monkeypatch.setenv("KAFKA_AT", broker.servers)
    monkeypatch.setenv("KAFKA_USER", "somebody-secret")
    given = KafkaSource(cluster, topic, JSON, STREAM, "UTC", poll_s=0.0)
    planned = given.plan(*ALL)
    [reference] = planned.references
    told = json.dumps([reference.what, planned.position([])]) + repr((reference, cluster))
    for hush in ("correct-horse-battery", "somebody-secret", broker.servers):
        assert hush not in told
    assert [n for part in read(reference) for n in numbers(part)] == [1, 2]
    let_go()
    monkeypatch.delenv("KAFKA_USER")
    with pytest.raises(UnreadableReference, match="the environment variable KAFKA_USER is not set"):
        read(reference)


def test_what_the_client_says_is_cleared_of_secrets(monkeypatch):
    monkeypatch.setenv("HUSH", "127.0.0.1:1")
    given = KafkaSource(Cluster.of("${env:HUSH}"), "t", JSON, STREAM, "UTC", answer_s=0.5)
    with pytest.raises(SourceError) as refused:
        given.take(*ALL)
    assert "127.0.0.1:1" not in str(refused.value)
    assert "${env:HUSH}" in str(refused.value)


# --------------------------------------------------------------------------------------------- what happens to a topic


@pytest.mark.thorough
def test_a_broker_that_crashes_and_comes_back_costs_no_row_and_repeats_none(real_broker: RealBroker):
    topic = real_broker.topic()
    real_broker.write(topic, rows(1, 2))
    given = source(real_broker, topic, answer_s=2.0)
    assert numbers(given.take(1, 1 << 24).rows) == [1]
    [reference] = given.plan(*ALL).references
    real_broker.crash()
    try:
        with pytest.raises(SourceError, match="does not answer"):
            source(real_broker, topic, answer_s=0.5).take(*ALL)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                kafka_messages, "borrowed_reader", lambda cluster: borrowed_reader(cluster, answer_s=0.5)
            )
            with pytest.raises(UnreadableReference, match=r"do not come|does not answer|cannot be asked for"):
                read(reference)
    finally:
        real_broker.start()
    real_broker.write(topic, rows(3))
    wait_for(lambda: _answers(given))
    assert everything(given) == [2, 3]
    assert [n for part in read(reference) for n in numbers(part)] == [2]


def _answers(given: KafkaSource) -> bool:
    try:
        given.backlog_bytes()
        return True
    except SourceError:
        return False


def test_a_topic_deleted_and_made_anew_is_never_taken_for_the_old_one(real_broker: RealBroker):
    topic = real_broker.topic()
    real_broker.write(topic, rows(1, 2, 3))
    given = source(real_broker, topic)
    [reference] = given.plan(*ALL).references
    position = given.take(*ALL).position
    real_broker.delete_topic(topic)
    with pytest.raises(SourceError) as refused:
        given.take(*ALL)
    assert refused.value.problem == f"topic {topic} is gone"
    real_broker.make_topic(topic)
    real_broker.write(topic, rows(*range(11, 21)))  # more than were read: offsets alone would not tell
    wait_for(lambda: len(real_broker.committed(topic)) == 10)
    for again in (given, source(real_broker, topic, position=position)):
        with pytest.raises(SourceError, match="is not the one that was read so far"):
            again.take(*ALL)
        with pytest.raises(SourceError, match="is not the one that was read so far"):
            again.plan(*ALL)
    with pytest.raises(UnreadableReference, match="was deleted and made anew while it was read"):
        read(reference)
    going_on = source(real_broker, topic, position=position, on_gone="earliest")
    taken = going_on.take(*ALL)
    assert numbers(taken.rows) == list(range(11, 21))
    [lost] = taken.events
    assert isinstance(lost, MessagesLost)
    assert lost.n_offsets is None
    assert everything(source(real_broker, topic, position=taken.position)) == []


def test_messages_that_retention_removed_unread_are_an_error_or_counted(real_broker: RealBroker):
    topic = real_broker.topic()
    real_broker.write(topic, rows(*range(10)))
    given = source(real_broker, topic)
    given.take(2, 1 << 24)
    [reference] = given.plan(*ALL).references
    position = given.take(1, 1 << 24).position
    remove_before(real_broker, topic, 7)
    with pytest.raises(SourceError) as refused:
        source(real_broker, topic, position=position).take(*ALL)
    assert refused.value.problem == f"messages of topic {topic} are gone before they were read"
    assert refused.value.detail == "partition 0: to be read next was offset 3, the first there is 7."
    with pytest.raises(UnreadableReference, match=f"partition 0 of topic {topic} has no offset 2"):
        read(reference)
    planned = source(real_broker, topic, position=position, on_gone="earliest").plan(*ALL)
    [lost] = planned.events
    assert isinstance(lost, MessagesLost)
    assert lost.n_offsets == 4
    assert [n for each in planned.references for part in read(each) for n in numbers(part)] == [7, 8, 9]


def test_messages_that_go_while_a_source_reads_are_noticed(real_broker: RealBroker):
    topic = real_broker.topic()
    real_broker.write(topic, rows(*range(10)))
    given = source(real_broker, topic)
    assert numbers(given.take(2, 1 << 24).rows) == [0, 1]  # what the topic holds is known for a while now
    remove_before(real_broker, topic, 7)
    with pytest.raises(SourceError):
        given.take(*ALL)
    with pytest.raises(SourceError, match="are gone before they were read"):
        given.take(*ALL)


def remove_before(broker: RealBroker, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition

    [done] = broker.admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    done.result(30)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_partition_that_is_added_is_read_from_its_start(real_broker: RealBroker, start):
    topic = real_broker.topic()
    real_broker.write(topic, rows(1))
    given = source(real_broker, topic, start=start)
    given.take(*ALL)
    real_broker.add_partitions(topic, 3)
    real_broker.write(topic, rows(2, 3), partition=2)
    assert everything(given) == [2, 3]


# --------------------------------------------------------------------------------------------- transactions


def offsets(broker: Broker, topic: str, *range_: int) -> list[int]:
    """Offsets of the messages a reader finds in a range."""
    with borrowed_reader(broker.cluster, answer_s=5.0) as reader:
        return [m.offset() for some in reader.messages(topic, [MessageRange(0, *range_)]) for m in some]


def ends(broker: Broker, topic: str) -> dict[int, int]:
    with borrowed_reader(broker.cluster) as reader:
        return reader.topic_state(topic).ends


def test_only_what_committed_transactions_wrote_is_read(real_broker: RealBroker):
    topic = real_broker.topic()
    fine, broken = real_broker.transactional(f"{topic}-a"), real_broker.transactional(f"{topic}-b")
    transact(fine, topic, rows(1, 2, 3))
    transact(broken, topic, rows(-1, -2, -3), is_aborted=True)
    transact(fine, topic, rows(4))
    given = source(real_broker, topic)
    assert everything(given) == [1, 2, 3, 4]
    #  1  2  3  commit  -1  -2  -3  abort  4  commit
    #  0  1  2    3      4   5   6    7    8    9
    assert given.take(*ALL) is None
    assert offsets(real_broker, topic, 0, 10) == [0, 1, 2, 8]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (0, 3, [0, 1, 2]),
        (0, 4, [0, 1, 2]),  # ends with a record of the transaction, which is no message
        (3, 4, []),
        (1, 6, [1, 2]),  # ends inside of what was taken back
        (4, 8, []),
        (3, 9, [8]),
        (9, 10, []),  # nothing but the last record of the topic
    ],
)
def test_a_range_ends_by_position_whatever_stands_at_its_end(
    real_broker: RealBroker, transacted, start, end, found
):
    assert offsets(real_broker, transacted, start, end) == found


@pytest.fixture(scope="module")
def transacted(real_broker: RealBroker) -> str:
    topic = real_broker.topic()
    producer = real_broker.transactional(f"{topic}-a")
    transact(producer, topic, rows(1, 2, 3))
    transact(producer, topic, rows(-1, -2, -3), is_aborted=True)
    transact(producer, topic, rows(4))
    return topic


def test_reading_stops_before_a_transaction_that_is_under_way(real_broker: RealBroker):
    topic = real_broker.topic()
    done, open_ = real_broker.transactional(f"{topic}-a"), real_broker.transactional(f"{topic}-b")
    transact(done, topic, rows(1, 2))
    open_.begin_transaction()
    open_.produce(topic, rows(3)[0], partition=0)
    assert open_.flush(30) == 0
    real_broker.write(topic, rows(4))  # behind it, and not in a transaction
    given = source(real_broker, topic)
    assert ends(real_broker, topic) == {0: 3}, "two messages and their commit; three more offsets are there"
    assert everything(given) == [1, 2]
    with borrowed_reader(real_broker.cluster) as reader:
        low_high = reader._consumer.get_watermark_offsets(_place(topic), timeout=10)
    assert low_high == (0, 3), "the consumer's own high watermark is the last stable offset too"
    open_.commit_transaction(30)
    wait_for(lambda: ends(real_broker, topic) == {0: 6})
    assert everything(given) == [3, 4]


def _place(topic: str) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, 0)


def transact(producer: Any, topic: str, values: list[str], *, is_aborted: bool = False) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    if is_aborted:
        producer.abort_transaction(30)
    else:
        producer.commit_transaction(30)


def test_a_compacted_topic_has_holes_and_every_message_left_is_read_once(real_broker: RealBroker):
    topic = real_broker.topic(
        cleanup_policy="compact",
        segment_ms="200",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="200",
    )
    real_broker.write(topic, rows(*range(20)), keys=["a", "b"] * 10)

    def is_compacted() -> bool:
        real_broker.write(
            topic, rows(99), keys=["z"]
        )  # another segment, so that the ones before can be cleaned
        return offsets(real_broker, topic, 0, 20) == [18, 19]

    wait_for(is_compacted)
    given = source(real_broker, topic)
    planned = given.plan(*ALL)
    found = [n for each in planned.references for part in read(each) for n in numbers(part)]
    assert found[:2] == [18, 19]
    assert set(found[2:]) == {99}
    assert everything(given) == found
    assert offsets(real_broker, topic, 0, 18) == []
    assert given.take(*ALL) is None


# --------------------------------------------------------------------------------------------- large


def test_a_large_partition_is_read_whole_in_order_by_several_workers(broker, monkeypatch):
    monkeypatch.setattr(kafka_source, "REFERENCE_BYTES", 50_000)
    topic = broker.topic()
    broker.write(topic, rows(*range(30_000)))
    given = source(broker, topic)
    planned = given.plan(1_000_000, 1 << 30)
    assert len(planned.references) > 3
    found = [n for reference in planned.references for part in read(reference) for n in numbers(part)]
    assert found == list(range(30_000))
    assert everything(given, 7_001) == found
