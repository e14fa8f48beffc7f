"""What a query over one relation selects of rows that are at hand: those its condition holds for, projected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.expressions import Context
from eddyline.filters.verdicts import evaluated_expression, frame_of, truth
from eddyline.model import Shape
from eddyline.nesting import deep

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """Rows that are results, and those that are in error, by their places; `columns` are those of the results."""

    places: Places
    columns: pa.RecordBatch
    in_error: Places


@deep
def selected_rows(
    shape: Shape, slots: Sequence[pa.Scalar], rows: pa.RecordBatch, context: Context
) -> SelectedRows:
    """Select from rows of the one relation that a shape reads. False beats error, as in a round."""
    frame = frame_of(rows, slots, context)
    refuted, wrong = np.zeros(rows.num_rows, dtype=bool), np.zeros(rows.num_rows, dtype=bool)
    for clause in shape.condition.clauses:
        true, failed = truth(clause, frame)
        refuted |= ~true & ~failed
        wrong |= failed
    passed = np.flatnonzero(~refuted & ~wrong)
    projected = frame if len(passed) == rows.num_rows else frame.take(passed)
    unprojected = np.zeros(len(passed), dtype=bool)
    columns = []
    for each in shape.projection:
        found = evaluated_expression(each.expression, projected)
        columns.append(projected.array(found))
        unprojected |= False if found.errors is None else found.errors != 0
    batch = pa.RecordBatch.from_arrays(columns, schema=shape.output)
    in_error = np.union1d(np.flatnonzero(wrong & ~refuted), passed[unprojected])
    good = np.flatnonzero(~unprojected)
    return SelectedRows(passed[good], batch.take(pa.array(good)), in_error)
