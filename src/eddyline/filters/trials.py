"""What a query that is not registered would have given on rows that came before it: matches, samples, errors.

Rows are judged in chunks, the newest first, so that a trial can stop at a deadline with what it knows by then. As in a round, a
user's function is called only on rows that no other condition has refuted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.documents import Trial, TrialError
from eddyline.expressions import Context, Frame, evaluate
from eddyline.filters.verdicts import (
    calls_again,
    frame_of,
    projection_error,
    truth,
    verdict_of,
)
from eddyline.model import Clause, Expression, Shape, UserCall

CHUNK_ROWS = 1_000
CALLED_ROWS = 100  # of a chunk if the query calls a user's function: looking at the clock is cheap beside it
SAMPLED_ERRORS = 3

Mask = npt.NDArray[np.bool_]


def trial(
    shape: Shape,
    conditions: Sequence[str],
    slots: Sequence[pa.Scalar],
    rows: pa.RecordBatch,
    context: Context,
    *,
    n_samples: int,
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> Trial:
    """Judge rows, which are of the query's only stream, oldest first. `conditions[k]` is the text of clause k."""
    judge = _Judge(shape, conditions, slots, context, n_samples)
    until = clock() + timeout_s
    size = CALLED_ROWS if shape.functions else CHUNK_ROWS
    end = rows.num_rows
    while end > 0 and (end == rows.num_rows or clock() < until):
        begin = max(0, end - size)
        judge.add(rows.slice(begin, end - begin))
        end = begin
    notes = list(calls_again(shape))
    if end > 0:
        notes.append(
            f"only the newest {judge.n_rows:,} of {rows.num_rows:,} rows were tried in {timeout_s:g} s"
        )
    return judge.trial(notes)


class _Judge:
    """Counts chunk by chunk."""

    def __init__(
        self,
        shape: Shape,
        conditions: Sequence[str],
        slots: Sequence[pa.Scalar],
        context: Context,
        n_samples: int,
    ) -> None:
        self.n_rows = 0
        self._shape, self._conditions, self._slots, self._context = shape, conditions, slots, context
        self._n_samples = n_samples
        self._n_matched = self._n_in_error = 0
        self._stopped = np.zeros(len(shape.condition.clauses), np.int64)
        self._samples: list[dict[str, Any]] = []
        self._errors: list[TrialError] = []
        clauses = range(len(shape.condition.clauses))
        self._order = sorted(clauses, key=lambda k: _calls_function(shape.condition.clauses[k]))

    def add(self, rows: pa.RecordBatch) -> None:
        n = rows.num_rows
        frame = frame_of(rows, self._slots, self._context)
        is_refuted, is_wrong = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        for k in self._order:
            clause = self._shape.condition.clauses[k]
            evaluated_rows = np.flatnonzero(~is_refuted) if _calls_function(clause) else np.arange(n)
            if not len(evaluated_rows):
                continue
            true, wrong = truth(clause, frame if len(evaluated_rows) == n else frame.take(evaluated_rows))
            stopped = ~true & ~wrong
            self._stopped[k] += int(stopped.sum())
            is_refuted[evaluated_rows] |= stopped
            is_wrong[evaluated_rows] |= wrong
        passed = np.flatnonzero(~is_refuted & ~is_wrong)
        outputs, unprojected = self._projected_columns(frame.take(passed))
        is_wrong[passed[unprojected]] = True
        in_error = np.flatnonzero(~is_refuted & is_wrong)
        self.n_rows += n
        self._n_matched += len(passed) - int(unprojected.sum())
        self._n_in_error += len(in_error)
        self._sample(outputs, np.flatnonzero(~unprojected))
        for row in in_error[::-1].tolist():
            if len(self._errors) == SAMPLED_ERRORS:
                break
            self._note_error(rows.slice(row, 1))

    def _projected_columns(self, frame: Frame) -> tuple[dict[str, pa.Array], Mask]:
        """The columns of the results, and where one of them could not be computed."""
        is_wrong = np.zeros(frame.n_rows, dtype=bool)
        columns: dict[str, pa.Array] = {}
        if frame.n_rows:
            for projected in self._shape.projection:
                result = evaluate(projected.expression, frame)
                columns[projected.name] = frame.array(result)
                is_wrong |= False if result.errors is None else result.errors != 0
        return columns, is_wrong

    def _sample(self, columns: dict[str, pa.Array], good: npt.NDArray[np.int64]) -> None:
        for row in good[::-1][: self._n_samples - len(self._samples)].tolist():
            self._samples.append({name: column[row].as_py() for name, column in columns.items()})

    def _note_error(self, row: pa.RecordBatch) -> None:
        frame = frame_of(row, self._slots, self._context)
        errors = [
            message for clause in self._shape.condition.clauses if (message := verdict_of(clause, frame)[1])
        ]
        message = errors[0] if errors else projection_error(self._shape, frame)
        self._errors.append(TrialError(message, row.to_pylist()[0]))

    def trial(self, notes: Sequence[str]) -> Trial:
        return Trial(
            self.n_rows,
            self._n_matched,
            self._n_in_error,
            tuple(self._samples),
            tuple(self._errors),
            tuple(self._conditions),
            tuple(self._stopped.tolist()),
            notes=tuple(notes),
        )


def _calls_function(clause: Clause) -> bool:
    conditions: list[Expression] = [atom.condition for atom in clause.atoms]
    return any(isinstance(node, UserCall) for condition in conditions for node in condition.walk())
