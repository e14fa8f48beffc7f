"""`[[sinks]]`: where results and alerts go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from eddyline.delivery import FILE_FORMATS, STDOUT_FORMATS, WEBHOOK_FORMATS
from eddyline.errors import did_you_mean
from eddyline.kafka import Cluster
from eddyline.pipeline.kafka import TOPIC_HINT, read_cluster
from eddyline.pipeline.model import (
    BYTES_PER_FILE,
    FILE_EVERY_US,
    KAFKA_EVERY_US,
    FileSource,
    KafkaTopic,
    RulesSettings,
    SinkSettings,
    StreamSettings,
)
from eddyline.pipeline.tables import Table
from eddyline.pipeline.webhook import WEBHOOK_KEYS, read_webhook

TAKES = ("results", "alerts")
_SINK_TYPES = {  # with the keys that only some have
    "stdout": (),
    "file": ("path", "every", "bytes_per_file"),
    "kafka": ("servers", "topic", "options", "every"),
    "webhook": WEBHOOK_KEYS,
}
_SINK_FORMATS = {
    "stdout": STDOUT_FORMATS,
    "file": FILE_FORMATS,
    "kafka": ("jsonl",),
    "webhook": WEBHOOK_FORMATS,
}
_SINK_OWN = tuple(dict.fromkeys(key for keys in _SINK_TYPES.values() for key in keys))
_SINK = ("name", "type", "format", "takes", "queries", "streams", "start", *_SINK_OWN)


def read_sinks(
    root: Table,
    streams: Mapping[str, str],
    rules: RulesSettings,
    settings: list[StreamSettings],
    elsewhere: Mapping[str, str],
) -> tuple[SinkSettings, ...]:
    """The sinks of the file. `streams` are those it declares; `elsewhere` says where keys belong that are not of a sink."""
    known = dict(streams)
    for file in rules.files:
        known |= {name.lower(): name for name in _declared_in(file)}
    sources = {str(s.source.path) for s in settings if isinstance(s.source, FileSource)}
    sources |= {
        _topic(s.source.cluster, s.source.topic) for s in settings if isinstance(s.source, KafkaTopic)
    }
    sinks: list[SinkSettings] = []
    names: dict[str, Table] = {}
    for table in root.tables("sinks", "[[sinks]]"):
        sink = _sink(table, known, sources, elsewhere)
        if sink.name in names:
            key = "name" if table.has("name") else "type"
            first = names[sink.name].place().line
            hint = "Give each sink a name of its own: its cursor in the home goes by it."
            table.wrong(
                key,
                f"there are two sinks called {sink.name}",
                detail=f"The first is in line {first}.",
                hint=hint,
            )
        names.setdefault(sink.name, table)
        sinks.append(sink)
    return tuple(sinks)


def _sink(
    table: Table, streams: Mapping[str, str], sources: set[str], elsewhere: Mapping[str, str]
) -> SinkSettings:
    table.only(_SINK, elsewhere)
    kind = table.choice("type", tuple(_SINK_TYPES), needed=True)
    for key in _SINK_OWN:
        if kind is not None and table.has(key) and key not in _SINK_TYPES[kind]:
            fitting = " or ".join(f'"{other}"' for other, keys in _SINK_TYPES.items() if key in keys)
            table.wrong(key, f"a sink of type {kind} has no {key}", hint=f"It goes with type = {fitting}.")
    is_file = kind == "file"
    formats = _SINK_FORMATS[kind or "stdout"]
    format = table.choice("format", formats, formats[0]) or formats[0]
    takes = table.choice("takes", TAKES, "alerts" if kind == "webhook" else "results") or "results"
    path, cluster, topic, webhook = None, None, "", None
    if is_file:
        path = table.text_with_secrets("path", needed='Name the folder for the files: path = "out".')
        if path is not None and str(path) in sources:
            table.wrong("path", f"a stream reads from {path} already", hint="Write to another folder.")
    elif kind == "kafka":
        cluster = read_cluster(table)
        topic = table.text("topic", needed=TOPIC_HINT) or ""
        if cluster is not None and _topic(cluster, topic) in sources:
            table.wrong("topic", f"a stream reads topic {topic} already", hint="Write to another topic.")
    elif kind == "webhook":
        webhook = read_webhook(table, format)
        if format == "alertmanager" and takes != "alerts":
            hint = 'Leave takes out, or send results with format = "json".'
            table.wrong("takes", "Alertmanager takes alerts only", hint=hint)
    for number, name in enumerate(table.names("streams")):
        if name.lower() not in streams:
            at = (
                (*table.at, "streams", number)
                if isinstance(table.values["streams"], list)
                else (*table.at, "streams")
            )
            hint = did_you_mean(name, streams.values(), noun="stream")
            table.document.wrong(at, f"there is no stream {name}", hint=hint)
    every_us = table.duration_us("every", KAFKA_EVERY_US if kind == "kafka" else FILE_EVERY_US)
    return SinkSettings(
        name=table.text("name") or kind or "",
        type=kind or "stdout",
        format=format,
        takes=takes,
        path=path,
        queries=table.names("queries"),
        streams=table.names("streams"),
        start=table.choice("start", ("now", "beginning"), "now") or "now",
        every_us=every_us,
        bytes_per_file=table.size("bytes_per_file", BYTES_PER_FILE),
        cluster=cluster,
        topic=topic,
        webhook=webhook,
        place=table.place("path" if is_file else None),
    )


def _topic(cluster: Cluster, topic: str) -> str:
    return f"topic {topic} at {cluster.servers}"


_CREATE_TABLE = re.compile(
    r"\bCREATE\s+(?:OR\s+REPLACE\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(`[^`]+`|\w+)", re.IGNORECASE
)


def _declared_in(file: Path) -> list[str]:
    """Streams a rule file seems to declare; whether it is right is for the rules to say."""
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return []
    return [name.strip("`") for name in _CREATE_TABLE.findall(text)]
