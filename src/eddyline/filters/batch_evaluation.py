"""Evaluation over one batch: each distinct expression at most once per row, for all queries.

An expression without constants of a query is computed per row and remembered, on all rows or only on those a query still asks
about. One with constants is computed over (row, query) pairs; calls of users' functions inside it are still made once per row and
constants of their own. The result of a call is remembered wherever it occurs, also in a branch that only some rows take. A
function that is not deterministic is called for every pair by itself, once for each place in the text.

An attribute of the predicate index is computed on all rows, once, and turned into keys. If a fault of ours in its expression
breaks the batch, the rows at fault are found by halving; they are in error, the others have their values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import Positions, TupleBatch
from eddyline.expressions import (
    FUNCTIONS,
    Alike,
    CallResult,
    Context,
    ErrorCodes,
    Evaluation,
    Failure,
    Frame,
    TakenArrays,
    as_mask,
    evaluate,
    literal_value,
)
from eddyline.filters.keys import Domain, KeyColumn
from eddyline.filters.recorded_calls import RecordedCalls
from eddyline.model import Call, Column, Expression, Literal, Segment, Slot, UserCall
from eddyline.nesting import SHALLOW, deep_recursion

PAIRS_AT_ONCE = 1 << 18  # bounds the memory of a pair frame
_NO_ROWS = np.empty(0, np.int64)
_NO_SEGMENT: Any = None  # nothing is asked of the segment of an expression without constants
FEW_COMBINATIONS = 16  # of constants of a call, up to which it is made for each of them apart


@dataclass(slots=True)
class _KnownValues:
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
    _known_values: dict[Expression, _KnownValues] = field(default_factory=dict)
    _whole: Frame | None = None
    _columns: dict[tuple[str, str], pa.Array] | None = None
    _keys: dict[tuple[Expression | str, int], tuple[KeyColumn, ErrorCodes | None]] = field(
        default_factory=dict
    )
    _attributes: dict[Expression, tuple[pa.Array, ErrorCodes | None]] = field(default_factory=dict)
    call_results: dict[UserCall, CallResult] = field(
        default_factory=dict
    )  # on all rows, as far as they were asked
    recorded_calls: RecordedCalls = field(default_factory=RecordedCalls)
    alike: Alike | None = None  # where several rows of the batch may give a call the same arguments

    def code(self, failure: Failure) -> int:
        """The number of this failure in this batch."""
        code = self._codes.get(failure)
        if code is None:
            self.failures.append(failure)
            code = self._codes[failure] = len(self.failures)
        return code

    def on_all_rows(self, expression: Expression) -> Evaluation:
        """The value on every row of the batch."""
        if self._whole is None:
            self._whole = self._frame(None, None, None, None)
        return evaluate(expression, self._whole)

    def keys(self, attribute: Expression, domain: Domain | None) -> tuple[KeyColumn, ErrorCodes | None]:
        """Keys of an attribute on all rows, and its errors; without a domain only where it is NULL."""
        what = attribute.name if isinstance(attribute, Column) else attribute  # a name is faster to look up
        which = what, -1 if domain is None else 0 if domain.is_direct else id(domain)
        found = self._keys.get(which)
        if found is None:
            found = self._keys[which] = self._keys_of(attribute, domain)
        return found

    def _keys_of(self, attribute: Expression, domain: Domain | None) -> tuple[KeyColumn, ErrorCodes | None]:
        errors: ErrorCodes | None = None
        if isinstance(attribute, Column):
            rows = self.batch.rows
            values = rows.column(rows.schema.get_field_index(attribute.name))
        else:
            values, errors = self._attribute(attribute)
        if domain is not None:
            return domain.keys(values), errors
        is_null = np.asarray(values.is_null().to_numpy(zero_copy_only=False)) if values.null_count else None
        return KeyColumn(np.zeros(len(values), np.int64), is_null), errors

    def errors_of(self, attribute: Expression) -> ErrorCodes | None:
        """Rows on which a computed attribute is in error, or None."""
        return self._attribute(attribute)[1]

    def rows_in_error(self) -> Positions:
        """Rows on which some computed attribute that was asked for is in error."""
        if not self._attributes:
            return _NO_ROWS
        wrong = [errors != 0 for _, errors in self._attributes.values() if errors is not None]
        return np.flatnonzero(np.logical_or.reduce(wrong)) if wrong else _NO_ROWS

    def _attribute(self, attribute: Expression) -> tuple[pa.Array, ErrorCodes | None]:
        found = self._attributes.get(attribute)
        if found is None:
            found = self._attributes[attribute] = self._computed_attribute(attribute)
        return found

    def _computed_attribute(self, attribute: Expression) -> tuple[pa.Array, ErrorCodes | None]:
        try:
            result = self.on_all_rows(attribute)
            values, errors = result.values, result.errors
            if isinstance(values, pa.Scalar):
                values = pa.repeat(values, len(self.batch))
        except Exception:  # a fault of ours must not stop the queries that do not use the attribute
            values, errors = self._without_faulty_rows(attribute, np.arange(len(self.batch)))
        return values, errors if errors is not None and errors.any() else None

    def _without_faulty_rows(self, expression: Expression, rows: Positions) -> tuple[pa.Array, ErrorCodes]:
        """Halve the rows until those the expression cannot take stand alone."""
        try:
            frame = self._frame(expression, rows, None, None)
            result = evaluate(expression, frame)
            errors = np.zeros(len(rows), np.int32) if result.errors is None else result.errors
            return frame.array(result), errors
        except Exception as error:
            if len(rows) == 1:
                return pa.nulls(1, expression.type), np.array([self.code(internal_failure(error))], np.int32)
        middle = len(rows) // 2
        halves = [self._without_faulty_rows(expression, half) for half in (rows[:middle], rows[middle:])]
        return pa.concat_arrays([values for values, _ in halves]), np.concatenate([e for _, e in halves])

    def on_rows(self, expression: Expression, rows: Positions) -> tuple[pa.Array, ErrorCodes | None]:
        """The value on these rows, computed only where it is not known yet."""
        if isinstance(expression, Column):
            return self.batch.rows.column(expression.name).take(pa.array(rows)), None
        known = self._known_values.get(expression)
        if known is None:
            known = self._known_values[expression] = _KnownValues(np.zeros(len(self.batch), dtype=bool))
        is_needed = np.zeros(len(self.batch), dtype=bool)
        is_needed[rows] = True
        missing = np.flatnonzero(is_needed & ~known.is_known)
        if len(missing):
            frame = self._frame(expression, missing, None, None)
            result = evaluate(expression, frame)
            self._keep_calls(frame, missing)
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
        facts = expression.facts
        calls = [n for n in expression.walk() if isinstance(n, UserCall)] if facts.has_user_calls else []
        unsteady = [call for call in calls if not call.is_deterministic]
        spread = None
        if not unsteady:
            if not facts.has_slots:
                return self.on_rows(expression, rows)
            if calls:
                slots = slots_of(expression)
                of_query = combinations(segment, slots)
                if isinstance(expression, UserCall):
                    used = np.unique(of_query[positions])
                    if len(used) <= FEW_COMBINATIONS:
                        return self._by_combination(expression, segment, slots, rows, of_query[positions])
                rows, positions, spread = _distinct(of_query, rows, positions)
        parts, codes = [], []
        for start in range(0, max(len(rows), 1), PAIRS_AT_ONCE):
            piece = slice(start, start + PAIRS_AT_ONCE)
            frame = self._frame(expression, rows[piece], segment, positions[piece])
            if unsteady:
                self.recorded_calls.fill(frame, unsteady, segment, rows[piece], positions[piece])
            result = evaluate(expression, frame)
            self._keep_calls(frame, rows[piece])
            if unsteady:
                self.recorded_calls.learn(frame, unsteady, segment, rows[piece], positions[piece])
            parts.append(frame.array(result))
            codes.append(np.zeros(frame.n_rows, np.int32) if result.errors is None else result.errors)
        values, errors = pa.concat_arrays(parts), np.concatenate(codes)
        if spread is not None:
            values, errors = values.take(pa.array(spread)), errors[spread]
        return values, errors if errors.any() else None

    def _by_combination(
        self, call: UserCall, segment: Segment, slots: list[int], rows: Positions, combination: Positions
    ) -> tuple[pa.Array, ErrorCodes | None]:
        """A call with its constants written into it depends on the row alone, so queries of all shapes share it."""
        every = combinations(segment, slots)
        places, parts = [np.empty(0, np.int64)], [pa.array([], call.type)]
        errors = np.zeros(len(rows), np.int32)
        for code in np.unique(combination):
            of_query = int(np.flatnonzero(every == code)[0])
            here = np.flatnonzero(combination == code)
            values, wrong = self.on_rows(with_constants(call, segment, of_query), rows[here])
            places.append(here)
            parts.append(values)
            if wrong is not None:
                errors[here] = wrong
        order = np.argsort(np.concatenate(places))
        return pa.concat_arrays(parts).take(pa.array(order)), errors if errors.any() else None

    def truth_on_pairs(
        self, condition: Expression, segment: Segment, rows: Positions, positions: Positions
    ) -> tuple[npt.NDArray[np.bool_], ErrorCodes | None]:
        """Where the condition is true, and where it is in error.

        A condition kept whole for its size still has AND and OR in it. They decide as clauses and atoms do: the least, or the
        greatest, in the order not true < error < true. A part is asked only about pairs that earlier ones left open.
        """
        if condition.facts.depth > SHALLOW:
            with deep_recursion():
                return self._truth(condition, segment, rows, positions)
        return self._truth(condition, segment, rows, positions)

    def _truth(
        self, condition: Expression, segment: Segment, rows: Positions, positions: Positions
    ) -> tuple[npt.NDArray[np.bool_], ErrorCodes | None]:
        if not isinstance(condition, Call) or condition.function not in ("and", "or"):
            values, wrong = self.on_pairs(condition, segment, rows, positions)
            return as_mask(values, len(rows)), wrong
        is_or = condition.function == "or"
        true = np.full(len(rows), not is_or)
        errors = np.zeros(len(rows), np.int32)
        for part in condition.arguments:
            open_ = np.flatnonzero(~true if is_or else true | (errors != 0))
            hit, wrong = self._truth(part, segment, rows[open_], positions[open_])
            first = errors[open_] if wrong is None else np.where(errors[open_] != 0, errors[open_], wrong)
            if is_or:
                true[open_] = hit
                errors[open_] = np.where(hit, 0, first)
            else:
                true[open_] &= hit
                errors[open_] = np.where(hit if wrong is None else hit | (wrong != 0), first, 0)
        return true, errors if errors.any() else None

    def truth_on_rows(
        self, conditions: Sequence[Expression], rows: Positions
    ) -> tuple[npt.NDArray[np.bool_], ErrorCodes | None]:
        """Where one of the conditions is true, and where none is and one is in error. They hold no constants of a query.

        A fault of ours in a condition puts the rows at fault in error, and only those.
        """
        true = np.zeros(len(rows), dtype=bool)
        errors = np.zeros(len(rows), np.int32)
        for condition in conditions:
            open_ = np.flatnonzero(~true)
            if not len(open_):
                break
            hit, wrong = self._careful_truth(condition, rows[open_])
            if wrong is not None:
                errors[open_] = np.where(errors[open_] != 0, errors[open_], wrong)
            true[open_] = hit
        errors[true] = 0
        return true, errors if errors.any() else None

    def _careful_truth(
        self, condition: Expression, rows: Positions
    ) -> tuple[npt.NDArray[np.bool_], ErrorCodes | None]:
        try:
            return self.truth_on_pairs(condition, _NO_SEGMENT, rows, rows)
        except Exception:
            values, errors = self._without_faulty_rows(condition, rows)
            return as_mask(values, len(rows)), errors if errors.any() else None

    def _frame(
        self,
        expression: Expression | None,
        rows: Positions | None,
        segment: Segment | None,
        positions: Positions | None,
    ) -> Frame:
        """A frame over these rows (None: all) for an expression (None: any without calls of users' functions)."""
        if self._columns is None:
            names, columns = self.batch.rows.schema.names, self.batch.rows.columns
            self._columns = {("", name): column for name, column in zip(names, columns, strict=True)}
        frame = Frame(
            len(self.batch) if rows is None else len(rows),
            self._columns if rows is None else TakenArrays(self._columns, rows),
            () if segment is None or positions is None else TakenArrays(segment.slots, positions),
            self.context,
            self.failures,
            {},
            self._codes,
        )
        if expression is not None and rows is not None and expression.facts.has_user_calls:
            for call in _shared_calls(expression):
                if segment is not None and positions is not None:
                    values, errors = self.on_pairs(call, segment, rows, positions)
                else:
                    values, errors = self.on_rows(call, rows)
                frame.computed_values[call] = Evaluation(
                    values, errors if errors is not None and errors.any() else None
                )
            if segment is not None and positions is not None:
                frame.alike = _Alike(segment, rows, positions)
            elif self.alike is not None:
                frame.alike = _AlikeRows(self.alike, rows)
            frame.call_results |= {
                call: self.call_results[call].take(rows)
                for call in expression.walk()
                if isinstance(call, UserCall) and call in self.call_results
            }
        return frame

    def _keep_calls(self, frame: Frame, rows: Positions) -> None:
        """Remember the results of functions on these rows, wherever in an expression they occur: none gets a row twice."""
        for call, called in frame.call_results.items():
            new = np.flatnonzero(called.rows)
            before = self.call_results.get(call)
            if before is not None:
                new = new[~before.rows[rows[new]]]
            if not len(new) or not _is_of_the_row(call):
                continue
            n = len(self.batch)
            if before is None:
                before = CallResult(np.zeros(n, bool), pa.nulls(n, call.type), np.zeros(n, np.int32))
            is_known, errors, places = before.rows.copy(), before.errors.copy(), np.arange(n)
            is_known[rows[new]], errors[rows[new]] = True, called.errors[new]
            places[rows[new]] = n + np.arange(len(new))
            together = pa.concat_arrays([before.values, called.values.take(pa.array(new))])
            found = CallResult(is_known, together.take(pa.array(places)), errors)
            self.call_results[call] = found if self.alike is None else found.wherever_alike(self.alike(call))


@dataclass(frozen=True, slots=True)
class _Alike:
    """Numbers for (row, query) pairs, equal where a call gives the same: it may have fewer constants than its expression."""

    segment: Segment
    rows: Positions
    positions: Positions

    def __call__(self, call: UserCall) -> Positions:
        if not _is_steady(call):
            return np.arange(len(self.rows))
        if not call.facts.has_slots:
            return self.rows
        of_query = combinations(self.segment, slots_of(call))
        return self.rows * (int(of_query.max()) + 1) + of_query[self.positions]


@dataclass(frozen=True, slots=True)
class _AlikeRows:
    """Numbers for rows, equal where a call gives the same, given those of the whole batch."""

    alike: Alike
    rows: Positions

    def __call__(self, call: UserCall) -> Positions:
        return self.alike(call)[self.rows] if _is_steady(call) else np.arange(len(self.rows))


def _is_steady(call: UserCall) -> bool:
    """Whether a call gives the same for the same arguments."""
    return all(node.is_deterministic for node in call.walk() if isinstance(node, UserCall))


def _is_of_the_row(call: UserCall) -> bool:
    """Whether a call gives the same for all queries."""
    return not call.facts.has_slots and _is_steady(call)


def slots_of(expression: Expression) -> list[int]:
    """The slots in an expression, ascending."""
    return sorted({node.index for node in expression.walk() if isinstance(node, Slot)})


def internal_failure(error: Exception) -> Failure:
    """What a dead letter says of a fault of ours."""
    error_text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Failure("INTERNAL_ERROR", f"eddyline could not decide this row: {error_text}")


def _shared_calls(expression: Expression) -> Iterator[UserCall]:
    """Calls inside the expression that are made on every row of it and give the same for the same arguments."""
    if isinstance(expression, Call) and FUNCTIONS[expression.function].lazy is not None:
        return  # some rows may never ask
    for child in expression.children:
        if isinstance(child, UserCall) and _is_steady(child):
            yield child
        elif child.facts.has_user_calls:
            yield from _shared_calls(child)


def with_constants(expression: Expression, segment: Segment, position: int) -> Expression:
    """The expression with the constants of one query written into it."""

    def constant(leaf: Expression) -> Expression:
        if not isinstance(leaf, Slot):
            return leaf
        return Literal(leaf.type, literal_value(segment.slots[leaf.index][position]))

    return expression.with_leaves(constant)


def _learn(
    known_values: _KnownValues, rows: Positions, values: pa.Array, errors: ErrorCodes | None, n_rows: int
) -> None:
    """Add values for `rows` to what is known."""
    if known_values.values is None:
        places = np.full(n_rows, -1, dtype=np.int64)
        places[rows] = np.arange(len(rows))
        known_values.values = values.take(pa.array(places, mask=places < 0))
    else:
        places = np.arange(n_rows)
        places[rows] = n_rows + np.arange(len(rows))
        known_values.values = pa.concat_arrays([known_values.values, values]).take(pa.array(places))
    if errors is not None:
        if known_values.errors is None:
            known_values.errors = np.zeros(n_rows, np.int32)
        known_values.errors[rows] = errors
    known_values.is_known[rows] = True


def combinations(segment: Segment, slots: list[int]) -> Positions:
    """For each query of the segment a number, equal where the values of these slots are equal."""
    codes = segment.cache.get(f"constants {slots}")
    if codes is None:
        codes = np.zeros(len(segment), dtype=np.int64)
        for index in slots:
            column = segment.slots[index]
            if pa.types.is_nested(column.type):
                column = pa.array([repr(value) for value in column.to_pylist()])
            encoded = column.dictionary_encode(null_encoding="encode")
            indices = encoded.indices.to_numpy(zero_copy_only=False)
            combined = codes * max(len(encoded.dictionary), 1) + indices
            codes = np.unique(combined, return_inverse=True)[1].astype(np.int64)
        segment.cache[f"constants {slots}"] = codes
    assert isinstance(codes, np.ndarray)
    return codes


def _distinct(
    of_query: Positions, rows: Positions, positions: Positions
) -> tuple[Positions, Positions, Positions]:
    """Pairs that differ in row or constants, and for each given pair which of them it is."""
    width = int(of_query.max()) + 1 if len(of_query) else 1
    _, first, spread = np.unique(rows * width + of_query[positions], return_index=True, return_inverse=True)
    return rows[first], positions[first], spread
