"""A query over a few rows of its inputs: which combinations it takes, and what it gives.

Windows of a count or of arrival time, and functions that are not deterministic, are not asked: what is looked for is known to be
a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.engine import encoded
from eddyline.errors import ReceiptError
from eddyline.expressions import Context, Frame
from eddyline.filters import evaluated_expression, truth
from eddyline.model import (
    AGE,
    BEHIND,
    OLDER,
    Clause,
    Column,
    Expression,
    JoinKey,
    Shape,
    Signature,
    UserCall,
    joined_name,
)
from eddyline.receipts.readings import AnyQuery

MOST_COMBINATIONS = 2_000_000  # that are looked at for one result
NONE = -1  # in place of a row, where an outer join finds none

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MadeRows:
    """Rows of a relation, and for each the arrival numbers of the rows of streams that it is made of."""

    values: pa.RecordBatch
    components: Numbers

    def __len__(self) -> int:
        return len(self.components)


@dataclass(frozen=True, slots=True)
class ComputedJoin:
    """A branch of a query, which may have one input, over rows of these; inputs are in the order of its shape."""

    query: AnyQuery
    shape: Shape
    inputs: Sequence[MadeRows]
    context: Context

    def results(self) -> MadeRows:
        """What it gives, with the rows it is made of in the order of the text."""
        found = self._where(self._combinations())
        frame = self._frame(found)
        columns = [frame.array(evaluated_expression(p.expression, frame)) for p in self.shape.projection]
        values = pa.RecordBatch.from_arrays(columns, schema=self.shape.output)
        return MadeRows(values, self._components(found))

    def matches(self) -> Numbers:
        """Of an outer join the rows of both inputs that match, as pairs of their places."""
        assert self.shape.join is not None, self.shape.key
        pairs = self._inner(self.shape.join.signature)
        return self._passing(pairs, self.shape.join.on.clauses)

    def _combinations(self) -> Numbers:
        join = self.shape.join
        if join is None:
            return np.arange(len(self.inputs[0]))[:, None]
        if not join.signature.outer:
            return self._inner(join.signature)
        pairs = self.matches()
        alone = np.setdiff1d(np.arange(len(self.inputs[0])), pairs[:, 0])
        rows = np.stack([alone, np.full(len(alone), NONE)], axis=1)
        return rows if join.signature.outer == "left anti" else np.concatenate([pairs, rows])

    def _inner(self, signature: Signature) -> Numbers:
        """What the equalities let meet, of rows that pass what is said of each input alone."""
        waiting = sorted(range(len(signature)), key=lambda place: len(self.inputs[place]))
        joined = [waiting.pop(0)]
        found = self._alone(joined[0])[:, None]
        while waiting:
            links = {place: _keys_between(signature, place, joined) for place in waiting}
            place = next((each for each in waiting if links[each]), waiting[0])
            waiting.remove(place)
            found = self._with_input(found, joined, place, links[place])
            joined.append(place)
        return found[:, np.argsort(joined)]

    def _alone(self, place: int) -> Numbers:
        assert self.shape.join is not None
        own, clauses = self.inputs[place], self.shape.join.local[place].clauses
        frame = self._frame_of({name: own.values.column(name) for name in own.values.schema.names}, len(own))
        return np.flatnonzero(_truth(clauses, frame))

    def _with_input(self, found: Numbers, joined: list[int], place: int, keys: Sequence[JoinKey]) -> Numbers:
        """Combinations of some inputs, each with the rows of one more that the keys let it meet."""
        own = self._alone(place)
        if not keys:
            _refuse_many(len(found) * len(own))
            pairs = [(at, row) for at in range(len(found)) for row in own.tolist()]
        else:
            by_key: dict[bytes, list[int]] = {}
            for row, key in zip(own.tolist(), self._key_values(keys, place, own), strict=True):
                if key is not None:
                    by_key.setdefault(key, []).append(row)
            parts = [key.left if key.right == place else key.right for key in keys]
            sides = [
                self._side(key, other, found[:, joined.index(other)])
                for key, other in zip(keys, parts, strict=True)
            ]
            pairs = []
            for at, key in enumerate(_joined_keys(sides)):
                pairs += [(at, row) for row in by_key.get(key, ())] if key is not None else []
                _refuse_many(len(pairs))
        chosen = np.array(pairs, np.int64).reshape(-1, 2)
        return np.column_stack([found[chosen[:, 0]], chosen[:, 1]])

    def _key_values(self, keys: Sequence[JoinKey], place: int, rows: Numbers) -> list[bytes | None]:
        return _joined_keys([self._side(key, place, rows) for key in keys])

    def _side(self, key: JoinKey, place: int, rows: Numbers) -> pa.Array:
        own = self.inputs[place].values.take(pa.array(rows))
        frame = self._frame_of({name: own.column(name) for name in own.schema.names}, len(rows))
        return frame.array(evaluated_expression(key.side(place), frame))

    def _where(self, found: Numbers) -> Numbers:
        return self._passing(found, self.shape.condition.clauses)

    def _passing(self, found: Numbers, clauses: Iterable[Clause]) -> Numbers:
        return found[_truth(clauses, self._frame(found))]

    def _frame(self, found: Numbers) -> Frame:
        """Rows of the join, or of its one input."""
        columns = {}
        for place, each in enumerate(self.inputs):
            rows = pa.array(found[:, place], mask=found[:, place] == NONE)
            for name, column in zip(each.values.schema.names, each.values.columns, strict=True):
                joined = name if self.shape.join is None else joined_name(place, name)
                columns[joined] = column.take(rows)
        return self._frame_of(columns, len(found))

    def _frame_of(self, columns: dict[str, pa.Array], n_rows: int) -> Frame:
        values = zip(self.shape.slots, self.query.constants, strict=False)  # a subquery has none
        slots = [v if isinstance(v, pa.Scalar) else pa.scalar(v, slot.type) for slot, v in values]
        return Frame(n_rows, {("", name): column for name, column in columns.items()}, slots, self.context)

    def _components(self, found: Numbers) -> Numbers:
        """The last row is that of none, which has no numbers."""
        inputs = [
            np.pad(self.inputs[place].components, ((0, 1), (0, 0))) for place in self.shape.written_order
        ]
        return np.hstack(
            [
                numbers[found[:, place]]
                for place, numbers in zip(self.shape.written_order, inputs, strict=True)
            ]
        )


def asks_rows(*expressions: Expression) -> bool:
    """Whether what these say follows from the rows alone."""
    nodes = (node for e in expressions for node in e.walk())
    return not any(
        (isinstance(node, Column) and node.name.partition(".")[2] in (BEHIND, AGE, OLDER))
        or (isinstance(node, UserCall) and not node.is_deterministic)
        for node in nodes
    )


def _truth(clauses: Iterable[Clause], frame: Frame) -> npt.NDArray[np.bool_]:
    found = np.ones(frame.n_rows, dtype=bool)
    for clause in clauses:
        if asks_rows(*(atom.condition for atom in clause.atoms)):
            found &= truth(clause, frame)[0]
    return found


def _keys_between(signature: Signature, place: int, joined: Sequence[int]) -> list[JoinKey]:
    return [
        key
        for key in signature.keys
        if (key.left == place and key.right in joined) or (key.right == place and key.left in joined)
    ]


def _joined_keys(sides: Sequence[pa.Array]) -> list[bytes | None]:
    """One value for those of several keys; None where one of them is NULL."""
    is_valid = np.logical_and.reduce([side.is_valid().to_numpy(zero_copy_only=False) for side in sides])
    values = encoded(sides).to_pylist()
    return [value if valid else None for value, valid in zip(values, is_valid.tolist(), strict=True)]


def _refuse_many(n_combinations: int) -> None:
    if n_combinations > MOST_COMBINATIONS:
        raise ReceiptError(
            "the rows that a result with a set is made of are not looked for",
            detail=f"There are more than {MOST_COMBINATIONS:,} combinations of rows that it may be made of.",
            hint="Ask about a query that joins the tables themselves.",
        )
