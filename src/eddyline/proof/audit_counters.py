"""What an audit counted: rounds judged a second time, pairs looked at, differences found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AuditCounters:
    """What the audit did since the engine was opened. A pair is a row and a query."""

    share: float = 0.0
    n_rounds: int = 0
    n_queries: int = 0
    n_pairs: int = 0
    n_differences: int = 0  # pairs
    skipped: Mapping[str, int] = field(
        default_factory=dict
    )  # rounds and queries that were not judged, by reason

    @property
    def n_skipped(self) -> int:
        return sum(self.skipped.values())
