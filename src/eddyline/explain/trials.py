"""Trying a query on recent rows, before it is registered: `Engine.try_query`, the editor's *Try it*.

Recent rows are those the process keeps for `why_not` (`recent_rows` of each stream). Nothing is registered, delivered or counted,
and no round waits: only finding the rows takes the engine's lock.
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.catalog import QueryRecord
from eddyline.engine import RoundEngine
from eddyline.errors import PropertyError
from eddyline.explain.explanations import condition_texts
from eddyline.explain.group_trials import try_grouped
from eddyline.explain.grouped_query import grouped_query
from eddyline.explain.join_why import inputs_alone, last_rows
from eddyline.explain.union_parts import branch_records, part_of, union_trial
from eddyline.filters import Trial, TrialInput, trial

TRIAL_S = 2.0
TRIAL_ROWS = 10_000
MOST_ROWS = 100_000
MOST_SAMPLES = 100

_JOIN = (
    "the matches of a join depend on the contents of its windows at the time, "
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
    """Try a query, registered or not, on the last rows of its stream; of a union each part in its share of the time."""
    if last < 1 or n_samples < 0 or timeout_s <= 0:
        raise PropertyError("last and timeout are above 0, samples not below", hint="Write last=10_000.")
    last, n_samples = min(last, MOST_ROWS), min(n_samples, MOST_SAMPLES)
    with rounds.lock:
        grouped = grouped_query(rounds, record)
    if grouped is not None:
        return try_grouped(rounds, grouped, last, n_samples, timeout_s)
    branches = branch_records(record)
    if len(branches) == 1:
        return _tried(rounds, record, last, n_samples, timeout_s)
    tried = [
        replace(_tried(rounds, each, last, n_samples, timeout_s / len(branches)), part=part_of(each))
        for each in branches
    ]
    n_rows: dict[str, int] = {}
    for branch, each in zip(branches, tried, strict=True):
        stream = branch.shape.stream.lower()
        n_rows[stream] = max(each.n_rows, n_rows.get(stream, 0))
    return union_trial(tried, sum(n_rows.values()), n_samples)


def _tried(rounds: RoundEngine, record: QueryRecord, last: int, n_samples: int, timeout_s: float) -> Trial:
    record = replace(record, version_from=0)
    if record.shape.join is not None:
        passed = inputs_alone(rounds, record, last)
        inputs = tuple(TrialInput(each.input, each.n_rows, each.n_passed) for each in passed)
        return Trial(0, None, inputs=inputs, notes=(_JOIN,))
    with rounds.lock:
        rounds.check_open()
        texts, context = condition_texts(record), rounds.context()
        rows = last_rows(rounds, record, 0, last)
    return trial(
        record.shape, texts, record.constants, rows, context, n_samples=n_samples, timeout_s=timeout_s
    )
