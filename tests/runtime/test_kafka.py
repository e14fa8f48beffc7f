"""Kafka in a pipeline file: topics in, results out."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from pathlib import Path

import pytest

from eddyline.api import run
from eddyline.events import Event, SourceStarted
from eddyline.kafka import Cluster
from eddyline.pipeline import KafkaTopic, PipelineError, check_machine, load_pipeline, read_pipeline
from eddyline.sources import FileFormat
from tests.kafka_broker import Broker, RealBroker

SOURCE = """
[streams.trades]
schema = "sym STRING, price DOUBLE, _offset BIGINT"
[streams.trades.source]
type = "kafka"
servers = "${env:KAFKA_AT}"
topic = "trades"
format = "json"
"""
STDOUT = 'type = "stdout"'


def topic_of(text: str, tmp_path: Path) -> KafkaTopic:
    source = read_pipeline(text, tmp_path / "eddyline.toml").streams[0].source
    assert isinstance(source, KafkaTopic)
    return source


# --------------------------------------------------------------------------------------------- settings


def test_a_topic_has_what_is_said_and_else_the_usual(tmp_path):
    assert topic_of(SOURCE, tmp_path) == KafkaTopic(
        Cluster((("bootstrap.servers", "${env:KAFKA_AT}"),), str(tmp_path)),
        "trades",
        FileFormat("json"),
        start="earliest",
        on_gone="refuse",
        poll_us=100_000,
    )
    more = 'start = "latest"\non_gone = "earliest"\npoll = "1 second"\non_change = "restart"\n'
    found = topic_of(SOURCE + more, tmp_path)
    assert (found.start, found.on_gone, found.poll_us, found.on_change) == (
        "latest",
        "earliest",
        1_000_000,
        "restart",
    )


def test_options_are_written_with_dots_in_quotation_marks_or_as_tables_and_secrets_stay_references(tmp_path):
    options = """
[streams.trades.source.options]
"security.protocol" = "SASL_SSL"
"enable.ssl.certificate.verification" = true
"fetch.wait.max.ms" = 50
sasl.mechanism = "PLAIN"
sasl.username = { env = "KAFKA_USER" }
sasl.password = { file = "secrets/kafka" }
"ssl.key.password" = "${file:/run/secrets/key}"
"""
    assert dict(topic_of(SOURCE + options, tmp_path).cluster.options) == {
        "bootstrap.servers": "${env:KAFKA_AT}",
        "security.protocol": "SASL_SSL",
        "enable.ssl.certificate.verification": "true",
        "fetch.wait.max.ms": "50",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "${env:KAFKA_USER}",
        "sasl.password": "${file:secrets/kafka}",
        "ssl.key.password": "${file:/run/secrets/key}",
    }


def test_csv_messages_have_the_columns_that_are_not_of_the_message_itself(tmp_path):
    csv = SOURCE.replace('"json"', '"csv"\ndelimiter = ";"')
    assert topic_of(csv, tmp_path).payload == FileFormat("csv", delimiter=";")
    named = topic_of(csv + 'columns = ["price", "sym"]\n', tmp_path)
    assert named.payload == FileFormat("csv", ("price", "sym"), ";")


def test_a_ddl_file_can_name_the_topic_in_the_words_of_spark(tmp_path):
    (tmp_path / "trades.sql").write_text("""
        CREATE TABLE trades (sym STRING, ts TIMESTAMP) USING kafka
        OPTIONS ('kafka.bootstrap.servers' = '${env:KAFKA_AT}', subscribe = 'trades-eu', startingOffsets = 'latest',
                 failOnDataLoss = 'false', 'kafka.sasl.password' = '${env:KAFKA_PASSWORD}')
        TBLPROPERTIES (format = 'csv', time = 'ts')
    """)
    found = topic_of('[streams.trades]\nddl = "trades.sql"\n', tmp_path)
    options = (("bootstrap.servers", "${env:KAFKA_AT}"), ("sasl.password", "${env:KAFKA_PASSWORD}"))
    assert found == KafkaTopic(
        Cluster(options, str(tmp_path)), "trades-eu", FileFormat("csv"), start="latest", on_gone="earliest"
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("subscribe = 't', subscribePattern = 't.*'", "stream trades has no option subscribePattern of Kafka"),
        ("subscribe = 't', startingOffsets = '{}'", "option startingoffsets is '{}', not one of earliest, latest"),
        ("subscribe = 't', 'kafka.isolation.level' = 'x'", "option isolation.level is not for you to set"),
        ("subscribe = 't', 'kafka.sasl.password' = 'hunter2'", "option sasl.password holds a secret in plain text"),
    ],
)  # fmt: skip
def test_options_of_a_ddl_file_that_mean_nothing_here_are_refused(tmp_path, options, problem):
    (tmp_path / "t.sql").write_text(
        f"CREATE TABLE trades (sym STRING) USING kafka OPTIONS ('kafka.bootstrap.servers' = 'x:1', {options})"
    )
    with pytest.raises(PipelineError) as refused:
        topic_of('[streams.trades]\nddl = "t.sql"\n', tmp_path)
    assert [mistake.problem for mistake in refused.value.mistakes] == [problem]
    assert "hunter2" not in str(refused.value)


def test_secrets_and_the_client_are_looked_for_before_a_run(tmp_path, monkeypatch):
    pipeline = read_pipeline(SOURCE, tmp_path / "eddyline.toml")
    monkeypatch.delenv("KAFKA_AT", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(PipelineError) as refused:
        check_machine(pipeline)
    assert [(mistake.place.line, mistake.problem) for mistake in refused.value.mistakes] == [
        (7, "the environment variable KAFKA_AT is not set"),
        (7, "Kafka needs the package confluent-kafka, which is not installed"),
    ]


# --------------------------------------------------------------------------------------------- runs


def pipeline_between(
    broker: Broker, folder: Path, topic: str, *, source: str = "", sink: str = STDOUT
) -> Path:
    (folder / "cheap.sql").write_text("SELECT sym, _offset FROM trades WHERE price < 10")
    file = folder / "eddyline.toml"
    file.write_text(
        SOURCE.replace('topic = "trades"', f'topic = "{topic}"')
        + f'{source}\n[rules]\nfiles = ["cheap.sql"]\n[[sinks]]\n{sink}\n'
    )
    return file


def priced(*prices: float) -> list[str]:
    return [json.dumps({"sym": f"S{price:g}", "price": price}) for price in prices]


def test_a_run_goes_on_where_the_last_one_ended(broker, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_AT", broker.servers)
    topic = broker.topic()
    broker.write(topic, [*priced(5, 50, 6), "nonsense"])
    file = pipeline_between(broker, tmp_path, topic)
    for expected, more in [([("S5", 0), ("S6", 2)], priced(7, 70)), ([("S7", 4)], []), ([], [])]:
        screen = io.StringIO()
        summary = run(load_pipeline(file), once=True, stdout=screen)
        found = [json.loads(line) for line in screen.getvalue().splitlines()]
        assert [(row["sym"], row["_offset"]) for row in found] == expected
        assert summary.n_dead == (1 if expected and expected[0] == ("S5", 0) else 0)
        broker.write(topic, more)


def test_another_topic_is_refused_until_it_is_said_to_be_meant(broker, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_AT", broker.servers)
    first, second = broker.topic(), broker.topic()
    broker.write(first, priced(5))
    broker.write(second, priced(6))
    run(load_pipeline(pipeline_between(broker, tmp_path, first)), once=True, stdout=io.StringIO())
    with pytest.raises(PipelineError) as refused:
        run(load_pipeline(pipeline_between(broker, tmp_path, second)), once=True, stdout=io.StringIO())
    assert f"'kafka {first}' was read; this is 'kafka {second}'" in str(refused.value)
    file = pipeline_between(broker, tmp_path, second, source='on_change = "restart"')
    assert run(load_pipeline(file), once=True, stdout=io.StringIO()).n_rows == 1


def test_what_a_topic_read_from_its_end_had_before_is_not_read_by_a_later_run_either(
    broker, tmp_path, monkeypatch
):
    monkeypatch.setenv("KAFKA_AT", broker.servers)
    topic = broker.topic()
    broker.write(topic, priced(5))
    file = pipeline_between(broker, tmp_path, topic, source='start = "latest"')
    heard: list[Event] = []
    assert run(load_pipeline(file), once=True, stdout=io.StringIO(), on_event=heard.append).n_rows == 0
    assert [event.stream for event in heard if isinstance(event, SourceStarted)] == ["trades"]
    broker.write(topic, priced(6))
    screen = io.StringIO()
    assert run(load_pipeline(file), once=True, stdout=screen).n_rows == 1
    assert json.loads(screen.getvalue())["sym"] == "S6"


def test_results_go_to_a_topic_and_secrets_are_in_no_file_of_the_home(
    real_broker: RealBroker, tmp_path, monkeypatch
):
    monkeypatch.setenv("KAFKA_AT", real_broker.servers)
    monkeypatch.setenv("KAFKA_NAME", "correct-horse-battery")
    topic, results = real_broker.topic(2), real_broker.topic(3)
    sink = f"""
type = "kafka"
name = "alerts"
servers = "${{env:KAFKA_AT}}"
topic = "{results}"
[sinks.options]
"sasl.username" = "${{env:KAFKA_NAME}}"
"""
    file = pipeline_between(real_broker, tmp_path, topic, sink=sink)
    for prices in ((5, 50), (6,), ()):
        real_broker.write(topic, priced(*prices), partition=len(prices) % 2)
        run(load_pipeline(file), once=True)
    found = [json.loads(value) for _, value in real_broker.committed(results)]
    assert [(row["_query"], row["sym"]) for row in found] == [("cheap", "S5"), ("cheap", "S6")]
    kept = b"".join(each.read_bytes() for each in (tmp_path / "home").rglob("*") if each.is_file())
    for hush in (real_broker.servers, "correct-horse-battery"):
        assert hush.encode() not in kept


def test_results_are_kept_until_the_topic_takes_them(real_broker: RealBroker, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_AT", real_broker.servers)
    topic = real_broker.topic()
    results = f"{topic}-results"
    sink = f'type = "kafka"\nservers = "${{env:KAFKA_AT}}"\ntopic = "{results}"\n'
    file = pipeline_between(real_broker, tmp_path, topic, sink=sink)
    real_broker.write(topic, priced(5))
    with pytest.raises(Exception, match=f"there is no topic {results}"):
        run(load_pipeline(file), once=True)
    real_broker.make_topic(results)
    assert dataclasses.asdict(run(load_pipeline(file), once=True))["n_rows"] == 0
    assert [json.loads(value)["sym"] for _, value in real_broker.committed(results)] == ["S5"]
