"""DuckDB as a judge, for texts in the small language of `plain_sql`: quick, and without a Java."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.errors import ProofError
from eddyline.proof.claims import Claim, Found, JudgeStopped
from eddyline.proof.plain_sql import plain
from eddyline.proof.recorded import replayed

_ARRIVAL = "eddyline arrival"
_ROWS = "eddyline rows"
_CLOSED = {  # it reads what it is given, and nothing else
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "python_enable_replacements": False,
    "threads": 1,
}


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
        self._connection = duckdb.connect(":memory:", config=dict(_CLOSED))
        self._name = f"DuckDB {duckdb.__version__}"

    def found(self, claim: Claim) -> Found:
        """What DuckDB makes of a claim's rows. Raises ProofError if it is not to be asked, JudgeStopped if it fails on a row."""
        claim, notes = replayed(claim)
        if claim.functions:
            raise ProofError("DuckDB does not judge functions", hint="pip install 'eddyline[spark]'")
        asked = plain(claim.text, claim.stream, claim.rows.schema, claim.params)
        rows = claim.rows.select(sorted(asked.columns)).append_column(_ARRIVAL, pa.array(claim.arrivals))
        items = ", ".join(f"{item} AS c{k}" for k, item in enumerate(asked.items))
        text = f'SELECT "{_ARRIVAL}", {items} FROM "{_ROWS}" WHERE {asked.condition} ORDER BY 1'
        try:
            self._connection.register(_ROWS, rows)
            found = self._connection.sql(text).to_arrow_table()
        except self._error as error:
            raise JudgeStopped(str(error).splitlines()[0]) from error
        finally:
            self._connection.unregister(_ROWS)
        matches = np.asarray(found.column(0).to_numpy()).astype(np.int64)
        return Found(matches, found.drop_columns([_ARRIVAL]), self._name, text, notes)

    def close(self) -> None:
        self._connection.close()
