"""DuckDB as a judge, for texts in the small language of `plain_sql`: quick, and without a Java."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.errors import ProofError
from eddyline.proof.claims import Claim, JudgeFinding, JudgeStopped
from eddyline.proof.plain_expressions import TIMES
from eddyline.proof.plain_sql import Plain, plain, plain_join
from eddyline.proof.recorded_values import replayed_claim

_ARRIVAL = "eddyline arrival"
_ROWS = "eddyline rows"
_CLOSED = {  # it reads what it is given, and nothing else
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "python_enable_replacements": False,
    "threads": 1,
}
_MOST_IDLE = 2
_idle: list[
    tuple[int, Any]
] = []  # connections of closed judges, and their process: opening one takes longer than a claim


class DuckDbJudge:
    """Judges claims in this process. Raises ProofError if DuckDB is not installed."""

    def __init__(self) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise ProofError(
                "DuckDB is not installed", detail=f"{error}.", hint="pip install 'eddyline[audit]'"
            ) from None
        self._error = duckdb.Error
        self._connection = _connection(duckdb)
        self._has_failed = False
        self._name = f"DuckDB {duckdb.__version__}"

    def finding(self, claim: Claim) -> JudgeFinding:
        """What DuckDB makes of a claim's rows. Raises ProofError if it is not to be asked, JudgeStopped if it fails on a row."""
        claim, notes = replayed_claim(claim)
        if claim.functions:
            raise ProofError("DuckDB does not judge functions", hint="pip install 'eddyline[spark]'")
        if claim.group is not None:
            raise ProofError("DuckDB does not judge aggregates", hint="pip install 'eddyline[spark]'")
        if claim.inputs:
            return self._join_finding(claim, notes)
        plain_query = plain(claim.text, claim.stream, claim.rows.schema, claim.params)
        rows = claim.rows.select(sorted(plain_query.columns)).append_column(
            _ARRIVAL, pa.array(claim.arrivals)
        )
        text = f'SELECT "{_ARRIVAL}", {_items(plain_query)} FROM "{_ROWS}" WHERE {plain_query.condition} ORDER BY 1'
        found = self._run(text, {_ROWS: rows})
        matches = np.asarray(found.column(0).to_numpy()).astype(np.int64)
        return JudgeFinding(
            matches, _results(found.drop_columns([_ARRIVAL]), plain_query), self._name, text, notes
        )

    def _join_finding(self, claim: Claim, notes: tuple[str, ...]) -> JudgeFinding:
        """A join over the rows of one result: it gives one row, or none if they do not match."""
        others = [k for k, entry in enumerate(claim.inputs) if entry.is_of_other_part]
        plain_query = plain_join(
            claim.text, [(entry.stream, entry.rows.schema) for entry in claim.inputs], claim.params, others
        )
        needed = zip(claim.inputs, plain_query.inputs, strict=True)
        tables = {
            f"{_ROWS} {k}": entry.rows.select(sorted(columns) or entry.rows.schema.names[:1])
            for k, (entry, columns) in enumerate(needed, 1)
            if not entry.is_of_other_part
        }
        sources = ", ".join(f'"{name}" AS "t{name.rpartition(" ")[2]}"' for name in tables)
        text = f"SELECT {_items(plain_query)} FROM {sources} WHERE {plain_query.condition}"
        found = self._run(text, tables)
        assert found.num_rows <= 1, f"{found.num_rows} results of one row of each stream"
        results = _results(found, plain_query)
        return JudgeFinding(claim.arrivals[: found.num_rows], results, self._name, text, notes)

    def _run(self, text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        try:
            for name, rows in tables.items():
                self._connection.register(name, _without_times(rows))
            return self._connection.sql(text).to_arrow_table()
        except self._error as error:
            self._has_failed = True
            raise JudgeStopped(str(error).splitlines()[0]) from error
        finally:
            for name in tables:
                self._connection.unregister(name)

    def close(self) -> None:
        if self._has_failed or len(_idle) >= _MOST_IDLE:
            self._connection.close()
        else:
            _idle.append((os.getpid(), self._connection))


def _connection(duckdb: ModuleType) -> Any:
    """An empty database of this process."""
    try:
        process, connection = _idle.pop()
    except IndexError:
        process, connection = 0, None
    return connection if process == os.getpid() else duckdb.connect(":memory:", config=dict(_CLOSED))


def _items(plain_query: Plain) -> str:
    return ", ".join(f"{item} AS c{k}" for k, item in enumerate(plain_query.items))


def _without_times(rows: pa.Table) -> pa.Table:
    """Times as whole microseconds."""
    for k, each in enumerate(rows.schema):
        if each.type in TIMES:
            rows = rows.set_column(k, each.name, rows.column(k).cast(pa.int64()))
    return rows


def _results(found: pa.Table, plain_query: Plain) -> pa.Table:
    """Times again where they were times."""
    for k, t in enumerate(plain_query.types):
        if t in TIMES:
            found = found.set_column(k, found.schema.field(k).name, found.column(k).cast(t))
    return found
