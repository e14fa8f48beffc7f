"""Aggregates as files: the entries that a round has changed, or all of them.

A block is entries of one class of rows in one kind of structure, in columns that the structure has made. The metadata names both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from eddyline.storage.arrow_blocks import read_blocks, write_block

_ROWS, _KIND = b"class of rows", b"kind of structure"


@dataclass(frozen=True, slots=True)
class AggregateBlock:
    """Entries of one structure."""

    rows: str
    kind: str
    entries: pa.RecordBatch


def write_aggregates(file: BinaryIO, blocks: Iterable[AggregateBlock]) -> None:
    for block in blocks:
        metadata = {_ROWS: block.rows.encode(), _KIND: block.kind.encode()}
        write_block(file, block.entries.replace_schema_metadata(metadata))


def read_aggregates(buffer: pa.Buffer) -> Iterator[AggregateBlock]:
    for batch in read_blocks(buffer):
        metadata = batch.schema.metadata
        yield AggregateBlock(metadata[_ROWS].decode(), metadata[_KIND].decode(), batch)
