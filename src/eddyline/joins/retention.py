"""Which stored rows some query may still want.

A row stays while one need covers it: the query could see its round, and its window, whichever kind it is, has not passed. A
window in event time has passed once every stream that could still bring a partner has a watermark above the row's time plus the
reach.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eddyline.joins.plan import Needs, SignaturePlan
from eddyline.operators import Mask, Numbers, RoundProgress

_NOTHING_LATER = 1 << 62  # beyond every time


def covered_mask(
    plan: SignaturePlan,
    place: int,
    progress: RoundProgress,
    now_us: int,
    marks: RowMarks,
    n_counted: int,
) -> Mask:
    """Which of these rows of an input some query of the signature may still want."""
    found = np.zeros(len(marks), dtype=bool)
    for needs in plan.grouped_needs[place]:
        found |= _covered_mask(needs, plan, progress, now_us, marks, n_counted)
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


def _covered_mask(
    needs: Needs, plan: SignaturePlan, progress: RoundProgress, now_us: int, marks: RowMarks, n_counted: int
) -> Mask:
    bounds: list[tuple[Numbers, Numbers]] = []  # what of the rows has to be above what, need by need
    if needs.n_rows is not None:
        bounds.append((marks.position, n_counted - needs.n_rows))
    if needs.age_us is not None:
        bounds.append((marks.now_us, now_us - needs.age_us))
    if needs.reach_us:
        bounds.append((marks.time_us, _horizons(needs, plan, progress)))
    if len(bounds) == 1:
        return _is_above(marks.version, needs.first_version, *bounds[0])
    found = np.zeros(len(marks), dtype=bool)
    limits = np.stack([needs.first_version, *(limit for _, limit in bounds)], axis=1)
    for first, *others in np.unique(limits, axis=0).tolist():
        is_kept = marks.version >= first
        for (values, _), limit in zip(bounds, others, strict=True):
            is_kept &= values > limit
        found |= is_kept
    return found


def _is_above(versions: Numbers, first_versions: Numbers, values: Numbers, limits: Numbers) -> Mask:
    """Which rows are above the limit of some need that sees them: of those, the lowest counts."""
    order = np.argsort(first_versions)
    lowest = np.minimum.accumulate(limits[order])
    n_seeing = np.searchsorted(first_versions[order], versions, side="right")
    is_above: Mask = (n_seeing > 0) & (values > lowest[np.maximum(n_seeing, 1) - 1])
    return is_above


def _horizons(needs: Needs, plan: SignaturePlan, progress: RoundProgress) -> Numbers:
    """Rows up to these times have no partner to come: for every partner, its watermark is above their time plus the reach."""
    horizons = np.full(len(needs.first_version), _NOTHING_LATER, np.int64)
    for partner, reach in needs.reach_us.items():
        watermark = _watermark(plan, partner, progress)
        if watermark is None:
            return np.full(len(horizons), -_NOTHING_LATER, np.int64)
        horizons = np.minimum(horizons, watermark - reach - 1)
    return horizons


def _watermark(plan: SignaturePlan, place: int, progress: RoundProgress) -> int | None:
    """What is still to come of an input is not below this.

    Rows of input 0 of an outer join also come once more, when it is decided whether they have a partner.
    """
    signature = plan.signature
    own = progress.watermarks_us.get(signature.inputs[place].stream.lower())
    if not signature.outer or place != 0 or own is None:
        return own
    horizons = [decided_until(plan, reach, progress) for reach in reaches(plan)]
    return min([own, *(-_NOTHING_LATER if horizon is None else horizon + 1 for horizon in horizons)])


def reaches(plan: SignaturePlan) -> set[int]:
    """Of an outer join of two streams: by how much a partner's time may be above that of a row of input 0, in all queries."""
    return {reach for need in plan.needs[0] for partner, reach in need.reach_us if partner == 1}


def decided_until(plan: SignaturePlan, reach: int, progress: RoundProgress) -> int | None:
    """Up to which event time it is decided which rows of input 0 have no partner within this reach."""
    watermark = progress.watermarks_us.get(plan.signature.inputs[1].stream.lower())
    return None if watermark is None else watermark - reach - 1


def near(
    groups: Sequence[Needs],
    partner: int,
    behind: Numbers,
    age_us: Numbers,
    time_us: Numbers,
    driver_us: Numbers,
) -> npt.NDArray[np.bool_] | None:
    """Which matches can lie in some query's window at the row that drives, or None: all of them.

    Of needs that are bounded in the same ways the widest of each bound counts: what that lets through too much, filters decide.
    """
    found: npt.NDArray[np.bool_] | None = None
    for needs in groups:
        tests = []
        if needs.n_rows is not None:
            tests.append(behind < needs.n_rows.max())
        if needs.age_us is not None:
            tests.append(age_us < needs.age_us.max())
        if partner in needs.reach_us:
            tests.append(driver_us - time_us <= needs.reach_us[partner].max())
        if partner in needs.back_us:
            tests.append(time_us - driver_us <= needs.back_us[partner].max())
        if not tests:
            return None
        mask = np.logical_and.reduce(tests)
        found = mask if found is None else found | mask
    return found
