"""The outbox: the results of a round as one immutable file.

A file holds one Arrow stream per part, each behind its length: the projected columns, and before them `_query`, `_generation`,
`_arrival`, `_sign` and `_late`, which identify a result and say what it is. Behind them follows what is no part of the result and
the metadata of the stream counts: what functions that are not deterministic gave, a column for each call; of joins, the arrival
numbers of the rows a result is made of, a column for each input. It also says which branch of a union the results are of, and
of results that leave though no row takes them away, why.

Rows of windows that close are no results, but alerts resolve with them: those of alert queries are in a file of the same form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import PartMatches, Positions
from eddyline.model import FIRST_ORDINAL, DeadLetter
from eddyline.storage.arrow_blocks import read_blocks, write_block

_MARKS = pa.schema(
    [
        ("_query", pa.int32()),
        ("_generation", pa.int32()),
        ("_arrival", pa.int64()),
        ("_sign", pa.int8()),
        ("_late", pa.bool_()),
    ]
)
_RECORDED = "recorded columns"  # of parts: how many there are behind the result
_COMPONENTS = "component columns"  # and behind those
_BRANCH = "branch"  # of parts: which one of a union, if it is not the first
_LEAVE_REASON = "leave reason"  # of parts: why rows leave that no row takes away
_FIRST, _NUMBERED = "first arrival", "arrivals"  # of captures: numbers that count up, and any others
_DELETES = "deletes"  # of captures: a column behind all others says which rows delete
_LATE = "late"  # of captures: a column behind those of the rows says which came late


@dataclass(frozen=True, slots=True)
class StoredPart:
    """Results of some queries of one shape in one round, projected, as they were written."""

    query_ids: npt.NDArray[np.int32]
    generations: npt.NDArray[np.int32]
    arrivals: npt.NDArray[np.int64]
    signs: npt.NDArray[np.int8]
    is_late: npt.NDArray[np.bool_]
    rows: pa.RecordBatch
    recorded: pa.RecordBatch | None = None  # what calls gave, `function:k` for the k-th of the text, from 1
    components: npt.NDArray[np.int64] | None = None  # of joins: arrival numbers, a column for each input
    branch: int = 0  # of a union: which one gave the results
    leave_reason: str = ""  # of results that no row takes away: why

    def __len__(self) -> int:
        return len(self.query_ids)

    @property
    def nbytes(self) -> int:
        marks = (self.query_ids, self.generations, self.arrivals, self.signs, self.is_late)
        more = 0 if self.recorded is None else self.recorded.nbytes
        more += 0 if self.components is None else self.components.nbytes
        return int(self.rows.nbytes + more + sum(array.nbytes for array in marks))

    def project(self, pairs: Positions) -> pa.RecordBatch:
        return self.rows.take(pa.array(pairs)) if self.rows.num_columns else self.rows

    def narrow_copy(self, pairs: Positions) -> StoredPart:
        return StoredPart(
            self.query_ids[pairs],
            self.generations[pairs],
            self.arrivals[pairs],
            self.signs[pairs],
            self.is_late[pairs],
            self.project(pairs),
            None if self.recorded is None else self.recorded.take(pa.array(pairs)),
            None if self.components is None else self.components[pairs],
            self.branch,
            self.leave_reason,
        )


def stored_part(
    part: PartMatches, generations: Callable[[npt.NDArray[np.int32]], npt.NDArray[np.int32]]
) -> StoredPart:
    """Matches made ready for the outbox: projected, with the generation of each query."""
    ids = part.query_ids
    everything = np.arange(len(part))
    return StoredPart(
        ids,
        generations(ids),
        part.arrivals,
        part.signs,
        part.is_late,
        part.project(everything),
        _recorded(part),
        part.components,
        part.segment.shape.branch,
        part.leave_reason,
    )


def _recorded(part: PartMatches) -> pa.RecordBatch | None:
    calls = part.segment.recorded_calls
    if not calls:
        return None
    names = [f"{call.function}:{k}" for k, call in enumerate(calls, 1)]
    return pa.RecordBatch.from_arrays([part.computed_values[call] for call in calls], names=names)


def write_parts(file: BinaryIO, parts: Iterable[StoredPart]) -> None:
    for part in parts:
        marks = [part.query_ids, part.generations, part.arrivals, part.signs, part.is_late]
        columns = [*(pa.array(mark) for mark in marks), *part.rows.columns]
        fields, metadata = [*_MARKS, *part.rows.schema], {}
        if part.recorded is not None:
            columns += part.recorded.columns
            fields += part.recorded.schema
            metadata[_RECORDED] = str(part.recorded.num_columns)
        if part.components is not None:
            n_inputs = part.components.shape[1]
            columns += [pa.array(part.components[:, k]) for k in range(n_inputs)]
            fields += [pa.field(f"_arrival:{k}", pa.int64()) for k in range(n_inputs)]
            metadata[_COMPONENTS] = str(n_inputs)
        if part.branch:
            metadata[_BRANCH] = str(part.branch)
        if part.leave_reason:
            metadata[_LEAVE_REASON] = part.leave_reason
        write_block(file, pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata or None)))


def read_parts(buffer: pa.Buffer, first_arrival: int = 0, first_row: int = 0) -> Iterator[StoredPart]:
    """The parts of a file, without copying where Arrow need not.

    `first_arrival` is added to the arrival numbers of results. Of the rows that joins made them of, those counted from
    FIRST_ORDINAL on have their numbers from `first_row` on.
    """
    for batch in read_blocks(buffer):
        marks = [np.asarray(batch.column(k).to_numpy(zero_copy_only=False)) for k in range(len(_MARKS))]
        metadata = batch.schema.metadata or {}
        counts = (int(metadata.get(name.encode(), 0)) for name in (_RECORDED, _COMPONENTS, _BRANCH))
        n_recorded, n_inputs, branch = counts
        first_input = batch.num_columns - n_inputs
        end = first_input - n_recorded
        rows = _columns(batch, len(_MARKS), end)
        recorded = _columns(batch, end, first_input) if n_recorded else None
        components = _components(batch, first_input, first_row) if n_inputs else None
        arrivals = marks[2] + first_arrival if first_arrival else marks[2]
        ids, generations, _, signs, is_late = marks
        reason = metadata.get(_LEAVE_REASON.encode(), b"").decode()
        yield StoredPart(
            ids, generations, arrivals, signs, is_late, rows, recorded, components, branch, reason
        )


def _components(batch: pa.RecordBatch, start: int, first_row: int) -> npt.NDArray[np.int64]:
    columns = [np.asarray(column.to_numpy()) for column in batch.columns[start:]]
    components = np.stack(columns, axis=1)
    components[components >= FIRST_ORDINAL] += first_row - FIRST_ORDINAL
    return components


def _columns(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    fields = list(batch.schema)[start:end]
    return pa.RecordBatch.from_arrays(batch.columns[start:end], schema=pa.schema(fields))


def write_dead_letters(file: BinaryIO, letters: Sequence[DeadLetter]) -> None:
    """One JSON object a line, so that they can be read without eddyline."""
    for letter in letters:
        body = {name: getattr(letter, name) for name in DeadLetter.__slots__}
        try:
            line = json.dumps(body, default=_as_text, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):  # keys JSON cannot have, or a value that holds itself
            body["row"] = {str(name): _as_text(value) for name, value in letter.row.items()}
            line = json.dumps(body, ensure_ascii=False)
        file.write(line.encode("utf-8", "surrogatepass") + b"\n")


def _as_text(value: Any) -> str:
    """Whatever a user pushed, as text: a dead letter must not stop its round."""
    try:
        return str(value)
    except Exception as error:  # any object may come here
        return f"a {type(value).__name__} that cannot be shown: {type(error).__name__}"


def read_dead_letters(buffer: pa.Buffer) -> list[DeadLetter]:
    """Dead letters of a file; values JSON does not have come back as text."""
    bodies: list[dict[str, Any]] = [json.loads(line) for line in buffer.to_pybytes().splitlines()]
    return [DeadLetter(**body) for body in bodies]


class NumberedRows(NamedTuple):
    """Captured rows of a stream, and their arrival numbers, None if the file does not say; of a table also which delete. Where
    the file does not say which rows came late, none did."""

    stream: str
    rows: pa.RecordBatch
    arrivals: npt.NDArray[np.int64] | None
    is_delete: npt.NDArray[np.bool_] | None = None
    is_late: npt.NDArray[np.bool_] | None = None


def write_capture(
    file: BinaryIO,
    batches: Sequence[tuple[str, pa.RecordBatch]],
    arrivals: Mapping[str, npt.NDArray[np.int64]] | None = None,
    deletes: Mapping[str, npt.NDArray[np.bool_]] | None = None,
    late: Mapping[str, npt.NDArray[np.bool_]] | None = None,
) -> None:
    """The rows of a round as they were pushed, one Arrow stream per stream, with their arrival numbers, which ascend, and which
    of them came late."""
    for name, rows in batches:
        metadata = {"stream": name}
        if late is not None and late[name].any():
            metadata[_LATE] = "last column"
            rows = rows.append_column(_LATE, pa.array(late[name]))
        if deletes is not None and name in deletes and deletes[name].any():
            metadata[_DELETES] = "last column"
            rows = rows.append_column(_DELETES, pa.array(deletes[name]))
        if arrivals is not None and len(arrivals[name]):
            numbers = arrivals[name]
            first, last = int(numbers[0]), int(numbers[-1])
            if last - first + 1 == len(numbers):
                metadata[_FIRST] = str(first)
            else:
                metadata[_NUMBERED] = "last column"
                rows = rows.append_column(_NUMBERED, pa.array(numbers))
        write_block(file, rows.replace_schema_metadata(metadata))


def read_capture(buffer: pa.Buffer) -> Iterator[tuple[str, pa.RecordBatch]]:
    return ((found.stream, found.rows) for found in read_numbered_capture(buffer))


def read_numbered_capture(buffer: pa.Buffer) -> Iterator[NumberedRows]:
    for batch in read_blocks(buffer):
        metadata = {key.decode(): value.decode() for key, value in batch.schema.metadata.items()}
        rows, arrivals = batch.replace_schema_metadata(None), None
        if _NUMBERED in metadata:
            arrivals = np.asarray(rows.column(rows.num_columns - 1).to_numpy())
            rows = rows.remove_column(rows.num_columns - 1)
        elif _FIRST in metadata:
            first = int(metadata[_FIRST])
            arrivals = np.arange(first, first + rows.num_rows, dtype=np.int64)
        is_delete = None
        if _DELETES in metadata:  # which was behind the others before the arrival numbers were
            is_delete = np.asarray(rows.column(rows.num_columns - 1).to_numpy(zero_copy_only=False))
            rows = rows.remove_column(rows.num_columns - 1)
        is_late = None
        if _LATE in metadata:
            is_late = np.asarray(rows.column(rows.num_columns - 1).to_numpy(zero_copy_only=False))
            rows = rows.remove_column(rows.num_columns - 1)
        yield NumberedRows(metadata["stream"], rows, arrivals, is_delete, is_late)
