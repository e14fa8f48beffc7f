"""A table whose rows are rules: conditions on the rows of a stream, answered by the predicate index instead of by probes.

    SELECT w.user_id, t.* FROM trades t JOIN watches w ON t.sym = w.sym AND t.price BETWEEN w.low AND w.high

Every row of watches asks for `sym = ?, price >= ?, price <= ?`. That is a query shape with three constants, and a million watches
are a million queries of it, which is what filters are for. A probe by sym would find all watches of a symbol to throw most away.

Which rows of the table were current when a row of the stream came, the index does not know. It holds all that were at some time
during a round; the caller then leaves out what was not (`KeyedTable.is_current_at`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from eddyline.expressions import FLIPPED, call, is_volatile
from eddyline.joins.join_tree import join_tree
from eddyline.joins.probe_matches import Evaluate, Ints
from eddyline.joins.table_rows import GrowingArray
from eddyline.model import (
    Atom,
    AtomKind,
    Call,
    Clause,
    Column,
    Condition,
    Expression,
    Input,
    PlanChanges,
    Role,
    Segment,
    Shape,
    Signature,
    Slot,
    SlotInfo,
    StreamPlan,
    UserCall,
    joined_name,
)

MOST_IDS = (1 << 31) - 1
RANGES = frozenset({"<", "<=", ">", ">="})


# --------------------------------------------------------------------------------------------- the form of a rule


@dataclass(frozen=True, slots=True)
class RuleForm:
    """How the rows of a table read as queries over a stream.

    `shape` is over the stream's own columns. Slot k of a rule is what `constants[k]`, over the table's own columns, gives on its
    row. `decided_clauses` are the clauses of the join that the shape decides entirely, besides the equalities between the two.
    """

    shape: Shape
    constants: tuple[Expression, ...]
    decided_clauses: tuple[Clause, ...]


def rule_form(signature: Signature, stream: int, table: int, clauses: Iterable[Clause]) -> RuleForm | None:
    """How the table at one place of a join reads as rules for the stream at another; None if it is better probed.

    `clauses` are conditions over the join's rows that every query to be answered has. Those are used that compare something of
    the stream with something of the table. If none of them is about a range, the table is probed by its key; and so it is if its
    key is equal to something of another table alone, since rules know nothing but the stream.
    """
    if signature.inputs[table].role is not Role.TABLE or signature.outer:
        return None
    tree = join_tree(signature, stream)
    if tree.parents[table] != stream:
        return None
    constants: list[Expression] = []
    # what a probe would check, also what follows from equalities with others, and whatever else is equal to the stream
    equal = dict.fromkeys(zip(tree.parent_keys[table], tree.child_keys[table], strict=True)) | dict.fromkeys(
        (key.side(stream), key.side(table))
        for key in signature.keys
        if {key.left, key.right} == {stream, table}
    )
    rule_clauses = [Clause((_atom(call("=", [ours, _slot(theirs, constants)])),)) for ours, theirs in equal]
    decided = []
    for clause in clauses:
        tests = [_comparison(atom.condition, stream, table) for atom in clause.atoms]
        if any(test is None for test in tests):
            continue
        atoms = [
            _atom(call(operator, [ours, _slot(theirs, constants)]))
            for ours, operator, theirs in filter(None, tests)
        ]
        rule_clauses.append(Clause(tuple(atoms)))
        decided.append(clause)
    if not any(atom.operator in RANGES for clause in rule_clauses for atom in clause.atoms):
        return None
    slots = tuple(SlotInfo(k, constant.type, f"rule{k}") for k, constant in enumerate(constants))
    name = signature.inputs[stream].stream
    shape = Shape(
        f"rules of input {table} for input {stream} of {signature.name}",
        (Input(name, name),),
        (),
        Condition(tuple(rule_clauses)),
        slots,
    )
    return RuleForm(shape, tuple(constants), tuple(decided))


def _comparison(condition: Expression, stream: int, table: int) -> tuple[Expression, str, Expression] | None:
    """What of the stream is compared with what of the table, each over its own columns; None for any other condition."""
    if not isinstance(condition, Call) or condition.function not in FLIPPED:
        return None
    if is_volatile(condition) or any(isinstance(node, (UserCall, Slot)) for node in condition.walk()):
        return None
    left, right = condition.arguments
    sides = {stream: _over(left, stream), table: _over(right, table)}
    operator = condition.function
    if None in sides.values():
        sides = {stream: _over(right, stream), table: _over(left, table)}
        operator = FLIPPED[operator]
    ours, theirs = sides[stream], sides[table]
    return None if ours is None or theirs is None else (ours, operator, theirs)


def _over(expression: Expression, place: int) -> Expression | None:
    """The expression over the own columns of an input, if it is about nothing else, and about that."""
    columns = [node for node in expression.walk() if isinstance(node, Column)]
    own = joined_name(place, "")
    if not columns or any(not c.name.startswith(own) or c.name.startswith(f"{own}#") for c in columns):
        return None
    return expression.with_leaves(
        lambda leaf: replace(leaf, name=leaf.name.removeprefix(own)) if isinstance(leaf, Column) else leaf
    )


def _slot(constant: Expression, constants: list[Expression]) -> Slot:
    """The slot of an expression over the table; the same for the same."""
    if constant not in constants:
        constants.append(constant)
    return Slot(constant.type, constants.index(constant))


def _atom(condition: Expression) -> Atom:
    assert isinstance(condition, Call)
    attribute, constant = condition.arguments
    return Atom(AtomKind.COMPARE, condition, attribute, condition.function, constant)


# --------------------------------------------------------------------------------------------- the rules


class Rules:
    """The rows of a table as queries, followed from change to change.

    A rule has an id, from 1 on, and is known by the arrival number its row came with. A filter stage is built from `plan`.
    """

    def __init__(self, form: RuleForm, evaluate: Evaluate) -> None:
        self.form = form
        self._evaluate = evaluate
        self._arrival = GrowingArray(np.int64)  # by id; 0 belongs to no rule
        self._arrival.extend(np.full(1, -1))
        self._segments: list[Segment] = []  # ids ascending, also from one to the next
        self._version = 0
        self._changes = PlanChanges()
        self._n_noted = 0

    def __len__(self) -> int:
        return sum(segment.n_live for segment in self._segments)

    @property
    def plan(self) -> StreamPlan:
        shape = self.form.shape
        return StreamPlan(shape.stream, self._version, tuple(self._segments), self._changes)

    @property
    def nbytes(self) -> int:
        return self._arrival.nbytes + sum(segment.nbytes for segment in self._segments)

    def add(self, rows: pa.RecordBatch, arrival: Ints) -> None:
        """Rows of the table became rules. They came later than all that are there."""
        if not rows.num_rows:
            return
        is_again = arrival[0] <= self._arrival.values[-1]  # numbers of a round that was undone
        if is_again or len(self._arrival) + rows.num_rows > MOST_IDS:
            self._number_anew()
        last = self._arrival.values[-1:]
        assert (np.diff(arrival, prepend=last) > 0).all(), f"{arrival} behind {last}"
        first = len(self._arrival)
        ids = np.arange(first, first + rows.num_rows, dtype=np.int32)
        slots = tuple(self._evaluate(constant, rows) for constant in self.form.constants)
        self._arrival.extend(arrival)
        self._segments.append(Segment(self.form.shape, ids, slots, np.ones(len(ids), dtype=bool)))
        while len(self._segments) > 1 and len(self._segments[-2]) < 2 * len(self._segments[-1]):
            self._segments[-2:] = [_merged_segment(*self._segments[-2:])]
        self._note(ids)

    def drop(self, arrival: Ints) -> None:
        """The rows that came with these numbers are rules no more; other numbers are ignored."""
        ids = np.searchsorted(self._arrival.values, arrival)
        ids = ids[ids < len(self._arrival)]
        ids = np.unique(ids[np.isin(self._arrival.values[ids], arrival)]).astype(np.int32)
        dropped_ids = []
        for k, segment in enumerate(self._segments):
            segment_ids = ids[(ids >= segment.ids[0]) & (ids <= segment.ids[-1])]
            places = np.searchsorted(segment.ids, segment_ids)
            places[places == len(segment)] = 0
            places = places[(segment.ids[places] == segment_ids) & segment.is_live[places]]
            if len(places):
                is_live = segment.is_live.copy()
                is_live[places] = False
                dropped_ids.append(segment.ids[places])
                self._segments[k] = replace(segment, is_live=is_live)
        self._segments = [segment for segment in self._segments if segment.is_live.any()]
        if dropped_ids:
            self._note(np.concatenate(dropped_ids))

    def arrival_of(self, ids: Sequence[int] | Ints) -> Ints:
        """The arrival numbers of the rows that these rules are."""
        return self._arrival.values[ids]

    def check(self) -> None:
        """Assert that ids and arrival numbers ascend, and that every rule has its constants."""
        ids = np.concatenate([np.empty(0, np.int32), *(segment.ids for segment in self._segments)])
        assert (np.diff(ids) > 0).all(), f"ids do not ascend: {ids}"
        assert not len(ids) or 0 < ids[0] <= ids[-1] < len(self._arrival), f"ids {ids[0]} to {ids[-1]}"
        assert (np.diff(self._arrival.values) > 0).all(), "arrival numbers do not ascend"
        for segment in self._segments:
            lengths = [len(column) for column in segment.slots]
            assert lengths == [len(segment)] * len(self.form.constants), f"{lengths} for {len(segment)} rules"

    def _note(self, ids: Ints) -> None:
        """The next version: these came, or left."""
        self._version += 1
        self._n_noted += len(ids)
        if self._n_noted > 2 * len(self) + (1 << 16):  # notes of rules long dropped: an index is built anew
            self._changes, self._n_noted = PlanChanges(self._version), 0
        else:
            self._changes.note(self._version, self.form.shape, np.sort(ids).astype(np.int32))

    def _number_anew(self) -> None:
        """Ids from 1 on for the rules there are."""
        if self._segments:
            whole = _merged_segment(*self._segments)
            came = self._arrival.values[whole.ids]
            self._arrival.replace(np.concatenate((self._arrival.values[:1], came)))
            self._segments = [replace(whole, ids=np.arange(1, len(whole) + 1, dtype=np.int32), cache={})]
        else:
            self._arrival.resize(1)
        self._version += 1
        self._changes, self._n_noted = PlanChanges(self._version), 0


def _merged_segment(*segments: Segment) -> Segment:
    """The rules of all of them that are still there."""
    live = [np.flatnonzero(segment.is_live) for segment in segments]
    ids = np.concatenate([segment.ids[rows] for segment, rows in zip(segments, live, strict=True)])
    slots = tuple(
        pa.concat_arrays([s.slots[k].take(pa.array(rows)) for s, rows in zip(segments, live, strict=True)])
        for k in range(len(segments[0].slots))
    )
    return Segment(segments[0].shape, ids, slots, np.ones(len(ids), dtype=bool))
