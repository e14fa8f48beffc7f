"""Rows in flight: TupleBatch with sign, arrival number and lateness, and which queries its rows satisfy.

Which queries, in three forms. `ListHits` and `BitmapHits` are what the predicate index gives: pairs of row and query, nothing
looked up. `PartMatches` are pairs of one segment whose result rows had to be computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model import Column, Expression, Literal, Segment, Shape, Slot

Positions = npt.NDArray[np.int64]
QueryIds = npt.NDArray[np.int32]

# signs of rows: the images of an update, where a row leaves and another one of its identity takes its place, are apart
PREIMAGE, DELETE, INSERT, POSTIMAGE = -2, -1, 1, 2
CHANGES = {PREIMAGE: "update_preimage", DELETE: "delete", INSERT: "insert", POSTIMAGE: "update_postimage"}


def change_names(signs: npt.NDArray[np.int8]) -> list[str]:
    """What users call these signs: the words of Delta's change feed."""
    return [CHANGES[sign] for sign in signs.tolist()]


@dataclass(frozen=True, slots=True)
class TupleBatch:
    """Columns in flight. `sign` is positive for a row that appears and negative for one that leaves."""

    stream: str
    rows: pa.RecordBatch
    arrival: npt.NDArray[np.int64]
    sign: npt.NDArray[np.int8]
    is_late: npt.NDArray[np.bool_]
    # rows that a join made: the arrival numbers of the rows each is made of, in the order of the signature's inputs
    components: npt.NDArray[np.int64] | None = None
    leave_reason: str = ""  # of rows that leave though no row takes them away: CLOSED, FORGOTTEN
    _nbytes: int | None = field(default=None, init=False, repr=False)  # Arrow takes 20 us to add them up

    def __post_init__(self) -> None:
        n = self.rows.num_rows
        assert len(self.arrival) == len(self.sign) == len(self.is_late) == n, (
            f"{self.stream}: {n} rows, {len(self.arrival)} arrivals, {len(self.sign)} signs, {len(self.is_late)} late"
        )

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def nbytes(self) -> int:
        if self._nbytes is None:
            nbytes = self.rows.nbytes + self.arrival.nbytes + self.sign.nbytes + self.is_late.nbytes
            nbytes += 0 if self.components is None else self.components.nbytes
            object.__setattr__(self, "_nbytes", int(nbytes))
        assert self._nbytes is not None
        return self._nbytes

    def take(self, rows: npt.NDArray[np.int64]) -> TupleBatch:
        """The rows at these positions, in this order."""
        return TupleBatch(
            self.stream,
            self.rows.take(pa.array(rows)),
            self.arrival[rows],
            self.sign[rows],
            self.is_late[rows],
            None if self.components is None else self.components[rows],
            self.leave_reason,
        )

    def narrow_copy(self, rows: Positions, columns: Collection[str]) -> TupleBatch:
        """A copy of these rows with these columns alone."""
        names = [name for name in self.rows.schema.names if name in columns]
        if names:
            copied_rows = self.rows.select(names).take(pa.array(rows))
        else:  # an Arrow batch needs a column to have a length
            copied_rows = pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=["_"])
        components = None if self.components is None else self.components[rows]
        marks = self.arrival[rows], self.sign[rows], self.is_late[rows]
        return TupleBatch(self.stream, copied_rows, *marks, components, self.leave_reason)


def concatenated(batches: Sequence[TupleBatch]) -> TupleBatch:
    """The rows of batches of one relation, in their order."""
    if len(batches) == 1:
        return batches[0]
    components = [each.components for each in batches if each.components is not None]
    assert len(components) in (0, len(batches)), (
        f"{len(components)} of {len(batches)} batches have components"
    )
    return TupleBatch(
        batches[0].stream,
        pa.concat_batches([each.rows for each in batches]),
        np.concatenate([each.arrival for each in batches]),
        np.concatenate([each.sign for each in batches]),
        np.concatenate([each.is_late for each in batches]),
        np.concatenate(components) if components else None,
    )


@dataclass(frozen=True, slots=True)
class ListHits:
    """Row i satisfies the queries `ids[offsets[i]:offsets[i + 1]]`, in no particular order."""

    offsets: Positions
    ids: QueryIds

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        return int(self.offsets.nbytes + self.ids.nbytes)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Queries per row."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Positions:
        """The row of each of `ids`."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def rows_of(self, query_id: int) -> Positions:
        """Rows that satisfy a query, ascending."""
        places = np.flatnonzero(self.ids == query_id)
        return np.searchsorted(self.offsets, places, side="right") - 1


@dataclass(frozen=True, slots=True)
class BitmapHits:
    """Row i satisfies the query `ids[lane]` where bit `lane % 64` of `words[i, lane // 64]` is set; lanes of id 0 are empty."""

    words: npt.NDArray[np.uint64]
    ids: QueryIds
    counts: npt.NDArray[np.int32]  # queries per row

    def __post_init__(self) -> None:
        n_rows, n_words = self.words.shape
        assert n_rows == len(self.counts), f"{n_rows} rows of words, counts of {len(self.counts)}"
        assert n_words % 8 == 0, f"{n_words} words a row: kernels take 512 lanes at a time"
        assert n_words * 64 == len(self.ids), f"{n_words} words a row, {len(self.ids)} lanes"

    def __len__(self) -> int:
        return int(self.counts.sum(dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return int(self.words.nbytes + self.counts.nbytes)  # ids belong to the index

    def rows_of(self, query_id: int) -> Positions:
        """Rows that satisfy a query, ascending."""
        lanes = np.flatnonzero(self.ids == query_id)
        if not len(lanes):
            return np.empty(0, np.int64)
        word, bit = divmod(int(lanes[0]), 64)
        return np.flatnonzero(self.words[:, word] & np.uint64(1 << bit))


@dataclass(frozen=True, slots=True)
class PartMatches:
    """Pairs that match, of one segment: `rows` of the batch and `positions` in the segment, side by side.

    `computed` holds projected expressions that had to be evaluated, and what calls of functions that are not deterministic gave,
    one value per pair; plain columns and constants are looked up only when they are read.
    """

    batch: TupleBatch
    segment: Segment
    rows: Positions
    positions: Positions
    computed_values: dict[Expression, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def query_ids(self) -> npt.NDArray[np.int32]:
        return self.segment.ids[self.positions]

    @property
    def arrivals(self) -> npt.NDArray[np.int64]:
        """Arrival number of the row of each pair."""
        return self.batch.arrival[self.rows]

    @property
    def components(self) -> npt.NDArray[np.int64] | None:
        """Arrival numbers of the rows that a join made the row of each pair of, in the order of the query's text."""
        if self.batch.components is None:
            return None
        components, shape = self.batch.components[self.rows], self.segment.shape
        return components if shape.join is None else components[:, shape.written_components]

    @property
    def signs(self) -> npt.NDArray[np.int8]:
        return self.batch.sign[self.rows]

    @property
    def is_late(self) -> npt.NDArray[np.bool_]:
        return self.batch.is_late[self.rows]

    @property
    def leave_reason(self) -> str:
        return self.batch.leave_reason

    @property
    def nbytes(self) -> int:
        """What it holds besides the batch, which other parts hold as well."""
        return int(
            self.rows.nbytes + self.positions.nbytes + sum(v.nbytes for v in self.computed_values.values())
        )

    def project(self, pairs: Positions) -> pa.RecordBatch:
        """The result rows of these pairs."""
        shape = self.segment.shape
        rows, positions = pa.array(self.rows[pairs]), pa.array(self.positions[pairs])
        columns = []
        for projected in shape.projection:
            expression = projected.expression
            if isinstance(expression, Column):
                columns.append(self.batch.rows.column(expression.name).take(rows))
            elif isinstance(expression, Slot):
                columns.append(self.segment.slots[expression.index].take(positions))
            elif isinstance(expression, Literal):
                columns.append(pa.repeat(pa.scalar(expression.value, expression.type), len(pairs)))
            else:
                columns.append(self.computed_values[expression].take(pa.array(pairs)))
        return pa.RecordBatch.from_arrays(columns, schema=shape.output)

    def take(self, pairs: Positions) -> PartMatches:
        """These pairs alone, of the same batch."""
        computed = {
            expression: values.take(pa.array(pairs)) for expression, values in self.computed_values.items()
        }
        return PartMatches(self.batch, self.segment, self.rows[pairs], self.positions[pairs], computed)

    def narrow_copy(self, pairs: Positions) -> PartMatches:
        """These pairs alone, with copies of just the rows, columns and constants they need."""
        mine = self.take(pairs)
        rows, row_of = np.unique(mine.rows, return_inverse=True)
        places, place_of = np.unique(mine.positions, return_inverse=True)
        return PartMatches(
            self.batch.narrow_copy(rows, projected_columns([self.segment.shape])),
            narrowed_segment(self.segment, places),
            row_of.astype(np.int64),
            place_of.astype(np.int64),
            mine.computed_values,
        )


def projected_columns(shapes: Iterable[Shape]) -> frozenset[str]:
    """Names of the input columns that stand in the results of these shapes as they are."""
    expressions = (projected.expression for shape in shapes for projected in shape.projection)
    return frozenset(expression.name for expression in expressions if isinstance(expression, Column))


def narrowed_segment(segment: Segment, positions: Positions) -> Segment:
    """The queries at these positions, ascending, with copies of the constants that stand in their results and NULL for others."""
    shown = {p.expression.index for p in segment.shape.projection if isinstance(p.expression, Slot)}
    constants = tuple(
        column.take(pa.array(positions)) if at in shown else pa.nulls(len(positions))
        for at, column in enumerate(segment.slots)
    )
    return Segment(segment.shape, segment.ids[positions], constants, np.ones(len(positions), dtype=bool))
