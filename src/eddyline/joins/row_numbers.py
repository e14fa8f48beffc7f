"""Which rows of a stem are present, and where they lie in its arrays.

Most often the oldest rows leave, which only moves where the rows begin. Others leave holes, which are closed at once in a small
stem, and in a large one when they are a quarter of it.

    origin        first                      committed_end       end           origin + room
      | left       | present, or a hole       | of this round     | room        |
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.joins.key_index import PresentRows
from eddyline.joins.payload import shifted_range

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SMALL_ROWS = 4_096  # a stem of so many rows or fewer has no holes
MOST_HOLES = 0.25  # of the rows of a larger one
LEAST_ROOM = 256  # rows
MARGIN = 1.25  # room, in terms of rows held
_NO_HOLES = np.empty(0, dtype=bool)


class RowNumbers:
    """The numbers of a stem's rows, counted since the stem began, and the room of the arrays that hold them.

    Row k of a stem is the one numbered `first + k`. It lies at `first + k - origin` in every array.

    Invariant: origin <= first <= committed_end <= end <= origin + room; of the rows from `first` to `end`, `n_holes` are absent.
    """

    def __init__(self) -> None:
        self.room = LEAST_ROOM  # rows in the arrays
        self.origin = 0  # the row at their beginning
        self.first = 0  # the first row that may be present
        self.end = 0  # behind the last row
        self.committed_end = 0  # behind the last row of a committed round
        self.n_holes = 0  # rows from `first` on that are absent
        self._is_present = _NO_HOLES  # as many as there is room for, once there is a hole

    def __len__(self) -> int:
        """Numbers in use, those of holes among them."""
        return self.end - self.first

    @property
    def n_rows(self) -> int:
        """Rows that are present."""
        return self.end - self.first - self.n_holes

    @property
    def span(self) -> slice:
        """Where the rows lie in the arrays."""
        return slice(self.first - self.origin, self.end - self.origin)

    @property
    def nbytes(self) -> int:
        return int(self._is_present.nbytes)

    @property
    def present_rows(self) -> PresentRows:
        """The same, as indexes ask for it."""
        return PresentRows(self.first, self._is_present if self.n_holes else _NO_HOLES, self.origin)

    def every_row(self) -> Ints:
        """All rows that are present, counted from `first` on, ascending."""
        if not self.n_holes:
            return np.arange(self.end - self.first)
        return np.flatnonzero(self._is_present[self.span])

    # ------------------------------------------------------------------------------------------- rounds

    def extend(self, n: int) -> None:
        """The next `n` rows, for which there is room, are present."""
        if len(self._is_present):
            at = self.end - self.origin
            self._is_present[at : at + n] = True
        self.end += n

    def commit(self) -> None:
        self.committed_end = self.end

    def rollback(self) -> None:
        self.end = self.committed_end

    def assert_committed(self, action: str) -> None:
        assert self.committed_end == self.end, (
            f"{action} while {self.end - self.committed_end} rows are uncommitted"
        )

    # ------------------------------------------------------------------------------------------- rows that leave

    def drop_oldest(self, n_numbers: int) -> None:
        """The first so many numbers are in use no more."""
        if self.n_holes:
            at = self.first - self.origin
            self.n_holes -= n_numbers - int(np.count_nonzero(self._is_present[at : at + n_numbers]))
        self.first += n_numbers

    def make_holes(self, is_kept: Mask) -> None:
        """Rows are absent from now on, given for every number whether its row stays."""
        if not self.n_holes:
            self._is_present = np.ones(self.room, dtype=bool)
        is_present = self._is_present[self.span]
        is_present &= is_kept
        self.n_holes = len(is_present) - int(np.count_nonzero(is_present))

    @property
    def has_many_holes(self) -> bool:
        """Whether it pays to close the holes."""
        n = self.end - self.first
        return self.n_holes > 0 and (n <= SMALL_ROWS or self.n_holes > MOST_HOLES * n)

    @property
    def has_spare_room(self) -> bool:
        """Whether it pays to give room back."""
        return self.room > LEAST_ROOM and self.end - self.first < self.room // 4

    def close_holes(self, room: int) -> None:
        """The rows that are present have been moved together, to the beginning of arrays of this length."""
        self.end = self.committed_end = self.first + self.n_rows
        self.room, self.origin, self.n_holes = room, self.first, 0

    def release_mask(self) -> None:
        """Use no memory for holes while there are none."""
        if not self.n_holes:
            self._is_present = _NO_HOLES

    def move(self, room: int) -> None:
        """All rows have been moved to the beginning of arrays of this length."""
        if len(self._is_present):
            self._is_present = shifted_range(self._is_present, self.span.start, self.span.stop, room)
        self.room, self.origin = room, self.first

    def room_for(self, n_rows: int) -> int:
        """How long arrays should be that begin with so many rows: as they are, if that is neither too short nor far too long."""
        return self.room if MARGIN * n_rows <= self.room < 4 * n_rows else room_of(n_rows)

    def check(self) -> None:
        assert self.origin <= self.first <= self.committed_end <= self.end <= self.origin + self.room
        n = len(self.every_row())
        assert n == self.n_rows, f"{n} rows are present, {self.n_rows} counted"
        assert self.n_holes == 0 or len(self) > SMALL_ROWS, f"{self.n_holes} holes in a small stem"


def room_of(n_rows: int) -> int:
    """The length of new arrays for so many rows."""
    return max(int(MARGIN * n_rows), LEAST_ROOM)
