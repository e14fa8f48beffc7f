"""Trying what a plan adds or changes on recent rows (explain/trials.py), as far as the time goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.catalog import QueryRecord
from eddyline.engine import RoundEngine
from eddyline.explain import TRIAL_S, try_record
from eddyline.filters import Trial
from eddyline.model import Properties, QueryState, Shape
from eddyline.rules.plans import Plan, TableChange, TableTrial

PLAN_S = 5.0  # all trials of a plan together
PLAN_RULES = 200  # of a plan that are tried
TABLE_ROWS = 10  # of a rules table that are tried


def try_plan(
    rounds: RoundEngine, plan: Plan, *, timeout_s: float = PLAN_S, clock: Callable[[], float] = time.monotonic
) -> None:
    """Try what a plan adds or changes, as far as the time goes: the first rules, and the first rows of each rules table."""
    until = clock() + timeout_s
    with rounds.lock:
        known = {stream.name.lower() for stream in rounds.catalog.streams()}
    n_tried = 0
    for at, change in enumerate(plan.queries):
        remaining_s = until - clock()
        if change.kind == "unchanged" or not {each.lower() for each in change.shape.relations} <= known:
            continue
        if n_tried == PLAN_RULES or remaining_s <= 0:
            return
        record = _record(change.rule.name, change.rule.text, change.shape, change.constants)
        tried = try_record(rounds, record, n_samples=1, timeout_s=min(TRIAL_S, remaining_s))
        plan.queries[at] = replace(change, tried=tried)
        n_tried += 1
    for table in plan.tables:
        shape = table.rows.shape
        is_plain = all(branch.join is None for branch in shape.all_branches)
        if until > clock() and is_plain and {each.lower() for each in shape.streams} <= known:
            table.tried = _try_table(rounds, table, until, clock)


def _try_table(
    rounds: RoundEngine, table: TableChange, until: float, clock: Callable[[], float]
) -> TableTrial | None:
    moving = np.flatnonzero((table.query_ids == 0) | table.is_changed)[:TABLE_ROWS].tolist()
    found: list[Trial] = []
    for row in moving:
        remaining_s = until - clock()
        if remaining_s <= 0:
            break
        constants = [column[row] for column in table.rows.slots]
        record = _record(table.rows.names[row], table.rule.text, table.rows.shape, constants)
        found.append(try_record(rounds, record, n_samples=0, timeout_s=min(TRIAL_S, remaining_s)))
    if not found:
        return None
    matched = [each.n_matched or 0 for each in found]
    return TableTrial(
        len(found),
        sum(n > 0 for n in matched),
        max(each.n_rows for each in found),
        sum(matched),
        sum(each.n_in_error for each in found),
    )


def _record(name: str, text: str, shape: Shape, constants: Sequence[Any]) -> QueryRecord:
    scalars = tuple(
        value if isinstance(value, pa.Scalar) else pa.scalar(value, slot.type)
        for value, slot in zip(constants, shape.slots, strict=True)
    )
    return QueryRecord(0, name, text, shape, Properties(), QueryState.PAUSED, 0, 0, 0, scalars)
