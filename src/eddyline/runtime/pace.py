"""How fast a source may be read: so many rows a second, by the clock of the run.

Rows that were read are paid for with time. What is owed puts off the next read; what was left unused counts for a tenth of a
second only, so that a slow loop catches up and an idle source saves nothing up.

Invariant: in any t seconds no more than (t + 1.1) * rows_per_second rows are read, but for what the last piece, which a worker
reads whole, has more than was thought.
"""

from __future__ import annotations

AT_ONCE_S = 1.0  # the rows of so much time are read in one go at most
CREDIT_S = 0.1
NO_LIMIT = 1 << 40


class Pace:
    """The pace of one source; None: as fast as it goes."""

    def __init__(self, rows_per_second: float | None = None) -> None:
        self._rate = rows_per_second
        self._due_at: float | None = None  # when all rows so far are paid for
        self._row_bytes = 0.0  # of a row where it lies; 0: not known yet
        self._is_guess = True

    @property
    def most_rows(self) -> int:
        """How many rows may be read in one go."""
        return NO_LIMIT if self._rate is None else max(1, int(self._rate * AT_ONCE_S))

    @property
    def most_bytes(self) -> int:
        """About how much that is; 0 while the size of a row is not known."""
        return NO_LIMIT if self._rate is None else int(self.most_rows * self._row_bytes)

    def wait_s(self, now: float) -> float:
        """How long until the next rows may be read."""
        return 0.0 if self._due_at is None else max(0.0, self._due_at - now)

    def took(self, n_rows: int, nbytes: int, began: float, *, in_memory: bool = False) -> None:
        """So many rows were read, beginning at this time; bytes where they lay, or `in_memory`, which is only a guess at that."""
        if self._rate is None or n_rows == 0:
            return
        paid_from = began if self._due_at is None else max(self._due_at, began - CREDIT_S)
        self._due_at = paid_from + n_rows / self._rate
        if self._is_guess or not in_memory:
            self._row_bytes, self._is_guess = nbytes / n_rows, in_memory
