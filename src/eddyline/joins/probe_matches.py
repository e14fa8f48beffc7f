"""What a probe finds, and the types that stems, tables and their indexes have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model import Expression

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Key = tuple[Expression, ...]
Evaluate = Callable[[Expression, pa.RecordBatch], pa.Array]


@dataclass(frozen=True, slots=True)
class ProbeMatches:
    """Pairs: row `rows[k]` of a stem or table has the key of row `probes[k]` of what it was asked with."""

    probes: Ints  # ascending
    rows: Ints
    n_shared: int = 0  # of the rows it was asked with: those whose partners an earlier probe had found
    n_looked_at: int | None = None  # rows that were compared to find them; None: only these

    def __len__(self) -> int:
        return len(self.probes)

    def first_of_each(self) -> ProbeMatches:
        """One pair of each probe that has any."""
        is_first = np.diff(self.probes, prepend=-1) > 0
        return replace(self, probes=self.probes[is_first], rows=self.rows[is_first])
