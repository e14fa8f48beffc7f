"""The conditions of a segment, sorted by what decides them: its constants alone, the predicate index, or each pair by itself.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: one predicate
index per attribute shared by all queries. A clause is an OR of atoms, a query an AND of clauses.

The index (`index_part.py`) decides grouped clauses for all rows and queries at once. Here they can be decided on (row, query)
pairs too, for the few pairs where that is cheaper, or where a row is in error.

Differs from the paper: several predicates of one query on one attribute are all required (the paper marks a query on any one
of them), and NULL satisfies no comparison, `!=` included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import Positions
from eddyline.errors import IndexBuildError
from eddyline.expressions import (
    Context,
    ErrorCodes,
    Failure,
    Frame,
    as_mask,
    evaluate,
    is_volatile,
    merge_errors,
)
from eddyline.filters.batch_evaluation import BatchEvaluation
from eddyline.filters.faults import isolate_faults, unbuildable_error
from eddyline.filters.keys import Domain, KeyColumn, Mask, compare
from eddyline.model import Atom, AtomKind, Clause, Column, Segment, Slot, UserCall

DECIDED_BY_KEYS = frozenset({AtomKind.COMPARE, AtomKind.IN, AtomKind.NULL_TEST})


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """An IN list per query, as `code * n_queries + query`, sorted."""

    n_queries: int
    pairs: npt.NDArray[np.int64]
    distinct: npt.NDArray[np.int64]  # keys some list has, ascending


@dataclass(frozen=True)
class GroupedAtom:
    """One atom of the shape with the constants of all queries of the segment: one each, or a list each for IN."""

    atom: Atom
    constants: pa.Array | None = None  # None for a NULL test

    @cached_property
    def domain(self) -> Domain | None:
        if self.constants is None:
            return None
        return Domain(self.constants.flatten() if self.atom.kind is AtomKind.IN else self.constants)

    @cached_property
    def _keys(self) -> KeyColumn:
        assert self.domain is not None
        return self.domain.keys(self.constants)

    @cached_property
    def _members(self) -> GroupMembers:
        assert self.domain is not None
        assert self.constants is not None
        lists = list_lengths(self.constants)
        keys = self.domain.keys(self.constants.flatten())
        queries = np.repeat(np.arange(len(lists)), lists)
        values = keys.keys
        if keys.is_null is not None:
            values, queries = values[~keys.is_null], queries[~keys.is_null]
        distinct, codes = np.unique(values, return_inverse=True)
        return GroupMembers(len(lists), np.unique(codes.astype(np.int64) * len(lists) + queries), distinct)

    def on_pairs(
        self, evaluation: BatchEvaluation, rows: Positions, positions: Positions
    ) -> tuple[Mask, ErrorCodes | None]:
        """Where the atom is true, and where its attribute is in error, on (row, query) pairs."""
        assert self.atom.attribute is not None
        values, errors = evaluation.keys(self.atom.attribute, self.domain)
        wrong = None if errors is None else errors[rows]
        if self.atom.kind is AtomKind.NULL_TEST:
            is_null = np.zeros(len(rows), dtype=bool) if values.is_null is None else values.is_null[rows]
            hit = is_null if self.atom.operator == "is null" else ~is_null
        elif self.atom.kind is AtomKind.IN:
            hit = self._in_list(values.take(rows), positions)
        else:
            hit = self._comparison(values.take(rows), positions)
            if wrong is not None and self._keys.is_null is not None:  # a constant that is NULL decides before
                wrong = np.where(self._keys.is_null[positions], np.int32(0), wrong)
        if wrong is not None:
            hit = hit & (wrong == 0)
        return hit, wrong

    def _in_list(self, here: KeyColumn, positions: Positions) -> Mask:
        members = self._members
        codes = code_of(members.distinct, here)
        probes = codes * members.n_queries + positions
        at = np.searchsorted(members.pairs, probes)
        at[at == len(members.pairs)] = 0
        hit = (codes >= 0) & (len(members.pairs) > 0)
        if hit.any():
            hit &= members.pairs[at] == probes
        return hit

    def _comparison(self, here: KeyColumn, positions: Positions) -> Mask:
        there = self._keys.take(positions)
        hit = compare(here.keys, self.atom.operator, there.keys)
        for is_null in (here.is_null, there.is_null):
            if is_null is not None:
                hit &= ~is_null
        return hit


@dataclass(frozen=True, slots=True)
class GroupedClause:
    """A clause all of whose atoms compare keys."""

    clause: Clause
    atoms: tuple[GroupedAtom, ...]

    @property
    def single(self) -> GroupedAtom | None:
        """The atom of a clause that has only one."""
        return self.atoms[0] if len(self.atoms) == 1 else None

    def on_pairs(
        self, evaluation: BatchEvaluation, rows: Positions, positions: Positions
    ) -> tuple[Mask, ErrorCodes | None]:
        """Where the clause is true, and where an atom of it is in error."""
        true = np.zeros(len(rows), dtype=bool)
        errors: ErrorCodes | None = None
        for atom in self.atoms:
            hit, wrong = atom.on_pairs(evaluation, rows, positions)
            true |= hit
            errors = merge_errors(errors, wrong) if wrong is not None else errors
        return true, errors


@dataclass(frozen=True, slots=True)
class GroupedFilter:
    """A segment made ready: which clauses are grouped, which wait for pairs, which queries are settled by their constants.

    A clause of one LIKE is in `bounded`, since its prefix bounds what can match, and in `waiting`, since only some patterns are
    no more than that.
    """

    grouped_clauses: tuple[GroupedClause, ...]
    bounded_clauses: tuple[GroupedClause, ...]
    residual_clauses: tuple[Clause, ...]  # cheap ones first, those that call functions last
    is_open: Mask  # queries not refuted by their constants alone
    constant_errors: ErrorCodes | None  # clauses of constants only that are in error
    failures: tuple[Failure, ...] = field(default=())  # the failures `constant_errors` numbers
    faults: Mapping[int, Exception] = field(default_factory=dict)  # queries, by place, that are not in it


def grouped_filter(segment: Segment, context: Context) -> GroupedFilter:
    """Group the atoms of a segment; remembered with it, since it depends on constants only.

    Raises IndexBuildError with the queries that run and cannot be grouped.
    """
    ready = segment.cache.get("grouped filter")
    if ready is None:
        try:
            ready = _group(segment, context)
        except Exception:
            ready = _without_faults(segment, context)
        if not any(segment.is_live[at] for at in ready.faults):
            segment.cache["grouped filter"] = ready
    assert isinstance(ready, GroupedFilter)
    if ready.faults:
        running = {at: error for at, error in ready.faults.items() if segment.is_live[at]}
        if running:
            raise unbuildable_error({int(segment.ids[at]): error for at, error in running.items()})
    return ready


def grouped_filters(segments: Iterable[Segment], context: Context) -> list[GroupedFilter]:
    """Those of several segments; the queries of all of them that cannot be grouped are in one error."""
    found: list[GroupedFilter] = []
    failed: list[IndexBuildError] = []
    for segment in segments:
        try:
            found.append(grouped_filter(segment, context))
        except IndexBuildError as error:
            failed.append(error)
    if failed:
        failed[0].whys = {query_id: why for error in failed for query_id, why in error.whys.items()}
        raise failed[0]
    return found


def _without_faults(segment: Segment, context: Context) -> GroupedFilter:
    """The segment with the queries at fault set apart: the constants of another query take their places."""

    def group(first: int, until: int) -> range:
        slots = tuple(column.slice(first, until - first) for column in segment.slots)
        _group(Segment(segment.shape, segment.ids[first:until], slots, segment.is_live[first:until]), context)
        return range(first, until)

    found = isolate_faults(len(segment), group)
    if not found.built_parts:
        nothing = np.zeros(len(segment), dtype=bool)
        return GroupedFilter((), (), (), nothing, None, faults=found.faults)
    places = np.arange(len(segment))
    places[list(found.faults)] = found.built_parts[0][0]
    slots = tuple(column.take(pa.array(places)) for column in segment.slots)
    sound = _group(Segment(segment.shape, segment.ids, slots, segment.is_live), context)
    return replace(sound, faults=found.faults)


def list_lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    """Lengths of the lists of a list array; NULL counts as empty."""
    return np.asarray(lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64)


def code_of(distinct: npt.NDArray[np.int64], values: KeyColumn) -> npt.NDArray[np.int64]:
    """For each value its place among `distinct`, or -1."""
    if not len(distinct):
        return np.full(len(values.keys), -1, dtype=np.int64)
    at = np.searchsorted(distinct, values.keys)
    at[at == len(distinct)] = 0
    codes = np.where(distinct[at] == values.keys, at, -1)
    return codes if values.is_null is None else np.where(values.is_null, -1, codes)


def _group(segment: Segment, context: Context) -> GroupedFilter:
    frame = Frame(len(segment), {}, list(segment.slots), context)
    is_open = np.ones(len(segment), dtype=bool)
    errors: ErrorCodes | None = None
    grouped, bounded, waiting = [], [], []
    for clause in segment.shape.condition.clauses:
        kinds = {atom.kind for atom in clause.atoms}
        if kinds == {AtomKind.CONSTANT} and not any(is_volatile(atom.condition) for atom in clause.atoms):
            true, wrong = _constant_truth(clause, frame)
            is_open &= true | (wrong != 0)
            errors = merge_errors(errors, wrong) if wrong.any() else errors
            continue
        atoms = [_grouped_atom(atom, frame) for atom in clause.atoms]
        settled = tuple(atom for atom in atoms if atom is not None)
        if kinds <= DECIDED_BY_KEYS and len(settled) == len(atoms):
            grouped.append(GroupedClause(clause, settled))
            continue
        waiting.append(clause)
        if kinds == {AtomKind.LIKE} and len(settled) == len(atoms) == 1:
            bounded.append(GroupedClause(clause, settled))
    for never in segment.shape.condition.never:
        is_open &= ~as_mask(evaluate(never, frame).values, len(segment))
    waiting.sort(key=_calls_function)
    return GroupedFilter(
        tuple(grouped), tuple(bounded), tuple(waiting), is_open, errors, tuple(frame.failures)
    )


def _grouped_atom(atom: Atom, frame: Frame) -> GroupedAtom | None:
    """The atom with its constants, or None where they are not one value per query for all rounds.

    Nor is IS NULL of a computed attribute grouped: to the index a row in error looks like NULL.
    """
    if atom.constant is None:
        is_told_apart = isinstance(atom.attribute, Column) or atom.operator != "is null"
        return GroupedAtom(atom) if is_told_apart else None
    if isinstance(atom.constant, Slot):
        column = frame.slots[atom.constant.index]
        return GroupedAtom(atom, column if isinstance(column, pa.Array) else frame.array(column))
    if is_volatile(atom.constant):
        return None
    result = evaluate(atom.constant, frame)
    return None if result.errors is not None else GroupedAtom(atom, frame.array(result))


def _calls_function(clause: Clause) -> bool:
    return any(isinstance(node, UserCall) for atom in clause.atoms for node in atom.condition.walk())


def _constant_truth(clause: Clause, frame: Frame) -> tuple[Mask, ErrorCodes]:
    true = np.zeros(frame.n_rows, dtype=bool)
    wrong = np.zeros(frame.n_rows, np.int32)
    for atom in clause.atoms:
        result = evaluate(atom.condition, frame)
        true |= as_mask(result.values, frame.n_rows)
        if result.errors is not None:
            wrong = np.where(wrong != 0, wrong, result.errors)
    return true, np.where(true, 0, wrong).astype(np.int32)
