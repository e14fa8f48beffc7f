"""Which stored rows some query may still want.

A row stays while one need covers it: the query could see its round, and its window, whichever kind it is, has not passed. A
window in event time has passed once every stream that could still bring a partner has a watermark above the row's time plus the
reach.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eddyline.joins.plan import Mask, Need, Numbers, SignaturePlan, Standing

_NOTHING_LATER = 1 << 62  # beyond every time


def covered(
    plan: SignaturePlan,
    place: int,
    standing: Standing,
    now_us: int,
    marks: RowMarks,
    n_counted: int,
) -> Mask:
    """Which of these rows of an input some query of the signature may still want."""
    found = np.zeros(len(marks), dtype=bool)
    for need in plan.needs[place]:
        found |= _covered(need, plan, standing, now_us, marks, n_counted)
    return found


class RowMarks:
    """What is known of stored rows besides their columns, one entry each."""

    __slots__ = ("now_us", "position", "time_us", "version")

    def __init__(self, position: Numbers, time_us: Numbers, version: Numbers, now_us: Numbers) -> None:
        self.position = position
        self.time_us = time_us
        self.version = version
        self.now_us = now_us

    def __len__(self) -> int:
        return len(self.position)


def _covered(
    need: Need, plan: SignaturePlan, standing: Standing, now_us: int, marks: RowMarks, n_counted: int
) -> Mask:
    is_kept = marks.version >= need.first_version
    if need.n_rows is not None:
        is_kept &= n_counted - marks.position < need.n_rows
    if need.age_us is not None:
        is_kept &= now_us - marks.now_us < need.age_us
    if need.reach_us:
        is_kept &= marks.time_us > _horizon(need.reach_us, plan, standing)
    return is_kept


def _horizon(reach_us: Sequence[tuple[int, int]], plan: SignaturePlan, standing: Standing) -> int:
    """Rows up to this time have no partner to come: for every partner, its watermark is above their time plus the reach."""
    horizon = _NOTHING_LATER
    for partner, reach in reach_us:
        watermark = _watermark(plan, partner, standing)
        if watermark is None:
            return -_NOTHING_LATER
        horizon = min(horizon, watermark - reach - 1)
    return horizon


def _watermark(plan: SignaturePlan, place: int, standing: Standing) -> int | None:
    """What is still to come of an input is not below this.

    Rows of input 0 of an outer join also come once more, when it is decided whether they have a partner.
    """
    signature = plan.signature
    own = standing.watermarks_us.get(signature.inputs[place].stream.lower())
    if not signature.outer or place != 0 or own is None:
        return own
    horizons = [decided_until(plan, reach, standing) for reach in reaches(plan)]
    return min([own, *(-_NOTHING_LATER if horizon is None else horizon + 1 for horizon in horizons)])


def reaches(plan: SignaturePlan) -> set[int]:
    """Of an outer join of two streams: by how much a partner's time may be above that of a row of input 0, in all queries."""
    return {reach for need in plan.needs[0] for partner, reach in need.reach_us if partner == 1}


def decided_until(plan: SignaturePlan, reach: int, standing: Standing) -> int | None:
    """Up to which event time it is decided which rows of input 0 have no partner within this reach."""
    watermark = standing.watermarks_us.get(plan.signature.inputs[1].stream.lower())
    return None if watermark is None else watermark - reach - 1


def near(
    need_sets: Sequence[Need],
    partner: int,
    behind: Numbers,
    age_us: Numbers,
    time_us: Numbers,
    driver_us: Numbers,
) -> npt.NDArray[np.bool_] | None:
    """Which matches can lie in some query's window at the row that drives, or None: all of them."""
    found: npt.NDArray[np.bool_] | None = None
    for need in need_sets:
        mask: npt.NDArray[np.bool_] | None = None
        tests = []
        if need.n_rows is not None:
            tests.append(behind < need.n_rows)
        if need.age_us is not None:
            tests.append(age_us < need.age_us)
        tests += [driver_us - time_us <= reach for other, reach in need.reach_us if other == partner]
        tests += [time_us - driver_us <= reach for other, reach in need.back_us if other == partner]
        for test in tests:
            mask = test if mask is None else mask & test
        if mask is None:
            return None
        found = mask if found is None else found | mask
    return found
