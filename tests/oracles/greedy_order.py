"""What an order of filters costs, and the order that greed picks: the static rule that A-Greedy tracks.

Paper: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: the cost of a
pipeline and the Greedy Invariant. Shares nothing with `eddyline.routing`.

    paper            here                  meaning
    t_k              cost_s[k]             mean seconds of filter k on one row
    f                order                 which filter stands at each position
    d(i | j)         drop rate             share of the rows that passed the first j positions that position i drops

Differs from the paper: t in the cost formula belongs to the filter at the position, not to the filter of that number; on a tie
the filter that stands earlier in `start` stays earlier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

BoolMatrix = npt.NDArray[np.bool_]
FloatVector = npt.NDArray[np.float64]
Costs = Sequence[float]  # seconds, by filter


def pipeline_cost(
    order: Sequence[int],
    dropped: BoolMatrix,
    cost_s: Costs,
    weights: FloatVector | None = None,
) -> float:
    """Mean seconds on one row, if rows walk this order and stop at the first drop."""
    weight = np.ones(len(dropped)) if weights is None else weights
    alive = np.ones(len(dropped), bool)
    total = 0.0
    for k in order:
        total += cost_s[k] * float(weight[alive].sum())
        alive &= ~dropped[:, k]
    return total / float(weight.sum()) if len(dropped) else 0.0


def greedy_order(
    dropped: BoolMatrix,
    cost_s: Costs,
    start: Sequence[int],
    weights: FloatVector | None = None,
) -> tuple[int, ...]:
    """Choose filters one by one, each the best dropper per second of what the earlier ones let through."""
    weight = np.ones(len(dropped)) if weights is None else weights
    alive = np.ones(len(dropped), bool)
    waiting, order = list(start), []
    while waiting:
        drops = weight[alive] @ dropped[alive][:, waiting]
        ratios = [_ratio(float(n), cost_s[k]) for n, k in zip(drops, waiting, strict=True)]
        order.append(waiting.pop(ratios.index(max(ratios))))
        alive &= ~dropped[:, order[-1]]
    return tuple(order)


def _ratio(drops: float, cost_s: float) -> float:
    """Drops per second. What drops nothing is worth nothing at any price; what drops for nothing is worth most."""
    if drops == 0:
        return 0.0
    return drops / cost_s if cost_s > 0 else math.inf
