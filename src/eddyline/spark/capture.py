"""Any streaming DataFrame feeds a stream: what Spark hands over is captured first, then it is a round like any other.

    skip      the batch is the last one of the stream, or its token is recorded: it was taken before a crash
    capture   workers write the rows of each partition to the store, in the stream's schema; few rows come to the driver instead
    round     over the captures, in the order of partitions; few rows without a job. It commits the token, "spark QUERY BATCH"
    return    Spark commits the batch

Spark offers a batch again, with the same number and the same rows, until the function has returned and Spark has noted so. The
stream remembers which Spark query feeds it and the number of its last batch; the query's id is kept in its checkpoint. So another
checkpoint, or a new one where the old was deleted, is refused before it takes a row, unless the caller says how to go on.
"""

from __future__ import annotations

import io
import json
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from eddyline.engine import Durable, ReferenceRefused, RoundEngine, SharedRounds
from eddyline.errors import (
    EddylineError,
    HomeError,
    PropertyError,
    SchemaError,
    StoreError,
    StreamChangedError,
)
from eddyline.model import Stream
from eddyline.sources import (
    ARRIVAL,
    IngestedRows,
    PlannedInput,
    capture_reference,
    captured_rows,
    ingest,
    with_all_columns,
)
from eddyline.storage import CAPTURE, NewFile, Store, StoredFile, write_capture

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

REFUSE, RESUME, READ_AGAIN = "refuse", "resume", "read again"
PARTITION_BYTES = 64 << 10  # of captured rows, up to which a partition comes to the driver instead of a file
BATCH_BYTES = (
    1 << 20
)  # of all of them, up to which the round needs no job, which takes a tenth of a second by itself
GATE_TIMEOUT_S = 60.0  # for a batch that is not taken to be stopped
REST_TIMEOUT_S = 10.0  # for Spark to write what it has under way; then it is interrupted all the same
AS_IT_CAME = " as it came"  # behind the name of the stream: captured rows that do not fit it

_CAPTURED = "file STRING, nbytes BIGINT, checksum BIGINT, rows BINARY"
_feeds: weakref.WeakValueDictionary[str, _Feed] = weakref.WeakValueDictionary()  # by run of a query


class QueryRefusedError(EddylineError):
    """A Spark query is not the one that a stream remembers, or not as far as the stream remembers it."""


class DrainingError(EddylineError):
    """A batch came while its query was being drained. It was not taken, and comes again."""


def feed_stream(
    shared: SharedRounds,
    rounds: RoundEngine,
    stream: str,
    frame: DataFrame,
    checkpoint: str | Path,
    *,
    on_new_query: str = REFUSE,
    output_mode: str = "append",
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start a Spark query whose rows are rows of a stream, each exactly once as long as home and checkpoint are kept.

    Columns go by name, whatever their case. One that the stream does not have is refused; one that the frame does not have is
    NULL, if it may be. A row that does not fit is a dead letter.

    If the stream was fed by another query or source so far, `on_new_query` says what to do: "refuse"; "resume" passes over what
    the query has ready now and takes what comes later; "read again" takes all it brings. `trigger` is given on to Spark.
    Raises QueryRefusedError, SchemaError, HomeError or PropertyError; then nothing was taken.
    """
    if on_new_query not in (REFUSE, RESUME, READ_AGAIN):
        raise PropertyError(
            f"on_new_query cannot be {on_new_query!r}", hint=f'Say "{REFUSE}", "{RESUME}" or "{READ_AGAIN}".'
        )
    if not frame.isStreaming:
        raise PropertyError(
            f"the DataFrame for stream {stream} is not a streaming one",
            hint="Make it with spark.readStream, or push its rows: engine.push(stream, frame.toArrow()).",
        )
    feed = _Feed(shared, rounds, stream, frame.sparkSession, str(checkpoint))
    feed.check_columns(frame)
    feed.accept(on_new_query)

    def start(function: Callable[[DataFrame, int], None], how: Mapping[str, Any]) -> StreamingQuery:
        writer = frame.writeStream.outputMode(output_mode).option("checkpointLocation", feed.checkpoint)
        return (writer.trigger(**how) if how else writer).foreachBatch(function).start()

    if on_new_query == RESUME and feed.is_new:
        start(feed.pass_over, {"availableNow": True}).awaitTermination()
        feed.claim()
    query = feed.query = start(feed.take, trigger or {})
    try:
        feed.claim()
    except BaseException:
        query.stop()
        raise
    _feeds[str(query.runId)] = feed
    return query


def drain(query: StreamingQuery) -> None:
    """Stop a query that feeds a stream behind the batch it is at. A query that feeds none is just stopped."""
    feed = _feeds.get(str(query.runId))
    if feed is not None:
        feed.finish_batch()
        feed.await_rest()
    query.stop()


class StoppedError(Exception):
    """A query was stopped in the middle of a batch, which comes again.

    Spark distinguishes this from a failure, which it logs with a trace, by the text of Python's error: it has to read as
    if Java had been interrupted. And it has to be short, since the expression Spark looks for that with overflows the stack on a
    long text.
    """

    def __init__(self, stream: str) -> None:
        interrupted = "py4j.protocol.Py4JJavaError: An error occurred while calling sleep: java.lang.InterruptedException"
        super().__init__(f"the query that feeds stream {stream} was stopped: {interrupted}")


class _Feed:
    """The connection from one Spark query to one stream."""

    def __init__(
        self, shared: SharedRounds, rounds: RoundEngine, stream: str, session: SparkSession, checkpoint: str
    ) -> None:
        if rounds.durable is None:
            raise HomeError(
                "an engine in memory cannot be fed by a streaming DataFrame",
                detail="What was taken must be remembered as long as Spark's checkpoint.",
                hint='Open it with a home: eddyline.open("folder/").',
            )
        with rounds.lock:
            rounds.check_open()
            self._name = rounds.catalog.stream(stream).name.lower()
        self.checkpoint = checkpoint
        self._shared_rounds = shared
        self._rounds = rounds
        self._durable: Durable = rounds.durable
        self._session = session
        self._known_id: str | None = None
        self._replaced_position: Any = (
            None  # the position of another query or source that this one may follow
        )
        self._passed_batch = -1  # the last batch that was passed over
        self._batch = threading.Lock()  # held while there is one
        self._is_draining = False
        self._is_at_gate = threading.Event()  # a batch has come that is not taken any more
        self.query: StreamingQuery | None = None

    # ----------------------------------------------------------------------------------------- before the first row

    def check_columns(self, frame: DataFrame) -> None:
        """Raise SchemaError if the rows of a frame can never be rows of the stream."""
        stream = self._stream()
        schema = frame.sparkSession.createDataFrame([], frame.schema).limit(0).toArrow().schema
        if ARRIVAL in schema.names:
            raise SchemaError(
                f"column {ARRIVAL} of the DataFrame for stream {stream.name} cannot be used",
                detail="Rows of a streaming DataFrame are numbered in the order of its batches and partitions.",
                hint=f'Leave it out: frame.drop("{ARRIVAL}").',
            )
        ingest(stream, with_all_columns(_no_rows(schema), stream), self._rounds.time_zone)

    def accept(self, on_new_query: str) -> None:
        """See what the stream was fed by so far. Raises QueryRefusedError unless this may follow it."""
        stored, query_id = self._stored_position(), self._query_id()
        if stored is None or stored["source"] == _source(query_id):
            return
        if on_new_query == REFUSE:
            raise self._refusal(stored, query_id)
        self._replaced_position = stored

    @property
    def is_new(self) -> bool:
        """Whether it follows another query or source."""
        return self._replaced_position is not None

    def claim(self) -> None:
        """Let the stream belong to this query from now on. Raises QueryRefusedError if it came to belong to another.

        That is a round without rows; one of another query that is under way ends first.
        """
        self._rounds.turns.run([self._name], self._claim)

    def _claim(self) -> None:
        with self._rounds.round_lock:
            stored, query_id = self._stored_position(), self._query_id()
            if stored is not None and stored["source"] == _source(query_id):
                return
            if stored is not None and stored != self._replaced_position:
                raise self._refusal(stored, query_id)
            position = {"source": _source(query_id), "at": {"batch": self._passed_batch}}
            self._run_here(lambda stream: IngestedRows(_no_rows(stream.schema)), position, None)

    def pass_over(self, frame: DataFrame, batch_id: int) -> None:
        """A batch that is not taken. It is worked out all the same, since Spark may keep state of it."""
        frame.write.format("noop").mode("overwrite").save()
        self._passed_batch = batch_id

    # ----------------------------------------------------------------------------------------- batches

    def finish_batch(self) -> None:
        """Wait for the batch that is being taken; from now on there is no other."""
        self._is_draining = True
        with self._batch:
            pass

    def await_rest(self) -> None:
        """Wait, for a while, until Spark has nothing under way that `stop` would interrupt: Spark would log that with a trace.

        Then it is idle, or holds a batch that is not taken.
        """
        assert self.query is not None
        until, n_idle = time.monotonic() + REST_TIMEOUT_S, 0
        while n_idle < 3 and not self._is_at_gate.wait(0.02) and time.monotonic() < until:
            status = self.query.status
            is_idle = not status["isTriggerActive"] or status["message"] == "Waiting for data to arrive"
            n_idle = n_idle + 1 if is_idle or not self.query.isActive else 0

    def take(self, frame: DataFrame, batch_id: int) -> None:
        """One batch: a round, unless it was one already."""
        try:
            self._take(frame, batch_id)
        except Exception:
            if self.query is None or self.query.isActive:
                raise
            raise StoppedError(self._name) from None

    def _wait_for_stop(self) -> None:
        """A batch came after the last: it is held until Spark interrupts it, which is how it ends a query in good order."""
        self._is_at_gate.set()
        until = time.monotonic() + GATE_TIMEOUT_S
        while self.query is not None and self.query.isActive and time.monotonic() < until:
            self._session._jvm.java.lang.Thread.sleep(
                100
            )  # in the thread of the query, where `stop` interrupts it
        raise DrainingError(f"the query that feeds stream {self._name} is being stopped")

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        with self._batch:
            if not self._is_draining:
                self._run_batch(frame, batch_id)
                return
        self._wait_for_stop()  # not with the lock: draining takes it

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        query_id = self._query_id()
        position = {
            "source": _source(query_id),
            "at": {"batch": batch_id, "offsets": self._offsets(batch_id)},
        }
        token = f"{position['source']} {batch_id}"
        if self._is_committed(position, token):
            return
        self._rounds.at_step("2 capture")
        captured = self._capture(frame)
        if captured:
            self._run(captured, position, token)

    def _is_committed(self, position: Mapping[str, Any], token: str) -> bool:
        """Whether a batch is a round already. Raises QueryRefusedError if it cannot be the stream's next one."""

        def look() -> bool:
            with self._rounds.round_lock:
                self.claim()
                last, this = self._stored_position()["at"], position["at"]
                is_same = this["batch"] == last["batch"]
                if this["batch"] < last["batch"] or (
                    is_same and "offsets" in last and this["offsets"] != last["offsets"]
                ):
                    raise self._set_back(last["batch"], this["batch"])
                with self._rounds.lock:
                    return is_same or self._rounds.by_token(token) is not None

        return self._rounds.turns.run([self._name], look)

    def _capture(self, frame: DataFrame) -> list[StoredFile | bytes]:
        """The rows of a batch, in order: files of the store, or the bytes of such a file where it would be small."""
        stream, durable = self._stream(), self._durable
        capture = _capture_function(
            str(durable.store.folder.absolute()),
            durable.epoch,
            stream,
            self._rounds.time_zone,
            self._rounds.choices.task_bytes,
        )
        found = frame.mapInArrow(capture, _CAPTURED).collect()  # comes in the order of partitions
        return [
            bytes(row.rows) if row.file is None else StoredFile(row.file, row.nbytes, row.checksum)
            for row in found
        ]

    def _run(self, captured: Sequence[StoredFile | bytes], position: Mapping[str, Any], token: str) -> None:
        """The round: here if everything came here and it is little, else in tasks."""
        store = self._durable.store
        if self._stream().is_keyed:  # each row changes the table, which is here
            every = [each if isinstance(each, bytes) else store.read(each, is_new=True) for each in captured]
            self._run_here(lambda stream: _together(every, stream, self._rounds.time_zone), position, token)
            store.remove(each.name for each in captured if isinstance(each, StoredFile))
            return
        here = [each for each in captured if isinstance(each, bytes)]
        if len(here) == len(captured) and sum(map(len, here)) <= BATCH_BYTES:
            self._run_here(lambda stream: _together(here, stream, self._rounds.time_zone), position, token)
            return
        files = tuple(
            each if isinstance(each, StoredFile) else _store_capture(store, each) for each in captured
        )
        folder = store.folder.absolute()
        offered = PlannedInput(
            tuple(capture_reference(folder, file) for file in files),
            lambda counts: position,
            files=tuple((CAPTURE, file) for file in files),
        )
        try:
            self._shared_rounds.run_round({self._name: offered}, position_of=self._still_ours, token=token)
        except ReferenceRefused as error:
            raise StoreError(
                f"captured rows of stream {self._name} cannot be read",
                detail=error.why,
                hint="The round has not happened; start the query again to capture them anew.",
            ) from error

    def _still_ours(self, name: str, position: Any) -> object:
        """The position, unless the stream has come to belong to another query."""
        stored = self._stored_position()
        if stored is not None and stored["source"] != position["source"]:
            raise self._refusal(stored, self._query_id())
        return position

    def _run_here(
        self, rows: Callable[[Stream], IngestedRows], position: Mapping[str, Any], token: str | None
    ) -> None:
        def work() -> None:
            with self._rounds.round_lock:
                while True:
                    try:
                        if token is not None:
                            self._still_ours(self._name, position)
                        inputs = {self._name: rows(self._stream())}
                        self._rounds.run_round(inputs, token=token, positions={self._name: position})
                        return
                    except StreamChangedError:  # it got a column meanwhile
                        continue

        self._rounds.turns.run([self._name], work)

    # ----------------------------------------------------------------------------------------- what is known

    def _stream(self) -> Stream:
        with self._rounds.lock:
            return self._rounds.catalog.stream(self._name)

    def _stored_position(self) -> Any:
        with self._rounds.lock:
            self._rounds.check_open()
            return self._durable.rounds.position(self._name)

    def _query_id(self) -> str | None:
        """The id of the query that has the checkpoint; None before its first start."""
        if self._known_id is None:
            metadata = self._file("metadata")
            self._known_id = None if metadata is None else str(json.loads(metadata)["id"])
        return self._known_id

    def _offsets(self, batch_id: int) -> int:
        """By which a batch is known again: a checkpoint that lost its end gives the number to other rows."""
        return zlib.crc32(self._file(f"offsets/{batch_id}") or b"")

    def _file(self, name: str) -> bytes | None:
        """A file of the checkpoint, wherever Spark keeps it; None if it is not there."""
        path = self._session._jvm.org.apache.hadoop.fs.Path(f"{self.checkpoint}/{name}")
        files = path.getFileSystem(self._session._jsc.hadoopConfiguration())
        if not files.exists(path):
            return None
        opened = files.open(path)
        try:
            return bytes(opened.readAllBytes())
        finally:
            opened.close()

    def _refusal(self, stored: Any, query_id: str | None) -> QueryRefusedError:
        new = "its checkpoint is new" if query_id is None else f"this is {_source(query_id)!r}"
        return QueryRefusedError(
            f"stream {self._name} was fed by another query or source so far",
            detail=f"The home remembers how far {stored['source']!r} was read; {new}.",
            hint="Give the checkpoint that query had. If it is gone, say what to do: "
            f'on_new_query="{RESUME}" takes the rows that come from now on, '
            f'on_new_query="{READ_AGAIN}" takes all rows of the new query, also those that were taken before.',
        )

    def _set_back(self, last: int, batch_id: int) -> QueryRefusedError:
        return QueryRefusedError(
            f"the checkpoint of the query that feeds stream {self._name} was set back",
            detail=f"It is at batch {batch_id}, which is not the batch of that number that was taken; the last was {last}. "
            "This happens when it is restored from a copy, or when a power cut takes its newest files.",
            hint=f'Start with a new checkpoint, and say on_new_query="{RESUME}" or "{READ_AGAIN}".',
        )


def _source(query_id: str | None) -> str:
    return f"spark {query_id}"


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _together(captures: Sequence[bytes | pa.Buffer], stream: Stream, time_zone: str) -> IngestedRows:
    """Captured rows as one batch."""
    pieces = [
        each for capture in captures for each in captured_rows(pa.py_buffer(capture), stream, time_zone)
    ]
    return IngestedRows(
        pa.concat_batches([each.rows for each in pieces]),
        misfits=[misfit for each in pieces for misfit in each.misfits],
    )


def _store_capture(store: Store, capture: bytes) -> StoredFile:
    def write(file: BinaryIO) -> None:
        file.write(capture)

    return store.put(CAPTURE, write)


# --------------------------------------------------------------------------------------------- in workers


def _capture_function(
    folder: str, epoch: int, stream: Stream, time_zone: str, task_bytes: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What captures the rows of a partition."""

    def capture(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = _Captures(Store(Path(folder), epoch), task_bytes)
        try:
            for rows in batches:
                for name, captured in _captured_as(rows, stream, time_zone):
                    writer.add(name, captured)
            yield _capture_batch(writer.finish())
        except BaseException:
            writer.discard()
            raise

    return capture


def _captured_as(
    rows: pa.RecordBatch, stream: Stream, time_zone: str
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows in the stream's schema under its name; those that do not fit as they came, under another."""
    ingested = ingest(stream, with_all_columns(rows, stream), time_zone)
    if ingested.rows.num_rows:
        yield stream.name, ingested.rows
    if ingested.misfits:
        yield (
            stream.name + AS_IT_CAME,
            pa.RecordBatch.from_pylist([m.row for m in ingested.misfits], rows.schema),
        )


class _Captures:
    """What a partition is captured to: files of about the size of a task, and memory for the rest while it is little."""

    def __init__(self, store: Store, task_bytes: int) -> None:
        self._store = store
        self._task_bytes = task_bytes
        self._rest = io.BytesIO()
        self._file: NewFile | None = None
        self._finished_captures: list[StoredFile | bytes] = []

    def add(self, name: str, rows: pa.RecordBatch) -> None:
        write_capture(self._file or self._rest, [(name, rows)])  # type: ignore[arg-type]
        if self._rest.tell() > PARTITION_BYTES:
            self._file = self._store.create(CAPTURE)
            self._file.write(self._rest.getvalue())
            self._rest = io.BytesIO()
        if self._file is not None and self._file.nbytes >= self._task_bytes:
            self._finish_file(self._file)

    def finish(self) -> list[StoredFile | bytes]:
        """Everything that was added, in order; files are flushed."""
        if self._file is not None:
            self._finish_file(self._file)
        rest = self._rest.getvalue()
        return [*self._finished_captures, rest] if rest else self._finished_captures

    def discard(self) -> None:
        if self._file is not None:
            self._file.discard()
        names = [each.name for each in self._finished_captures if isinstance(each, StoredFile)]
        self._store.remove(names)

    def _finish_file(self, file: NewFile) -> None:
        self._file = None
        self._finished_captures.append(file.finish())


def _capture_batch(captured: Sequence[StoredFile | bytes]) -> pa.RecordBatch:
    """What was captured, as a batch for the driver."""
    files = [each if isinstance(each, StoredFile) else StoredFile("", 0, 0) for each in captured]
    rows = [each if isinstance(each, bytes) else None for each in captured]
    return pa.record_batch(
        {
            "file": pa.array([file.name or None for file in files], pa.string()),
            "nbytes": pa.array([file.nbytes for file in files], pa.int64()),
            "checksum": pa.array([file.checksum for file in files], pa.int64()),
            "rows": pa.array(rows, pa.binary()),
        }
    )
