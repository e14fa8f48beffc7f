"""A topic of Kafka, read by explicit assignment: no consumer group, nothing committed to the broker.

How far each partition was read is part of the home, committed with the round that takes the rows. What lies ready is asked for
every `poll_s` seconds while there is nothing to do. The topic ends at its last stable offset, so what a transaction wrote is
read only when it has been committed. Partitions arrive in the order of their numbers, messages in that of their offsets.

A topic that cannot be read on, because messages are gone or because it is another topic, is never passed over in silence
(`kafka_offsets.py`). A message that does not fit is a dead letter (`kafka_messages.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from eddyline.errors import did_you_mean
from eddyline.events import Event
from eddyline.kafka import (
    ANSWER_S,
    Cluster,
    KafkaFailure,
    MessageRange,
    TopicState,
    UnknownTopic,
    borrowed_reader,
    check_library,
    let_go,
)
from eddyline.model import Stream
from eddyline.sources.formats import FileFormat
from eddyline.sources.ingestion import IngestedRows, Lanes
from eddyline.sources.kafka_messages import (
    ROWS_AT_ONCE,
    MessageRows,
    check_same,
    joined_parts,
    lane_name,
    reference,
    size,
)
from eddyline.sources.kafka_offsets import (
    TopicPosition,
    TopicSettings,
    found_place,
    n_waiting,
    range_pieces,
    shared_out,
)
from eddyline.sources.positions import SourceBatch, SourceError, SourcePart, SourceProgress
from eddyline.sources.references import PlannedInput, ReadCount, Reference

STATE_S = 1.0  # while there is enough to read, what the topic holds is asked for so often
REFERENCE_BYTES = 8 << 20  # a reference holds about so much, so that workers can share a partition
FIRST_GUESS_BYTES = 200  # of a message, until some were seen
SAMPLED_MESSAGES = 100
SHOWN_PARTITIONS = 200  # of those whose progress is reported one by one
WEIGH_S = 60.0  # so often some are looked at, if none are read here


@dataclass(frozen=True, slots=True)
class _TopicContents:
    """What the topic held when it was asked last."""

    state: TopicState
    at: float


class KafkaSource:
    """Rows of one stream from one topic. Workers can read it by references, or it hands rows over itself."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        payload: FileFormat,
        stream: Stream,
        time_zone: str,
        *,
        position: dict[str, Any] | None = None,
        start: str = "earliest",
        on_gone: str = "refuse",
        poll_s: float = 0.1,
        answer_s: float = ANSWER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """No connection is opened yet. Raises SourceError without the client library, SchemaError if the format does not fit."""
        self._cluster = cluster
        self._topic = topic
        self._payload = payload
        self._time_zone = time_zone
        self._settings = TopicSettings(topic, stream.name, start, on_gone)
        self._position = TopicPosition.from_json(position)
        self._poll_s = poll_s
        self._answer_s = answer_s
        self._clock = clock
        self._contents: _TopicContents | None = None
        self._message_bytes = float(FIRST_GUESS_BYTES)
        self._weighed_at: float | None = None
        self._refusal: str | None = None
        self.redeclare(stream)
        try:
            check_library()
        except KafkaFailure as failure:
            raise self._source_error(failure) from None

    # ----------------------------------------------------------------------------------------- as a source

    def take(self, max_rows: int, max_bytes: int) -> SourceBatch | None:
        position, events = self._place()
        ranges = self._shares(position, max_rows, max_bytes)
        if not ranges and not events:
            return None
        rows, ends = self._read(ranges, max_bytes, position.topic_id)
        self._position = position.behind(ends)
        lanes = replace(self._lanes(self._position), runs=rows.lanes.runs)
        return SourceBatch(replace(rows, lanes=lanes), self._position.to_json(), events)

    def redeclare(self, stream: Stream) -> None:
        self._stream = stream
        self._decoder = MessageRows(self._payload, stream, self._time_zone)

    def wait_s(self) -> float:
        return 0.0 if self._contents is None else max(0.0, self._contents.at + self._poll_s - self._clock())

    def progress(self) -> SourceProgress:
        position, contents = self._position, self._contents
        if position is None:
            return SourceProgress("nothing read yet", None, "messages")
        ends = {} if contents is None else contents.state.ends
        parts = tuple(
            SourcePart(
                f"partition {p}", f"offset {offset:,}", max(0, ends[p] - offset) if p in ends else None
            )
            for p, offset in sorted(position.offsets.items())[:SHOWN_PARTITIONS]
        )
        n_partitions = len(position.offsets)
        words = f"{n_partitions} partition{'' if n_partitions == 1 else 's'}"
        return SourceProgress(
            words, None if contents is None else n_waiting(position, contents.state), "messages", parts
        )

    @property
    def is_pending(self) -> bool:
        return self._contents is not None and self._n_waiting() > 0

    @property
    def is_finished(self) -> bool:
        return False

    def close(self) -> None:
        let_go(self._cluster)

    # ----------------------------------------------------------------------------------------- by references

    def backlog_bytes(self) -> int:
        """About how much lies ready, from how large messages were so far. Raises SourceError."""
        position, _ = self._place()
        assert self._contents is not None
        return int(n_waiting(position, self._contents.state) * self._message_bytes)

    def plan(self, max_rows: int, max_bytes: int) -> PlannedInput | None:
        position, events = self._place()
        if self._weighed_at is None or self._clock() >= self._weighed_at + WEIGH_S:
            self._sample(position)  # workers do not report it
        ranges = self._shares(position, max_rows, max_bytes)
        if not ranges and not events:
            return None
        n_messages = max(1, int(REFERENCE_BYTES / self._message_bytes))
        pieces = [piece for each in ranges for piece in range_pieces(each, n_messages)]
        behind = position.behind({each.partition: each.end for each in ranges})

        def position_behind(counts: Sequence[ReadCount]) -> Any:
            return behind.to_json()

        return PlannedInput(
            tuple(self._reference(piece, position) for piece in pieces),
            position_behind,
            events=tuple(events),
            lanes=self._lanes(behind),
        )

    def move_to(self, position: Any) -> None:
        self._position = TopicPosition.from_json(position)

    def note_refusal(self, reference: Reference, why: str) -> None:
        """Messages are never set aside unread: the next plan says why they could not be read, the one after offers them again."""
        what = reference.what
        where = f"partition {what['partition']}, offsets {what['start']} to {what['end']}"
        self._refusal = f"{where}: {why}"
        self._contents = None

    def _reference(self, piece: MessageRange, position: TopicPosition) -> Reference:
        nbytes = int(len(piece) * self._message_bytes)
        return reference(self._cluster, self._topic, position.topic_id, self._payload, piece, nbytes)

    # ----------------------------------------------------------------------------------------- the topic

    def _place(self) -> tuple[TopicPosition, list[Event]]:
        """Where to read on, and the events to report. Raises SourceError if reading cannot go on."""
        state = self._state()
        found = found_place(self._position, state, self._settings)
        if self._refusal is not None:
            why, self._refusal = self._refusal, None
            raise SourceError(
                f"messages of topic {self._topic} cannot be read", detail=why, hint="It is tried again."
            )
        return found

    def _state(self) -> TopicState:
        """What the topic holds, asked for if it may have changed since."""
        if self._contents is not None:
            fresh_s = STATE_S if self._n_waiting() else self._poll_s
            if self._clock() < self._contents.at + fresh_s:
                return self._contents.state
        try:
            with borrowed_reader(self._cluster, answer_s=self._answer_s) as reader:
                state = reader.topic_state(self._topic)
        except UnknownTopic as failure:
            self._contents = None
            raise self._no_topic(failure) from None
        except KafkaFailure as failure:
            raise self._source_error(failure) from None
        self._contents = _TopicContents(state, self._clock())
        return state

    def _no_topic(self, failure: UnknownTopic) -> SourceError:
        if self._position is None:
            hint = did_you_mean(self._topic, failure.known, noun="topic")
            return SourceError(f"{failure.problem} at {self._cluster.servers}", hint=hint)
        return SourceError(
            f"topic {self._topic} is gone",
            detail=f"It was read so far, and is not at {self._cluster.servers} any more.",
            hint='If it is made anew, say on_gone = "earliest" to read the new one from its start.',
        )

    def _n_waiting(self) -> int:
        if self._contents is None or self._position is None:
            return 0
        return n_waiting(self._position, self._contents.state)

    def _shares(self, position: TopicPosition, max_rows: int, max_bytes: int) -> list[MessageRange]:
        assert self._contents is not None
        n_messages = min(max_rows, int(max_bytes / self._message_bytes))
        return shared_out(position, self._contents.state, max(1, n_messages))

    def _lanes(self, position: TopicPosition) -> Lanes:
        """The partitions there are, and those of which more lies ready."""
        assert self._contents is not None
        ends = self._contents.state.ends
        waiting = [p for p, end in ends.items() if position.offsets.get(p, end) < end]
        return Lanes(behind=frozenset(map(lane_name, waiting)), known=frozenset(lane_name(p) for p in ends))

    # ----------------------------------------------------------------------------------------- messages

    def _read(
        self, ranges: Sequence[MessageRange], max_bytes: int, topic_id: str | None
    ) -> tuple[IngestedRows, dict[int, int]]:
        """The rows of these ranges, and how far each was read: less than all of it if messages are larger than thought."""
        by_partition: dict[int, list[Any]] = {each.partition: [] for each in ranges}
        ends = {each.partition: each.end for each in ranges}
        nbytes = n_messages = 0
        try:
            with (
                borrowed_reader(self._cluster, answer_s=self._answer_s) as reader,
                closing(reader.messages(self._topic, ranges)) as coming,
            ):
                for came in coming:
                    for message in came:
                        by_partition[message.partition()].append(message)
                        nbytes += size(message)
                    n_messages += len(came)
                    if nbytes > 2 * max_bytes:
                        starts = {each.partition: each.start for each in ranges}
                        ends = {p: m[-1].offset() + 1 if m else starts[p] for p, m in by_partition.items()}
                        break
                check_same(reader, self._topic, topic_id)
        except KafkaFailure as failure:
            raise self._source_error(failure) from None
        self._weigh(nbytes, n_messages)
        parts = [
            (partition, self._decoder.rows(messages[at : at + ROWS_AT_ONCE]))
            for partition, messages in by_partition.items()
            for at in range(0, len(messages), ROWS_AT_ONCE)
        ]
        runs = tuple((lane_name(partition), part.rows.num_rows) for partition, part in parts)
        rows = joined_parts(self._stream, [part for _, part in parts])
        return replace(rows, lanes=Lanes(runs)), ends

    def _sample(self, position: TopicPosition) -> None:
        """Read some messages only to learn how large they are."""
        ranges = self._shares(position, SAMPLED_MESSAGES, REFERENCE_BYTES)
        try:
            with borrowed_reader(self._cluster, answer_s=self._answer_s) as reader:
                came = [message for some in reader.messages(self._topic, ranges) for message in some]
        except KafkaFailure as failure:
            raise self._source_error(failure) from None
        self._weigh(sum(map(size, came)), len(came))

    def _source_error(self, failure: KafkaFailure) -> SourceError:
        """A failure as sources report it; the contents of the topic are fetched anew, which may give a better report."""
        self._contents = None
        return SourceError(failure.problem, detail=failure.detail, hint=failure.hint)

    def _weigh(self, nbytes: int, n_messages: int) -> None:
        """Learn how large messages are: half from these, half from before."""
        if n_messages:
            mean_bytes = max(1.0, nbytes / n_messages)
            self._message_bytes = (
                mean_bytes if self._weighed_at is None else (mean_bytes + self._message_bytes) / 2
            )
            self._weighed_at = self._clock()
