"""What a filter is worth: drops per second.

Paper: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: the ratio that
the Greedy Invariant compares.

    paper            here                  meaning
    t_k              cost_s[k]             mean seconds of filter k on one row
    d(i | j)         drop rate             share of the rows that passed the first j positions that position i drops

Greedy Invariant: of the rows that get to a position, no filter standing later would drop more per second. The static rule that
orders filters by it, which A-Greedy tracks, is in `tests/oracles/greedy_order.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Costs = Sequence[float]  # seconds, by filter


def ratio(drops: float, cost_s: float) -> float:
    """Drops per second. What drops nothing is worth nothing at any price; what drops for nothing is worth most."""
    if drops == 0:
        return 0.0
    return drops / cost_s if cost_s > 0 else math.inf
