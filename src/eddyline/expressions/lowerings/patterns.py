"""A column tested against patterns that may differ per row: each distinct pattern meets all its rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.expressions.frame import ErrorCodes, Evaluation, Frame, RowError
from eddyline.types import BOOLEAN

# Takes values and one pattern, gives one BOOLEAN per value; may raise RowError for a pattern that is none.
Test = Callable[[pa.Array, Any], pa.Array]


def pattern_test(value: Evaluation, pattern: Evaluation, frame: Frame, test: Test) -> Evaluation:
    """`test` of each value against the pattern of its row; NULL where either is."""
    if isinstance(pattern.values, pa.Scalar):
        if isinstance(value.values, pa.Scalar):
            hits, codes = _against(pa.repeat(value.values, 1), pattern.values, frame, test)
            return Evaluation(hits[0], None if codes is None else np.repeat(codes, frame.n_rows))
        return Evaluation(*_against(value.values, pattern.values, frame, test))
    values = frame.array(value)
    encoded = pattern.values.dictionary_encode()
    of_row = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.argsort(of_row, kind="stable")
    starts = np.searchsorted(of_row[order], np.arange(len(encoded.dictionary) + 1))
    # rows without a pattern come first, then those of each pattern in turn
    parts = [pa.nulls(int(starts[0]), BOOLEAN)]
    codes = np.zeros(frame.n_rows, np.int32)
    for k, one in enumerate(encoded.dictionary):
        rows = order[starts[k] : starts[k + 1]]
        hits, failed = _against(values.take(pa.array(rows)), one, frame, test)
        parts.append(hits)
        if failed is not None:
            codes[rows] = failed
    back = np.empty(frame.n_rows, np.int64)
    back[order] = np.arange(frame.n_rows)
    answer = pa.concat_arrays(parts).take(pa.array(back))
    return Evaluation(answer, codes if codes.any() else None)


def _against(
    values: pa.Array, pattern: pa.Scalar, frame: Frame, test: Test
) -> tuple[pa.Array, ErrorCodes | None]:
    if not pattern.is_valid:
        return pa.nulls(len(values), BOOLEAN), None
    try:
        return test(values, pattern.as_py()), None
    except RowError as problem:
        code = frame.code(problem.error, problem.message)
        is_value = values.is_valid().to_numpy(zero_copy_only=False)
        return pa.nulls(len(values), BOOLEAN), np.where(is_value, code, 0).astype(np.int32)
