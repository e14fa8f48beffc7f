"""What a selection gives, by DuckDB: all rows at once, from SQL the test generator wrote itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from tests.oracles.tree import Selection


class DuckDBOracle:
    """Rows of one stream, numbered from 0 in the order they arrive."""

    def __init__(self, rows: pa.Table) -> None:
        numbered = rows.append_column("row_number_", pa.array(range(rows.num_rows), pa.int64()))
        self._names = rows.column_names
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.register("rows_", numbered)

    def answer(self, selection: Selection) -> list[tuple[int, tuple[Any, ...]]]:
        """(row number, values) of every row that satisfies it, in order of arrival."""
        outputs = [node.duckdb() for node in selection.outputs] or self._names
        where = selection.condition.duckdb() if selection.condition else "TRUE"
        found = self._connection.execute(
            f"SELECT row_number_, {', '.join(outputs)} FROM rows_ WHERE {where} ORDER BY row_number_"
        ).fetchall()
        return [(row[0], comparable(row[1:])) for row in found]

    def close(self) -> None:
        self._connection.close()


def comparable(values: Sequence[Any]) -> tuple[Any, ...]:
    """Values that compare as SQL results do: NaN is NaN, 0.0 and -0.0 differ, TRUE is not 1."""
    return tuple(repr(v) if isinstance(v, (float, bool)) else v for v in values)
