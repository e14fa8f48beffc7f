"""Evaluation over one batch: each distinct expression at most once per row, for all queries.

An expression without constants of a query is computed per row and remembered, on all rows or only on those somebody still asks
about. One with constants is computed over (row, query) pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import Positions, TupleBatch
from eddyline.expressions import Context, Evaluated, Failure, Frame, evaluate
from eddyline.expressions.frame import ErrorCodes, as_mask
from eddyline.model import Column, Expression, Segment, Slot, UserCall

PAIRS_AT_ONCE = 1 << 18  # bounds the memory of a pair frame


@dataclass(slots=True)
class _Known:
    """What is known so far of an expression on the rows of a batch."""

    is_known: npt.NDArray[np.bool_]
    values: pa.Array | None = None
    errors: ErrorCodes | None = None


@dataclass(slots=True)
class BatchEvaluation:
    """Expressions of all queries over one batch."""

    batch: TupleBatch
    context: Context
    failures: list[Failure] = field(default_factory=list)
    _codes: dict[Failure, int] = field(default_factory=dict)
    _known: dict[Expression, _Known] = field(default_factory=dict)
    _whole: Frame | None = None

    def code(self, failure: Failure) -> int:
        """The number that stands for this failure in this batch."""
        code = self._codes.get(failure)
        if code is None:
            self.failures.append(failure)
            code = self._codes[failure] = len(self.failures)
        return code

    def on_all_rows(self, expression: Expression) -> Evaluated:
        """The value on every row of the batch."""
        if self._whole is None:
            self._whole = self._frame(None, None, None, None)
        return evaluate(expression, self._whole)

    def on_rows(self, expression: Expression, rows: Positions) -> tuple[pa.Array, ErrorCodes | None]:
        """The value on these rows, computed only where it is not known yet."""
        if isinstance(expression, Column):
            return self.batch.rows.column(expression.name).take(pa.array(rows)), None
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = _Known(np.zeros(len(self.batch), dtype=bool))
        asked = np.zeros(len(self.batch), dtype=bool)
        asked[rows] = True
        missing = np.flatnonzero(asked & ~known.is_known)
        if len(missing):
            frame = self._frame(expression, missing, None, None)
            result = evaluate(expression, frame)
            _learn(known, missing, frame.array(result), result.errors, len(self.batch))
        assert known.values is not None or not len(rows)
        values = (
            known.values.take(pa.array(rows)) if known.values is not None else pa.array([], expression.type)
        )
        return values, None if known.errors is None else known.errors[rows]

    def on_pairs(
        self, expression: Expression, segment: Segment, rows: Positions, positions: Positions
    ) -> tuple[pa.Array, ErrorCodes | None]:
        """The value on each (row, query) pair."""
        slots = sorted({node.index for node in expression.walk() if isinstance(node, Slot)})
        if not slots:
            return self.on_rows(expression, rows)
        if any(isinstance(node, UserCall) for node in expression.walk()):
            rows, positions, spread = _distinct(segment, slots, rows, positions)
        else:
            spread = None
        parts, codes = [], []
        for start in range(0, max(len(rows), 1), PAIRS_AT_ONCE):
            piece = slice(start, start + PAIRS_AT_ONCE)
            frame = self._frame(expression, rows[piece], segment, positions[piece])
            result = evaluate(expression, frame)
            parts.append(frame.array(result))
            codes.append(np.zeros(frame.n_rows, np.int32) if result.errors is None else result.errors)
        values, errors = pa.concat_arrays(parts), np.concatenate(codes)
        if spread is not None:
            values, errors = values.take(pa.array(spread)), errors[spread]
        return values, errors if errors.any() else None

    def truth_on_pairs(
        self, condition: Expression, segment: Segment, rows: Positions, positions: Positions
    ) -> tuple[npt.NDArray[np.bool_], ErrorCodes | None]:
        """Where the condition is true, and where it is in error."""
        values, errors = self.on_pairs(condition, segment, rows, positions)
        return as_mask(values, len(rows)), errors

    def _frame(
        self,
        expression: Expression | None,
        rows: Positions | None,
        segment: Segment | None,
        positions: Positions | None,
    ) -> Frame:
        """A frame over these rows (None: all) with the columns the expression needs (None: all)."""
        wanted = None if expression is None else {n.name for n in expression.walk() if isinstance(n, Column)}
        take = None if rows is None else pa.array(rows)
        columns = {}
        for name, column in zip(self.batch.rows.schema.names, self.batch.rows.columns, strict=True):
            if wanted is None or name in wanted:
                columns["", name] = column if take is None else column.take(take)
        slots: list[pa.Array] = []
        if segment is not None and positions is not None:
            places = pa.array(positions)
            slots = [column.take(places) for column in segment.slots]
        n_rows = len(self.batch) if rows is None else len(rows)
        return Frame(n_rows, columns, slots, self.context, self.failures, {}, self._codes)


def _learn(known: _Known, rows: Positions, values: pa.Array, errors: ErrorCodes | None, n_rows: int) -> None:
    """Add values for `rows` to what is known."""
    if known.values is None:
        places = np.full(n_rows, -1, dtype=np.int64)
        places[rows] = np.arange(len(rows))
        known.values = values.take(pa.array(places, mask=places < 0))
    else:
        places = np.arange(n_rows)
        places[rows] = n_rows + np.arange(len(rows))
        known.values = pa.concat_arrays([known.values, values]).take(pa.array(places))
    if errors is not None:
        if known.errors is None:
            known.errors = np.zeros(n_rows, np.int32)
        known.errors[rows] = errors
    known.is_known[rows] = True


def _distinct(
    segment: Segment, slots: list[int], rows: Positions, positions: Positions
) -> tuple[Positions, Positions, Positions]:
    """Pairs that differ in row or constants, and for each given pair which of them it is."""
    codes = segment.cache.get(f"constants {slots}")
    if codes is None:
        codes = np.zeros(len(segment), dtype=np.int64)
        for index in slots:
            column = segment.slots[index]
            values = (
                column
                if not pa.types.is_nested(column.type)
                else pa.array([repr(v) for v in column.to_pylist()])
            )
            encoded = values.dictionary_encode(null_encoding="encode")
            combined = codes * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy(
                zero_copy_only=False
            )
            codes = np.unique(combined, return_inverse=True)[1].astype(np.int64)
        segment.cache[f"constants {slots}"] = codes
    width = int(codes.max()) + 1 if len(codes) else 1
    _, first, spread = np.unique(rows * width + codes[positions], return_index=True, return_inverse=True)
    return rows[first], positions[first], spread
