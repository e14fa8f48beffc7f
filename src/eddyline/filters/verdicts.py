"""Why a row matched or did not: a query's conditions, one by one, over rows that were seen."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.documents import ClauseVerdict, Why, WhyNot
from eddyline.expressions import CallResult, Context, Evaluation, Frame, as_mask, evaluate
from eddyline.filters.batch_evaluation import internal_failure
from eddyline.model import Atom, AtomKind, Call, Clause, Column, Expression, Shape
from eddyline.nesting import deep
from eddyline.types import python_rows, python_values


@deep
def why(
    query: str,
    shape: Shape,
    conditions: Sequence[str],
    slots: Sequence[pa.Scalar],
    row: pa.RecordBatch,
    context: Context,
    recorded_values: Sequence[pa.Array] = (),
) -> Why:
    """Judge one row. `conditions[k]` is the text of clause k, `recorded[k]` what the k-th call of a function that is not
    deterministic gave on it; without them such functions are called again, which is noted."""
    frame = frame_of(row, slots, context)
    notes = () if recorded_values else calls_again(shape)
    for call, values in zip(shape.recorded_calls, recorded_values, strict=bool(recorded_values)):
        frame.call_results[call] = CallResult(np.ones(1, dtype=bool), values, np.zeros(1, np.int32))
    return _verdict(query, shape, conditions, row, frame, notes)


def _verdict(
    query: str,
    shape: Shape,
    conditions: Sequence[str],
    row: pa.RecordBatch,
    frame: Frame,
    notes: tuple[str, ...] = (),
) -> Why:
    verdicts = []
    for clause, text in zip(shape.condition.clauses, conditions, strict=True):
        verdict, message = verdict_of(clause, frame)
        names = _columns(clause)
        verdicts.append(
            ClauseVerdict(text, verdict, {n: python_values(row.column(n))[0] for n in names}, message)
        )
    refuted = any(v.verdict in ("false", "null") for v in verdicts)
    errors = [v.message for v in verdicts if v.verdict == "error"]
    error = errors[0] if errors and not refuted else ""
    if not refuted and not error:
        error = projection_error(shape, frame)
    return Why(query, not refuted and not error, tuple(verdicts), error, notes)


@deep
def why_not(
    query: str,
    shape: Shape,
    conditions: Sequence[str],
    slots: Sequence[pa.Scalar],
    rows: pa.RecordBatch,
    context: Context,
    since: str,
    notes: Sequence[str] = (),
) -> WhyNot:
    """Judge the last rows of the stream."""
    frame = frame_of(rows, slots, context)
    n = rows.num_rows
    judged = _judged(shape, frame)
    stopped, n_stops, distance = judged.stopped, judged.n_stops, judged.distance
    alone = stopped & (n_stops == 1)
    in_error = (n_stops == 0) & judged.wrong.any(axis=0)
    missed = judged.nearest_misses()
    nearest = nearest_row = nearest_distance = None
    if len(missed):
        best = missed[0]
        one = rows.slice(int(best), 1)
        nearest = _verdict(
            query, shape, conditions, one, frame.take(np.array([best]))
        )  # as functions found it
        nearest_row = python_rows(one)[0]
        nearest_distance = float(distance[best])
    return WhyNot(
        query=query,
        n_rows=n,
        n_matched=int((judged.true.all(axis=0)).sum()),
        n_in_error=int(in_error.sum()),
        conditions=tuple(conditions),
        stopped=tuple(int(k) for k in stopped.sum(axis=1)),
        stopped_alone=tuple(int(k) for k in alone.sum(axis=1)),
        nearest=nearest,
        nearest_row=nearest_row,
        since=since,
        notes=(*notes, *calls_again(shape)),
        distance=nearest_distance,
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """What conditions say of rows: a row of each array for each condition."""

    true: npt.NDArray[np.bool_]
    wrong: npt.NDArray[np.bool_]
    distance: npt.NDArray[np.float64]  # of each row: up to 1 for each condition that stops it

    @property
    def stopped(self) -> npt.NDArray[np.bool_]:
        return ~self.true & ~self.wrong

    @property
    def n_stops(self) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = self.stopped.sum(axis=0)
        return found

    def nearest_misses(self) -> npt.NDArray[np.int64]:
        """The rows that some condition stops, those first that the fewest do, and of these the nearest."""
        n_stops = self.n_stops
        missed = np.flatnonzero(n_stops > 0)
        order: npt.NDArray[np.int64] = missed[np.lexsort((self.distance[missed], n_stops[missed]))]
        return order


def _judged(shape: Shape, frame: Frame) -> _Judged:
    clauses = shape.condition.clauses
    true = np.ones((len(clauses), frame.n_rows), dtype=bool)
    wrong = np.zeros((len(clauses), frame.n_rows), dtype=bool)
    distance = np.zeros(frame.n_rows)
    for k, clause in enumerate(clauses):
        true[k], wrong[k] = truth(clause, frame)
        distance += np.where(true[k], 0.0, _distance(clause, frame))
    return _Judged(true, wrong, distance)


@deep
def nearest_misses(
    shape: Shape, slots: Sequence[pa.Scalar], rows: pa.RecordBatch, context: Context, most: int
) -> npt.NDArray[np.int64]:
    """The places of the rows that conditions stop, those that come nearest first."""
    return _judged(shape, frame_of(rows, slots, context)).nearest_misses()[:most]


def calls_again(shape: Shape) -> tuple[str, ...]:
    names = dict.fromkeys(call.function for call in shape.recorded_calls)
    return tuple(
        f"{name} is not deterministic: it was called again, and may have given something else in the round"
        for name in names
    )


def frame_of(rows: pa.RecordBatch, slots: Sequence[pa.Scalar], context: Context) -> Frame:
    columns = {("", name): column for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    return Frame(rows.num_rows, columns, list(slots), context)


def truth(clause: Clause, frame: Frame) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Where the clause is true, and where it is in error."""
    return _combined_masks("or", [atom.condition for atom in clause.atoms], frame)


def _combined_masks(
    operator: str, parts: Sequence[Expression], frame: Frame
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """The least or the greatest of the parts in the order not true < error < true."""
    judged = [
        _combined_masks(part.function, part.arguments, frame) if _is_joined(part) else _leaf(part, frame)
        for part in parts
    ]
    trues, wrongs = [true for true, _ in judged], [wrong for _, wrong in judged]
    if operator == "or":
        true = np.logical_or.reduce(trues)
        return true, np.logical_or.reduce(wrongs) & ~true
    refuted = np.logical_or.reduce([~true & ~wrong for true, wrong in judged])
    return np.logical_and.reduce(trues), np.logical_or.reduce(wrongs) & ~refuted


def _is_joined(condition: Expression) -> TypeGuard[Call]:
    return isinstance(condition, Call) and condition.function in ("and", "or")


def evaluated_expression(expression: Expression, frame: Frame) -> Evaluation:
    """As a round takes it: what breaks the computation is the error of the rows at fault, found by halving."""
    try:
        return evaluate(expression, frame)
    except Exception as error:
        if frame.n_rows <= 1:
            failure = internal_failure(error)
            code = frame.code(failure.error, failure.message)
            return Evaluation(pa.nulls(frame.n_rows, expression.type), np.full(frame.n_rows, code, np.int32))
    halves = [frame.take(rows) for rows in np.array_split(np.arange(frame.n_rows), 2)]
    found = [evaluated_expression(expression, half) for half in halves]
    values = [half.array(each) for half, each in zip(halves, found, strict=True)]
    codes = [
        np.zeros(half.n_rows, np.int32) if each.errors is None else each.errors
        for half, each in zip(halves, found, strict=True)
    ]
    return Evaluation(pa.concat_arrays(values), np.concatenate(codes))


def _leaf(condition: Expression, frame: Frame) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    result = evaluated_expression(condition, frame)
    true = as_mask(result.values, frame.n_rows)
    return true, np.zeros(frame.n_rows, dtype=bool) if result.errors is None else result.errors != 0


def _leaves(condition: Expression) -> Iterator[Expression]:
    if not _is_joined(condition):
        yield condition
        return
    for part in condition.arguments:
        yield from _leaves(part)


def verdict_of(clause: Clause, frame: Frame) -> tuple[str, str]:
    """The clause on a frame of one row."""
    (is_true,), (is_wrong,) = truth(clause, frame)
    if is_true:
        return "true", ""
    results = [evaluated_expression(leaf, frame) for atom in clause.atoms for leaf in _leaves(atom.condition)]
    if is_wrong:
        code = next(int(r.errors[0]) for r in results if r.errors is not None and r.errors[0])
        return "error", frame.failure(code).message
    is_null = any(
        not frame.array(evaluated_expression(atom.condition, frame))[0].is_valid for atom in clause.atoms
    )
    return ("null" if is_null else "false"), ""


def projection_error(shape: Shape, frame: Frame) -> str:
    for projected in shape.projection:
        result = evaluated_expression(projected.expression, frame)
        if result.errors is not None and result.errors[0]:
            return frame.failure(int(result.errors[0])).message
    return ""


def _columns(clause: Clause) -> list[str]:
    nodes = (node for atom in clause.atoms for node in atom.condition.walk())
    return list(dict.fromkeys(node.name for node in nodes if isinstance(node, Column)))


def _distance(clause: Clause, frame: Frame) -> npt.NDArray[np.float64]:
    """How far each row is from satisfying the clause: 0 at the constant, 1 where no distance is known."""
    return (
        np.min([_atom_distance(atom, frame) for atom in clause.atoms], axis=0)
        if clause.atoms
        else np.ones(frame.n_rows)
    )


def _atom_distance(atom: Atom, frame: Frame) -> npt.NDArray[np.float64]:
    far = np.ones(frame.n_rows)
    if atom.kind is not AtomKind.COMPARE or atom.attribute is None or atom.constant is None:
        return far
    value, constant = _numbers(atom.attribute, frame), _numbers(atom.constant, frame)
    if value is None or constant is None:
        return far
    scale = np.maximum(np.abs(constant), 1e-9)
    with np.errstate(invalid="ignore", over="ignore"):
        relative = np.abs(value - constant) / scale
    return np.where(np.isfinite(relative), relative / (1 + relative), far)


def _numbers(expression: Expression, frame: Frame) -> npt.NDArray[np.float64] | None:
    values = frame.array(evaluated_expression(expression, frame))
    t = values.type
    if not (
        pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t) or pa.types.is_temporal(t)
    ):
        return None
    if pa.types.is_decimal(t):
        return np.array([math.nan if v is None else float(v) for v in values.to_pylist()])
    if pa.types.is_temporal(t):  # as days or microseconds: Python's own end at the year 9999
        values = values.cast(pa.int32() if pa.types.is_date(t) else pa.int64())
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    if pa.types.is_date(t):
        numbers += _DAYS_BEFORE_1970
    return np.where(values.is_null().to_numpy(zero_copy_only=False), np.nan, numbers)


_DAYS_BEFORE_1970 = datetime.date(1970, 1, 1).toordinal()
