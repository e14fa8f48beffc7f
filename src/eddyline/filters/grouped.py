"""The grouped filter: the indexable atoms of a segment's queries, decided for many (row, query) pairs at once.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: one predicate
index per attribute shared by all queries. A clause is an OR of atoms, a query an AND of clauses.

Differs from the paper: several predicates of one query on one attribute are all required (the paper marks a query on any one
of them), and NULL satisfies no comparison, `!=` included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import Positions
from eddyline.expressions import Context, Failure, Frame, evaluate, is_volatile
from eddyline.expressions.frame import ErrorCodes, as_mask
from eddyline.filters.keys import Domain, KeyColumn, Mask, compare
from eddyline.filters.shared import BatchEvaluation
from eddyline.model import Atom, AtomKind, Clause, Expression, Segment, UserCall

INDEXABLE = (AtomKind.COMPARE, AtomKind.IN, AtomKind.NULL_TEST)


@dataclass(frozen=True, slots=True)
class Members:
    """An IN list per query: `code * n_queries + query`, sorted, to test pairs; and queries by code, to find candidates."""

    n_queries: int
    pairs: npt.NDArray[np.int64]
    distinct: npt.NDArray[np.int64]  # keys some list has, ascending
    offsets: npt.NDArray[np.int64]
    queries: npt.NDArray[np.int64]  # of distinct[k]: queries[offsets[k]:offsets[k + 1]], ascending


@dataclass(frozen=True, slots=True)
class GroupedAtom:
    """One atom of the shape with the constants of all queries of the segment."""

    atom: Atom
    domain: Domain | None = None
    constants: KeyColumn | None = None  # COMPARE
    members: Members | None = None  # IN, and = as access path

    def on_pairs(self, values: KeyColumn, rows: Positions, positions: Positions) -> Mask:
        """Where the atom is true, on (row, query) pairs."""
        if self.atom.kind is AtomKind.NULL_TEST:
            return self._null_test(values)[rows]
        here = values.take(rows)
        if self.atom.kind is AtomKind.IN:
            assert self.members is not None
            codes = _code_of(self.members.distinct, here)
            wanted = codes * self.members.n_queries + positions
            at = np.searchsorted(self.members.pairs, wanted)
            at[at == len(self.members.pairs)] = 0
            hit = (codes >= 0) & (len(self.members.pairs) > 0)
            if hit.any():
                hit &= self.members.pairs[at] == wanted
            return hit
        assert self.constants is not None
        there = self.constants.take(positions)
        hit = compare(here.keys, self.atom.operator, there.keys)
        return _known(_known(hit, here.is_null), there.is_null)

    def on_block(self, values: KeyColumn, n_rows: int, positions: Positions) -> Mask:
        """Where the atom is true, as rows x queries, or one column for all queries."""
        if self.atom.kind is AtomKind.NULL_TEST:
            return self._null_test(values)[:, None]
        if self.atom.kind is AtomKind.IN:
            rows = np.repeat(np.arange(n_rows), len(positions))
            return self.on_pairs(values, rows, np.tile(positions, n_rows)).reshape(n_rows, len(positions))
        assert self.constants is not None
        there = self.constants.take(positions)
        hit = compare(values.keys[:, None], self.atom.operator, there.keys[None, :])
        if values.is_null is not None:
            hit &= ~values.is_null[:, None]
        if there.is_null is not None:
            hit &= ~there.is_null[None, :]
        return hit

    def _null_test(self, values: KeyColumn) -> Mask:
        is_null = values.is_null if values.is_null is not None else np.zeros(len(values.keys), dtype=bool)
        return is_null if self.atom.operator == "is null" else ~is_null


@dataclass(frozen=True, slots=True)
class GroupedClause:
    """A clause all of whose atoms are indexable."""

    clause: Clause
    atoms: tuple[GroupedAtom, ...]

    @property
    def is_access(self) -> bool:
        """Whether it can name its candidates: a single equality or IN."""
        return len(self.atoms) == 1 and self.atoms[0].members is not None


@dataclass(frozen=True, slots=True)
class GroupedFilter:
    """A segment made ready: which clauses are grouped, which wait for pairs, which queries are settled by their constants."""

    grouped: tuple[GroupedClause, ...]
    waiting: tuple[Clause, ...]  # cheap ones first, those that call functions last
    is_open: Mask  # queries not refuted by their constants alone
    constant_errors: ErrorCodes | None  # clauses of constants only that are in error
    failures: tuple[Failure, ...]  # what `constant_errors` stands for

    def attributes(self) -> list[Expression]:
        return [a.atom.attribute for c in self.grouped for a in c.atoms if a.atom.attribute is not None]


def grouped_filter(segment: Segment, context: Context) -> GroupedFilter:
    """Group the atoms of a segment; remembered with it, since it depends on constants only."""
    ready = segment.cache.get("grouped filter")
    if ready is None:
        ready = segment.cache["grouped filter"] = _group(segment, context)
    assert isinstance(ready, GroupedFilter)
    return ready


def _group(segment: Segment, context: Context) -> GroupedFilter:
    frame = Frame(len(segment), {}, list(segment.slots), context)
    domains = _domains(segment, frame)
    is_open = np.ones(len(segment), dtype=bool)
    errors = np.zeros(len(segment), np.int32)
    grouped, waiting = [], []
    for clause in segment.shape.condition.clauses:
        kinds = {atom.kind for atom in clause.atoms}
        if kinds == {AtomKind.CONSTANT} and not any(is_volatile(atom.condition) for atom in clause.atoms):
            true, wrong = _constant_truth(clause, frame)
            is_open &= true | (wrong != 0)
            errors = np.where(errors != 0, errors, np.where(true, 0, wrong)).astype(np.int32)
        elif kinds <= set(INDEXABLE) and all(_is_settled(atom, frame) for atom in clause.atoms):
            atoms = tuple(
                _grouped_atom(atom, segment, frame, domains, len(clause.atoms) == 1) for atom in clause.atoms
            )
            grouped.append(GroupedClause(clause, atoms))
        else:
            waiting.append(clause)
    for never in segment.shape.condition.never:
        is_open &= ~as_mask(evaluate(never, frame).values, len(segment))
    waiting.sort(key=_calls_function)
    return GroupedFilter(
        tuple(grouped), tuple(waiting), is_open, errors if errors.any() else None, tuple(frame.failures)
    )


def _is_settled(atom: Atom, frame: Frame) -> bool:
    """Whether the atom's constant has one value per query, for all rounds."""
    if atom.constant is None:
        return True
    return not is_volatile(atom.constant) and evaluate(atom.constant, frame).errors is None


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


def _domains(segment: Segment, frame: Frame) -> dict[Expression, Domain]:
    """One domain per attribute, over all constants it meets in this segment."""
    met: dict[Expression, list[pa.Array]] = {}
    for clause in segment.shape.condition.clauses:
        for atom in clause.atoms:
            if atom.kind in (AtomKind.COMPARE, AtomKind.IN) and _is_settled(atom, frame):
                assert atom.attribute is not None
                assert atom.constant is not None
                values = frame.array(evaluate(atom.constant, frame))
                if atom.kind is AtomKind.IN:
                    values = values.flatten()
                met.setdefault(atom.attribute, []).append(values)
    return {attribute: Domain(pa.concat_arrays(constants)) for attribute, constants in met.items()}


def _grouped_atom(
    atom: Atom, segment: Segment, frame: Frame, domains: dict[Expression, Domain], is_single: bool
) -> GroupedAtom:
    if atom.kind is AtomKind.NULL_TEST:
        return GroupedAtom(atom)
    assert atom.attribute is not None
    assert atom.constant is not None
    domain = domains[atom.attribute]
    values = frame.array(evaluate(atom.constant, frame))
    if atom.kind is AtomKind.IN:
        lengths = np.asarray(values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)).astype(
            np.int64
        )
        queries = np.repeat(np.arange(len(segment)), lengths)
        return GroupedAtom(
            atom, domain, members=_members(domain.keys(values.flatten()), queries, len(segment))
        )
    constants = domain.keys(values)
    members = None
    if is_single and atom.operator == "=":
        members = _members(constants, np.arange(len(segment)), len(segment))
    return GroupedAtom(atom, domain, constants, members)


def _members(keys: KeyColumn, queries: Positions, n_queries: int) -> Members:
    """Queries by key, NULLs left out."""
    values = keys.keys
    if keys.is_null is not None:
        values, queries = values[~keys.is_null], queries[~keys.is_null]
    distinct, codes = np.unique(values, return_inverse=True)
    pairs = np.unique(codes.astype(np.int64) * n_queries + queries)
    codes, queries = np.divmod(pairs, n_queries)
    offsets = np.searchsorted(codes, np.arange(len(distinct) + 1))
    return Members(n_queries, pairs, distinct, offsets, queries)


def _code_of(distinct: npt.NDArray[np.int64], values: KeyColumn) -> npt.NDArray[np.int64]:
    """For each value its place among `distinct`, or -1."""
    if not len(distinct):
        return np.full(len(values.keys), -1, dtype=np.int64)
    at = np.searchsorted(distinct, values.keys)
    at[at == len(distinct)] = 0
    codes = np.where(distinct[at] == values.keys, at, -1)
    return codes if values.is_null is None else np.where(values.is_null, -1, codes)


def candidates(members: Members, values: KeyColumn) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each row, where its candidates start in `members.queries` and how many there are."""
    codes = _code_of(members.distinct, values)
    starts = np.where(codes >= 0, members.offsets[np.maximum(codes, 0)] if len(members.distinct) else 0, 0)
    ends = np.where(codes >= 0, members.offsets[np.maximum(codes, 0) + 1] if len(members.distinct) else 0, 0)
    return starts, ends - starts


def attribute_keys(
    grouped: GroupedFilter, evaluation: BatchEvaluation
) -> dict[int, tuple[KeyColumn, ErrorCodes | None]]:
    """Keys of every attribute on all rows, by the identity of the grouped atom."""
    found: dict[int, tuple[KeyColumn, ErrorCodes | None]] = {}
    for clause in grouped.grouped:
        for atom in clause.atoms:
            assert atom.atom.attribute is not None
            result = evaluation.on_all_rows(atom.atom.attribute)
            values = result.values
            if isinstance(values, pa.Scalar):
                values = pa.repeat(values, len(evaluation.batch))
            if atom.domain is None:
                is_null = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
                keys = KeyColumn(np.zeros(len(values), np.int64), is_null)
            else:
                keys = atom.domain.keys(values)
            found[id(atom)] = keys, result.errors
    return found


def _known(hit: Mask, is_null: Mask | None) -> Mask:
    return hit if is_null is None else hit & ~is_null
