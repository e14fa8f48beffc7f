"""Rows that joins keep, as files: what a round has added to the windows of its streams, or several rounds merged.

A block is some rows of one stream, in order of arrival: the columns that are kept, and behind them arrival number, position in
its stream, event time, catalog version and now() of its round, and the words of bits that say which inputs want the row. The
metadata names the stream and the inputs, bit by bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.storage.arrow_blocks import read_blocks, write_block

Numbers = npt.NDArray[np.int64]
_MARKS = ("arrival", "position", "time_us", "version", "now_us")
_ABOUT = "stored rows"


@dataclass(frozen=True, slots=True)
class WindowBlock:
    """Rows of one stream that are kept. `inputs[b]` is the input that bit b of `wants` stands for, None if it stands for none."""

    stream: str
    rows: pa.RecordBatch
    arrival: Numbers
    position: Numbers
    time_us: Numbers
    version: Numbers
    now_us: Numbers
    wants: npt.NDArray[np.uint64]
    inputs: tuple[tuple[str, int] | None, ...]

    def __len__(self) -> int:
        return len(self.arrival)

    def take(self, rows: Numbers) -> WindowBlock:
        """Some of the rows."""
        return WindowBlock(
            self.stream,
            self.rows.take(pa.array(rows)),
            self.arrival[rows],
            self.position[rows],
            self.time_us[rows],
            self.version[rows],
            self.now_us[rows],
            self.wants[rows],
            self.inputs,
        )


def write_windows(file: BinaryIO, blocks: Iterable[WindowBlock]) -> None:
    for block in blocks:
        n_words = block.wants.shape[1]
        names = [f"_{mark}" for mark in _MARKS] + [f"_wants:{word}" for word in range(n_words)]
        marks = [getattr(block, mark) for mark in _MARKS] + [block.wants[:, word] for word in range(n_words)]
        arrays = [pa.array(mark) for mark in marks]
        fields = [*block.rows.schema, *(pa.field(n, a.type) for n, a in zip(names, arrays, strict=True))]
        about = {"stream": block.stream, "words": n_words, "inputs": [_listed(i) for i in block.inputs]}
        schema = pa.schema(fields, {_ABOUT: json.dumps(about)})
        write_block(file, pa.RecordBatch.from_arrays([*block.rows.columns, *arrays], schema=schema))


def read_windows(buffer: pa.Buffer) -> Iterator[WindowBlock]:
    for batch in read_blocks(buffer):
        about: dict[str, Any] = json.loads(batch.schema.metadata[_ABOUT.encode()])
        n_words = about["words"]
        end = batch.num_columns - len(_MARKS) - n_words
        marks = [np.asarray(column.to_numpy()) for column in batch.columns[end:]]
        arrival, position, time_us, version, now_us, *words = marks
        yield WindowBlock(
            about["stream"],
            batch.select(list(range(end))).replace_schema_metadata(),  # also without a column it has a length
            arrival,
            position,
            time_us,
            version,
            now_us,
            np.stack(words, axis=1),
            tuple(None if each is None else (each[0], each[1]) for each in about["inputs"]),
        )


def _listed(entry: tuple[str, int] | None) -> Sequence[Any] | None:
    return None if entry is None else list(entry)
