"""What unbounded frames hold of rows that have left their rings: sums by ring and epoch.

A row below the watermark is before every row to come, so of such rows unbounded sums need only the total. It is kept apart for
each epoch with live queries, as those read their own and all newer ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eddyline.aggregates.accumulators import exact_sum
from eddyline.aggregates.over_lanes import Floats, Layout
from eddyline.aggregates.rings import Rings
from eddyline.aggregates.rows import Ints
from eddyline.kernels import fold_rows


class Folds:
    """Prefix columns and sums of doubles, by epoch, ring and column of a layout."""

    def __init__(self, layout: Layout, epochs: Sequence[int]) -> None:
        self.layout = layout
        self.epochs = np.array(epochs, np.int64)
        self._set_rings(0)

    def _set_rings(self, n: int) -> None:
        self.ints = np.zeros((len(self.epochs), n, self.layout.n_ints), np.int64)
        self.floats: Floats = np.zeros((len(self.epochs), n, self.layout.n_floats))

    @property
    def nbytes(self) -> int:
        return self.ints.nbytes + self.floats.nbytes

    def resize(self, n_rings: int) -> None:
        n = self.ints.shape[1]
        if n_rings > n:
            ints, floats = self.ints, self.floats
            self._set_rings(max(n_rings, 2 * n))
            self.ints[:, :n], self.floats[:, :n] = ints, floats

    def adopt(self, layout: Layout, epochs: Sequence[int]) -> Folds:
        """The same with other columns and epochs. What no epoch reads goes; an epoch that has ended goes to the one before it."""
        new = Folds(layout, epochs)
        new._set_rings(self.ints.shape[1])
        for index, epoch in enumerate(self.epochs.tolist()):
            to = int(np.searchsorted(new.epochs, epoch, side="right")) - 1
            if to >= 0:
                new.add(to, np.arange(self.ints.shape[1]), *self._in_layout(layout, index))
        return new

    def _in_layout(self, layout: Layout, index: int) -> tuple[Ints, Floats]:
        n, old = self.ints.shape[1], self.layout
        ints, floats = np.zeros((n, layout.n_ints), np.int64), np.zeros((n, layout.n_floats))
        for lane in layout.ints.keys() & old.ints.keys():
            ints[:, layout.ints[lane]] = self.ints[index, :, old.ints[lane]]
        for lane in layout.floats.keys() & old.floats.keys():
            to, at = layout.floats[lane], old.floats[lane]
            floats[:, to : to + 3] = self.floats[index, :, at : at + 3]
        return ints, floats

    def add(self, index: int, rings: Ints, ints: Ints, floats: Floats) -> None:
        """Add to the sums of an epoch, by its index; each ring occurs once."""
        self.ints[index, rings] += ints
        self.floats[index, rings] = _plus(self.floats[index, rings], floats)

    def fold(self, source: Rings, rings: Ints, first: Ints, n: Ints) -> None:
        """Add n rows of each of these rings, from the first place on."""
        layout = self.layout
        fold_rows(
            rings, first, n, source.ints, source.floats, self.epochs, layout.is_prefix, layout.sums, self.ints, self.floats
        )  # fmt: skip

    def seen(self, epoch: int, rings: Ints) -> tuple[Ints, Floats]:
        """Sums as the queries of an epoch see them, by ring."""
        first = int(np.searchsorted(self.epochs, epoch))
        floats = self.floats[first, rings]
        for index in range(first + 1, len(self.epochs)):
            floats = _plus(floats, self.floats[index, rings])
        return self.ints[first:, rings].sum(axis=0), floats

    def clear(self, rings: Ints) -> None:
        self.ints[:, rings] = 0
        self.floats[:, rings] = 0.0


def _plus(sums: Floats, more: Floats) -> Floats:
    """Sums of double-doubles, in the last two of every three columns."""
    total = sums.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        high, rest = exact_sum(sums[..., 1::3], more[..., 1::3])
        high, rest = exact_sum(high, rest + sums[..., 2::3] + more[..., 2::3])
    total[..., 1::3], total[..., 2::3] = high, np.where(np.isfinite(high), rest, 0.0)
    return total
