"""What became of a query's alerts, in numbers."""

from __future__ import annotations

from typing import NamedTuple


class AlertCounts(NamedTuple):
    """How often a query fired, resolved, was held back, and had a row its message could not be made of."""

    n_fired: int = 0
    n_resolved: int = 0
    n_suppressed: int = 0
    n_unformatted: int = 0
