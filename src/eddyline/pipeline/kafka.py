"""`type = "kafka"` of a source or a sink, and `USING kafka` in a DDL file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eddyline.errors import EddylineError, SchemaError, did_you_mean
from eddyline.kafka import Cluster, unusable_option
from eddyline.model import Stream
from eddyline.pipeline.model import KAFKA_POLL_US, KafkaTopic
from eddyline.pipeline.tables import Table
from eddyline.secrets import SecretError, is_secret, text_with_secrets
from eddyline.sources import MESSAGE_FORMATS, ON_GONE, STARTS, FileFormat, MessageRows

SERVERS_HINT = 'Name at least one: servers = "host:9092".'
TOPIC_HINT = 'Name it: topic = "trades".'

# What Spark calls it in OPTIONS; names that begin with "kafka." go to the client without that.
_SERVERS, _PREFIX = "kafka.bootstrap.servers", "kafka."
_SPARK_OPTIONS = ("subscribe", _SERVERS, "startingOffsets", "failOnDataLoss")


def read_cluster(table: Table) -> Cluster | None:
    """`servers` and `options` of a source or a sink."""
    servers = table.text_with_secrets("servers", needed=SERVERS_HINT)
    stated = table.table("options", "options")
    options: dict[str, str] = {}
    if stated is not None:
        _read_options(stated, "", options)
    return None if servers is None else Cluster.of(str(servers), options, table.document.folder)


def _read_options(table: Table, prefix: str, options: dict[str, str]) -> None:
    """Options by their whole names, which may be written with quotation marks or as tables in tables."""
    for key, value in table.values.items():
        name, at = f"{prefix}{key}", (*table.at, key)
        secret = secret_reference(value)
        if secret is None and isinstance(value, dict):
            _read_options(Table(table.document, at, value, "options"), f"{name}.", options)
            continue
        text = secret or ("true" if value is True else "false" if value is False else str(value))
        if not isinstance(value, (str, int, float, dict)):
            table.wrong(key, f"option {name} must be a text, a number or a truth value")
            continue
        problem = _problem(name, text, table)
        if problem is None:
            options[name] = text
        else:
            table.document.wrong_as(at, problem, of_key=True)  # the value may be the secret


def secret_reference(value: Any) -> str | None:
    """{ env = "NAME" } and { file = "path" } are other ways to write ${env:NAME} and ${file:path}."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, name),) = value.items()
        if kind in ("env", "file") and isinstance(name, str):
            return f"${{{kind}:{name}}}"
    return None


def _problem(name: str, text: str, table: Table) -> EddylineError | None:
    """What is wrong with an option, without its value; None if nothing is."""
    why_not = unusable_option(name)
    if why_not is not None:
        return SchemaError(f"option {name} is not for you to set", hint=why_not)
    if is_secret(name, text):
        return SchemaError(
            f"option {name} holds a secret in plain text",
            hint=f'Write "{name}" = "${{env:NAME}}" or "${{file:/path}}".',
        )
    try:
        text_with_secrets(text, table.document.folder)
    except SecretError as error:
        return error
    return None


def read_topic(
    source: Table,
    stream: Stream,
    payload: FileFormat | None,
    on_change: str,
    time_zone: str,
) -> KafkaTopic | None:
    """The topic a stream reads, or None if something about it is wrong."""
    cluster = read_cluster(source)
    topic = source.text("topic", needed=TOPIC_HINT)
    start = source.choice("start", STARTS, "earliest") or "earliest"
    on_gone = source.choice("on_gone", ON_GONE, "refuse") or "refuse"
    poll_us = source.duration_us("poll", KAFKA_POLL_US)
    if cluster is None or topic is None or payload is None:
        return None
    try:
        MessageRows(payload, stream, time_zone)
    except EddylineError as error:  # it does not suit the stream, or needs a library
        source.wrong_as("format", error)
        return None
    return KafkaTopic(cluster, topic, payload, start, on_gone, poll_us, on_change, source.place("topic"))


def topic_of_ddl(
    stream: Stream, table: Table, time_zone: str, wrong: Callable[[str, str], None]
) -> KafkaTopic | None:
    """The topic that `USING kafka` of a declaration names, with the options Spark has for it; mistakes go to `wrong`."""
    stated = {name.lower(): value for name, value in stream.options}
    spelling = {name.lower(): name for name in _SPARK_OPTIONS}
    options = {
        name[len(_PREFIX) :]: value
        for name, value in stream.options
        if name.lower().startswith(_PREFIX) and name.lower() not in spelling
    }
    n_wrong = 0

    def refuse(problem: str, hint: str) -> None:
        nonlocal n_wrong
        n_wrong += 1
        wrong(problem, hint)

    for name, _ in stream.options:
        if name.lower() not in spelling and not name.lower().startswith(_PREFIX):
            hint = did_you_mean(name, _SPARK_OPTIONS, noun="option")
            refuse(f"stream {stream.name} has no option {name} of Kafka", hint)
    for name, value in options.items():
        problem = _problem(name, value, table)
        if problem is not None:
            refuse(problem.problem, problem.hint or "")
    for name in (_SERVERS, "subscribe"):
        if name not in stated:
            refuse(f"stream {stream.name} has no option {name}", f"Write OPTIONS ('{name}' = '…').")
    start = _one_of(stated, "startingoffsets", {s: s for s in STARTS}, "earliest", refuse)
    losses = {"true": "refuse", "false": "earliest"}
    on_gone = _one_of(stated, "failondataloss", losses, "refuse", refuse)
    format_name = dict(stream.properties).get("format", "json")
    if format_name not in MESSAGE_FORMATS:
        refuse(f"format {format_name!r} is not one of {', '.join(MESSAGE_FORMATS)}", "")
    if n_wrong:
        return None
    cluster = Cluster.of(stated[_SERVERS], options, table.document.folder)
    payload = FileFormat(format_name)
    try:
        MessageRows(payload, stream, time_zone)
    except EddylineError as error:
        refuse(error.problem, error.hint or "")
        return None
    return KafkaTopic(cluster, stated["subscribe"], payload, start, on_gone, place=table.place("ddl"))


def _one_of(
    stated: Mapping[str, str],
    name: str,
    words: Mapping[str, str],
    default: str,
    refuse: Callable[[str, str], None],
) -> str:
    value = stated.get(name)
    if value is None:
        return default
    if value.lower() not in words:
        refuse(f"option {name} is {value!r}, not one of {', '.join(words)}", "")
        return default
    return words[value.lower()]
