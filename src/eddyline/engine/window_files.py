"""The windows of joins on disk: each round adds a file of the rows it has stored; files are merged in tiers and leave when empty.

  work      the new rows are one new file; where the last files are as small as it, their rows are in it as well
  commit    the new file is listed, and those it takes the place of, or of which no row is kept any more, are not
  abort     the file is removed with all others of the round
  recover   the listed files, in order, are what the SteMs hold

Rows leave SteMs without a word on disk: which rows no join needs any more follows from watermarks, which are committed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from eddyline.catalog import ListedFile
from eddyline.engine.durable import Durable
from eddyline.joins import JoinStage, StoredRows
from eddyline.storage import WindowBlock

SMALLEST = 1 << 16  # bytes: files below are all alike
TIER = 8  # so many files of a size are merged, and are about this much larger then


@dataclass(frozen=True, slots=True)
class _File:
    listed: ListedFile
    first_arrival: int
    last_arrival: int

    @property
    def name(self) -> str:
        return self.listed.name

    @property
    def nbytes(self) -> int:
        return self.listed.nbytes


def tier_of(nbytes: int) -> int:
    return max(0, int(math.log(max(nbytes, 1) / SMALLEST, TIER)) + 1) if nbytes > SMALLEST else 0


def n_to_merge(sizes: list[int], new: int) -> int:
    """How many of the last files a new one of this size takes in: whole tiers, as long as they are full."""
    n = 0
    while True:
        tier, end = tier_of(new), len(sizes) - n
        same = 0
        while same < end and tier_of(sizes[end - same - 1]) <= tier:
            same += 1
        if same < TIER - 1:
            return n
        new += sum(sizes[end - same : end])
        n += same


class WindowFiles:
    """Which files hold what the SteMs do."""

    def __init__(self, durable: Durable) -> None:
        self._durable = durable
        self._files: list[_File] = []
        self._new: tuple[int, _File] | None = (
            None  # of the round that is running: instead of how many of the last
        )
        self._gone: list[str] = []

    def restore(self) -> Iterator[WindowBlock]:
        """What is kept, oldest first."""
        for listed in self._durable.window_files():
            blocks = self._durable.windows(listed)
            if blocks:
                first, last = _range(blocks)
                self._files.append(_File(listed, first, last))
                yield from blocks

    def write(self, round_number: int, stage: JoinStage) -> list[ListedFile]:
        """Step 3: a file of what the round has stored, if there is anything."""
        self._new, self._gone = None, self._empty(stage)
        built = {stream: rows for stream, rows in stage.windows.built_rows.items() if len(rows)}
        if not built:
            return []
        kept = [file for file in self._files if file.name not in self._gone]
        n_merged = n_to_merge([file.nbytes for file in kept], sum(_nbytes(rows) for rows in built.values()))
        if n_merged:
            since = kept[-n_merged].first_arrival
            built = {stream: stage.windows.stored_rows(stream, since) for stream in stage.stems}
        blocks = [_block(stream, rows, stage) for stream, rows in built.items() if len(rows)]
        listed = self._durable.write_windows(round_number, blocks)
        first, last = _range(blocks)
        merged = [file.name for file in kept[len(kept) - n_merged :]]
        self._gone += merged
        self._new = n_merged, _File(listed, first, last)
        return [listed]

    def files(self) -> list[tuple[ListedFile, int]]:
        """The files, in order, each with the arrival number of its last row."""
        return [(file.listed, file.last_arrival) for file in self._files]

    @property
    def has_any(self) -> bool:
        return bool(self._files)

    @property
    def gone(self) -> list[str]:
        """Files the commit unlists."""
        return self._gone

    def commit(self) -> None:
        """The round has committed."""
        self._files = [file for file in self._files if file.name not in set(self._gone)]
        if self._new is not None:
            self._files.append(self._new[1])
        self._new, self._gone = None, []

    def rollback(self) -> None:
        self._new, self._gone = None, []

    def _empty(self, stage: JoinStage) -> list[str]:
        """The oldest files, of which no row is kept."""
        first = min(stage.windows.first_arrivals().values(), default=None)
        return [file.name for file in self._files if first is None or file.last_arrival < first]


def _block(stream: str, rows: StoredRows, stage: JoinStage) -> WindowBlock:
    return WindowBlock(
        stream,
        rows.rows,
        rows.arrival,
        rows.position,
        rows.time_us,
        rows.version,
        rows.now_us,
        rows.wants,
        stage.windows.bits(stream),
    )


def stored_rows(block: WindowBlock, bits: Mapping[tuple[str, int], int]) -> StoredRows:
    """The rows of a block with bits as they are given now; bits of queries that were dropped are left out."""
    n_words = max(bits.values(), default=0) // 64 + 1
    wants = np.zeros((len(block), n_words), np.uint64)
    for old, who in enumerate(block.inputs):
        new = None if who is None else bits.get(who)
        if new is not None:
            is_set = block.wants[:, old // 64] >> np.uint64(old % 64) & np.uint64(1)
            wants[:, new // 64] |= is_set << np.uint64(new % 64)
    return StoredRows(
        block.rows, block.arrival, block.position, block.time_us, block.version, block.now_us, wants
    )


def _nbytes(rows: StoredRows) -> int:
    return int(rows.rows.nbytes + rows.wants.nbytes + 5 * rows.arrival.nbytes)


def _range(blocks: list[WindowBlock]) -> tuple[int, int]:
    return min(int(b.arrival[0]) for b in blocks), max(int(b.arrival[-1]) for b in blocks)
