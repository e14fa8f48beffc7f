"""Trying a query with aggregates on recent rows: which of the groups that they make would be in its answer.

The rows are taken as if they had come in one round, now, and all windows as open; those that came late are in no window and no
frame. Frames of OVER hold no row before them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.documents import Trial, TrialError
from eddyline.engine import RoundEngine
from eddyline.explain.explanations import condition_texts
from eddyline.explain.group_why import late_note
from eddyline.explain.grouped_query import GroupedQuery
from eddyline.expressions import Context
from eddyline.filters import selected_rows, trial, why, why_not
from eddyline.types import python_rows

SAMPLED_ERRORS = 3


def try_grouped(
    rounds: RoundEngine, query: GroupedQuery, last: int, n_samples: int, timeout_s: float
) -> Trial:
    """Try a query, registered or not, on the last rows of its stream, or the rows of its table."""
    with rounds.round_lock, rounds.lock:
        rounds.check_open()
        (rows, is_late), context = query.recent_rows(rounds, since_version=0), rounds.context()
    first = max(0, rows.num_rows - last)
    rows, is_late = rows.slice(first), is_late[first:]
    class_shape, texts = query.class_record.shape, query.class_conditions()
    below = trial(class_shape, texts, (), rows, context, n_samples=0, timeout_s=timeout_s)
    first = rows.num_rows - below.n_rows
    rows, is_late = rows.slice(first), is_late[first:]
    taken = query.class_rows(rows, context, is_late=is_late)
    n_late = int(taken.is_late.sum()) if query.leaves_late_rows_out else 0
    entries = query.entries_of(taken, context)
    record = query.record
    own = condition_texts(record)
    found = why_not(record.name, record.shape, own, record.constants, entries, context, "")
    results = selected_rows(record.shape, record.constants, entries, context)
    newest = (
        python_rows(results.columns.slice(max(0, len(results.places) - n_samples)))[::-1] if n_samples else []
    )
    errors = [*below.errors]
    for at in results.in_error[: SAMPLED_ERRORS - len(errors)].tolist():
        one = entries.slice(at, 1)
        verdict = why(record.name, record.shape, own, record.constants, one, context)
        errors.append(TrialError(verdict.error, query.groups(one)[0]))
    return replace(
        below,
        n_matched=len(results.places),
        n_in_error=below.n_in_error + len(results.in_error),
        samples=tuple(newest),
        errors=tuple(errors),
        conditions=(*below.conditions, *query.bound_texts(), *own),
        stopped=(*below.stopped, *_stopped_by_time(query, rows, context), *found.stopped),
        n_groups=None if query.aggregation.is_over else entries.num_rows,
        noun=query.noun,
        notes=(*below.notes, *([late_note(query, n_late)] if n_late else ())),
    )


def _stopped_by_time(query: GroupedQuery, rows: pa.RecordBatch, context: Context) -> list[int]:
    """How many rows each temporal filter stops."""
    columns = selected_rows(query.without_conditions, (), rows, context).columns
    return [int(np.sum(~is_within)) for _, is_within in query.within_bounds(columns, context.now_us)]
