"""The rows that results do not name: those in which a row of a set occurs that a join looked up.

A row of SELECT DISTINCT, or one that EXISTS finds a match for, may lose the row it occurs in and go on with another. So a join
that looks it up names none, and has 0 instead (docs/decisions/0029-kept-views.md). A receipt needs one of them. It is found by
computing the query over the rows that the result does name and, for the others, over all that their tables had then:

    query   SELECT t.sym FROM trades t JOIN (SELECT DISTINCT sector FROM quotes) q ON t.sector = q.sector
    result  ACME, of row 7 of trades and 0
    found   row 7 with rows 3 and 5 of quotes; the receipt has 7 and 5

That the row was in the table is what the engine says of it; that it gives the result is for a judge to find. The same tells of a
row that left an outer join of tables because a match came, which row that was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog import CommittedRound
from eddyline.engine import ComponentRows, PastTables, RoundEngine, change_of_key, encoded, fitted
from eddyline.errors import ReceiptError
from eddyline.expressions import Context
from eddyline.model import Role, Shape, Stream, branch_mark, marked_branch
from eddyline.nesting import deep
from eddyline.receipts.computed_joins import ComputedJoin, MadeRows, Numbers, asks_rows
from eddyline.receipts.expansion import WrittenOut
from eddyline.receipts.readings import NO_ROW, Reading


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a relation stands."""

    before: int  # its tables are those before this arrival number
    is_kept: bool = False  # inside a view that a join looks up
    is_unnamed: bool = False  # 0 is the number of some row, not of none
    is_none: bool = False  # an anti join found no row of it


class Occurrences:
    """Finds rows that results of one query in one round are made of."""

    def __init__(
        self,
        rounds: RoundEngine,
        written: WrittenOut,
        committed: CommittedRound,
        known: ComponentRows | None = None,
    ) -> None:
        round_ = committed.round
        self._rounds = rounds
        self._committed = committed
        self._written = written
        self._inputs = written.inputs
        self._reading = written.reading
        self._begin, self._end = round_.first_arrival, committed.last_arrival + 1
        self._known = known or ComponentRows(rounds)
        self._past = PastTables(rounds, round_.version)
        self._context = Context(round_.now_us, rounds.time_zone, rounds.functions.call)
        self._replaced: dict[str, frozenset[int]] = {}  # rows that left in the round, by table
        self._is_current = True  # asks only for rows that tables still have
        self._is_whole = True  # all rows that tables had have been looked at

    @deep
    def named(self, branch: int, components: Sequence[int], result: pa.RecordBatch, sign: int) -> list[int]:
        """The components of a result, with a row for each that it does not name. Raises ReceiptError if there is none.

        Of a result that left these are rows that left, if no other row of it did.
        """
        top = _Place(self._begin if sign < 0 else self._end)
        if not _has_unnamed(self._reading, branch, components, top):
            return list(components)
        shapes = list(self._reading.shapes())
        is_outer = any(shape.join is not None and shape.join.signature.outer for shape in shapes)
        must_leave = sign < 0 and not self._is_left(branch, components)
        for is_current in (False,) if must_leave else (True, False):
            self._is_current, self._is_whole = is_current, True
            found = self._candidates(branch, components, result, top)
            if len(found) and (
                self._is_whole or not is_outer
            ):  # what matches nothing may match a row that is gone
                leaving = self._leaving(branch, found) if must_leave else np.zeros(len(found), dtype=bool)
                oldest = np.where(found > NO_ROW, found, self._end).min(axis=1)
                return [int(number) for number in found[np.lexsort((oldest, leaving))[-1]]]
        raise ReceiptError(
            "the rows that the result is made of are not all retained any more",
            detail="It was made with a row of a set, and the rows in which that occurred have been replaced since.",
            hint="[engine.retention] sets how long rows of rounds are retained (docs/pipeline.md).",
        )

    def _is_left(self, branch: int, components: Sequence[int]) -> bool:
        """Whether something came in the round for the key of a row that a result names."""
        rows = (row for row in self._written.rows_of(branch, components) if row.arrival != NO_ROW)
        return any(
            change_of_key(
                self._rounds, self._committed.round, each.entry.stream, self._known.row(each.arrival)[1].rows
            )
            is not None
            for each in rows
            if each.entry.stream.is_keyed
        )

    def _leaving(self, branch: int, components: Numbers) -> npt.NDArray[np.bool_]:
        """Which rows of the query are made of a row for whose key something came in the round."""
        found = np.zeros(len(components), dtype=bool)
        for at, numbers in enumerate(components.tolist()):
            for row in self._written.rows_of(branch, numbers):
                if row.arrival != NO_ROW and row.entry.stream.is_keyed:
                    found[at] |= row.arrival in self._replaced_rows(row.entry.stream)
        return found

    def _replaced_rows(self, stream: Stream) -> frozenset[int]:
        name = stream.name.lower()
        if name not in self._replaced:
            self._replaced[name] = self._past.replaced(stream, self._committed)
        return self._replaced[name]

    @deep
    def with_match(self, branch: int, components: Sequence[int]) -> list[int] | None:
        """The components of a row that left an outer join of tables, with rows that match it after the round where it had none;
        None if none do."""
        for is_current in (True, False):
            self._is_current = is_current
            found = self._filled(self._reading, branch, components)
            if found is not None:
                return found
        return None

    def _candidates(
        self, branch: int, components: Sequence[int], result: pa.RecordBatch, top: _Place
    ) -> Numbers:
        found = self._branch(self._reading, branch, components, top)
        shape = self._reading.shape(branch)
        names = [str(k) for k, each in enumerate(shape.projection) if asks_rows(each.expression)]
        if not names or not len(found):
            return found.components
        wanted = encoded([result.column(int(k)) for k in names])[0]
        values = encoded([found.values.column(int(k)) for k in names])
        return found.components[np.array([value == wanted for value in values], dtype=bool)]

    # ----------------------------------------------------------------------------------------- views over rows

    def _view(self, reading: Reading, known: Sequence[int], place: _Place) -> MadeRows:
        """The rows of a view that have these components, as far as they are named."""
        is_union = len(reading.branches) > 1
        place = _inside_union(reading, place)
        parts = []
        for branch in range(len(reading.branches)):
            if is_union and not _may_be_of(reading, branch, known[-1], place):
                continue
            made = self._branch(reading, branch, known, place)
            if is_union:
                n_missing = reading.n_components - made.components.shape[1]
                components = np.pad(made.components, ((0, 0), (0, n_missing)))
                components[:, -1] = branch_mark(branch)
                made = MadeRows(made.values, components)
            parts.append(made)
        schema = reading.query.shape.output
        if not parts:
            return MadeRows(
                pa.RecordBatch.from_pylist([], schema), np.zeros((0, reading.n_components), np.int64)
            )
        values = [pa.RecordBatch.from_arrays(each.values.columns, schema=schema) for each in parts]
        return MadeRows(pa.concat_batches(values), np.concatenate([each.components for each in parts]))

    def _branch(self, reading: Reading, branch: int, known: Sequence[int], place: _Place) -> MadeRows:
        return self._join(reading, branch, known, place).results()

    def _join(
        self, reading: Reading, branch: int, known: Sequence[int], place: _Place, unnamed: Sequence[int] = ()
    ) -> ComputedJoin:
        """A branch over rows of what it reads; of the inputs at the places `unnamed` over all that there are."""
        shape = reading.shape(branch)
        place = replace(place, before=self._before(reading, branch, known, place))
        inputs: dict[int, MadeRows] = {}
        for at, (_, read, own) in zip(shape.written_order, reading.entries(branch, known), strict=True):
            inside = _inside(shape, at, place)
            if at in unnamed:
                inside = _Place(place.before, is_kept=True, is_unnamed=True)
            inputs[at] = (
                self._row(read, own[0], inside) if isinstance(read, int) else self._view(read, own, inside)
            )
        return ComputedJoin(reading.query, shape, [inputs[at] for at in sorted(inputs)], self._context)

    def _before(self, reading: Reading, branch: int, known: Sequence[int], place: _Place) -> int:
        """Rows of streams find views as they were before their round."""
        if all(self._inputs[number].stream.is_keyed for number in reading.numbers(branch)):
            return place.before
        latest = max(known)
        return place.before if latest == NO_ROW else self._known.row(latest)[0].first_arrival

    def _row(self, number: int, arrival: int, place: _Place) -> MadeRows:
        """The row of a declared stream, or all that its table had; none where an outer join found none."""
        stream = self._inputs[number].stream
        if arrival != NO_ROW:
            row = self._known.row(arrival)[1].rows
            return MadeRows(fitted(row, stream.schema), np.array([[arrival]], np.int64))
        if place.is_none or not place.is_unnamed:
            return MadeRows(pa.RecordBatch.from_pylist([], stream.schema), np.empty((0, 1), np.int64))
        past = self._past.rows(stream, place.before, is_current=self._is_current)
        self._is_whole &= past.is_whole
        return MadeRows(past.rows, past.arrivals[:, None])

    # ----------------------------------------------------------------------------------------- outer joins

    def _filled(self, reading: Reading, branch: int, known: Sequence[int]) -> list[int] | None:
        shape = reading.shape(branch)
        outer = "" if shape.join is None else shape.join.signature.outer
        entries = list(zip(shape.written_order, reading.entries(branch, known), strict=True))
        filled: dict[int, list[int]] = {at: list(own) for at, (_, _, own) in entries}
        is_filled = False
        for at, (_, read, own) in entries:
            if at == 1 and outer and not any(own):
                join = self._join(reading, branch, known, _Place(self._end), unnamed=(1,))
                matches = join.inputs[1].components[join.matches()[:, 1]].tolist()
                filled[at], is_filled = (max(matches), True) if matches else (filled[at], is_filled)
            elif isinstance(read, Reading):
                below = marked_branch(own[-1]) if len(read.branches) > 1 else 0
                found = self._filled(read, below, own) if any(own) else None
                if found is not None:
                    filled[at] = found + list(own[len(found) :])
                    is_filled = True
        numbers = [number for at, _ in entries for number in filled[at]]
        return numbers if is_filled else None


def _inside(shape: Shape, at: int, place: _Place) -> _Place:
    """The place of what stands at a place of a join, or alone."""
    if shape.join is None:
        return replace(place, is_unnamed=place.is_unnamed or (place.is_kept and shape.is_distinct))
    signature = shape.join.signature
    loses_rows = shape.is_distinct or at in signature.hidden_places
    return replace(
        place,
        is_kept=place.is_kept or signature.inputs[at].role is Role.VIEW,
        is_unnamed=place.is_unnamed or (place.is_kept and loses_rows),
        is_none=place.is_none or (at == 1 and signature.outer == "left anti" and not place.is_unnamed),
    )


def _inside_union(reading: Reading, place: _Place) -> _Place:
    """A kept union with a set among its parts names rows of none of them."""
    is_union = len(reading.branches) > 1
    is_set = place.is_kept and is_union and any(shape.is_counted for shape in reading.shapes())
    return replace(place, is_unnamed=place.is_unnamed or is_set)


def _may_be_of(reading: Reading, branch: int, mark: int, place: _Place) -> bool:
    """Whether a row of a union with this mark may be of a branch."""
    if mark == NO_ROW or (place.is_kept and reading.shape(branch).is_one_set):
        return place.is_unnamed
    return marked_branch(mark) == branch


def _has_unnamed(reading: Reading, branch: int, known: Sequence[int], place: _Place) -> bool:
    """Whether a row of a branch has components that it does not name."""
    shape = reading.shape(branch)
    for at, (_, read, own) in zip(shape.written_order, reading.entries(branch, known), strict=True):
        inside = _inside(shape, at, place)
        if isinstance(read, int):
            if inside.is_unnamed and not inside.is_none and own[0] == NO_ROW:
                return True
            continue
        inside = _inside_union(read, inside)
        branches = range(len(read.branches))
        is_union = len(branches) > 1
        if any(
            _has_unnamed(read, each, own, inside)
            for each in branches
            if not is_union or _may_be_of(read, each, own[-1], inside)
        ):
            return True
    return False
