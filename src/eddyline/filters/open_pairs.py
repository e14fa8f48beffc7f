"""Pairs the index leaves open: residual conditions and functions on them, and the result rows that have to be computed.

A pair is settled by the least of its clauses in the order not true < error < true, a clause by the greatest of its atoms.
So false beats error, true beats error inside an OR, and the answer does not depend on the order in which clauses are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import PartMatches, Positions, QueryIds, TupleBatch
from eddyline.errors import IndexBuildError
from eddyline.expressions import Context, ErrorCodes, Failure
from eddyline.filters.batch_evaluation import BatchEvaluation, internal_failure
from eddyline.filters.boxes import is_computed
from eddyline.filters.filter_pool import FilterPool
from eddyline.filters.grouped_filters import GroupedClause, GroupedFilter, grouped_filter
from eddyline.filters.matching import DeadPairs, no_dead_pairs
from eddyline.model import AtomKind, Clause, Column, Expression, Literal, Segment, Slot


@dataclass(slots=True)
class OpenPairs:
    """Pairs of one segment that are not refuted so far, and the first error of each (0: none)."""

    segment: Segment
    rows: Positions
    positions: Positions
    errors: npt.NDArray[np.int32]

    @classmethod
    def of(cls, segment: Segment, rows: Positions, positions: Positions) -> OpenPairs:
        return cls(segment, rows, positions, np.zeros(len(rows), np.int32))

    def __len__(self) -> int:
        return len(self.rows)

    def keep(self, mask: npt.NDArray[np.bool_]) -> OpenPairs:
        return OpenPairs(self.segment, self.rows[mask], self.positions[mask], self.errors[mask])

    def apply(self, true: npt.NDArray[np.bool_], errors: ErrorCodes | None) -> OpenPairs:
        """What a clause leaves: pairs where it is true or in error."""
        if errors is None:
            return self.keep(true)
        first = np.where(self.errors != 0, self.errors, np.where(true, 0, errors)).astype(np.int32)
        return replace(self, errors=first).keep(true | (errors != 0))


class DeadPairBuilder:
    """Collects pairs in error."""

    def __init__(self) -> None:
        self.n = 0
        self._rows: list[Positions] = []
        self._ids: list[QueryIds] = []
        self._failures: list[Failure] = []

    def add(
        self, rows: Positions, ids: QueryIds, codes: npt.NDArray[np.int32], failures: list[Failure]
    ) -> None:
        """Pairs whose errors are `codes`, counted from 1 in `failures`."""
        self.n += len(rows)
        self._rows.append(rows)
        self._ids.append(ids)
        self._failures += [failures[code - 1] for code in codes.tolist()]

    def extend(self, other: DeadPairBuilder) -> None:
        self.n += other.n
        self._rows += other._rows
        self._ids += other._ids
        self._failures += other._failures

    def at(self, rows: Positions) -> DeadPairBuilder:
        """The same pairs where row k of a smaller batch is row `rows[k]`."""
        self._rows = [rows[part] for part in self._rows]
        return self

    def pairs(self) -> DeadPairs:
        if not self.n:
            return no_dead_pairs()
        return DeadPairs(np.concatenate(self._rows), np.concatenate(self._ids), tuple(self._failures))


@dataclass(slots=True)
class DecidedPairs:
    """What became of open pairs."""

    parts: list[PartMatches]
    dead_pairs: DeadPairBuilder
    n_waiting: int = 0  # pairs that residual conditions and functions were asked about

    def extend(self, other: DecidedPairs) -> None:
        self.parts += other.parts
        self.dead_pairs.extend(other.dead_pairs)
        self.n_waiting += other.n_waiting


def opened_pairs(
    pairs: OpenPairs, evaluation: BatchEvaluation, pool: FilterPool, *, serves_planes: bool, is_strict: bool
) -> tuple[OpenPairs | None, DecidedPairs]:
    """What is left of pairs whose boxes hold, and also their planes if the structure serves those, for the filters of the pool.

    None: everything is decided already, because a fault of ours in an expression left it to `decide`.
    """
    try:
        found = DecidedPairs([], DeadPairBuilder())
        grouped = grouped_filter(pairs.segment, evaluation.context)
        pairs = _with_constant_errors(pairs, grouped, evaluation)
        if not serves_planes:
            for clause in _planes(
                grouped.grouped_clauses
            ):  # pairs in error there are found by `decide_in_error`
                true, _ = clause.on_pairs(evaluation, pairs.rows, pairs.positions)
                pairs = pairs.keep(true)
        if is_strict:
            return _in_text_order(pairs, grouped, evaluation, found), found
        return _after(pool.of(pairs.segment).alone, pairs, evaluation, found), found
    except IndexBuildError:
        raise
    except Exception:
        return None, decide(pairs, evaluation, serves_planes=serves_planes)


def closed_pairs(
    pairs: OpenPairs, evaluation: BatchEvaluation, pool: FilterPool, *, is_strict: bool
) -> DecidedPairs:
    """Settle pairs that all filters of the pool have let through."""
    try:
        found = DecidedPairs([], DeadPairBuilder())
        rest = pairs if is_strict else _after(pool.of(pairs.segment).last, pairs, evaluation, found)
        if len(rest):
            part = _project(rest, evaluation, found.dead_pairs)
            if len(part):
                found.parts.append(part)
        return found
    except IndexBuildError:
        raise
    except Exception:
        return decide(
            OpenPairs.of(pairs.segment, pairs.rows, pairs.positions), evaluation, serves_planes=False
        )


def decide(pairs: OpenPairs, evaluation: BatchEvaluation, *, serves_planes: bool) -> DecidedPairs:
    """Settle pairs without sharing anything, so that a fault of ours in one expression does not stop the other queries: the rows
    at fault become dead letters."""
    rows, row_of = np.unique(pairs.rows, return_inverse=True)
    own = OpenPairs.of(pairs.segment, row_of, pairs.positions)
    return _without_faulty_rows(own, evaluation.batch, rows, evaluation.context, serves_planes)


def decide_in_error(pairs: OpenPairs, evaluation: BatchEvaluation, *, is_strict: bool) -> DecidedPairs:
    """Settle pairs of rows on which a computed attribute is in error: which of them no condition refutes.

    Pairs that match are found elsewhere; here only the dead are. In the order of the text no condition that waits is asked
    behind one in error.
    """
    found = DecidedPairs([], DeadPairBuilder())
    grouped = grouped_filter(pairs.segment, evaluation.context)
    for clause in grouped.grouped_clauses:
        pairs = pairs.apply(*clause.on_pairs(evaluation, pairs.rows, pairs.positions))
    is_wrong = pairs.errors != 0
    for clause in grouped.bounded_clauses:
        (atom,) = clause.atoms
        assert atom.atom.attribute is not None
        if is_computed(atom):
            wrong = evaluation.errors_of(atom.atom.attribute)
            is_wrong = is_wrong if wrong is None else is_wrong | (wrong[pairs.rows] != 0)
    pairs = pairs.keep(is_wrong)
    if is_strict:
        fresh = OpenPairs.of(pairs.segment, pairs.rows, pairs.positions)
        pairs = _with_constant_errors(fresh, grouped, evaluation)
        pairs = _in_text_order(pairs, grouped, evaluation, found, with_grouped=True)
    else:
        constant = _with_constant_errors(pairs, grouped, evaluation).errors
        pairs = replace(pairs, errors=np.where(constant != 0, constant, pairs.errors))
        pairs = _after(grouped.residual_clauses, pairs, evaluation, found)
    _bury(pairs, evaluation, found)
    return found


def _decide(pairs: OpenPairs, evaluation: BatchEvaluation, serves_planes: bool) -> DecidedPairs:
    grouped = grouped_filter(pairs.segment, evaluation.context)
    pairs = _with_constant_errors(pairs, grouped, evaluation)
    found = DecidedPairs([], DeadPairBuilder())
    if not serves_planes:
        for clause in _planes(grouped.grouped_clauses):  # pairs in error there are found by `decide_in_error`
            true, _ = clause.on_pairs(evaluation, pairs.rows, pairs.positions)
            pairs = pairs.keep(true)
    pairs = _after(grouped.residual_clauses, pairs, evaluation, found)
    if len(pairs):
        part = _project(pairs, evaluation, found.dead_pairs)
        if len(part):
            found.parts.append(part)
    return found


def _without_faulty_rows(
    pairs: OpenPairs, batch: TupleBatch, rows: Positions, context: Context, serves_planes: bool
) -> DecidedPairs:
    """Halve the rows until those an expression cannot take stand alone. `pairs.rows` are places in `rows`."""
    try:
        found = _decide(pairs, BatchEvaluation(batch.take(rows), context), serves_planes)
        parts = [replace(part, batch=batch, rows=rows[part.rows]) for part in found.parts]
        return DecidedPairs(parts, found.dead_pairs.at(rows), found.n_waiting)
    except IndexBuildError:
        raise
    except Exception as error:
        if len(rows) == 1:
            lost = DeadPairBuilder()
            ids = pairs.segment.ids[pairs.positions]
            lost.add(np.repeat(rows, len(ids)), ids, np.ones(len(ids), np.int32), [internal_failure(error)])
            return DecidedPairs([], lost)
    middle = len(rows) // 2
    is_low = pairs.rows < middle
    low, high = pairs.keep(is_low), pairs.keep(~is_low)
    high = replace(high, rows=high.rows - middle)
    found = _without_faulty_rows(low, batch, rows[:middle], context, serves_planes)
    found.extend(_without_faulty_rows(high, batch, rows[middle:], context, serves_planes))
    return found


def _planes(clauses: Iterable[GroupedClause]) -> Iterator[GroupedClause]:
    """Clauses that are not one interval of one attribute."""
    for clause in clauses:
        single = clause.single
        if single is None or single.atom.kind is AtomKind.IN or single.atom.operator in ("!=", "is null"):
            yield clause


def _with_constant_errors(pairs: OpenPairs, grouped: GroupedFilter, evaluation: BatchEvaluation) -> OpenPairs:
    """Pairs of queries with a condition on constants alone that is in error start with that error."""
    if grouped.constant_errors is None:
        return pairs
    here = np.array([0, *(evaluation.code(failure) for failure in grouped.failures)], np.int32)
    return replace(pairs, errors=here[grouped.constant_errors[pairs.positions]])


def _after(
    clauses: Iterable[Clause], pairs: OpenPairs, evaluation: BatchEvaluation, decided: DecidedPairs
) -> OpenPairs:
    """Pairs that clauses leave, one after the other."""
    for clause in clauses:
        if not len(pairs):
            break
        decided.n_waiting += len(pairs)
        pairs = pairs.apply(*_waiting_clause(clause, pairs, evaluation))
    return pairs


def _in_text_order(
    pairs: OpenPairs,
    grouped: GroupedFilter,
    evaluation: BatchEvaluation,
    decided: DecidedPairs,
    *,
    with_grouped: bool = False,
) -> OpenPairs:
    """The same with clauses in the order of the text. An error ends a pair: no later clause is evaluated on it.

    Grouped clauses hold on the pairs, unless some may be in error.
    """
    waiting = set(grouped.residual_clauses)
    by_clause = {each.clause: each for each in grouped.grouped_clauses} if with_grouped else {}
    pairs = _bury(pairs, evaluation, decided)
    for clause in pairs.segment.shape.condition.clauses:
        if clause in waiting:
            pairs = _after([clause], pairs, evaluation, decided)
        elif clause in by_clause:
            pairs = pairs.apply(*by_clause[clause].on_pairs(evaluation, pairs.rows, pairs.positions))
        pairs = _bury(pairs, evaluation, decided)
    return pairs


def _bury(pairs: OpenPairs, evaluation: BatchEvaluation, decided: DecidedPairs) -> OpenPairs:
    """Pairs in error go to the dead; gives the others."""
    wrong = pairs.errors != 0
    if not wrong.any():
        return pairs
    dead = pairs.keep(wrong)
    decided.dead_pairs.add(dead.rows, dead.segment.ids[dead.positions], dead.errors, evaluation.failures)
    return pairs.keep(~wrong)


def _waiting_clause(
    clause: Clause, pairs: OpenPairs, evaluation: BatchEvaluation
) -> tuple[npt.NDArray[np.bool_], ErrorCodes | None]:
    """A clause with residual conditions or functions; an atom is asked only about pairs no earlier one made true."""
    true = np.zeros(len(pairs), dtype=bool)
    errors = np.zeros(len(pairs), np.int32)
    for atom in clause.atoms:
        open_ = np.flatnonzero(~true)
        hit, wrong = evaluation.truth_on_pairs(
            atom.condition, pairs.segment, pairs.rows[open_], pairs.positions[open_]
        )
        if wrong is not None:
            errors[open_] = np.where(errors[open_] != 0, errors[open_], wrong)
        true[open_] = hit
    errors[true] = 0
    return true, errors if errors.any() else None


def _project(pairs: OpenPairs, evaluation: BatchEvaluation, dead_pairs: DeadPairBuilder) -> PartMatches:
    """Matches with the expressions they project, and what is recorded of them; pairs in error go to the dead."""
    segment, errors = pairs.segment, pairs.errors
    computed: dict[Expression, pa.Array] = {}
    for projected in segment.shape.projection:
        expression = projected.expression
        if not isinstance(expression, (Column, Slot, Literal)) and expression not in computed:
            fine = np.flatnonzero(errors == 0)
            values, wrong = evaluation.on_pairs(expression, segment, pairs.rows[fine], pairs.positions[fine])
            places = np.full(len(errors), -1, dtype=np.int64)
            places[fine] = np.arange(len(fine))
            computed[expression] = values.take(pa.array(places, mask=places < 0))
            if wrong is not None:
                errors = errors.copy()
                errors[fine] = wrong
    if errors.any():
        bad = errors != 0
        dead_pairs.add(pairs.rows[bad], segment.ids[pairs.positions[bad]], errors[bad], evaluation.failures)
        fine = np.flatnonzero(~bad)
        computed = {expression: values.take(pa.array(fine)) for expression, values in computed.items()}
        pairs = pairs.keep(~bad)
    for call in segment.recorded_calls:
        computed[call] = evaluation.recorded_calls.values(call, segment, pairs.rows, pairs.positions)
    return PartMatches(evaluation.batch, segment, pairs.rows, pairs.positions, computed)
