"""Tables as files: what a round has changed in them, or a table whole.

A block is some changes of one table, in order of arrival: its columns, and behind them the version of the catalog in its round,
arrival number, event time and whether the change is a delete. The metadata names the table. Files of earlier releases do not have
the version, which the metadata says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.storage.arrow_blocks import read_blocks, write_block

_STREAM = b"table of stream"
_HAS_VERSION = b"has versions of rounds"
_MARKS = ("_round_version", "_arrival", "_time_us", "_is_delete")


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Changes of one table."""

    stream: str
    rows: pa.RecordBatch
    arrival: npt.NDArray[np.int64]
    time_us: npt.NDArray[np.int64]
    is_delete: npt.NDArray[np.bool_]
    round_version: npt.NDArray[np.int64] | None = None  # None: not known


def write_table(file: BinaryIO, blocks: Iterable[TableBlock]) -> None:
    for block in blocks:
        has_version = block.round_version is not None
        known = [block.round_version] if has_version else []
        marks = [pa.array(mark) for mark in (*known, block.arrival, block.time_us, block.is_delete)]
        names = _MARKS[-len(marks) :]
        fields = [*block.rows.schema, *(pa.field(n, m.type) for n, m in zip(names, marks, strict=True))]
        metadata = {_STREAM: block.stream.encode()} | ({_HAS_VERSION: b"true"} if has_version else {})
        schema = pa.schema(fields, metadata)
        write_block(file, pa.RecordBatch.from_arrays([*block.rows.columns, *marks], schema=schema))


def read_table(buffer: pa.Buffer) -> Iterator[TableBlock]:
    for batch in read_blocks(buffer):
        has_version = _HAS_VERSION in batch.schema.metadata
        end = batch.num_columns - len(_MARKS) + (not has_version)
        marks = [np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns[end:]]
        rows = pa.RecordBatch.from_arrays(batch.columns[:end], schema=pa.schema(list(batch.schema)[:end]))
        version = marks[0] if has_version else None
        arrival, time_us, is_delete = marks[-3:]
        yield TableBlock(batch.schema.metadata[_STREAM].decode(), rows, arrival, time_us, is_delete, version)
