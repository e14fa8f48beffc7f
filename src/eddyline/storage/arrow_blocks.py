"""Files of Arrow streams one behind the other, each behind its length: what captures, outbox and windows are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa


def write_block(file: BinaryIO, batch: pa.RecordBatch) -> None:
    """A batch as an Arrow stream of its own, behind its length."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    block = sink.getvalue()
    file.write(block.size.to_bytes(8, "little"))
    file.write(block)


def read_blocks(buffer: pa.Buffer) -> Iterator[pa.RecordBatch]:
    """The batches of a file, without copying where Arrow need not."""
    at = 0
    while at < buffer.size:
        length = int.from_bytes(buffer.slice(at, 8).to_pybytes(), "little")
        with pa.ipc.open_stream(buffer.slice(at + 8, length)) as reader:
            yield reader.read_next_batch()
        at += 8 + length
