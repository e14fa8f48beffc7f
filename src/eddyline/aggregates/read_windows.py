"""The windows that the queries of a class read, and the epochs that these see: what is kept, and what closes, follows from them.

A class may have thousands of windows, of which few close in a round, so what every round asks of all of them is asked of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from eddyline.aggregates.entries import TABLE_EPOCH
from eddyline.aggregates.rows import Ints
from eddyline.aggregates.structure import Reader
from eddyline.model import TimeWindow

WindowOfEpoch = tuple[TimeWindow, int]


class WindowColumns:
    """Windows, with their sizes, slides and offsets as columns."""

    def __init__(self, windows: Iterable[TimeWindow]) -> None:
        of_each = [(each.size_us, each.slide_us, each.offset_us) for each in windows]
        self._size, self._slide, self._offset = np.array(of_each, np.int64).reshape(-1, 3).T

    def first_open(self, watermark_us: int) -> int:
        """Where the first window starts that this watermark does not close: slices before it are in none that is open."""
        n_behind = (watermark_us - self._size - self._offset) // self._slide + 1
        return int((self._offset + n_behind * self._slide).min())

    def last_ends(self, watermark_us: int) -> Ints:
        """By window: where the last one ends that this watermark closes."""
        found: Ints = watermark_us - (watermark_us - self._offset - self._size) % self._slide
        return found

    def edges(self) -> list[tuple[int, int]]:
        """Edges lie at every slide of microseconds, beginning with an offset; those that lie on others are left out."""
        both = np.concatenate([self._offset, self._offset + self._size]) % np.tile(self._slide, 2)
        found: list[tuple[int, int]] = []
        for slide, offset in sorted(set(zip(np.tile(self._slide, 2).tolist(), both.tolist(), strict=True))):
            if not any(slide % s == 0 and offset % s == o for s, o in found):
                found.append((slide, offset))
        return found


class ReadWindows:
    """The readers of a version."""

    def __init__(self, readers: Sequence[Reader], *, reads_table: bool) -> None:
        self.readers = tuple(readers)
        self._reads_table = reads_table
        epochs = {epoch for reader in readers for epoch in self.epochs_of(reader)}
        self.epochs: Ints = np.array(sorted(epochs), np.int64)
        self._windows = [_window(reader) for reader in readers]
        self._columns: dict[int, WindowColumns] = {}

    def epochs_of(self, reader: Reader) -> tuple[int, ...]:
        """The epochs of slices that its windows are combined of, the newest aside; all rows of tables are of one."""
        return (TABLE_EPOCH,) if self._reads_table else reader.epochs

    @property
    def oldest(self) -> set[WindowOfEpoch]:
        """The windows that are read, with the oldest epoch of their queries."""
        return {
            (window, reader.epochs[0]) for window, reader in zip(self._windows, self.readers, strict=True)
        }

    @cached_property
    def by_window(self) -> dict[WindowOfEpoch, list[Reader]]:
        """The readers of each window and epoch."""
        found: dict[WindowOfEpoch, list[Reader]] = {}
        for reader, window in zip(self.readers, self._windows, strict=True):
            for epoch in self.epochs_of(reader):
                found.setdefault((window, epoch), []).append(reader)
        return found

    @cached_property
    def changing(self) -> dict[WindowOfEpoch, list[Reader]]:
        """Those of them that see windows change."""
        of_each = {at: [r for r in mine if not r.aggregation.is_final] for at, mine in self.by_window.items()}
        return {at: mine for at, mine in of_each.items() if mine}

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """The edges of slices."""
        return WindowColumns(self._windows).edges()

    def first_open(self, watermark_us: int, epoch: int) -> int:
        """From where on slices of an epoch are in a window that is open, for queries of this epoch or an older one."""
        if epoch not in self._columns:
            both = zip(self._windows, self.readers, strict=True)
            self._columns[epoch] = WindowColumns(window for window, r in both if r.epochs[0] <= epoch)
        return self._columns[epoch].first_open(watermark_us)

    def closing(self, closed_us: int, watermark_us: int) -> list[tuple[WindowOfEpoch, int]]:
        """The windows that close with this watermark after the last, and where the last one of each ends."""
        last = self._all_columns.last_ends(watermark_us)
        all_of = list(self.by_window)
        return [(all_of[at], int(last[at])) for at in np.flatnonzero(last > closed_us).tolist()]

    @cached_property
    def _all_columns(self) -> WindowColumns:
        return WindowColumns(window for window, _ in self.by_window)


def _window(reader: Reader) -> TimeWindow:
    assert isinstance(reader.aggregation.window, TimeWindow), f"no window: {reader.aggregation}"
    return reader.aggregation.window
