"""Tables as files: what a round has changed in them, or a table whole.

A block is some changes of one table, in order of arrival: its columns, and behind them arrival number, event time and whether the
change is a delete. The metadata names the table.
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
_MARKS = ("_arrival", "_time_us", "_is_delete")


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Changes of one table."""

    stream: str
    rows: pa.RecordBatch
    arrival: npt.NDArray[np.int64]
    time_us: npt.NDArray[np.int64]
    is_delete: npt.NDArray[np.bool_]


def write_table(file: BinaryIO, blocks: Iterable[TableBlock]) -> None:
    for block in blocks:
        marks = [pa.array(mark) for mark in (block.arrival, block.time_us, block.is_delete)]
        fields = [*block.rows.schema, *(pa.field(n, m.type) for n, m in zip(_MARKS, marks, strict=True))]
        schema = pa.schema(fields, {_STREAM: block.stream.encode()})
        write_block(file, pa.RecordBatch.from_arrays([*block.rows.columns, *marks], schema=schema))


def read_table(buffer: pa.Buffer) -> Iterator[TableBlock]:
    for batch in read_blocks(buffer):
        end = batch.num_columns - len(_MARKS)
        marks = [np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns[end:]]
        rows = pa.RecordBatch.from_arrays(batch.columns[:end], schema=pa.schema(list(batch.schema)[:end]))
        yield TableBlock(batch.schema.metadata[_STREAM].decode(), rows, *marks)
