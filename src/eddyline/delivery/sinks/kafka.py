"""Results, or what alerts say, as messages of a Kafka topic: JSON, as the lines of a file would be, keyed by the query.

Rounds are written in transactions, some rounds in one, each with the number of its last round as its mark (`kafka/writer.py`).
A consumer of committed messages finds every result once: after a crash between the transaction and the cursor's advance the
same rounds come again, and those up to the mark are in the topic already. The mark is asked for after older transactions of this
sink have ended, so there is no third case.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence

from eddyline.delivery.sinks.batches import Batch
from eddyline.delivery.sinks.sink import SinkError
from eddyline.errors import did_you_mean
from eddyline.kafka import ANSWER_S, Cluster, KafkaFailure, UnknownTopic, Writer, check_library

BYTES_AT_ONCE = (
    16 << 20
)  # of results as columns; a transaction does not grow beyond the round that passes this
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


class KafkaSink:
    """A transaction for every few rounds: `every_s` seconds after its first result, or when enough wait."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        name: str,
        home_id: str,
        last_round: int,
        takes: str = "results",
        every_s: float = 0.1,
        answer_s: float = ANSWER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Opens no connection yet. `last_round` is the last one the home has, or the id of the last message if it takes alerts.

        Raises SinkError without the client library.
        """
        self.name = name
        self._cluster = cluster
        self._topic = topic
        kind = "" if takes == "results" else f"+{takes}"
        self._writer_name = f"eddyline-{home_id}-{_UNSAFE.sub('_', name)}{kind}"
        self._words = ("results up to round", "rounds") if takes == "results" else ("alerts up to", "alerts")
        self._last_round = (
            last_round  # no mark can be above this: neither of an earlier process, nor of this one
        )
        self._every_s = every_s
        self._answer_s = answer_s
        self._clock = clock
        self._writer: Writer | None = None
        self._batches: list[Batch] = []
        self._nbytes = 0
        self._since: float | None = None
        try:
            check_library()
        except KafkaFailure as failure:
            raise self._sink_error(failure) from None

    def has_room(self, number: int, n_items: int) -> bool:
        return True

    def write(self, number: int, batches: Sequence[Batch]) -> None:
        mark = self._current_writer().mark
        if mark is not None and number <= mark:
            return  # it was written before a crash, and not acknowledged
        self._batches += batches
        self._nbytes += sum(batch.rows.nbytes for batch in batches)
        if self._since is None:
            self._since = self._clock()

    def is_due(self) -> bool:
        if self._since is None:
            return False
        return self._nbytes >= BYTES_AT_ONCE or self._clock() - self._since >= self._every_s

    def is_full(self) -> bool:
        return self.is_due()

    def wait_s(self) -> float:
        return math.inf if self._since is None else max(0.0, self._since + self._every_s - self._clock())

    def flush(self) -> bool:
        if self._batches:
            try:
                writer = self._current_writer()
                self._last_round = max(self._last_round, self._batches[-1].number)
                writer.write(self._messages(), self._batches[-1].number)
            except KafkaFailure as failure:
                self._let_go()
                raise self._sink_error(failure) from None
        self._clear()
        return True

    def forget(self, cursor: int) -> None:
        self._clear()

    def interrupt(self) -> None:
        """The client has time limits of its own."""

    def close(self) -> None:
        self._let_go()

    # ----------------------------------------------------------------------------------------- inside

    def _current_writer(self) -> Writer:
        """The writer; a new one after a failure, which ends what the other had begun and knows what is there."""
        if self._writer is None:
            try:
                self._writer = Writer(self._cluster, self._topic, self._writer_name, answer_s=self._answer_s)
            except UnknownTopic as failure:
                hint = f"Make it. {did_you_mean(self._topic, failure.known, noun='topic')}"
                raise SinkError(
                    f"sink {self.name}: {failure.problem} at {self._cluster.servers}", hint=hint
                ) from None
            except KafkaFailure as failure:
                raise self._sink_error(failure) from None
            self._check_mark(self._writer.mark)
        return self._writer

    def _check_mark(self, mark: int | None) -> None:
        """A topic that is ahead of the home would seem to have rounds that are still to come."""
        if mark is not None and mark > self._last_round:
            self._let_go()
            raise SinkError(
                f"sink {self.name}: topic {self._topic} has {self._words[0]} {mark}, the home only up to {self._last_round}",
                detail=f"The home was put back to an earlier state, and its {self._words[1]} would be taken for those"
                " the topic has.",
                hint="Give the sink another name; its results then come after those that are there.",
            )

    def _messages(self) -> Iterator[tuple[bytes, bytes]]:
        for batch in self._batches:
            for key, line in zip(batch.queries(), batch.lines(), strict=True):
                yield key.encode(), line.encode()

    def _clear(self) -> None:
        self._batches = []
        self._nbytes = 0
        self._since = None

    def _let_go(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _sink_error(self, failure: KafkaFailure) -> SinkError:
        return SinkError(f"sink {self.name}: {failure.problem}", detail=failure.detail, hint=failure.hint)
