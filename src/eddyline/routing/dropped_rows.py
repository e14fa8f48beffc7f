"""The window of sampled rows that A-Greedy and Independent judge by, kept as one column of bits per filter.

Paper: Babu et al., "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: the profile window.

A column is a Python int with a bit per row, the newest row lowest. Then rows come in by a shift, the oldest fall out by a mask,
and an entry of the matrix view is an `and` and a count of bits: for a thousand rows well under a microsecond.

Invariant (W1 of the specification): every row was dropped by some filter. Rows that pass everything say nothing about an order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eddyline.routing.policy import BoolMatrix


class DroppedRows:
    """The last rows that some filter dropped, at most `most` of them."""

    def __init__(self, n_filters: int, most: int) -> None:
        self.most = most
        self.n_rows = 0
        self.columns = [0] * n_filters  # bit t: the filter drops the row that came t rows before the newest

    def __len__(self) -> int:
        return self.n_rows

    @property
    def all(self) -> int:
        """The bitset of all rows."""
        return (1 << self.n_rows) - 1

    def append(self, dropped: BoolMatrix) -> int:
        """Take in the rows that were dropped by something, in order of arrival; how many those are."""
        dropped_rows = dropped[dropped.any(axis=1)]
        n_new = len(dropped_rows)
        if n_new == 0:
            return 0
        dropped_rows = dropped_rows[-self.most :]
        self.n_rows = min(self.most, self.n_rows + len(dropped_rows))
        everything = self.all
        for k, column in enumerate(column_bits(dropped_rows)):
            self.columns[k] = (self.columns[k] << len(dropped_rows) | column) & everything
        return n_new

    def take(self, columns: Sequence[int], n_rows: int) -> None:
        """Hold these columns instead, without the rows in which no bit is set."""
        some = 0
        for column in columns:
            some |= column
        places = [t for t in range(n_rows) if some >> t & 1][: self.most]
        self.n_rows = len(places)
        self.columns = [
            sum(1 << new for new, old in enumerate(places) if column >> old & 1) for column in columns
        ]

    def clear(self) -> None:
        self.take([0] * len(self.columns), 0)

    def check(self) -> None:
        assert self.n_rows <= self.most, (self.n_rows, self.most)
        some = 0
        for column in self.columns:
            some |= column
        assert some == self.all, "a row that nothing dropped is in the window"


def column_bits(rows: BoolMatrix) -> list[int]:
    """The columns of some rows as ints, the last row lowest."""
    n_rows, n_filters = rows.shape
    packed = np.packbits(rows, axis=0)
    padding = -n_rows % 8
    return [int.from_bytes(packed[:, k].tobytes(), "big") >> padding for k in range(n_filters)]
