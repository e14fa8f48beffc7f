"""What DuckDB finds for a row of a stream and the tables as they are when it comes; shares no code with eddyline.

Rows of a stream are asked one at a time: the text is run over a table `s` that holds just this row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

Row = tuple[Any, ...]


class RowByRow:
    """Tables at their latest rows, one for each key (the first column)."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        """`columns` are those of the stream `s` and of the tables, by name, as SQL declares them."""
        self._connection = duckdb.connect(config={"threads": 1})
        for name, declared in columns.items():
            self._connection.execute(f"CREATE TABLE {name} ({declared})")

    def update(self, table: str, row: Row) -> None:
        """A row of a table takes the place of the one with its key."""
        self._connection.execute(f"DELETE FROM {table} WHERE id = ?", [row[0]])
        self._insert(table, row)

    def results(self, row: Row, texts: Sequence[str]) -> list[list[Row]]:
        """What each text gives for one row of the stream, in order of values."""
        self._connection.execute("DELETE FROM s")
        self._insert("s", row)
        return [sorted(self._connection.execute(text).fetchall(), key=repr) for text in texts]

    def close(self) -> None:
        self._connection.close()

    def _insert(self, table: str, row: Row) -> None:
        marks = ", ".join("?" for _ in row)
        self._connection.execute(f"INSERT INTO {table} VALUES ({marks})", list(row))
