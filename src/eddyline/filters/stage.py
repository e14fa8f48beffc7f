"""The filter stage: rows in, matching (row, query) pairs out.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: one tuple
serves all queries and carries which of them it still concerns; here a batch does.

Per segment of queries of one shape:
  1. candidates: by key where a clause is one equality or IN, else all rows against blocks of queries;
  2. the other grouped clauses on what is left;
  3. residual conditions and functions, only on pairs still undecided, each distinct expression once per row;
  4. projected expressions of the pairs that match.

A pair is settled by the least of its clauses in the order not true < error < true, a clause by the greatest of its atoms.
So false beats error, true beats error inside an OR, and the answer does not depend on the order in which clauses are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import PartMatches, Positions, TupleBatch
from eddyline.expressions import Context, Failure
from eddyline.expressions.frame import ErrorCodes, merge_errors
from eddyline.filters.grouped import GroupedClause, GroupedFilter, attribute_keys, candidates, grouped_filter
from eddyline.filters.keys import KeyColumn
from eddyline.filters.matching import DeadPairs, FilterOutput
from eddyline.filters.shared import BatchEvaluation
from eddyline.model import Clause, Column, Expression, Literal, Round, Segment, Slot, StreamPlan

CELLS_AT_ONCE = 1 << 22  # rows x queries of a dense block
DENSE_SHARE = 1 / 8  # from this share of all pairs on, a key that names candidates does not pay

_KeysOf = dict[int, tuple[KeyColumn, ErrorCodes | None]]


@dataclass(slots=True)
class Counters:
    """Work done, for explain and benchmarks."""

    n_rows: int = 0
    n_candidates: int = 0
    n_waiting_pairs: int = 0
    n_matches: int = 0
    n_dead: int = 0


@dataclass(slots=True)
class _Pairs:
    """Pairs not refuted so far, and the first error of each (0: none)."""

    rows: Positions
    positions: Positions
    errors: npt.NDArray[np.int32]

    def keep(self, mask: npt.NDArray[np.bool_]) -> _Pairs:
        return _Pairs(self.rows[mask], self.positions[mask], self.errors[mask])


class FilterStage:
    """The filters of one stream."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._plan: StreamPlan | None = None
        self.counters = Counters()

    def build(self, plan: StreamPlan) -> None:
        self._plan = plan

    def push(self, batch: TupleBatch, round_: Round) -> FilterOutput:
        assert self._plan is not None, f"no plan for stream {batch.stream}"
        context = Context(round_.now_us, self._context.time_zone, self._context.call_function)
        evaluation = BatchEvaluation(batch, context)
        parts: list[PartMatches] = []
        dead = _Dead()
        self.counters.n_rows += len(batch)
        for segment in self._plan.segments:
            if len(batch) and len(segment):
                try:
                    found, lost = self._matches(segment, evaluation)
                except Exception:  # a fault of ours in one expression must not stop the other queries
                    found, lost = self._without_faulty_rows(segment, batch, context, np.arange(len(batch)))
                parts += found
                dead.extend(lost)
        self.counters.n_matches += sum(len(part) for part in parts)
        self.counters.n_dead += dead.n
        return FilterOutput(batch, tuple(parts), dead.pairs())

    def _matches(self, segment: Segment, evaluation: BatchEvaluation) -> tuple[list[PartMatches], _Dead]:
        dead = _Dead()
        parts = [
            self._project(segment, pairs, evaluation, dead) for pairs in self._undecided(segment, evaluation)
        ]
        return [part for part in parts if len(part)], dead

    def _without_faulty_rows(
        self, segment: Segment, batch: TupleBatch, context: Context, rows: Positions
    ) -> tuple[list[PartMatches], _Dead]:
        """Halve the rows until those an expression cannot take stand alone; they are dead letters of the segment's queries."""
        try:
            found, lost = self._matches(segment, BatchEvaluation(batch.take(rows), context))
            return [replace(part, batch=batch, rows=rows[part.rows]) for part in found], lost.at(rows)
        except Exception as error:
            if len(rows) > 1:
                middle = len(rows) // 2
                found, lost = self._without_faulty_rows(segment, batch, context, rows[:middle])
                more, also_lost = self._without_faulty_rows(segment, batch, context, rows[middle:])
                lost.extend(also_lost)
                return found + more, lost
            lost = _Dead()
            ids = segment.ids[segment.is_live]
            failure = Failure(
                "INTERNAL_ERROR", f"eddyline could not decide this row: {type(error).__name__}: {error}"
            )
            lost.add(np.repeat(rows, len(ids)), ids, np.ones(len(ids), np.int32), [failure])
            return [], lost

    def snapshot(self) -> dict[str, Any]:
        counters = {name: getattr(self.counters, name) for name in Counters.__slots__}
        segments = [] if self._plan is None else [len(segment) for segment in self._plan.segments]
        return {
            "version": None if self._plan is None else self._plan.version,
            "segments": segments,
            **counters,
        }

    def check(self) -> None:
        for segment in self._plan.segments if self._plan else ():
            assert (np.diff(segment.ids) > 0).all(), (
                f"ids of a segment of {segment.shape.key!r} are not ascending"
            )
            assert all(len(column) == len(segment) for column in segment.slots), (
                "constants and ids differ in length"
            )

    def save(self) -> Sequence[bytes]:
        """Filters keep nothing from round to round."""
        return ()

    def load(self, blocks: Sequence[bytes]) -> None:
        assert not blocks, f"{len(blocks)} blocks of state for filters, which have none"

    # ----------------------------------------------------------------------------------------- pairs

    def _undecided(self, segment: Segment, evaluation: BatchEvaluation) -> Iterator[_Pairs]:
        """Pairs that no condition refutes, in pieces of bounded size."""
        grouped = grouped_filter(segment, evaluation.context)
        standing = np.flatnonzero(segment.is_live & grouped.is_open)
        if not len(standing):
            return
        keys = attribute_keys(grouped, evaluation)
        for pairs in self._candidates(grouped, segment, standing, keys, len(evaluation.batch)):
            self.counters.n_candidates += len(pairs.rows)
            if grouped.constant_errors is not None:
                codes = self._translate(grouped.constant_errors, grouped, evaluation)
                pairs.errors = np.where(pairs.errors != 0, pairs.errors, codes[pairs.positions])
            for clause in grouped.waiting:
                if not len(pairs.rows):
                    break
                self.counters.n_waiting_pairs += len(pairs.rows)
                true, errors = _waiting_clause(clause, segment, pairs, evaluation)
                pairs = _apply(pairs, true, errors)
            if len(pairs.rows):
                yield pairs

    def _candidates(
        self, grouped: GroupedFilter, segment: Segment, standing: Positions, keys: _KeysOf, n_rows: int
    ) -> Iterator[_Pairs]:
        """Pairs that satisfy all grouped clauses, or are in error there."""
        access = _access_path(grouped, keys, n_rows, len(standing))
        if access is None:
            width = max(64, CELLS_AT_ONCE // n_rows)
            for start in range(0, len(standing), width):
                yield _dense_block(grouped.grouped, keys, n_rows, standing[start : start + width])
            return
        clause, starts, lengths = access
        members = clause.atoms[0].members
        assert members is not None
        others = [other for other in grouped.grouped if other is not clause]
        ends = np.cumsum(lengths)
        row = 0
        while row < n_rows:  # as many rows at a time as bring a bounded number of pairs
            before = int(ends[row - 1]) if row else 0
            stop = max(row + 1, int(np.searchsorted(ends, before + CELLS_AT_ONCE, side="right")))
            n_pairs = lengths[row:stop]
            rows = np.repeat(np.arange(row, stop), n_pairs)
            first = np.repeat(starts[row:stop] - (np.cumsum(n_pairs) - n_pairs), n_pairs)
            positions = members.queries[first + np.arange(len(rows))]
            alive = segment.is_live[positions] & grouped.is_open[positions]
            pairs = _Pairs(rows[alive], positions[alive], np.zeros(int(alive.sum()), np.int32))
            for other in others:
                pairs = _apply(pairs, *_grouped_on_pairs(other, keys, pairs))
            yield pairs
            row = stop

    def _translate(
        self, codes: ErrorCodes, grouped: GroupedFilter, evaluation: BatchEvaluation
    ) -> npt.NDArray[np.int32]:
        """Errors of constants, numbered as in this batch."""
        renamed = [0, *(evaluation.code(failure) for failure in grouped.failures)]
        return np.array(renamed, dtype=np.int32)[codes]

    def _project(
        self, segment: Segment, pairs: _Pairs, evaluation: BatchEvaluation, dead: _Dead
    ) -> PartMatches:
        """Matches with the expressions they project; pairs in error go to the dead."""
        errors = pairs.errors
        computed: dict[Expression, pa.Array] = {}
        for projected in segment.shape.projection:
            expression = projected.expression
            if not isinstance(expression, (Column, Slot, Literal)) and expression not in computed:
                fine = np.flatnonzero(errors == 0)
                values, wrong = evaluation.on_pairs(
                    expression, segment, pairs.rows[fine], pairs.positions[fine]
                )
                places = np.full(len(errors), -1, dtype=np.int64)
                places[fine] = np.arange(len(fine))
                computed[expression] = values.take(pa.array(places, mask=places < 0))
                if wrong is not None:
                    errors = errors.copy()
                    errors[fine] = wrong
        if errors.any():
            bad = errors != 0
            dead.add(pairs.rows[bad], segment.ids[pairs.positions[bad]], errors[bad], evaluation.failures)
            fine = np.flatnonzero(~bad)
            computed = {expression: values.take(pa.array(fine)) for expression, values in computed.items()}
            pairs = pairs.keep(~bad)
        return PartMatches(evaluation.batch, segment, pairs.rows, pairs.positions, computed)


class _Dead:
    """Collects pairs in error."""

    def __init__(self) -> None:
        self.n = 0
        self._rows: list[Positions] = []
        self._ids: list[npt.NDArray[np.int32]] = []
        self._failures: list[Failure] = []

    def add(
        self,
        rows: Positions,
        ids: npt.NDArray[np.int32],
        codes: npt.NDArray[np.int32],
        failures: list[Failure],
    ) -> None:
        self.n += len(rows)
        self._rows.append(rows)
        self._ids.append(ids)
        self._failures += [failures[code - 1] for code in codes]

    def extend(self, other: _Dead) -> None:
        self.n += other.n
        self._rows += other._rows
        self._ids += other._ids
        self._failures += other._failures

    def at(self, rows: Positions) -> _Dead:
        """The same pairs where row k of a smaller batch is row `rows[k]`."""
        self._rows = [rows[part] for part in self._rows]
        return self

    def pairs(self) -> DeadPairs:
        rows = np.concatenate(self._rows) if self._rows else np.empty(0, np.int64)
        ids = np.concatenate(self._ids) if self._ids else np.empty(0, np.int32)
        return DeadPairs(rows, ids, tuple(self._failures))


def _apply(pairs: _Pairs, true: npt.NDArray[np.bool_], errors: ErrorCodes | None) -> _Pairs:
    """What a clause leaves: pairs where it is true or in error."""
    if errors is None:
        return pairs.keep(true)
    pairs.errors = np.where(pairs.errors != 0, pairs.errors, np.where(true, 0, errors)).astype(np.int32)
    return pairs.keep(true | (errors != 0))


def _access_path(
    grouped: GroupedFilter, keys: _KeysOf, n_rows: int, n_queries: int
) -> tuple[GroupedClause, Positions, Positions] | None:
    """The clause that names fewest candidates, if that is few enough to pay."""
    best: tuple[GroupedClause, Positions, Positions] | None = None
    fewest = int(n_rows * n_queries * DENSE_SHARE) if n_rows * n_queries > 4096 else n_rows * n_queries
    for clause in grouped.grouped:
        if clause.is_access:
            atom = clause.atoms[0]
            values, errors = keys[id(atom)]
            if errors is None and atom.members is not None:
                starts, lengths = candidates(atom.members, values)
                if int(lengths.sum()) <= fewest:
                    best, fewest = (clause, starts, lengths), int(lengths.sum())
    return best


def _dense_block(
    clauses: Sequence[GroupedClause], keys: _KeysOf, n_rows: int, positions: Positions
) -> _Pairs:
    """All rows against some queries."""
    alive = np.ones((n_rows, len(positions)), dtype=bool)
    wrong = np.zeros(n_rows, np.int32)  # errors of attributes concern all queries of the segment alike
    for clause in clauses:
        true = np.zeros((n_rows, 1), dtype=bool)
        errors: ErrorCodes | None = None
        for atom in clause.atoms:
            values, row_errors = keys[id(atom)]
            hit = atom.on_block(values, n_rows, positions)
            if row_errors is not None:
                hit = hit & (row_errors == 0)[:, None]
                errors = merge_errors(errors, row_errors)
            true = true | hit
        if errors is None:
            alive &= true
        else:
            # a clause in error stays open; whether an error counts for a pair is decided below, where it is known to be alive
            alive &= true | (errors != 0)[:, None]
            wrong = np.where(wrong != 0, wrong, errors).astype(np.int32)
    rows, columns = np.nonzero(alive)
    pairs = _Pairs(rows, positions[columns], np.zeros(len(rows), np.int32))
    if wrong.any():
        for clause in clauses:
            pairs = _apply(pairs, *_grouped_on_pairs(clause, keys, pairs))
    return pairs


def _grouped_on_pairs(
    clause: GroupedClause, keys: _KeysOf, pairs: _Pairs
) -> tuple[npt.NDArray[np.bool_], ErrorCodes | None]:
    true = np.zeros(len(pairs.rows), dtype=bool)
    errors: ErrorCodes | None = None
    for atom in clause.atoms:
        values, row_errors = keys[id(atom)]
        hit = atom.on_pairs(values, pairs.rows, pairs.positions)
        if row_errors is not None:
            here = row_errors[pairs.rows]
            hit &= here == 0
            errors = merge_errors(errors, here)
        true |= hit
    return true, errors


def _waiting_clause(
    clause: Clause, segment: Segment, pairs: _Pairs, evaluation: BatchEvaluation
) -> tuple[npt.NDArray[np.bool_], ErrorCodes | None]:
    """A clause with residual conditions or functions; an atom is asked only about pairs no earlier one made true."""
    true = np.zeros(len(pairs.rows), dtype=bool)
    errors = np.zeros(len(pairs.rows), np.int32)
    for atom in clause.atoms:
        open_ = np.flatnonzero(~true)
        hit, wrong = evaluation.truth_on_pairs(
            atom.condition, segment, pairs.rows[open_], pairs.positions[open_]
        )
        if wrong is not None:
            errors[open_] = np.where(errors[open_] != 0, errors[open_], wrong)
        true[open_] = hit
    errors[true] = 0
    return true, errors if errors.any() else None
