"""The work of the toy rounds: what tasks read, write and return.

Rows in files have ordinals. A row's arrival number is the base of its round plus its ordinal, and only a committed round has a
base; so in outbox files a row of the very round has -1 - ordinal in place of its arrival number.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.storage import Store, StoredFile, StoredPart, read_capture, write_capture, write_parts
from tests.spark.fire import Course

SEGMENT, OUTBOX = "segment", "outbox"
STREAMS = {"a": "x", "b": "y"}  # and the name of the column beside the key


@dataclass(frozen=True)
class Reference:
    """One new file of a stream."""

    stream: str
    path: Path
    first_ordinal: int
    n_rows: int


@dataclass(frozen=True)
class Segment:
    """Rows that stand: of a committed round, or, without a base, of the one that runs."""

    file: StoredFile
    base: int | None


@dataclass(frozen=True)
class Written:
    """What a task returns: its file, and how many rows or results that holds."""

    file: StoredFile
    n: int


def run_tasks(spark: Any, n: int, work: Callable[[int], Written]) -> list[Written]:
    """One task for each number below n; what they wrote, by the attempts that Spark counts."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                written = work(number)
                answer = {**asdict(written.file), "n": written.n}
                yield pa.RecordBatch.from_pylist([answer])

    answers = "name string, nbytes long, checksum long, n long"
    rows = spark.range(n, numPartitions=n).mapInArrow(task, answers).collect()
    return [Written(StoredFile(row.name, row.nbytes, row.checksum), row.n) for row in rows]


def build(store: Store, number: int, reference: Reference, course: Course) -> Written:
    """The rows of a reference as a segment."""
    course.passing(f"task {number} begins")
    rows = pq.read_table(reference.path).combine_chunks()
    ordinals = np.arange(reference.n_rows) + reference.first_ordinal
    batch = pa.record_batch([rows["k"].combine_chunks(), rows[STREAMS[reference.stream]].combine_chunks(), ordinals],
                            ["k", "value", "ordinal"])  # fmt: skip
    file = put(store, SEGMENT, lambda file: write_capture(file, [(reference.stream, batch)]), number, course)
    return Written(file, len(batch))


def probe(store: Store, number: int, new: Segment, known: Sequence[Segment], course: Course) -> Written:
    """The results that the rows of a new segment bring: pairs with rows of the other stream that came before."""
    course.passing(f"task {number} begins")
    ((mine, own),) = segment_rows(store, new)
    partners: dict[int, list[tuple[int, int]]] = {}
    for segment in known:
        for stream, rows in segment_rows(store, segment):
            if stream != mine:
                for k, value, row in rows:
                    partners.setdefault(k, []).append((value, row))
    results = []
    for k, value, row in own:
        for partner_value, partner in partners.get(k, []):
            if (
                partner >= 0 or partner > row
            ):  # an earlier round's, or earlier in this one: below 0, numbers fall
                pair = {mine: (row, value), "a" if mine == "b" else "b": (partner, partner_value)}
                results.append((row, *pair["a"], *pair["b"]))
    file = put(store, OUTBOX, lambda file: write_parts(file, [part_of(results)]), number, course)
    return Written(file, len(results))


def segment_rows(store: Store, segment: Segment) -> list[tuple[str, list[tuple[int, int, int]]]]:
    """The stream, and (k, value, row) of each row, where row is an arrival number, or -1 - ordinal in the round that runs."""
    found = []
    for stream, batch in read_capture(store.read(segment.file)):
        ordinals = batch.column("ordinal").to_numpy()
        numbers = -1 - ordinals if segment.base is None else ordinals + segment.base
        columns = batch.column("k").to_pylist(), batch.column("value").to_pylist(), numbers.tolist()
        found.append((stream, list(zip(*columns, strict=True))))
    return found


def put(
    store: Store, kind: str, write: Callable[[BinaryIO], None], number: int, course: Course
) -> StoredFile:
    """A new file, written in two halves."""
    whole = io.BytesIO()
    write(whole)
    data = whole.getvalue()

    def write_halves(file: BinaryIO) -> None:
        file.write(data[: len(data) // 2])
        file.flush()
        course.passing(f"task {number} half written")
        file.write(data[len(data) // 2 :])

    file = store.put(kind, write_halves)
    course.passing(f"task {number} has written")
    return file


def part_of(results: Sequence[tuple[int, ...]]) -> StoredPart:
    columns = np.array(results, np.int64).reshape(-1, 5).T
    n = columns.shape[1]
    rows = pa.record_batch(list(columns[1:]), ["a", "x", "b", "y"])
    return StoredPart(
        np.zeros(n, np.int32),
        np.ones(n, np.int32),
        columns[0],
        np.ones(n, np.int8),
        np.zeros(n, np.bool_),
        rows,
    )


def read_results(part: StoredPart, base: int) -> list[dict[str, int]]:
    """Results as they are delivered: a and b are the arrival numbers of their rows."""
    columns = {name: np.asarray(part.rows.column(name)) for name in ("a", "x", "b", "y")}
    for name in ("a", "b"):
        columns[name] = arrivals(columns[name], base)
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*(c.tolist() for c in columns.values()), strict=True)
    ]


def arrivals(numbers: npt.NDArray[np.int64], base: int) -> npt.NDArray[np.int64]:
    return np.where(numbers < 0, base - 1 - numbers, numbers)
