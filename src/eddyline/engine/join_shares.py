"""The rows of a round that look for partners, cut into shares of about equal work.

A share is a range of arrival numbers, over all streams, so what tasks derive follows each other as their shares do.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eddyline.engine.dataflow import Arrivals
from eddyline.joins import JoinPlan, can_drive
from eddyline.operators import Numbers, OperatorInput

BEHIND_ALL = np.iinfo(np.int64).max


def share_bounds(
    plan: JoinPlan,
    signatures: frozenset[str],
    arrivals: Arrivals,
    expected_work: Mapping[OperatorInput, float],
    n_shares: int,
) -> list[tuple[int, int]]:
    """The arrival numbers of each share: the first, and the one behind the last.

    `expected_work` is what a row that looks for partners costs, by its input.
    """
    arrival, work = _work(plan, signatures, arrivals, expected_work)
    order = np.argsort(arrival)
    done = np.cumsum(work[order])
    targets = done[-1] * np.arange(1, n_shares) / n_shares if len(done) else np.zeros(n_shares - 1)
    numbers = np.append(arrival[order], BEHIND_ALL)
    ends = numbers[np.minimum(np.searchsorted(done, targets) + 1, len(done))].tolist()
    return list(zip([0, *ends], [*ends, int(BEHIND_ALL)], strict=True))


def _work(
    plan: JoinPlan,
    signatures: frozenset[str],
    arrivals: Arrivals,
    expected_work: Mapping[OperatorInput, float],
) -> tuple[Numbers, np.ndarray]:
    """The arrival numbers of all rows, and the work of each."""
    work = {name: np.zeros(len(rows.batch)) for name, rows in arrivals.rows.items()}
    for name in signatures:
        signature = plan.by_name[name].signature
        for place, entry in enumerate(signature.inputs):
            stream = entry.stream.lower()
            if stream in work and can_drive(signature, place):
                work[stream] += expected_work.get((name, place), 1.0) * arrivals.wanted[name, place]
    numbers = [rows.batch.arrival for rows in arrivals.rows.values()]
    return np.concatenate([np.empty(0, np.int64), *numbers]), np.concatenate([np.empty(0), *work.values()])
