"""What leaves the filters: matching pairs by segment, and the pairs no decided condition settles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.batch import PartMatches, Positions, TupleBatch
from eddyline.expressions import Failure


@dataclass(frozen=True, slots=True)
class DeadPairs:
    """(row, query) pairs in error: `failures[k]` says why pair k could not be decided."""

    rows: Positions
    query_ids: npt.NDArray[np.int32]
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class FilterOutput:
    """All matches of one batch."""

    batch: TupleBatch
    parts: tuple[PartMatches, ...]
    dead: DeadPairs

    @property
    def n_matches(self) -> int:
        return sum(len(part) for part in self.parts)
