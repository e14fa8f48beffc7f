"""Trying a query on rows that came lately, before it is registered: `Engine.try_query`, `eddyline plan`, the editor's *Try it*.

Recent rows are those the process keeps for `why_not` (`recent_rows` of each stream). Nothing is registered, delivered or counted,
and no round waits: only finding the rows takes the engine's lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eddyline.api.explain import condition_texts
from eddyline.api.join_why import inputs_alone
from eddyline.catalog import QueryRecord
from eddyline.engine import RoundEngine
from eddyline.errors import PropertyError
from eddyline.filters import Trial, TrialInput, trial
from eddyline.model import Properties, QueryState, Shape

if TYPE_CHECKING:
    from eddyline.api.rules_plan import Plan, TableChange

TRIAL_S = 2.0
TRIAL_ROWS = 10_000
MOST_ROWS = 100_000
MOST_SAMPLES = 100
PLAN_S = 5.0  # all trials of a plan together
PLAN_RULES = 200  # of a plan that are tried
TABLE_ROWS = 10  # of a rules table that are tried

_JOIN = (
    "which rows of a join meet depends on what its windows held when they arrived, "
    "so only the conditions on each stream alone are tried"
)


def try_record(
    rounds: RoundEngine,
    record: QueryRecord,
    *,
    last: int = TRIAL_ROWS,
    n_samples: int = 5,
    timeout_s: float = TRIAL_S,
) -> Trial:
    """Try a query, registered or not, on the last rows of its stream."""
    if last < 1 or n_samples < 0 or timeout_s <= 0:
        raise PropertyError("last and timeout are above 0, samples not below", hint="Write last=10_000.")
    last, n_samples = min(last, MOST_ROWS), min(n_samples, MOST_SAMPLES)
    with rounds.lock:
        rounds.check_open()
        texts, context = condition_texts(record), rounds.context()
        if record.shape.join is None:
            stream = rounds.catalog.stream(record.shape.stream)
            recent = rounds.recent.get(stream.name.lower())
            rows = pa.RecordBatch.from_pylist([], schema=stream.schema)
            if recent is not None:
                rows = recent.last(last, stream.schema)
    if record.shape.join is not None:
        passed = inputs_alone(rounds, replace(record, version_from=0), last)
        inputs = tuple(TrialInput(each.input, each.n_rows, each.n_passed) for each in passed)
        return Trial(0, None, inputs=inputs, notes=(_JOIN,))
    return trial(
        record.shape, texts, record.constants, rows, context, n_samples=n_samples, timeout_s=timeout_s
    )


def as_dict(found: Trial) -> dict[str, Any]:
    """The same for programs."""
    return {
        "n_rows": found.n_rows,
        "n_matched": found.n_matched,
        "n_in_error": found.n_in_error,
        "samples": [dict(row) for row in found.samples],
        "errors": [{"message": each.message, "row": each.row} for each in found.errors],
        "conditions": list(found.conditions),
        "stopped": list(found.stopped),
        "inputs": [
            {"input": each.input, "n_rows": each.n_rows, "n_passed": each.n_passed} for each in found.inputs
        ],
        "notes": list(found.notes),
        "shown": str(found),
    }


# --------------------------------------------------------------------------------------------- plans


@dataclass(frozen=True, slots=True)
class TableTrial:
    """The first added or changed rules of a table, tried: of `n_rules`, `n_matching` would have had `n_matched` results."""

    n_rules: int
    n_matching: int
    n_rows: int
    n_matched: int
    n_in_error: int


def try_plan(
    rounds: RoundEngine, plan: Plan, *, timeout_s: float = PLAN_S, clock: Callable[[], float] = time.monotonic
) -> None:
    """Try what a plan adds or changes, as far as the time goes: the first rules, and the first rows of each rules table."""
    until = clock() + timeout_s
    with rounds.lock:
        known = {stream.name.lower() for stream in rounds.catalog.streams()}
    n_tried = 0
    for at, change in enumerate(plan.queries):
        left_s = until - clock()
        if change.kind == "unchanged" or not {each.lower() for each in change.shape.streams} <= known:
            continue
        if n_tried == PLAN_RULES or left_s <= 0:
            return
        record = _record(change.rule.name, change.rule.text, change.shape, change.constants)
        tried = try_record(rounds, record, n_samples=1, timeout_s=min(TRIAL_S, left_s))
        plan.queries[at] = replace(change, tried=tried)
        n_tried += 1
    for table in plan.tables:
        if until > clock() and table.rows.shape.join is None and table.rows.shape.stream.lower() in known:
            table.tried = _try_table(rounds, table, until, clock)


def _try_table(
    rounds: RoundEngine, table: TableChange, until: float, clock: Callable[[], float]
) -> TableTrial | None:
    moving = np.flatnonzero((table.query_ids == 0) | table.is_changed)[:TABLE_ROWS].tolist()
    found: list[Trial] = []
    for row in moving:
        left_s = until - clock()
        if left_s <= 0:
            break
        constants = [column[row] for column in table.rows.slots]
        record = _record(table.rows.names[row], table.rule.text, table.rows.shape, constants)
        found.append(try_record(rounds, record, n_samples=0, timeout_s=min(TRIAL_S, left_s)))
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
