"""Files of the store that committed rounds list, by kind, round and age. What is not listed does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eddyline.catalog.database import Database

_FILE = "name, kind, round, nbytes, checksum, first_arrival, first_row"
_ADD_FILE = (
    "INSERT INTO files (name, kind, round, nbytes, checksum, at_us, first_arrival, first_row)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
# by the numbers of their rows: the driver writes no base to add, and its rows follow those of tasks
_IN_ORDER = "ORDER BY round, first_arrival = 0, first_arrival, name"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of the store that a committed round brought."""

    name: str
    kind: str
    round_number: int
    nbytes: int
    checksum: int
    first_arrival: int = 0  # to be added to the arrival numbers in the file
    first_row: int = (
        0  # the number of the round's first row, where rows of the round are counted from FIRST_ORDINAL on
    )


class ListedFiles:
    """The table of files. `add` and `remove` are for a transaction that is open, which `note` follows once it is committed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = database.connection
        self._counts: dict[str, tuple[int, int]] | None = None  # counted once, then kept up to date

    def all(self, kind: str | None = None) -> list[ListedFile]:
        """Listed files, oldest round first."""
        rows = self._connection.execute(
            f"SELECT {_FILE} FROM files WHERE ? IS NULL OR kind = ? {_IN_ORDER}",
            (kind, kind),
        )
        return [ListedFile(*row) for row in rows]

    def after(self, kind: str, round_number: int) -> list[ListedFile]:
        """Files of a kind that later rounds brought, oldest first."""
        rows = self._connection.execute(
            f"SELECT {_FILE} FROM files WHERE kind = ? AND round > ? {_IN_ORDER}",
            (kind, round_number),
        )
        return [ListedFile(*row) for row in rows]

    def between(self, kind: str, after: int, until: int, n_rounds: int) -> list[ListedFile]:
        """Files of a kind of later rounds, up to `until`: of the first so many that have any, whole, oldest first."""
        rows = self._connection.execute(
            f"SELECT {_FILE} FROM files WHERE kind = ?1 AND round > ?2 AND round <= (SELECT max(round) FROM"
            " (SELECT DISTINCT round FROM files WHERE kind = ?1 AND round > ?2 AND round <= ?3 ORDER BY round LIMIT ?4))"
            f" {_IN_ORDER}",
            (kind, after, until, n_rounds),
        )
        return [ListedFile(*row) for row in rows]

    def of_round(self, kind: str, number: int) -> list[ListedFile]:
        """Files of a kind that a round brought."""
        rows = self._connection.execute(
            f"SELECT {_FILE} FROM files WHERE kind = ? AND round = ? {_IN_ORDER}", (kind, number)
        )
        return [ListedFile(*row) for row in rows]

    def count(self, kind: str) -> int:
        """How many files of a kind are kept."""
        (n,) = self._connection.execute("SELECT count(*) FROM files WHERE kind = ?", (kind,)).fetchone()
        return int(n)

    def first_round(self, kind: str) -> int | None:
        """The oldest round of which a file of a kind is kept."""
        (number,) = self._connection.execute(
            "SELECT min(round) FROM files WHERE kind = ?", (kind,)
        ).fetchone()
        return None if number is None else int(number)

    def is_listed(self, name: str) -> bool:
        return bool(self._connection.execute("SELECT 1 FROM files WHERE name = ?", (name,)).fetchone())

    def listed_before(self, kind: str, at_us: int) -> list[ListedFile]:
        """Files of a kind listed before a time, oldest first."""
        rows = self._connection.execute(
            f"SELECT {_FILE} FROM files WHERE kind = ? AND at_us < ? {_IN_ORDER}",
            (kind, at_us),
        )
        return [ListedFile(*row) for row in rows]

    def unlist(self, names: Iterable[str], settings: Mapping[str, str] | None = None) -> None:
        """Files are listed no longer; with them settings change."""
        with self._database.transaction():
            size_changes = self.remove(names)
            for name, value in (settings or {}).items():
                self._database.set(name, value)
        self.note(size_changes)

    def add(self, files: Iterable[ListedFile], at_us: int) -> None:
        """Inside a transaction; `at_us` is the time as retention counts it."""
        self._connection.executemany(
            _ADD_FILE,
            [
                (f.name, f.kind, f.round_number, f.nbytes, f.checksum, at_us, f.first_arrival, f.first_row)
                for f in files
            ],
        )

    def remove(self, names: Iterable[str]) -> list[tuple[str, int, int]]:
        """Inside a transaction; gives kind, minus one file and minus its bytes."""
        name_rows = [(name,) for name in names]
        size_changes: list[tuple[str, int, int]] = []
        for name in name_rows:
            rows = self._connection.execute("SELECT kind, -1, -nbytes FROM files WHERE name = ?", name)
            size_changes += rows.fetchall()
        self._connection.executemany("DELETE FROM files WHERE name = ?", name_rows)
        return size_changes

    def counts(self) -> dict[str, tuple[int, int]]:
        """How many files of each kind are listed, and their bytes; after the first time without looking at them."""
        if self._counts is None:
            rows = self._connection.execute("SELECT kind, count(*), sum(nbytes) FROM files GROUP BY kind")
            self._counts = {kind: (int(n), int(nbytes)) for kind, n, nbytes in rows}
        return dict(self._counts)

    def note(self, changes: Iterable[tuple[str, int, int]]) -> None:
        """Keep `counts` up to date: by kind, how many files and bytes more there are, or less."""
        if self._counts is not None:
            for kind, n, nbytes in changes:
                before = self._counts.get(kind, (0, 0))
                self._counts[kind] = before[0] + n, before[1] + nbytes
