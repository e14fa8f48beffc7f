"""Messages of a topic into rows, wherever they are read.

A message is a row: its value holds the columns, in one of the formats. Columns with these names come from the message itself:

    _key          STRING or BINARY    as it was written; NULL without a key
    _topic        STRING
    _partition    INT or BIGINT
    _offset       BIGINT
    _timestamp    TIMESTAMP           when it was written, as the topic has it

Invariant: the rows of a reference are the same whenever they are read, in the order of their offsets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import pyarrow as pa

from eddyline.errors import SchemaError
from eddyline.kafka import Cluster, KafkaFailure, MessageRange, TopicReader, borrowed_reader
from eddyline.model import Stream
from eddyline.sources.formats import FileFormat
from eddyline.sources.ingestion import IngestedRows, Misfit
from eddyline.sources.lines import SHOWN_BYTES
from eddyline.sources.payloads import decoder_for
from eddyline.sources.references import Reference, UnreadableReference
from eddyline.sources.schema_changes import together
from eddyline.stream_properties import NULL_DELETES, delete_column
from eddyline.types import BIGINT, BINARY, INT, STRING, TIMESTAMP, type_name

KIND = "kafka"
ROWS_AT_ONCE = 10_000
BYTES_AT_ONCE = 8 << 20

NO_VALUE = "MESSAGE_WITHOUT_VALUE"
UNFIT = "ROW_DOES_NOT_FIT"

OF_THE_MESSAGE: dict[str, tuple[tuple[pa.DataType, ...], Callable[[Any], Any]]] = {
    "_key": ((STRING, BINARY), lambda message: message.key()),
    "_topic": ((STRING,), lambda message: message.topic()),
    "_partition": ((INT, BIGINT), lambda message: message.partition()),
    "_offset": ((BIGINT,), lambda message: message.offset()),
    "_timestamp": ((TIMESTAMP,), lambda message: _microseconds(message.timestamp())),
}


def reference(
    cluster: Cluster, topic: str, topic_id: str | None, payload: FileFormat, each: MessageRange, nbytes: int
) -> Reference:
    """A range of messages to read. Secrets stay references, which are looked up there."""
    what = {
        "cluster": cluster.to_json(),
        "topic": topic,
        "topic_id": topic_id,
        "partition": each.partition,
        "start": each.start,
        "end": each.end,
        "format": payload.to_json(),
    }
    return Reference(KIND, what, nbytes, lane_name(each.partition))


def lane_name(partition: int) -> str:
    """How a partition is called where the progress of a stream is kept."""
    return str(partition)


def read_kafka(reference: Reference, stream: Stream, time_zone: str) -> Iterator[IngestedRows]:
    """The rows of one reference. Raises UnreadableReference; what came before is then not to be used."""
    what = reference.what
    each = MessageRange(what["partition"], what["start"], what["end"])
    decoder = MessageRows(FileFormat.from_json(what["format"]), stream, time_zone)
    try:
        with borrowed_reader(Cluster.from_json(what["cluster"])) as reader:
            waiting: list[Any] = []
            nbytes = 0
            for came in reader.messages(what["topic"], [each]):
                for message in came:
                    waiting.append(message)
                    nbytes += size(message)
                    if len(waiting) >= ROWS_AT_ONCE or nbytes >= BYTES_AT_ONCE:
                        yield decoder.rows(waiting)
                        waiting, nbytes = [], 0
            if waiting:
                yield decoder.rows(waiting)
            check_same(reader, what["topic"], what["topic_id"])
    except KafkaFailure as failure:
        detail = f": {failure.detail}" if failure.detail else ""
        raise UnreadableReference(failure.problem + detail) from None


def check_same(reader: TopicReader, topic: str, topic_id: str | None) -> None:
    """Raises KafkaFailure if the topic was made anew: what was read until now may be of the new one."""
    if topic_id is not None and reader.topic_id(topic) != topic_id:
        raise KafkaFailure(f"topic {topic} was deleted and made anew while it was read")


def size(message: Any) -> int:
    """About how many bytes a message takes."""
    return len(message.value() or b"") + len(message.key() or b"")


class MessageRows:
    """Messages in the schema of a stream."""

    def __init__(self, payload: FileFormat, stream: Stream, time_zone: str) -> None:
        """Raises SchemaError if the format or the columns of the message itself cannot go with the stream."""
        self._stream = stream
        self._is_text = payload.has_lines
        self._own = [f for f in stream.schema if f.name.lower() in OF_THE_MESSAGE]
        check_columns(stream)
        inside = pa.schema([f for f in stream.schema if f.name.lower() not in OF_THE_MESSAGE])
        self._decoder = decoder_for(payload, Stream(stream.name, inside), time_zone)
        is_found = all(name.lower() in OF_THE_MESSAGE for name in stream.key)
        self._may_delete = stream.is_keyed and is_found and delete_column(stream) == NULL_DELETES

    def rows(self, messages: Sequence[Any]) -> IngestedRows:
        """Their rows, in their order. One that does not fit is set apart, with topic, partition and offset."""
        misfits: list[Misfit] = []
        whole: list[Any] = []
        for message in messages:
            misfit = self._unusable(message)
            if misfit is None:
                whole.append(message)
            else:
                misfits.append(misfit)
        if not self._may_delete:
            found = self._decoded_rows(whole)
        else:
            runs = itertools.groupby(whole, lambda message: message.value() is None)
            parts = [
                self._delete_rows(list(run)) if is_none else self._decoded_rows(list(run))
                for is_none, run in runs
            ]
            found = joined_parts(self._stream, parts)
        return IngestedRows(found.rows, None, [*misfits, *found.misfits], found.change)

    def _delete_rows(self, messages: Sequence[Any]) -> IngestedRows:
        """Messages without a value, as rows that have nothing but what the message itself says."""
        nothing = [pa.nulls(len(messages), f.type) for f in self._stream.schema]
        return IngestedRows(
            self._with_own(pa.RecordBatch.from_arrays(nothing, schema=self._stream.schema), messages)
        )

    def _unusable(self, message: Any) -> Misfit | None:
        """What is wrong with a message before its value is looked at."""
        value = message.value()
        if value is None and not self._may_delete:
            return _misfit(message, "the message has no value", NO_VALUE)
        if value is not None and (not value or (self._is_text and value.isspace())):
            return _misfit(message, "the message is empty", NO_VALUE)
        for f in self._own:
            column_value = OF_THE_MESSAGE[f.name.lower()][1](message)
            if column_value is None and not f.nullable:
                return _misfit(message, f"column {f.name} is NULL, which the stream does not allow", UNFIT)
            if f.type == TIMESTAMP and column_value is not None and not -(1 << 63) <= column_value < 1 << 63:
                return _misfit(message, f"column {f.name}: {column_value // 1_000} ms is no time", UNFIT)
            if f.type == STRING and isinstance(column_value, bytes) and not _is_utf8(column_value):
                return _misfit(message, f"column {f.name}: the key is not UTF-8", UNFIT)
        return None

    def _decoded_rows(self, messages: Sequence[Any]) -> IngestedRows:
        values = [message.value() for message in messages]
        if self._is_text:
            values = [value.rstrip(b"\r\n") for value in values]
        found = self._decoder.rows(values, 0, "", _Places(messages))
        assert found.rows.num_rows + len(found.misfits) == len(messages), (len(messages), found)
        is_plain = found.arrival is None or not len(found.arrival)
        if is_plain and (not self._own or not found.misfits):
            return IngestedRows(self._with_own(found.rows, messages), None, found.misfits, found.change)
        if len(messages) == 1:
            rows = self._with_own(found.rows, messages[: found.rows.num_rows])
            return IngestedRows(rows, None, found.misfits, found.change)
        # Which message a row came from is known only where all of them fit, and are in the order they came: halve until they do.
        middle = len(messages) // 2
        halves = [self._decoded_rows(messages[:middle]), self._decoded_rows(messages[middle:])]
        return joined_parts(self._stream, halves)

    def _with_own(self, rows: pa.RecordBatch, messages: Sequence[Any]) -> pa.RecordBatch:
        """The rows with the columns of the message itself."""
        if not self._own:
            return rows
        columns = []
        for f in self._stream.schema:
            own = OF_THE_MESSAGE.get(f.name.lower())
            columns.append(
                rows.column(f.name)
                if own is None
                else _column(f.type, [own[1](message) for message in messages])
            )
        return pa.RecordBatch.from_arrays(columns, schema=self._stream.schema)


def check_columns(stream: Stream) -> None:
    """Raises SchemaError if a column of the message itself has a type it cannot have, or there are no others."""
    for f in stream.schema:
        types, _ = OF_THE_MESSAGE.get(f.name.lower(), ((f.type,), None))
        if f.type not in types:
            fitting = " or ".join(type_name(t) for t in types)
            raise SchemaError(
                f"column {f.name} of stream {stream.name} is {type_name(f.type)}, and comes from the message as {fitting}",
                hint=f"Declare it as {fitting}, or give the column another name.",
            )
    if all(f.name.lower() in OF_THE_MESSAGE for f in stream.schema):
        raise SchemaError(
            f"stream {stream.name} has no column for what is in a message",
            hint=f"{', '.join(OF_THE_MESSAGE)} say where and when it came; add a column of its value.",
        )


def joined_parts(stream: Stream, parts: Sequence[IngestedRows]) -> IngestedRows:
    """Rows and misfits of several parts, one after the other."""
    misfits = [misfit for part in parts for misfit in part.misfits]
    change = together([part.change for part in parts])
    if len(parts) == 1:
        return IngestedRows(parts[0].rows, None, misfits, change)
    nothing = pa.RecordBatch.from_pylist([], schema=stream.schema)
    return IngestedRows(pa.concat_batches([part.rows for part in parts] or [nothing]), None, misfits, change)


class _Places(Sequence[str]):
    """The places of messages, written out only for those that do not fit."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return _Places(self._messages[at])
        return place(self._messages[at])


def place(message: Any) -> str:
    return f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"


def _misfit(message: Any, problem: str, error: str) -> Misfit:
    key, value = message.key(), message.value()
    row = {
        "_key": None if key is None else key[:SHOWN_BYTES].decode(errors="replace"),
        "_text": None if value is None else value[:SHOWN_BYTES].decode(errors="replace"),
    }
    return Misfit(row, f"{problem} ({place(message)})", error)


def _column(t: pa.DataType, values: list[Any]) -> pa.Array:
    if t == STRING:
        values = [value.decode() if isinstance(value, bytes) else value for value in values]
    return pa.array(values, pa.int64()).cast(t) if t == TIMESTAMP else pa.array(values, t)


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
        return True
    except UnicodeDecodeError:
        return False


def _microseconds(timestamp: tuple[int, int]) -> int | None:
    kind, milliseconds = timestamp
    return milliseconds * 1_000 if kind else None  # kind 0: the topic has none
